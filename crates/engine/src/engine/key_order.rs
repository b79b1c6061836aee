//! The order of the keys of a partition.

use super::store_of;
use super::{Engine, Handle};
use crate::disk::Disk;
use crate::error::{EngineError, EngineResult};
use crate::index::key_order::{KeyOrder, KeyRange, KeysOfRange};
use crate::io::Io;
use crate::store::PartitionStore;

/// The order of the keys of one partition. Borrowed from the engine for a call ([`Engine::key_order`]).
pub struct KeyOrderView<'e, D> {
    io: &'e mut Io<D>,
    store: &'e mut PartitionStore,
}

impl<'e, D: Disk> KeyOrderView<'e, D> {
    pub(super) fn of(engine: &'e mut Engine<D>, handle: Handle) -> EngineResult<KeyOrderView<'e, D>> {
        let Engine { io, partitions, .. } = engine;
        Ok(KeyOrderView { io, store: store_of(partitions, handle)? })
    }

    /// Keeps the order from here on, until the engine is closed. Reads every key once, unless the order is kept already.
    ///
    /// # Errors
    /// [`EngineError::Corrupt`] if a key cannot be read; errors of the disk. A later call, or the first read of a range, tries
    /// again.
    pub fn keep(self) -> EngineResult<()> {
        self.store.index.want_order();
        self.store.complete_order(self.io)
    }

    /// Whether the order is to be kept.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.store.index.is_ordered()
    }

    /// Keys of a range in its direction, at most so many, fewer if they are long. `at`: those that had a record at this
    /// timestamp, which is not below the horizon, and possibly more keys.
    ///
    /// # Errors
    /// [`EngineError::NotOrdered`]; as [`KeyOrderView::keep`].
    pub fn keys(self, range: KeyRange<'_>, most: usize, at: Option<u64>) -> EngineResult<KeysOfRange> {
        Ok(self.complete()?.keys_of(range, most, at))
    }

    /// The number of keys with a record in a range.
    ///
    /// # Errors
    /// As [`KeyOrderView::keys`].
    pub fn count(self, range: KeyRange<'_>) -> EngineResult<usize> {
        Ok(self.complete()?.count(range))
    }

    /// Two adjacent keys with a record, of which the second has so many others below it: a place to divide the keys. `None`: there
    /// are none, also for rank 0.
    ///
    /// # Errors
    /// As [`KeyOrderView::keys`].
    pub fn pair_at(self, rank: usize) -> EngineResult<Option<(Vec<u8>, Vec<u8>)>> {
        Ok(self.complete()?.pair_at(rank))
    }

    fn complete(self) -> EngineResult<&'e KeyOrder> {
        self.store.complete_order(self.io)?;
        self.store.index.kept().ok_or(EngineError::NotOrdered)
    }
}
