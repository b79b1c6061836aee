//! Evaluation of the items of a transaction. Items are evaluated when the transaction is prepared. Their changes are kept as
//! operations, which are executed again when it is decided. They run over the same records and at the same clock time, so the
//! results are the same. The exception are transforms beside other transforms, which depend on the values that those have left.
//!
//! | bytes of an effect | field |
//! | ---: | --- |
//! | 8 | the clock when it was evaluated, in ms since 1970 |
//! | | then each operation: 0 (1), length (4), an operation as in a batch; or 1 (1), the staged piece: session (16), sequence (8) |

use bytes::{BufMut, Bytes, BytesMut};
use zerohop_engine::disk::Disk;
use zerohop_engine::{Engine, Handle};
use zerohop_transaction::limits::{EFFECT_BYTES_MAX, RESULT_BYTES_MAX, STAGED_PART_BYTES_MAX};
use zerohop_transaction::{Access, EvaluatedPart, ItemBody, Reason, Refusal, StageId, TransactionItem};
use zerohop_wire::blob::BlobStamp;
use zerohop_wire::ids::{Sequence, Timestamp};
use zerohop_wire::messages::{
    BlobChange, Condition, OperationAnswer, Outcome as WireOutcome, Query, RecordOperation, RecordWrite,
    Remove, WriteChange,
};
use zerohop_wire::{Elements, Failure};

use super::evaluation_context::EvaluationContext;
use super::staged::piece;
use crate::atomic_batch::Unit;
use crate::failure::failure_of;
use crate::hash_range::HashRange;
use crate::limits::TRANSACTED_BYTES_MAX;
use crate::log_writer::LogWriter;
use crate::operations::EngineResultExt;
use crate::outcome::WriteOutcome;
use crate::overlay::Overlay;
use crate::planted::{Bug, is_planted};
use crate::reply::push_packed;
use crate::session_fields::session_id;
use crate::state::{Deadlines, PartitionState};
use crate::view::RecordView;
use zerohop_base::bytes::Reader;

/// How often bytes of a transaction go into the log at most: when it is prepared, when it is done, and for the heads of its
/// entries.
const LOGGED_TIMES: u64 = 3;

/// What the entry of an item has beside the operation at most, and the mark of a transaction beside effect and result: its participants.
const ENTRY_ROOM_BYTES: u64 = 4 << 10;
const MARK_ROOM_BYTES: u64 = 256 << 10;

/// The operation of an item, as bytes.
pub(super) fn body<D: Disk>(
    engine: &mut Engine<D>,
    handle: Handle,
    state: &PartitionState,
    item: &TransactionItem,
) -> Option<Bytes> {
    match &item.body {
        ItemBody::Inline(bytes) => Some(bytes.clone()),
        ItemBody::Staged(id) => piece(engine, handle, state, id),
    }
}

/// One operation.
fn operation(bytes: &[u8]) -> Option<RecordOperation<'_>> {
    Elements::<RecordOperation<'_>>::packed(1, bytes).ok()?.iter().next()
}

/// The version of the record that an operation names, with appended changes; zero if there is none, or its deadline has come.
pub(super) fn version<D: Disk>(
    context: &mut EvaluationContext<'_, D>,
    state: &PartitionState,
    bytes: &[u8],
) -> Option<Timestamp> {
    let key = operation(bytes)?.key();
    let now_ms = context.clock.now_ms();
    let overlay = Some(&*context.overlay);
    let mut view = RecordView {
        engine: context.engine,
        handle: context.log_writer.handle(),
        overlay,
        deadlines: &state.deadlines,
    };
    let shape = view.shape(key).ok()?;
    let living = shape.filter(|shape| shape.deadline.is_none_or(|deadline| deadline > now_ms));
    Some(living.map_or(Timestamp::ZERO, |shape| shape.version))
}

