//! Compaction: segments with much dead space are rewritten, in small steps, while the partition serves.
//!
//! ```text
//!   (Seal ──>) Copy (a few entries a step) ──> Sync, and the log's ──> Name ──> Swap ──> Patch (a few locations a step)
//!                                                                                             └──> old files go
//! ```
//!
//! A run of neighbouring sealed segments becomes one that covers the same range of log indexes, so the log stays sorted.
//! Until the rename the old files are valid; after it the new file is. The old files are removed once no location points
//! into them and they are not pinned.
//!
//! A partition in memory only has no files: the copy is swapped in as soon as it is complete.
//!
//! **Which removals may be dropped.** A removal keeps older entries of its key from coming back when the index is rebuilt
//! from the log. It may be dropped when no older segment can hold such an entry: when each has no dead entry at all, or was
//! itself rewritten after the removal was committed.

mod finish;

use super::compaction_policy::{Policy, blocked_removals};
use super::{MaintenanceStep, PartitionStore};
use crate::disk::crash_point::CrashPoint;
use crate::disk::{Disk, DiskError, FileId, SyncTicket};
use crate::error::{EngineError, EngineResult};
use crate::index::location::Location;
use crate::io::{Io, Logs};
use crate::limits::SEGMENT_FILE_BYTES_MAX;
use crate::log::entry::{self, EntryKind, EntryMeta, FLAG_JOINED, Head, HeadDecode};
use crate::log::header::{SegmentHeader, salt_of};
use crate::log::segment::Segment;
use crate::log::{EntryRef, FIRST_ENTRY_AT, entry_of};
use crate::logs::LogView;
use crate::overflow::chains::Form;
use crate::planted::{Bug, is_planted};

/// Compaction of one partition.
#[derive(Default)]
pub(crate) struct Compactor {
    job: Option<Box<CompactionJob>>,
    /// Replaced segments whose files still exist because they are pinned.
    retired: Vec<u32>,
    ran_out_of_space: bool,
    /// The slot of the copy, and the first log index of those entries in it that no location points to yet.
    unpatched: Option<(u32, u64)>,
    /// An entry was repaired in memory only: its segment must be rewritten.
    pub(crate) has_repaired: bool,
    /// The log is being copied: no segment is replaced.
    pub(crate) is_paused: bool,
}

struct CompactionJob {
    /// Slots of the run being replaced, in log order.
    sources: Vec<u32>,
    output: Option<Segment>,
    moves: Vec<CopiedEntry>,
    /// Removals up to this log index may be dropped.
    removals_through: u64,
    /// Entries after this log index are copied, dead or not: an upper layer may read its state from them again.
    retain_after: u64,
    stage: CompactionStage,
}

/// An entry that was copied.
#[derive(Clone, Copy)]
struct CopiedEntry {
    fragment: u32,
    /// Log index less the first of the copy.
    index: u32,
    source: u32,
    old_offset: u32,
    new_offset: u32,
    entry_bytes: u32,
}

enum CompactionStage {
    /// The segment to be rewritten was sealed and is being synced; then the run is chosen.
    Seal(Policy),
    /// Copying from this source, by its position in the run, from this offset on.
    Copy(usize, u64),
    /// The copy is being synced. Then the log must be durable up to this index: entries that were left out are dead because
    /// of an entry that must not be lost.
    Sync(SyncTicket, u64),
    /// The same, once the copy is synced.
    Log(u64),
    /// The copy is complete and has its name, whose sync found no descriptor. The name stays: after a crash it might come back, and no
    /// other copy of these segments may be made until then.
    Named,
    /// The copy is complete and has its name, which is being synced.
    Name(SyncTicket),
    /// Both versions are on the disk; the log still points to the old ones.
    Swap,
    /// Locations from this move on still point to the old segments; the new one has this slot.
    Patch(usize, u32),
}

/// Bytes of a source read in one step.
const STEP_BYTES: usize = 8 << 10;
/// Locations changed in one step.
const PATCH_MOVES: usize = 64;

impl Compactor {
    /// Whether locations point into segments that are no longer in the log.
    pub(crate) fn is_swapping(&self) -> bool {
        self.job.as_ref().is_some_and(|job| matches!(job.stage, CompactionStage::Patch(..)))
    }

