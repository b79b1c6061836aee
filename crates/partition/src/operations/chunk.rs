//! Chunks of blobs: writes at offsets. Each is a log entry of its own that lies over the earlier ones.
//!
//! A chunk's blob stamp names its blob and the newest truncation that it knows. Writes do not change the generation. A truncation
//! that reaches a chunk therefore knows whether it was applied before: a chunk that knows the generation is left as it is.

use zerohop_engine::disk::Disk;
use zerohop_engine::{CHUNK_HEAD_BYTES, ChunkHead};
use zerohop_record::operations::{Remove, WriteOperation};
use zerohop_record::state::RecordState;
use zerohop_wire::blob::BlobStamp;
use zerohop_wire::messages::{RecordType, ReturnedNumber, Transform};

use super::{EngineResultExt, LogAction, PlanResult, WritePlan, WriteTarget};
use crate::limits::{
    CHUNK_COVER_FACTOR_MAX, CHUNK_COVER_SLACK_BYTES, CHUNK_PART_BYTES_MIN, CHUNK_PARTS_MAX,
    SEPARATE_BYTES_MIN, TRAILER_BYTES_MAX,
};
use crate::outcome::WriteOutcome;
use crate::overlay::{ChunkShape, ChunkWrite};
use crate::planted::{Bug, is_planted};

/// The bytes of a chunk write; empty bytes represent zeros.
#[derive(Clone, Copy)]
enum Bytes<'a, 'm> {
    /// As they arrived. They are kept until the entry is in the log.
    AsReceived(&'a [u8]),
    /// Created by the operation.
    Made(&'m [u8]),
}

impl Bytes<'_, '_> {
    const NONE: Self = Bytes::Made(&[]);

    fn as_slice(&self) -> &[u8] {
        match self {
            Bytes::AsReceived(bytes) | Bytes::Made(bytes) => bytes,
        }
    }
}

/// The chunk that a write of this blob finds.
enum ChunkLookup {
    /// Nothing that counts, so the write creates the chunk.
    Nothing,
    Chunk(ChunkShape),
}

pub(super) fn write<'a, D: Disk>(
    target: &mut WriteTarget<'_, '_, D>,
    expected: (BlobStamp, bool),
    (offset, length): (u32, u32),
    bytes: &'a [u8],
) -> PlanResult<'a> {
    match admit(target, expected) {
        Ok(found) => overlay_write(target, found, (expected.0, offset, length), Bytes::AsReceived(bytes), 0),
        Err(outcome) => Ok(WritePlan::leave(outcome)),
    }
}

pub(super) fn transform<'a, D: Disk>(
    target: &mut WriteTarget<'_, '_, D>,
    expected: (BlobStamp, bool),
    transform: Transform,
) -> PlanResult<'a> {
    let found = match admit(target, expected) {
        Ok(found) => found,
        Err(outcome) => return Ok(WritePlan::leave(outcome)),
    };
    let width = transform.number.bytes();
    let mut number = Vec::with_capacity(8);
    match (&found, &target.found.shape) {
        (ChunkLookup::Chunk(_), Some(shape)) => {
            let range = transform.offset..transform.offset + width as u64;
            target.found.view.chunk(target.found.key, shape, range, &mut number).or_fail()?;
        }
        _ => number.resize(width, 0),
    }
    let mut old = [0; 8];
    old[..width].copy_from_slice(&number);
    let old = u64::from_le_bytes(old);
    let applied = |number| transform.operator.applied(transform.number, number, transform.operand);
    let new = if is_planted(Bug::TransformAppliedTwice) { applied(applied(old)) } else { applied(old) };
    let returned = match transform.returns {
        ReturnedNumber::Nothing => 0,
        ReturnedNumber::Old => old,
        ReturnedNumber::New => new,
    };
    if new == old && matches!(found, ChunkLookup::Chunk(_)) {
        return Ok(WritePlan::leave(target.unchanged(returned)));
    }
    // The wire bounds it by the largest chunk.
    let (offset, length) = (transform.offset as u32, width as u32);
    overlay_write(
        target,
        found,
        (expected.0, offset, length),
        Bytes::Made(&new.to_le_bytes()[..width]),
        returned,
    )
}

pub(super) fn truncate<'a, D: Disk>(
    target: &mut WriteTarget<'_, '_, D>,
    (stamp, marks): (BlobStamp, bool),
    keep: u32,
) -> PlanResult<'a> {
    if let Err(wrong) = target.check_type(RecordType::Chunk) {
        return Ok(WritePlan::leave(wrong.into()));
    }
    let chunk = match target.found.shape.as_ref().and_then(|shape| shape.chunk) {
        Some(chunk) if chunk.stamp.id > stamp.id => {
            return Ok(WritePlan::leave(WriteOutcome::StaleBlob(chunk.stamp)));
        }
        // The rest of an older blob is never read.
        Some(chunk) if chunk.stamp.id == stamp.id => chunk,
        _ if marks => return Ok(put(target, ChunkWrite { stamp, offset: 0, length: 0 }, Bytes::NONE, 1)),
        _ => return Ok(WritePlan::leave(target.unchanged(0))),
    };
    if chunk.stamp.generation >= stamp.generation {
        return Ok(WritePlan::leave(target.unchanged(1)));
    }
    let end = chunk.end.min(u64::from(u32::MAX)) as u32;
    if keep == 0 {
        return Ok(put(target, ChunkWrite { stamp, offset: 0, length: 0 }, Bytes::NONE, 1));
    }
    let length = end.saturating_sub(keep);
    Ok(chunk_plan(
        target,
        ChunkWrite { stamp, offset: keep, length },
        Bytes::NONE,
        1,
        LogAction::OverlayChunk,
    ))
}

