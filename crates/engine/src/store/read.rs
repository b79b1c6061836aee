//! Finding and reading records.

use std::collections::VecDeque;

use super::record::{Hint, NewestEntry, Parts, RecordBody, StoredRecord, UnreadableKey};
use super::{PartitionStore, units_of};
use crate::disk::Disk;
use crate::error::{EngineError, EngineResult};
use crate::index::IndexSlot;
use crate::index::contract::{Index, IndexKey, PagedKey};
use crate::index::cursor::{Cursor, HashPosition};
use crate::index::location::{EntryPlace, Location, Position};
use crate::io::Io;
use crate::limits::SCAN_KEY_BYTES_MAX;
use crate::log::entry::{EntryKind, EntryMeta, FLAG_CHUNK, FLAG_LIST, Head, crc, split_trailer};
use crate::log::{AppendedPlace, EntryRef};
use crate::overflow::chains::{Chain, Form};
use crate::overflow::part::ChainPart;
use crate::overflow::places::position;
use crate::overflow::versions::{FormerState, NewestVersion};
use crate::planted::{Bug, is_planted};

/// From this length on an entry of a chunk is read in place: it may span two blocks, and would otherwise be
/// assembled.
const LARGE_ENTRY_BYTES: usize = 16 << 10;

/// Pages of the index that are searched for one slice of the keys.
const SLICE_PAGES_MAX: usize = 8;

impl PartitionStore {
    /// Finds a key's slot. If the record is one entry that was not in memory, that entry is in `scratch`
    /// afterwards, unless it belongs to a chunk.
    #[inline(always)]
    pub(crate) fn find<D: Disk>(
        &mut self,
        io: &mut Io<D>,
        fragment: u32,
        key: &[u8],
        unreadable: UnreadableKey,
    ) -> EngineResult<Option<(IndexSlot, Location, NewestEntry)>> {
        let PartitionStore { index, chains, scratch, .. } = self;
        let log = io.logs.view(self.handle);
        let mut seen = None;
        let found = index.hash.find(fragment, |location| -> EngineResult<bool> {
            match location.decode() {
                EntryPlace::Chain(id) => {
                    let chain = chains.get(id);
                    if *chain.key == *key {
                        seen = Some(NewestEntry::of_chain(chain));
                    }
                    Ok(*chain.key == *key)
                }
                EntryPlace::Entry(position) => {
                    // Only the beginning of a long entry is read.
                    let beginning = match position.bytes_max as usize >= LARGE_ENTRY_BYTES {
                        true => log.chunk_beginning(&mut io.disk, position, scratch),
                        false => Ok(None),
                    };
                    let read = match beginning {
                        Ok(Some(large)) => {
                            let (head, is_key) = (large.head, large.key == key);
                            let EntryMeta { index, timestamp, epoch, flags, .. } = head.meta;
                            seen = is_key.then(|| NewestEntry {
                                newest_index: index,
                                form: Form::of(flags),
                                entry_bytes: head.entry_bytes() as u32,
                                units: large.chunk.length,
                                timestamp,
                                epoch,
                                flags,
                                is_checked: large.is_checked,
                            });
                            return Ok(is_key);
                        }
                        Ok(None) => log.read_key(&mut io.disk, position, scratch),
                        Err(error) => Err(error),
                    };
                    let (entry, is_checked) = match read {
                        Ok(read) => read,
                        Err(EngineError::Corrupt { .. }) if unreadable == UnreadableKey::TreatAsKey => {
                            seen = Some(NewestEntry::UNREADABLE);
                            return Ok(true);
                        }
                        Err(error) => return Err(error),
                    };
                    if entry.key != key {
                        return Ok(false);
                    }
                    let meta = &entry.head.meta;
                    seen = Some(NewestEntry {
                        newest_index: meta.index,
                        form: Form::of(meta.flags),
                        entry_bytes: entry.head.entry_bytes() as u32,
                        units: units_of(meta.kind, meta.flags, entry.payload),
                        timestamp: meta.timestamp,
                        epoch: meta.epoch,
                        flags: meta.flags,
                        is_checked,
                    });
                    Ok(true)
                }
            }
        })?;
        Ok(found.zip(seen).map(|((found, location), seen)| (found, location, seen)))
    }