    /// Whether the compaction waits for a checkpoint, if one is being written.
    pub(crate) fn waits_for_checkpoint(&self) -> bool {
        self.job.as_ref().is_some_and(|job| matches!(job.stage, CompactionStage::Swap))
    }

    /// Whether the location of an entry in this segment, the copy, is still to be redirected.
    pub(crate) fn redirects_later(&self, slot: u32, index: u64) -> bool {
        self.unpatched.is_some_and(|(copy, from)| copy == slot && from <= index)
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.job.is_some()
    }

    /// Forgets the copy that is being written. Returns its file.
    pub(crate) fn abandon<D>(&mut self, io: &mut Io<D>) -> Option<FileId> {
        self.unpatched = None;
        let output = self.job.take()?.output?;
        io.memory.freed(output.resident_bytes());
        output.file
    }

    /// Whether the last compaction was abandoned because the disk was full.
    pub(crate) fn ran_out_of_space(&self) -> bool {
        self.ran_out_of_space
    }
}

impl PartitionStore {
    /// Starts to rewrite the segments where most is to be gained. Returns whether there are any.
    pub(crate) fn compaction_begin<D: Disk>(
        &mut self,
        io: &mut Io<D>,
        policy: &Policy,
    ) -> EngineResult<bool> {
        if self.compaction.is_busy() || self.is_stopped() {
            return Ok(self.compaction.is_busy());
        }
        // An incomplete snapshot install is not a log yet: sealing its open segment would leave no place for the next run.
        if self.compaction.is_paused || self.is_incoming() {
            return Ok(false);
        }
        self.compaction.ran_out_of_space = false;
        self.seal_if_mostly_dead(io, policy)?;
        let job = match self.choose_run(&io.logs, policy, false) {
            Some(run) => self.job_for(io, run),
            None if self.choose_run(&io.logs, policy, true).is_some() => CompactionJob {
                sources: Vec::new(),
                output: None,
                moves: Vec::new(),
                removals_through: 0,
                retain_after: 0,
                stage: CompactionStage::Seal(*policy),
            },
            None => return Ok(false),
        };
        self.compaction.job = Some(Box::new(job));
        io.disk.reached(CrashPoint::CompactionBegun);
        Ok(true)
    }

    fn job_for<D>(&mut self, io: &mut Io<D>, run: Vec<u32>) -> CompactionJob {
        let keeps_after = self.state_retained_through(&io.logs);
        let removals_through = self.removals_through(&io.logs, run[0]);
        let log = io.logs.separate_mut(self.handle);
        let (first, last) = (log.segment(run[0]), log.segment(run[run.len() - 1]));
        let generation = run.iter().map(|&s| log.segment(s).header.generation).max().unwrap_or(0) + 1;
        let mut base = *first.base();
        base.salt = salt_of(self.id.partition, base.index, base.epoch, generation);
        let header = SegmentHeader {
            partition: self.id.partition,
            base,
            covers_through: last.last_index,
            covers_epoch: last.last_epoch,
            generation,
            // An entry that an older version still needs is copied though it is dead by now. And no entry that is copied
            // regardless of being dead may count as gone: only a later removal keeps it from coming back.
            compacted_at: self.commit.min(self.versions.oldest_ended_by().saturating_sub(1)).min(keeps_after),
            index_seed: self.id.index_seed,
        };
        let mut output = Segment::new(header, &log.folder);
        output.path.push_str(".tmp");
        io.memory.add_used(output.resident_bytes());
        run.iter().for_each(|&slot| log.segment_mut(slot).pins += 1);
        CompactionJob {
            sources: run,
            output: Some(output),
            moves: Vec::new(),
            removals_through,
            retain_after: keeps_after,
            stage: CompactionStage::Copy(0, FIRST_ENTRY_AT),
        }
    }

