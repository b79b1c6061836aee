//! The streams of a shared log: where entries are appended, how they become durable, and how segments end and come back.

use std::collections::BTreeMap;

use super::creations::Creations;
use super::failed_files::FailedFiles;
use super::flushes::Flushes;
pub use super::format::LogPlace;
use super::format::{
    FIRST_ENTRY_AT, LOG_INDEX_END, LogId, LogPartition, LogStream, SharedHead, SharedHeader, SharedKind,
    is_long,
};
use super::live_bytes::EntryUse;
use super::local::{LogFooter, RunRow, StreamEnd, VoidRange};
use super::marks::MarkState;
use super::segment::{SharedSegment, spare_path};
pub use super::tail::NewLogPartition;
use super::tail::PartitionTail;
use crate::PartitionId;
use crate::disk::{Disk, OpenMode};
use crate::error::{EngineError, EngineResult};
use crate::limits::{KEY_BYTES_MAX, PAYLOAD_BYTES_MAX};
use crate::log::entry::{EntryKind, EntryMeta, TIMESTAMP_RANGE, crc, crc_of_pieces};
use crate::planted::{Bug, is_planted};

/// Spares beyond the reserve stay too: the next segments are written into them.
const SPARES_BEYOND_RESERVE: usize = 4;

/// How a shared log uses the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedLogOptions {
    /// The folder of its files.
    pub folder: String,
    /// Its id.
    pub log: LogId,
    /// Length of a segment of the small, the cold and the memory stream.
    pub segment_bytes: u64,
    /// Length of a segment of the large stream.
    pub large_segment_bytes: u64,
    /// Files without contents that only compaction may use.
    pub reserve_spares: usize,
}

impl SharedLogOptions {
    /// The usual lengths: 16 MiB, and 64 MiB, into which the longest entry fits several times.
    #[must_use]
    pub fn new(folder: &str, log: LogId) -> Self {
        let folder = folder.to_owned();
        SharedLogOptions {
            folder,
            log,
            segment_bytes: 16 << 20,
            large_segment_bytes: 64 << 20,
            reserve_spares: 4,
        }
    }

    pub(super) fn length_of(&self, stream: LogStream) -> u64 {
        if stream == LogStream::Large { self.large_segment_bytes } else { self.segment_bytes }
    }
}

/// A log partition that is open for appending. Slots are used again after [`SharedLog::drop_partition`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogSlot(pub(super) u32);

impl LogSlot {
    /// Its number, from 0.
    #[must_use]
    pub fn number(self) -> usize {
        self.0 as usize
    }
}

/// The log of an instance; see the module.
pub struct SharedLog {
    /// The open segments, by stream.
    pub(super) open: [Option<Box<SharedSegment>>; 4],
    pub(super) tails: Vec<PartitionTail>,
    pub(super) flushes: Flushes,
    pub(super) marks: MarkState,
    pub(super) options: SharedLogOptions,
    pub(super) creations: Creations,
    pub(super) free_slots: Vec<u32>,
    pub(super) sealed: BTreeMap<u64, Box<SharedSegment>>,
    /// The number of the newest segment of each stream.
    pub(super) newest: [u64; 4],
    pub(super) ends: [StreamEnd; 3],
    pub(super) failed: FailedFiles,
    /// Segments with files, or which get them, that are not settled.
    pub(super) unsettled: Vec<u64>,
    /// Paths of spares. Their names are durable: otherwise a crash could show a new segment under the name of an old one.
    pub(super) spares: Vec<String>,
    pub(super) next: NextNumbers,
    pub(super) stopped: Option<String>,
}

/// Numbers that were not used yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct NextNumbers {
    pub(super) segment: u64,
    pub(super) partition: u32,
}

/// What [`SharedLog::resume`] begins with.
#[derive(Debug, Default)]
pub struct LogBeginning {
    /// The table of log partitions.
    pub creations: Creations,
    /// A number above those of all segments and spares.
    pub next_segment: u64,
    /// A number above those of all log partitions that occur anywhere.
    pub next_number: u32,
    /// The numbers of the newest segments of the streams of [`LogStream::ON_DISK`].
    pub newest: [u64; 3],
    /// The ends of these streams, which survive a crash.
    pub ends: [StreamEnd; 3],
    /// Bytes of segments that are nothing.
    pub voids: Vec<VoidRange>,
    /// Paths of spares, whose names are durable.
    pub spares: Vec<String>,
    /// A timestamp of a late entry; 0: there are none.
    pub timestamp: u64,
    /// The number of the newest checkpoint file that is known to be whole: the next mark names it. 0: none.
    pub checkpoint: u64,
}

