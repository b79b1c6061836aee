//! Whether one record's history is linearizable: whether there is an order of its calls, each between its submission and
//! its end, in which the specification answers all of them as they were answered (Herlihy and Wing, 1990).
//!
//! The search is that of Wing and Gong (1993) with Lowe's memory of the places it has been to (2017): a place is the set
//! of calls already in the order and the state they lead to. Calls of unknown outcome may stand anywhere after their
//! submission, or nowhere; they are tried only where the others lead nowhere, few in a row before many.
//!
//! A section may end with a loss: a crash of a node that held it in memory. Then the order's state must at some point
//! have been what was found after the restart, with all that had to survive before it; or, where nobody looked, what the
//! next section begins with.

use std::collections::BTreeSet;
use std::hash::Hash;

use xxhash_rust::xxh3::Xxh3;
use zerohop_base::time::Time;
use zerohop_session::Reply;
use zerohop_wire::ids::Timestamp;

use super::model::{ClientResult, ModelledRecord, agree, steps};
use crate::history::{Call, OperationEnd};
use crate::limits::SEARCH_PLACES_MAX;

/// One call, as the search sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CheckedCall<'h> {
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
    pub(crate) items: Vec<CheckedCall<'h>>,
    pub(crate) end: SectionEnd,
}

/// What is known of a record at the end of a section.
#[derive(Clone, Debug, Default)]
pub(crate) enum SectionEnd {
    /// It is the end of the history.
    #[default]
    OfAll,
    /// After the loss it was found so.
    Found(ModelledRecord),
    /// The loss left some state that it had, with all before it that had to survive: the next section begins there.
    Unknown,
    /// The same, and nothing had to survive, nor what earlier losses had left: it may be what any section before began with.
    Anything,
}

#[derive(Debug)]
pub(crate) enum SearchVerdict {
    Linearizable,
    /// There is no order; the longest that was found, and what could not follow it.
    Not(DeadEnd),
    /// The search was given up: nothing is said.
    GaveUp,
}

/// Where the search got stuck, deepest in.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeadEnd {
    /// In which section.
    pub(crate) at: usize,
    pub(crate) order: Vec<usize>,
    pub(crate) state: ModelledRecord,
}

