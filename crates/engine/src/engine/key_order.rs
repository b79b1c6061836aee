//! Partitions that keep the order of their keys.

use super::{Engine, Handle};
use crate::disk::Disk;
use crate::error::EngineResult;
use crate::index::key_order::{KeyRange, KeysOfRange};

impl<D: Disk> Engine<D> {
    /// Keeps the order of a partition's keys from here on, until the engine is closed. Reads every key once, unless the order is
    /// kept already.
    ///
    /// # Errors
    /// [`crate::EngineError::Corrupt`] if a key cannot be read; errors of the disk. A later call, or the first read of a range, tries
    /// again.
    pub fn keep_key_order(&mut self, handle: Handle) -> EngineResult<()> {
        let (io, store) = self.store(handle)?;
        store.keep_key_order(io)
    }

    /// Whether the order of a partition's keys is to be kept ([`Engine::keep_key_order`]).
    #[must_use]
    pub fn is_ordered(&self, handle: Handle) -> bool {
        let store = self.partitions.get(handle.0 as usize);
        store.is_some_and(|store| store.as_ref().is_some_and(|store| store.order.is_wanted()))
    }

    /// Keys of a range in its direction, at most so many, fewer if they are long. `at`: those that had a record at this
    /// timestamp, which is not below the horizon, and possibly more keys.
    ///
    /// # Errors
    /// [`crate::EngineError::NotOrdered`]; as [`Engine::keep_key_order`].
    pub fn keys_in_order(
        &mut self,
        handle: Handle,
        range: KeyRange<'_>,
        most: usize,
        at: Option<u64>,
    ) -> EngineResult<KeysOfRange> {
        let (io, store) = self.store(handle)?;
        store.keys_in_order(io, range, most, at)
    }

    /// The number of keys of a range.
    ///
    /// # Errors
    /// As [`Engine::keys_in_order`].
    pub fn count_in_order(&mut self, handle: Handle, range: KeyRange<'_>) -> EngineResult<u64> {
        let (io, store) = self.store(handle)?;
        store.count_in_order(io, range)
    }
}