impl SharedLog {
    /// A log without segments.
    #[must_use]
    pub fn new(options: SharedLogOptions) -> SharedLog {
        SharedLog::resume(options, LogBeginning::default())
    }

    /// A log that continues what recovery has found. Its first entries begin new segments.
    #[must_use]
    pub fn resume(options: SharedLogOptions, beginning: LogBeginning) -> SharedLog {
        let [small, large, cold] = beginning.newest;
        SharedLog {
            open: [const { None }; 4],
            tails: Vec::new(),
            flushes: Flushes::default(),
            marks: MarkState::new(beginning.timestamp, beginning.checkpoint),
            options,
            next: NextNumbers {
                segment: beginning.next_segment.max(1),
                partition: beginning.next_number.max(beginning.creations.highest().0.saturating_add(1)),
            },
            creations: beginning.creations,
            free_slots: Vec::new(),
            sealed: BTreeMap::new(),
            newest: [small, large, cold, 0],
            ends: beginning.ends,
            failed: FailedFiles { voids: beginning.voids, ..FailedFiles::default() },
            unsettled: Vec::new(),
            spares: beginning.spares,
            stopped: None,
        }
    }

    /// The table of log partitions.
    #[must_use]
    pub fn creations(&self) -> &Creations {
        &self.creations
    }

    /// The log partition of a slot.
    #[must_use]
    pub fn number(&self, slot: LogSlot) -> LogPartition {
        self.tail(slot).number
    }

    /// Epoch and index of the last entry.
    #[must_use]
    pub fn last(&self, slot: LogSlot) -> (u32, u64) {
        self.tail(slot).last
    }

    /// Log index up to which the entries survive a crash.
    #[must_use]
    pub fn durable(&self, slot: LogSlot) -> u64 {
        self.tail(slot).durable(self.flushes.count)
    }

    /// Appends an entry in memory. `payload` is the pieces of its payload.
    ///
    /// # Errors
    /// [`EngineError::NotNext`], [`EngineError::KeyLength`], [`EngineError::PayloadTooLong`], [`EngineError::Limit`],
    /// [`EngineError::DiskFull`]: nothing was appended. [`EngineError::Stopped`].
    #[inline]
    pub fn append<const N: usize>(
        &mut self,
        slot: LogSlot,
        meta: &EntryMeta,
        key: &[u8],
        payload: [&[u8]; N],
    ) -> EngineResult<LogPlace> {
        let payload_bytes = payload.iter().map(|piece| piece.len()).sum();
        self.check_entry(slot, meta, key, payload_bytes)?;
        let tail = &self.tails[slot.0 as usize];
        let stream = match (tail.is_in_memory, is_long(payload_bytes)) {
            (true, _) => LogStream::Memory,
            (false, true) => LogStream::Large,
            (false, false) => LogStream::Small,
        };
        let head = head_of(tail.number, meta, key, payload_bytes, crc_of_pieces(payload));
        let place = self.push(slot, stream, head, key, payload);
        let tail = &mut self.tails[slot.0 as usize];
        let last = (meta.epoch, meta.index);
        tail.appended(if last.1 > tail.last.1 { last } else { tail.last }, self.flushes.count);
        self.change(slot);
        Ok(place)
    }

    /// The stream that gets what compaction keeps of a partition.
    pub(super) fn stream_of_copies(&self, slot: LogSlot) -> LogStream {
        if self.tail(slot).is_in_memory { LogStream::Memory } else { LogStream::Cold }
    }

    /// Appends a copy of an entry of the partition to the cold stream, or to the one in memory, and counts it. The payload's checksum is that of the
    /// original, which the caller has checked.
    ///
    /// # Errors
    /// [`EngineError::Stopped`].
    pub fn append_copy(
        &mut self,
        slot: LogSlot,
        original: &SharedHead,
        key: &[u8],
        payload: &[u8],
        entry_use: EntryUse,
    ) -> EngineResult<LogPlace> {
        self.check_runs()?;
        debug_assert!(crc(payload) == original.payload_crc, "the payload is checked before it is copied");
        let stream = self.stream_of_copies(slot);
        self.open[stream as usize].iter_mut().for_each(|open| open.abort_entry());
        let is_kept = entry_use == EntryUse::Kept;
        let (partition, commit) = (self.tail(slot).number, self.tail(slot).commit);
        let head = SharedHead { partition, back: 0, is_kept, ..*original };
        let place = self.push(slot, stream, head, key, [payload]);
        if let Some(open) = &mut self.open[stream as usize] {
            let entry = (head.index, head.entry_bytes() as u32);
            let counted = Some(entry_use).filter(|_| !is_planted(Bug::LiveBytesNotMoved));
            open.uses.change(slot.0, entry, Some(EntryUse::Live), counted);
            open.uses.judge(slot.0, commit);
        }
        Ok(place)
    }

