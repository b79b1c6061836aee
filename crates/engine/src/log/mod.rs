//! The log of one partition: segments in the order of their log indexes, the last one open for appending.
//!
//! Entries are numbered by (epoch, index). Positions (segment slot and offset) change when compaction rewrites a segment;
//! log indexes never do. A segment that compaction rewrote covers the same range with fewer entries, so the log stays
//! sorted: a newer entry is always further on.

use crate::PartitionId;
use crate::disk::crash_point::CrashPoint;
use crate::disk::{Disk, DiskError};
use crate::error::{EngineError, EngineResult};
use crate::index::location::Position;
use crate::limits::{BLOCK_BYTES, JOURNAL_INLINE_BYTES_MAX, SEGMENTS_MAX};
use crate::resources::LogResources;

pub(crate) mod chunk_head;
pub(crate) mod chunk_read;
mod copy;
pub mod entry;
mod footer;
pub(crate) mod garbage_stats;
pub mod header;
mod journal_first;
pub(crate) mod locate;
pub mod restamp;
pub mod scan;
pub(crate) mod segment;
pub(crate) mod segment_run;
pub mod shared;
mod sizes;
mod tail_cache;

use entry::{EntryBase, EntryKind, EntryMeta, HEAD_BYTES, Head, HeadDecode};
use footer::may_grow;
pub(crate) use footer::push_footer;
use header::{HEADER_BYTES, SegmentHeader, salt_of};
use journal_first::{JournalFirstEntries, JournalFirstEntry};
use segment::{Segment, WriteLimit};
pub use sizes::LogSizes;

/// An entry as read: its fields, and key and payload in place.
#[derive(Clone, Copy, Debug)]
pub struct EntryRef<'a> {
    /// Fields and lengths.
    pub head: Head,
    /// The key.
    pub key: &'a [u8],
    /// The payload.
    pub payload: &'a [u8],
}

/// The position of an appended entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AppendedPlace {
    pub(crate) slot: u32,
    pub(crate) offset: u32,
    pub(crate) entry_bytes: usize,
}

/// What a log records of the store over it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoreFacts {
    /// Log index of the last committed entry.
    pub(crate) commit: u64,
    /// The seed of the hash of keys.
    pub(crate) index_seed: u64,
}

/// How a log uses the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogOptions {
    pub(crate) segment_bytes: u64,
    /// Never writes a file.
    pub(crate) in_memory_only: bool,
}

/// The log of one partition.
// Hot fields first: see [`crate::store::PartitionStore`].
#[repr(C, align(128))]
pub(crate) struct PartitionLog {
    /// Epoch and index of the last entry.
    pub(crate) last: (u32, u64),
    /// Slots in log order.
    pub(crate) order: Vec<u32>,
    pub(crate) slots: Vec<Option<Box<Segment>>>,
    /// The synced index in the last [`EntryKind::Synced`] mark.
    marker_synced_index: u64,
    mark_due_at: u64,
    /// The first segment in `order` that may not be completely durable.
    first_unsynced: usize,
    options: LogOptions,
    /// The last write to a file found no room: until a retry succeeds, entries are only in memory and the journal.
    pub(crate) lacks_room: bool,
    pub(crate) partition: PartitionId,
    /// The engine's handle of the partition, for naming blocks.
    pub(crate) handle: u32,
    pub(crate) folder: String,
    free_slots: Vec<u32>,
    journal_first: JournalFirstEntries,
}

/// A mark with the synced and committed indexes is written at least this often, so that recovery can apply entries as it
/// reads them: 1 MiB.
const MARK_EVERY_BYTES: u64 = 16 * BLOCK_BYTES as u64;

impl PartitionLog {
    pub(crate) fn new(
        partition: PartitionId,
        handle: u32,
        folder: String,
        options: LogOptions,
    ) -> PartitionLog {
        PartitionLog {
            partition,
            handle,
            folder,
            options,
            lacks_room: false,
            slots: Vec::new(),
            free_slots: Vec::new(),
            order: Vec::new(),
            last: (0, 0),
            marker_synced_index: 0,
            mark_due_at: MARK_EVERY_BYTES,
            first_unsynced: 0,
            journal_first: JournalFirstEntries::default(),
        }
    }

    /// Sets whether entries that are appended from now on are [journal-first](JournalFirstEntries).
    pub(crate) fn set_journal_first(&mut self, is_on: bool) {
        self.journal_first.is_on = is_on;
    }

    /// Whether the journal does not have all journal-first entries yet, or the next entry is one.
    pub(crate) fn has_journal_first(&self) -> bool {
        self.journal_first.is_on || !self.journal_first.is_empty()
    }

