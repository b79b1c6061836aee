//! From the segments of a shared log to the log of each partition.
//!
//! The log of a partition is its **longest prefix without a gap** over both streams. A gap is damage, and the log goes on
//! behind it, only if a mark proves that the missing entries were durable. Nothing is cut from a file: what follows the end of
//! a log belongs to nobody once [`resume`] has written births that continue the logs through their ends.

use std::collections::BTreeMap;

use super::births::Births;
use super::format::{FIRST_ENTRY_AT, HEADER_BYTES, LogId, LogPartition, LogStream, SharedHeader};
use super::local::{LogMark, StreamEnd};
use super::prefix::{FoundEntries, LogDamage, MarkedPartition, RecoveredLog};
use super::scan::{LogItem, items};
use super::segment::{SharedSegment, number_in, segment_path, spare_path};
use super::streams::{LogBeginning, LogPlace, LogSlot, NewLogPartition, SharedLog, SharedLogOptions};
use crate::disk::{Disk, FileId, OpenMode};
use crate::error::{EngineError, EngineResult};

/// What [`recover`] has found.
pub struct LogRecovery {
    /// The log of each partition.
    pub partitions: Vec<RecoveredLog>,
    /// What is damaged.
    pub damage: Vec<LogDamage>,
    /// The number of the newest checkpoint file that a mark names; 0: none.
    pub checkpoint: u64,
    /// Log partitions whose births were lost before they were durable.
    unborn: Vec<LogPartition>,
    beginning: LogBeginning,
    segments: Vec<SharedSegment>,
}

/// What was read of the segments so far.
#[derive(Default)]
struct LogContents {
    births: Births,
    entries: FoundEntries,
    marked: BTreeMap<LogPartition, MarkedPartition>,
    ends: [StreamEnd; 3],
    checkpoint: u64,
    highest: LogPartition,
    timestamp: u64,
}

/// Reads the segments of a folder. They survive a crash when this returns.
///
/// # Errors
/// [`EngineError::Disk`]; [`EngineError::Format`] if the folder has segments of another log.
pub fn recover(disk: &mut impl Disk, folder: &str, log: LogId) -> EngineResult<LogRecovery> {
    let (mut contents, mut segments, mut unreadable) = (LogContents::default(), Vec::new(), Vec::new());
    let (mut spares, mut next_segment, mut newest) = (Vec::new(), 1, [0; 3]);
    for entry in disk.list(folder)? {
        if let Some(number) = number_in(&entry.name, "spare") {
            next_segment = next_segment.max(number + 1);
            spares.push(spare_path(folder, number));
        }
        let Some(number) = number_in(&entry.name, "log") else { continue };
        next_segment = next_segment.max(number + 1);
        let file = disk.open(&segment_path(folder, number), OpenMode::Existing)?;
        let bytes = read_all(disk, file)?;
        let Some(header) = header_of(&bytes, number) else {
            unreadable.push((number, file));
            continue;
        };
        if header.log != log {
            let reason = "the segment is of another log".to_owned();
            return Err(EngineError::Format { path: segment_path(folder, number), reason });
        }
        newest[header.stream as usize] = number;
        contents.read(&header, &bytes);
        segments.push((SharedSegment::existing(header, folder, file, bytes.len() as u64), file));
    }
    let proves = |number: u64| {
        contents.ends.iter().any(|end| end.segment == number)
            || segments.iter().any(|(segment, _)| {
                let header = &segment.header;
                header.before == number && header.number <= contents.ends[header.stream as usize].segment
            })
    };
    let mut damage = Vec::new();
    for (number, file) in unreadable {
        if proves(number) {
            damage.push(LogDamage::Header { segment: number });
        } else {
            disk.close(file);
            let spare = spare_path(folder, number);
            disk.rename(&segment_path(folder, number), &spare)?;
            spares.push(spare);
        }
    }
    // What was read may be only in the system's cache.
    for (_, file) in &segments {
        disk.sync(*file)?;
    }
    if !segments.is_empty() || !spares.is_empty() {
        disk.sync_dir(folder)?;
    }
    for end in &contents.ends {
        next_segment = next_segment.max(end.segment + 1);
    }
    let partitions = contents.partitions(&mut damage);
    let unborn = contents.unborn(&mut damage);
    let beginning = LogBeginning {
        next_segment,
        next_number: contents.highest.0.max(contents.births.highest().0).saturating_add(1),
        births: contents.births,
        newest,
        // Not the ends of what was read: there are bytes below them that belong to nobody before births are durable.
        ends: contents.ends,
        spares,
        timestamp: contents.timestamp,
    };
    let segments = segments.into_iter().map(|(segment, _)| segment).collect();
    Ok(LogRecovery { partitions, damage, checkpoint: contents.checkpoint, unborn, beginning, segments })
}