/// Looks for an order of the calls of all sections, one after the other, that begins with this state.
pub(crate) fn check(start: &ModelledRecord, sections: &[Section<'_>]) -> SearchVerdict {
    let mut verdict = SearchVerdict::GaveUp;
    let mut budget = SEARCH_PLACES_MAX;
    let optional = |section: &Section<'_>| section.items.iter().filter(|item| !item.required).count();
    let optional = sections.iter().map(optional).max().unwrap_or(0);
    for in_a_row in [0, 1, 2, 4, usize::MAX] {
        let mut search = Search::new(sections, in_a_row, budget);
        verdict = search.run(start);
        budget = search.budget;
        if !matches!(verdict, SearchVerdict::Not(_)) || optional <= in_a_row {
            return verdict;
        }
    }
    verdict
}

struct Search<'s, 'h> {
    parts: Vec<CheckedSection<'s, 'h>>,
    /// Unknown outcomes that may stand between two known ones.
    in_a_row: usize,
    /// Places that may still be visited.
    budget: usize,
    visited: BTreeSet<u128>,
    dead: DeadEnd,
}

/// A section, with what is asked of it again and again.
struct CheckedSection<'s, 'h> {
    section: &'s Section<'h>,
    /// Versions that required writes were told, by item.
    versions: Vec<Option<Timestamp>>,
    required: usize,
    survivors: usize,
}

/// A place of the search.
#[derive(Clone)]
struct SearchPosition {
    /// Which section.
    at: usize,
    done: Vec<u64>,
    state: ModelledRecord,
    order: Vec<usize>,
    /// Required calls in the order, and those among them that survive.
    required: usize,
    survivors: usize,
    /// The latest submission in the order.
    frontier: Time,
    /// Unknown outcomes since the last known one.
    row: usize,
    /// What the loss at the end of the section leaves: a state with all before it that had to survive.
    left: Option<ModelledRecord>,
    /// What the sections before began with.
    past: Vec<ModelledRecord>,
}

impl SearchPosition {
    fn first(at: usize, state: ModelledRecord, past: Vec<ModelledRecord>, items: usize) -> SearchPosition {
        SearchPosition {
            at,
            past,
            done: vec![0; items.div_ceil(64)],
            state,
            order: Vec::new(),
            required: 0,
            survivors: 0,
            frontier: Time(0),
            row: 0,
            left: None,
        }
    }
}

impl<'s, 'h> Search<'s, 'h> {
    fn new(sections: &'s [Section<'h>], in_a_row: usize, budget: usize) -> Self {
        let part = |section: &'s Section<'h>| CheckedSection {
            section,
            versions: section.items.iter().map(|item| write_version(item)).collect(),
            required: section.items.iter().filter(|item| item.required).count(),
            survivors: section.items.iter().filter(|item| item.required && item.survives).count(),
        };
        let parts = sections.iter().map(part).collect();
        Self { parts, in_a_row, budget, visited: BTreeSet::new(), dead: DeadEnd::default() }
    }

    fn run(&mut self, start: &ModelledRecord) -> SearchVerdict {
        let mut stack = Vec::new();
        self.begin(0, start.clone(), vec![start.clone()], &mut stack);
        let mut candidates = Vec::new();
        let mut after = Vec::new();
        while let Some(place) = stack.pop() {
            let Some(part) = self.parts.get(place.at) else { return SearchVerdict::Linearizable };
            let section = part.section;
            let is_last = matches!(section.end, SectionEnd::OfAll);
            if place.required == part.required && (is_last || place.left.is_some()) {
                match place.left {
                    Some(left) if !is_last => {
                        let mut past = place.past;
                        if !past.contains(&left) {
                            past.push(left.clone());
                        }
                        self.begin(place.at + 1, left, past, &mut stack);
                    }
                    _ => return SearchVerdict::Linearizable,
                }
                continue;
            }
            if self.budget == 0 {
                return SearchVerdict::GaveUp;
            }
            self.budget -= 1;
            if (place.at, place.order.len()) >= (self.dead.at, self.dead.order.len()) {
                let SearchPosition { at, order, state, .. } = &place;
                self.dead = DeadEnd { at: *at, order: order.clone(), state: state.clone() };
            }
            candidates_of(part, &place, self.in_a_row, &mut candidates);
            // The last pushed is tried first: the likeliest comes last.
            for &at in &candidates {
                let item = &section.items[at];
                after.clear();
                steps(&place.state, &item.call.operation, item.call.clock_ms, told(item), &mut after);
                for state in after.drain(..) {
                    let next = step(item, &place, at, state);
                    self.push(next, &mut stack);
                }
            }
        }
        SearchVerdict::Not(std::mem::take(&mut self.dead))
    }

    /// The next section begins with this state; past the last one all is found.
    fn begin(
        &mut self,
        at: usize,
        state: ModelledRecord,
        past: Vec<ModelledRecord>,
        stack: &mut Vec<SearchPosition>,
    ) {
        let part = self.parts.get(at);
        let items = part.map_or(0, |part| part.section.items.len());
        let loses_all = part.is_some_and(|part| matches!(part.section.end, SectionEnd::Anything));
        let first = SearchPosition::first(at, state, past, items);
        if loses_all {
            for left in &first.past {
                let place = SearchPosition { left: Some(left.clone()), ..first.clone() };
                if self.is_new(&place) {
                    stack.push(place);
                }
            }
        }
        self.push(first, stack);
    }

    /// Goes on from a place, and from the same with its state as what the loss leaves, where that can be.
    fn push(&mut self, place: SearchPosition, stack: &mut Vec<SearchPosition>) {
        let Some(part) = self.parts.get(place.at) else { return stack.push(place) };
        let is_whole = place.required == part.required;
        let may_be_left = place.left.is_none() && place.survivors == part.survivors;
        let left = match &part.section.end {
            SectionEnd::Found(found) if may_be_left && agree(&place.state, found) => Some(found.clone()),
            SectionEnd::Unknown | SectionEnd::Anything if may_be_left => Some(place.state.clone()),
            _ => None,
        };
        let with = left.map(|left| SearchPosition { left: Some(left), ..place.clone() });
        // What was found is what it was; what was not found was probably the last.
        let both = match (&part.section.end, with) {
            (SectionEnd::Found(_), Some(with)) => [None, Some(with)],
            (_, with) if is_whole => [Some(place), with],
            (_, with) => [with, Some(place)],
        };
        for place in both.into_iter().flatten() {
            if self.is_new(&place) {
                stack.push(place);
            }
        }
    }

    fn is_new(&mut self, place: &SearchPosition) -> bool {
        let mut hash = Xxh3::new();
        place.at.hash(&mut hash);
        place.done.hash(&mut hash);
        place.state.hash(&mut hash);
        place.left.hash(&mut hash);
        place.past.hash(&mut hash);
        if self.in_a_row != usize::MAX {
            place.row.hash(&mut hash);
        }
        self.visited.insert(hash.digest128())
    }
}

