//! Checkpoint rounds of a shared log: sections of many partitions in one file, and what they cover.
//!
//! ```text
//!   begin ── begin_section, append_section, end_section (each partition) ── end
//!                                                                                    │
//!     Log flush ──> directory ──> File sync ──> next mark names it, older files go  <┘
//! ```
//!
//! Only a directory makes sections count, and it is written once all that they refer to survives a crash.

use std::collections::{BTreeMap, VecDeque};

use super::contents::LogContents;
use super::creations::Ancestor;
use super::format::{FIRST_ENTRY_AT, HEADER_BYTES, LogPartition, LogStream, SharedHead, SharedKind};
use super::local::{LogFooter, MarkRow};
use super::round::{RoundDirectory, RoundHeader, SectionRow, encode_round_trailer};
use super::segment::SharedSegment;
use super::streams::{LogPlace, LogSlot, SharedLog};
use crate::disk::crash_point::CrashPoint;
use crate::disk::{Disk, DiskError, FileId, OpenMode, SyncTicket};
use crate::error::{EngineError, EngineResult};
use crate::log::entry::crc;
use crate::log::header::{TRAILER_BYTES, decode_trailer};
use crate::planted::{Bug, is_planted};

/// Sections are issued to the file in pieces of this length.
const PIECE_BYTES: usize = 256 << 10;
/// Sections of a partition that count.
const SECTIONS_RETAINED: usize = 2;

/// The rounds of a log. All methods are for that log.
#[derive(Debug, Default)]
pub struct LogRounds {
    /// The sections that count.
    pub(super) sections: Vec<SectionRow>,
    /// The complete files.
    pub(super) files: BTreeMap<u64, RoundFile>,
    /// The number of the last file, complete or not.
    pub(super) last: u64,
    writing: Option<Box<RoundWrite>>,
}

/// A complete file.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RoundFile {
    pub(super) bytes: u64,
    /// Its directory has all creations, marks and voids of small segments of lower numbers.
    pub(super) small_end: u64,
}

/// The round that is being written.
#[derive(Debug)]
struct RoundWrite {
    header: RoundHeader,
    path: String,
    file: FileId,
    /// Bytes before the buffer.
    issued: u64,
    buffer: Vec<u8>,
    rows: Vec<SectionRow>,
    /// The bytes of the section that is being written; its row is the last one.
    section: Vec<u8>,
    /// How many files of the log had failed when it began. If another has failed since, places in its sections have changed, and it
    /// must not count.
    failed_before: u64,
    stage: RoundStage,
}

#[derive(Debug)]
enum RoundStage {
    Sections,
    /// So many flushes must have ended.
    Log(u64),
    File(SyncTicket, RoundDirectory),
}

/// How far the end of a round has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoundState {
    /// It waits for the disk.
    Running,
    /// Its sections count.
    Done,
    /// Its sections do not count, because a file of the log failed and entries have other places: it may be begun again.
    Abandoned,
}

/// Which entries of a log partition no checkpoint has: those above the commit index, as far as they have an owner.
type Owners = BTreeMap<LogPartition, Vec<(Ancestor, u64)>>;

impl LogRounds {
    /// Begins a round. The owner has taken all moved entries.
    ///
    /// # Errors
    /// [`EngineError::Stopped`]; [`EngineError::Disk`] and [`EngineError::is_out_of_space`]: no round has begun.
    pub fn begin(&mut self, log: &SharedLog, disk: &mut impl Disk) -> EngineResult<()> {
        log.check_runs()?;
        debug_assert!(log.failed.moved.is_empty() && self.writing.is_none(), "one round at a time");
        self.last += 1;
        let header = RoundHeader { number: self.last, log: log.options.log };
        let path = round_path(&log.options.folder, header.number);
        let file = disk.open(&path, OpenMode::Create).map_err(round_error)?;
        disk.reached(CrashPoint::CheckpointBegun);
        self.writing = Some(Box::new(RoundWrite {
            header,
            path,
            file,
            issued: 0,
            buffer: header.encode().to_vec(),
            rows: Vec::new(),
            section: Vec::new(),
            failed_before: log.failed.count,
            stage: RoundStage::Sections,
        }));
        Ok(())
    }