    /// A hint for what has been found, valid until the next change.
    pub(crate) fn hint(
        &self,
        fragment: u32,
        (found, location, seen): (IndexSlot, Location, NewestEntry),
    ) -> Hint {
        Hint { fragment, found, location, seen, changes: self.changes() }
    }

    /// Whether nothing has changed since.
    pub(crate) fn is_current(&self, hint: &Hint) -> bool {
        hint.changes == self.changes()
    }

    fn changes(&self) -> u64 {
        self.index.hash.changes() + self.chains.changes()
    }

    /// The present record of a key.
    pub(crate) fn lookup<'a, D: Disk>(
        &'a mut self,
        io: &'a mut Io<D>,
        key: &[u8],
    ) -> EngineResult<Option<StoredRecord<'a>>> {
        let fragment = self.fragment(key);
        let Some(found) = self.find(io, fragment, key, UnreadableKey::IsError)? else {
            return Ok(None);
        };
        let hint = Some(self.hint(fragment, found));
        let (_, location, seen) = found;
        match location.decode() {
            EntryPlace::Entry(position) => {
                let (log, scratch) = (io.logs.view(self.handle), &mut self.scratch);
                if seen.form.is_chunk && position.bytes_max as usize >= LARGE_ENTRY_BYTES {
                    log.read_key(&mut io.disk, position, scratch)?;
                }
                // Head and key were checked when it was found; an entry that was not in memory is in the
                // scratch buffer.
                if seen.is_checked
                    && let Some(payload) = log.checked_payload(position, key.len(), seen.entry_bytes as usize)
                {
                    return Ok(Some(StoredRecord {
                        is_list: seen.form.is_list,
                        is_chunk: seen.form.is_chunk,
                        flags: seen.flags,
                        index: seen.newest_index,
                        epoch: seen.epoch,
                        timestamp: seen.timestamp,
                        body: RecordBody::SingleEntry(split_trailer(seen.flags, payload).0),
                        hint,
                    }));
                }
                let (entry, is_in_memory) = log.found(position, scratch)?;
                if !is_in_memory
                    && crc(entry.payload) != entry.head.payload_crc
                    && !is_planted(Bug::ChecksumNotChecked)
                {
                    return Err(log.corrupt(position.slot, position.offset));
                }
                Ok(Some(StoredRecord { hint, ..record_of(entry) }))
            }
            EntryPlace::Chain(id) => {
                let chain = self.readable_chain(id)?;
                let parts = Parts { parts: chain.parts.clone(), skipped: chain.skipped, units: chain.units };
                let (form, newest) = (chain.form(), NewestVersion::of(chain));
                Ok(Some(StoredRecord { hint, ..self.record_changed_by(io, form, newest, parts)? }))
            }
        }
    }

    /// A record of several parts, unless one of them represents an entry that could not be read when they
    /// were put together.
    pub(crate) fn readable_chain(&self, id: u32) -> EngineResult<&Chain> {
        let chain = self.chains.get(id);
        match chain.parts.front() {
            Some(first) if first.index == 0 => Err(EngineError::Corrupt {
                partition: self.id.partition,
                place: "an entry that was corrupt when the record was appended to".into(),
            }),
            _ => Ok(chain),
        }
    }

    /// The record of a key as it was at a timestamp not below the horizon.
    pub(crate) fn lookup_at<'a, D: Disk>(
        &'a mut self,
        io: &'a mut Io<D>,
        key: &[u8],
        timestamp: u64,
    ) -> EngineResult<Option<StoredRecord<'a>>> {
        let fragment = self.fragment(key);
        let Some((was, through)) = self.versions.at(fragment, key, timestamp) else {
            return self.lookup(io, key);
        };
        let (form, parts, skipped, newest) = match was {
            FormerState::Absent => return Ok(None),
            FormerState::Entry(index) => {
                let index = *index;
                return self.read_entry(io, index).map(|entry| Some(record_of(entry)));
            }
            FormerState::Chain { form, parts, skipped, newest } => (*form, parts.clone(), *skipped, *newest),
            &FormerState::Shorter { through: newest } => match self
                .find(io, fragment, key, UnreadableKey::IsError)?
                .map(|(_, location, _)| location.decode())
            {
                Some(EntryPlace::Chain(id)) => {
                    let chain = self.chains.get(id);
                    (chain.form(), chain.parts.iter().copied().collect(), chain.skipped, newest)
                }
                _ => return Ok(None),
            },
        };
        let newest = through.unwrap_or(newest);
        let last = through.map_or(u64::MAX, |through| through.index);
        let parts: VecDeque<ChainPart> = parts.into_iter().filter(|part| part.index <= last).collect();
        let units = parts.iter().map(|p| u64::from(p.units)).sum::<u64>().saturating_sub(skipped);
        let parts = Parts { parts, skipped, units };
        self.record_changed_by(io, form, newest, parts).map(Some)
    }

    /// Reads the entry of a log index.
    pub(crate) fn read_entry<'a, D: Disk>(
        &'a mut self,
        io: &'a mut Io<D>,
        index: u64,
    ) -> EngineResult<EntryRef<'a>> {
        let Some((placed, head)) = self.locate(io, index)? else { return Err(self.missing(index)) };
        let log = io.logs.view(self.handle);
        if let Some(entry) = log.in_memory(&placed, head) {
            return Ok(entry);
        }
        log.read(&mut io.disk, PartitionStore::position_at(placed), &mut self.scratch)
    }

    /// The epoch of the entry of a log index; `None` if the log does not hold it (any more), and it is not known otherwise.
    pub(crate) fn epoch_at<D: Disk>(&self, io: &mut Io<D>, index: u64) -> EngineResult<Option<u32>> {
        match self.recent.epoch_of(index).filter(|_| index > 0) {
            Some(epoch) => Ok(Some(epoch)),
            None => io.logs.view(self.handle).epoch_at(&mut io.disk, index),
        }
    }

    /// The position of the entry of a log index.
    pub(crate) fn position_of<D: Disk>(&self, io: &mut Io<D>, index: u64) -> EngineResult<Option<Position>> {
        Ok(self.locate(io, index)?.map(|(placed, _)| PartitionStore::position_at(placed)))
    }

    /// The place and the head of the entry of a log index; `None` if the log does not hold it (any more).
    ///
    /// # Errors
    /// `Corrupt` if bytes on the way to the entry cannot be read.
    pub(crate) fn locate<D: Disk>(
        &self,
        io: &mut Io<D>,
        index: u64,
    ) -> EngineResult<Option<(AppendedPlace, Head)>> {
        let log = io.logs.view(self.handle);
        let place = self.recent.place_of(index).or_else(|| self.places.get(log, index));
        let Some(place) = place else { return log.locate(&mut io.disk, index) };
        let Position { slot, offset, .. } = position(place);
        let head = log.head_at(&mut io.disk, (slot, offset))?;
        let head = head.filter(|head| head.meta.index == index || is_planted(Bug::RecentEntriesWrap));
        Ok(head.map(|head| (AppendedPlace { slot, offset, entry_bytes: head.entry_bytes() }, head)))
    }

    fn position_at(placed: AppendedPlace) -> Position {
        match PartitionStore::location_of(placed).decode() {
            EntryPlace::Entry(position) => position,
            EntryPlace::Chain(_) => unreachable!("an entry's location is an entry"),
        }
    }

    /// A record refers to an entry that the log does not have.
    pub(crate) fn missing(&self, index: u64) -> EngineError {
        let place = format!("log index {index}, which is missing");
        EngineError::Corrupt { partition: self.id.partition, place }
    }

    /// The keys of one page of the index behind a cursor, in the order of the index, and the cursor of the next page. The page ends
    /// earlier behind `most` keys, and if they are long, but never between keys of one fragment.
    pub(crate) fn scan<D: Disk>(
        &mut self,
        io: &mut Io<D>,
        from: &Cursor,
        most: usize,
    ) -> EngineResult<(Vec<Vec<u8>>, Option<Cursor>)> {
        let seed = self.id.index_seed;
        let begin = HashPosition::decode(from, seed)?;
        let mut entries: Vec<(u32, Location)> = Vec::new();
        let mut next = self.index.hash.page(seed, from, |key, location| {
            if let PagedKey::Fragment(fragment) = key {
                entries.push((fragment, location));
            }
        })?;
        // Those before the cursor are not read again.
        entries.retain(|(fragment, _)| *fragment >= begin.fragment);
        entries.sort_unstable_by_key(|(fragment, _)| *fragment);
        let (mut found, mut bytes, mut last) = (Vec::new(), 0, None);
        let mut scratch = Vec::new();
        for (fragment, location) in entries {
            let is_enough = bytes >= SCAN_KEY_BYTES_MAX || found.len() >= most;
            if is_enough && last != Some(fragment) {
                next = Some(HashPosition::of_fragment(fragment).encode(seed));
                break;
            }
            let key = self.key_at(io, location.decode(), &mut scratch)?;
            (bytes, last) = (bytes + key.len(), Some(fragment));
            found.push((fragment, key));
        }
        found.retain(|(fragment, key)| HashPosition { fragment: *fragment, key } > begin);
        found.sort_unstable();
        Ok((found.into_iter().map(|(_, key)| key).collect(), next))
    }

    fn key_at<D: Disk>(
        &self,
        io: &mut Io<D>,
        place: EntryPlace,
        scratch: &mut Vec<u8>,
    ) -> EngineResult<Vec<u8>> {
        let log = io.logs.view(self.handle);
        Ok(match place {
            EntryPlace::Chain(id) => self.chains.get(id).key.to_vec(),
            EntryPlace::Entry(position) => {
                // Only the beginning of a long entry is read.
                let is_long = position.bytes_max as usize >= LARGE_ENTRY_BYTES;
                let beginning = match is_long {
                    true => log.chunk_beginning(&mut io.disk, position, scratch)?,
                    false => None,
                };
                match beginning {
                    Some(large) => large.key.to_vec(),
                    None => log.read_key(&mut io.disk, position, scratch)?.0.key.to_vec(),
                }
            }
        })
    }

    /// The same, and the keys of that page that have changed after a timestamp: all keys that existed at that
    /// timestamp are among them.
    pub(crate) fn scan_at<D: Disk>(
        &mut self,
        io: &mut Io<D>,
        from: &Cursor,
        timestamp: u64,
    ) -> EngineResult<(Vec<Vec<u8>>, Option<Cursor>)> {
        let (mut keys, next) = self.scan(io, from, usize::MAX)?;
        let begin = HashPosition::decode(from, self.id.index_seed)?;
        let until = match &next {
            Some(next) => Some(HashPosition::decode(next, self.id.index_seed)?.fragment),
            None => None,
        };
        let changed = self.versions.changed_after(begin.fragment, until, timestamp);
        if !changed.is_empty() {
            let all = keys.into_iter().chain(changed.into_iter().map(Vec::from));
            let mut placed: Vec<(u32, Vec<u8>)> = all.map(|key| (self.fragment(&key), key)).collect();
            placed.retain(|(fragment, key)| HashPosition { fragment: *fragment, key } > begin);
            placed.sort_unstable();
            placed.dedup();
            keys = placed.into_iter().map(|(_, key)| key).collect();
        }
        Ok((keys, next))
    }

    /// Makes the order of the keys complete, if it is kept. If a key could not be read, all keys are read again: it may have been
    /// repaired since.
    pub(crate) fn complete_order<D: Disk>(&mut self, io: &mut Io<D>) -> EngineResult<()> {
        let mut index = std::mem::take(&mut self.index);
        let mut scratch = Vec::new();
        let completed =
            index.complete_order(|place| self.key_at(io, place, &mut scratch), self.versions.ends());
        self.index = index;
        completed
    }

    /// The end of a slice of the keys that begins at a cursor ([`Index::range_end`]).
    pub(crate) fn range_end(&self, from: &Cursor, most: usize, bytes: u64) -> EngineResult<Option<Cursor>> {
        let bytes_of = |location: Location| match location.decode() {
            EntryPlace::Entry(position) => u64::from(position.bytes_max),
            EntryPlace::Chain(id) => self.chains.get(id).units,
        };
        Ok(self.index.hash.range_end(self.id.index_seed, from, (most, bytes), bytes_of)?)
    }

    /// The keys from a cursor to another, or to the end; `None`: there are more than so many, or they are in too many pages.
    pub(crate) fn keys_of_range<D: Disk>(
        &mut self,
        io: &mut Io<D>,
        (from, to): (&Cursor, Option<&Cursor>),
        most: usize,
    ) -> EngineResult<Option<Vec<Vec<u8>>>> {
        let seed = self.id.index_seed;
        let begin = HashPosition::decode(from, seed)?;
        let end = to.map(|to| HashPosition::decode(to, seed)).transpose()?;
        // The fragment of the end has keys of the range only if the end is behind one of them.
        let is_within = |fragment: u32| end.is_none_or(|end| HashPosition { fragment, key: &[] } < end);
        let (mut found, mut at) = (Vec::new(), Some(from.clone()));
        for _ in 0..SLICE_PAGES_MAX {
            let Some(here) = at else { break };
            let next = self.index.hash.page(seed, &here, |key, location| {
                if let PagedKey::Fragment(fragment) = key
                    && is_within(fragment)
                {
                    found.push((fragment, location.decode()));
                }
            })?;
            at = match next {
                Some(next) if is_within(HashPosition::decode(&next, seed)?.fragment) => Some(next),
                _ => None,
            };
        }
        if found.len() > most || at.is_some() {
            return Ok(None);
        }
        let mut keys = Vec::new();
        let mut scratch = Vec::new();
        for (fragment, place) in found {
            let key = self.key_at(io, place, &mut scratch)?;
            let position = HashPosition { fragment, key: &key };
            if position > begin && end.is_none_or(|end| position <= end) {
                keys.push(key);
            }
        }
        Ok(Some(keys))
    }

    /// The cursor behind a key.
    pub(crate) fn cursor_behind(&self, key: &[u8]) -> Cursor {
        self.index.hash.cursor_behind(self.id.index_seed, IndexKey { fragment: self.fragment(key), key })
    }

    /// Returns the same record whether or not the log still holds the trim that changed it last, as long as
    /// that trim is remembered.
    fn record_changed_by<'a, D: Disk>(
        &'a mut self,
        io: &'a mut Io<D>,
        form: Form,
        newest: NewestVersion,
        parts: Parts,
    ) -> EngineResult<StoredRecord<'a>> {
        match newest.meta {
            Some(meta) => Ok(record_of_meta(&meta, form, parts)),
            None => self.record_of_parts(io, form, newest.index, parts),
        }
    }

    fn record_of_parts<'a, D: Disk>(
        &'a mut self,
        io: &'a mut Io<D>,
        form: Form,
        newest: u64,
        parts: Parts,
    ) -> EngineResult<StoredRecord<'a>> {
        let newest = match self.locate(io, newest)? {
            Some((_, head)) => head.meta,
            // The trim that changed it last has taken effect and is dropped.
            None => {
                let last_part = parts.parts.back().map_or(newest, |part| part.index);
                self.read_entry(io, last_part)?.head.meta
            }
        };
        Ok(record_of_meta(&newest, form, parts))
    }
}

/// A record of parts, which this entry has changed last.
fn record_of_meta(newest: &EntryMeta, form: Form, parts: Parts) -> StoredRecord<'static> {
    StoredRecord {
        is_list: form.is_list,
        is_chunk: form.is_chunk,
        flags: newest.flags,
        index: newest.index,
        epoch: newest.epoch,
        timestamp: newest.timestamp,
        body: RecordBody::Parts(parts),
        hint: None,
    }
}

fn record_of(entry: EntryRef<'_>) -> StoredRecord<'_> {
    let meta = entry.head.meta;
    debug_assert!(matches!(meta.kind, EntryKind::Put | EntryKind::Append));
    StoredRecord {
        is_list: meta.flags & FLAG_LIST != 0,
        is_chunk: meta.flags & FLAG_CHUNK != 0,
        flags: meta.flags,
        index: meta.index,
        epoch: meta.epoch,
        timestamp: meta.timestamp,
        body: RecordBody::SingleEntry(split_trailer(meta.flags, entry.payload).0),
        hint: None,
    }
}
