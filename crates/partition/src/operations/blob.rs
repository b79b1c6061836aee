//! Headers of blobs: bytes records whose contents these writes interpret. Writes of chunks go to [`super::chunk`].

use zerohop_engine::disk::Disk;
use zerohop_record::state::{Contents, RecordState};
use zerohop_wire::blob::{
    BlobHeader, BlobStamp, StagedExtensionState, bytes_max, is_of_blob, name_of_header,
};
use zerohop_wire::messages::{BlobChange, RecordType};
use zerohop_wire::{BadRequestReason, Failure};

use super::{LogAction, PlanResult, WritePlan, WriteTarget, chunk};
use crate::outcome::WriteOutcome;

pub(super) fn plan<'a, D: Disk>(
    target: &mut WriteTarget<'_, '_, D>,
    change: &BlobChange<'a>,
) -> PlanResult<'a> {
    let is_header = name_of_header(target.found.key).is_some();
    // Only a transaction that creates a blob can refer to its own blob, and it has replaced the reference by an id.
    check_key(change.stamp().id != BlobStamp::OWN)?;
    match *change {
        BlobChange::WriteChunk { stamp, offset, length, bytes, makes } => {
            check_key(!is_header && is_of_blob(target.found.key))?;
            chunk::write(target, (stamp, makes), (offset, length), bytes)
        }
        BlobChange::TruncateChunk { stamp, keep, creates_absent: marks } => {
            check_key(!is_header && is_of_blob(target.found.key))?;
            chunk::truncate(target, (stamp, marks), keep)
        }
        BlobChange::DropChunk { stamp } => {
            check_key(!is_header && is_of_blob(target.found.key))?;
            chunk::remove(target, stamp)
        }
        BlobChange::TransformChunk { stamp, transform, makes } => {
            check_key(!is_header && is_of_blob(target.found.key))?;
            chunk::transform(target, (stamp, makes), transform)
        }
        _ => {
            check_key(is_header)?;
            header(target, change)
        }
    }
}

fn check_key(is_right: bool) -> Result<(), Failure<'static>> {
    if is_right { Ok(()) } else { Err(BadRequestReason::Chunk.into()) }
}

