//! The participant: a partition that takes part in transactions which others decide.

use zerohop_wire::ids::{LogIndex, Timestamp};

use super::{
    DecidedTransaction, HoldStage, HoldingTransaction, ParticipantRequirements, QueuedTransaction,
    Transactions, send,
};
use crate::effect::TransactionEffect;
use crate::entry::TransactionEntry;
use crate::host::PartitionHost;
use crate::id::{Attempt, RoutingKey, TransactionId};
use crate::intents::QueueEntry;
use crate::item::{Access, TransactionPart};
use crate::limits::{APPLIED_MAX, CLEANUP_QUERY_US, HOLDERS_MAX, QUEUE_MAX, RELEASED_MAX, STATUS_QUERY_US};
use crate::message::{Message, TransactionMessage};
use crate::planted::{Bug, is_planted};
use crate::reason::Reason;
use crate::state::Install;
use zerohop_base::time::Time;

impl Transactions {
    pub(super) fn prepare(
        &mut self,
        now: Time,
        host: &mut impl PartitionHost,
        message: Message,
        effects: &mut Vec<TransactionEffect>,
    ) {
        let TransactionMessage::Prepare { attempt, chain, parts, .. } = &message.what else { return };
        let (id, attempt, chain) = (message.id, *attempt, *chain);
        let Some(part) = parts.first() else { return };
        let refuse = |reason: Reason| {
            send(
                id.coordinator,
                part.routing_key,
                id,
                TransactionMessage::Refused { attempt, refusal: reason.into() },
            )
        };
        // A coordinator that contacts itself, or one partition twice, has grouped items by an older map.
        if self.running.contains_key(&id) {
            return effects.push(refuse(Reason::Misplaced));
        }
        if self.state.applied.contains_key(&id) && !is_planted(Bug::RepeatedPrepareApplied) {
            return;
        }
        if let Some(found) = self.prepared.get(&id) {
            if found.routing_key != part.routing_key {
                effects.push(refuse(Reason::Misplaced));
            } else if attempt == found.attempt {
                self.answer_again(id, &message, effects);
            } else if attempt > found.attempt {
                self.supersede(id, message, effects);
            }
            return;
        }
        if let Some(queued) = self.queued.get(&id) {
            let TransactionMessage::Prepare { attempt: known, .. } = &queued.message.what else { return };
            // The same number: it keeps its place.
            if attempt <= *known {
                return;
            }
            let arrival = queued.arrival;
            self.queued.remove(&id);
            self.intents.unqueue(arrival);
        }
        if self.released.get(&id).is_some_and(|released| attempt <= *released) {
            return;
        }
        if self.is_closed {
            return effects.push(refuse(Reason::Misplaced));
        }
        if self.prepared.len() >= HOLDERS_MAX || self.state.applied.len() >= APPLIED_MAX {
            return effects.push(refuse(Reason::Overloaded));
        }
        let needs = match self.needs(host, (id, part)) {
            Ok(needs) => needs,
            Err(refusal) => {
                let what = TransactionMessage::Refused { attempt, refusal };
                return effects.push(send(id.coordinator, part.routing_key, id, what));
            }
        };
        if self.intents.are_free(&needs.locks) {
            self.acquire_and_prepare(now, host, (&message, part, needs), effects);
        } else if !chain {
            effects.push(send(id.coordinator, part.routing_key, id, TransactionMessage::Busy { attempt }));
        } else if self.queued.len() >= QUEUE_MAX {
            effects.push(refuse(Reason::Overloaded));
        } else {
            let arrival = self.intents.queue(QueueEntry::Chain(id), needs.locks);
            let query_at = now.after_us(STATUS_QUERY_US);
            self.queued.insert(id, Box::new(QueuedTransaction { arrival, message, query_at }));
        }
    }

    /// The same attempt again: a prepared participant repeats its answer, and passes the transaction on again.
    fn answer_again(&mut self, id: TransactionId, message: &Message, effects: &mut Vec<TransactionEffect>) {
        let TransactionMessage::Prepare { chain, floor, parts, .. } = &message.what else { return };
        let Some(found) = self.prepared.get_mut(&id) else { return };
        if *chain && parts.len() > 1 {
            found.onward = Some((*floor, parts[1..].to_vec()));
        }
        if let HoldStage::Prepared(index) = found.stage
            && found.decided.is_none()
        {
            self.send_prepared(id, index, effects);
        }
    }

