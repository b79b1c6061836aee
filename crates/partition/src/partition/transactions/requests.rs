//! Requests of clients about transactions: to run a transaction, and to stage data for a later one.

use bytes::Bytes;
use zerohop_engine::Engine;
use zerohop_engine::disk::Disk;
use zerohop_transaction::codec::{decode_parts, decode_release};
use zerohop_transaction::{
    Durability, Reason, Refusal, RoutingKey, StageId, TransactionEffect, TransactionId, TransactionOutcome,
    TransactionPart, TransactionRequest,
};
use zerohop_wire::ids::Sequence;
use zerohop_wire::messages::{ItemAnswer, StageBytes, Stamp, Transact, TransactionDone};
use zerohop_wire::{AbortReason, BadRequestReason, Elements, Failure, Message};

use super::WaitingClient;
use crate::event::{PartitionEffects, Token};
use crate::failure::failure_of;
use crate::limits::{BUSY_RETRY_MS, TRANSACTED_BYTES_MAX};
use crate::map_view::MapView;
use crate::outcome::WriteOutcome;
use crate::partition::{AnswerTarget, Partition};

/// An upper bound of the bytes that the marks of an aborted transaction take.
const MARKS_BYTES: u64 = 8 << 10;

/// An upper bound of what the release of a staged piece takes in the log: its id, and the removal of its record.
const RELEASED_PIECE_BYTES: u64 = 256;

/// The transaction may have committed, or may still commit. A client that asks again learns the outcome.
pub(super) fn unknown_outcome() -> Message<'static> {
    Message::Answer(Err(Failure::TimedOut { version: Default::default() }))
}

fn aborted(reason: Reason) -> Failure<'static> {
    let (reason, none) = (AbortReason::from(reason), AbortReason::NONE);
    Failure::Aborted { reason, part: none, item: none }
}

/// Tells a client how its transaction has ended.
pub(super) fn answer_ended(
    token: Token,
    ended: &TransactionOutcome,
    places: &[RoutingKey],
    effects: &mut dyn PartitionEffects,
) {
    match ended {
        TransactionOutcome::Committed { timestamp, results } => {
            let packed: Vec<u8> = results.concat();
            match Elements::<ItemAnswer<'_>>::all(&packed) {
                Ok(answers) => {
                    effects.answer(
                        token,
                        &Message::Transacted(TransactionDone { version: *timestamp, answers }),
                    );
                }
                Err(failure) => effects.answer(token, &Message::Answer(Err(failure))),
            }
        }
        TransactionOutcome::Aborted { by, refusal } => {
            let part = places.iter().position(|place| place == by);
            let part = part.map_or(AbortReason::NONE, |part| part as u32);
            let Refusal { reason, item } = *refusal;
            let failure = Failure::Aborted { reason: AbortReason::from(reason), part, item };
            effects.answer(token, &Message::Answer(Err(failure)));
        }
    }
}

impl Partition {
    /// Whether a numbered request is new and may start now. Otherwise the result is its earlier outcome, or a failure.
    fn is_new<'s>(&self, stamp: &Stamp) -> Result<(), Result<(u64, WriteOutcome), Failure<'s>>> {
        if !stamp.session.is_some() {
            return Err(Err(aborted(Reason::Malformed)));
        }
        if let Some(first) = self.first_outcome(stamp.session, stamp.sequence.0) {
            return Err(Ok(first));
        }
        self.admit_session(stamp, stamp.sequence.0).map_err(Err)
    }

    pub(in crate::partition) fn transact<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        transact: &Transact<'_>,
        (token, map): (Token, MapView<'_>),
        effects: &mut dyn PartitionEffects,
    ) {
        let stamp = &transact.stamp;
        let fail = |failure, effects: &mut dyn PartitionEffects| {
            effects.answer(token, &Message::Answer(Err(failure)))
        };
        let Ok(parts) = decode_parts(transact.parts) else {
            return fail(aborted(Reason::Malformed), effects);
        };
        let places: Vec<RoutingKey> = parts.iter().map(|part: &TransactionPart| part.routing_key).collect();
        match self.is_new(stamp) {
            Ok(()) => {}
            Err(Ok((_, WriteOutcome::Transaction(ended)))) => {
                self.counts.answered_again += 1;
                return answer_ended(token, &ended, &places, effects);
            }
            Err(Ok((_, other))) => {
                let answer = other.answer();
                return effects.answer(token, &Message::Answer(answer));
            }
            Err(Err(failure)) => return fail(failure, effects),
        }
        let Some(coordinator) = places.last().copied() else {
            return fail(aborted(Reason::Malformed), effects);
        };
        if !self.open_transactions() {
            return fail(Failure::Busy { retry_after_ms: BUSY_RETRY_MS }, effects);
        }
        let awaits_split = self.hash_range().is_some_and(|range| map.awaits_split(&range));
        let Some(transacting) = self.transacting.as_deref_mut() else { return };
        transacting.has_only_read_locks = false;
        let id = TransactionId { coordinator, session: stamp.session, sequence: stamp.sequence };
        // A transaction that has started continues, whatever the map has become since. A client that hears `Misplaced` assumes
        // that it has not started.
        if !transacting.transactions.runs(&id)
            && let Some(part) = map.misplaced(&parts)
        {
            let (reason, item) = (AbortReason::Misplaced, AbortReason::NONE);
            return fail(Failure::Aborted { reason, part, item }, effects);
        }
        // The own part of a coordinator is one entry, which must be committed before the split.
        if !transacting.transactions.runs(&id) && awaits_split {
            return fail(Failure::Busy { retry_after_ms: BUSY_RETRY_MS }, effects);
        }
        // There is no room even to log a refusal, so nothing is started.
        if !transacting.transactions.runs(&id)
            && let Err(error) = self.log_writer.check_space_for(engine, MARKS_BYTES, true)
        {
            return fail(failure_of(&error), effects);
        }
        let ticket = transacting.ticket();
        let unlogged = (stamp.lowest_unanswered.0, ticket);
        let before = transacting.unlogged_requests.insert((stamp.session, stamp.sequence), unlogged);
        let overtaken = before.and_then(|(_, ticket)| transacting.clients.remove(&ticket));
        transacting.clients.insert(ticket, WaitingClient { token, places });
        if let Some(overtaken) = overtaken {
            // The same request has arrived again. Only the newest is answered.
            effects.dropped(overtaken.token);
        }
        let request = TransactionRequest { id, parts };
        let mut refused = None;
        self.act(engine, effects, |transactions, now, host, requested| {
            refused = transactions.request(now, host, (ticket, request), requested).err();
        });
        let Some(reason) = refused else { return };
        if let Some(transacting) = self.transacting.as_deref_mut() {
            transacting.clients.remove(&ticket);
            transacting.unlogged_requests.remove(&(stamp.session, stamp.sequence));
        }
        match reason {
            // Nothing was started or logged, so the client may send the same request again.
            Reason::Overloaded => fail(Failure::Busy { retry_after_ms: BUSY_RETRY_MS }, effects),
            other => fail(aborted(other), effects),
        }
    }

