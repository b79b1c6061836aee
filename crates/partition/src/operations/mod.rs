//! The operations over the partition's records. What a write does is in [`zerohop_record::operations`]; here are the records that
//! it sees, the log entries of its changes, and the writes of blobs.

mod blob;
mod chunk;
pub(crate) mod chunk_list;
pub(crate) mod range;
pub(crate) mod scan;
#[cfg(test)]
mod tests;

use std::ops::Range;

use zerohop_engine::disk::Disk;
use zerohop_engine::{EngineResult, TrimPoint};
use zerohop_record::state::{Change, Contents, EvaluatedWrite, ReadableRecord, RecordState};
use zerohop_wire::blob::{BlobStamp, is_of_blob, is_staged};
use zerohop_wire::ids::Timestamp;
use zerohop_wire::messages::WriteChange;
use zerohop_wire::messages::{Condition, Expiry, RecordType, RecordWrite};
use zerohop_wire::{BadRequestReason, Failure};

use crate::failure::failure_of;
use crate::limits::DEADLINE_BYTES_MAX;
use crate::outcome::WriteOutcome;
use crate::overlay::{ChunkWrite, Shape};
use crate::view::RecordView;

/// A record as an operation finds it.
pub(crate) struct RecordInput<'c, 'v, D> {
    pub(crate) view: RecordView<'v, D>,
    pub(crate) key: &'c [u8],
    /// Its shape. It is not looked up for a write that does not depend on it.
    pub(crate) shape: Option<Shape>,
}

/// A record about to be written, and the environment of its evaluation.
pub(crate) struct WriteTarget<'c, 'v, D> {
    pub(crate) found: RecordInput<'c, 'v, D>,
    /// The entry's timestamp: the record's version if this write changes it.
    pub(crate) at: Timestamp,
    pub(crate) now_ms: u64,
    /// The longest bytes record that a write may make by adding to it.
    pub(crate) bytes_max: u64,
    /// Empty; for contents that are created here.
    pub(crate) buffer: &'c mut Vec<u8>,
}

/// The change to write into the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogAction<'a> {
    Put {
        record: RecordType,
        units: u64,
        contents: Contents<'a>,
        deadline: Option<u64>,
    },
    Remove,
    /// As `Remove`; the target's buffer has the contents.
    Take,
    Append {
        record: RecordType,
        units: u64,
        contents: Contents<'a>,
    },
    Trim {
        to: TrimPoint,
        units: u64,
    },
    Deadline(Option<u64>),
    /// The chunk becomes this one write. Its entry is in the target's buffer, except for the separate bytes.
    PutChunk(ChunkWrite, &'a [u8]),
    /// The write lies over the earlier contents of the chunk. Its entry is in the target's buffer, except for the separate bytes.
    OverlayChunk(ChunkWrite, &'a [u8]),
    /// The record stays as it is.
    Nothing,
}

/// The change of a write, and the outcome to answer once it is committed.
#[derive(Debug)]
pub(crate) struct WritePlan<'a> {
    pub(crate) action: LogAction<'a>,
    pub(crate) outcome: WriteOutcome,
}

/// A plan, or the reason why none is possible. Such a failure is not an outcome, so the write may be sent again.
pub(crate) type PlanResult<'a> = Result<WritePlan<'a>, Failure<'static>>;

impl LogAction<'_> {
    /// Bytes of a chunk that are not in the target's buffer. They belong behind the head in the buffer.
    pub(crate) fn separate_bytes(&self) -> &[u8] {
        match self {
            LogAction::PutChunk(_, bytes) | LogAction::OverlayChunk(_, bytes) => bytes,
            _ => &[],
        }
    }

    /// The deadline to store in the entry; zero clears a deadline.
    pub(crate) fn entry_deadline(&self) -> Option<u64> {
        match self {
            LogAction::Put { deadline, .. } => *deadline,
            LogAction::Deadline(deadline) => Some(deadline.unwrap_or(0)),
            _ => None,
        }
    }
}

impl WritePlan<'_> {
    /// The record stays as it is: the write is refused, or there is nothing to do.
    fn leave(outcome: WriteOutcome) -> WritePlan<'static> {
        WritePlan { action: LogAction::Nothing, outcome }
    }
}

impl<D: Disk> WriteTarget<'_, '_, D> {
    /// The outcome of a write that changed the record.
    fn done(&self, number: u64) -> WriteOutcome {
        RecordState::done(self, number).into()
    }

    /// The outcome of a write that found the record as wanted, or absent.
    fn unchanged(&self, number: u64) -> WriteOutcome {
        RecordState::unchanged(self, number).into()
    }
}

impl<'c, 'v, D: Disk> RecordInput<'c, 'v, D> {
    /// Looks the record up.
    pub(crate) fn find(mut view: RecordView<'v, D>, key: &'c [u8]) -> Result<Self, Failure<'static>> {
        let shape = view.shape(key).or_fail()?;
        Ok(Self { view, key, shape })
    }
}

impl<D: Disk> ReadableRecord for RecordInput<'_, '_, D> {
    #[inline]
    fn record_type(&self) -> Option<RecordType> {
        self.shape.as_ref().map(|shape| shape.record)
    }

    #[inline]
    fn version(&self) -> Timestamp {
        self.shape.as_ref().map_or(Timestamp::ZERO, |shape| shape.version)
    }

    fn length(&self) -> u64 {
        self.shape.as_ref().map_or(0, Shape::length)
    }

    #[inline]
    fn deadline(&self) -> Option<u64> {
        self.shape.as_ref().and_then(|shape| shape.deadline)
    }