    /// A higher attempt: the lower one is released first, and then the higher one is handled.
    fn supersede(&mut self, id: TransactionId, message: Message, effects: &mut Vec<TransactionEffect>) {
        let Some(found) = self.prepared.get_mut(&id) else { return };
        if found.decided.is_some() {
            return;
        }
        if found.stage != HoldStage::Ending {
            found.stage = HoldStage::Ending;
            let entry = TransactionEntry::Release { id, attempt: found.attempt };
            effects.push(TransactionEffect::Append { entry, durability: found.durability });
        }
        let number = |message: &Message| match &message.what {
            TransactionMessage::Prepare { attempt, .. } => *attempt,
            _ => Attempt::default(),
        };
        if self.next.get(&id).is_none_or(|known| number(known) < number(&message)) {
            self.next.insert(id, message);
        }
    }

    /// Acquires the intents for which it has queued.
    pub(super) fn acquire_queued(
        &mut self,
        now: Time,
        host: &mut impl PartitionHost,
        message: &Message,
        effects: &mut Vec<TransactionEffect>,
    ) {
        let TransactionMessage::Prepare { attempt, parts, .. } = &message.what else { return };
        let (id, attempt) = (message.id, *attempt);
        let Some(part) = parts.first() else { return };
        // Staged pieces may have expired meanwhile.
        match self.needs(host, (id, part)) {
            Ok(needs) => self.acquire_and_prepare(now, host, (message, part, needs), effects),
            Err(refusal) => {
                effects.push(send(
                    id.coordinator,
                    part.routing_key,
                    id,
                    TransactionMessage::Refused { attempt, refusal },
                ));
            }
        }
    }

