//! From a folder of a shared log to the log of each partition: the newest round, and the tail behind it, once for all.
//!
//! The log of a partition is its newest section, and the **longest prefix without a gap** of what follows it in both streams. A
//! gap is damage, and the log goes on behind it, only if a mark proves that the missing entries were durable. Nothing is cut
//! from a file: what follows the end of a log has no owner once [`resume`] has written creations that continue the logs
//! through their ends.
//!
//! If the newest section of a partition is corrupt, all segments are read, and its older section counts; without one, the log
//! consists of what the segments have.

use std::collections::BTreeMap;

use super::contents::LogContents;
use super::format::{
    FIRST_ENTRY_AT, HEADER_BYTES, LogId, LogPartition, LogStream, SEGMENT_NUMBER_END, SharedHeader,
};
use super::local::VoidRange;
use super::prefix::{LogDamage, RecoveredLog};
use super::round::{ROUND_TRAILER_BYTES, RoundDirectory, RoundHeader, SectionRow, decode_round_trailer};
use super::rounds::{LogRounds, RoundFile, round_path};
use super::segment::{SharedSegment, number_in, segment_path, spare_path};
use super::streams::{LogBeginning, LogSlot, NewLogPartition, SharedLog, SharedLogOptions};
use crate::disk::crash_point::CrashPoint;
use crate::disk::{Disk, DiskError, DiskResult, FileId, OpenMode};
use crate::error::{EngineError, EngineResult};
use crate::log::entry::crc;
use crate::planted::{Bug, is_planted};

/// What [`recover`] has found.
pub struct LogRecovery {
    /// The log of each partition.
    pub partitions: Vec<RecoveredLog>,
    /// What is damaged.
    pub damage: Vec<LogDamage>,
    /// The number of the round that was read; 0: none.
    pub checkpoint: u64,
    /// Log partitions whose creations were lost before they were durable.
    unregistered_partitions: Vec<LogPartition>,
    /// Bytes that are nothing from here on.
    voids: Vec<VoidRange>,
    rounds: LogRounds,
    beginning: LogBeginning,
    segments: Vec<SharedSegment>,
}

/// The files of a folder.
#[derive(Default)]
struct LogFolder {
    /// Segments with a readable header, by number.
    segments: BTreeMap<u64, (SharedHeader, FileId)>,
    unreadable: Vec<(u64, FileId)>,
    spares: Vec<String>,
    rounds: Vec<u64>,
    next_segment: u64,
}

