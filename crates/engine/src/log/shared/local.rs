//! The payloads of the local entries of a shared log: creations, marks, footers and voids. `docs/formats/log.md` has the tables.

use crate::PartitionId;
use crate::log::entry::{u32_at, u64_at};
use crate::log::header::TRAILER_BYTES;
use crate::log::shared::format::{
    HEAD_BYTES, HEADER_BYTES, LOG_INDEX_END, LogPartition, SEGMENT_NUMBER_END, SharedHeader, u48_at,
};

const MARK_FIXED_BYTES: usize = HEADER_BYTES + 3 * 12 + 8;
const RUN_ROW_BYTES: usize = 40;
const INCOMING: u32 = 1;
const DROPPED: u32 = 2;

/// A row of the table of log partitions: what a number means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Creation {
    /// The number.
    pub number: LogPartition,
    /// The partition that has it.
    pub partition: PartitionId,
    /// The partition's index seed.
    pub seed: u64,
    /// The log partition that it continues, and through which index.
    pub continues: Option<(LogPartition, u64)>,
    /// The partition is incomplete: a later creation without this continues it.
    pub is_incoming: bool,
    /// The number has no owner from here on, unless another continues it.
    pub is_dropped: bool,
}

impl Creation {
    /// Bytes of a row.
    pub const BYTES: usize = 40;

    /// The payload of an entry of these rows.
    #[must_use]
    pub fn encode_all(rows: &[Creation]) -> Vec<u8> {
        let mut out = Vec::with_capacity(Creation::BYTES * rows.len());
        for row in rows {
            let (continues, through) = row.continues.unwrap_or_default();
            let flags = if row.is_incoming { INCOMING } else { 0 } | if row.is_dropped { DROPPED } else { 0 };
            out.extend_from_slice(&row.number.0.to_le_bytes());
            out.extend_from_slice(&flags.to_le_bytes());
            out.extend_from_slice(&row.partition.0.to_le_bytes());
            out.extend_from_slice(&row.seed.to_le_bytes());
            out.extend_from_slice(&continues.0.to_le_bytes());
            out.extend_from_slice(&[0; 4]);
            out.extend_from_slice(&through.to_le_bytes());
        }
        out
    }

    /// Reads the rows; `None` if they cannot be rows.
    #[must_use]
    pub fn decode_all(bytes: &[u8]) -> Option<Vec<Creation>> {
        bytes.len().is_multiple_of(Creation::BYTES).then_some(())?;
        bytes.chunks_exact(Creation::BYTES).map(Creation::decode).collect()
    }

    fn decode(row: &[u8]) -> Option<Creation> {
        let (number, flags) = (LogPartition(u32_at(row, 0)), u32_at(row, 4));
        let (continues, through) = (LogPartition(u32_at(row, 24)), u64_at(row, 32));
        // A number continues lower ones, so that no chain of rows is a circle.
        let is_sound = number.0 > 0
            && continues < number
            && flags & !(INCOMING | DROPPED) == 0
            && u32_at(row, 28) == 0
            && through < LOG_INDEX_END
            && (continues.0 > 0 || through == 0);
        is_sound.then_some(Creation {
            number,
            partition: PartitionId(u64_at(row, 8)),
            seed: u64_at(row, 16),
            continues: (continues.0 > 0).then_some((continues, through)),
            is_incoming: flags & INCOMING != 0,
            is_dropped: flags & DROPPED != 0,
        })
    }
}

/// How far a stream survives a crash. Segment 0: nothing is known to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct StreamEnd {
    /// The number of a segment.
    pub segment: u64,
    /// An offset in it.
    pub offset: u32,
}

/// A row of a [`LogMark`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MarkRow {
    /// The log partition.
    pub number: LogPartition,
    /// Epoch of its last entry.
    pub epoch: u32,
    /// Index of its last entry that survives a crash.
    pub durable: u64,
    /// Its commit index.
    pub commit: u64,
    /// The commit index of the older of its two checkpoints: above it compaction removes nothing.
    pub covered: u64,
}

impl MarkRow {
    /// Bytes of a row.
    pub const BYTES: usize = 28;

    /// Adds the row as bytes.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.number.0.to_le_bytes());
        out.extend_from_slice(&self.epoch.to_le_bytes());
        out.extend_from_slice(&self.durable.to_le_bytes()[..6]);
        out.extend_from_slice(&self.commit.to_le_bytes()[..6]);
        out.extend_from_slice(&self.covered.to_le_bytes()[..6]);
        out.extend_from_slice(&[0; 2]);
    }
}

/// What survived a crash when it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogMark {
    /// A copy of the header of the segment in which it stands.
    pub header: SharedHeader,
    /// The ends of the streams of [`LogStream::ON_DISK`](super::format::LogStream::ON_DISK).
    pub ends: [StreamEnd; 3],
    /// The number of the newest checkpoint file; 0: none.
    pub checkpoint: u64,
    /// The log partitions that changed since the mark before.
    pub rows: Vec<MarkRow>,
}

