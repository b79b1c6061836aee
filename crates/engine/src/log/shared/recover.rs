//! From the segments of a shared log to the log of each partition.
//!
//! The log of a partition is its **longest prefix without a gap** over both streams. A gap is damage, and the log goes on
//! behind it, only if a mark proves that the missing entries were durable. Nothing is cut from a file: what follows the end of
//! a log belongs to nobody once [`resume`] has written births that continue the logs through their ends.

use std::collections::BTreeMap;

use super::births::Births;
use super::format::{FIRST_ENTRY_AT, HEADER_BYTES, LogId, LogPartition, LogStream, SharedHeader};
use super::local::{Birth, LogMark, StreamEnd, VoidRange};
use super::prefix::{FoundEntries, LogDamage, MarkedPartition, RecoveredLog};
use super::scan::{LogItem, items};
use super::segment::{SharedSegment, number_in, segment_path, spare_path};
use super::streams::{LogBeginning, LogPlace, LogSlot, NewLogPartition, SharedLog, SharedLogOptions};
use crate::disk::{Disk, FileId, OpenMode};
use crate::error::{EngineError, EngineResult};
use crate::planted::{Bug, is_planted};

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
    /// Bytes that are nothing from here on.
    voids: Vec<VoidRange>,
    beginning: LogBeginning,
    segments: Vec<SharedSegment>,
}

/// What was read of the segments so far.
#[derive(Default)]
struct LogContents {
    births: Births,
    /// Rows of births, and of voids, with the places where they stand.
    birth_rows: Vec<(LogPlace, Birth)>,
    void_rows: Vec<(LogPlace, VoidRange)>,
    /// Unreadable bytes.
    bad: Vec<(LogStream, VoidRange)>,
    voids: Vec<VoidRange>,
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
    let voids = contents.settle_voids();
    let proves = |number: u64| {
        contents.ends.iter().any(|end| end.segment == number)
            || segments.iter().any(|(segment, _)| {
                let header = &segment.header;
                header.before == number && header.number <= contents.ends[header.stream as usize].segment
            })
    };
    let mut damage = Vec::new();
    for (number, file) in unreadable {
        if proves(number) && !contents.is_void(number, 0) {
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
        next_number: contents.highest.0.saturating_add(1),
        births: contents.births,
        newest,
        // Not the ends of what was read: there are bytes below them that belong to nobody before births are durable.
        ends: contents.ends,
        voids: contents.voids,
        spares,
        timestamp: contents.timestamp,
    };
    let segments = segments.into_iter().map(|(segment, _)| segment).collect();
    Ok(LogRecovery {
        partitions,
        damage,
        checkpoint: contents.checkpoint,
        unborn,
        voids,
        beginning,
        segments,
    })
}

/// The log that continues what was found, and the slot of each of [`LogRecovery::partitions`]. The births that end logs before
/// entries that were found stand before the first new entry. What says that unreadable bytes are void survives a crash when
/// this returns.
///
/// # Errors
/// As [`SharedLog::begin`], and as [`SharedLog::flush_begin`].
pub fn resume(
    disk: &mut impl Disk,
    options: SharedLogOptions,
    recovery: LogRecovery,
) -> EngineResult<(SharedLog, Vec<LogSlot>)> {
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
    if !recovery.voids.is_empty() && !is_planted(Bug::UnreadableBytesComeBack) {
        log.add_voids(&recovery.voids)?;
        log.flush(disk, false)?;
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
                    if !payload_is_good {
                        let until = place.offset + head.entry_bytes() as u32;
                        let range = VoidRange { segment: header.number, from: place.offset, until };
                        self.bad.push((header.stream, range));
                    }
                    self.entries.add(&head, header.stream, place, payload_is_good);
                }
                LogItem::Entry { head, .. } => self.highest = self.highest.max(head.partition),
                LogItem::Births { offset, rows } => {
                    let place = LogPlace { segment: header.number, offset: offset as u32 };
                    self.birth_rows.extend(rows.into_iter().map(|row| (place, row)));
                }
                LogItem::Voids { offset, rows } => {
                    let place = LogPlace { segment: header.number, offset: offset as u32 };
                    self.void_rows.extend(rows.into_iter().map(|row| (place, row)));
                }
                LogItem::Mark { mark, .. } => self.read_mark(&mark),
                LogItem::Footer { footer, .. } => {
                    let highest = footer.runs.iter().map(|run| run.number).max();
                    self.highest = self.highest.max(highest.unwrap_or_default());
                }
                LogItem::Bad { offset, until } => {
                    let range =
                        VoidRange { segment: header.number, from: offset as u32, until: until as u32 };
                    self.bad.push((header.stream, range));
                }
            }
        }
    }

    fn is_void(&self, segment: u64, offset: u32) -> bool {
        self.voids.iter().any(|range| range.has(segment, offset))
    }

    /// Leaves out what is void. Returns what is void from now on: what cannot be read and is not proved, so that it stays dead if
    /// it is readable once more. Otherwise old entries would mix with those that follow this recovery.
    fn settle_voids(&mut self) -> Vec<VoidRange> {
        // A row in void bytes was unreadable for the recovery that made them void, which counted what the row leaves out.
        self.void_rows.sort_by_key(|(place, _)| std::cmp::Reverse(*place));
        for (place, range) in std::mem::take(&mut self.void_rows) {
            if !self.is_void(place.segment, place.offset) {
                self.voids.push(range);
            }
        }
        for (place, row) in std::mem::take(&mut self.birth_rows) {
            self.highest = self.highest.max(row.number);
            if !self.is_void(place.segment, place.offset) {
                self.births.add(row);
            }
        }
        let voids = &self.voids;
        let fresh = self.bad.iter().filter_map(|(stream, range)| {
            let end = self.ends[*stream as usize];
            let proved = if end.segment == range.segment { end.offset } else { 0 };
            let from = range.from.max(proved);
            let is_known = voids
                .iter()
                .any(|void| void.segment == range.segment && void.from <= from && void.until >= range.until);
            let is_news = end.segment <= range.segment && from < range.until && !is_known;
            is_news.then_some(VoidRange { from, ..*range })
        });
        let fresh: Vec<VoidRange> = fresh.collect();
        let is_void = |place: LogPlace, range: &VoidRange| range.has(place.segment, place.offset);
        self.entries.forget(|place| voids.iter().chain(&fresh).any(|range| is_void(place, range)));
        fresh
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
