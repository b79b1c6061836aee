//! What recovery has read of a shared log so far: the newest round, then the segments behind it.

use std::collections::BTreeMap;

use super::creations::Creations;
use super::format::{
    ALIGN_BYTES, FIRST_ENTRY_AT, LogPartition, LogStream, SharedHead, SharedHeader, SharedKind, is_long,
};
use super::local::{Creation, LogMark, RunRow, StreamEnd, VoidRange};
use super::prefix::{EntriesByPartition, LogDamage, MarkedPartition, RecoveredLog, Sections};
use super::round::RoundDirectory;
use super::scan::{LogItem, items};
use super::streams::LogPlace;
use crate::PartitionId;
use crate::disk::{Disk, DiskResult, FileId};

/// What was read of the segments so far.
#[derive(Default)]
pub(super) struct LogContents {
    pub(super) creations: Creations,
    /// Rows of creations, and of voids, with the places where they stand.
    pub(super) creation_rows: Vec<(LogPlace, Creation)>,
    pub(super) void_rows: Vec<(LogPlace, VoidRange)>,
    /// Unreadable bytes.
    pub(super) bad: Vec<(LogStream, VoidRange)>,
    pub(super) voids: Vec<VoidRange>,
    pub(super) entries: EntriesByPartition,
    pub(super) marked: BTreeMap<LogPartition, MarkedPartition>,
    pub(super) ends: [StreamEnd; 3],
    pub(super) checkpoint: u64,
    pub(super) highest: LogPartition,
    pub(super) timestamp: u64,
    pub(super) sections: Sections,
}

impl LogContents {
    /// Begins with what a round says.
    pub(super) fn begin(&mut self, directory: &RoundDirectory) {
        directory.creations.iter().for_each(|row| self.creations.add(*row));
        directory.marks.iter().for_each(|row| self.marked.entry(row.number).or_default().add(row));
        self.voids.extend_from_slice(&directory.voids);
        self.ends = directory.ends;
        self.highest = LogPartition(directory.next_number.saturating_sub(1));
    }

    /// Whether all partitions that own entries of this number have a newer section, which can be read. The file of one that
    /// is not needed may be gone.
    pub(super) fn is_superseded(&self, number: LogPartition) -> bool {
        let known = &self.sections.by_number;
        let has_newer = |row: &Creation| {
            self.creations.lineage(row.partition).any(|ancestor| known.contains_key(&ancestor.number))
        };
        let owns = |row: &&Creation| self.creations.lineage(row.partition).any(|a| a.number == number);
        let mut owners = self.creations.partitions().filter(owns).peekable();
        known.contains_key(&number) || owners.peek().is_some() && owners.all(has_newer)
    }