    /// Appends a removal in place of contents that only keep older entries of their key from coming back: copies of contents would be
    /// taken for the key's present ones.
    ///
    /// # Errors
    /// [`EngineError::Stopped`].
    pub(super) fn append_removal(
        &mut self,
        slot: LogSlot,
        original: &SharedHead,
        key: &[u8],
    ) -> EngineResult<LogPlace> {
        let kind = SharedKind::Replicated(EntryKind::Remove);
        let removal = SharedHead { kind, flags: 0, payload_bytes: 0, payload_crc: crc(&[]), ..*original };
        self.append_copy(slot, &removal, key, &[], EntryUse::Removal)
    }

    /// Ends the open segment of a stream: its next entry begins a new one.
    ///
    /// # Errors
    /// [`EngineError::Stopped`].
    pub fn seal(&mut self, stream: LogStream) -> EngineResult<()> {
        self.check_runs()?;
        self.seal_open(stream);
        Ok(())
    }

    /// Makes a spare of a sealed segment: its contents are not needed. If there are many spares, its file is removed.
    ///
    /// # Errors
    /// [`EngineError::UnknownPartition`] if the segment is not sealed and durable; [`EngineError::Disk`].
    pub fn recycle(&mut self, disk: &mut impl Disk, number: u64) -> EngineResult<()> {
        let Some(settled) = self.sealed.get(&number).filter(|segment| segment.is_settled()) else {
            return Err(EngineError::UnknownPartition);
        };
        let spare = spare_path(&self.options.folder, number);
        // A file that has failed once is not written again.
        let has_room = self.spares.len() < self.options.reserve_spares + SPARES_BEYOND_RESERVE;
        let is_spare = has_room && !settled.state.has_failed;
        match settled.file_path() {
            Some(path) if is_spare => disk.rename(path, &spare)?,
            Some(path) => disk.remove(path)?,
            // Its file could not be made.
            None => drop(self.sealed.remove(&number)),
        }
        if self.sealed.remove(&number).is_some() {
            disk.sync_dir(&self.options.folder)?;
            self.spares.extend(is_spare.then_some(spare));
        }
        Ok(())
    }

    /// Forgets a segment of the memory stream: its contents are not needed.
    pub(super) fn forget_in_memory(&mut self, number: u64) {
        debug_assert!(self.sealed.get(&number).is_none_or(|s| s.header.stream == LogStream::Memory));
        self.sealed.remove(&number);
    }

    /// Makes a spare, if there are fewer than the reserve. Returns whether it did.
    ///
    /// # Errors
    /// [`EngineError::Disk`]: nothing has changed.
    pub fn fill_reserve(&mut self, disk: &mut impl Disk) -> EngineResult<bool> {
        if self.spares.len() >= self.options.reserve_spares {
            return Ok(false);
        }
        let path = spare_path(&self.options.folder, self.next.segment);
        self.next.segment += 1;
        let file = disk.open(&path, OpenMode::Create)?;
        disk.reserve(file, self.options.segment_bytes);
        disk.close(file);
        disk.sync_dir(&self.options.folder)?;
        self.spares.push(path);
        Ok(true)
    }

    /// The number of spares.
    #[must_use]
    pub fn spare_count(&self) -> usize {
        self.spares.len()
    }

    /// The ends of the streams of [`LogStream::ON_DISK`] when the last flush ended; those of the marks that recovery has read, if
    /// none has.
    #[must_use]
    pub fn durable_ends(&self) -> [StreamEnd; 3] {
        self.ends
    }

    /// Numbers of the segments, open ones included.
    #[must_use]
    pub fn segments(&self) -> Vec<u64> {
        let open = self.open.iter().flatten().map(|segment| segment.header.number);
        let mut numbers: Vec<u64> = self.sealed.keys().copied().chain(open).collect();
        numbers.sort_unstable();
        numbers
    }

