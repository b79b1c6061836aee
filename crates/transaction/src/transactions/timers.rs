//! Timers: actions that are due if no message arrives.

use std::collections::BTreeMap;

use zerohop_wire::ids::LogIndex;

use super::{HoldStage, Transactions, send};
use crate::effect::TransactionEffect;
use crate::entry::{Participant, TransactionEntry};
use crate::host::PartitionHost;
use crate::id::{DecisionFloor, Durability, KeyspaceRange, RoutingKey, TransactionId};
use crate::item::TransactionPart;
use crate::limits::{CLEANUP_QUERY_US, FLOORS_US, RESEND_US, STATUS_QUERY_US};
use crate::message::TransactionMessage;
use crate::reason::Reason;
use zerohop_base::time::Time;

impl Transactions {
    /// Time has passed. Overdue messages are sent again, queries are sent, transactions that take too long are aborted, and
    /// finished ones are forgotten. Iterates over all work in progress: to be called some times a second.
    pub fn tick(&mut self, now: Time, host: &mut impl PartitionHost, effects: &mut Vec<TransactionEffect>) {
        self.tick_participant(now, effects);
        self.tick_coordinator(now, effects);
        self.tick_staged(now, effects);
        self.pump(now, host, effects);
        self.end_step();
    }

    /// Another primary serves a range. Messages to the one before it may be lost: those that are not answered are sent again.
    pub fn primary_moved(&mut self, now: Time, range: KeyspaceRange, effects: &mut Vec<TransactionEffect>) {
        let resend_at = now.after_us(RESEND_US);
        let mut prepares = Vec::new();
        for (id, running) in &mut self.running {
            let is_open = |part: &TransactionPart| {
                range.has(part.routing_key) && !running.answers.contains_key(&part.routing_key)
            };
            if running.others().iter().any(is_open) {
                running.resend_at = resend_at;
                prepares.push(*id);
            }
        }
        prepares.into_iter().for_each(|id| self.send_prepares(id, effects));
        let mut decisions = Vec::new();
        for (id, notice) in &mut self.decision_notices {
            let is_of_range = |one: &Participant| one.hash_range.meets(range);
            let decision =
                self.state.decisions.get(id).filter(|one| one.participants.iter().any(is_of_range));
            if decision.is_some() && !notice.is_finishing {
                notice.resend_at = resend_at;
                decisions.push(*id);
            }
        }
        decisions.into_iter().for_each(|id| self.send_decision(id, effects));
        let mut releases = Vec::new();
        for (id, releasing) in &mut self.releasing {
            if releasing.routing_keys.iter().any(|place| range.has(*place)) {
                releasing.resend_at = resend_at;
                releases.push(*id);
            }
        }
        releases.into_iter().for_each(|id| self.resend_released(id, effects));
        self.end_step();
    }

    fn tick_participant(&mut self, now: Time, effects: &mut Vec<TransactionEffect>) {
        for (id, prepared) in &mut self.prepared {
            let waits = matches!(prepared.stage, HoldStage::Prepared(_)) && prepared.decided.is_none();
            if waits && prepared.query_at <= now {
                prepared.query_at = now.after_us(STATUS_QUERY_US);
                let what = TransactionMessage::Query { attempt: prepared.attempt };
                let from = if self.hash_range.has(prepared.routing_key) {
                    prepared.routing_key
                } else {
                    self.hash_range.default_routing_key()
                };
                effects.push(send(id.coordinator, from, *id, what));
            }
        }
        // Queued transactions send queries too: otherwise a series of them that their coordinators have forgotten would take
        // its turns one by one.
        for (id, queued) in &mut self.queued {
            if queued.query_at <= now
                && let TransactionMessage::Prepare { attempt, .. } = &queued.message.what
            {
                queued.query_at = now.after_us(STATUS_QUERY_US);
                effects.push(send(
                    id.coordinator,
                    queued.message.to,
                    *id,
                    TransactionMessage::Query { attempt: *attempt },
                ));
            }
        }
        if self.floors_at <= now {
            self.floors_at = now.after_us(FLOORS_US);
            self.log_floors(effects);
        }
        self.query_cleanup(now, effects);
    }

    /// Logs the floors of coordinators as one entry for all of them: there are as many coordinators as partitions.
    fn log_floors(&mut self, effects: &mut Vec<TransactionEffect>) {
        let floors = std::mem::take(&mut self.floors).into_iter();
        let floors: Vec<DecisionFloor> = floors
            .map(|(hash_range, index)| DecisionFloor { hash_range, index })
            .filter(|floor| self.state.is_below(*floor))
            .collect();
        if !floors.is_empty() {
            let entry = TransactionEntry::DropBelowAll { floors };
            effects.push(TransactionEffect::Append { entry, durability: Durability::Memory });
        }
    }

    /// Queries coordinators about transactions that were applied long ago, each about the newest: the answer covers all
    /// earlier ones.
    fn query_cleanup(&mut self, now: Time, effects: &mut Vec<TransactionEffect>) {
        let mut newest: BTreeMap<RoutingKey, (LogIndex, TransactionId)> = BTreeMap::new();
        while let Some((_, id)) = self.cleanup_queries.front().copied().filter(|(at, _)| *at <= now) {
            self.cleanup_queries.pop_front();
            let Some((decision, _)) = self.state.applied.get(&id) else { continue };
            self.cleanup_queries.push_back((now.after_us(CLEANUP_QUERY_US), id));
            let known = newest.entry(id.coordinator).or_default();
            *known = (*decision, id).max(*known);
        }
        let (from, hash_range) = (self.hash_range.default_routing_key(), self.hash_range);
        for (coordinator, (decision, id)) in newest {
            effects.push(send(coordinator, from, id, TransactionMessage::Applied { decision, hash_range }));
        }
    }

    fn tick_coordinator(&mut self, now: Time, effects: &mut Vec<TransactionEffect>) {
        for id in std::mem::take(&mut self.of_siblings) {
            // The sibling, not this partition, gets the queries about its outcome.
            effects.push(TransactionEffect::Append {
                entry: TransactionEntry::Finish { id },
                durability: Durability::Memory,
            });
        }
        let late: Vec<TransactionId> =
            self.running.iter().filter(|(_, one)| one.ends_at <= now).map(|(id, _)| *id).collect();
        for id in late {
            self.abort(id, (id.coordinator, Reason::TimedOut.into()), effects);
        }
        let mut query = Vec::new();
        for (id, running) in &mut self.running {
            if running.resend_at <= now {
                running.resend_at = now.after_us(RESEND_US);
                query.push(*id);
            }
        }
        query.into_iter().for_each(|id| self.send_prepares(id, effects));
        let mut tell = Vec::new();
        for (id, notice) in &mut self.decision_notices {
            if notice.resend_at <= now && !notice.is_finishing {
                notice.resend_at = now.after_us(RESEND_US);
                tell.push(*id);
            }
        }
        tell.into_iter().for_each(|id| self.send_decision(id, effects));
        let mut release = Vec::new();
        for (id, releasing) in &mut self.releasing {
            if releasing.resend_at <= now {
                releasing.resend_at = now.after_us(RESEND_US);
                release.push(*id);
            }
        }
        release.into_iter().for_each(|id| self.resend_released(id, effects));
    }
}
