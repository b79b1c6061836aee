//! The short path for a replica group of one: entries are numbered, appended and committed in one call, and
//! the index is changed with key and payload at hand.

use super::{Engine, Handle, await_flush, store_of};
use crate::disk::Disk;
use crate::error::{EngineError, EngineResult};
use crate::io::Logs;
use crate::log::chunk_head::CHUNK_HEAD_BYTES;
use crate::log::entry::{EntryKind, EntryMeta, FLAG_JOINED};
use crate::options::Durability;
use crate::store::record::Hint;
use crate::store::tail_index::PendingEntry;
use crate::store::{PartitionStore, units_of};

/// An entry that has no position in the log yet.
#[derive(Clone, Copy, Debug)]
pub struct NewEntry<'a> {
    /// The kind of the entry.
    pub kind: EntryKind,
    /// See [`EntryMeta::flags`].
    pub flags: u8,
    /// Its commit timestamp.
    pub timestamp: u64,
    /// The key; empty if there is none.
    pub key: &'a [u8],
    /// The payload.
    pub payload: &'a [u8],
    /// The position at which the key's record was found just now, if it was looked up. It must belong to the
    /// same key: another key's hint would lose records.
    pub hint: Option<&'a Hint>,
}

impl<D: Disk> Engine<D> {
    /// Adds an entry as the next one of the present epoch and commits it, for a replica group of one. Returns
    /// its log index. An entry of a `sync` partition may be acknowledged once [`Engine::flush`] has returned.
    ///
    /// # Errors
    /// As [`Engine::append`].
    pub fn write(
        &mut self,
        handle: Handle,
        kind: EntryKind,
        flags: u8,
        timestamp: u64,
        key: &[u8],
        payload: &[u8],
    ) -> EngineResult<u64> {
        self.write_entry(handle, &NewEntry { kind, flags, timestamp, key, payload, hint: None })
    }

    /// As [`Engine::write`].
    ///
    /// # Errors
    /// As there.
    #[inline]
    pub fn write_entry(&mut self, handle: Handle, entry: &NewEntry<'_>) -> EngineResult<u64> {
        self.write_pieces(handle, entry, [entry.payload])
    }

    /// As [`Engine::write_entry`], for an entry of a chunk whose bytes are in a separate buffer: they go
    /// behind the [`ChunkHead`] at the start of the payload, and before its trailer.
    ///
    /// [`ChunkHead`]: crate::ChunkHead
    ///
    /// # Errors
    /// As there.
    pub fn write_chunk_entry(
        &mut self,
        handle: Handle,
        entry: &NewEntry<'_>,
        bytes: &[u8],
    ) -> EngineResult<u64> {
        self.write_pieces(handle, entry, chunk_pieces(entry.payload, bytes))
    }

    /// The payload comes in pieces. The payload in `entry` has the parts that the index and upper layers
    /// read: everything except the bytes of a chunk.
    #[inline]
    fn write_pieces<const N: usize>(
        &mut self,
        handle: Handle,
        entry: &NewEntry<'_>,
        pieces: [&[u8]; N],
    ) -> EngineResult<u64> {
        let &NewEntry { kind, flags, timestamp, key, payload, hint } = entry;
        self.make_journal_room(handle, key.len() + bytes_of(pieces))?;
        let Engine { io, partitions, journal, maintenance, .. } = self;
        let store = store_of(partitions, handle)?;
        let meta = next_meta(store, &io.logs, kind, flags, timestamp);
        store.admit(io, &meta, key, bytes_of(pieces))?;
        let placed = store.append(io, &meta, key, pieces)?;
        if store.durability == Durability::Sync {
            await_flush(io, journal, store, (&meta, key), pieces);
        }
        if store.recent.is_all_committed() {
            let units = units_of(kind, flags, payload);
            let applied = store.apply(io, (&meta, hint), placed, key, payload, units);
            if let Err(error) = store.stop_on_failure(applied) {
                store.recent.push(&meta, placed);
                return Err(error);
            }
            store.commit = meta.index;
            store.recent.note_committed(meta.epoch, meta.index);
        } else {
            store.recent.push(&meta, placed);
            let committed = store.commit(io, meta.index);
            store.stop_on_failure(committed)?;
        }
        store.end_step(&io.logs);
        maintenance.wrote(handle, store, placed.entry_bytes);
        self.evict();
        Ok(meta.index)
    }