    /// Does one small step. With `wait`, a step that depends on the disk waits for it, but never for a checkpoint.
    pub(crate) fn compaction_step<D: Disk>(
        &mut self,
        io: &mut Io<D>,
        wait: bool,
    ) -> EngineResult<MaintenanceStep> {
        self.remove_retired(io)?;
        let is_swapping = self.compaction.is_swapping();
        let Some(mut job) = self.compaction.job.take() else { return Ok(MaintenanceStep::Done) };
        // Once started, the redirection of locations to the copy is completed; it needs only reads.
        let may_go_on = if is_swapping { Ok(()) } else { self.check_going() };
        match may_go_on.and_then(|()| self.job_step(io, &mut job, wait)) {
            Ok(MaintenanceStep::Done) => {
                self.remove_retired(io)?;
                Ok(MaintenanceStep::Done)
            }
            Ok(step) => {
                self.compaction.job = Some(job);
                Ok(step)
            }
            Err(error) if matches!(job.stage, CompactionStage::Patch(..)) => {
                // The log points to the copy already: the compaction cannot be undone.
                self.compaction.job = Some(job);
                self.stop_on_failure(Err(error))
            }
            Err(error) if matches!(job.stage, CompactionStage::Named) && error.is_out_of_space() => {
                self.compaction.job = Some(job);
                Err(error)
            }
            Err(error) => self.abandon(io, &mut job, error).map(|()| MaintenanceStep::Done),
        }
    }

    fn job_step<D: Disk>(
        &mut self,
        io: &mut Io<D>,
        job: &mut CompactionJob,
        wait: bool,
    ) -> EngineResult<MaintenanceStep> {
        match job.stage {
            CompactionStage::Seal(policy) => {
                if !io.with_separate(self.handle, |log, io| log.sync_done(io, wait))? {
                    return Ok(MaintenanceStep::Waits);
                }
                match self.choose_run(&io.logs, &policy, false) {
                    Some(run) => *job = self.job_for(io, run),
                    // The segment may have been truncated meanwhile, or be held back for another reason.
                    None if self.choose_run(&io.logs, &policy, true).is_none() => {
                        return Ok(MaintenanceStep::Done);
                    }
                    // A sync that was already running when the segment was sealed was too early.
                    None => io.with_separate(self.handle, |log, io| log.sync_begin_or_full(io))?,
                }
                Ok(MaintenanceStep::Progressed)
            }
            CompactionStage::Copy(source, offset) => {
                job.stage = match self.copy_step(io, job, source, offset)? {
                    Some(next) if next < io.logs.separate(self.handle).segment(job.sources[source]).bytes => {
                        CompactionStage::Copy(source, next)
                    }
                    _ if source + 1 < job.sources.len() => CompactionStage::Copy(source + 1, FIRST_ENTRY_AT),
                    _ => self.end_copy(io, job)?,
                };
                io.disk.reached(CrashPoint::CompactionCopied);
                Ok(MaintenanceStep::Progressed)
            }
            CompactionStage::Sync(ticket, through) => {
                if !is_planted(Bug::CopyNamedUnsynced) && !io.is_synced(ticket, wait)? {
                    return Ok(MaintenanceStep::Waits);
                }
                job.stage = CompactionStage::Log(through);
                Ok(MaintenanceStep::Progressed)
            }
            CompactionStage::Log(through) => {
                let is_done = io.with_separate(self.handle, |log, io| log.sync_done(io, wait))?;
                if io.logs.separate_mut(self.handle).synced_index() >= through
                    || is_planted(Bug::CompactedSegmentRenamedEarly)
                {
                    self.name_output(io, job)?;
                    return Ok(MaintenanceStep::Progressed);
                }
                if is_done {
                    io.with_separate(self.handle, |log, io| log.sync_begin_or_full(io))?;
                }
                Ok(MaintenanceStep::Waits)
            }
            CompactionStage::Named => match self.sync_name(io, job) {
                Err(error) if error.is_out_of_space() && !wait => Ok(MaintenanceStep::Waits),
                begun => begun.map(|()| MaintenanceStep::Progressed),
            },
            CompactionStage::Name(ticket) => {
                // If the name is removed now, a crash may bring it back: no further segment may be rewritten then.
                if !io.is_synced(ticket, wait).map_err(DiskError::beyond_repair)? {
                    return Ok(MaintenanceStep::Waits);
                }
                job.stage = CompactionStage::Swap;
                Ok(MaintenanceStep::Progressed)
            }
            // A checkpoint names segments by their slots: the swap waits for its end.
            CompactionStage::Swap => {
                if self.checkpoints.is_writing() || self.compaction.is_paused {
                    return Ok(MaintenanceStep::Waits);
                }
                let slot = self.swap(io, job)?;
                self.compaction.unpatched =
                    Some((slot, io.logs.separate(self.handle).segment(slot).first_index()));
                job.stage = CompactionStage::Patch(0, slot);
                io.disk.reached(CrashPoint::CompactionSwapped);
                Ok(MaintenanceStep::Progressed)
            }
            CompactionStage::Patch(from, slot) => {
                let until = job.moves.len().min(from + PATCH_MOVES);
                job.moves[from..until].iter().for_each(|moved| self.index.hash.touch(moved.fragment));
                job.moves[from..until].iter().for_each(|moved| self.patch(&mut io.logs, moved, slot));
                let first = io.logs.separate(self.handle).segment(slot).first_index();
                let next = job.moves.get(until).map(|moved| first + u64::from(moved.index));
                self.compaction.unpatched = next.map(|next| (slot, next));
                job.stage = CompactionStage::Patch(until, slot);
                io.disk.reached(CrashPoint::CompactionRedirected);
                if until < job.moves.len() {
                    return Ok(MaintenanceStep::Progressed);
                }
                for &source in &job.sources {
                    io.logs.separate_mut(self.handle).segment_mut(source).pins -= 1;
                    self.compaction.retired.push(source);
                }
                self.schedule_repaired_rewrites(&io.logs);
                Ok(MaintenanceStep::Done)
            }
        }
    }

