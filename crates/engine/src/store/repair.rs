//! Corruption: a scrub finds it in bytes that no request reads, and corrupt entries are repaired with another
//! replica's copy.
//!
//! Files are written once, so a corrupt entry is not overwritten. Its block is kept in memory with the right
//! bytes in place and is never evicted, and every read of its segment is checked from then on. Compaction
//! then rewrites the segment from memory, before other segments. If the process restarts before that has
//! ended, the corruption is found and repaired again.
//!
//! In a shared log, a scrub reads what the partition uses. A repaired entry is appended again as compaction would do, and is durable
//! with a later flush.

use super::PartitionStore;
use super::entry_use::PlacedEntry;
use crate::disk::Disk;
use crate::error::{EngineError, EngineResult};
use crate::index::location::EntryPlace;
use crate::io::{Io, Logs};
use crate::limits::REPAIRED_BLOCKS_MAX;
use crate::log::entry::{self, EntryKind, HEAD_BYTES, HeadDecode};
use crate::log::shared::format::{self, LogPlace, SharedHead, SharedKind};
use crate::log::shared::live_bytes::EntryUse;
use crate::log::{AppendedPlace, FIRST_ENTRY_AT, entry_of};
use crate::planted::{Bug, is_planted};
use crate::store::record::UnreadableKey;
use crate::store::scrub::{CorruptEntry, ScrubPosition, ScrubStep};
use crate::{Damage, DamageKind};

impl PartitionStore {
    /// Continues reading from a place, always from the disk, about so many synced bytes, and returns the
    /// corrupt entries.
    pub(crate) fn scrub<D: Disk>(
        &mut self,
        io: &mut Io<D>,
        from: ScrubPosition,
        bytes_max: usize,
    ) -> EngineResult<ScrubStep> {
        if io.logs.shared().is_some() {
            return self.scrub_shared(io, from, bytes_max);
        }
        let mut scrubbed = ScrubStep::default();
        let log = io.logs.separate(self.handle);
        let at = log.order_of(from.index).unwrap_or(0);
        let Some(&slot) = log.order.get(at) else { return Ok(scrubbed) };
        let segment = log.segment(slot);
        // A segment that was rewritten since starts elsewhere.
        let is_same = segment.first_index() == from.index && segment.header.generation == from.generation;
        let offset = if is_same { from.offset.max(FIRST_ENTRY_AT) } else { FIRST_ENTRY_AT };
        let next = log.order.get(at + 1).map(|&next| {
            let segment = log.segment(next);
            let (index, generation) = (segment.first_index(), segment.header.generation);
            ScrubPosition { index, generation, offset: FIRST_ENTRY_AT }
        });
        scrubbed.next = next;
        let end = segment.synced.min(segment.bytes);
        let Some(file) = segment.file.filter(|_| offset < end) else { return Ok(scrubbed) };
        let (base, index, generation) = (*segment.base(), segment.first_index(), segment.header.generation);
        let mut bytes = vec![0; (end - offset).min(bytes_max.max(HEAD_BYTES) as u64) as usize];
        io.disk.read_at(file, offset, &mut bytes)?;
        let (mut at, mut needed) = (0, 0);
        let mut bad = Vec::new();
        while at < bytes.len() {
            let head = match entry::decode_head(&base, &bytes[at..]) {
                HeadDecode::Head(head) if head.meta.kind == EntryKind::Footer => {
                    at = bytes.len().max((end - offset) as usize);
                    break;
                }
                HeadDecode::Head(head) if head.entry_bytes() <= bytes.len() - at => head,
                HeadDecode::Head(head) => {
                    needed = head.entry_bytes();
                    break;
                }
                HeadDecode::Need(more) if offset + (at + more) as u64 <= end => {
                    needed = more;
                    break;
                }
                // The position of the next entry is unknown: the rest of the segment is not read.
                HeadDecode::Need(_) | HeadDecode::Bad => {
                    scrubbed.is_unreadable = true;
                    at = (end - offset) as usize;
                    break;
                }
            };
            let read = entry_of(head, &bytes[at..]);
            if !head.meta.kind.is_local() && entry::crc(read.payload) != head.payload_crc {
                bad.push((offset + at as u64, head));
            }
            at += head.entry_bytes();
        }
        if at == 0 && needed > bytes.len() {
            // One entry is larger than the number of bytes to read.
            if offset + needed as u64 <= end {
                return self.scrub(io, from, needed);
            }
            scrubbed.is_unreadable = true;
            at = (end - offset) as usize;
        }
        scrubbed.bytes = bytes.len() as u64;
        if offset + (at as u64) < end {
            scrubbed.next = Some(ScrubPosition { index, generation, offset: offset + at as u64 });
        }
        for (offset, head) in bad {
            let corrupt = CorruptEntry { epoch: head.meta.epoch, index: head.meta.index };
            let mut own = Vec::new();
            let is_good_in_memory = {
                let segment = io.logs.separate(self.handle).segment(slot);
                segment.read(&mut io.disk, offset, head.entry_bytes(), &mut own).is_ok()
                    && own
                        .get(head.payload_at()..)
                        .is_some_and(|payload| entry::crc(payload) == head.payload_crc)
            };
            if is_good_in_memory {
                let payload = own.split_off(head.payload_at());
                self.store_repaired(io, slot, offset + head.payload_at() as u64, &payload)?;
                continue;
            }
            self.suspect_corruption(&mut io.logs, slot, offset, corrupt.index, &own);
            scrubbed.corrupt.push(corrupt);
        }
        Ok(scrubbed)
    }

