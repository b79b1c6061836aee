//! Recovery of a partition from its files.
//!
//! ```text
//!   newest good checkpoint ──> index, side table                                             (index)
//!   segments it does not cover ──> entries, in log order ──> applied up to the known commit, the rest pending
//!   a bad spot: known to have been synced? ──> corruption: reported, and reading continues behind it
//!                                     else ──> torn: the log ends there                      (settle)
//! ```
//!
//! Bytes are known to have been synced if a later mark, checkpoint or rewritten segment says so. An
//! unconfirmed bad spot is what a crash leaves of unsynced bytes, even if valid entries happen to follow it.

use std::collections::BTreeMap;

use super::PartitionStore;
use crate::disk::Disk;
use crate::disk::crash_point::CrashPoint;
use crate::error::EngineResult;
use crate::io::{Io, Logs};
use crate::limits::BLOCK_BYTES;
use crate::log::entry::{EntryMeta, FLAG_CHUNK};
use crate::log::scan::{self, ScanItem};
use crate::log::{AppendedPlace, EntryRef, FIRST_ENTRY_AT};
use crate::planted::{Bug, is_planted};
use crate::{Damage, DamageKind, PartitionId};

mod files;
mod finish;
mod index;

use files::{is_readable_from, read_footer};
use index::LoadedCheckpoint;

/// The result of the recovery of one partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartitionReport {
    /// Entries loaded from the checkpoint.
    pub from_checkpoint: u64,
    /// Entries read from the log behind it.
    pub from_log: u64,
    /// Entries restored from the journal.
    pub from_journal: u64,
    /// Bytes of a torn tail that were truncated.
    pub torn_bytes: u64,
    /// Entries of an atomic batch without its end, which were truncated too.
    pub unfinished: u64,
    /// Corrupt and missing parts.
    pub damage: Vec<Damage>,
}

/// A bad spot that is not confirmed as synced yet.
struct SuspectEntry {
    /// The first log index that may be lost there.
    index: u64,
    slot: u32,
    offset: u64,
    /// Epoch and index of the last entry before it.
    before: (u32, u64),
    damage: Damage,
}

/// State of one recovery.
struct Recovery<'a> {
    store: &'a mut PartitionStore,
    report: PartitionReport,
    /// Everything up to this log index was synced.
    synced: u64,
    /// Everything up to this log index was committed.
    commit: u64,
    /// Entries up to this log index are in the index already, if they belong there: they are not applied.
    indexed_through: u64,
    /// Epoch and index up to which the log was read: missing entries are reported, or were dropped by
    /// compaction.
    reached: (u32, u64),
    /// The last reported gap starts behind this index.
    gap_reported_after: Option<u64>,
    /// In log order.
    doubts: Vec<SuspectEntry>,
    /// Segment files without a readable header: first log index, path, bytes.
    headless: Vec<(u64, String, u64)>,
    /// Segments that do not end with their footer, and the end of the last valid entry of each.
    ends: BTreeMap<u32, u64>,
}

impl PartitionStore {
    /// Reads the partition's folder into this empty store.
    pub(crate) fn recover<D: Disk>(&mut self, io: &mut Io<D>) -> EngineResult<PartitionReport> {
        let names = io.disk.list(&io.logs.separate(self.handle).folder)?;
        if names.is_empty() {
            return Ok(PartitionReport::default());
        }
        for name in names.iter().filter(|n| n.name.ends_with(".tmp")) {
            io.disk.remove(&format!("{}/{}", io.logs.separate(self.handle).folder, name.name))?;
        }
        let mut recovery = Recovery {
            store: self,
            report: PartitionReport::default(),
            synced: 0,
            commit: 0,
            indexed_through: 0,
            reached: (0, 0),
            gap_reported_after: None,
            doubts: Vec::new(),
            headless: Vec::new(),
            ends: BTreeMap::new(),
        };
        io.disk.reached(CrashPoint::RecoveryBegun);
        recovery.open_segments(io, &names)?;
        let loaded = recovery.load_checkpoint(io, &names)?;
        recovery.drop_missing_parts(io, &loaded)?;
        io.disk.reached(CrashPoint::RecoveryCheckpointLoaded);
        recovery.read_log(io, &loaded)?;
        io.disk.reached(CrashPoint::RecoveryLogRead);
        recovery.finish_log(io)?;
        let report = recovery.report;
        self.damage = report.damage.clone();
        Ok(report)
    }
}