    /// The journal has the entries up to a log index, so that the segments may have them.
    pub(crate) fn journaled_through(&mut self, through: u64) {
        self.journal_first.release(through);
    }

    /// The log is truncated behind a log index.
    fn forget_journal_first(&mut self, index: u64) {
        self.journal_first.truncate_after(index);
    }

    /// The part of a segment that may be written: up to the first journal-first entry.
    fn write_limit(&self, slot: u32) -> WriteLimit {
        let segment = self.segment(slot);
        match self.journal_first.first() {
            None => segment.end(),
            Some(first) if first.slot == slot => {
                WriteLimit { bytes: first.offset, last_index: first.index - 1 }
            }
            Some(first) if segment.first_index() > first.index => {
                WriteLimit { bytes: 0, last_index: segment.first_index() - 1 }
            }
            Some(_) => segment.end(),
        }
    }

    /// Whether nothing of it is ever written to a file.
    pub(crate) fn is_in_memory_only(&self) -> bool {
        self.options.in_memory_only
    }

    /// Changes how the log uses the disk from now on.
    pub(crate) fn set_options(&mut self, options: LogOptions) {
        self.options = options;
    }

    /// Gives the segments the names of their files: a segment that was compacted in memory had none.
    pub(crate) fn name_segments(&mut self) {
        let PartitionLog { slots, folder, .. } = self;
        for segment in slots.iter_mut().flatten().filter(|segment| segment.file.is_none()) {
            segment.path = format!("{folder}/{}", segment.header.file_name());
        }
        self.set_end(self.last);
    }

    /// Adds an entry, whose payload may come in pieces. The caller has checked key, payload and space, and that the entry
    /// follows the last one.
    #[inline(always)]
    pub(crate) fn append<D: Disk, const N: usize>(
        &mut self,
        io: &mut LogResources<'_, D>,
        meta: &EntryMeta,
        key: &[u8],
        payload: [&[u8]; N],
        facts: StoreFacts,
    ) -> EngineResult<AppendedPlace> {
        let payload_bytes = payload.iter().map(|piece| piece.len()).sum::<usize>();
        let entry_bytes = HEAD_BYTES + key.len() + payload_bytes;
        let slot = self.open_segment_for(io, meta, entry_bytes, facts.index_seed)?;
        self.mark_if_due(io, slot, facts.commit);
        let segment = self.segment_mut(slot);
        let offset = segment.bytes;
        let head =
            entry::encode_head(segment.base(), meta, key, payload_bytes, entry::crc_of_pieces(payload));
        let allocated = segment.push_parts(&head, key, payload);
        segment.record_entry(meta, offset, entry_bytes);
        io.memory.add_used(allocated);
        self.last = (meta.epoch, meta.index);
        // The journal only refers to a longer entry, whose segment is synced first. Everything before it is durable.
        if self.journal_first.is_on && payload_bytes <= JOURNAL_INLINE_BYTES_MAX {
            self.journal_first.push(JournalFirstEntry { slot, offset, index: meta.index });
        }
        if !self.options.in_memory_only && self.segment(slot).has_full_block_to_write() {
            // The end of an entry that the journal cannot hold is written too, while there is room.
            self.write_out(io, slot, payload_bytes > JOURNAL_INLINE_BYTES_MAX)?;
        }
        Ok(AppendedPlace { slot, offset: offset as u32, entry_bytes })
    }