    fn suspect_corruption(&mut self, logs: &mut Logs, slot: u32, offset: u64, index: u64, bytes: &[u8]) {
        let segment = logs.separate_mut(self.handle).segment_mut(slot);
        segment.is_damaged = true;
        let place = format!("{}+{offset}", segment.path);
        if self.damage.iter().all(|damage| damage.place != place) {
            let key = entry::decode_head_unchecked(segment.base(), bytes)
                .and_then(|head| bytes.get(HEAD_BYTES..head.payload_at()))
                .unwrap_or(&[]);
            let kind = DamageKind::Entry { index, key: key.to_vec() };
            self.damage.push(Damage { partition: self.id.partition, kind, place });
        }
    }

    /// The entries of a key's record that are corrupt.
    pub(crate) fn corrupt_of<D: Disk>(
        &mut self,
        io: &mut Io<D>,
        key: &[u8],
    ) -> EngineResult<Vec<CorruptEntry>> {
        let fragment = self.fragment(key);
        let Some((_, location, seen)) = self.find(io, fragment, key, UnreadableKey::IsError)? else {
            return Ok(Vec::new());
        };
        let indexes = match location.decode() {
            EntryPlace::Entry(_) => vec![seen.newest_index],
            EntryPlace::Chain(id) => self.readable_chain(id)?.parts.iter().map(|part| part.index).collect(),
        };
        let mut corrupt = Vec::new();
        for index in indexes {
            match self.read_entry(io, index) {
                Ok(_) => {}
                Err(EngineError::Corrupt { .. }) => {
                    if let Some((placed, head)) = self.locate(io, index)? {
                        let (slot, offset) = (placed.slot, u64::from(placed.offset));
                        match io.logs.shared() {
                            Some(_) => self.suspect_shared(io, &placed, index, key),
                            None => self.suspect_corruption(&mut io.logs, slot, offset, index, &[]),
                        }
                        corrupt.push(CorruptEntry { epoch: head.meta.epoch, index });
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(corrupt)
    }

    /// Replaces a corrupt payload by the right one. `false`: it differs from the original, or there is no
    /// room.
    pub(crate) fn repair<D: Disk>(
        &mut self,
        io: &mut Io<D>,
        (epoch, index, timestamp): (u32, u64, u64),
        key: &[u8],
        payload: &[u8],
    ) -> EngineResult<bool> {
        if self.is_incoming() {
            return Ok(false);
        }
        let (placed, head) = match self.locate(io, index) {
            Ok(Some(found)) => found,
            Ok(None) | Err(EngineError::Corrupt { .. }) => return Ok(false),
            Err(error) => return Err(error),
        };
        if io.logs.shared().is_some() {
            return self.repair_shared(io, placed, (epoch, timestamp), key, payload);
        }
        let offset = u64::from(placed.offset);
        let mut bytes = Vec::new();
        let segment = io.logs.separate(self.handle).segment(placed.slot);
        segment.read(&mut io.disk, offset, head.entry_bytes(), &mut bytes)?;
        let is_same = (head.meta.epoch, head.meta.timestamp) == (epoch, timestamp)
            && bytes.len() == head.entry_bytes()
            && bytes.get(HEAD_BYTES..head.payload_at()) == Some(key)
            && head.payload_at() + payload.len() == head.entry_bytes()
            && entry::crc(payload) == head.payload_crc;
        if !is_same {
            return Ok(false);
        }
        if bytes[head.payload_at()..] != *payload
            && !self.store_repaired(io, placed.slot, offset + head.payload_at() as u64, payload)?
        {
            return Ok(false);
        }
        let segment = io.logs.separate_mut(self.handle).segment_mut(placed.slot);
        let (place, others) = (format!("{}+{offset}", segment.path), format!("{}+", segment.path));
        self.damage.retain(|damage| damage.place != place);
        segment.is_damaged = self.damage.iter().any(|damage| damage.place.starts_with(&others));
        Ok(true)
    }

    /// `false`: too much repaired data is in memory already.
    fn store_repaired<D: Disk>(
        &mut self,
        io: &mut Io<D>,
        slot: u32,
        offset: u64,
        bytes: &[u8],
    ) -> EngineResult<bool> {
        let log = io.logs.separate_mut(self.handle);
        let repaired: usize = log.slots.iter().flatten().map(|segment| segment.repaired_blocks()).sum();
        if repaired >= REPAIRED_BLOCKS_MAX {
            return Ok(false);
        }
        let allocated = log.segment_mut(slot).patch(&mut io.disk, offset, bytes)?;
        io.memory.add_used(allocated);
        self.compaction.has_repaired = true;
        Ok(true)
    }

    /// Checks whether segments wait to be rewritten because of a repaired entry.
    pub(crate) fn schedule_repaired_rewrites(&mut self, logs: &Logs) {
        let log = logs.separate(self.handle);
        if self.compaction.has_repaired {
            let mut segments = log.order.iter().map(|&slot| log.segment(slot));
            self.compaction.has_repaired = segments.any(|segment| segment.repaired_blocks() > 0);
        }
    }

    /// See [`PartitionStore::scrub`]. The position has the number of a segment, and the log index of the entry before the next.
    fn scrub_shared<D: Disk>(
        &mut self,
        io: &mut Io<D>,
        from: ScrubPosition,
        bytes_max: usize,
    ) -> EngineResult<ScrubStep> {
        let (mut scrubbed, mut position) = (ScrubStep::default(), from);
        let through = io.logs.view(self.handle).last().1;
        while scrubbed.bytes == 0 || scrubbed.bytes < bytes_max as u64 {
            let Io { disk, logs, .. } = io;
            let Some(shared) = logs.shared_mut() else { return Ok(scrubbed) };
            let Some(number) = shared.segment_from(position.index) else {
                shared.forget_sent(self.handle);
                return Ok(scrubbed);
            };
            if number != position.index {
                position = ScrubPosition { index: number, ..ScrubPosition::default() };
            }
            let next = match shared.next_in_segment(disk, self.handle, number, (position.offset, through)) {
                Err(EngineError::Corrupt { .. }) => {
                    scrubbed.is_unreadable = true;
                    None
                }
                next => next?,
            };
            let Some((index, place)) = next else {
                position = ScrubPosition { index: number + 1, ..ScrubPosition::default() };
                continue;
            };
            position.offset = index;
            self.scrub_entry(io, (index, place), &mut scrubbed)?;
        }
        scrubbed.next = Some(position);
        Ok(scrubbed)
    }

    fn scrub_entry<D: Disk>(
        &mut self,
        io: &mut Io<D>,
        (index, place): (u64, LogPlace),
        scrubbed: &mut ScrubStep,
    ) -> EngineResult<()> {
        let Io { disk, logs, .. } = io;
        let (Some(shared), mut bytes) = (logs.shared(), Vec::new()) else { return Ok(()) };
        let Some((at, head)) = shared.read_key_of(disk, place, &mut bytes)? else {
            scrubbed.is_unreadable = true;
            return Ok(());
        };
        let key = bytes[format::HEAD_BYTES..head.payload_at()].to_vec();
        scrubbed.bytes += head.payload_at() as u64;
        let entry_use = placed_entry(&head, &key, at).and_then(|entry| self.use_of(&entry));
        // Of contents that only stand before older ones, nothing but the head counts.
        let is_used = matches!(entry_use, Some(EntryUse::Live | EntryUse::Kept));
        let Some(segment) = shared.log.segment(place.segment).filter(|_| is_used) else {
            return Ok(());
        };
        if !segment.read_durable(disk, place.offset.into(), head.entry_bytes(), &mut bytes)? {
            return Ok(());
        }
        scrubbed.bytes += head.payload_bytes as u64;
        let is_good = SharedHead::decode(&segment.base, &bytes) == Some(head)
            && entry::crc(&bytes[head.payload_at()..]) == head.payload_crc;
        if is_good {
            return Ok(());
        }
        // Memory may have it as it was written.
        if shared.log.read(disk, place, &mut bytes).is_ok() {
            let payload = bytes.split_off(head.payload_at());
            self.append_again(io, (&head, at), &key, &payload)?;
            return Ok(());
        }
        self.suspect_place(at_of(place), index, &key);
        scrubbed.corrupt.push(CorruptEntry { epoch: head.epoch, index });
        Ok(())
    }

    /// Records that an entry is corrupt.
    fn suspect_place(&mut self, place: String, index: u64, key: &[u8]) {
        if self.damage.iter().all(|damage| damage.place != place) {
            let kind = DamageKind::Entry { index, key: key.to_vec() };
            self.damage.push(Damage { partition: self.id.partition, kind, place });
        }
    }

    /// An entry of a key's record cannot be read.
    fn suspect_shared<D: Disk>(&mut self, io: &Io<D>, at: &AppendedPlace, index: u64, key: &[u8]) {
        if let Some(shared) = io.logs.shared() {
            self.suspect_place(at_of(shared.place_of(at)), index, key);
        }
    }

    /// See [`PartitionStore::repair`].
    fn repair_shared<D: Disk>(
        &mut self,
        io: &mut Io<D>,
        at: AppendedPlace,
        (epoch, timestamp): (u32, u64),
        key: &[u8],
        payload: &[u8],
    ) -> EngineResult<bool> {
        let Io { disk, logs, .. } = io;
        let (Some(shared), mut bytes) = (logs.shared(), Vec::new()) else { return Ok(false) };
        let place = shared.place_of(&at);
        let Some((_, head)) = shared.read_key_of(disk, place, &mut bytes)? else { return Ok(false) };
        let is_same = (head.epoch, head.timestamp) == (epoch, timestamp)
            && bytes[format::HEAD_BYTES..head.payload_at()] == *key
            && head.payload_bytes == payload.len()
            && head.payload_crc == entry::crc(payload);
        if !is_same {
            return Ok(false);
        }
        if shared.log.read(disk, place, &mut bytes).is_err()
            && !self.append_again(io, (&head, at), key, payload)?
        {
            return Ok(false);
        }
        let place = at_of(place);
        self.damage.retain(|damage| damage.place != place);
        Ok(true)
    }

    /// Appends a copy of an entry, and names that from here on. `false`: nothing uses the entry.
    fn append_again<D: Disk>(
        &mut self,
        io: &mut Io<D>,
        (head, at): (&SharedHead, AppendedPlace),
        key: &[u8],
        payload: &[u8],
    ) -> EngineResult<bool> {
        let Some(entry) = placed_entry(head, key, at) else { return Ok(false) };
        let Some(entry_use @ (EntryUse::Live | EntryUse::Kept)) = self.use_of(&entry) else {
            return Ok(false);
        };
        // A committed trim whose place was not known is not counted there.
        let is_committed_trim = entry.kind == EntryKind::Trim && entry.index <= self.commit;
        let is_counted = !is_committed_trim || self.knows_trim(key);
        let was = Some(entry_use).filter(|_| is_counted);
        let Some(shared) = io.logs.shared_mut() else { return Ok(false) };
        let to = shared.append_again(self.handle, (head, at), key, payload, (was, entry_use))?;
        if !is_planted(Bug::RepairedEntryNotNamed) {
            self.redirect(&entry, to);
        }
        Ok(true)
    }
}

fn placed_entry<'a>(head: &SharedHead, key: &'a [u8], at: AppendedPlace) -> Option<PlacedEntry<'a>> {
    let SharedKind::Replicated(kind) = head.kind else { return None };
    Some(PlacedEntry { index: head.index, kind, flags: head.flags, key, at })
}

/// A place in words, as recovery names it.
fn at_of(place: LogPlace) -> String {
    format!("segment {:016x}+{}", place.segment, place.offset)
}