    /// Copies the live ones of the next few entries. Returns the next position; `None` at the source's end.
    fn copy_step<D: Disk>(
        &mut self,
        io: &mut Io<D>,
        job: &mut CompactionJob,
        source: usize,
        offset: u64,
    ) -> EngineResult<Option<u64>> {
        let slot = job.sources[source];
        let segment = io.logs.separate(self.handle).segment(slot);
        let is_dead = segment.is_all_dead()
            || is_planted(Bug::MostlyDeadSegmentFreed) && segment.dead_bytes * 2 > segment.bytes;
        if offset == FIRST_ENTRY_AT && is_dead && segment.last_index <= job.retain_after {
            // No entry of it is copied: it need not be read.
            return Ok(None);
        }
        let mut bytes = std::mem::take(&mut self.apply_scratch.entry);
        let result = self.copy_chunk(io, job, slot, offset, &mut bytes);
        self.apply_scratch.entry = bytes;
        result
    }

    fn copy_chunk<D: Disk>(
        &mut self,
        io: &mut Io<D>,
        job: &mut CompactionJob,
        slot: u32,
        offset: u64,
        bytes: &mut Vec<u8>,
    ) -> EngineResult<Option<u64>> {
        let segment = io.logs.separate(self.handle).segment(slot);
        let is_checked = segment.read(&mut io.disk, offset, STEP_BYTES, bytes)?;
        let base = *segment.base();
        if !segment.dead.is_complete() {
            self.touch_index_of(&base, bytes);
        }
        let mut at = 0;
        loop {
            let log = io.logs.separate(self.handle);
            let decode = if is_checked { entry::decode_head_in_memory } else { entry::decode_head };
            let head = match decode(&base, &bytes[at..]) {
                HeadDecode::Head(head) if head.meta.kind == EntryKind::Footer => return Ok(None),
                HeadDecode::Head(head) if head.entry_bytes() <= bytes.len() - at => head,
                // The entry is cut by the end of the bytes read: continue there, with as many bytes as it needs.
                HeadDecode::Head(head) if at == 0 => {
                    log.segment(slot).read(&mut io.disk, offset, head.entry_bytes(), bytes)?;
                    if bytes.len() < head.entry_bytes() {
                        return Err(log.corrupt(slot, offset as u32));
                    }
                    head
                }
                HeadDecode::Need(needed) if at == 0 && needed > bytes.len() => {
                    let had = bytes.len();
                    log.segment(slot).read(&mut io.disk, offset, needed, bytes)?;
                    if bytes.len() == had {
                        return Err(log.corrupt(slot, offset as u32));
                    }
                    continue;
                }
                HeadDecode::Head(_) | HeadDecode::Need(_) => return Ok(Some(offset + at as u64)),
                HeadDecode::Bad => return Err(log.corrupt(slot, (offset + at as u64) as u32)),
            };
            let read = entry_of(head, &bytes[at..]);
            self.copy_entry(io, job, slot, offset + at as u64, read)?;
            at += head.entry_bytes();
            if at >= bytes.len() {
                return Ok(Some(offset + at as u64));
            }
        }
    }