/// Reads a folder. What was read survives a crash when this returns.
///
/// # Errors
/// [`EngineError::Disk`]; [`EngineError::Format`] if the folder has files of another log.
pub fn recover(disk: &mut impl Disk, folder: &str, log: LogId) -> EngineResult<LogRecovery> {
    disk.reached(CrashPoint::RecoveryBegun);
    let mut files = LogFolder::open(disk, folder, log)?;
    let (mut contents, mut damage) = (LogContents::default(), Vec::new());
    let mut rounds = LogRounds::default();
    rounds.last = files.rounds.last().copied().unwrap_or_default();
    let (mut unreadable_rounds, mut tail) = (Vec::new(), [0; 3]);
    for number in std::mem::take(&mut files.rounds).into_iter().rev() {
        let older = rounds.files.len();
        let read = if older < 2 { read_directory(disk, folder, log, number)? } else { None };
        match read {
            Some((directory, bytes)) => {
                let small_end = directory.ends[LogStream::Small as usize].segment;
                rounds.files.insert(number, RoundFile { bytes, small_end });
                if older == 0 {
                    contents.begin(&directory);
                    files.next_segment = files.next_segment.max(directory.next_segment);
                    tail = directory.tail;
                    rounds.sections = directory.sections;
                }
            }
            None if older == 0 => unreadable_rounds.push(number),
            None => files.rounds.push(number),
        }
    }
    let checkpoint = rounds.files.last_key_value().map_or(0, |(number, _)| *number);
    files.keep_rounds(disk, folder, &mut rounds)?;
    let mut corrupt_sections = Vec::new();
    for row in sections_newest_first(&rounds.sections) {
        if contents.is_superseded(row.number) {
            continue;
        }
        if read_section(disk, folder, &row)?.is_some() {
            contents.sections.by_number.entry(row.number).or_default().push(row);
        } else {
            corrupt_sections.push(row);
        }
    }
    disk.reached(CrashPoint::RecoveryCheckpointLoaded);
    if !corrupt_sections.is_empty() {
        tail = [0; 3];
        rounds.sections.retain(|row| !corrupt_sections.contains(row));
    }
    let mut segments = Vec::new();
    // The marks, which say what of the large stream is proved, are read before it.
    let is_large = |header: &SharedHeader| header.stream == LogStream::Large;
    let (large, others): (Vec<_>, Vec<_>) =
        files.segments.iter().partition(|(_, (header, _))| is_large(header));
    for (number, (header, file)) in others.into_iter().chain(large) {
        let bytes = disk.bytes(*file)?;
        let mut segment = SharedSegment::existing(*header, folder, *file, bytes);
        if *number >= tail[header.stream as usize] {
            segment.runs = if is_large(header) {
                contents.read_heads(disk, header, *file, bytes)?
            } else {
                let from = FIRST_ENTRY_AT as u64;
                let read = read_piece(disk, *file, from.min(bytes), bytes.saturating_sub(from))?;
                contents.read(header, &read, from)
            };
            segment.state.are_runs_known = true;
        }
        segments.push(segment);
    }
    disk.reached(CrashPoint::RecoveryLogRead);
    let voids = contents.settle_voids();
    // A file that no mark names may never have been durable, whatever is there of it.
    let (proved, torn): (Vec<&SectionRow>, Vec<&SectionRow>) =
        corrupt_sections.iter().partition(|row| row.round <= contents.checkpoint);
    damage.extend(proved.iter().map(|row| LogDamage::Section { number: row.number, round: row.round }));
    // The next mark would prove what is torn.
    let named_checkpoint = if torn.is_empty() { checkpoint } else { contents.checkpoint };
    damage.extend(contents.lost_copies());
    files.settle_unreadable(disk, folder, &contents, &mut damage)?;
    files.begin_numbers(disk, folder)?;
    // What was read may be only in the system's cache.
    for (number, (header, file)) in &files.segments {
        if *number >= tail[header.stream as usize] {
            // Behind its end, a recycled file may have bytes of an earlier segment, which must not show after a later crash.
            let bytes = disk.bytes(*file)?;
            disk.truncate(*file, bytes)?;
            disk.sync(*file)?;
        }
    }
    if !files.segments.is_empty() || !files.spares.is_empty() {
        disk.sync_dir(folder)?;
    }
    // A directory that no mark names may never have been complete.
    for number in unreadable_rounds {
        if number <= contents.checkpoint {
            damage.push(LogDamage::Round { round: number });
        }
        disk.remove(&round_path(folder, number))?;
    }
    rounds.last = rounds.last.max(contents.checkpoint);
    let ends = contents.ends.iter().map(|end| end.segment + 1);
    // What is void of a number must not be void of another segment.
    let void = contents.voids.iter().chain(&voids).map(|range| range.segment + 1);
    let next_segment = ends.chain(void).fold(files.next_segment, u64::max);
    let partitions = contents.partitions(&mut damage);
    let unregistered_partitions = contents.unregistered_partitions(&mut damage);
    let beginning = LogBeginning {
        next_segment,
        next_number: contents.highest.0.saturating_add(1),
        creations: contents.creations,
        newest: files.newest(),
        // Not the ends of what was read: there are bytes below them without an owner before creations are durable.
        ends: contents.ends,
        voids: contents.voids,
        spares: files.spares,
        timestamp: contents.timestamp,
        checkpoint: named_checkpoint,
    };
    Ok(LogRecovery {
        partitions,
        damage,
        checkpoint,
        unregistered_partitions,
        voids,
        rounds,
        beginning,
        segments,
    })
}