    /// Whether a round is being written.
    #[must_use]
    pub fn is_writing(&self) -> bool {
        self.writing.is_some()
    }

    /// Whether the log's flush that the end of the round needs is yet to begin.
    pub(crate) fn has_flush_to_begin(&self) -> bool {
        self.writing.as_ref().is_some_and(|writing| matches!(writing.stage, RoundStage::Sections))
    }

    /// Begins the section of a partition: every entry up to the commit index will be in it.
    pub fn begin_section(&mut self, log: &SharedLog, slot: LogSlot, commit: u64, epoch: u32) {
        let number = log.number(slot);
        let cold = log.open[LogStream::Cold as usize].as_ref().map_or(
            LogPlace { segment: log.next.segment, offset: 0 },
            |open| LogPlace { segment: open.header.number, offset: open.complete_bytes() as u32 },
        );
        if let Some(writing) = &mut self.writing {
            let offset = writing.issued + writing.buffer.len() as u64;
            let round = writing.header.number;
            writing.section.clear();
            writing.rows.push(SectionRow { number, epoch, commit, round, offset, bytes: 0, crc: 0, cold });
        }
    }

    /// Adds bytes to the section.
    pub fn append_section(&mut self, bytes: &[u8]) {
        if let Some(writing) = &mut self.writing {
            writing.section.extend_from_slice(bytes);
        }
    }

    /// Ends the section.
    ///
    /// # Errors
    /// [`EngineError::Disk`] and [`EngineError::is_out_of_space`]: the round is abandoned.
    pub fn end_section(&mut self, disk: &mut impl Disk) -> EngineResult<()> {
        disk.reached(CrashPoint::CheckpointPage);
        let Some(writing) = &mut self.writing else { return Ok(()) };
        if let Some(row) = writing.rows.last_mut() {
            (row.bytes, row.crc) = (writing.section.len() as u64, crc(&writing.section));
        }
        writing.buffer.append(&mut writing.section);
        if writing.buffer.len() >= PIECE_BYTES
            && let Err(error) = writing.issue(disk)
        {
            self.abandon(disk);
            return Err(round_error(error));
        }
        Ok(())
    }

    /// Ends the round: to be called until it is not running any more. With `wait` it waits for the disk.
    ///
    /// # Errors
    /// As [`SharedLog::flush_begin`], of the log's flush; [`EngineError::Disk`] and [`EngineError::is_out_of_space`] of the round's
    /// file: the round is abandoned.
    pub fn end(&mut self, log: &mut SharedLog, disk: &mut impl Disk, wait: bool) -> EngineResult<RoundState> {
        let ended = self.drive(log, disk, wait);
        if ended.is_err() || ended == Ok(RoundState::Abandoned) {
            self.abandon(disk);
        }
        ended
    }

    /// Forgets the round that is being written.
    pub fn abandon(&mut self, disk: &mut impl Disk) {
        if let Some(writing) = self.writing.take() {
            disk.close(writing.file);
            // If it stays, recovery removes it.
            let _ = disk.remove(&writing.path);
        }
    }

    fn drive(&mut self, log: &mut SharedLog, disk: &mut impl Disk, wait: bool) -> EngineResult<RoundState> {
        loop {
            log.check_runs()?;
            let Some(writing) = &mut self.writing else { return Ok(RoundState::Abandoned) };
            if log.failed.count > writing.failed_before {
                return Ok(RoundState::Abandoned);
            }
            match &writing.stage {
                RoundStage::Sections => {
                    writing.issue(disk).map_err(round_error)?;
                    if log.flush_begin(disk, true)? {
                        let flush = log.flushes.count.begun;
                        self.set_stage(RoundStage::Log(flush));
                    } else if !log.flush_done(disk, wait)? {
                        return Ok(RoundState::Running);
                    }
                }
                RoundStage::Log(flush) => {
                    let flush = *flush;
                    let is_durable = log.flushes.count.done >= flush || is_planted(Bug::UnfinishedRoundUsed);
                    if !is_durable && !log.flush_done(disk, wait)? {
                        return Ok(RoundState::Running);
                    }
                    // A creation that the log may lose would be in this directory alone.
                    if log.has_fresh_creations() && !is_planted(Bug::UnfinishedRoundUsed) {
                        self.set_stage(RoundStage::Sections);
                    } else {
                        self.write_directory(log, disk)?;
                    }
                }
                RoundStage::File(ticket, _) => {
                    let ticket = *ticket;
                    let done =
                        if wait { disk.sync_wait(ticket).map(|()| true) } else { disk.sync_done(ticket) };
                    if !done.map_err(|error| round_error(error.beyond_repair()))? {
                        return Ok(RoundState::Running);
                    }
                    self.finish(log, disk);
                    return Ok(RoundState::Done);
                }
            }
        }
    }