    /// Prefetches the index lines of the entries in these bytes together, before they are needed one by one.
    fn touch_index_of(&self, base: &entry::EntryBase, bytes: &[u8]) {
        let mut at = 0;
        while let Some(rest) = bytes.get(at..)
            && let Some(head) = entry::decode_head_unchecked(base, rest)
            && let Some(key) = rest.get(entry::HEAD_BYTES..head.payload_at())
        {
            self.index.hash.touch(self.fragment(key));
            at += head.entry_bytes();
        }
    }

    fn copy_entry<D: Disk>(
        &mut self,
        io: &mut Io<D>,
        job: &mut CompactionJob,
        slot: u32,
        offset: u64,
        read: EntryRef<'_>,
    ) -> EngineResult<()> {
        let mut meta = read.head.meta;
        let is_kept = meta.index > job.retain_after && !meta.kind.is_local();
        if !is_kept {
            // The entry is committed, and so is the rest of its atomic batch, of which some entries may be dropped.
            meta.flags &= !FLAG_JOINED;
        }
        let is_dead = io.logs.separate(self.handle).segment(slot).dead.at(offset as u32);
        if is_dead == Some(true) && !is_kept {
            // The put or removal that replaced it keeps older entries of its key from coming back.
            return Ok(());
        }
        let fragment = if meta.kind.has_key() { self.fragment(read.key) } else { 0 };
        if is_planted(Bug::PartDropped) && self.is_second_part(fragment, read.key, meta.index) {
            return Ok(());
        }
        let (mut payload, mut payload_crc) = (read.payload, read.head.payload_crc);
        // An entry that dies from here on is counted as dead when locations are redirected to the copy.
        let lives = is_dead == Some(false) && matches!(meta.kind, EntryKind::Put | EntryKind::Append);
        if !lives && !is_kept && !self.is_needed(job, slot, offset, &read.head, fragment, read.key) {
            if !self.still_removes(job, &meta, fragment, read.key) {
                return Ok(());
            }
            (meta.kind, payload, payload_crc) = (EntryKind::Remove, &[], entry::crc(&[]));
        }
        if entry::crc(payload) != payload_crc {
            return Err(io.logs.separate(self.handle).corrupt(slot, offset as u32));
        }
        let Some(output) = job.output.as_mut() else { unreachable!("the output lives until the swap") };
        let new_offset = output.bytes;
        let entry_bytes = entry::HEAD_BYTES + read.key.len() + payload.len();
        if !output.base().reaches(&meta) {
            // Its timestamp is too far from those of the segments before it.
            io.logs.separate_mut(self.handle).segment_mut(slot).is_unmergeable = true;
            return Err(EngineError::Limit { what: "the span of one segment" });
        }
        assert!(new_offset + (entry_bytes as u64) < SEGMENT_FILE_BYTES_MAX, "offsets are kept in 27 bits");
        let head = entry::encode_head(output.base(), &meta, read.key, payload.len(), payload_crc);
        let allocated = output.push_parts(&head, read.key, [payload]);
        output.record_entry(&meta, new_offset, entry_bytes);
        if meta.kind == EntryKind::Trim && meta.index <= job.removals_through && !is_kept {
            // The entry is kept because an existing record depends on it: rewriting it again would free nothing.
            output.removal_bytes -= entry_bytes as u64;
        }
        io.memory.add_used(allocated);
        if !io.logs.separate(self.handle).is_in_memory_only() && output.has_full_block_to_write() {
            output.write_out(&mut io.disk, output.end(), false)?;
        }
        if matches!(meta.kind, EntryKind::Put | EntryKind::Append) {
            job.moves.push(CopiedEntry {
                fragment,
                index: (meta.index - output.first_index()) as u32,
                source: slot,
                old_offset: offset as u32,
                new_offset: new_offset as u32,
                entry_bytes: entry_bytes as u32,
            });
        }
        Ok(())
    }

