//! Notices, queries, answers and acknowledgements, until all decided and failed transactions have ended.

use std::collections::BTreeSet;

use super::{
    DecisionNotice, HoldStage, HoldingTransaction, ReleasedAttempt, StatusWaiters, Transactions, send,
};
use crate::effect::TransactionEffect;
use crate::entry::TransactionEntry;
use crate::host::{PartitionHost, SessionKnowledge};
use crate::id::{Attempt, DecisionFloor, Durability, RoutingKey, TransactionId};
use crate::item::Access;
use crate::limits::{
    CLEANUP_QUERY_US, FLOORS_MAX, RELEASING_MAX, REQUESTERS_MAX, RESEND_US, STAGED_US_MAX, STATUS_QUERY_US,
    UNKNOWN_MAX,
};
use crate::message::TransactionMessage;
use crate::planted::{Bug, is_planted};
use crate::reason::{Reason, Refusal};
use zerohop_base::time::Time;

impl Transactions {
    /// Resumes the transactions in the log of former primaries.
    pub(super) fn resume(&mut self, now: Time) {
        for (id, prepared) in &self.state.prepared {
            let locks = self.intents.own_of(&prepared.locks, self.hash_range);
            let has_transform = locks.iter().any(|(_, access)| matches!(access, Access::Transform(_)));
            let found = HoldingTransaction {
                holder: self.intents.acquire(locks, prepared.proposal),
                attempt: prepared.attempt,
                routing_key: prepared.routing_key,
                is_whole: self.intents.has_all(&prepared.locks, self.hash_range),
                durability: prepared.durability,
                proposal: prepared.proposal,
                result: prepared.result.clone(),
                pinned: prepared.pinned.clone(),
                stage: HoldStage::Prepared(prepared.index),
                has_transform,
                onward: None,
                decided: None,
                // Its coordinator may have failed too.
                query_at: now.after_us(STATUS_QUERY_US),
                is_repeated: false,
            };
            self.prepared.insert(*id, Box::new(found));
        }
        for id in self.state.applied.keys() {
            self.cleanup_queries.push_back((now.after_us(CLEANUP_QUERY_US), *id));
        }
        for (id, decision) in &self.state.decisions {
            if self.hash_range.has(id.coordinator) {
                let notice = DecisionNotice::new(now, decision.participants.len());
                self.decision_notices.insert(*id, Box::new(notice));
            } else {
                self.of_siblings.push(*id);
            }
        }
        for id in self.state.staged.keys() {
            self.expire_at.insert(*id, now.after_us(STAGED_US_MAX));
        }
    }

    /// Remembers a coordinator's floor, until it is logged.
    pub(super) fn record_floor(&mut self, floor: DecisionFloor) {
        if let Some(known) = self.floors.get_mut(&floor.hash_range) {
            *known = floor.index.max(*known);
        } else if self.floors.len() < FLOORS_MAX {
            self.floors.insert(floor.hash_range, floor.index);
        }
    }

    /// Frees what the present attempt may hold elsewhere, and repeats the release until all have acknowledged it.
    pub(super) fn free_others(&mut self, now: Time, id: TransactionId, effects: &mut Vec<TransactionEffect>) {
        let Some(running) = self.running.get(&id) else { return };
        let Some((_, others)) = running.request.parts.split_last() else { return };
        if others.is_empty() {
            return;
        }
        let places: BTreeSet<RoutingKey> = others.iter().map(|part| part.routing_key).collect();
        let (attempt, resend_at) = (running.attempt, now.after_us(RESEND_US));
        self.send_released(id, attempt, &places, effects);
        // Without room the release is sent once, and a participant that misses it sends a query.
        if self.releasing.len() < RELEASING_MAX || self.releasing.contains_key(&id) {
            self.releasing.insert(id, ReleasedAttempt { attempt, routing_keys: places, resend_at });
        }
    }

    fn send_released(
        &self,
        id: TransactionId,
        attempt: Attempt,
        places: &BTreeSet<RoutingKey>,
        effects: &mut Vec<TransactionEffect>,
    ) {
        let floor = self.floor();
        effects.extend(
            places.iter().map(|place| {
                send(*place, id.coordinator, id, TransactionMessage::Release { attempt, floor })
            }),
        );
    }

    pub(super) fn resend_released(&self, id: TransactionId, effects: &mut Vec<TransactionEffect>) {
        if let Some(ReleasedAttempt { attempt, routing_keys: places, .. }) = self.releasing.get(&id) {
            self.send_released(id, *attempt, places, effects);
        }
    }

    pub(super) fn released(&mut self, from: RoutingKey, id: TransactionId, attempt: Attempt) {
        if let Some(releasing) = self.releasing.get_mut(&id).filter(|one| one.attempt <= attempt) {
            releasing.routing_keys.remove(&from);
            if releasing.routing_keys.is_empty() {
                self.releasing.remove(&id);
            }
        }
    }

    /// A participant queries the outcome of a transaction. No answer means: wait.
    pub(super) fn handle_status_query(
        &mut self,
        host: &impl PartitionHost,
        (from, id, attempt): (RoutingKey, TransactionId, Attempt),
        effects: &mut Vec<TransactionEffect>,
    ) {
        let floor = self.floor();
        if let Some(decision) = self.state.decisions.get(&id) {
            let known = decision.participants.iter().find(|one| one.hash_range.has(from));
            // A participant that is not in the decision was prepared by an older grouping, which has failed.
            let answer = known.map_or_else(
                || send(from, id.coordinator, id, TransactionMessage::Drop { floor }),
                |participant| self.send_commit(id, (from, participant.prepared)),
            );
            return effects.push(answer);
        }
        if let Some(running) = self.running.get(&id) {
            if attempt < running.attempt && !running.is_deciding {
                effects.push(send(from, id.coordinator, id, TransactionMessage::Release { attempt, floor }));
            }
            return;
        }
        if let Some(query) = self.unknown.get_mut(&id) {
            if query.routing_keys.len() < REQUESTERS_MAX {
                query.routing_keys.insert(from);
            }
            return;
        }
        if host.known(&id) == SessionKnowledge::Over || is_planted(Bug::UnknownAbortNotLogged) {
            return effects.push(send(from, id.coordinator, id, TransactionMessage::Drop { floor }));
        }
        // A participant that finds no room repeats its query.
        if self.unknown.len() >= UNKNOWN_MAX {
            return;
        }
        self.unknown.insert(id, StatusWaiters { routing_keys: [from].into(), ticket: None });
        let refusal = Refusal::from(Reason::Unknown);
        // The highest durability, since the durability of the transaction is not known.
        let durability = Durability::Sync;
        effects.push(TransactionEffect::Append {
            entry: TransactionEntry::Abort { id, by: id.coordinator, refusal },
            durability,
        });
    }
}