    pub(in crate::partition) fn stage<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        stage: &StageBytes<'_>,
        token: Token,
        effects: &mut dyn PartitionEffects,
    ) {
        let stamp = &stage.stamp;
        let (index, answer) = match self.is_new(stamp) {
            Ok(()) => match decode_release(stage.piece) {
                Ok(None) => self.stage_new(engine, stage, effects),
                Ok(Some(pieces)) => self.release_staged(engine, stamp, &pieces, effects),
                Err(_) => Err(BadRequestReason::Lengths.into()),
            },
            Err(Ok(first)) => Ok(first),
            Err(Err(failure)) => Err(failure),
        }
        .map_or_else(|failure| (0, Err(failure)), |(index, outcome)| (index, Ok(outcome)));
        let mut to = AnswerTarget::One(token);
        match answer {
            Ok(outcome) => self.deliver(&mut to, index, &outcome.answer(), effects),
            Err(failure) => self.deliver(&mut to, 0, &Err(failure), effects),
        }
    }

    /// Ends pieces that the session needs no more. It is idempotent, so the session table does not record it.
    fn release_staged<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        stamp: &Stamp,
        pieces: &[Sequence],
        effects: &mut dyn PartitionEffects,
    ) -> Result<(u64, WriteOutcome), Failure<'static>> {
        if !self.open_transactions() {
            return Err(Failure::Busy { retry_after_ms: BUSY_RETRY_MS });
        }
        // An entry that could not be appended would end all transactions in progress.
        let bytes = MARKS_BYTES + pieces.len() as u64 * RELEASED_PIECE_BYTES;
        self.log_writer.check_space_for(engine, bytes, true).map_err(|error| failure_of(&error))?;
        self.act(engine, effects, |transactions, _, _, requested| {
            transactions.release_staged(stamp.session, pieces, requested);
        });
        Ok((self.log_writer.last(), WriteOutcome::Done { version: Default::default(), number: 0 }))
    }

    fn stage_new<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        stage: &StageBytes<'_>,
        effects: &mut dyn PartitionEffects,
    ) -> Result<(u64, WriteOutcome), Failure<'static>> {
        let busy = Failure::Busy { retry_after_ms: BUSY_RETRY_MS };
        let state_bytes = self.state.transacted.as_ref().map_or(0, |one| one.state.bytes());
        if state_bytes > TRANSACTED_BYTES_MAX || !self.open_transactions() {
            return Err(busy);
        }
        let stamp = &stage.stamp;
        if let Some(transacting) = self.transacting.as_deref_mut() {
            transacting.has_only_read_locks = false;
        }
        let id = StageId { session: stamp.session, sequence: stamp.sequence };
        let bytes = Bytes::copy_from_slice(stage.piece);
        let mut refused = None;
        let requested = self.begin_transaction(engine, |transactions, _, _, requested| {
            refused = transactions.stage((id, bytes), Durability::Memory, requested).err();
        });
        if let Some(reason) = refused {
            return Err(aborted(reason));
        }
        if let Some(transacting) = self.transacting.as_deref_mut() {
            let ticket = transacting.ticket();
            let unlogged = (stamp.lowest_unanswered.0, ticket);
            transacting.unlogged_requests.insert((stamp.session, stamp.sequence), unlogged);
        }
        let entry = requested.into_iter().find_map(|effect| match effect {
            TransactionEffect::Append { entry, .. } => Some(entry),
            _ => None,
        });
        // A piece without room is refused, and nothing else is affected.
        let logged = entry.map_or(Err(busy), |entry| self.log_transaction(engine, entry, effects));
        if let Some(transacting) = self.transacting.as_deref_mut() {
            transacting.unlogged_requests.remove(&(stamp.session, stamp.sequence));
        }
        logged?;
        self.notify_committed(engine, effects);
        let outcome = WriteOutcome::Done { version: Default::default(), number: 0 };
        if !self.log_writer.commits_at_once() {
            let index = self.log_writer.last();
            self.overlay.add_outcome(index, stamp.session, stamp.sequence.0, outcome.clone());
        }
        Ok((self.log_writer.last(), outcome))
    }
}