fn header<'a, D: Disk>(target: &mut WriteTarget<'_, '_, D>, change: &BlobChange<'a>) -> PlanResult<'a> {
    if let Err(wrong) = target.check_type(RecordType::Bytes) {
        return Ok(WritePlan::leave(wrong.into()));
    }
    if let BlobChange::Create { chunk_bits, attributes } = *change {
        if let Some(shape) = &target.found.shape {
            let (version, found) = (shape.version, Some(shape.record));
            return Ok(WritePlan::leave(WriteOutcome::ConditionFailed { version, found }));
        }
        // Of one name, a later blob has a greater id, since timestamps of a partition never repeat.
        let stamp = BlobStamp { id: target.at.0, generation: 0 };
        return put(
            target,
            &BlobHeader {
                chunk_bits,
                stamp,
                size: 0,
                pending_truncation_end: 0,
                staged_extension: StagedExtensionState::Not,
                attributes,
            },
            stamp.id,
        );
    }
    if target.found.shape.is_none() {
        return Ok(WritePlan::leave(WriteOutcome::NotFound));
    }
    target.load()?;
    let bytes = std::mem::take(target.buffer);
    let Some(found) = BlobHeader::decode(&bytes) else {
        return Ok(WritePlan::leave(WriteOutcome::WrongType(RecordType::Bytes)));
    };
    let expected = change.stamp();
    let is_description = matches!(change, BlobChange::Describe { .. });
    if expected.id != found.stamp.id || !is_description && expected.generation != found.stamp.generation {
        return Ok(WritePlan::leave(WriteOutcome::StaleBlob(found.stamp)));
    }
    let is_under_way = found.staged_extension == StagedExtensionState::UnderWay;
    let next = BlobStamp { generation: found.stamp.generation + 1, ..found.stamp };
    let (new, number) = match *change {
        BlobChange::Grow { .. } if found.pending_truncation_end > 0 => {
            return Ok(WritePlan::leave(WriteOutcome::StaleBlob(found.stamp)));
        }
        BlobChange::Grow { size, .. } => {
            let size = size.max(found.size);
            (BlobHeader { size, ..found }, size)
        }
        // A staged extension is truncated with the rest, so its writer must not publish it.
        BlobChange::Truncate { size, .. } if size < found.size || is_under_way => {
            let truncation_end = found.pending_truncation_end.max(found.size);
            let staged_extension = if found.staged_extension == StagedExtensionState::Not {
                StagedExtensionState::Not
            } else {
                StagedExtensionState::CutOff
            };
            (
                BlobHeader {
                    size,
                    stamp: next,
                    pending_truncation_end: truncation_end,
                    staged_extension,
                    ..found
                },
                next.generation,
            )
        }
        BlobChange::Truncate { .. } if found.pending_truncation_end > 0 => {
            // A larger size would bring truncated bytes back.
            return Ok(WritePlan::leave(WriteOutcome::StaleBlob(found.stamp)));
        }
        BlobChange::Truncate { size, .. } => (BlobHeader { size, ..found }, found.stamp.generation),
        BlobChange::Settle { .. } if is_under_way => {
            return Ok(WritePlan::leave(WriteOutcome::StaleBlob(found.stamp)));
        }
        BlobChange::Settle { .. } => (
            BlobHeader { pending_truncation_end: 0, staged_extension: StagedExtensionState::Not, ..found },
            0,
        ),
        BlobChange::StageExtension { .. } if found.pending_truncation_end > 0 && !is_under_way => {
            return Ok(WritePlan::leave(WriteOutcome::StaleBlob(found.stamp)));
        }
        BlobChange::StageExtension { until, .. } => {
            let stamp = if is_under_way { found.stamp } else { next };
            let truncation_end = found.pending_truncation_end.max(until).max(found.size).max(1);
            (
                BlobHeader {
                    stamp,
                    pending_truncation_end: truncation_end,
                    staged_extension: StagedExtensionState::UnderWay,
                    ..found
                },
                stamp.generation,
            )
        }
        BlobChange::Publish { .. } if !is_under_way => {
            return Ok(WritePlan::leave(WriteOutcome::StaleBlob(found.stamp)));
        }
        BlobChange::Publish { size, .. } => {
            let size = size.max(found.size);
            (
                BlobHeader {
                    size,
                    pending_truncation_end: 0,
                    staged_extension: StagedExtensionState::Not,
                    ..found
                },
                size,
            )
        }
        BlobChange::Describe { attributes, .. } => (BlobHeader { attributes, ..found }, 0),
        _ => return Err(BadRequestReason::Chunk.into()),
    };
    if new == found {
        return Ok(WritePlan::leave(target.unchanged(number)));
    }
    // A later operation must search for chunks up to there.
    let reach = |header: &BlobHeader<'_>| header.size.max(header.pending_truncation_end);
    if reach(&new) > reach(&found).max(bytes_max(found.chunk_bits)) {
        let (length, limit) = (reach(&new), bytes_max(found.chunk_bits).min(u32::MAX.into()) as u32);
        return Ok(WritePlan::leave(WriteOutcome::ValueTooLong { length, limit }));
    }
    put(target, &new, number)
}

fn put<D: Disk>(
    target: &mut WriteTarget<'_, '_, D>,
    header: &BlobHeader<'_>,
    number: u64,
) -> PlanResult<'static> {
    target.buffer.clear();
    header.encode(target.buffer);
    let (record, units, deadline) = (RecordType::Bytes, target.buffer.len() as u64, target.deadline());
    let action = LogAction::Put { record, units, contents: Contents::Buffered, deadline };
    Ok(WritePlan { action, outcome: target.done(number) })
}
