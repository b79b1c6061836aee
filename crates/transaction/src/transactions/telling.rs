//! Decisions, told to all whom they concern until all have acknowledged them.
//!
//! A participant is the slice that it had when it prepared. It may have been split since, once or more: then each who holds a
//! part of that slice has the `Prepare` in its log, and is told, and acknowledges for its own slice; a decision is finished
//! once the acknowledged slices cover the participants' slices. No map is asked: whoever holds the first hash that nobody has
//! acknowledged is told next.

use std::collections::{BTreeMap, BTreeSet};

use zerohop_wire::ids::LogIndex;

use super::{Transactions, send};
use crate::effect::Effect;
use crate::entry::{Entry, Participant};
use crate::id::{Durability, Place, Span, TransactionId};
use crate::limits::{LOSS_HEARD_MIN, LOSS_US};
use crate::message::What;
use crate::planted::{Bug, is_planted};
use crate::time::Time;

/// A decision being told.
#[derive(Debug)]
pub(super) struct Telling {
    acknowledged: Covered,
    /// Who has said that it does not hold what was decided.
    lost: BTreeMap<Place, Lost>,
    pub(super) resend_at: Time,
    pub(super) is_finishing: bool,
}

/// What somebody has said whom a decision was told.
#[derive(Clone, Copy, Debug)]
struct Lost {
    since: Time,
    /// How often.
    heard: u32,
}

impl Telling {
    pub(super) fn new(resend_at: Time) -> Telling {
        Telling { acknowledged: Covered::default(), lost: BTreeMap::new(), resend_at, is_finishing: false }
    }
}

/// Slices that have acknowledged: keyspace, first and last hash. Splits halve slices, so they are disjoint or nested.
#[derive(Debug, Default)]
struct Covered(BTreeSet<(u32, u64, u64)>);

impl Covered {
    fn add(&mut self, span: Span) {
        self.0.insert((span.keyspace.0, span.first, span.last));
    }

    /// The hash at or behind `from` that none of them has.
    fn end(&self, keyspace: u32, from: u64) -> Option<u64> {
        let mut at = from;
        for (_, first, last) in self.0.range((keyspace, 0, 0)..=(keyspace, u64::MAX, u64::MAX)) {
            if *first > at {
                break;
            }
            if *last >= at {
                at = last.checked_add(1)?;
            }
        }
        Some(at)
    }

    /// Who is to be told next of a participant: its own name first. `None`: all of it has acknowledged.
    fn open(&self, of: &Participant) -> Option<Place> {
        let keyspace = of.place.keyspace;
        if self.end(keyspace.0, of.place.point) == Some(of.place.point) {
            return Some(of.place);
        }
        if is_planted(Bug::SistersUntold) {
            return None;
        }
        let point = self.end(keyspace.0, of.span.first).filter(|point| of.span.has_cell(*point))?;
        Some(Place { keyspace, point })
    }
}

impl Transactions {
    /// Tells a decision to all who have not acknowledged it.
    pub(super) fn tell(&self, id: TransactionId, effects: &mut Vec<Effect>) {
        let (Some(decision), Some(telling)) = (self.state.decisions.get(&id), self.telling.get(&id)) else {
            return;
        };
        for participant in &decision.participants {
            if let Some(place) = telling.acknowledged.open(participant) {
                effects.push(self.say_commit(id, (place, participant.prepared)));
            }
        }
    }

    pub(super) fn say_commit(&self, id: TransactionId, (place, prepared): (Place, LogIndex)) -> Effect {
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

    /// The decision is carried out in this slice.
    pub(super) fn acknowledged(
        &mut self,
        (from, span): (Place, Span),
        id: TransactionId,
        index: LogIndex,
        effects: &mut Vec<Effect>,
    ) {
        let decision = self.state.decisions.get(&id).filter(|decision| decision.index == index);
        let (Some(decision), Some(telling)) = (decision, self.telling.get_mut(&id)) else {
            // Finished long ago: it may forget.
            return effects.push(send(from, id.decider, id, What::Drop { floor: self.floor() }));
        };
        telling.acknowledged.add(span);
        let own = decision.participants.iter().find(|one| span.has(one.place) || one.span.has(span.place()));
        let sister = own.and_then(|one| Some((telling.acknowledged.open(one)?, one.prepared)));
        let is_all = decision.participants.iter().all(|one| telling.acknowledged.open(one).is_none());
        if is_all && !telling.is_finishing {
            telling.is_finishing = true;
            effects.push(Effect::Append { entry: Entry::Finish { id }, durability: Durability::Memory });
        } else if let Some(sister) = sister {
            // It was split since it prepared: the next part of it has not heard yet.
            effects.push(self.say_commit(id, sister));
        }
    }

    /// What was decided is missing. The operator is told, and it is asked for for a while more: who has been deposed, and
    /// does not know, does not hold it either. Whoever goes on saying so speaks for the partition, which has lost it, with the
    /// power or by what an operator has accepted: it counts as done there, so that nothing is kept for ever.
    pub(super) fn not_held(
        &mut self,
        now: Time,
        (from, span): (Place, Span),
        id: TransactionId,
        index: LogIndex,
        effects: &mut Vec<Effect>,
    ) {
        let decision = self.state.decisions.get(&id).filter(|decision| decision.index == index);
        let (Some(decision), Some(telling)) = (decision, self.telling.get_mut(&id)) else { return };
        let is_asked = decision.participants.iter().any(|one| one.span.has(from));
        let is_open = telling.acknowledged.end(from.keyspace.0, from.point) == Some(from.point);
        if !is_asked || !is_open {
            return;
        }
        let lost = telling.lost.entry(from).or_insert(Lost { since: now, heard: 0 });
        lost.heard = lost.heard.saturating_add(1);
        if lost.heard == 1 {
            effects.push(Effect::Loss { id, place: from });
        } else if lost.since.after_us(LOSS_US) <= now && lost.heard >= LOSS_HEARD_MIN {
            self.acknowledged((from, span), id, index, effects);
        }
    }
}
