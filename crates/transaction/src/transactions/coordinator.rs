//! The coordinator, the last of a transaction's partitions: it contacts the others, decides, and sends the decision.

use std::sync::Arc;

use bytes::Bytes;
use zerohop_wire::ids::Timestamp;

use super::{
    DecisionNotice, OwnPart, ParticipantRequirements, PrepareAnswer, RunningTransaction, Transactions, send,
};
use crate::effect::{Ticket, TransactionEffect, TransactionOutcome};
use crate::entry::{Participant, TransactionEntry};
use crate::host::PartitionHost;
use crate::id::{Attempt, RoutingKey, StageId, TransactionId};
use crate::intents::{Locks, QueueEntry};
use crate::item::{Access, TransactionPart, TransactionRequest};
use crate::limits::{DECISIONS_MAX, QUEUE_MAX, RESEND_US, RESULT_BYTES_MAX, RUNNING_MAX};
use crate::message::TransactionMessage;
use crate::planted::{Bug, is_planted};
use crate::reason::{Reason, Refusal};
use zerohop_base::time::Time;

impl RunningTransaction {
    pub(super) fn others(&self) -> &[TransactionPart] {
        self.request.parts.split_last().map_or(&[], |(_, others)| others)
    }

    /// The answers come only from contacted participants, each once.
    fn has_all_answers(&self) -> bool {
        self.answers.len() == self.others().len()
    }
}

impl Transactions {
    /// A client's request. The session table, including appended entries, must know no outcome of it, and the request must
    /// still be allowed to start. A request that is running already is answered under the newest ticket only.
    ///
    /// # Errors
    /// Nothing is done, and nothing is logged: the request contradicts itself or a limit, or there is no room.
    pub fn request(
        &mut self,
        now: Time,
        host: &mut impl PartitionHost,
        (ticket, request): (Ticket, TransactionRequest),
        effects: &mut Vec<TransactionEffect>,
    ) -> Result<(), Reason> {
        let id = request.id;
        if let Some(running) = self.running.get_mut(&id) {
            running.ticket = Some(ticket);
            return Ok(());
        }
        if let Some(query) = self.unknown.get_mut(&id) {
            query.ticket = Some(ticket);
            return Ok(());
        }
        request.check()?;
        if !self.hash_range.has(id.coordinator) {
            return Err(Reason::Misplaced);
        }
        let decisions = self.state.decisions.len() + self.running.len();
        if self.running.len() >= RUNNING_MAX || decisions >= DECISIONS_MAX {
            return Err(Reason::Overloaded);
        }
        let running = RunningTransaction {
            ends_at: now.after_us(request.limit_us()),
            request: Arc::new(request),
            ticket: Some(ticket),
            attempt: self.next_attempt(),
            chain: false,
            answers: Default::default(),
            own: OwnPart::Free,
            is_deciding: false,
            resend_at: now.after_us(RESEND_US),
        };
        self.running.insert(id, Box::new(running));
        self.begin(now, host, id, effects);
        self.pump(now, host, effects);
        self.end_step();
        Ok(())
    }

    /// Whether the transaction of a request is running here, or is being logged as aborted after a query: the request must
    /// not be refused then.
    #[must_use]
    pub fn runs(&self, id: &TransactionId) -> bool {
        self.running.contains_key(id) || self.unknown.contains_key(id)
    }

    fn next_attempt(&mut self) -> Attempt {
        self.attempts += 1;
        Attempt { epoch: self.epoch, counter: self.attempts }
    }

    /// In parallel: own intents first, then those of all others at once, and no participant queues.
    fn begin(
        &mut self,
        now: Time,
        host: &mut impl PartitionHost,
        id: TransactionId,
        effects: &mut Vec<TransactionEffect>,
    ) {
        let Some(running) = self.running.get(&id) else { return };
        let (is_alone, request) = (running.others().is_empty(), Arc::clone(&running.request));
        match self.own_needs(host, &request) {
            Err(refusal) => self.abort(id, (id.coordinator, refusal), effects),
            Ok(needs) if self.intents.are_free(&needs.locks) => {
                self.prepare_own(host, (id, needs), effects);
                self.send_prepares(id, effects);
            }
            Ok(needs) if is_alone => self.queue_own(id, needs.locks, effects),
            Ok(_) => self.queue_in_order(now, id, effects),
        }
    }

