//! The services of the partition for its transactions: records, clock, session table.

use std::cell::RefCell;

use bytes::Bytes;
use zerohop_engine::Engine;
use zerohop_engine::disk::Disk;
use zerohop_transaction::{
    EvaluatedPart, Install, PartitionHost, Reason, Refusal, SessionKnowledge, StageId, TransactionId,
    TransactionItem,
};
use zerohop_wire::ids::Timestamp;

use super::evaluate;
use super::evaluation_context::EvaluationContext;
use super::staged::piece;
use crate::clock::Clock;
use crate::hash_range::HashRange;
use crate::log_writer::LogWriter;
use crate::overlay::Overlay;
use crate::state::PartitionState;
use crate::write_buffer::UnitWriteBuffer;

/// The partition's side of its transactions; see the module.
pub(super) struct HostRecords<'r, D> {
    /// A lookup may read from the disk, which changes the engine's memory.
    context: RefCell<EvaluationContext<'r, D>>,
    state: &'r PartitionState,
    hash_range: Option<HashRange>,
}

impl<'r, D> HostRecords<'r, D> {
    pub(super) fn of(
        engine: &'r mut Engine<D>,
        (log_writer, overlay, state): (&'r mut LogWriter, &'r mut Overlay, &'r PartitionState),
        (clock, staged): (&'r mut Clock, &'r mut UnitWriteBuffer),
        hash_range: Option<HashRange>,
    ) -> HostRecords<'r, D> {
        HostRecords {
            context: RefCell::new(EvaluationContext { engine, log_writer, overlay, clock, staged }),
            state,
            hash_range,
        }
    }
}

impl<D: Disk> PartitionHost for HostRecords<'_, D> {
    fn propose(&mut self) -> Timestamp {
        self.context.get_mut().clock.next()
    }

    fn raise(&mut self, to: Timestamp) {
        self.context.get_mut().clock.witness(to);
    }

    fn is_ahead(&self, timestamp: Timestamp) -> bool {
        self.context.borrow().clock.check(timestamp).is_err()
    }

    fn version(&self, item: &TransactionItem) -> Timestamp {
        let context = &mut *self.context.borrow_mut();
        let bytes = evaluate::body(context.engine, context.log_writer.handle(), self.state, item);
        // A record that cannot be read does not match any version that a client has seen.
        bytes.and_then(|bytes| evaluate::version(context, self.state, &bytes)).unwrap_or(Timestamp::MAX)
    }

    fn evaluate(&self, items: &[TransactionItem]) -> Result<EvaluatedPart, Refusal> {
        let hash_range = self.hash_range.as_ref().ok_or(Reason::Misplaced)?;
        evaluate::items(&mut self.context.borrow_mut(), (self.state, hash_range), items)
    }

    /// The records have already changed. Their new contents are in the log behind the entry, in one atomic batch with it.
    fn install(&mut self, _install: &Install) {}

    fn staged(&self, id: &StageId) -> Option<Bytes> {
        let context = &mut *self.context.borrow_mut();
        piece(context.engine, context.log_writer.handle(), self.state, id)
    }

    fn known(&self, id: &TransactionId) -> SessionKnowledge {
        let sessions = &self.state.sessions;
        let is_over = match sessions.get(id.session) {
            Some(session) => id.sequence.0 < session.lowest || session.outcome(id.sequence.0).is_some(),
            None => id.session.issued < sessions.session_mark(),
        };
        if is_over { SessionKnowledge::Over } else { SessionKnowledge::Unknown }
    }
}
