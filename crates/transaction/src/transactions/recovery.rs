//! What is told, asked, answered and acknowledged until all that was decided, or came to nothing, is at its end.

use std::collections::BTreeSet;

use zerohop_wire::ids::LogIndex;

use super::{Asked, Held, Releasing, Stage, Telling, Transactions, send};
use crate::effect::Effect;
use crate::entry::Entry;
use crate::host::{Host, Known};
use crate::id::{Attempt, Durability, Floor, Place, TransactionId};
use crate::item::Access;
use crate::limits::{
    ASK_US, ASKERS_MAX, FLOORS_MAX, FORGET_ASK_US, RELEASING_MAX, RESEND_US, STAGED_US_MAX, UNKNOWN_MAX,
};
use crate::message::What;
use crate::planted::{Bug, is_planted};
use crate::reason::{Reason, Refusal};
use crate::time::Time;

impl Transactions {
    /// Takes up what the log of former primaries says.
    pub(super) fn resume(&mut self, now: Time) {
        for (id, prepared) in &self.state.prepared {
            let held = Held {
                holder: self.intents.take(prepared.locks.clone(), prepared.proposal),
                attempt: prepared.attempt,
                place: prepared.place,
                durability: prepared.durability,
                proposal: prepared.proposal,
                result: prepared.result.clone(),
                stage: Stage::Prepared(prepared.index),
                has_transform: prepared
                    .locks
                    .iter()
                    .any(|(_, access)| matches!(access, Access::Transform(_))),
                onward: None,
                decided: None,
                // Its decider may have had the same fate.
                ask_at: now.after_us(ASK_US),
                is_repeated: false,
            };
            self.held.insert(*id, held);
        }
        for id in self.state.applied.keys() {
            self.forget_at.insert(*id, now.after_us(FORGET_ASK_US));
        }
        for id in self.state.decisions.keys() {
            self.telling.insert(*id, Telling::new(now));
        }
        for id in self.state.staged.keys() {
            self.expire_at.insert(*id, now.after_us(STAGED_US_MAX));
        }
    }

    /// Remembers what a decider told about itself, until the next tick.
    pub(super) fn note_floor(&mut self, floor: Floor) {
        if let Some(known) = self.floors.iter_mut().find(|known| known.span == floor.span) {
            known.index = known.index.max(floor.index);
        } else if self.floors.len() < FLOORS_MAX {
            self.floors.push(floor);
        }
    }

    /// Frees what the present attempt may hold elsewhere, and goes on saying so until all have acknowledged.
    pub(super) fn free_others(&mut self, now: Time, id: TransactionId, effects: &mut Vec<Effect>) {
        let Some(running) = self.running.get(&id) else { return };
        let Some((_, others)) = running.request.parts.split_last() else { return };
        if others.is_empty() {
            return;
        }
        let places: BTreeSet<Place> = others.iter().map(|part| part.place).collect();
        let (attempt, resend_at) = (running.attempt, now.after_us(RESEND_US));
        self.say_released(id, attempt, &places, effects);
        // Without room it is said once, and whoever does not hear it asks.
        if self.releasing.len() < RELEASING_MAX || self.releasing.contains_key(&id) {
            self.releasing.insert(id, Releasing { attempt, places, resend_at });
        }
    }

    fn say_released(
        &self,
        id: TransactionId,
        attempt: Attempt,
        places: &BTreeSet<Place>,
        effects: &mut Vec<Effect>,
    ) {
        let floor = self.floor();
        effects.extend(
            places.iter().map(|place| send(*place, id.decider, id, What::Release { attempt, floor })),
        );
    }

    pub(super) fn say_released_again(&self, id: TransactionId, effects: &mut Vec<Effect>) {
        if let Some(Releasing { attempt, places, .. }) = self.releasing.get(&id) {
            self.say_released(id, *attempt, places, effects);
        }
    }

    pub(super) fn released(&mut self, from: Place, id: TransactionId, attempt: Attempt) {
        if let Some(releasing) = self.releasing.get_mut(&id).filter(|one| one.attempt <= attempt) {
            releasing.places.remove(&from);
            if releasing.places.is_empty() {
                self.releasing.remove(&id);
            }
        }
    }

