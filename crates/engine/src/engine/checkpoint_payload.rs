//! For upper layers that keep state of their own in the log and in its checkpoints.

use std::ops::Range;

use super::{Engine, Handle};
use crate::disk::Disk;
use crate::error::EngineResult;
use crate::log::EntryRef;
use crate::log::large::ChecksumParts;
use crate::store::chunk::ChunkState;
use crate::store::read::{PartsOf, RecordShape};

impl<D: Disk> Engine<D> {
    /// Says that a partition's entries tell an upper layer more than their records do: from now on an entry stays in
    /// the log, dead or not, until every kept checkpoint covers it. To be called before the first
    /// [`Engine::maintain`]. Nothing is compacted then before two checkpoints were taken.
    ///
    /// # Errors
    /// [`crate::EngineError::UnknownPartition`].
    pub fn hold_state_in_log(&mut self, handle: Handle) -> EngineResult<()> {
        self.store(handle)?.1.holds_state = true;
        Ok(())
    }

    /// Takes what an upper layer had added to the checkpoint that this partition was recovered from, and the commit
    /// index that it is as of. [`Engine::entries_after`] has what came behind it.
    ///
    /// # Errors
    /// [`crate::EngineError::UnknownPartition`].
    pub fn recovered_extra(&mut self, handle: Handle) -> EngineResult<Option<(u64, Vec<u8>)>> {
        Ok(self.store(handle)?.1.recovered_extra.take().map(|extra| *extra))
    }

    /// Hands over every entry after a log index, in order, committed or not, and whether its payload is as it was
    /// written; head and key are. Entries that the log does not hold (any more) are left out: whoever needs all
    /// watches their indexes.
    ///
    /// # Errors
    /// What the disk answers.
    pub fn entries_after(
        &mut self,
        handle: Handle,
        after: u64,
        mut each: impl FnMut(EntryRef<'_>, bool),
    ) -> EngineResult<()> {
        let (io, store) = self.store(handle)?;
        store.entries_after(io, after, &mut each)
    }

    /// Whether the log holds the entry of a log index, good or corrupt: compaction drops those that are not needed.
    ///
    /// # Errors
    /// What the disk answers; [`crate::EngineError::Corrupt`] if the way to it leads over bytes that cannot be read.
    pub fn holds_entry(&mut self, handle: Handle, index: u64) -> EngineResult<bool> {
        let (io, store) = self.store(handle)?;
        Ok(store.log.locate(io, index)?.is_some())
    }

    /// What a key's record is, without its contents; `None` if there is none.
    ///
    /// # Errors
    /// As [`Engine::lookup`].
    pub fn inspect(&mut self, handle: Handle, key: &[u8]) -> EngineResult<Option<RecordShape>> {
        let (io, store) = self.store(handle)?;
        store.inspect(io, key)
    }

    /// The parts that hold these units (values of a list, bytes) of a key's record; [`Engine::read_entry`] reads them.
    ///
    /// # Errors
    /// As [`Engine::lookup`].
    pub fn parts_of(&mut self, handle: Handle, key: &[u8], units: Range<u64>) -> EngineResult<PartsOf> {
        let (io, store) = self.store(handle)?;
        store.parts_of(io, key, units)
    }

    /// The same of the record as it was at `timestamp`: [`Engine::lookup_at`] has said that it has these units then.
    ///
    /// # Errors
    /// As [`Engine::lookup`].
    pub fn parts_of_at(
        &mut self,
        handle: Handle,
        key: &[u8],
        timestamp: u64,
        units: Range<u64>,
    ) -> EngineResult<PartsOf> {
        let (io, store) = self.store(handle)?;
        store.parts_of_at(io, key, timestamp, units)
    }

    /// What a key's chunk is, without its contents; `None` if there is none, or what there is is no chunk.
    ///
    /// # Errors
    /// As [`Engine::lookup`].
    pub fn chunk_state(&mut self, handle: Handle, key: &[u8]) -> EngineResult<Option<ChunkState>> {
        let (io, store) = self.store(handle)?;
        store.chunk_state(io, key)
    }

    /// Shows these bytes of a key's chunk where they lie, piece by piece, as far as the chunk was written, and says what it is, if it
    /// is one entry in memory: at the cost of one look. `Ok(None)` says nothing: ask for the state. With what tells the checksum of the
    /// bytes without reading them, if they are many and all that was written.
    ///
    /// # Errors
    /// As [`Engine::lookup`].
    pub fn chunk_at_once<'e>(
        &'e mut self,
        handle: Handle,
        key: &[u8],
        range: Range<u64>,
        see: impl FnMut(&'e [u8]),
    ) -> EngineResult<Option<(ChunkState, Option<ChecksumParts>)>> {
        let (io, store) = self.store(handle)?;
        store.chunk_at_once(io, key, range, see)
    }

    /// Appends these bytes of a key's chunk to `out`: zeros where nobody wrote, or there is no chunk. What is asked for is
    /// allocated: the caller bounds it.
    ///
    /// # Errors
    /// As [`Engine::lookup`].
    pub fn read_chunk(
        &mut self,
        handle: Handle,
        key: &[u8],
        range: Range<u64>,
        out: &mut Vec<u8>,
    ) -> EngineResult<()> {
        let (io, store) = self.store(handle)?;
        store.read_chunk(io, key, range, out)
    }

    /// The part of a key's hash that [`Engine::scan`] walks by: a page holds all keys of the fragments from its cursor
    /// up to the next one, and perhaps some of lower fragments.
    ///
    /// # Errors
    /// [`crate::EngineError::UnknownPartition`].
    pub fn fragment_of(&mut self, handle: Handle, key: &[u8]) -> EngineResult<u32> {
        Ok(self.store(handle)?.1.fragment(key))
    }
}