    fn set_stage(&mut self, stage: RoundStage) {
        if let Some(writing) = &mut self.writing {
            writing.stage = stage;
        }
    }

    fn write_directory(&mut self, log: &SharedLog, disk: &mut impl Disk) -> EngineResult<()> {
        let Some(writing) = &self.writing else { return Ok(()) };
        if log.failed.count > writing.failed_before {
            return Ok(());
        }
        let fresh = writing.rows.clone();
        let directory = self.directory(log, &fresh);
        let bytes = directory.encode();
        let folder = log.options.folder.clone();
        let Some(writing) = &mut self.writing else { return Ok(()) };
        let trailer = encode_round_trailer(writing.header.salt(), writing.issued, &bytes);
        writing.buffer.extend_from_slice(&bytes);
        writing.buffer.extend_from_slice(&trailer);
        writing.issue(disk).map_err(round_error)?;
        disk.reached(CrashPoint::CheckpointWritten);
        let ticket = disk.sync_begin_with_name(writing.file, &folder).map_err(round_error)?;
        self.set_stage(RoundStage::File(ticket, directory));
        Ok(())
    }

    /// The directory of a round with these sections, as of now.
    fn directory(&self, log: &SharedLog, fresh: &[SectionRow]) -> RoundDirectory {
        let mut by_number: BTreeMap<LogPartition, Vec<SectionRow>> = BTreeMap::new();
        for row in self.sections.iter().chain(fresh) {
            by_number.entry(row.number).or_default().push(*row);
        }
        let (mut sections, mut newest, mut marks) = (BTreeMap::new(), Vec::new(), Vec::new());
        let mut cold = u64::MAX;
        let mut in_memory = Vec::new();
        for slot in log.slots() {
            let tail = log.tail(slot);
            if tail.is_in_memory {
                in_memory.push(tail.number);
                continue;
            }
            let counting = sections_of(log, slot, &by_number);
            newest.push((slot, counting.first().map_or(0, |row| row.commit)));
            cold = counting.first().map_or(cold, |row| cold.min(row.cold.segment));
            // From this directory on, compaction may leave out what is dead below it.
            let covered = counting.get(SECTIONS_RETAINED - 1).map_or(0, |row| row.commit);
            sections.extend(counting.into_iter().map(|row| ((row.number, row.round), row)));
            marks.push(MarkRow {
                number: tail.number,
                epoch: tail.last.0,
                durable: tail.durable(log.flushes.count),
                commit: tail.commit,
                covered: tail.covered.max(covered),
            });
        }
        let owners = owners(log, &newest);
        // What is still added to an open segment is newer than this directory, and the end of one that is not settled may be lost:
        // a later recovery must see it, even if no partition owns its entries.
        let mut tail = LogStream::ON_DISK.map(|stream| {
            let is_its = |number: &&u64| log.segment(**number).is_some_and(|s| s.header.stream == stream);
            let unsettled = log.unsettled.iter().filter(is_its).min();
            first_uncovered(log, stream, &owners).min(unsettled.copied().unwrap_or(u64::MAX))
        });
        tail[LogStream::Cold as usize] = tail[LogStream::Cold as usize].min(cold);
        let is_there = |segment| log.segment(segment).is_some();
        RoundDirectory {
            ends: log.ends,
            tail,
            next_segment: log.next.segment,
            next_number: log.next.partition,
            creations: log.creations.rows().filter(|row| !in_memory.contains(&row.number)).copied().collect(),
            marks,
            voids: log.failed.voids.iter().filter(|range| is_there(range.segment)).copied().collect(),
            sections: sections.into_values().collect(),
        }
    }