    /// Issues to the file what is in memory only.
    pub(crate) fn write_out<D: Disk>(
        &mut self,
        io: &mut LogResources<'_, D>,
        slot: u32,
        all: bool,
    ) -> EngineResult<()> {
        let handle = self.handle;
        let limit = self.write_limit(slot);
        let segment = self.segment_mut(slot);
        let first = segment.written / BLOCK_BYTES as u64;
        let result = segment.write_out(io.disk, limit, all);
        let mut whole = segment.written / BLOCK_BYTES as u64;
        if segment.sealed && segment.written == segment.bytes && matches!(result, Ok(1..)) {
            // Its last block is not full, and never will be.
            whole = segment.written.div_ceil(BLOCK_BYTES as u64);
        }
        for number in first..whole {
            io.memory.evictable.push_back((handle, slot, number as u32));
        }
        match result {
            // Data that could not be written stays in memory and is retried; new entries are refused meanwhile.
            Ok(_) => {
                self.lacks_room = false;
                Ok(())
            }
            Err(error) if error.is_temporary() => {
                if error == DiskError::Full {
                    self.lacks_room = true;
                    io.space.segment_found_full();
                }
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The open segment, or a new one if this entry does not fit into it.
    fn open_segment_for<D: Disk>(
        &mut self,
        io: &mut LogResources<'_, D>,
        meta: &EntryMeta,
        entry_bytes: usize,
        index_seed: u64,
    ) -> EngineResult<u32> {
        if let Some(&slot) = self.order.last() {
            let segment = self.segment(slot);
            let is_full =
                segment.bytes + entry_bytes as u64 > self.options.segment_bytes && segment.entries > 0;
            if !segment.sealed && !is_full && segment.base().reaches(meta) {
                return Ok(slot);
            }
            if !segment.sealed && segment.last_index < segment.first_index() {
                // It holds only a mark, and the next segment would have its name.
                self.drop_last(io)?;
            } else if !segment.sealed {
                self.seal(io, slot)?;
            }
        }
        // Timestamps need not rise with the index: room on both sides.
        self.begin_segment(
            io,
            (meta.epoch, meta.index),
            meta.timestamp.saturating_sub(entry::TIMESTAMP_RANGE / 2),
            index_seed,
        )
    }

    /// Adds an open segment at the end, for entries from this epoch and index on.
    fn begin_segment<D>(
        &mut self,
        io: &mut LogResources<'_, D>,
        (epoch, index): (u32, u64),
        timestamp: u64,
        index_seed: u64,
    ) -> EngineResult<u32> {
        let salt = salt_of(self.partition, index, epoch, 0);
        let header = SegmentHeader {
            partition: self.partition,
            base: EntryBase { salt, epoch, index, timestamp },
            covers_through: 0,
            covers_epoch: 0,
            generation: 0,
            compacted_at: 0,
            index_seed,
        };
        let segment = Segment::new(header, &self.folder);
        io.memory.add_used(segment.resident_bytes());
        // The first bytes of a segment record what was synced before it.
        self.mark_due_at = 0;
        let slot = self.add_slot(segment)?;
        self.order.push(slot);
        Ok(slot)
    }

    /// Seals a segment with its footer and trailer. A segment whose file may not become longer stays without them, as after a crash.
    pub(crate) fn seal<D: Disk>(&mut self, io: &mut LogResources<'_, D>, slot: u32) -> EngineResult<()> {
        let is_in_memory_only = self.options.in_memory_only;
        let segment = self.segment_mut(slot);
        if !is_in_memory_only && !may_grow(segment, io.space) {
            segment.sealed = true;
            return Ok(());
        }
        let allocated = push_footer(segment, 0);
        io.memory.add_used(allocated);
        if self.options.in_memory_only {
            return Ok(());
        }
        self.write_out(io, slot, true)?;
        io.disk.reached(CrashPoint::SegmentSealed);
        Ok(())
    }

    /// Writes a [`EntryKind::Synced`] mark if more is synced than at the last mark, or if one is due by size.
    fn mark_if_due<D>(&mut self, io: &mut LogResources<'_, D>, slot: u32, commit: u64) {
        if self.options.in_memory_only {
            return;
        }
        let synced = self.synced_index();
        if synced > self.marker_synced_index || self.segment(slot).bytes >= self.mark_due_at {
            self.push_mark(io, slot, synced, commit);
        }
    }

    /// Writes a mark if there is something new to record. Returns whether it did. Behind a sealed segment it starts a new
    /// one; otherwise nothing would confirm the last entries as long as no other entry is appended.
    ///
    /// # Errors
    /// The maximum number of segments is reached.
    pub(crate) fn mark_now<D: Disk>(
        &mut self,
        io: &mut LogResources<'_, D>,
        facts: StoreFacts,
    ) -> EngineResult<bool> {
        let synced = self.synced_index();
        let Some(&last) = self.order.last().filter(|_| synced > self.marker_synced_index) else {
            return Ok(false);
        };
        let segment = self.segment(last);
        let has_room = may_grow(segment, io.space);
        if !segment.sealed && !has_room {
            self.seal(io, last)?;
        }
        let segment = self.segment(last);
        let slot = if segment.sealed {
            let timestamp = segment.base().timestamp;
            self.begin_segment(io, (self.last.0, self.last.1 + 1), timestamp, facts.index_seed)?
        } else {
            last
        };
        self.push_mark(io, slot, synced, facts.commit);
        Ok(true)
    }

    fn push_mark<D>(&mut self, io: &mut LogResources<'_, D>, slot: u32, synced: u64, commit: u64) {
        let last = self.last;
        let segment = self.segment_mut(slot);
        let base = *segment.base();
        let (epoch, index) = if segment.entries > 0 { last } else { (base.epoch, base.index) };
        let meta = EntryMeta { kind: EntryKind::Synced, flags: 0, epoch, index, timestamp: base.timestamp };
        let mut bytes = Vec::new();
        entry::encode(&base, &meta, &[], &scan::Mark { synced, commit }.encode(&segment.header), &mut bytes);
        let allocated = segment.push(&bytes);
        let due = segment.bytes + MARK_EVERY_BYTES;
        io.memory.add_used(allocated);
        self.marker_synced_index = synced;
        self.mark_due_at = due;
    }

    /// Log index up to which everything survives a crash.
    pub(crate) fn synced_index(&mut self) -> u64 {
        while let Some(&slot) = self.order.get(self.first_unsynced) {
            if !self.segment(slot).is_durable() || !self.segment(slot).sealed {
                return self.segment(slot).synced_index;
            }
            self.first_unsynced += 1;
        }
        self.last.1
    }

    /// Bytes of the entries after a log index, and of up to a few before them.
    pub(crate) fn bytes_after(&self, after: u64) -> u64 {
        let segments = self.order.iter().rev().map(|&slot| self.segment(slot));
        let later = segments.take_while(|segment| segment.last_index > after);
        later.map(|segment| segment.bytes - segment.sample_before(after + 1)).sum()
    }

    /// Whether the complete log would survive a crash now.
    pub(crate) fn is_durable(&self) -> bool {
        self.order[self.first_unsynced.min(self.order.len())..].iter().all(|&s| self.segment(s).is_durable())
    }

    /// Writes everything and starts to make it survive a crash.
    pub(crate) fn sync_begin<D: Disk>(&mut self, io: &mut LogResources<'_, D>) -> EngineResult<()> {
        for at in self.first_unsynced..self.order.len() {
            let slot = self.order[at];
            self.write_out(io, slot, true)?;
            let folder = std::mem::take(&mut self.folder);
            let limit = self.write_limit(slot);
            let result = self.segment_mut(slot).sync_begin(io.disk, &folder, limit);
            self.folder = folder;
            match result {
                Ok(()) => {}
                Err(error) if error.is_temporary() => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// As [`PartitionLog::sync_begin`], for callers that wait until it is done: a full disk is an error.
    pub(crate) fn sync_begin_or_full<D: Disk>(&mut self, io: &mut LogResources<'_, D>) -> EngineResult<()> {
        self.sync_begin(io)?;
        let mut unsynced = self.order[self.first_unsynced..].iter();
        if unsynced.any(|&slot| self.segment(slot).written < self.write_limit(slot).bytes) {
            Err(DiskError::Full.into())
        } else {
            Ok(())
        }
    }

    /// Whether no sync is running any more. With `wait` it waits for the running ones.
    pub(crate) fn sync_done<D: Disk>(
        &mut self,
        io: &mut LogResources<'_, D>,
        wait: bool,
    ) -> EngineResult<bool> {
        let mut done = true;
        for at in self.first_unsynced..self.order.len() {
            let slot = self.order[at];
            let segment = self.segment_mut(slot);
            done &= segment.sync_done(io.disk, wait)?;
            segment.uncache(io.disk, io.memory);
        }
        Ok(done)
    }

    /// Writes everything and waits until it survives a crash.
    pub(crate) fn sync<D: Disk>(&mut self, io: &mut LogResources<'_, D>) -> EngineResult<()> {
        for at in self.first_unsynced..self.order.len() {
            let slot = self.order[at];
            self.write_out(io, slot, true)?;
            let folder = std::mem::take(&mut self.folder);
            let limit = self.write_limit(slot);
            let result = self.segment_mut(slot).sync(io.disk, &folder, limit);
            self.folder = folder;
            result?;
            self.segment_mut(slot).uncache(io.disk, io.memory);
        }
        Ok(())
    }

    /// Reads the entry at a position, from memory if it is there, else from the file with its checksums checked.
    pub(crate) fn read<'a, D: Disk>(
        &'a self,
        disk: &mut D,
        at: Position,
        scratch: &'a mut Vec<u8>,
    ) -> EngineResult<EntryRef<'a>> {
        let (entry, is_checked) = self.read_key(disk, at, scratch)?;
        if !is_checked && entry::crc(entry.payload) != entry.head.payload_crc {
            return Err(self.corrupt(at.slot, at.offset));
        }
        Ok(entry)
    }

    /// An entry whose head was read to find it, if all of it is in memory.
    pub(crate) fn in_memory(&self, placed: &AppendedPlace, head: Head) -> Option<EntryRef<'_>> {
        let bytes = self.segment(placed.slot).in_memory(u64::from(placed.offset), placed.entry_bytes)?;
        Some(entry_of(head, bytes))
    }

    /// Like [`PartitionLog::read`], but checks no more than head and key. Returns whether the payload needs no check,
    /// because it never left memory.
    pub(crate) fn read_key<'a, D: Disk>(
        &'a self,
        disk: &mut D,
        at: Position,
        scratch: &'a mut Vec<u8>,
    ) -> EngineResult<(EntryRef<'a>, bool)> {
        let segment = self.segment(at.slot);
        if let Some(bytes) = segment.in_memory(u64::from(at.offset), at.bytes_max as usize)
            && let Some(head) = entry::decode_head_unchecked(segment.base(), bytes)
        {
            return Ok((entry_of(head, bytes), true));
        }
        let from_memory = segment.read(disk, u64::from(at.offset), at.bytes_max as usize, scratch)?;
        match entry::decode_head(segment.base(), scratch) {
            HeadDecode::Head(head) if head.entry_bytes() <= scratch.len() => {
                Ok((entry_of(head, scratch), from_memory))
            }
            _ => Err(self.corrupt(at.slot, at.offset)),
        }
    }

    pub(crate) fn corrupt(&self, slot: u32, offset: u32) -> EngineError {
        EngineError::Corrupt {
            partition: self.partition,
            place: format!("{}+{offset}", self.segment(slot).path),
        }
    }

    pub(crate) fn segment(&self, slot: u32) -> &Segment {
        match self.slots.get(slot as usize) {
            Some(Some(segment)) => segment,
            _ => unreachable!("a location names a segment that exists"),
        }
    }

    pub(crate) fn segment_mut(&mut self, slot: u32) -> &mut Segment {
        match self.slots.get_mut(slot as usize) {
            Some(Some(segment)) => segment,
            _ => unreachable!("a location names a segment that exists"),
        }
    }

    /// Adds a segment without a place in the order.
    pub(crate) fn add_slot(&mut self, segment: Segment) -> EngineResult<u32> {
        if let Some(slot) = self.free_slots.pop() {
            self.slots[slot as usize] = Some(Box::new(segment));
            return Ok(slot);
        }
        if self.slots.len() == SEGMENTS_MAX {
            return Err(EngineError::Limit { what: "segments of one partition (2^20): use more partitions" });
        }
        self.slots.push(Some(Box::new(segment)));
        Ok((self.slots.len() - 1) as u32)
    }

    /// Forgets a segment that is no longer referenced. The caller removes its file, if any.
    pub(crate) fn drop_slot<D>(&mut self, io: &mut LogResources<'_, D>, slot: u32) -> Option<Box<Segment>> {
        let segment = self.slots.get_mut(slot as usize)?.take()?;
        io.memory.freed(segment.resident_bytes());
        self.free_slots.push(slot);
        Some(segment)
    }

    /// Replaces the order of segments. Only durable segments may replace others.
    pub(crate) fn reorder(&mut self, order: Vec<u32>) {
        self.order = order;
        self.first_unsynced = 0;
    }

    /// Bytes of all segments, and the dead bytes and removals among them.
    pub(crate) fn sizes(&self) -> LogSizes {
        let mut sizes = LogSizes::default();
        for &slot in &self.order {
            let segment = self.segment(slot);
            sizes.bytes += segment.bytes;
            sizes.dead_bytes += segment.dead_bytes;
            sizes.removal_bytes += segment.removal_bytes;
            sizes.segments += 1;
        }
        sizes
    }

    /// Memory used by everything but blocks.
    pub(crate) fn overhead_bytes(&self) -> usize {
        self.slots.iter().flatten().map(|s| s.overhead_bytes()).sum::<usize>()
            + self.slots.capacity() * size_of::<Option<Box<Segment>>>()
            + self.order.capacity() * 4
            + self.folder.capacity()
    }

    /// Sets the end of the log after recovery or a truncation, and forgets the last mark.
    pub(crate) fn set_end(&mut self, last: (u32, u64)) {
        self.last = last;
        self.marker_synced_index = 0;
        self.mark_due_at = 0;
        self.first_unsynced = 0;
    }
}

pub(crate) fn entry_of(head: Head, bytes: &[u8]) -> EntryRef<'_> {
    let payload_at = head.payload_at();
    EntryRef {
        head,
        key: &bytes[head.head_bytes as usize..payload_at],
        payload: &bytes[payload_at..payload_at + head.payload_bytes],
    }
}

/// The first offset of an entry in any segment.
pub(crate) const FIRST_ENTRY_AT: u64 = HEADER_BYTES as u64;
