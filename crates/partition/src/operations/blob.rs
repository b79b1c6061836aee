//! Headers of blobs: bytes records whose contents these writes interpret. Writes of chunks go to [`super::chunk`].

use zerohop_engine::disk::Disk;
use zerohop_record::state::{Contents, RecordState};
use zerohop_wire::blob::{BlobHeader, BlobStamp, FillState, bytes_max, is_of_blob, name_of_header};
use zerohop_wire::messages::{BlobChange, RecordType};
use zerohop_wire::{BadRequestReason, Failure};

use super::{Cell, LogAction, PlanResult, WritePlan, chunk};
use crate::outcome::WriteOutcome;

pub(super) fn plan<'a, D: Disk>(cell: &mut Cell<'_, '_, D>, change: &BlobChange<'a>) -> PlanResult<'a> {
    let is_header = name_of_header(cell.found.key).is_some();
    // Only a transaction that creates a blob can refer to its own blob, and it has replaced the reference by an id.
    check_key(change.stamp().id != BlobStamp::OWN)?;
    match *change {
        BlobChange::WriteChunk { stamp, offset, length, bytes, makes } => {
            check_key(!is_header && is_of_blob(cell.found.key))?;
            chunk::write(cell, (stamp, makes), (offset, length), bytes)
        }
        BlobChange::CutChunk { stamp, keep, creates_absent: marks } => {
            check_key(!is_header && is_of_blob(cell.found.key))?;
            chunk::truncate(cell, (stamp, marks), keep)
        }
        BlobChange::DropChunk { stamp } => {
            check_key(!is_header && is_of_blob(cell.found.key))?;
            chunk::remove(cell, stamp)
        }
        BlobChange::TransformChunk { stamp, transform, makes } => {
            check_key(!is_header && is_of_blob(cell.found.key))?;
            chunk::transform(cell, (stamp, makes), transform)
        }
        _ => {
            check_key(is_header)?;
            header(cell, change)
        }
    }
}

fn check_key(is_right: bool) -> Result<(), Failure<'static>> {
    if is_right { Ok(()) } else { Err(BadRequestReason::Chunk.into()) }
}

fn header<'a, D: Disk>(cell: &mut Cell<'_, '_, D>, change: &BlobChange<'a>) -> PlanResult<'a> {
    if let Err(wrong) = cell.check_type(RecordType::Bytes) {
        return Ok(WritePlan::leave(wrong.into()));
    }
    if let BlobChange::Create { chunk_bits, attributes } = *change {
        if let Some(shape) = &cell.found.shape {
            let (version, found) = (shape.version, Some(shape.record));
            return Ok(WritePlan::leave(WriteOutcome::ConditionFailed { version, found }));
        }
        // Of one name, a later blob has a greater id, since timestamps of a partition never repeat.
        let stamp = BlobStamp { id: cell.at.0, generation: 0 };
        return put(
            cell,
            &BlobHeader {
                chunk_bits,
                stamp,
                size: 0,
                pending_truncation_end: 0,
                is_staged_append: FillState::Not,
                attributes,
            },
            stamp.id,
        );
    }
    if cell.found.shape.is_none() {
        return Ok(WritePlan::leave(WriteOutcome::NotFound));
    }
    cell.load()?;
    let bytes = std::mem::take(cell.buffer);
    let Some(found) = BlobHeader::decode(&bytes) else {
        return Ok(WritePlan::leave(WriteOutcome::WrongType(RecordType::Bytes)));
    };
    let expected = change.stamp();
    let is_description = matches!(change, BlobChange::Describe { .. });
    if expected.id != found.stamp.id || !is_description && expected.generation != found.stamp.generation {
        return Ok(WritePlan::leave(WriteOutcome::StaleBlob(found.stamp)));
    }
    let is_filling = found.is_staged_append == FillState::UnderWay;
    let next = BlobStamp { generation: found.stamp.generation + 1, ..found.stamp };
    let (new, number) = match *change {
        BlobChange::Grow { .. } if found.pending_truncation_end > 0 => {
            return Ok(WritePlan::leave(WriteOutcome::StaleBlob(found.stamp)));
        }
        BlobChange::Grow { size, .. } => {
            let size = size.max(found.size);
            (BlobHeader { size, ..found }, size)
        }
        // A staged append is truncated with the rest, so its writer must not publish it.
        BlobChange::Cut { size, .. } if size < found.size || is_filling => {
            let truncation_end = found.pending_truncation_end.max(found.size);
            let filling =
                if found.is_staged_append == FillState::Not { FillState::Not } else { FillState::CutOff };
            (
                BlobHeader {
                    size,
                    stamp: next,
                    pending_truncation_end: truncation_end,
                    is_staged_append: filling,
                    ..found
                },
                next.generation,
            )
        }
        BlobChange::Cut { .. } if found.pending_truncation_end > 0 => {
            // A larger size would bring truncated bytes back.
            return Ok(WritePlan::leave(WriteOutcome::StaleBlob(found.stamp)));
        }
        BlobChange::Cut { size, .. } => (BlobHeader { size, ..found }, found.stamp.generation),
        BlobChange::Settle { .. } if is_filling => {
            return Ok(WritePlan::leave(WriteOutcome::StaleBlob(found.stamp)));
        }
        BlobChange::Settle { .. } => {
            (BlobHeader { pending_truncation_end: 0, is_staged_append: FillState::Not, ..found }, 0)
        }
        BlobChange::Fill { .. } if found.pending_truncation_end > 0 && !is_filling => {
            return Ok(WritePlan::leave(WriteOutcome::StaleBlob(found.stamp)));
        }
        BlobChange::Fill { until, .. } => {
            let stamp = if is_filling { found.stamp } else { next };
            let truncation_end = found.pending_truncation_end.max(until).max(found.size).max(1);
            (
                BlobHeader {
                    stamp,
                    pending_truncation_end: truncation_end,
                    is_staged_append: FillState::UnderWay,
                    ..found
                },
                stamp.generation,
            )
        }
        BlobChange::Publish { .. } if !is_filling => {
            return Ok(WritePlan::leave(WriteOutcome::StaleBlob(found.stamp)));
        }
        BlobChange::Publish { size, .. } => {
            let size = size.max(found.size);
            (BlobHeader { size, pending_truncation_end: 0, is_staged_append: FillState::Not, ..found }, size)
        }
        BlobChange::Describe { attributes, .. } => (BlobHeader { attributes, ..found }, 0),
        _ => return Err(BadRequestReason::Chunk.into()),
    };
    if new == found {
        return Ok(WritePlan::leave(cell.unchanged(number)));
    }
    // A later operation must search for chunks up to there.
    let reach = |header: &BlobHeader<'_>| header.size.max(header.pending_truncation_end);
    if reach(&new) > reach(&found).max(bytes_max(found.chunk_bits)) {
        let (length, limit) = (reach(&new), bytes_max(found.chunk_bits).min(u32::MAX.into()) as u32);
        return Ok(WritePlan::leave(WriteOutcome::ValueTooLong { length, limit }));
    }
    put(cell, &new, number)
}

fn put<D: Disk>(cell: &mut Cell<'_, '_, D>, header: &BlobHeader<'_>, number: u64) -> PlanResult<'static> {
    cell.buffer.clear();
    header.encode(cell.buffer);
    let (record, units, deadline) = (RecordType::Bytes, cell.buffer.len() as u64, cell.deadline());
    let action = LogAction::Put { record, units, contents: Contents::Buffered, deadline };
    Ok(WritePlan { action, outcome: cell.done(number) })
}