/// Removes the chunk with its blob. A late writer reads the header first, and finds that there is none.
pub(super) fn remove<'a, D: Disk>(target: &mut WriteTarget<'_, '_, D>, stamp: BlobStamp) -> PlanResult<'a> {
    if let Err(wrong) = target.check_type(RecordType::Chunk) {
        return Ok(WritePlan::leave(wrong.into()));
    }
    match target.found.shape.as_ref().and_then(|shape| shape.chunk) {
        Some(chunk) if chunk.stamp.id > stamp.id => {
            Ok(WritePlan::leave(WriteOutcome::StaleBlob(chunk.stamp)))
        }
        Some(_) => {
            let removed = Remove.apply(target)?;
            WritePlan::of(target, removed)
        }
        None => Ok(WritePlan::leave(target.unchanged(0))),
    }
}

/// Whether a write is admissible, and the chunk that it changes.
fn admit<D: Disk>(
    target: &WriteTarget<'_, '_, D>,
    (stamp, makes): (BlobStamp, bool),
) -> Result<ChunkLookup, WriteOutcome> {
    target.check_type(RecordType::Chunk)?;
    let chunk = target.found.shape.as_ref().and_then(|shape| shape.chunk);
    match chunk {
        Some(chunk) if chunk.stamp > stamp && !is_planted(Bug::OldGenerationAccepted) => {
            Err(WriteOutcome::StaleBlob(chunk.stamp))
        }
        Some(chunk) if chunk.stamp.id == stamp.id && (chunk.end > 0 || makes) => {
            Ok(ChunkLookup::Chunk(chunk))
        }
        _ if makes => Ok(ChunkLookup::Nothing),
        _ => Err(WriteOutcome::NeedHeader),
    }
}

fn overlay_write<'a, D: Disk>(
    target: &mut WriteTarget<'_, '_, D>,
    found: ChunkLookup,
    (stamp, offset, length): (BlobStamp, u32, u32),
    bytes: Bytes<'a, '_>,
    number: u64,
) -> PlanResult<'a> {
    let chunk = match found {
        ChunkLookup::Nothing => return Ok(put(target, ChunkWrite { stamp, offset, length }, bytes, number)),
        ChunkLookup::Chunk(chunk) => chunk,
    };
    let written = ChunkWrite { stamp: chunk.stamp, offset, length };
    if offset == 0 && u64::from(length) >= chunk.end {
        // Nothing of the chunk remains visible. As a part, this write would retain the hidden ones until compaction has read
        // them.
        return Ok(put(target, written, bytes, number));
    }
    let end = chunk.end.max(u64::from(offset) + u64::from(length));
    let is_worn = chunk.parts >= parts_max(end)
        || chunk.covered > CHUNK_COVER_FACTOR_MAX * end + CHUNK_COVER_SLACK_BYTES;
    if !is_worn {
        return Ok(chunk_plan(target, written, bytes, number, LogAction::OverlayChunk));
    }
    // The complete chunk is written again: hidden writes become dead space, and reads need only one entry.
    let whole = ChunkWrite { offset: 0, length: end as u32, ..written };
    target.buffer.clear();
    target.buffer.extend_from_slice(&head_of(whole));
    let before = target.buffer.len();
    if let Some(shape) = &target.found.shape {
        target.found.view.chunk(target.found.key, shape, 0..end, target.buffer).or_fail()?;
    }
    let place = before + offset as usize..before + offset as usize + length as usize;
    match bytes.as_slice() {
        [] => target.buffer[place].fill(0),
        bytes => target.buffer[place].copy_from_slice(bytes),
    }
    Ok(WritePlan { action: LogAction::PutChunk(whole, &[]), outcome: target.done(number) })
}

/// The most writes that a chunk of so many bytes may consist of.
fn parts_max(bytes: u64) -> u64 {
    CHUNK_PARTS_MAX.max(bytes / CHUNK_PART_BYTES_MIN)
}

fn put<'a, D: Disk>(
    target: &mut WriteTarget<'_, '_, D>,
    written: ChunkWrite,
    bytes: Bytes<'a, '_>,
    number: u64,
) -> WritePlan<'a> {
    chunk_plan(target, written, bytes, number, LogAction::PutChunk)
}

fn chunk_plan<'a, D: Disk>(
    target: &mut WriteTarget<'_, '_, D>,
    written: ChunkWrite,
    bytes: Bytes<'a, '_>,
    number: u64,
    action: fn(ChunkWrite, &'a [u8]) -> LogAction<'a>,
) -> WritePlan<'a> {
    let (bytes, apart): (&[u8], &'a [u8]) = match bytes {
        // The bytes go into the log without a copy.
        Bytes::AsReceived(bytes) if bytes.len() >= SEPARATE_BYTES_MIN => (&[], bytes),
        ref bytes => (bytes.as_slice(), &[]),
    };
    target.buffer.clear();
    // With room for a trailer, so that it causes no reallocation.
    target.buffer.reserve(CHUNK_HEAD_BYTES + bytes.len() + TRAILER_BYTES_MAX);
    target.buffer.extend_from_slice(&head_of(written));
    target.buffer.extend_from_slice(bytes);
    WritePlan { action: action(written, apart), outcome: target.done(number) }
}

fn head_of(written: ChunkWrite) -> [u8; CHUNK_HEAD_BYTES] {
    let ChunkWrite { stamp, offset, length } = written;
    ChunkHead { offset, length, stamp: stamp.encode() }.encode()
}