    /// Tells a decision to all who have not acknowledged it.
    pub(super) fn tell(&self, id: TransactionId, effects: &mut Vec<Effect>) {
        let (Some(decision), Some(telling)) = (self.state.decisions.get(&id), self.telling.get(&id)) else {
            return;
        };
        for (place, prepared) in &decision.participants {
            if !telling.acknowledged.contains(place) {
                effects.push(self.say_commit(id, (*place, *prepared)));
            }
        }
    }

    fn say_commit(&self, id: TransactionId, (place, prepared): (Place, LogIndex)) -> Effect {
        let decision = &self.state.decisions[&id];
        let what = What::Commit {
            attempt: decision.attempt,
            prepared,
            timestamp: decision.timestamp,
            decision: decision.index,
            durability: decision.durability,
            floor: self.floor(),
        };
        send(place, id.decider, id, what)
    }

    pub(super) fn acknowledged(
        &mut self,
        from: Place,
        id: TransactionId,
        index: LogIndex,
        effects: &mut Vec<Effect>,
    ) {
        let decision = self.state.decisions.get(&id).filter(|decision| decision.index == index);
        let (Some(decision), Some(telling)) = (decision, self.telling.get_mut(&id)) else {
            // Finished long ago: it may forget.
            return effects.push(send(from, id.decider, id, What::Drop { floor: self.floor() }));
        };
        if !decision.participants.iter().any(|(place, _)| *place == from) {
            return;
        }
        telling.acknowledged.insert(from);
        if telling.acknowledged.len() == decision.participants.len() && !telling.is_finishing {
            telling.is_finishing = true;
            effects.push(Effect::Append { entry: Entry::Finish { id }, durability: Durability::Memory });
        }
    }

    /// What was decided is missing. It is not counted as done: the operator is told.
    pub(super) fn not_held(
        &mut self,
        from: Place,
        id: TransactionId,
        index: LogIndex,
        effects: &mut Vec<Effect>,
    ) {
        let decision = self.state.decisions.get(&id).filter(|decision| decision.index == index);
        let (Some(decision), Some(telling)) = (decision, self.telling.get_mut(&id)) else { return };
        let is_asked = decision.participants.iter().any(|(place, _)| *place == from);
        if is_asked && !telling.acknowledged.contains(&from) && telling.lost.insert(from) {
            effects.push(Effect::Loss { id, place: from });
        }
    }

    /// The operator accepts that what was decided is lost at this place: it counts as acknowledged there.
    pub fn accept_loss(&mut self, id: TransactionId, place: Place, effects: &mut Vec<Effect>) {
        if let Some(index) = self.state.decisions.get(&id).map(|decision| decision.index) {
            self.acknowledged(place, id, index, effects);
        }
    }

    /// A participant asks what has become of a transaction. Silence means: wait.
    pub(super) fn asked(
        &mut self,
        host: &impl Host,
        (from, id, attempt): (Place, TransactionId, Attempt),
        effects: &mut Vec<Effect>,
    ) {
        let floor = self.floor();
        if let Some(decision) = self.state.decisions.get(&id) {
            let known = decision.participants.iter().find(|(place, _)| *place == from);
            // Who is not in the decision was prepared by an older grouping, which has come to nothing.
            let answer = known.map_or_else(
                || send(from, id.decider, id, What::Drop { floor }),
                |participant| self.say_commit(id, *participant),
            );
            return effects.push(answer);
        }
        if let Some(running) = self.running.get(&id) {
            if attempt < running.attempt && !running.is_deciding {
                effects.push(send(from, id.decider, id, What::Release { attempt, floor }));
            }
            return;
        }
        if let Some(asked) = self.unknown.get_mut(&id) {
            if asked.places.len() < ASKERS_MAX {
                asked.places.insert(from);
            }
            return;
        }
        if host.known(&id) == Known::Over || is_planted(Bug::UnknownNotLogged) {
            return effects.push(send(from, id.decider, id, What::Drop { floor }));
        }
        // Whoever finds no room asks again.
        if self.unknown.len() >= UNKNOWN_MAX {
            return;
        }
        self.unknown.insert(id, Asked { places: [from].into(), ticket: None });
        let refusal = Refusal::from(Reason::Unknown);
        // As durable as anything may ask: what it is for is not known.
        let durability = Durability::Sync;
        effects.push(Effect::Append { entry: Entry::Abort { id, by: id.decider, refusal }, durability });
    }
}