/// Evaluates items in order, each over the changes of the earlier items, and undoes all changes afterwards.
pub(super) fn items<D: Disk>(
    context: &mut EvaluationContext<'_, D>,
    (state, hash_range): (&PartitionState, &HashRange),
    items: &[TransactionItem],
) -> Result<EvaluatedPart, Refusal> {
    if state.transacted.as_ref().is_some_and(|one| one.state.bytes() > TRANSACTED_BYTES_MAX) {
        return Err(Reason::Overloaded.into());
    }
    let end = context.log_writer.end();
    let EvaluationContext { engine, log_writer, overlay, clock, staged } = context;
    let mut unit = Unit::new(engine, (log_writer, overlay, state), clock, staged, None);
    let result = run(&mut unit, (state, hash_range), items);
    staged.clear();
    let undone = undo_entries(engine, (log_writer, overlay, &state.deadlines), end);
    result.and_then(|evaluated| undone.map(|()| evaluated).map_err(|_| Reason::Overloaded.into()))
}

fn run<D: Disk>(
    unit: &mut Unit<'_, D>,
    (state, hash_range): (&PartitionState, &HashRange),
    items: &[TransactionItem],
) -> Result<EvaluatedPart, Refusal> {
    let (mut effect, mut result, mut out) = (BytesMut::new(), Vec::new(), Vec::new());
    effect.put_u64_le(unit.now_ms());
    // No record has this timestamp. It represents the version that the transaction will have.
    let at = unit.at();
    let (handle, mut staged_bytes) = (unit.log_writer.handle(), 0);
    for (number, item) in (0u32..).zip(items) {
        let refuse = |reason| Refusal { reason, item: number };
        let bytes = body(unit.engine, handle, state, item).ok_or(refuse(Reason::StagedExpired))?;
        if matches!(item.body, ItemBody::Staged(_)) {
            staged_bytes += bytes.len() as u64;
        }
        if staged_bytes > STAGED_PART_BYTES_MAX {
            return Err(refuse(Reason::TooLong));
        }
        let is_fitting = unit.engine.check_file_size(handle, bytes.len() as u64 + ENTRY_ROOM_BYTES);
        is_fitting.map_err(|error| refuse(reason_of(&failure_of(&error))))?;
        let operation = operation(&bytes).ok_or(refuse(Reason::Malformed))?;
        if hash_range.lock_key(operation.key()) != item.lock_key || item.access != Access::of(&operation) {
            return Err(refuse(Reason::Malformed));
        }
        if !hash_range.owns(operation.key()) {
            return Err(refuse(Reason::Misplaced));
        }
        match operation {
            RecordOperation::Read(read) => {
                if matches!(read.query, Query::Wait(_) | Query::UpdateLock(_)) {
                    return Err(refuse(Reason::Malformed));
                }
                out.clear();
                let answer = unit.answer(&read, &mut out);
                push_answer(&answer, at, &mut result, refuse)?;
            }
            RecordOperation::Write(write) => {
                let write = resolved(write, at);
                let outcome = unit.write(&write).map_err(|failure| refuse(reason_of(&failure)))?;
                // The chunks of a write belong to their header: either all conditions hold, or nothing is written.
                let is_of_blob = matches!(write.change, WriteChange::Blob(_));
                let is_declared = matches!(
                    outcome,
                    WriteOutcome::ConditionFailed { .. } | WriteOutcome::CompareFailed { .. }
                );
                if is_declared || is_of_blob && !matches!(outcome, WriteOutcome::Done { .. }) {
                    return Err(refuse(Reason::ConditionFailed));
                }
                let is_beside_others = matches!(item.access, Access::Transform(_));
                match outcome.answer() {
                    // The value that they find, and therefore their result, is not known yet.
                    Ok(WireOutcome::Done { .. }) if is_beside_others => {
                        let answer = Ok(WireOutcome::Done { version: at, number: 0 });
                        push_answer(&answer, at, &mut result, refuse)?;
                    }
                    Ok(WireOutcome::Done { .. })
                        if matches!(write.change, WriteChange::Blob(BlobChange::Create { .. })) =>
                    {
                        let answer = Ok(WireOutcome::Done { version: at, number: BlobStamp::OWN });
                        push_answer(&answer, at, &mut result, refuse)?;
                    }
                    answer => push_answer(&answer, at, &mut result, refuse)?,
                }
                push_body(&item.body, &mut effect);
            }
        }
        if effect.len() > EFFECT_BYTES_MAX || result.len() > RESULT_BYTES_MAX {
            return Err(refuse(Reason::TooLong));
        }
    }
    // A decided transaction needs room in the log. It is refused here, where a refusal is still possible.
    let marked_bytes = (effect.len() + result.len()) as u64 + MARK_ROOM_BYTES;
    let is_fitting = unit.engine.check_file_size(handle, marked_bytes);
    is_fitting.map_err(|error| reason_of(&failure_of(&error)))?;
    let bytes = LOGGED_TIMES * (unit.staged.bytes() + effect.len() + result.len()) as u64;
    let room = unit.log_writer.check_space_for(unit.engine, bytes, frees_space(&effect));
    room.map_err(|error| reason_of(&failure_of(&error)))?;
    Ok(EvaluatedPart { effect: effect.freeze(), result: result.into() })
}