/// The log that continues what was found, its rounds, and the slot of each of [`LogRecovery::partitions`]. The creations that end logs before
/// entries that were found stand before the first new entry. What says that unreadable bytes are void survives a crash when
/// this returns; on a full disk, once a flush has ended, and before that no entry is accepted.
///
/// # Errors
/// As [`SharedLog::begin`], and as [`SharedLog::flush_begin`].
pub fn resume(
    disk: &mut impl Disk,
    options: SharedLogOptions,
    recovery: LogRecovery,
) -> EngineResult<(SharedLog, LogRounds, Vec<LogSlot>)> {
    let mut log = SharedLog::resume(options, recovery.beginning);
    recovery.segments.into_iter().for_each(|segment| log.add_existing(segment));
    // Later marks prove the segments that have their entries, and must not make damage of them.
    log.mark_ownerless(&recovery.unregistered_partitions)?;
    let mut slots = Vec::with_capacity(recovery.partitions.len());
    for found in &recovery.partitions {
        let (epoch, through) = found.last;
        let new = NewLogPartition::first(found.partition, found.seed);
        if found.is_cut {
            let continues = Some((found.number, through, epoch));
            slots.extend(log.begin(&[NewLogPartition { continues, ..new }], None)?);
        } else {
            slots.push(log.reopen(found.number, found.last, &new));
        }
        if let Some(slot) = slots.last() {
            log.note_progress(*slot, found.commit, found.covered);
        }
    }
    if !recovery.voids.is_empty() && !is_planted(Bug::UnreadableBytesComeBack) {
        log.add_voids(&recovery.voids)?;
        match log.flush(disk, false) {
            // No entry is accepted before a later flush has room.
            Err(error) if error.is_out_of_space() => log.flushes.is_first_due = true,
            flushed => flushed?,
        }
    }
    Ok((log, recovery.rounds, slots))
}

/// The bytes of a section; `None` if they are not those that were written.
///
/// # Errors
/// [`EngineError::Disk`].
pub fn read_section(disk: &mut impl Disk, folder: &str, row: &SectionRow) -> EngineResult<Option<Vec<u8>>> {
    let path = round_path(folder, row.round);
    let file = match disk.open(&path, OpenMode::Existing) {
        Err(DiskError::NotFound { .. }) => return Ok(None),
        opened => opened?,
    };
    let end = row.offset.checked_add(row.bytes);
    let bytes = if end.is_some_and(|end| disk.bytes(file).is_ok_and(|bytes| end <= bytes)) {
        read_piece(disk, file, row.offset, row.bytes).map(Some)
    } else {
        Ok(None)
    };
    disk.close(file);
    Ok(bytes?.filter(|bytes| crc(bytes) == row.crc))
}

/// The directory of a round, and the length of its file; `None` if it has none.
fn read_directory(
    disk: &mut impl Disk,
    folder: &str,
    log: LogId,
    number: u64,
) -> EngineResult<Option<(RoundDirectory, u64)>> {
    let path = round_path(folder, number);
    let file = disk.open(&path, OpenMode::Existing)?;
    let read = read_directory_of(disk, file, &RoundHeader { number, log }, &path);
    // The next mark names it, and it may be only in the system's cache.
    let is_synced = !matches!(read, Ok(Some(_))) || is_planted(Bug::CachedRoundCountedDurable);
    let synced = if is_synced { Ok(()) } else { disk.sync(file) };
    disk.close(file);
    synced?;
    read
}

fn read_directory_of(
    disk: &mut impl Disk,
    file: FileId,
    expected: &RoundHeader,
    path: &str,
) -> EngineResult<Option<(RoundDirectory, u64)>> {
    let bytes = disk.bytes(file)?;
    let Some(trailer_at) = bytes.checked_sub((HEADER_BYTES + ROUND_TRAILER_BYTES) as u64) else {
        return Ok(None);
    };
    let header = RoundHeader::decode(&read_piece(disk, file, 0, HEADER_BYTES as u64)?);
    if let Ok(header) = &header
        && header.log != expected.log
    {
        let reason = "the checkpoint round is of another log".to_owned();
        return Err(EngineError::Format { path: path.to_owned(), reason });
    }
    let trailer_at = trailer_at + HEADER_BYTES as u64;
    let trailer = read_piece(disk, file, trailer_at, ROUND_TRAILER_BYTES as u64)?;
    let Some((offset, length, sum)) = decode_round_trailer(expected.salt(), &trailer) else {
        return Ok(None);
    };
    if offset.checked_add(length as u64) != Some(trailer_at) {
        return Ok(None);
    }
    let directory = read_piece(disk, file, offset, length as u64)?;
    let decoded = if crc(&directory) == sum { RoundDirectory::decode(&directory) } else { None };
    Ok(decoded.map(|directory| (directory, bytes)))
}

fn read_piece(disk: &mut impl Disk, file: FileId, offset: u64, bytes: u64) -> DiskResult<Vec<u8>> {
    let mut out = vec![0; bytes as usize];
    disk.read_at(file, offset, &mut out)?;
    Ok(out)
}

fn sections_newest_first(sections: &[SectionRow]) -> Vec<SectionRow> {
    let mut rows = sections.to_vec();
    rows.sort_by_key(|row| std::cmp::Reverse(row.round));
    rows
}

