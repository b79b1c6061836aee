//! Finding corrupt entries that no request reads, and repairing them.

use super::key_order::KeyOrderView;
use super::{Engine, Handle, store_of};
use crate::disk::Disk;
use crate::error::EngineResult;
use crate::index::cursor::Cursor;
use crate::store::scrub::{CorruptEntry, ScrubPosition, ScrubStep};

impl<D: Disk> Engine<D> {
    /// Continues to read a partition's log, about so many bytes (one entry may be more), from the disk and
    /// not from memory. Checks every synced entry and returns the next position. [`ScrubPosition::default`]
    /// starts.
    ///
    /// # Errors
    /// Errors of the disk. Corruption is not an error: it is part of the result.
    pub fn scrub(
        &mut self,
        handle: Handle,
        from: ScrubPosition,
        bytes_max: usize,
    ) -> EngineResult<ScrubStep> {
        let (io, store) = self.store(handle)?;
        store.scrub(io, from, bytes_max)
    }

    /// The entries of a key's record that cannot be read.
    ///
    /// # Errors
    /// [`crate::EngineError::Corrupt`] if not even these can be determined; errors of the disk.
    pub fn corrupt_of(&mut self, handle: Handle, key: &[u8]) -> EngineResult<Vec<CorruptEntry>> {
        let (io, store) = self.store(handle)?;
        store.corrupt_of(io, key)
    }

    /// Repairs the corrupt entry of a log index with key and payload from another replica. They are checked
    /// against the entry's head. The entry is then readable until a restart, or permanently once compaction
    /// has rewritten its segment. `false`: the bytes differ from the original entry, its head cannot be read,
    /// or too many repaired entries are not rewritten yet.
    ///
    /// # Errors
    /// Errors of the disk.
    pub fn repair(
        &mut self,
        handle: Handle,
        (epoch, index, timestamp): (u32, u64, u64),
        key: &[u8],
        payload: &[u8],
    ) -> EngineResult<bool> {
        let Engine { io, partitions, maintenance, .. } = self;
        let store = store_of(partitions, handle)?;
        let is_repaired = store.repair(io, (epoch, index, timestamp), key, payload)?;
        if is_repaired {
            maintenance.reclaim.schedule_check(handle, store);
        }
        Ok(is_repaired)
    }

    /// Holds compaction, or releases it with `false`: dead entries stay in a partition's log while a
    /// consistent copy is taken. No segment is replaced by a rewritten one meanwhile.
    ///
    /// # Errors
    /// [`crate::EngineError::UnknownPartition`].
    pub fn pause_compaction(&mut self, handle: Handle, holds: bool) -> EngineResult<()> {
        let (io, store) = self.store(handle)?;
        store.compaction.is_paused = holds;
        if let Some(shared) = io.logs.shared_mut() {
            shared.hold_entries(store.handle, holds);
        }
        Ok(())
    }

    /// The seed of the hash of a partition's keys: two logs order their keys in the same way, and accept each other's cursors,
    /// if their seeds are equal.
    ///
    /// # Errors
    /// [`crate::EngineError::UnknownPartition`].
    pub fn index_seed(&mut self, handle: Handle) -> EngineResult<u64> {
        Ok(self.store(handle)?.1.id.index_seed)
    }

    /// The end of a slice of the keys that begins at a cursor; `None`: the end of all. The slice has at most so many keys and
    /// about so many bytes, as far as the index knows them. Keys that the index does not order are never divided.
    ///
    /// # Errors
    /// [`crate::EngineError::UnknownPartition`], [`crate::EngineError::Cursor`].
    pub fn range_end(
        &mut self,
        handle: Handle,
        from: &Cursor,
        most: usize,
        bytes: u64,
    ) -> EngineResult<Option<Cursor>> {
        self.store(handle)?.1.range_end(from, most, bytes)
    }

    /// The order of a partition's keys, which it may keep beside its index.
    ///
    /// # Errors
    /// [`crate::EngineError::UnknownPartition`].
    pub fn key_order(&mut self, handle: Handle) -> EngineResult<KeyOrderView<'_, D>> {
        KeyOrderView::of(self, handle)
    }

    /// The keys from a cursor on, up to another cursor or to the end. `None`: there are more than so many.
    ///
    /// # Errors
    /// As [`Engine::scan`].
    pub fn keys_of_range(
        &mut self,
        handle: Handle,
        range: (&Cursor, Option<&Cursor>),
        most: usize,
    ) -> EngineResult<Option<Vec<Vec<u8>>>> {
        let (io, store) = self.store(handle)?;
        store.keys_of_range(io, range, most)
    }
}