    fn stamp(&self) -> Option<BlobStamp> {
        self.shape.as_ref().and_then(|shape| shape.chunk).map(|chunk| chunk.stamp)
    }

    fn read_bytes(&mut self, bytes: Range<u64>, out: &mut Vec<u8>) -> Result<(), Failure<'static>> {
        match &self.shape {
            Some(shape) if shape.chunk.is_some() => self.view.chunk(self.key, shape, bytes, out).or_fail(),
            Some(shape) => self.view.bytes(self.key, shape, bytes, out).or_fail(),
            None => Ok(()),
        }
    }

    fn read_values(
        &mut self,
        values: Range<u64>,
        limits: (u32, usize),
        out: &mut Vec<u8>,
    ) -> Result<u32, Failure<'static>> {
        let Some(shape) = &self.shape else { return Ok(0) };
        self.view.values(self.key, shape, values, limits, out).or_fail()
    }
}

impl<'c, 'v, D: Disk> RecordState for WriteTarget<'c, 'v, D> {
    type Record = RecordInput<'c, 'v, D>;

    #[inline]
    fn record(&self) -> &Self::Record {
        &self.found
    }

    #[inline]
    fn record_and_buffer(&mut self) -> (&mut Self::Record, &mut Vec<u8>) {
        (&mut self.found, self.buffer)
    }

    #[inline]
    fn next_version(&self) -> Timestamp {
        self.at
    }

    #[inline]
    fn deadline_of(&self, expiry: Expiry) -> Result<Option<u64>, Failure<'static>> {
        let deadline = match expiry {
            Expiry::Never => None,
            Expiry::AfterMs(ms) => Some(self.now_ms.saturating_add(ms)),
            Expiry::AtMs(ms) => Some(ms),
            Expiry::Unchanged => return Ok(self.deadline()),
        };
        if deadline.is_some() && self.found.view.deadlines.bytes() >= DEADLINE_BYTES_MAX {
            return Err(Failure::MemoryFull);
        }
        // Zero means no deadline in log entries. A deadline of zero has passed just as one of the first millisecond has.
        Ok(deadline.map(|ms| ms.clamp(1, Timestamp::MILLIS_MAX)))
    }

    #[inline]
    fn bytes_max(&self) -> u64 {
        self.bytes_max
    }
}

impl<'a> WritePlan<'a> {
    /// The log entry of what an operation does.
    pub(crate) fn of<D: Disk>(
        target: &mut WriteTarget<'_, '_, D>,
        applied: EvaluatedWrite<'a>,
    ) -> PlanResult<'a> {
        let action = match applied.change {
            Change::Put { record, units, contents, deadline } => {
                LogAction::Put { record, units, contents, deadline }
            }
            Change::Remove => LogAction::Remove,
            Change::Take => LogAction::Take,
            Change::Append { record, units, contents } => LogAction::Append { record, units, contents },
            Change::DropFront(units) => {
                let Some(shape) = &target.found.shape else { return Err(BadRequestReason::Chunk.into()) };
                LogAction::Trim {
                    to: target.found.view.trim_to(target.found.key, shape, units).or_fail()?,
                    units,
                }
            }
            Change::Deadline(deadline) => LogAction::Deadline(deadline),
            Change::Nothing => LogAction::Nothing,
        };
        Ok(WritePlan { action, outcome: applied.outcome.into() })
    }
}

/// Whether a write's plan depends on the record at all.
pub(crate) fn depends_on_record(write: &RecordWrite<'_>) -> bool {
    write.condition != Condition::Always || write.change.depends_on_record()
}

/// Plans a write.
pub(crate) fn plan<'a, D: Disk>(
    target: &mut WriteTarget<'_, '_, D>,
    write: &RecordWrite<'a>,
) -> PlanResult<'a> {
    check_reserved(write)?;
    if write.condition != Condition::Always {
        let (version, found) = (target.version(), target.record_type());
        let holds = match write.condition {
            Condition::Always => true,
            Condition::IfAbsent => found.is_none(),
            Condition::IfPresent => found.is_some(),
            Condition::IfVersion(requested) => found.is_some() && version == requested,
        };
        if !holds {
            return Ok(WritePlan::leave(WriteOutcome::ConditionFailed { version, found }));
        }
    }
    match (write.change.apply(target), &write.change) {
        (Some(applied), _) => WritePlan::of(target, applied?),
        (None, WriteChange::Blob(change)) => blob::plan(target, change),
        (None, _) => Err(BadRequestReason::ItemKind.into()),
    }
}

/// Headers and chunks of blobs are written by blob operations, and removed by writes conditional on the version. Staged pieces
/// are internal records of the partition.
#[inline]
pub(crate) fn check_reserved(write: &RecordWrite<'_>) -> Result<(), Failure<'static>> {
    let is_of_blobs = matches!(write.change, WriteChange::Blob(_))
        || matches!((write.condition, write.change), (Condition::IfVersion(_), WriteChange::Remove(_)));
    if is_of_blob(write.key) && (!is_of_blobs || is_staged(write.key)) {
        Err(BadRequestReason::ReservedKey.into())
    } else {
        Ok(())
    }
}

/// Engine errors as failures.
pub(crate) trait EngineResultExt<T> {
    fn or_fail(self) -> Result<T, Failure<'static>>;
}

impl<T> EngineResultExt<T> for EngineResult<T> {
    fn or_fail(self) -> Result<T, Failure<'static>> {
        self.map_err(|error| failure_of(&error))
    }
}