    /// Adds the entries of an atomic batch as the next ones of the present epoch, and commits them as
    /// [`Engine::write`] does for one entry. Returns the log index of the last. `entries` must yield the same
    /// entries in every iteration; this function sets which entries are joined.
    ///
    /// # Errors
    /// As [`Engine::append`]; none of the entries is then in the log, unless the disk has failed.
    pub fn write_batch<'e>(
        &mut self,
        handle: Handle,
        entries: impl ExactSizeIterator<Item = NewEntry<'e>> + Clone,
    ) -> EngineResult<u64> {
        let (io, store) = self.store(handle)?;
        let (before, is_idle) = (io.logs.view(store.handle).last().1, store.recent.is_all_committed());
        if let Err(error) = self.append_joined(handle, entries.clone()) {
            // If the disk fails here too, this log accepts no more entries, and its next start truncates it.
            let cut = self.truncate_after(handle, before);
            return Err(if matches!(error, EngineError::Disk(_)) {
                error
            } else {
                cut.err().unwrap_or(error)
            });
        }
        let (io, store) = self.store(handle)?;
        let last = io.logs.view(store.handle).last().1;
        if !is_idle {
            let committed = store.commit(io, last);
            store.end_step(&io.logs);
            store.stop_on_failure(committed)?;
            return Ok(last);
        }
        for NewEntry { kind, flags, key, payload, hint, .. } in entries {
            // The pending entries are those that were appended just now.
            let Some(&PendingEntry { meta, location: placed }) = store.recent.first_pending() else { break };
            let units = units_of(kind, flags, payload);
            let applied = store.apply(io, (&meta, hint), placed, key, payload, units);
            store.stop_on_failure(applied)?;
            store.recent.commit_first();
            store.commit = meta.index;
        }
        store.end_step(&io.logs);
        Ok(last)
    }

    fn append_joined<'e>(
        &mut self,
        handle: Handle,
        entries: impl ExactSizeIterator<Item = NewEntry<'e>>,
    ) -> EngineResult<()> {
        let mut left = entries.len();
        for NewEntry { kind, flags, timestamp, key, payload, .. } in entries {
            left -= 1;
            self.make_journal_room(handle, key.len() + payload.len())?;
            let Engine { io, partitions, journal, maintenance, .. } = self;
            let store = store_of(partitions, handle)?;
            let joined = if left > 0 { FLAG_JOINED } else { 0 };
            let meta = next_meta(store, &io.logs, kind, flags & !FLAG_JOINED | joined, timestamp);
            store.admit(io, &meta, key, payload.len())?;
            let placed = store.append(io, &meta, key, [payload])?;
            if store.durability == Durability::Sync {
                await_flush(io, journal, store, (&meta, key), [payload]);
            }
            store.recent.push(&meta, placed);
            maintenance.wrote(handle, store, placed.entry_bytes);
        }
        self.evict();
        Ok(())
    }
}

/// The pieces of a chunk entry's payload whose bytes are in a separate buffer.
pub fn chunk_pieces<'p>(payload: &'p [u8], bytes: &'p [u8]) -> [&'p [u8]; 3] {
    let (head, trailer) = payload.split_at(payload.len().min(CHUNK_HEAD_BYTES));
    [head, bytes, trailer]
}

#[inline]
pub(super) fn bytes_of<const N: usize>(pieces: [&[u8]; N]) -> usize {
    pieces.iter().map(|piece| piece.len()).sum()
}

fn next_meta(store: &PartitionStore, logs: &Logs, kind: EntryKind, flags: u8, timestamp: u64) -> EntryMeta {
    let (epoch, last) = logs.view(store.handle).last();
    EntryMeta { kind, flags, epoch: epoch.max(1), index: last + 1, timestamp }
}