    fn is_needed(
        &self,
        job: &CompactionJob,
        slot: u32,
        offset: u64,
        head: &Head,
        fragment: u32,
        key: &[u8],
    ) -> bool {
        let meta = &head.meta;
        match meta.kind {
            EntryKind::Put | EntryKind::Append => {
                let location = Location::entry(slot, offset as u32, head.entry_bytes());
                self.index.hash.find_slot(fragment, location).is_some()
                    || self.chain_of(fragment, key).is_some_and(|id| self.chains.get(id).has_part(meta.index))
                    || self.versions.needs(fragment, meta.index)
            }
            EntryKind::Trim => {
                let trims = |id| {
                    let chain = self.chains.get(id);
                    // A trim that is the last change of its record gives the record its version.
                    chain.trimmed_by == meta.index && (chain.skipped > 0 || chain.applied == meta.index)
                };
                self.chain_of(fragment, key).is_some_and(trims) || meta.index > job.removals_through
            }
            EntryKind::Remove => meta.index > job.removals_through,
            EntryKind::Mark => meta.index > self.checkpoints.covered(),
            EntryKind::Synced | EntryKind::Footer => false,
        }
    }

    /// Whether an entry is all that keeps entries of a replaced record from coming back. The entry replaced that record, and
    /// was since trimmed off the present one, or was itself replaced by an append of the other kind.
    fn still_removes(&self, job: &CompactionJob, meta: &EntryMeta, fragment: u32, key: &[u8]) -> bool {
        let stands_between = |id| {
            let chain = self.chains.get(id);
            let was_trimmed_off = chain.trimmed_by > meta.index
                && chain.parts.front().is_none_or(|part| part.index > meta.index);
            let is_other_kind = chain.form() != Form::of(meta.flags);
            is_other_kind || meta.kind == EntryKind::Put && was_trimmed_off
        };
        matches!(meta.kind, EntryKind::Put | EntryKind::Append)
            && meta.index > job.removals_through
            && self.chain_of(fragment, key).is_some_and(stands_between)
    }

    /// The log index up to which removals may be dropped from the run that starts with this segment. Entries of an older
    /// segment that die later are dead by a later removal.
    fn removals_through(&self, logs: &Logs, run_begins: u32) -> u64 {
        let log = logs.separate(self.handle);
        if is_planted(Bug::TombstoneDropped) {
            return u64::MAX;
        }
        let older = log.order.iter().take_while(|&&s| s != run_begins).map(|&s| log.segment(s));
        older.map(blocked_removals).min().unwrap_or(u64::MAX).min(self.versions.oldest_ended_by() - 1)
    }

    /// Redirects one location to the copy, or counts the copy as dead if its entry died meanwhile.
    fn patch(&mut self, logs: &mut Logs, moved: &CopiedEntry, slot: u32) {
        let log = logs.separate_mut(self.handle);
        let bytes = moved.entry_bytes as usize;
        if log.segment(moved.source).dead.at(moved.old_offset) == Some(true) {
            log.segment_mut(slot).count_dead_at(moved.new_offset, bytes as u64);
            return;
        }
        let old = Location::entry(moved.source, moved.old_offset, bytes);
        let new = Location::entry(slot, moved.new_offset, bytes);
        if let Some((found, _)) = self.index.hash.find_slot(moved.fragment, old) {
            self.index.hash.replace(found, new);
            return;
        }
        let index = log.segment(slot).first_index() + u64::from(moved.index);
        if is_planted(Bug::PartPlaceNotMoved) && self.places.get(LogView::Separate(log), index).is_some() {
            return;
        }
        if self.places.redirect(index, old, new) {
            return;
        }
        if self.is_part(moved.fragment, index) || self.versions.needs(moved.fragment, index) {
            // It was loaded from a checkpoint, which does not have its place.
            self.places.insert(LogView::Separate(log), index, new);
        } else {
            log.segment_mut(slot).count_dead(bytes as u64);
        }
    }
}