    /// Reads the entries of a segment from an offset on. Returns the rows of its runs.
    pub(super) fn read(&mut self, header: &SharedHeader, bytes: &[u8], from: u64) -> Vec<RunRow> {
        let mut runs = Runs::default();
        for item in items(header.base(), bytes, from) {
            match item {
                LogItem::Entry { offset, head, payload_is_good, .. } if !head.is_kept => {
                    runs.add(&head, offset);
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
                LogItem::Entry { offset, head, .. } => {
                    runs.add(&head, offset);
                    self.highest = self.highest.max(head.partition);
                }
                LogItem::Creations { offset, rows } => {
                    let place = LogPlace { segment: header.number, offset: offset as u32 };
                    self.creation_rows.extend(rows.into_iter().map(|row| (place, row)));
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
        runs.rows
    }

    /// Reads the heads and keys of a segment of the large stream, and the payloads only of what no mark proves. The marks have been
    /// read. Returns the rows of its runs.
    pub(super) fn read_heads(
        &mut self,
        disk: &mut impl Disk,
        header: &SharedHeader,
        file: FileId,
        bytes: u64,
    ) -> DiskResult<Vec<RunRow>> {
        let (base, align) = (header.base(), ALIGN_BYTES as u64);
        let (mut at, mut runs, mut read) = (FIRST_ENTRY_AT as u64, Runs::default(), Vec::new());
        loop {
            // A pad may be in between.
            let aligned = at.next_multiple_of(align);
            let offset = aligned as u32;
            read_into(disk, file, aligned.min(bytes), (bytes.saturating_sub(aligned)).min(align), &mut read)?;
            let head = SharedHead::decode_unsummed(&base, &read)
                .filter(|head| is_long(head.payload_bytes) && aligned + head.entry_bytes() as u64 <= bytes);
            let Some(head) = head else { break };
            if head.payload_at() > read.len() {
                read_into(disk, file, aligned, head.payload_at() as u64, &mut read)?;
            }
            let place = LogPlace { segment: header.number, offset };
            let is_replicated = matches!(head.kind, SharedKind::Replicated(_)) && !head.is_kept;
            let is_sound = SharedHead::decode(&base, &read) == Some(head) && is_replicated;
            if !is_sound || !self.is_proved(header.stream, place) {
                break;
            }
            runs.add(&head, aligned);
            self.highest = self.highest.max(head.partition);
            self.timestamp = self.timestamp.max(head.timestamp);
            self.entries.add(&head, header.stream, place, true);
            at = aligned + head.entry_bytes() as u64;
        }
        // The footer, what no mark proves, and what is corrupt.
        read_into(disk, file, at.min(bytes), bytes.saturating_sub(at), &mut read)?;
        let mut rows = runs.rows;
        rows.extend(self.read(header, &read, at));
        Ok(rows)
    }

    pub(super) fn is_void(&self, segment: u64, offset: u32) -> bool {
        self.voids.iter().any(|range| range.has(segment, offset))
    }

    /// Leaves out what is void. Returns what is void from now on: what cannot be read and is not proved, so that it stays dead if
    /// it is readable once more. Otherwise old entries would mix with those that follow this recovery.
    pub(super) fn settle_voids(&mut self) -> Vec<VoidRange> {
        // A row in void bytes was unreadable for the recovery that made them void, which counted what the row leaves out.
        self.void_rows.sort_by_key(|(place, _)| std::cmp::Reverse(*place));
        for (place, range) in std::mem::take(&mut self.void_rows) {
            if !self.is_void(place.segment, place.offset) {
                self.voids.push(range);
            }
        }
        for (place, row) in std::mem::take(&mut self.creation_rows) {
            self.highest = self.highest.max(row.number);
            if !self.is_void(place.segment, place.offset) {
                self.creations.add(row);
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

    /// Copies of compaction that survived a crash, and cannot be read. The places that they replaced may be in recycled segments,
    /// so nothing else shows which entries they were.
    pub(super) fn lost_copies(&self) -> impl Iterator<Item = LogDamage> {
        let lost = self.bad.iter().filter(|(stream, range)| {
            let place = LogPlace { segment: range.segment, offset: range.from };
            *stream == LogStream::Cold
                && self.is_proved(*stream, place)
                && !self.is_void(range.segment, range.from)
        });
        lost.map(|(_, range)| LogDamage::Copies { range: *range })
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

    pub(super) fn partitions(&self, damage: &mut Vec<LogDamage>) -> Vec<RecoveredLog> {
        let is_proved = |stream, place| self.is_proved(stream, place);
        let logs = self.creations.partitions().map(|creation| {
            RecoveredLog::of(
                creation,
                &self.creations,
                &self.entries,
                &self.marked,
                &self.sections,
                is_proved,
                damage,
            )
        });
        logs.collect()
    }

    /// Log partitions without a row. It is damage if their entries were durable.
    pub(super) fn unregistered_partitions(&self, damage: &mut Vec<LogDamage>) -> Vec<LogPartition> {
        let unknown = self.entries.numbers().filter(|number| self.creations.row(*number).is_none());
        let (owned, unregistered_partitions): (Vec<_>, Vec<_>) = unknown.partition(|number| {
            self.entries.of(*number).iter().any(|entry| self.is_proved(entry.stream, entry.place))
        });
        damage.extend(owned.into_iter().map(|number| LogDamage::Unowned { number }));
        unregistered_partitions
    }
}

fn read_into(
    disk: &mut impl Disk,
    file: FileId,
    offset: u64,
    bytes: u64,
    into: &mut Vec<u8>,
) -> DiskResult<()> {
    into.resize(bytes as usize, 0);
    disk.read_at(file, offset, into)
}

/// The runs of a segment that was read.
#[derive(Default)]
struct Runs {
    rows: Vec<RunRow>,
    last: BTreeMap<LogPartition, usize>,
}

impl Runs {
    fn add(&mut self, head: &SharedHead, offset: u64) {
        let known = self.last.get(&head.partition).copied();
        let run = known.filter(|run| self.rows[*run].last < head.index).unwrap_or_else(|| {
            self.rows.push(RunRow {
                number: head.partition,
                partition: PartitionId::default(),
                seed: 0,
                first: head.index,
                last: head.index,
                last_at: offset as u32,
                bytes: 0,
            });
            self.last.insert(head.partition, self.rows.len() - 1);
            self.rows.len() - 1
        });
        let row = &mut self.rows[run];
        (row.last, row.last_at) = (head.index, offset as u32);
        row.bytes += head.entry_bytes() as u32;
    }
}