    fn finish(&mut self, log: &mut SharedLog, disk: &mut impl Disk) {
        disk.reached(CrashPoint::CheckpointInstalled);
        let Some(writing) = self.writing.take() else { return };
        disk.close(writing.file);
        let RoundStage::File(_, directory) = writing.stage else { return };
        let number = writing.header.number;
        let small_end = directory.ends[LogStream::Small as usize].segment;
        self.files.insert(number, RoundFile { bytes: writing.issued, small_end });
        self.sections = directory.sections;
        log.marks.checkpoint = number;
        let covered: Vec<(LogSlot, u64)> = self.covered(log);
        for (slot, covered) in covered {
            let tail = &mut log.tails[slot.0 as usize];
            tail.covered = tail.covered.max(covered);
            log.change(slot);
        }
        // The newest two directories stay whatever their sections are: the newest may become corrupt.
        let spared = self.files.keys().rev().nth(1).copied().unwrap_or_default();
        let counts = |file: u64| self.sections.iter().any(|row| row.round == file);
        let gone: Vec<u64> =
            self.files.keys().copied().filter(|file| *file < spared && !counts(*file)).collect();
        for file in gone {
            if disk.remove(&round_path(&log.options.folder, file)).is_ok() {
                self.files.remove(&file);
                disk.reached(CrashPoint::CheckpointRemoved);
            }
        }
    }

    /// The partitions whose sections a round should have, the most urgent first. First come those with entries in the
    /// oldest segments that no section has. Then come those whose sections keep a file of which less than half counts.
    #[must_use]
    pub fn plan(&self, log: &SharedLog) -> Vec<LogSlot> {
        let by_number = self.sections_by_number();
        let mut oldest: BTreeMap<LogPartition, u64> = BTreeMap::new();
        for segment in log.segments().into_iter().rev().filter_map(|number| log.segment(number)) {
            for run in &segment.runs {
                oldest.insert(run.number, segment.header.number);
            }
        }
        let in_use = |file: u64| {
            let rows = self.sections.iter().filter(|row| row.round == file);
            rows.map(|row| row.bytes).sum::<u64>()
        };
        let sparse: Vec<u64> = self
            .files
            .iter()
            .filter_map(|(number, file)| {
                (2 * in_use(*number) + (HEADER_BYTES as u64) < file.bytes).then_some(*number)
            })
            .collect();
        let mut plan = Vec::new();
        for slot in log.slots().filter(|slot| !log.tail(*slot).is_in_memory) {
            let counting = sections_of(log, slot, &by_number);
            // Both must cover an entry before compaction may take its segment.
            let commit = counting.get(SECTIONS_RETAINED - 1).map_or(0, |row| row.commit);
            let uncovered = lineage_of(log, slot).filter(|ancestor| ancestor.through > commit);
            let first = uncovered.filter_map(|ancestor| oldest.get(&ancestor.number)).min().copied();
            let is_sparse = counting.iter().any(|row| sparse.contains(&row.round));
            if first.is_some() && log.tail(slot).last.1 > commit || is_sparse {
                plan.push((first.unwrap_or(u64::MAX), slot));
            }
        }
        plan.sort_unstable();
        plan.into_iter().map(|(_, slot)| slot).collect()
    }

    /// Sealed segments whose entries are all below the older of the two sections of their partitions, or dead.
    /// Compaction may copy what is live in them, and recycle them once the copies survive a crash.
    #[must_use]
    pub fn victims(&self, log: &SharedLog) -> Vec<u64> {
        // The creations and marks in it are in both of the newest directories.
        let small_end = self.files.values().rev().nth(1).map_or(0, |file| file.small_end);
        let owners = owners(log, &self.covered(log));
        let is_victim = |segment: &SharedSegment| {
            let header = &segment.header;
            let is_in_directories = header.stream != LogStream::Small || header.number < small_end;
            segment.is_settled()
                && segment.state.are_runs_known
                && !segment.state.is_pinned
                && is_in_directories
                && (!has_uncovered(segment, &owners) || is_planted(Bug::UncoveredEntryCompacted))
        };
        let victims = log.sealed.values().filter(|segment| is_victim(segment));
        victims.map(|segment| segment.header.number).collect()
    }

