//! Partitions that keep the order of their keys.

use super::{Engine, Handle, store_of};
use crate::disk::Disk;
use crate::error::EngineResult;
use crate::index::key_order::{KeyRange, KeysOfRange};

impl<D: Disk> Engine<D> {
    /// Keeps the order of a partition's keys from here on, until the engine is closed. Reads every key once, unless the order is
    /// kept already.
    ///
    /// # Errors
    /// [`crate::EngineError::Corrupt`] if a key cannot be read; errors of the disk. The order is not kept then, and the call may
    /// be repeated.
    pub fn keep_key_order(&mut self, handle: Handle) -> EngineResult<()> {
        let (io, store) = self.store(handle)?;
        store.keep_key_order(io)
    }

    /// Whether the order of a partition's keys is kept.
    ///
    /// # Errors
    /// [`crate::EngineError::UnknownPartition`].
    pub fn keeps_key_order(&self, handle: Handle) -> EngineResult<bool> {
        match self.partitions.get(handle.0 as usize) {
            Some(Some(store)) => Ok(store.order.is_some()),
            _ => Err(crate::EngineError::UnknownPartition),
        }
    }

    /// Keys of a range in its direction, at most so many, fewer if they are long. `at`: those that had a record at this
    /// timestamp, which is not below the horizon, and possibly more keys.
    ///
    /// # Errors
    /// [`crate::EngineError::NotOrdered`].
    pub fn keys_in_order(
        &mut self,
        handle: Handle,
        range: KeyRange<'_>,
        most: usize,
        at: Option<u64>,
    ) -> EngineResult<KeysOfRange> {
        store_of(&mut self.partitions, handle)?.keys_in_order(range, most, at)
    }

    /// The number of keys of a range.
    ///
    /// # Errors
    /// [`crate::EngineError::NotOrdered`].
    pub fn count_in_order(&mut self, handle: Handle, range: KeyRange<'_>) -> EngineResult<u64> {
        store_of(&mut self.partitions, handle)?.count_in_order(range)
    }
}