    fn own_needs<'r>(
        &self,
        host: &impl PartitionHost,
        request: &'r TransactionRequest,
    ) -> Result<ParticipantRequirements<'r>, Refusal> {
        let part = request.parts.last().ok_or(Reason::Malformed)?;
        let mut needs = self.needs(host, (request.id, part))?;
        // The log has the actual change of the coordinator's part. It therefore waits for all holders that may commit below,
        // and no other transform is admitted beside it.
        for (_, access) in &mut needs.locks {
            if matches!(access, Access::Transform(_)) {
                *access = Access::Write;
            }
        }
        Ok(needs)
    }

    fn queue_own(&mut self, id: TransactionId, locks: Locks, effects: &mut Vec<TransactionEffect>) {
        if self.intents.waiting().0 >= QUEUE_MAX {
            return self.abort(id, (id.coordinator, Reason::Overloaded.into()), effects);
        }
        let arrival = self.intents.queue(QueueEntry::Own(id), locks);
        if let Some(running) = self.running.get_mut(&id) {
            running.own = OwnPart::Queued(arrival);
        }
    }

    /// The coordinator's own intents are free.
    fn prepare_own(
        &mut self,
        host: &mut impl PartitionHost,
        (id, needs): (TransactionId, ParticipantRequirements<'_>),
        effects: &mut Vec<TransactionEffect>,
    ) {
        let (effect, result) = match self.evaluate(host, &needs.items) {
            Ok(evaluated) => evaluated,
            Err(refusal) => return self.abort(id, (id.coordinator, refusal), effects),
        };
        let proposal = host.propose();
        let holder = self.intents.acquire(needs.locks, proposal);
        if let Some(running) = self.running.get_mut(&id) {
            running.own = OwnPart::Prepared { holder, proposal, effect, result, pinned: needs.pinned };
        }
        self.decide_if_all(id, effects);
    }

    /// The queue entry of the coordinator's own part is the first in the queue.
    pub(super) fn own_part_first(
        &mut self,
        host: &mut impl PartitionHost,
        id: TransactionId,
        effects: &mut Vec<TransactionEffect>,
    ) {
        let Some(running) = self.running.get(&id).filter(|running| !running.is_deciding) else { return };
        let request = Arc::clone(&running.request);
        match self.own_needs(host, &request) {
            Ok(needs) => self.prepare_own(host, (id, needs), effects),
            Err(refusal) => self.abort(id, (id.coordinator, refusal), effects),
        }
    }

    /// Sends `Prepare` to all participants that have not answered, or along the chain.
    pub(super) fn send_prepares(&self, id: TransactionId, effects: &mut Vec<TransactionEffect>) {
        let Some(running) = self.running.get(&id).filter(|running| !running.is_deciding) else { return };
        let (attempt, durability, floor) = (running.attempt, running.request.durability(), self.floor());
        let others = running.others();
        if running.chain && !running.has_all_answers() {
            let what = TransactionMessage::Prepare {
                attempt,
                chain: true,
                durability,
                floor,
                parts: others.to_vec(),
            };
            return effects
                .extend(others.first().map(|first| send(first.routing_key, id.coordinator, id, what)));
        }
        for part in others.iter().filter(|part| !running.answers.contains_key(&part.routing_key)) {
            let what = TransactionMessage::Prepare {
                attempt,
                chain: false,
                durability,
                floor,
                parts: vec![part.clone()],
            };
            effects.push(send(part.routing_key, id.coordinator, id, what));
        }
    }

    /// There was a conflict: all intents are freed, and the transaction queues at one participant after the other.
    fn queue_in_order(&mut self, now: Time, id: TransactionId, effects: &mut Vec<TransactionEffect>) {
        self.free_others(now, id, effects);
        if !is_planted(Bug::CoordinatorKeepsOwnIntents) {
            self.free_own(id, None, effects);
        }
        let attempt = self.next_attempt();
        if let Some(running) = self.running.get_mut(&id) {
            running.attempt = attempt;
            running.chain = true;
            running.answers.clear();
            running.resend_at = now.after_us(RESEND_US);
        }
        self.send_prepares(id, effects);
    }

    fn free_own(&mut self, id: TransactionId, at: Option<Timestamp>, effects: &mut Vec<TransactionEffect>) {
        let Some(running) = self.running.get_mut(&id) else { return };
        match std::mem::replace(&mut running.own, OwnPart::Free) {
            OwnPart::Prepared { holder, .. } => self.release_intents(holder, at, effects),
            OwnPart::Queued(arrival) => {
                self.intents.unqueue(arrival);
            }
            OwnPart::Free => {}
        }
    }

    pub(super) fn prepared(
        &mut self,
        now: Time,
        host: &mut impl PartitionHost,
        (from, id, attempt): (RoutingKey, TransactionId, Attempt),
        answer: PrepareAnswer,
        effects: &mut Vec<TransactionEffect>,
    ) {
        let Some(running) = self.running.get_mut(&id).filter(|running| !running.is_deciding) else { return };
        let counts = running.attempt == attempt || is_planted(Bug::EarlierAttemptCounted);
        let is_participant = running.others().iter().any(|part| part.routing_key == from);
        if !counts || !is_participant || !answer.hash_range.has(from) {
            return;
        }
        if host.is_ahead(answer.proposal) {
            return self.abort(id, (from, Reason::ClockAhead.into()), effects);
        }
        running.answers.insert(from, answer);
        running.resend_at = now.after_us(RESEND_US);
        if !running.has_all_answers() {
            return;
        }
        if running.chain && matches!(running.own, OwnPart::Free) {
            // The coordinator is the last of the chain.
            let request = Arc::clone(&running.request);
            match self.own_needs(host, &request) {
                Err(refusal) => self.abort(id, (id.coordinator, refusal), effects),
                Ok(needs) if self.intents.are_free(&needs.locks) => {
                    self.prepare_own(host, (id, needs), effects);
                }
                Ok(needs) => self.queue_own(id, needs.locks, effects),
            }
        } else {
            self.decide_if_all(id, effects);
        }
    }

    /// From now on `Commit` entries may survive without the unsynced entries of participants: they count once they are durable.
    pub fn forget_unsynced(&mut self) {
        for running in self.running.values_mut().filter(|running| !running.is_deciding) {
            running.answers.retain(|_, answer| !answer.is_unsynced);
        }
    }

    pub(super) fn busy(
        &mut self,
        now: Time,
        (from, id, attempt): (RoutingKey, TransactionId, Attempt),
        effects: &mut Vec<TransactionEffect>,
    ) {
        let Some(running) = self.running.get(&id) else { return };
        let is_participant = running.others().iter().any(|part| part.routing_key == from);
        if running.attempt == attempt && !running.chain && !running.is_deciding && is_participant {
            self.queue_in_order(now, id, effects);
        }
    }

    pub(super) fn refused(
        &mut self,
        (from, id, attempt): (RoutingKey, TransactionId, Attempt),
        refusal: Refusal,
        effects: &mut Vec<TransactionEffect>,
    ) {
        let Some(running) = self.running.get(&id) else { return };
        let is_participant = running.others().iter().any(|part| part.routing_key == from);
        if running.attempt == attempt && is_participant {
            self.abort(id, (from, refusal), effects);
        }
    }

    /// All participants have prepared: the timestamp is fixed, and the decision logged.
    fn decide_if_all(&mut self, id: TransactionId, effects: &mut Vec<TransactionEffect>) {
        let Some(running) = self.running.get_mut(&id).filter(|running| !running.is_deciding) else { return };
        let all = running.has_all_answers();
        let OwnPart::Prepared { proposal, effect, result, pinned, .. } = &running.own else { return };
        if !all {
            return;
        }
        let mut proposals: Vec<Timestamp> = running.answers.values().map(|answer| answer.proposal).collect();
        proposals.push(*proposal);
        if is_planted(Bug::LastProposalIgnored) && proposals.len() > 1 {
            proposals.sort_unstable();
            proposals.pop();
        }
        let timestamp = proposals.into_iter().max().unwrap_or_default();
        let prepared = |part: &TransactionPart| {
            let answer = running.answers.get(&part.routing_key)?;
            Some(Participant {
                routing_key: part.routing_key,
                hash_range: answer.hash_range,
                prepared: answer.prepared,
            })
        };
        let result_of = |part: &TransactionPart| {
            running.answers.get(&part.routing_key).map(|answer| answer.result.clone())
        };
        let mut results: Vec<Bytes> = running.others().iter().filter_map(result_of).collect();
        results.push(result.clone());
        if results.iter().map(Bytes::len).sum::<usize>() > RESULT_BYTES_MAX {
            return self.abort(id, (id.coordinator, Reason::TooLong.into()), effects);
        }
        let durability = running.request.durability();
        let entry = TransactionEntry::Commit {
            id,
            attempt: running.attempt,
            timestamp,
            durability,
            participants: running.others().iter().filter_map(prepared).collect(),
            pinned: pinned.clone(),
            effect: effect.clone(),
            results,
        };
        running.is_deciding = true;
        effects.push(TransactionEffect::Append { entry, durability });
    }

    /// Decides to abort, unless the transaction is decided.
    pub(super) fn abort(
        &mut self,
        id: TransactionId,
        (by, refusal): (RoutingKey, Refusal),
        effects: &mut Vec<TransactionEffect>,
    ) {
        let Some(running) = self.running.get_mut(&id).filter(|running| !running.is_deciding) else { return };
        running.is_deciding = true;
        let durability = running.request.durability();
        effects.push(TransactionEffect::Append {
            entry: TransactionEntry::Abort { id, by, refusal },
            durability,
        });
    }

    /// The decision is in the log: the client is answered and the participants are notified.
    pub(super) fn is_decided(
        &mut self,
        now: Time,
        entry: &TransactionEntry,
        effects: &mut Vec<TransactionEffect>,
    ) {
        let TransactionEntry::Commit { id, timestamp, participants, results, .. } = entry else { return };
        self.free_own(*id, Some(*timestamp), effects);
        if let Some(ticket) = self.running.remove(id).and_then(|running| running.ticket) {
            let outcome = TransactionOutcome::Committed { timestamp: *timestamp, results: results.clone() };
            effects.push(TransactionEffect::Answer { ticket, outcome });
        }
        if participants.is_empty() {
            return;
        }
        let notice = DecisionNotice::new(now.after_us(RESEND_US), participants.len());
        self.decision_notices.insert(*id, Box::new(notice));
        self.send_decision(*id, effects);
        if is_planted(Bug::DecisionForgottenEarly) {
            self.decision_notices.remove(id);
            self.state.finish(id);
        }
    }

    pub(super) fn is_aborted(
        &mut self,
        now: Time,
        id: TransactionId,
        (by, refusal): (RoutingKey, Refusal),
        effects: &mut Vec<TransactionEffect>,
    ) {
        let outcome = TransactionOutcome::Aborted { by, refusal };
        if let Some(query) = self.unknown.remove(&id) {
            let floor = self.floor();
            effects.extend(
                query
                    .routing_keys
                    .iter()
                    .map(|place| send(*place, id.coordinator, id, TransactionMessage::Drop { floor })),
            );
            effects.extend(
                query.ticket.map(|ticket| TransactionEffect::Answer { ticket, outcome: outcome.clone() }),
            );
        }
        if self.running.contains_key(&id) {
            self.free_own(id, None, effects);
            self.free_others(now, id, effects);
            let ticket = self.running.remove(&id).and_then(|running| running.ticket);
            effects.extend(ticket.map(|ticket| TransactionEffect::Answer { ticket, outcome }));
        }
    }
}

/// Staged pieces of a coordinator's own part need no pin in the log before the decision; they are kept while it runs.
pub(super) fn pinned_by(own: &OwnPart) -> &[StageId] {
    match own {
        OwnPart::Prepared { pinned, .. } => pinned,
        _ => &[],
    }
}