    /// The partitions for whose sections dead space waits: that of segments of which much is dead, or anything with `any_dead`.
    #[must_use]
    pub fn blocking(&self, log: &SharedLog, any_dead: bool) -> Vec<LogSlot> {
        let small_end = self.files.values().rev().nth(1).map_or(0, |file| file.small_end);
        let covered: BTreeMap<LogSlot, u64> = self.covered(log).into_iter().collect();
        let mut by_number: BTreeMap<LogPartition, Vec<(LogSlot, Ancestor)>> = BTreeMap::new();
        for slot in covered.keys() {
            for ancestor in lineage_of(log, *slot) {
                by_number.entry(ancestor.number).or_default().push((*slot, ancestor));
            }
        }
        let mut blocking = Vec::new();
        for segment in log.sealed.values().filter(|segment| segment.is_settled()) {
            let (dead, total) = (segment.dead_bytes(), segment.entry_bytes());
            if dead == 0 || !any_dead && 4 * dead < total {
                continue;
            }
            let owners = segment.runs.iter().flat_map(|run| {
                let owners = by_number.get(&run.number).into_iter().flatten();
                owners.filter(|(_, ancestor)| run.first <= ancestor.through).map(move |owner| (run, owner))
            });
            let before = blocking.len();
            blocking.extend(owners.clone().filter_map(|(run, (slot, ancestor))| {
                (run.last.min(ancestor.through) > covered[slot]).then_some(*slot)
            }));
            let header = &segment.header;
            if blocking.len() == before && header.stream == LogStream::Small && header.number >= small_end {
                // Its creations and marks must be in two directories: whichever partition the rounds are for.
                let any = owners.map(|(_, (slot, _))| *slot).next();
                blocking.extend(any.or_else(|| covered.keys().next().copied()));
            }
        }
        blocking.sort_unstable();
        blocking.dedup();
        blocking
    }

    /// Commit index and length of the sections of a partition that count, the oldest first.
    pub(crate) fn retained(&self, log: &SharedLog, slot: LogSlot) -> VecDeque<(u64, u64)> {
        let sections = sections_of(log, slot, &self.sections_by_number());
        sections.iter().rev().map(|row| (row.commit, row.bytes)).collect()
    }

    /// The commit index of the older of the two sections of each partition; 0 without two.
    fn covered(&self, log: &SharedLog) -> Vec<(LogSlot, u64)> {
        let by_number = self.sections_by_number();
        let covered = |slot| {
            let sections = sections_of(log, slot, &by_number);
            sections.get(SECTIONS_RETAINED - 1).map_or(0, |row| row.commit)
        };
        let slots = log.slots().filter(|slot| !log.tail(*slot).is_in_memory);
        slots.map(|slot| (slot, covered(slot))).collect()
    }

    fn sections_by_number(&self) -> BTreeMap<LogPartition, Vec<SectionRow>> {
        let mut by_number: BTreeMap<LogPartition, Vec<SectionRow>> = BTreeMap::new();
        for row in &self.sections {
            by_number.entry(row.number).or_default().push(*row);
        }
        by_number
    }
}

/// Reads the runs of a segment that recovery has not read. Returns whether there was one.
///
/// # Errors
/// [`EngineError::Disk`].
pub fn learn_runs(log: &mut SharedLog, disk: &mut impl Disk) -> EngineResult<bool> {
    let unknown = log.sealed.values().find(|segment| !segment.state.are_runs_known);
    let Some(number) = unknown.map(|segment| segment.header.number) else { return Ok(false) };
    learn_runs_of(log, disk, number)?;
    Ok(true)
}

/// Reads the runs of a segment, if recovery has not.
///
/// # Errors
/// [`EngineError::Disk`].
pub(crate) fn learn_runs_of(log: &mut SharedLog, disk: &mut impl Disk, number: u64) -> EngineResult<()> {
    let unknown = log.sealed.get_mut(&number).filter(|segment| !segment.state.are_runs_known);
    let Some(segment) = unknown else { return Ok(()) };
    segment.runs = match read_footer(segment, disk)? {
        Some(footer) => footer.runs,
        None => {
            let (from, mut bytes) = (FIRST_ENTRY_AT as u64, Vec::new());
            segment.read(disk, from, segment.bytes.saturating_sub(from) as usize, &mut bytes)?;
            LogContents::default().read(&segment.header, &bytes, from)
        }
    };
    segment.state.are_runs_known = true;
    Ok(())
}

