//! Finding what is corrupt where nobody reads, and repair it.

use super::report::{CorruptEntry, ScrubFrom, ScrubStep};
use super::{Engine, Handle, store_of};
use crate::disk::Disk;
use crate::error::EngineResult;

impl<D: Disk> Engine<D> {
    /// Reads on through a partition's log, about so many bytes (one entry may be more), from the disk and not from memory,
    /// checks every entry that is synced, and says where to go on. [`ScrubFrom::default`] begins.
    ///
    /// # Errors
    /// What the disk answers. Corruption is none: it is told.
    pub fn scrub(&mut self, handle: Handle, from: ScrubFrom, bytes_max: usize) -> EngineResult<ScrubStep> {
        let (io, store) = self.store(handle)?;
        store.scrub(io, from, bytes_max)
    }

    /// Which entries of a key's record cannot be read.
    ///
    /// # Errors
    /// [`crate::EngineError::Corrupt`] if not even that can be told; what the disk answers.
    pub fn corrupt_of(&mut self, handle: Handle, key: &[u8]) -> EngineResult<Vec<CorruptEntry>> {
        let (io, store) = self.store(handle)?;
        store.corrupt_of(io, key)
    }

    /// Repairs the corrupt entry of a log index with key and payload as another replica has them. They are compared with what
    /// the entry's head tells of them. From then on it can be read, until a restart or for good, as soon as compaction has
    /// rewritten its segment. `false`: this is not what stood there, its head cannot be read, or too much was repaired that
    /// is not rewritten yet.
    ///
    /// # Errors
    /// What the disk answers.
    pub fn repair(
        &mut self,
        handle: Handle,
        (epoch, index, timestamp): (u32, u64, u64),
        key: &[u8],
        payload: &[u8],
    ) -> EngineResult<bool> {
        let Engine { io, partitions, upkeep, .. } = self;
        let store = store_of(partitions, handle)?;
        let is_repaired = store.repair(io, (epoch, index, timestamp), key, payload)?;
        if is_repaired {
            upkeep.reclaim.look_later(handle, store);
        }
        Ok(is_repaired)
    }

    /// What may stay in a partition's log though nothing needs it, while somebody takes a copy of it that must fit together:
    /// no segment is replaced by a rewritten one before this is called with `false`.
    ///
    /// # Errors
    /// [`crate::EngineError::UnknownPartition`].
    pub fn hold_compaction(&mut self, handle: Handle, holds: bool) -> EngineResult<()> {
        self.store(handle)?.1.compaction.is_held = holds;
        Ok(())
    }

    /// The seed of a partition's hash fragments: those of two logs can be compared if it is the same.
    ///
    /// # Errors
    /// [`crate::EngineError::UnknownPartition`].
    pub fn index_seed(&mut self, handle: Handle) -> EngineResult<u64> {
        Ok(self.store(handle)?.1.log.index_seed)
    }

    /// Where a slice of the keys that begins at this hash fragment ends, itself included, so that it holds at most so many, and about
    /// so many bytes, by what the index knows of them. A fragment is never taken apart.
    ///
    /// # Errors
    /// [`crate::EngineError::UnknownPartition`].
    pub fn slice_end(&mut self, handle: Handle, from: u32, most: usize, bytes: u64) -> EngineResult<u32> {
        Ok(self.store(handle)?.1.slice_end(from, most, bytes))
    }

    /// The keys of these hash fragments, the last included. `None`: there are more than so many.
    ///
    /// # Errors
    /// As [`Engine::scan`].
    pub fn keys_of_slice(
        &mut self,
        handle: Handle,
        (from, through): (u32, u32),
        most: usize,
    ) -> EngineResult<Option<Vec<Vec<u8>>>> {
        let (io, store) = self.store(handle)?;
        store.keys_of_slice(io, (from, through), most)
    }
}