impl LogMark {
    /// The payload.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(MARK_FIXED_BYTES + MarkRow::BYTES * self.rows.len());
        out.extend_from_slice(&self.header.encode());
        for end in &self.ends {
            out.extend_from_slice(&end.segment.to_le_bytes());
            out.extend_from_slice(&end.offset.to_le_bytes());
        }
        out.extend_from_slice(&self.checkpoint.to_le_bytes());
        self.rows.iter().for_each(|row| row.encode(&mut out));
        out
    }

    /// Reads a mark; `None` if it cannot be one.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<LogMark> {
        let (fixed, rows) = bytes.split_at_checked(MARK_FIXED_BYTES)?;
        let end = |at| {
            let segment = u64_at(fixed, at);
            (segment < SEGMENT_NUMBER_END).then(|| StreamEnd { segment, offset: u32_at(fixed, at + 8) })
        };
        Some(LogMark {
            header: SharedHeader::decode(fixed).ok()?,
            ends: [end(64)?, end(76)?, end(88)?],
            checkpoint: u64_at(fixed, 100),
            rows: LogMark::decode_rows(rows)?,
        })
    }

    /// Reads rows; `None` if they cannot be rows.
    #[must_use]
    pub fn decode_rows(rows: &[u8]) -> Option<Vec<MarkRow>> {
        rows.len().is_multiple_of(MarkRow::BYTES).then_some(())?;
        let rows = rows.chunks_exact(MarkRow::BYTES).map(|row| {
            let is_sound = u32_at(row, 0) > 0 && row[26..28] == [0; 2];
            is_sound.then(|| MarkRow {
                number: LogPartition(u32_at(row, 0)),
                epoch: u32_at(row, 4),
                durable: u48_at(row, 8),
                commit: u48_at(row, 14),
                covered: u48_at(row, 20),
            })
        });
        rows.collect()
    }
}

/// A run: entries of one log partition in a segment, of rising index, each with the offset of the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunRow {
    /// The log partition.
    pub number: LogPartition,
    /// The partition of its creation.
    pub partition: PartitionId,
    /// The index seed of its creation.
    pub seed: u64,
    /// Index of the first entry.
    pub first: u64,
    /// Index of the last entry.
    pub last: u64,
    /// Offset of the last entry.
    pub last_at: u32,
    /// Bytes of the entries.
    pub bytes: u32,
}

/// What a sealed segment says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogFooter {
    /// A copy of the segment's header.
    pub header: SharedHeader,
    /// The runs.
    pub runs: Vec<RunRow>,
}

impl LogFooter {
    /// Bytes of the entry and the trailer of a footer of so many runs.
    #[inline]
    #[must_use]
    pub fn bytes_of(runs: usize) -> usize {
        HEAD_BYTES + HEADER_BYTES + RUN_ROW_BYTES * runs + TRAILER_BYTES
    }

    /// The payload.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEADER_BYTES + RUN_ROW_BYTES * self.runs.len());
        out.extend_from_slice(&self.header.encode());
        for row in &self.runs {
            out.extend_from_slice(&row.number.0.to_le_bytes());
            out.extend_from_slice(&row.partition.0.to_le_bytes());
            out.extend_from_slice(&row.seed.to_le_bytes());
            out.extend_from_slice(&row.first.to_le_bytes()[..6]);
            out.extend_from_slice(&row.last.to_le_bytes()[..6]);
            out.extend_from_slice(&row.last_at.to_le_bytes());
            out.extend_from_slice(&row.bytes.to_le_bytes());
        }
        out
    }

    /// Reads a footer; `None` if it cannot be one.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<LogFooter> {
        let (header, rows) = bytes.split_at_checked(HEADER_BYTES)?;
        rows.len().is_multiple_of(RUN_ROW_BYTES).then_some(())?;
        let rows = rows.chunks_exact(RUN_ROW_BYTES).map(|row| {
            let run = RunRow {
                number: LogPartition(u32_at(row, 0)),
                partition: PartitionId(u64_at(row, 4)),
                seed: u64_at(row, 12),
                first: u48_at(row, 20),
                last: u48_at(row, 26),
                last_at: u32_at(row, 32),
                bytes: u32_at(row, 36),
            };
            (run.number.0 > 0 && run.first <= run.last).then_some(run)
        });
        Some(LogFooter { header: SharedHeader::decode(header).ok()?, runs: rows.collect::<Option<_>>()? })
    }
}

/// Bytes of a segment that are nothing, whatever a later reader finds there: entries that begin in them, and the header if it
/// does. Recovery found them unreadable, or a failed file has them and another segment has what was written there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct VoidRange {
    /// The number of the segment.
    pub segment: u64,
    /// The first offset.
    pub from: u32,
    /// The offset behind the last one.
    pub until: u32,
}

impl VoidRange {
    /// Bytes of a row.
    pub const BYTES: usize = 16;

    /// Whether an offset of a segment is in it.
    #[must_use]
    pub fn has(&self, segment: u64, offset: u32) -> bool {
        self.segment == segment && (self.from..self.until).contains(&offset)
    }

    /// The payload of an entry of these rows.
    #[must_use]
    pub fn encode_all(rows: &[VoidRange]) -> Vec<u8> {
        let mut out = Vec::with_capacity(VoidRange::BYTES * rows.len());
        for row in rows {
            out.extend_from_slice(&row.segment.to_le_bytes());
            out.extend_from_slice(&row.from.to_le_bytes());
            out.extend_from_slice(&row.until.to_le_bytes());
        }
        out
    }

    /// Reads the rows; `None` if they cannot be rows.
    #[must_use]
    pub fn decode_all(bytes: &[u8]) -> Option<Vec<VoidRange>> {
        bytes.len().is_multiple_of(VoidRange::BYTES).then_some(())?;
        let rows = bytes.chunks_exact(VoidRange::BYTES).map(|row| {
            let range = VoidRange { segment: u64_at(row, 0), from: u32_at(row, 8), until: u32_at(row, 12) };
            (range.segment < SEGMENT_NUMBER_END && range.from < range.until).then_some(range)
        });
        rows.collect()
    }
}