/// The footer, if the segment ends with one that is as it was written.
fn read_footer(segment: &SharedSegment, disk: &mut impl Disk) -> EngineResult<Option<LogFooter>> {
    let mut bytes = Vec::new();
    let Some(trailer_at) = segment.bytes.checked_sub(TRAILER_BYTES as u64) else { return Ok(None) };
    segment.read(disk, trailer_at, TRAILER_BYTES, &mut bytes)?;
    let Some((at, length)) = decode_trailer(segment.base.salt, &bytes) else { return Ok(None) };
    if u64::from(at) + u64::from(length) != trailer_at {
        return Ok(None);
    }
    segment.read(disk, at.into(), length as usize, &mut bytes)?;
    let head = SharedHead::decode(&segment.base, &bytes).filter(|head| head.kind == SharedKind::Footer);
    let payload = head.and_then(|head| {
        let payload = bytes.get(head.payload_at()..head.entry_bytes())?;
        (crc(payload) == head.payload_crc).then_some(payload)
    });
    let footer = payload.and_then(LogFooter::decode);
    Ok(footer.filter(|footer| footer.header.number == segment.header.number))
}

/// The sections of a partition that count, the newest first.
fn sections_of(
    log: &SharedLog,
    slot: LogSlot,
    by_number: &BTreeMap<LogPartition, Vec<SectionRow>>,
) -> Vec<SectionRow> {
    let mut rows: Vec<SectionRow> = Vec::new();
    for ancestor in lineage_of(log, slot) {
        let sections = by_number.get(&ancestor.number).into_iter().flatten();
        rows.extend(sections.filter(|row| row.commit <= ancestor.through));
    }
    rows.sort_by_key(|row| std::cmp::Reverse((row.round, row.number)));
    rows.truncate(SECTIONS_RETAINED);
    rows
}

fn owners(log: &SharedLog, commits: &[(LogSlot, u64)]) -> Owners {
    let mut owners = Owners::new();
    for (slot, commit) in commits {
        for ancestor in lineage_of(log, *slot) {
            owners.entry(ancestor.number).or_default().push((ancestor, *commit));
        }
    }
    owners
}

fn first_uncovered(log: &SharedLog, stream: LogStream, owners: &Owners) -> u64 {
    let sealed = log.sealed.values().filter(|segment| segment.header.stream == stream);
    let open = log.open[stream as usize].iter();
    let first = sealed.chain(open).find(|segment| has_uncovered(segment, owners));
    first.map_or(log.next.segment, |segment| segment.header.number)
}

fn lineage_of(log: &SharedLog, slot: LogSlot) -> impl Iterator<Item = Ancestor> {
    log.creations.lineage_of(log.tail(slot).number)
}

fn has_uncovered(segment: &SharedSegment, owners: &Owners) -> bool {
    segment.runs.iter().any(|run| {
        let owners = owners.get(&run.number).into_iter().flatten();
        let uncovered = |(ancestor, commit): &(Ancestor, u64)| run.last.min(ancestor.through) > *commit;
        // A run is a part of what is owned only if its first entry is.
        owners.filter(|(ancestor, _)| run.first <= ancestor.through).any(uncovered)
    })
}

impl RoundWrite {
    fn issue(&mut self, disk: &mut impl Disk) -> Result<(), DiskError> {
        if !self.buffer.is_empty() {
            disk.append(self.file, &self.buffer)?;
            self.issued += self.buffer.len() as u64;
            self.buffer.clear();
        }
        Ok(())
    }
}

fn round_error(error: DiskError) -> EngineError {
    match error {
        DiskError::Full => EngineError::DiskFull { free_bytes: 0 },
        error => EngineError::from(error),
    }
}

/// The path of the file of a round.
pub(super) fn round_path(folder: &str, number: u64) -> String {
    format!("{folder}/{number:016x}.ckp")
}