/// Replaces a transaction's references to itself, a blob that it creates or a version that it leaves, by the timestamp that it
/// has here. If a chunk knows a later blob than the one that this proposal would create, the write is refused: the decision is
/// not below the proposal.
fn resolved(mut write: RecordWrite<'_>, at: Timestamp) -> RecordWrite<'_> {
    if let WriteChange::Blob(change) = write.change {
        write.change = WriteChange::Blob(change.of_own(at.0));
    }
    if write.condition == Condition::IfVersion(Timestamp::MAX) {
        write.condition = Condition::IfVersion(at);
    }
    write
}

/// Whether an effect only removes, or changes nothing. Such an effect is admitted on a full disk, as every removal is.
pub(super) fn frees_space(effect: &[u8]) -> bool {
    let mut from = Reader::new(effect);
    if from.u64().is_none() {
        return true;
    }
    while !from.is_at_end() {
        // A staged operation is no removal, since removals are short.
        let Some((INLINE, length)) = from.u8().zip(from.u32()) else { return false };
        let Some(RecordOperation::Write(write)) = from.bytes(length as usize).and_then(operation) else {
            return false;
        };
        if !matches!(
            write.change,
            WriteChange::Remove(Remove) | WriteChange::Blob(BlobChange::DropChunk { .. })
        ) {
            return false;
        }
    }
    true
}

fn reason_of(failure: &Failure<'_>) -> Reason {
    match failure {
        Failure::KeyTooLong { .. } | Failure::BadRequest { .. } => Reason::Malformed,
        Failure::ValueTooLong { .. } | Failure::TooMany { .. } => Reason::TooLong,
        Failure::DiskFull | Failure::FileSizeLimit { .. } | Failure::MemoryFull => Reason::StorageFull,
        // `Busy` among them: compaction gives space back, or descriptors are short, and the client runs the transaction again.
        _ => Reason::Overloaded,
    }
}

fn push_answer(
    answer: &OperationAnswer<'_>,
    at: Timestamp,
    result: &mut Vec<u8>,
    refuse: impl Fn(Reason) -> Refusal,
) -> Result<(), Refusal> {
    let mut answer = answer.clone();
    match answer {
        Err(Failure::DiskFull | Failure::FileSizeLimit { .. } | Failure::MemoryFull) => {
            return Err(refuse(Reason::StorageFull));
        }
        Err(Failure::Busy { .. } | Failure::DiskFailed | Failure::DataCorrupt) => {
            return Err(refuse(Reason::Overloaded));
        }
        _ => {}
    }
    if let Ok(
        WireOutcome::Done { version, .. }
        | WireOutcome::Counter { version, .. }
        | WireOutcome::Value { version, .. }
        | WireOutcome::List { version, .. }
        | WireOutcome::Chunk { version, .. }
        | WireOutcome::ChunkMultiBuffer { version, .. }
        | WireOutcome::Info { version, .. },
    ) = &mut answer
        && *version == at
    {
        *version = Timestamp::MAX;
    }
    push_packed(&answer, result);
    Ok(())
}

const INLINE: u8 = 0;
const STAGED: u8 = 1;

fn push_body(body: &ItemBody, effect: &mut BytesMut) {
    match body {
        ItemBody::Inline(bytes) => {
            effect.put_u8(INLINE);
            effect.put_u32_le(bytes.len() as u32);
            effect.put_slice(bytes);
        }
        ItemBody::Staged(id) => {
            effect.put_u8(STAGED);
            effect.put_u64_le(id.session.issued.0);
            effect.put_u64_le(id.session.nonce);
            effect.put_u64_le(id.sequence.0);
        }
    }
}

/// Applies the evaluated effect in an atomic batch whose timestamp is the transaction's. Of an effect that was evaluated before a
/// split, a child applies its own half.
///
/// # Errors
/// Failures of the disk or the log. Also an effect that cannot be read, or that refers to data that is not staged; an intact log
/// has neither.
pub(super) fn redo<D: Disk>(
    unit: &mut Unit<'_, D>,
    (state, hash_range): (&PartitionState, Option<&HashRange>),
    (effect, at): (&[u8], Timestamp),
) -> Result<(), Failure<'static>> {
    let mut from = Reader::new(effect);
    let Some(now_ms) = from.u64() else {
        return if effect.is_empty() { Ok(()) } else { Err(Failure::DataCorrupt) };
    };
    unit.set_time(at, now_ms);
    // All partitions identify a blob that the transaction creates by the same time.
    let own = if is_planted(Bug::BlobIdFromEvaluationTime) { Timestamp::from_millis(now_ms) } else { at };
    while !from.is_at_end() {
        let bytes = next_body(&mut from, (unit.engine, unit.log_writer.handle()), state)
            .ok_or(Failure::DataCorrupt)?;
        let Some(RecordOperation::Write(write)) = operation(&bytes) else { return Err(Failure::DataCorrupt) };
        // The sibling applies its own operations. Here they would come behind the walk that removes foreign records, and stay.
        if hash_range.is_none_or(|hash_range| hash_range.owns(write.key))
            || is_planted(Bug::PreparedAppliedInBothChildren)
        {
            unit.write(&resolved(write, own))?;
        }
    }
    Ok(())
}