    /// Adds a segment that recovery has found.
    pub(crate) fn add_existing(&mut self, segment: SharedSegment) {
        self.sealed.insert(segment.header.number, Box::new(segment));
    }

    /// Evicts from memory what survives a crash. Returns bytes of memory freed.
    pub fn evict(&mut self) -> usize {
        self.evict_some(usize::MAX)
    }

    /// Evicts from memory what survives a crash, the oldest first, until so many bytes are freed. Returns how many were.
    pub fn evict_some(&mut self, wanted_bytes: usize) -> usize {
        let (open, mut freed) = (self.open.iter_mut().flatten(), 0);
        for segment in self.sealed.values_mut().chain(open) {
            if freed >= wanted_bytes {
                break;
            }
            freed += segment.evict_synced();
        }
        freed
    }

    /// Bytes of memory used by entries.
    #[must_use]
    pub fn resident_bytes(&self) -> usize {
        let open = self.open.iter().flatten();
        self.sealed.values().chain(open).map(|segment| segment.resident_bytes()).sum()
    }

    pub(super) fn tail(&self, slot: LogSlot) -> &PartitionTail {
        &self.tails[slot.0 as usize]
    }

    /// Whether it accepts no entries before a flush has ended.
    #[must_use]
    pub fn needs_flush(&self) -> bool {
        self.flushes.is_first_due
    }

    /// Whether it accepts no more entries, because the disk has failed.
    #[must_use]
    pub fn has_stopped(&self) -> bool {
        self.stopped.is_some()
    }

    pub(super) fn check_runs(&self) -> EngineResult<()> {
        match &self.stopped {
            Some(reason) => Err(EngineError::Stopped { reason: reason.clone() }),
            None => Ok(()),
        }
    }

    #[inline]
    fn check_entry(
        &self,
        slot: LogSlot,
        meta: &EntryMeta,
        key: &[u8],
        payload_bytes: usize,
    ) -> EngineResult<()> {
        self.check_runs()?;
        if self.flushes.is_first_due {
            return Err(EngineError::DiskFull { free_bytes: 0 });
        }
        let tail = self.tail(slot);
        let (epoch, index) = tail.last;
        let is_next = meta.index == index + 1 && meta.epoch >= epoch;
        if !is_next && !tail.is_incoming {
            return Err(EngineError::NotNext { last: tail.last });
        }
        if meta.index >= LOG_INDEX_END - 1 {
            return Err(EngineError::Limit { what: "log indexes of a partition" });
        }
        if key.len() > KEY_BYTES_MAX || key.is_empty() && meta.kind.has_key() {
            return Err(EngineError::KeyLength { bytes: key.len() });
        }
        if payload_bytes > PAYLOAD_BYTES_MAX {
            return Err(EngineError::PayloadTooLong { bytes: payload_bytes });
        }
        Ok(())
    }

    #[inline]
    fn push<const N: usize>(
        &mut self,
        slot: LogSlot,
        stream: LogStream,
        mut head: SharedHead,
        key: &[u8],
        payload: [&[u8]; N],
    ) -> LogPlace {
        self.ensure_open(stream, Some(head.timestamp), head.entry_bytes());
        let Some(segment) = &mut self.open[stream as usize] else {
            unreachable!("the stream has an open segment")
        };
        let tail = &mut self.tails[slot.0 as usize];
        let number = segment.header.number;
        let at = super::format::place_for(segment.bytes, head.entry_bytes(), head.payload_bytes);
        let entry_bytes = head.entry_bytes() as u32;
        head.back = add_to_run(segment, tail, &self.creations, &head, at as u32);
        let pushed = segment.push(&head, key, payload);
        debug_assert_eq!(pushed, at);
        segment.uses.add_live(slot.0, entry_bytes);
        self.marks.bytes += u64::from(entry_bytes);
        if stream != LogStream::Cold {
            self.marks.appended += u64::from(entry_bytes);
        }
        LogPlace { segment: number, offset: at as u32 }
    }

    pub(super) fn push_local(&mut self, kind: SharedKind, payload: &[u8]) {
        if let Some(segment) = &mut self.open[LogStream::Small as usize] {
            segment.push_local(kind, payload);
        }
    }

