//! The operations over the partition's records. What a write does is in [`zerohop_record::operations`]; here are the records that
//! it sees, the log entries of its changes, the writes of blobs, and the reads.

mod bits;
mod blob;
mod chunk;
mod confirm;
mod inspect;
mod lookup;
pub(crate) mod scan;
#[cfg(test)]
mod tests;
pub(crate) mod wait;

use std::ops::Range;

use zerohop_engine::disk::Disk;
use zerohop_engine::{EngineResult, TrimTo};
use zerohop_record::state::{Change, Contents, EvaluatedWrite, RecordState};
use zerohop_wire::blob::{is_of_blob, is_staged};
use zerohop_wire::ids::Timestamp;
use zerohop_wire::messages::WriteChange;
use zerohop_wire::messages::{
    Condition, Expiry, OperationAnswer, Query, Range as Part, RecordRead, RecordType, RecordWrite,
};
use zerohop_wire::{BadRequestReason, Failure};

use crate::failure::failure_of;
use crate::limits::DEADLINE_BYTES_MAX;
use crate::outcome::WriteOutcome;
use crate::overlay::{ChunkWrite, Shape};
use crate::view::RecordView;

/// A record about to be written, and the environment of its evaluation.
pub(crate) struct Cell<'c, 'v, D> {
    pub(crate) view: RecordView<'v, D>,
    pub(crate) key: &'c [u8],
    /// The present record. It is not looked up for a write that does not depend on it.
    pub(crate) shape: Option<Shape>,
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
    /// As `Remove`; the cell's buffer has the contents.
    Take,
    Append {
        record: RecordType,
        units: u64,
        contents: Contents<'a>,
    },
    Trim {
        to: TrimTo,
        units: u64,
    },
    Deadline(Option<u64>),
    /// The chunk becomes this one write. Its entry is in the cell's buffer, except for the separate bytes.
    PutChunk(ChunkWrite, &'a [u8]),
    /// The write lies over the earlier contents of the chunk. Its entry is in the cell's buffer, except for the separate bytes.
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
    /// Bytes of a chunk that are not in the cell's buffer. They belong behind the head in the buffer.
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

impl<D> Cell<'_, '_, D> {
    fn version(&self) -> Timestamp {
        self.shape.as_ref().map_or(Timestamp::ZERO, |shape| shape.version)
    }

    /// The outcome of a write that changed the record.
    fn done(&self, number: u64) -> WriteOutcome {
        WriteOutcome::Done { version: self.at, number }
    }

    /// The outcome of a write that found the record as wanted, or absent.
    fn unchanged(&self, number: u64) -> WriteOutcome {
        WriteOutcome::Done { version: self.version(), number }
    }

    /// The record, if it is of this type or absent.
    fn of_type(&self, wanted: RecordType) -> Result<Option<&Shape>, WriteOutcome> {
        match &self.shape {
            Some(shape) if shape.record != wanted => Err(WriteOutcome::WrongType(shape.record)),
            shape => Ok(shape.as_ref()),
        }
    }
}

impl<D: Disk> RecordState for Cell<'_, '_, D> {
    #[inline]
    fn record_type(&self) -> Option<RecordType> {
        self.shape.as_ref().map(|shape| shape.record)
    }

    #[inline]
    fn version(&self) -> Timestamp {
        Cell::version(self)
    }

    fn length(&self) -> u64 {
        self.shape.as_ref().map_or(0, Shape::length)
    }

    #[inline]
    fn deadline(&self) -> Option<u64> {
        self.shape.as_ref().and_then(|shape| shape.deadline)
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
        if deadline.is_some() && self.view.deadlines.bytes() >= DEADLINE_BYTES_MAX {
            return Err(Failure::MemoryFull);
        }
        // Zero means no deadline in log entries. A deadline of zero has passed just as one of the first millisecond has.
        Ok(deadline.map(|ms| ms.clamp(1, Timestamp::MILLIS_MAX)))
    }

    #[inline]
    fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    #[inline]
    fn buffer(&mut self) -> &mut Vec<u8> {
        self.buffer
    }

    fn load(&mut self) -> Result<(), Failure<'static>> {
        if let Some(shape) = &self.shape {
            let all = 0..shape.length();
            self.view.bytes(self.key, shape, all, self.buffer).or_fail()?;
        }
        Ok(())
    }

    fn load_values(&mut self, values: Range<u64>, bytes_max: usize) -> Result<u64, Failure<'static>> {
        let Some(shape) = &self.shape else { return Ok(0) };
        let count = u32::try_from(values.end - values.start).unwrap_or(u32::MAX);
        let packed = self.view.values(self.key, shape, values, (count, bytes_max), self.buffer).or_fail()?;
        Ok(packed.count.into())
    }
}

impl<'a> WritePlan<'a> {
    /// The log entry of what an operation does.
    pub(crate) fn of<D: Disk>(cell: &mut Cell<'_, '_, D>, applied: EvaluatedWrite<'a>) -> PlanResult<'a> {
        let action = match applied.change {
            Change::Put { record, units, contents, deadline } => {
                LogAction::Put { record, units, contents, deadline }
            }
            Change::Remove => LogAction::Remove,
            Change::Take => LogAction::Take,
            Change::Append { record, units, contents } => LogAction::Append { record, units, contents },
            Change::DropFront(units) => {
                let Some(shape) = &cell.shape else { return Err(BadRequestReason::Chunk.into()) };
                LogAction::Trim { to: cell.view.trim_to(cell.key, shape, units).or_fail()?, units }
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
pub(crate) fn plan<'a, D: Disk>(cell: &mut Cell<'_, '_, D>, write: &RecordWrite<'a>) -> PlanResult<'a> {
    check_reserved(write)?;
    if write.condition != Condition::Always {
        let (version, found) = (cell.version(), cell.record_type());
        let holds = match write.condition {
            Condition::Always => true,
            Condition::IfAbsent => found.is_none(),
            Condition::IfPresent => found.is_some(),
            Condition::IfVersion(wanted) => found.is_some() && version == wanted,
        };
        if !holds {
            return Ok(WritePlan::leave(WriteOutcome::ConditionFailed { version, found }));
        }
    }
    match (write.change.apply(cell), &write.change) {
        (Some(applied), _) => WritePlan::of(cell, applied?),
        (None, WriteChange::Blob(change)) => blob::plan(cell, change),
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

/// Answers a read of a record of this shape. `out` is empty, and stores the contents that the answer borrows.
pub(crate) fn read<'o, D: Disk>(
    view: &mut RecordView<'_, D>,
    read: &RecordRead<'_>,
    shape: Option<&Shape>,
    out: &'o mut Vec<u8>,
) -> OperationAnswer<'o> {
    match read.query {
        Query::Lookup | Query::Wait { .. } => lookup::answer(view, read.key, shape, Part::ALL, out),
        Query::LookupRange { range } => lookup::answer(view, read.key, shape, range, out),
        Query::Inspect => inspect::answer(shape),
        Query::Confirm { version } => confirm::answer(read.key, shape, version),
        Query::GetBit { offset } => bits::get(view, read.key, shape, offset, out),
        Query::ReadChunk { offset, length } => chunk::answer(view, read.key, shape, (offset, length), out),
        Query::CountBits { range } => bits::count(view, read.key, shape, range, out),
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
