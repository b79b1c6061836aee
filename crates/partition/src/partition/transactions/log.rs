//! Log entries of transactions: a mark each and, in one atomic batch with it, the resulting changes of records.

use zerohop_engine::disk::Disk;
use zerohop_engine::{Engine, EntryKind, EntryMeta, ReserveShare};
use zerohop_transaction::TransactionEntry;
use zerohop_wire::Failure;
use zerohop_wire::ids::Timestamp;

use super::evaluate::{frees_space, redo, undo_entries};
use super::staged::EntryAttachment;
use crate::atomic_batch::Unit;
use crate::entry_metadata::{MARK_HEAD_BYTES, Mark};
use crate::event::PartitionEffects;
use crate::failure::failure_of;
use crate::log_writer::NewLogEntry;
use crate::operations::EngineResultExt;
use crate::partition::Partition;
use crate::planted::{Bug, is_planted};

/// Whether an entry is admitted on a full disk: removals, and decisions made elsewhere, since records stay locked until they are
/// applied.
fn is_admitted_when_full(entry: &TransactionEntry) -> bool {
    match entry {
        TransactionEntry::Prepare { effect, .. } | TransactionEntry::Commit { effect, .. } => {
            frees_space(effect)
        }
        TransactionEntry::Apply { .. } | TransactionEntry::Expire { .. } => true,
        _ => false,
    }
}

/// The same for an entry that a primary has admitted.
pub(in crate::partition) fn is_mark_admitted_when_full(meta: &EntryMeta, payload: &[u8]) -> bool {
    let entry =
        (meta.kind == EntryKind::Mark).then(|| Mark::decode(payload, Timestamp(meta.timestamp))).flatten();
    matches!(entry, Some(Mark::Transaction { entry, .. }) if is_admitted_when_full(&entry))
}

impl Partition {
    /// Appends an entry. It is committed now, or once all needed members have it. Its changes of records are evaluated here, and
    /// follow it in the log.
    ///
    /// # Errors
    /// Failures of the engine; nothing is appended.
    pub(super) fn log_transaction<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        mut entry: TransactionEntry,
        effects: &mut dyn PartitionEffects,
    ) -> Result<(), Failure<'static>> {
        let beside = EntryAttachment::of(&mut entry, &self.state);
        let at = match &entry {
            TransactionEntry::Commit { timestamp, .. } | TransactionEntry::Apply { timestamp, .. } => {
                Some(*timestamp)
            }
            _ => None,
        };
        let at = match at {
            Some(at) => {
                self.clock.witness(at);
                at
            }
            None => self.clock.next(),
        };
        let request = match &entry {
            TransactionEntry::Commit { id, .. } | TransactionEntry::Abort { id, .. } => {
                Some((id.session, id.sequence))
            }
            TransactionEntry::StagePiece { id, .. } => Some((id.session, id.sequence)),
            _ => None,
        };
        let transacting = self.transacting.as_deref_mut();
        let unlogged =
            transacting.zip(request).and_then(|(one, request)| one.unlogged_requests.remove(&request));
        let lowest = unlogged.map_or(0, |(lowest, _)| lowest);
        let mut payload = Vec::with_capacity(MARK_HEAD_BYTES + entry.estimated_bytes());
        let share = if is_admitted_when_full(&entry) { ReserveShare::Half } else { ReserveShare::Nothing };
        // A decision may rest on parts that are not durable yet.
        let is_journal_first = matches!(entry, TransactionEntry::Commit { .. });
        self.log_writer.set_reserve_share(engine, share);
        self.log_writer.set_journal_first(engine, is_journal_first);
        Mark::Transaction { lowest, entry }.encode(at, &mut payload);
        let logged = if beside.is_empty() {
            self.log_mark_of_transaction(engine, at, &payload, effects)
        } else {
            self.log_changes(engine, at, (&payload, &beside), effects)
        };
        self.log_writer.set_reserve_share(engine, ReserveShare::Nothing);
        self.log_writer.set_journal_first(engine, false);
        logged
    }

    fn log_mark_of_transaction<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        at: Timestamp,
        payload: &[u8],
        effects: &mut dyn PartitionEffects,
    ) -> Result<(), Failure<'static>> {
        let entry = NewLogEntry { kind: EntryKind::Mark, flags: 0, at, key: &[], payload, hint: None };
        let meta = self.log_writer.append(engine, &entry).or_fail()?;
        if self.log_writer.commits_at_once() {
            self.apply(&meta, &[], payload);
        } else {
            effects.request_flush();
        }
        Ok(())
    }

    fn log_changes<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        at: Timestamp,
        (payload, beside): (&[u8], &EntryAttachment),
        effects: &mut dyn PartitionEffects,
    ) -> Result<(), Failure<'static>> {
        let (end, hash_range) = (self.log_writer.end(), self.hash_range());
        let mut staged = self.buffers.staged.take().unwrap_or_default();
        staged.push_mark(at, payload);
        let (redone, appended) = {
            let Partition { log_writer, overlay, state, clock, .. } = &mut *self;
            let state = &*state;
            let mut unit = Unit::new(engine, (log_writer, overlay, state), clock, &mut staged, None);
            unit.set_time(at, unit.now_ms());
            let effect = beside.effect.as_deref().unwrap_or_default();
            let mut redone = redo(&mut unit, (state, hash_range.as_ref()), (effect, at));
            if is_planted(Bug::TransactionAppliedTwice) {
                redone = redone.and_then(|()| redo(&mut unit, (state, hash_range.as_ref()), (effect, at)));
            }
            (redone.and_then(|()| beside.apply_pieces(&mut unit)), unit.appended)
        };
        let result = redone.and_then(|()| {
            if appended == 0 && self.log_writer.commits_at_once() {
                return self.write_at_once(engine, &staged, effects).map(drop).or_fail();
            }
            if staged.is_empty() {
                staged.push_end(at);
            }
            staged.append(engine, (&mut self.log_writer, &mut self.overlay), false).or_fail()?;
            self.end_batch(engine, &staged, effects).map(drop).map_err(|error| failure_of(&error))
        });
        let result = result.or_else(|failure| {
            let Partition { log_writer, overlay, state, .. } = &mut *self;
            undo_entries(engine, (log_writer, overlay, &state.deadlines), end).and(Err(failure))
        });
        staged.clear();
        self.buffers.staged = Some(staged);
        result
    }
}