/// The log that continues what was found, and the slot of each of [`LogRecovery::partitions`]. The births that end logs before
/// entries that were found stand before the first new entry.
///
/// # Errors
/// As [`SharedLog::begin`].
pub fn resume(options: SharedLogOptions, recovery: LogRecovery) -> EngineResult<(SharedLog, Vec<LogSlot>)> {
    let mut log = SharedLog::resume(options, recovery.beginning);
    recovery.segments.into_iter().for_each(|segment| log.add_existing(segment));
    // Later marks prove the segments that have their entries, and must not make damage of them.
    log.disown(&recovery.unborn)?;
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
    Ok((log, slots))
}

fn read_all(disk: &mut impl Disk, file: FileId) -> EngineResult<Vec<u8>> {
    let mut bytes = vec![0; disk.bytes(file)? as usize];
    disk.read_at(file, 0, &mut bytes)?;
    Ok(bytes)
}

fn header_of(bytes: &[u8], number: u64) -> Option<SharedHeader> {
    let first = bytes.get(..HEADER_BYTES).and_then(|bytes| SharedHeader::decode(bytes).ok());
    // A recycled file has the header of another number until the new one is written.
    let is_it = |header: &SharedHeader| header.number == number;
    first.filter(is_it).or_else(|| SharedHeader::find_copy(bytes, number))
}

impl LogContents {
    fn read(&mut self, header: &SharedHeader, bytes: &[u8]) {
        let from = FIRST_ENTRY_AT as u64;
        for item in items(header.base(), bytes.get(FIRST_ENTRY_AT..).unwrap_or_default(), from) {
            match item {
                LogItem::Entry { offset, head, payload_is_good, .. } if !head.is_kept => {
                    self.highest = self.highest.max(head.partition);
                    self.timestamp = self.timestamp.max(head.timestamp);
                    let place = LogPlace { segment: header.number, offset: offset as u32 };
                    self.entries.add(&head, header.stream, place, payload_is_good);
                }
                LogItem::Entry { head, .. } => self.highest = self.highest.max(head.partition),
                LogItem::Births { rows, .. } => rows.into_iter().for_each(|row| self.births.add(row)),
                LogItem::Mark { mark, .. } => self.read_mark(&mark),
                LogItem::Footer { footer, .. } => {
                    let highest = footer.runs.iter().map(|run| run.number).max();
                    self.highest = self.highest.max(highest.unwrap_or_default());
                }
                LogItem::Bad { .. } => {}
            }
        }
    }

    fn read_mark(&mut self, mark: &LogMark) {
        for (known, end) in self.ends.iter_mut().zip(&mark.ends) {
            *known = (*known).max(*end);
        }
        self.checkpoint = self.checkpoint.max(mark.checkpoint);
        for row in &mark.rows {
            self.highest = self.highest.max(row.number);
            self.marked.entry(row.number).or_default().add(row);
        }
    }

    /// Whether a mark proves that what stands at a place survives a crash. The end of a stream proves each segment before it.
    fn is_proved(&self, stream: LogStream, place: LogPlace) -> bool {
        let end = self.ends[stream as usize];
        (place.segment, place.offset) < (end.segment, end.offset)
    }

    fn partitions(&self, damage: &mut Vec<LogDamage>) -> Vec<RecoveredLog> {
        let is_proved = |stream, place| self.is_proved(stream, place);
        let logs = self.births.partitions().map(|birth| {
            RecoveredLog::of(birth, &self.births, &self.entries, &self.marked, is_proved, damage)
        });
        logs.collect()
    }

    /// Log partitions without a row. It is damage if their entries were durable.
    fn unborn(&self, damage: &mut Vec<LogDamage>) -> Vec<LogPartition> {
        let unknown = self.entries.numbers().filter(|number| self.births.row(*number).is_none());
        let (owned, unborn): (Vec<_>, Vec<_>) = unknown.partition(|number| {
            self.entries.of(*number).iter().any(|entry| self.is_proved(entry.stream, entry.place))
        });
        damage.extend(owned.into_iter().map(|number| LogDamage::Unowned { number }));
        unborn
    }
}