fn next_body<D: Disk>(
    from: &mut Reader<'_>,
    (engine, handle): (&mut Engine<D>, Handle),
    state: &PartitionState,
) -> Option<Bytes> {
    match from.u8()? {
        INLINE => {
            let length = from.u32()? as usize;
            Some(Bytes::copy_from_slice(from.bytes(length)?))
        }
        STAGED => {
            let id = StageId { session: session_id(from)?, sequence: Sequence(from.u64()?) };
            piece(engine, handle, state, &id)
        }
        _ => None,
    }
}

/// Undoes the entries that were appended after `end`, which no client's answer depends on.
pub(in crate::partition) fn undo_entries<D: Disk>(
    engine: &mut Engine<D>,
    (log_writer, overlay, deadlines): (&mut LogWriter, &mut Overlay, &Deadlines),
    end: (u32, u64),
) -> Result<(), Failure<'static>> {
    if log_writer.end() == end {
        return Ok(());
    }
    // If the disk fails here, the engine accepts no more entries for this log, and its next start truncates it. If there is no
    // room, the log is truncated before the next entry.
    let cut = log_writer.undo_after(engine, end);
    for key in overlay.undo_after(end.1) {
        let mut view = RecordView { engine, handle: log_writer.handle(), overlay: None, deadlines };
        let base = view.shape(&key).or_fail()?;
        overlay.rebase(&key, base);
    }
    cut.or_fail()
}