    /// Makes sure that the stream has an open segment for an entry of this length and timestamp; a local one has none.
    #[inline]
    pub(super) fn ensure_open(&mut self, stream: LogStream, timestamp: Option<u64>, entry_bytes: usize) {
        if let Some(open) = &mut self.open[stream as usize] {
            if let Some(timestamp) = timestamp
                && !open.base.reaches(timestamp)
            {
                // The log's first creations do not know a timestamp of an entry.
                open.rebase(timestamp.saturating_sub(TIMESTAMP_RANGE / 2));
            }
            let end = open.bytes + (entry_bytes + LogFooter::bytes_of(open.runs.len() + 1)) as u64;
            let has_room = end <= self.options.length_of(stream) || open.bytes == FIRST_ENTRY_AT as u64;
            if has_room && timestamp.is_none_or(|timestamp| open.base.reaches(timestamp)) {
                return;
            }
        }
        self.marks.timestamp = timestamp.unwrap_or(self.marks.timestamp);
        self.open_next(stream);
    }

    #[cold]
    fn open_next(&mut self, stream: LogStream) {
        self.seal_open(stream);
        let number = self.next.segment;
        self.next.segment += 1;
        let header = SharedHeader {
            number,
            log: self.options.log,
            timestamp: self.marks.timestamp.saturating_sub(TIMESTAMP_RANGE / 2),
            before: std::mem::replace(&mut self.newest[stream as usize], number),
            stream,
        };
        if stream != LogStream::Memory {
            self.unsettled.push(number);
        }
        self.open[stream as usize] = Some(Box::new(SharedSegment::new(header, &self.options.folder)));
    }

    fn seal_open(&mut self, stream: LogStream) {
        if stream == LogStream::Small && self.open[stream as usize].is_some() {
            self.push_mark();
        }
        if let Some(mut segment) = self.open[stream as usize].take() {
            segment.abort_entry();
            if stream != LogStream::Memory {
                segment.seal();
            }
            self.sealed.insert(segment.header.number, segment);
        }
    }

    pub(super) fn segment_mut(&mut self, number: u64) -> Option<&mut SharedSegment> {
        let open = self.open.iter_mut().flatten().find(|segment| segment.header.number == number);
        open.or_else(|| self.sealed.get_mut(&number)).map(|segment| &mut **segment)
    }

    /// The slots of the log partitions that are open.
    pub(super) fn slots(&self) -> impl Iterator<Item = LogSlot> {
        let is_open = |slot: &u32| !self.free_slots.contains(slot);
        (0..self.tails.len() as u32).filter(is_open).map(LogSlot)
    }

    pub(crate) fn segment(&self, number: u64) -> Option<&SharedSegment> {
        let open = self.open.iter().flatten().find(|segment| segment.header.number == number);
        open.or_else(|| self.sealed.get(&number)).map(|segment| &**segment)
    }
}

/// Adds an entry to the run of its log partition, or begins one. Returns the bytes back to the entry before it.
#[inline]
pub(super) fn add_to_run(
    segment: &mut SharedSegment,
    tail: &mut PartitionTail,
    creations: &Creations,
    head: &SharedHead,
    at: u32,
) -> u32 {
    let (stream, number, bytes) = (segment.header.stream, segment.header.number, head.entry_bytes() as u32);
    match tail.run_in(stream, number).and_then(|run| segment.runs.get_mut(run)) {
        Some(run) if run.last < head.index => {
            let back = at - run.last_at;
            (run.last, run.last_at) = (head.index, at);
            run.bytes += bytes;
            back
        }
        _ => {
            let row = creations.row(tail.number);
            tail.begin_run(stream, number, segment.runs.len());
            segment.runs.push(RunRow {
                number: tail.number,
                partition: row.map_or(PartitionId::default(), |row| row.partition),
                seed: row.map_or(0, |row| row.seed),
                first: head.index,
                last: head.index,
                last_at: at,
                bytes,
            });
            0
        }
    }
}

#[inline]
fn head_of(
    partition: LogPartition,
    meta: &EntryMeta,
    key: &[u8],
    payload_bytes: usize,
    payload_crc: u32,
) -> SharedHead {
    SharedHead {
        kind: SharedKind::Replicated(meta.kind),
        flags: meta.flags,
        partition,
        epoch: meta.epoch,
        index: meta.index,
        timestamp: meta.timestamp,
        back: 0,
        key_bytes: key.len(),
        payload_bytes,
        payload_crc,
        is_kept: false,
    }
}
