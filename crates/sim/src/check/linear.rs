//! Whether one record's history is linearizable: whether there is an order of its calls, each between its submission and
//! its end, in which the specification answers all of them as they were answered (Herlihy and Wing, 1990).
//!
//! The search is that of Wing and Gong (1993) with Lowe's memory of the places it has been to (2017): a place is the set
//! of calls already in the order and the state they lead to. Calls of unknown outcome may stand anywhere after their
//! submission, or nowhere; they are tried only where the others lead nowhere, few in a row before many.
//!
//! A history may end with a loss: a crash of a node that held it in memory. Then the order's state must at some point
//! have been what was found after the restart, with all that had to survive before it.

use std::collections::BTreeSet;
use std::hash::Hash;

use xxhash_rust::xxh3::Xxh3;
use zerohop_session::{Reply, Time};
use zerohop_wire::ids::Timestamp;

use super::model::{State, Told, agree, steps};
use crate::history::{Call, End};
use crate::limits::SEARCH_PLACES_MAX;

/// One call, as the search sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Item<'h> {
    pub(crate) call: &'h Call,
    /// It took effect no later than that, if it did.
    pub(crate) until: Time,
    /// It stands in the order, and brought what it says; else it may stand there, and its outcome is not known.
    pub(crate) required: bool,
    /// What the end of the section must still show.
    pub(crate) survives: bool,
}

/// One record's calls between two losses.
#[derive(Clone, Debug, Default)]
pub(crate) struct Section<'h> {
    /// By submission.
    pub(crate) items: Vec<Item<'h>>,
    pub(crate) start: State,
    /// What was found after the loss at its end, if it ends with one.
    pub(crate) found: Option<State>,
}

#[derive(Debug)]
pub(crate) enum Verdict {
    Linearizable,
    /// There is no order; the longest that was found, and what could not follow it.
    Not(Dead),
    /// The search was given up: nothing is said.
    GaveUp,
}

/// Where the search got stuck, deepest in.
#[derive(Clone, Debug, Default)]
pub(crate) struct Dead {
    pub(crate) order: Vec<usize>,
    pub(crate) state: State,
}

/// Looks for an order.
pub(crate) fn check(section: &Section<'_>) -> Verdict {
    let mut verdict = Verdict::GaveUp;
    let mut budget = SEARCH_PLACES_MAX;
    for in_a_row in [0, 1, 2, 4, usize::MAX] {
        let mut search = Search::new(section, in_a_row, budget);
        verdict = search.run();
        budget = search.budget;
        let optional = section.items.iter().filter(|item| !item.required).count();
        if !matches!(verdict, Verdict::Not(_)) || optional <= in_a_row {
            return verdict;
        }
    }
    verdict
}

struct Search<'s, 'h> {
    section: &'s Section<'h>,
    /// Unknown outcomes that may stand between two known ones.
    in_a_row: usize,
    /// Places that may still be visited.
    budget: usize,
    visited: BTreeSet<u128>,
    /// Versions that required writes were told, by item.
    versions: Vec<Option<Timestamp>>,
    required: usize,
    survivors: usize,
    dead: Dead,
}

/// A place of the search.
#[derive(Clone)]
struct Place {
    done: Vec<u64>,
    state: State,
    order: Vec<usize>,
    /// Required calls in the order, and those among them that survive.
    required: usize,
    survivors: usize,
    /// The latest submission in the order.
    frontier: Time,
    /// Unknown outcomes since the last known one.
    row: usize,
    /// The state was what was found after the loss, with all before it that had to survive.
    found: bool,
}

impl<'s, 'h> Search<'s, 'h> {
    fn new(section: &'s Section<'h>, in_a_row: usize, budget: usize) -> Self {
        let items = &section.items;
        Self {
            section,
            in_a_row,
            budget,
            visited: BTreeSet::new(),
            versions: items.iter().map(|item| write_version(item)).collect(),
            required: items.iter().filter(|item| item.required).count(),
            survivors: items.iter().filter(|item| item.required && item.survives).count(),
            dead: Dead::default(),
        }
    }

