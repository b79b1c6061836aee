//! Walks over the keys of a partition, in the order of its hash index.

use super::{Engine, Handle};
use crate::disk::Disk;
use crate::error::EngineResult;
use crate::index::cursor::Cursor;

impl<D: Disk> Engine<D> {
    /// Iterates over the records of a partition: returns the keys of one page of the index, those behind a cursor, in the order
    /// of the index, and the next cursor. A record that exists throughout an iteration from [`Cursor::START`] is returned
    /// exactly once.
    ///
    /// # Errors
    /// As [`Engine::lookup`]; [`crate::EngineError::Cursor`].
    pub fn scan(&mut self, handle: Handle, cursor: &Cursor) -> EngineResult<(Vec<Vec<u8>>, Option<Cursor>)> {
        let (io, store) = self.store(handle)?;
        store.scan(io, cursor, usize::MAX)
    }

    /// As [`Engine::scan`]: about `most` keys, so that a step over a large page is short.
    ///
    /// # Errors
    /// As there.
    pub fn scan_few(
        &mut self,
        handle: Handle,
        cursor: &Cursor,
        most: usize,
    ) -> EngineResult<(Vec<Vec<u8>>, Option<Cursor>)> {
        let (io, store) = self.store(handle)?;
        store.scan(io, cursor, most)
    }

    /// The keys of one page of the index as it was at a timestamp not below the horizon, and possibly more keys. Otherwise
    /// as [`Engine::scan`].
    ///
    /// # Errors
    /// As [`Engine::lookup`].
    pub fn scan_at(
        &mut self,
        handle: Handle,
        cursor: &Cursor,
        timestamp: u64,
    ) -> EngineResult<(Vec<Vec<u8>>, Option<Cursor>)> {
        let (io, store) = self.store(handle)?;
        store.scan_at(io, cursor, timestamp)
    }
}
