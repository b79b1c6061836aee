//! Keyspaces that are gone while others have transactions with them.
//!
//! No partition of a gone keyspace answers any more. Transactions prepared for a coordinator there are released, since their
//! outcome will never be known. Decisions made here count as carried out there, where nothing is left to do.
//!
//! The map without the keyspace may be too old to have it yet, instead of too new. That is harmless: answers are routed by
//! the same map, so no primary that lacks the keyspace has sent `Prepared` to it. A primary that follows another has a newer
//! map than its predecessor had when it answered. One case remains: a process that restarts with an older map than it had,
//! which has [`KEYSPACE_GONE_US`] to receive the newest.

use std::collections::BTreeSet;

use zerohop_wire::ids::{KeyspaceId, LogIndex};

use super::{HoldStage, Transactions};
use crate::effect::TransactionEffect;
use crate::entry::TransactionEntry;
use crate::id::{DecisionFloor, Durability, KeyspaceRange, RoutingKey, TransactionId};
use crate::limits::KEYSPACE_GONE_US;
use crate::message::TransactionMessage;
use zerohop_base::time::Time;

impl Transactions {
    /// The other keyspaces that any transaction here waits for.
    #[must_use]
    pub fn others(&self) -> BTreeSet<KeyspaceId> {
        let coordinators = self.prepared.keys().chain(self.queued.keys()).chain(self.state.applied.keys());
        let decisions = self.state.decisions.values().flat_map(|decision| &decision.participants);
        let releasing = self.releasing.values().flat_map(|one| &one.routing_keys);
        let mut others: BTreeSet<KeyspaceId> = coordinators
            .map(|id| id.coordinator.keyspace)
            .chain(decisions.map(|one| one.routing_key.keyspace))
            .chain(releasing.map(|place| place.keyspace))
            .collect();
        others.remove(&self.hash_range.keyspace);
        others
    }

    /// The keyspaces of [`Self::others`] that the map does not have; to be called with every tick.
    pub fn without(&mut self, now: Time, missing: &[KeyspaceId], effects: &mut Vec<TransactionEffect>) {
        self.missing.retain(|one, _| missing.contains(one));
        let mut gone = Vec::new();
        for keyspace in missing {
            let since = self.missing.entry(*keyspace).or_insert(now);
            if since.after_us(KEYSPACE_GONE_US) <= now {
                // Again after the same time, in case a transaction has come in between.
                *since = now;
                gone.push(*keyspace);
            }
        }
        gone.into_iter().for_each(|keyspace| self.keyspace_gone(keyspace, effects));
        self.end_step();
    }

    fn keyspace_gone(&mut self, keyspace: KeyspaceId, effects: &mut Vec<TransactionEffect>) {
        for (id, prepared) in &mut self.prepared {
            let waits = matches!(prepared.stage, HoldStage::Prepared(_)) && prepared.decided.is_none();
            if id.coordinator.keyspace == keyspace && waits {
                prepared.stage = HoldStage::Ending;
                let entry = TransactionEntry::Release { id: *id, attempt: prepared.attempt };
                effects.push(TransactionEffect::Append { entry, durability: prepared.durability });
                effects.push(TransactionEffect::Loss { id: *id, routing_key: id.coordinator });
            }
        }
        let queued: Vec<(RoutingKey, TransactionId)> = self
            .queued
            .iter()
            .filter(|(id, queued)| {
                id.coordinator.keyspace == keyspace
                    && matches!(queued.message.what, TransactionMessage::Prepare { .. })
            })
            .map(|(id, queued)| (queued.message.to, *id))
            .collect();
        queued.into_iter().for_each(|(to, id)| self.drop_prepared(to, id, effects));
        if self.state.applied.keys().any(|id| id.coordinator.keyspace == keyspace) {
            let hash_range = KeyspaceRange { keyspace, first: 0, last: u64::MAX };
            let entry = TransactionEntry::DropBelow {
                floor: DecisionFloor { hash_range, index: LogIndex(u64::MAX) },
            };
            effects.push(TransactionEffect::Append { entry, durability: Durability::Memory });
        }
        let notices: Vec<(TransactionId, LogIndex, RoutingKey, KeyspaceRange)> = self
            .state
            .decisions
            .iter()
            .flat_map(|(id, decision)| {
                let there = decision.participants.iter().filter(|one| one.routing_key.keyspace == keyspace);
                there.map(|one| (*id, decision.index, one.routing_key, one.hash_range))
            })
            .collect();
        for (id, index, place, hash_range) in notices {
            self.acknowledged((place, hash_range), id, index, effects);
        }
        for releasing in self.releasing.values_mut() {
            releasing.routing_keys.retain(|place| place.keyspace != keyspace);
        }
        self.releasing.retain(|_, releasing| !releasing.routing_keys.is_empty());
    }
}