/// What may come next, the likeliest last.
fn candidates_of(
    part: &CheckedSection<'_, '_>,
    place: &SearchPosition,
    in_a_row: usize,
    into: &mut Vec<usize>,
) {
    into.clear();
    let items = &part.section.items;
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
            lowest = match (lowest, part.versions[at]) {
                (Some(one), Some(other)) => Some(one.min(other)),
                (one, other) => one.or(other),
            };
        }
    }
    for (at, item) in items.iter().enumerate() {
        if item.call.invoked > soonest {
            break;
        }
        let too_high = part.versions[at].is_some() && part.versions[at] > lowest;
        let too_late = item.until < place.frontier;
        let too_many = !item.required && place.row >= in_a_row;
        if open(at) && !too_high && !too_late && !too_many {
            into.push(at);
        }
    }
    // Known before unknown outcomes; what ended sooner first.
    into.sort_by_key(|at| (items[*at].required, std::cmp::Reverse(items[*at].until)));
}

fn step(item: &CheckedCall<'_>, place: &SearchPosition, at: usize, state: ModelledRecord) -> SearchPosition {
    let mut next = place.clone();
    next.done[at / 64] |= 1 << (at % 64);
    next.state = state;
    next.order.push(at);
    next.frontier = next.frontier.max(item.call.invoked);
    next.row = if item.required { 0 } else { next.row + 1 };
    next.required += usize::from(item.required);
    next.survivors += usize::from(item.required && item.survives);
    next
}

fn told<'i>(item: &CheckedCall<'i>) -> ClientResult<'i> {
    match &item.call.end {
        OperationEnd::Done(reply) if item.required => ClientResult::Done(reply),
        OperationEnd::Failed(failure) if item.required => ClientResult::Failed(failure),
        _ => ClientResult::Nothing,
    }
}

/// The version that a write was told to have made.
pub(crate) fn write_version(item: &CheckedCall<'_>) -> Option<Timestamp> {
    if !item.required || !item.call.operation.is_write() {
        return None;
    }
    made_version(item.call)
}

/// The version that a call says to have made: none if it left the record's as it was, or took the record away.
pub(crate) fn made_version(call: &Call) -> Option<Timestamp> {
    use crate::workload::operation::Act;
    let leaves = matches!(
        call.operation.act,
        Act::Expire { .. } | Act::SetBit { .. } | Act::Transform(_) | Act::Trim { .. }
    );
    let version = match &call.end {
        OperationEnd::Done(Reply::Done { version, .. } | Reply::Counter { version, .. }) => *version,
        _ => return None,
    };
    (call.operation.is_write() && !leaves && version != Timestamp::ZERO).then_some(version)
}