    /// Acquires free intents if the read versions are still valid, and logs the changes.
    fn acquire_and_prepare(
        &mut self,
        now: Time,
        host: &mut impl PartitionHost,
        (message, part, needs): (&Message, &TransactionPart, ParticipantRequirements<'_>),
        effects: &mut Vec<TransactionEffect>,
    ) {
        let id = message.id;
        let TransactionMessage::Prepare { attempt, chain, durability, floor, parts } = &message.what else {
            return;
        };
        let (attempt, durability) = (*attempt, *durability);
        let (effect, result) = match self.evaluate(host, &needs.items) {
            Ok(evaluated) => evaluated,
            Err(refusal) => {
                return effects.push(send(
                    id.coordinator,
                    part.routing_key,
                    id,
                    TransactionMessage::Refused { attempt, refusal },
                ));
            }
        };
        let proposal = host.propose();
        let holder = self.intents.acquire(needs.locks.clone(), proposal);
        let found = HoldingTransaction {
            holder,
            attempt,
            routing_key: part.routing_key,
            durability,
            is_whole: true,
            proposal,
            result: result.clone(),
            pinned: needs.pinned.clone(),
            stage: HoldStage::Preparing,
            has_transform: needs.locks.iter().any(|(_, access)| matches!(access, Access::Transform(_))),
            onward: chain.then(|| (*floor, parts[1..].to_vec())),
            decided: None,
            query_at: now.after_us(STATUS_QUERY_US),
            is_repeated: false,
        };
        self.prepared.insert(id, Box::new(found));
        let entry = TransactionEntry::Prepare {
            id,
            attempt,
            routing_key: part.routing_key,
            durability,
            proposal,
            locks: self.intents.logged(needs.locks),
            pinned: needs.pinned,
            effect,
            result,
        };
        effects.push(TransactionEffect::Append { entry, durability });
    }

    /// The routing key under which the coordinator gets the answer: the one that it has used, or, if that belongs to a
    /// sibling, one of this slice.
    pub(super) fn name(&self, found: &HoldingTransaction) -> RoutingKey {
        if self.hash_range.has(found.routing_key) {
            found.routing_key
        } else {
            self.hash_range.default_routing_key()
        }
    }

    pub(super) fn is_prepared(
        &mut self,
        now: Time,
        index: LogIndex,
        (id, attempt): (TransactionId, Attempt),
        effects: &mut Vec<TransactionEffect>,
    ) {
        let Some(found) = self.prepared.get_mut(&id) else { return };
        if found.attempt != attempt || found.stage != HoldStage::Preparing {
            return;
        }
        found.stage = HoldStage::Prepared(index);
        found.query_at = now.after_us(STATUS_QUERY_US);
        let holder = found.holder;
        self.send_prepared(id, index, effects);
        if is_planted(Bug::IntentsFreedBeforeDecision) {
            self.release_intents(holder, None, effects);
        }
    }

    /// The answer of a part whose `Prepare` is appended at this index and not durable yet, for a coordinator whose log cannot
    /// survive a crash without the entry. `None`: there is none, or it is in a chain, which passes only durable parts on.
    #[must_use]
    pub fn unsynced_answer(&self, id: TransactionId, prepared: LogIndex) -> Option<Message> {
        let found = self.prepared.get(&id)?;
        let is_ready = found.stage == HoldStage::Preparing && found.is_whole && found.onward.is_none();
        if !is_ready || !self.hash_range.has(found.routing_key) {
            return None;
        }
        let what = TransactionMessage::Prepared {
            attempt: found.attempt,
            proposal: found.proposal,
            prepared,
            hash_range: self.hash_range,
            result: found.result.clone(),
        };
        Some(Message { to: id.coordinator, from: found.routing_key, id, what })
    }

    fn send_prepared(&self, id: TransactionId, index: LogIndex, effects: &mut Vec<TransactionEffect>) {
        let Some(found) = self.prepared.get(&id).filter(|found| self.hash_range.has(found.routing_key))
        else {
            return;
        };
        let (attempt, proposal, hash_range) = (found.attempt, found.proposal, self.hash_range);
        if !found.is_whole && !is_planted(Bug::ChildReportsAllPrepared) {
            // It cannot be determined any more whether all parts of the split partition have it.
            let what = TransactionMessage::Refused { attempt, refusal: Reason::Misplaced.into() };
            return effects.push(send(id.coordinator, found.routing_key, id, what));
        }
        let what = TransactionMessage::Prepared {
            attempt,
            proposal,
            prepared: index,
            hash_range,
            result: found.result.clone(),
        };
        effects.push(send(id.coordinator, found.routing_key, id, what));
        if let Some((floor, parts)) = &found.onward
            && let Some(next) = parts.first()
        {
            let (floor, durability, parts) = (*floor, found.durability, parts.clone());
            let to = next.routing_key;
            let what = TransactionMessage::Prepare { attempt, chain: true, durability, floor, parts };
            effects.push(send(to, found.routing_key, id, what));
        }
    }

    /// The coordinator reports that an attempt has failed.
    pub(super) fn release(
        &mut self,
        to: RoutingKey,
        id: TransactionId,
        attempt: Attempt,
        effects: &mut Vec<TransactionEffect>,
    ) {
        let is_lower = |message: &Message| matches!(&message.what, TransactionMessage::Prepare { attempt: one, .. } if *one <= attempt);
        if self.next.get(&id).is_some_and(is_lower) {
            self.next.remove(&id);
        }
        if let Some(queued) = self.queued.get(&id).filter(|queued| is_lower(&queued.message)) {
            self.intents.unqueue(queued.arrival);
            self.queued.remove(&id);
        }
        if let Some(found) = self.prepared.get_mut(&id).filter(|found| found.attempt <= attempt) {
            if found.stage != HoldStage::Ending && found.decided.is_none() {
                found.stage = HoldStage::Ending;
                let entry = TransactionEntry::Release { id, attempt };
                effects.push(TransactionEffect::Append { entry, durability: found.durability });
            }
            return;
        }
        self.remember_released(id, attempt);
        effects.push(send(id.coordinator, to, id, TransactionMessage::Released { attempt }));
    }

    /// The coordinator reports that the transaction is over.
    pub(super) fn drop_prepared(
        &mut self,
        to: RoutingKey,
        id: TransactionId,
        effects: &mut Vec<TransactionEffect>,
    ) {
        self.next.remove(&id);
        let found = self.prepared.get(&id).map(|found| found.attempt);
        let queued = self.queued.get(&id).and_then(|queued| match &queued.message.what {
            TransactionMessage::Prepare { attempt, .. } => Some(*attempt),
            _ => None,
        });
        if let Some(attempt) = found.max(queued) {
            self.release(to, id, attempt, effects);
        }
    }

    fn remember_released(&mut self, id: TransactionId, attempt: Attempt) {
        if let Some(known) = self.released.get_mut(&id) {
            *known = attempt.max(*known);
            return;
        }
        if self.released_order.len() >= RELEASED_MAX
            && let Some(oldest) = self.released_order.pop_front()
        {
            self.released.remove(&oldest);
        }
        self.released.insert(id, attempt);
        self.released_order.push_back(id);
    }

    pub(super) fn is_released(
        &mut self,
        now: Time,
        host: &mut impl PartitionHost,
        (id, attempt): (TransactionId, Attempt),
        effects: &mut Vec<TransactionEffect>,
    ) {
        if let Some(found) = self.prepared.get(&id).filter(|found| found.attempt <= attempt) {
            let (place, holder) = (self.name(found), found.holder);
            self.prepared.remove(&id);
            self.release_intents(holder, None, effects);
            self.remember_released(id, attempt);
            effects.push(send(id.coordinator, place, id, TransactionMessage::Released { attempt }));
        }
        self.apply_deferred(effects);
        if let Some(message) = self.next.remove(&id) {
            self.prepare(now, host, message, effects);
        }
    }

    /// The decision has arrived.
    pub(super) fn commit(
        &mut self,
        (to, id): (RoutingKey, TransactionId),
        attempt: Attempt,
        decided: DecidedTransaction,
        effects: &mut Vec<TransactionEffect>,
    ) {
        let repeated_is_applied = is_planted(Bug::RepeatedPrepareApplied);
        if let Some(found) = self.prepared.get_mut(&id) {
            if found.decided.is_some() {
                found.is_repeated = true;
                return;
            }
            let is_it = found.stage == HoldStage::Prepared(decided.prepared) && found.attempt == attempt;
            if let HoldStage::Prepared(index) = found.stage
                && (is_it || repeated_is_applied)
            {
                found.decided = Some(DecidedTransaction { prepared: index, ..decided });
                let holder = found.holder;
                self.intents.decided(holder, decided.timestamp);
                self.deferred.insert(id);
                return self.apply_deferred(effects);
            }
            // Another attempt is held here, or it was prepared once more after a loss: a power failure removed a release and
            // the `Prepare` that the decision names. A transaction has one decision, so this attempt will never be decided.
            let is_over = found.attempt != attempt || matches!(found.stage, HoldStage::Prepared(_));
            if is_over && found.stage != HoldStage::Ending {
                found.stage = HoldStage::Ending;
                let entry = TransactionEntry::Release { id, attempt: found.attempt };
                effects.push(TransactionEffect::Append { entry, durability: found.durability });
            }
        }
        let hash_range = self.hash_range;
        let what = match self.state.applied.get(&id) {
            Some((decision, _)) => TransactionMessage::Applied { decision: *decision, hash_range },
            None => TransactionMessage::NotPrepared { decision: decided.decision, hash_range },
        };
        effects.push(send(id.coordinator, to, id, what));
    }

    /// Logs decided transactions for which no holder may commit below on any of their lock keys any more.
    fn apply_deferred(&mut self, effects: &mut Vec<TransactionEffect>) {
        let ready: Vec<TransactionId> =
            self.deferred.iter().copied().filter(|id| self.may_apply(*id)).collect();
        for id in ready {
            self.deferred.remove(&id);
            let Some(found) = self.prepared.get_mut(&id) else { continue };
            let Some(DecidedTransaction { timestamp, decision, prepared }) = found.decided else { continue };
            found.stage = HoldStage::Ending;
            let entry = TransactionEntry::Apply { id, prepared, timestamp, decision };
            effects.push(TransactionEffect::Append { entry, durability: found.durability });
        }
    }

    fn may_apply(&self, id: TransactionId) -> bool {
        let Some(found) = self.prepared.get(&id) else { return true };
        found.decided.is_none_or(|decided| self.intents.is_lowest(found.holder, decided.timestamp))
    }

    pub(super) fn is_applied(
        &mut self,
        now: Time,
        host: &mut impl PartitionHost,
        (id, decision, timestamp): (TransactionId, LogIndex, Timestamp),
        install: Option<&Install>,
        effects: &mut Vec<TransactionEffect>,
    ) {
        self.cleanup_queries.push_back((now.after_us(CLEANUP_QUERY_US), id));
        let Some(found) = self.prepared.remove(&id) else { return };
        if is_planted(Bug::TransformAppliedTwice) && found.has_transform && found.is_repeated {
            install.into_iter().for_each(|install| host.install(install));
        }
        self.next.remove(&id);
        self.release_intents(found.holder, Some(timestamp), effects);
        let what = TransactionMessage::Applied { decision, hash_range: self.hash_range };
        effects.push(send(id.coordinator, self.name(&found), id, what));
        self.apply_deferred(effects);
    }
}