/// The header of a segment, or a copy of it.
fn header_of(disk: &mut impl Disk, file: FileId, number: u64) -> DiskResult<Option<SharedHeader>> {
    let bytes = disk.bytes(file)?;
    let first = read_piece(disk, file, 0, bytes.min(HEADER_BYTES as u64))?;
    // A recycled file has the header of another number until the new one is written.
    let is_it = |header: &SharedHeader| header.number == number;
    if let Some(header) = SharedHeader::decode(&first).ok().filter(is_it) {
        return Ok(Some(header));
    }
    Ok(SharedHeader::find_copy(&read_piece(disk, file, 0, bytes)?, number))
}

impl LogFolder {
    fn open(disk: &mut impl Disk, folder: &str, log: LogId) -> EngineResult<LogFolder> {
        let mut files = LogFolder { next_segment: 1, ..LogFolder::default() };
        for entry in disk.list(folder)? {
            if let Some(number) = number_in(&entry.name, "spare") {
                files.next_segment = files.next_segment.max(number + 1);
                files.spares.push(spare_path(folder, number));
            }
            files.rounds.extend(number_in(&entry.name, "ckp"));
            let Some(number) = number_in(&entry.name, "log") else { continue };
            files.next_segment = files.next_segment.max(number + 1);
            let file = disk.open(&segment_path(folder, number), OpenMode::Existing)?;
            match header_of(disk, file, number)? {
                Some(header) if header.log == log => {
                    files.segments.insert(number, (header, file));
                }
                Some(_) => {
                    let reason = "the segment is of another log".to_owned();
                    return Err(EngineError::Format { path: segment_path(folder, number), reason });
                }
                None => files.unreadable.push((number, file)),
            }
        }
        Ok(files)
    }

    /// Keeps the rounds that have sections which count, and removes the others.
    fn keep_rounds(
        &mut self,
        disk: &mut impl Disk,
        folder: &str,
        rounds: &mut LogRounds,
    ) -> EngineResult<()> {
        for number in std::mem::take(&mut self.rounds) {
            let path = round_path(folder, number);
            if rounds.sections.iter().any(|row| row.round == number) {
                let file = disk.open(&path, OpenMode::Existing)?;
                let bytes = disk.bytes(file)?;
                disk.close(file);
                rounds.files.insert(number, RoundFile { bytes, small_end: 0 });
            } else {
                disk.remove(&path)?;
            }
        }
        Ok(())
    }

    /// Segments without a header are damage if a mark proves them, and spares otherwise.
    fn settle_unreadable(
        &mut self,
        disk: &mut impl Disk,
        folder: &str,
        contents: &LogContents,
        damage: &mut Vec<LogDamage>,
    ) -> EngineResult<()> {
        let proves = |number: u64| {
            contents.ends.iter().any(|end| end.segment == number)
                || self.segments.values().any(|(header, _)| {
                    header.before == number && header.number <= contents.ends[header.stream as usize].segment
                })
        };
        for (number, file) in std::mem::take(&mut self.unreadable) {
            if proves(number) && !contents.is_void(number, 0) {
                damage.push(LogDamage::Header { segment: number });
            } else {
                disk.close(file);
                let spare = spare_path(folder, number);
                disk.rename(&segment_path(folder, number), &spare)?;
                self.spares.push(spare);
            }
        }
        Ok(())
    }

    /// Makes sure that no number is used twice. A spare may have bytes of a segment whose name a crash has undone, and its number
    /// leaves no other trace. So the numbers from here on have an upper half of their own, which the name of a spare records.
    fn begin_numbers(&mut self, disk: &mut impl Disk, folder: &str) -> EngineResult<()> {
        let numbers = self.segments.keys().copied().max().unwrap_or_default().max(self.next_segment);
        let next = ((numbers >> 32) + 1) << 32;
        if let Some(spare) = self.spares.first_mut().filter(|_| next < SEGMENT_NUMBER_END) {
            let path = spare_path(folder, next);
            disk.rename(spare, &path)?;
            *spare = path;
            self.next_segment = next + 1;
        }
        Ok(())
    }

    /// The number of the newest segment of each stream.
    fn newest(&self) -> [u64; 3] {
        let mut newest = [0; 3];
        for (number, (header, _)) in &self.segments {
            newest[header.stream as usize] = *number;
        }
        newest
    }
}