impl Recovery<'_> {
    fn partition(&self) -> PartitionId {
        self.store.id.partition
    }

    fn damage(&mut self, kind: DamageKind, place: String) {
        let partition = self.partition();
        self.report.damage.push(Damage { partition, kind, place });
    }

    /// Reads every segment, or the part of it, that the checkpoint does not cover.
    fn read_log<D: Disk>(&mut self, io: &mut Io<D>, loaded: &LoadedCheckpoint) -> EngineResult<()> {
        let order = io.logs.separate(self.store.handle).order.clone();
        for (at, &slot) in order.iter().enumerate() {
            let is_last = at + 1 == order.len();
            let first = io.logs.separate(self.store.handle).segment(slot).first_index();
            self.check_gap(&mut io.logs, slot, FIRST_ENTRY_AT, first);
            match loaded.rows.get(&slot).filter(|row| {
                // Where the checkpoint is not valid, segments are read from their beginning.
                row.last_index <= loaded.covers_through || loaded.covers_through == loaded.commit
            }) {
                Some(row) if row.last_index <= loaded.commit && row.resume_at >= row.file_bytes => {
                    let from = self.adopt_covered(io, slot, row.last_index, row.resume_at)?;
                    if let Some(from) = from {
                        // Removals in other segments that the checkpoint covers are not read: the
                        // checkpoint's contents are valid.
                        self.indexed_through = row.last_index;
                        self.read_segment(io, slot, from, is_last)?;
                        self.indexed_through = 0;
                        if from == FIRST_ENTRY_AT {
                            io.logs.separate_mut(self.store.handle).segment_mut(slot).dead_bytes +=
                                row.dead_bytes;
                        }
                    }
                }
                Some(row) => {
                    let from = row.resume_at.max(FIRST_ENTRY_AT);
                    if from > FIRST_ENTRY_AT {
                        let (epoch, index) =
                            (io.logs.separate(self.store.handle).last.0, row.last_index.min(loaded.commit));
                        self.reach(&mut io.logs, epoch, index);
                        // The log has the entries before, even if no valid entry follows them.
                        let segment = io.logs.separate_mut(self.store.handle).segment_mut(slot);
                        (segment.last_epoch, segment.last_index) = (epoch, index);
                    }
                    let is_ignored = is_last && is_planted(Bug::LogBehindCheckpointIgnored);
                    let from = if is_ignored {
                        io.logs.separate(self.store.handle).segment(slot).bytes
                    } else {
                        from
                    };
                    self.read_segment(io, slot, from, is_last)?;
                }
                None => self.read_segment(io, slot, FIRST_ENTRY_AT, is_last)?,
            }
        }
        self.check_gap_at_end(&mut io.logs);
        Ok(())
    }

    /// Adopts a segment that the checkpoint covers without reading it: its footer has what is needed. Returns
    /// the position to read from, if it must be read all the same.
    fn adopt_covered<D: Disk>(
        &mut self,
        io: &mut Io<D>,
        slot: u32,
        last_index: u64,
        resume_at: u64,
    ) -> EngineResult<Option<u64>> {
        let last_epoch = io.logs.separate(self.store.handle).last.0;
        let segment = io.logs.separate_mut(self.store.handle).segment_mut(slot);
        let footer = read_footer(&mut io.disk, segment)?;
        // Behind the last entry, a crash may have left the footer but lost a mark before it: the gap must be
        // removed now, before it could be mistaken for corruption.
        let is_whole = segment.header.generation > 0 || is_readable_from(&mut io.disk, segment, resume_at)?;
        if let Some(footer) = footer.filter(|footer| is_whole && footer.last_index == last_index) {
            let last = (footer.last_epoch, footer.last_index);
            segment.adopt_footer(footer);
            self.reach(&mut io.logs, last.0, last.1);
            return Ok(None);
        }
        if segment.header.generation > 0 || !segment.has_samples() {
            // The segment had its footer once, which listed the positions of entries.
            return Ok(Some(FIRST_ENTRY_AT));
        }
        (segment.last_index, segment.last_epoch) = (last_index, last_epoch);
        self.reach(&mut io.logs, last_epoch, last_index);
        Ok(Some(resume_at.max(FIRST_ENTRY_AT)))
    }

    fn read_segment<D: Disk>(
        &mut self,
        io: &mut Io<D>,
        slot: u32,
        from: u64,
        is_last: bool,
    ) -> EngineResult<()> {
        let segment = io.logs.separate(self.store.handle).segment(slot);
        let Some(file) = segment.file else { return Ok(()) };
        let base = *segment.base();
        let (first, covers) =
            (segment.first_index(), (segment.header.covers_epoch, segment.header.covers_through));
        if covers.1 > 0 && self.doubts.is_empty() {
            // All entries that it covers were committed, and so were the entries before it: the end of an
            // atomic batch that starts there may have been dropped.
            self.commit = self.commit.max(covers.1);
            self.store.commit_known(io, covers.1)?;
        }
        if from == FIRST_ENTRY_AT {
            io.logs.separate_mut(self.store.handle).segment_mut(slot).clear_metadata();
        }
        let before = if from == FIRST_ENTRY_AT { first - 1 } else { self.reached.1 };
        let segment = io.logs.separate(self.store.handle).segment(slot);
        // From a block's beginning, so that complete blocks can stay in memory.
        let begin = from - from % BLOCK_BYTES as u64;
        let mut bytes = vec![0; (segment.bytes.max(begin) - begin) as usize];
        if !bytes.is_empty() {
            io.disk.read_at(file, begin, &mut bytes)?;
        }
        let tail = bytes.get((from - begin) as usize..).unwrap_or(&[]);
        for item in scan::items(&base, tail, from, before) {
            if let ScanItem::Mark { mark, .. } = item {
                self.synced = self.synced.max(mark.synced);
                self.commit = self.commit.max(mark.commit);
            }
        }
        let (mut end, mut is_clean, mut has_footer) = (from, true, false);
        for item in scan::items(&base, tail, from, before) {
            match item {
                ScanItem::Entry { offset, entry, payload_is_good } => {
                    is_clean &= payload_is_good;
                    end = offset + entry.head.entry_bytes() as u64;
                    self.apply_entry(io, slot, offset, entry, payload_is_good)?;
                }
                ScanItem::Mark { end: mark_end, .. } => end = mark_end,
                ScanItem::Footer { offset, footer } => {
                    self.reach(&mut io.logs, footer.last_epoch, footer.last_index);
                    let segment = io.logs.separate_mut(self.store.handle).segment_mut(slot);
                    let removal_bytes = segment.removal_bytes;
                    segment.adopt_footer(footer);
                    if covers.1 == 0 {
                        // The footer's number has removals that a bad spot hides, and that may be truncated.
                        segment.removal_bytes = removal_bytes;
                    }
                    has_footer = true;
                    if covers.1 == 0 && (is_last || !files::has_trailer(segment, &bytes, offset)) {
                        // Torn there, and then it is written again; or the log continues here, with a mark
                        // that confirms what is synced.
                        self.ends.insert(slot, offset);
                    }
                }
                ScanItem::Bad { offset, more_follows } => {
                    is_clean = false;
                    // At the end of a segment the next one's first index shows whether anything is missing.
                    // At the end of the last segment, only entries that are known to have been synced can be
                    // missing.
                    let is_an_end = !more_follows && (!is_last || self.reached.1 >= self.synced);
                    if !is_an_end {
                        self.bad_spot(&mut io.logs, slot, offset);
                    }
                }
            }
        }
        if covers.1 > 0 && !has_footer {
            // It was written with a footer.
            let place = io.logs.separate(self.store.handle).segment(slot).path.clone();
            self.damage(DamageKind::Unreadable { after: self.reached.1 }, place);
        }
        if covers.1 > 0 {
            // A rewritten segment may hold less than it covers, and all that it covers was committed.
            self.reach(&mut io.logs, covers.0, covers.1);
            if self.doubts.is_empty() && self.store.recent.is_all_committed() {
                self.store.commit = self.store.commit.max(covers.1);
            }
            let segment = io.logs.separate_mut(self.store.handle).segment_mut(slot);
            (segment.last_epoch, segment.last_index) = (covers.0, covers.1);
        } else if !has_footer {
            self.ends.insert(slot, end);
            let left = io.logs.separate(self.store.handle).segment(slot).bytes.saturating_sub(end);
            self.report.torn_bytes += if is_last { left } else { 0 };
        }
        io.logs.separate_mut(self.store.handle).segment_mut(slot).trust_from(if is_clean {
            from
        } else {
            u64::MAX
        });
        self.cache_blocks(io, slot, begin, bytes, is_clean);
        self.apply_known(io)
    }

    /// The log continues with this index: the entries between it and the last one read are missing.
    fn check_gap(&mut self, logs: &mut Logs, slot: u32, offset: u64, index: u64) {
        let missing_from = self.reached.1 + 1;
        if index > missing_from {
            if self.gap_reported_after != Some(self.reached.1) {
                let place = logs.separate(self.store.handle).segment(slot).path.clone();
                let kind = DamageKind::Missing { from: missing_from, through: index - 1 };
                self.suspect(logs, slot, offset, missing_from, kind, place);
            }
            self.reached.1 = index - 1;
        }
    }

    /// The log ends: entries that are known to have been synced and were not read are missing.
    fn check_gap_at_end(&mut self, logs: &mut Logs) {
        let from = self.reached.1 + 1;
        if from <= self.synced && self.gap_reported_after != Some(self.reached.1) {
            self.damage(
                DamageKind::Missing { from, through: self.synced },
                logs.separate(self.store.handle).folder.clone(),
            );
        }
    }

    fn reach(&mut self, logs: &mut Logs, epoch: u32, index: u64) {
        if index > self.reached.1 {
            self.reached = (epoch, index);
        }
        if index > logs.separate(self.store.handle).last.1 {
            logs.separate_mut(self.store.handle).last = (epoch, index);
        }
    }

    /// Bytes that are no entry, behind the last one read.
    fn bad_spot(&mut self, logs: &mut Logs, slot: u32, offset: u64) {
        let after = self.reached.1;
        let place = format!("{}+{offset}", logs.separate(self.store.handle).segment(slot).path);
        self.gap_reported_after = Some(after);
        self.suspect(logs, slot, offset, after + 1, DamageKind::Unreadable { after }, place);
    }

    /// A bad spot: corruption if the bytes here are confirmed as synced, now or later; otherwise the log ends
    /// here.
    fn suspect(
        &mut self,
        logs: &mut Logs,
        slot: u32,
        offset: u64,
        index: u64,
        kind: DamageKind,
        place: String,
    ) {
        let damage = Damage { partition: self.partition(), kind, place };
        let doubt = SuspectEntry { index, slot, offset, before: self.reached, damage };
        if index <= self.synced && self.doubts.is_empty() {
            self.confirm(logs, doubt)
        } else {
            self.doubts.push(doubt)
        }
    }

    fn confirm(&mut self, logs: &mut Logs, doubt: SuspectEntry) {
        logs.separate_mut(self.store.handle).segment_mut(doubt.slot).is_damaged = true;
        self.report.damage.push(doubt.damage);
    }

    fn apply_entry<D: Disk>(
        &mut self,
        io: &mut Io<D>,
        slot: u32,
        offset: u64,
        entry: EntryRef<'_>,
        payload_is_good: bool,
    ) -> EngineResult<()> {
        let EntryRef { head, key, payload } = entry;
        let meta: &EntryMeta = &head.meta;
        let placed = AppendedPlace { slot, offset: offset as u32, entry_bytes: head.entry_bytes() };
        let segment = io.logs.separate_mut(self.store.handle).segment_mut(slot);
        segment.record_entry(meta, offset, placed.entry_bytes);
        let is_rewritten = segment.header.generation > 0;
        if !is_rewritten {
            self.check_gap(&mut io.logs, slot, offset, meta.index);
        }
        if !payload_is_good {
            let place = format!("{}+{offset}", io.logs.separate(self.store.handle).segment(slot).path);
            let kind = DamageKind::Entry { index: meta.index, key: key.to_vec() };
            self.suspect(&mut io.logs, slot, offset, meta.index, kind, place);
        }
        self.reach(&mut io.logs, meta.epoch, meta.index);
        if meta.index <= self.indexed_through {
            return Ok(());
        }
        self.report.from_log += 1;
        // No entry of an atomic batch is applied before its end is read: committed entries need not have been
        // synced.
        let is_whole = !meta.is_joined() || meta.index <= self.store.commit;
        let is_first = self.doubts.is_empty() && self.store.recent.is_all_committed();
        if is_first && is_whole && meta.index <= self.commit {
            let is_doubtful = !payload_is_good && meta.flags & FLAG_CHUNK != 0;
            let payload = if is_doubtful { &[] } else { payload };
            let units = super::units_of(meta.kind, meta.flags, payload);
            self.store.apply(io, (meta, None), placed, key, payload, units)?;
            self.store.commit = self.store.commit.max(meta.index);
        } else if meta.index > self.store.commit {
            self.store.recent.push(meta, placed);
        }
        Ok(())
    }

    /// Applies pending entries that are known to be committed and precede any unconfirmed spot.
    fn apply_known<D: Disk>(&mut self, io: &mut Io<D>) -> EngineResult<()> {
        let vouched = self.doubts.iter().take_while(|doubt| doubt.index <= self.synced).count();
        for doubt in self.doubts.drain(..vouched).collect::<Vec<_>>() {
            self.confirm(&mut io.logs, doubt);
        }
        let through = self.doubts.first().map_or(self.commit, |doubt| self.commit.min(doubt.index - 1));
        self.store.commit(io, through)
    }

    /// Blocks that were read and are valid stay in memory; older ones are evicted as the budget requires.
    fn cache_blocks<D: Disk>(
        &mut self,
        io: &mut Io<D>,
        slot: u32,
        begin: u64,
        bytes: Vec<u8>,
        is_clean: bool,
    ) {
        if !is_clean || !begin.is_multiple_of(BLOCK_BYTES as u64) {
            return;
        }
        let handle = self.store.handle;
        let first = begin as usize / BLOCK_BYTES;
        for (n, block) in bytes.chunks_exact(BLOCK_BYTES).enumerate() {
            if io.memory.is_over() {
                return;
            }
            // The first block may hold entries that were not checked now.
            if n == 0 && begin > 0 {
                continue;
            }
            let allocated =
                io.logs.separate_mut(self.store.handle).segment_mut(slot).install(first + n, block.to_vec());
            io.memory.add_used(allocated);
            io.memory.evictable.push_back((handle, slot, (first + n) as u32));
        }
    }
}