    fn run(&mut self) -> Verdict {
        let mut first = Place {
            done: vec![0; self.section.items.len().div_ceil(64)],
            state: self.section.start.clone(),
            order: Vec::new(),
            required: 0,
            survivors: 0,
            frontier: Time(0),
            row: 0,
            found: self.section.found.is_none(),
        };
        self.look_for_found(&mut first);
        let mut stack = vec![first];
        let mut candidates = Vec::new();
        let mut after = Vec::new();
        while let Some(place) = stack.pop() {
            if place.required == self.required && place.found {
                return Verdict::Linearizable;
            }
            if self.budget == 0 {
                return Verdict::GaveUp;
            }
            self.budget -= 1;
            if place.order.len() >= self.dead.order.len() {
                self.dead = Dead { order: place.order.clone(), state: place.state.clone() };
            }
            self.candidates(&place, &mut candidates);
            // The last pushed is tried first: the likeliest comes last.
            for &at in &candidates {
                let item = &self.section.items[at];
                after.clear();
                steps(&place.state, &item.call.operation, item.call.clock_ms, told(item), &mut after);
                for state in after.drain(..) {
                    let next = self.step(&place, at, state);
                    if self.is_new(&next) {
                        stack.push(next);
                    }
                }
            }
        }
        Verdict::Not(std::mem::take(&mut self.dead))
    }

    /// What may come next, the likeliest last.
    fn candidates(&self, place: &Place, into: &mut Vec<usize>) {
        into.clear();
        let items = &self.section.items;
        let open = |at: usize| place.done[at / 64] >> (at % 64) & 1 == 0;
        let mut soonest = Time::NEVER;
        let mut lowest: Option<Timestamp> = None;
        for (at, item) in items.iter().enumerate() {
            // By submission: whatever was submitted after the soonest end comes after that.
            if item.call.invoked > soonest {
                break;
            }
            if item.required && open(at) {
                soonest = soonest.min(item.until);
                // Versions rise from write to write.
                lowest = match (lowest, self.versions[at]) {
                    (Some(one), Some(other)) => Some(one.min(other)),
                    (one, other) => one.or(other),
                };
            }
        }
        for (at, item) in items.iter().enumerate() {
            if item.call.invoked > soonest {
                break;
            }
            let too_high = self.versions[at].is_some() && self.versions[at] > lowest;
            let too_late = item.until < place.frontier;
            let too_many = !item.required && place.row >= self.in_a_row;
            if open(at) && !too_high && !too_late && !too_many {
                into.push(at);
            }
        }
        // Known before unknown outcomes; what ended sooner first.
        into.sort_by_key(|at| (items[*at].required, std::cmp::Reverse(items[*at].until)));
    }

    fn step(&self, place: &Place, at: usize, state: State) -> Place {
        let item = &self.section.items[at];
        let mut next = place.clone();
        next.done[at / 64] |= 1 << (at % 64);
        next.state = state;
        next.order.push(at);
        next.frontier = next.frontier.max(item.call.invoked);
        next.row = if item.required { 0 } else { next.row + 1 };
        next.required += usize::from(item.required);
        next.survivors += usize::from(item.required && item.survives);
        self.look_for_found(&mut next);
        next
    }

    /// Notes whether the state is what was found after the loss. All that had to survive stands before it.
    fn look_for_found(&self, place: &mut Place) {
        if let Some(found) = &self.section.found {
            place.found |= place.survivors == self.survivors && agree(&place.state, found);
        }
    }

    fn is_new(&mut self, place: &Place) -> bool {
        let mut hash = Xxh3::new();
        place.done.hash(&mut hash);
        place.state.hash(&mut hash);
        place.found.hash(&mut hash);
        if self.in_a_row != usize::MAX {
            place.row.hash(&mut hash);
        }
        self.visited.insert(hash.digest128())
    }
}

fn told<'i>(item: &Item<'i>) -> Told<'i> {
    match &item.call.end {
        End::Done(reply) if item.required => Told::Done(reply),
        End::Failed(failure) if item.required => Told::Failed(failure),
        _ => Told::Nothing,
    }
}

/// The version that a write was told to have made.
pub(crate) fn write_version(item: &Item<'_>) -> Option<Timestamp> {
    if !item.required || !item.call.operation.is_write() {
        return None;
    }
    made_version(item.call)
}

/// The version that a call says to have made: none if it left the record's as it was, or took the record away.
pub(crate) fn made_version(call: &Call) -> Option<Timestamp> {
    use crate::workload::operation::Act;
    let leaves = matches!(call.operation.act, Act::Expire { .. } | Act::SetBit { .. } | Act::Trim { .. });
    let version = match &call.end {
        End::Done(Reply::Done { version, .. } | Reply::Counter { version, .. }) => *version,
        _ => return None,
    };
    (call.operation.is_write() && !leaves && version != Timestamp::ZERO).then_some(version)
}
