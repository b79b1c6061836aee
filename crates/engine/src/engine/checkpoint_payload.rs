//! For upper layers that keep state of their own in the log and in its checkpoints.

use std::ops::Range;

use super::{Engine, Handle};
use crate::disk::Disk;
use crate::error::EngineResult;
use crate::index::cursor::{Cursor, CursorFault, HashPosition};
use crate::log::EntryRef;
use crate::log::chunk_read::ChecksumParts;
use crate::store::chunk::ChunkState;
use crate::store::record::{PartRange, RecordShape};

impl<D: Disk> Engine<D> {
    /// Declares that a partition's entries carry state of an upper layer beside their records. From now on an
    /// entry stays in the log, dead or not, until every kept checkpoint covers it. To be called before the
    /// first [`Engine::maintain`]. Compaction then waits until two checkpoints were taken.
    ///
    /// # Errors
    /// [`crate::EngineError::UnknownPartition`].
    pub fn declare_state_in_log(&mut self, handle: Handle) -> EngineResult<()> {
        self.store(handle)?.1.has_state_in_log = true;
        Ok(())
    }

    /// Takes the upper layer's payload of the checkpoint from which this partition was recovered, and the
    /// commit index of that checkpoint. The payload is empty if the engine started that checkpoint itself
    /// ([`crate::EngineOptions::starts_checkpoints`]). `None`: there was no checkpoint, or the payload was
    /// taken before. [`Engine::entries_after`] returns the entries behind it.
    ///
    /// # Errors
    /// [`crate::EngineError::UnknownPartition`].
    pub fn recovered_extra(&mut self, handle: Handle) -> EngineResult<Option<(u64, Vec<u8>)>> {
        Ok(self.store(handle)?.1.recovered_extra.take().map(|extra| *extra))
    }

    /// Passes every entry after a log index to the caller, in order, committed or not, and whether its
    /// payload is intact; head and key are. Entries that the log does not hold (any more) are left out: a
    /// caller that needs all of them must check their indexes.
    ///
    /// # Errors
    /// Errors of the disk.
    pub fn entries_after(
        &mut self,
        handle: Handle,
        after: u64,
        mut each: impl FnMut(EntryRef<'_>, bool),
    ) -> EngineResult<()> {
        let (io, store) = self.store(handle)?;
        store.entries_after(io, after, &mut each)
    }

    /// Whether the log holds the entry of a log index, intact or corrupt: compaction drops entries that are
    /// not needed.
    ///
    /// # Errors
    /// Errors of the disk; [`crate::EngineError::Corrupt`] if bytes on the way to the entry cannot be read.
    pub fn has_entry(&mut self, handle: Handle, index: u64) -> EngineResult<bool> {
        let (io, store) = self.store(handle)?;
        Ok(io.logs.view(store.handle).locate(&mut io.disk, index)?.is_some())
    }

    /// The kind and size of a key's record, without its contents; `None` if there is no record.
    ///
    /// # Errors
    /// As [`Engine::lookup`].
    pub fn inspect(&mut self, handle: Handle, key: &[u8]) -> EngineResult<Option<RecordShape>> {
        let (io, store) = self.store(handle)?;
        store.inspect(io, key)
    }

    /// The parts that hold these units (values of a list, bytes) of a key's record; [`Engine::read_entry`]
    /// reads them.
    ///
    /// # Errors
    /// As [`Engine::lookup`].
    pub fn parts_of(&mut self, handle: Handle, key: &[u8], units: Range<u64>) -> EngineResult<PartRange> {
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
    ) -> EngineResult<PartRange> {
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

    /// Returns these bytes of a key's chunk in place, piece by piece, as far as the chunk was written, and
    /// the chunk's state, at the cost of one lookup. It works if the chunk is one entry in memory. `Ok(None)`
    /// means nothing about the chunk: the caller must read the state. If the bytes are many and all that was
    /// written, the result includes data from which their checksum follows without reading them.
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

    /// Appends these bytes of a key's chunk to `out`: zeros where nothing was written, or there is no chunk.
    /// The requested length is allocated: the caller must bound it.
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

    /// The cursor behind a key: [`Engine::scan`] continues there with the keys that follow it, whether the key exists or not.
    ///
    /// # Errors
    /// [`crate::EngineError::UnknownPartition`].
    pub fn cursor_behind(&mut self, handle: Handle, key: &[u8]) -> EngineResult<Cursor> {
        Ok(self.store(handle)?.1.cursor_behind(key))
    }

    /// The cursor of a number, for protocols whose cursors are numbers. A number has no place for the order of the keys: one of
    /// another partition is a position here too.
    ///
    /// # Errors
    /// [`crate::EngineError::UnknownPartition`].
    pub fn cursor_of_number(&mut self, handle: Handle, number: u32) -> EngineResult<Cursor> {
        let seed = self.store(handle)?.1.id.index_seed;
        Ok(HashPosition::of_fragment(number).encode(seed))
    }

    /// The number of a cursor that a page ended with.
    ///
    /// # Errors
    /// [`crate::EngineError::Cursor`], also if the cursor is behind a key.
    pub fn number_of_cursor(&mut self, handle: Handle, cursor: &Cursor) -> EngineResult<u32> {
        let position = HashPosition::decode(cursor, self.store(handle)?.1.id.index_seed)?;
        if position.key.is_empty() { Ok(position.fragment) } else { Err(CursorFault::NotNumbered.into()) }
    }
}
