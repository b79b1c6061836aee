//! Linearizability of one record's history: whether its calls have an order, with each between its
//! submission and its end, in which the specification gives the same answers (Herlihy and Wing,
//! 1990).
//!
//! The search is that of Wing and Gong (1993) with Lowe's cache of visited positions (2017). A
//! position is the set of calls already ordered, and the resulting state. Calls of unknown outcome
//! may stand anywhere after their submission, or nowhere. They are tried only where the others lead
//! to no order, few in a row before many.
//!
//! A section may end with a loss: a crash of a node that had it in memory. Then some state of the
//! order must equal what was found after the restart, after all calls that had to survive. If the
//! state after the restart was not observed, the next section begins with that state.

use std::collections::BTreeSet;
use std::hash::Hash;

use xxhash_rust::xxh3::Xxh3;
use zerohop_base::time::Time;
use zerohop_session::Reply;
use zerohop_wire::ids::Timestamp;

use super::model::{ClientResult, ModelledRecord, is_consistent, steps};
use crate::history::{ClientCall, OperationEnd};
use crate::limits::SEARCH_POSITIONS_MAX;

/// A call, as the search uses it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CheckedCall<'h> {
    pub(crate) call: &'h ClientCall,
    /// It took effect no later than that, if at all.
    pub(crate) until: Time,
    /// Its outcome is known and must be in the order. Otherwise it may be in the order, with any
    /// outcome.
    pub(crate) required: bool,
    /// The end of the section must still show it.
    pub(crate) survives: bool,
}

/// One record's calls between two losses.
#[derive(Clone, Debug, Default)]
pub(crate) struct Section<'h> {
    /// In the order of their submission.
    pub(crate) items: Vec<CheckedCall<'h>>,
    pub(crate) end: SectionEnd,
}

/// What is known of a record at the end of a section.
#[derive(Clone, Debug, Default)]
pub(crate) enum SectionEnd {
    /// It is the end of the history.
    #[default]
    OfAll,
    /// The state of the record after the loss.
    Found(ModelledRecord),
    /// The loss left some state that the record had, after all calls that had to survive: the next
    /// section begins with it.
    Unknown,
    /// The same, but nothing had to survive, and nothing of what earlier losses had left: the state
    /// may be that at the start of any earlier section.
    Anything,
}

#[derive(Debug)]
pub(crate) enum SearchVerdict {
    Linearizable,
    /// No order exists; the longest that was found, and the calls that could not follow it.
    Not(DeadEnd),
    /// The search was abandoned without a result.
    GaveUp,
}

/// The deepest position at which the search got stuck.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeadEnd {
    /// The section.
    pub(crate) at: usize,
    pub(crate) order: Vec<usize>,
    pub(crate) state: ModelledRecord,
}

/// Searches an order of the calls of all sections in sequence, from this state on.
pub(crate) fn check(start: &ModelledRecord, sections: &[Section<'_>]) -> SearchVerdict {
    let mut verdict = SearchVerdict::GaveUp;
    let mut budget = SEARCH_POSITIONS_MAX;
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
    /// The highest number of calls of unknown outcome between two known ones.
    in_a_row: usize,
    /// Number of positions that may still be visited.
    budget: usize,
    visited: BTreeSet<u128>,
    dead: DeadEnd,
}

/// A section, with values that the search uses repeatedly.
struct CheckedSection<'s, 'h> {
    section: &'s Section<'h>,
    /// The version that each required write returned, by item.
    versions: Vec<Option<Timestamp>>,
    required: usize,
    survivors: usize,
}

/// A position of the search.
#[derive(Clone)]
struct SearchPosition {
    /// The section.
    at: usize,
    done: Vec<u64>,
    state: ModelledRecord,
    order: Vec<usize>,
    /// Number of required calls in the order, and of those among them that survive.
    required: usize,
    survivors: usize,
    /// The latest submission in the order.
    frontier: Time,
    /// Number of calls of unknown outcome since the last known one.
    row: usize,
    /// The state that the loss at the end of the section leaves, after all calls that had to
    /// survive.
    left: Option<ModelledRecord>,
    /// The states at the start of the earlier sections.
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
            // The last one pushed is tried first, so the likeliest comes last.
            for &at in &candidates {
                let item = &section.items[at];
                after.clear();
                steps(&place.state, &item.call.operation, item.call.clock_ms, result_of(item), &mut after);
                for state in after.drain(..) {
                    let next = step(item, &place, at, state);
                    self.push(next, &mut stack);
                }
            }
        }
        SearchVerdict::Not(std::mem::take(&mut self.dead))
    }

    /// Begins the next section with this state; after the last section the order is complete.
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

    /// Continues from a position, and from the same one with its state as what the loss leaves,
    /// where that is possible.
    fn push(&mut self, place: SearchPosition, stack: &mut Vec<SearchPosition>) {
        let Some(part) = self.parts.get(place.at) else { return stack.push(place) };
        let is_whole = place.required == part.required;
        let may_be_left = place.left.is_none() && place.survivors == part.survivors;
        let left = match &part.section.end {
            SectionEnd::Found(found) if may_be_left && is_consistent(&place.state, found) => {
                Some(found.clone())
            }
            SectionEnd::Unknown | SectionEnd::Anything if may_be_left => Some(place.state.clone()),
            _ => None,
        };
        let with = left.map(|left| SearchPosition { left: Some(left), ..place.clone() });
        // An observed state is certain; an unobserved one was probably the last.
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

/// The calls that may come next, the likeliest last.
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
        // In the order of submission: a call that was submitted after the earliest end comes after
        // that call.
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
    // Known outcomes before unknown ones; earlier ends first.
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

fn result_of<'i>(item: &CheckedCall<'i>) -> ClientResult<'i> {
    match &item.call.end {
        OperationEnd::Done(reply) if item.required => ClientResult::Done(reply),
        OperationEnd::Failed(failure) if item.required => ClientResult::Failed(failure),
        _ => ClientResult::Nothing,
    }
}

/// The version that a write returned.
pub(crate) fn write_version(item: &CheckedCall<'_>) -> Option<Timestamp> {
    if !item.required || !item.call.operation.is_write() {
        return None;
    }
    made_version(item.call)
}

/// The version that a call has made: none if it left the record unchanged, or removed it.
pub(crate) fn made_version(call: &ClientCall) -> Option<Timestamp> {
    use crate::workload::operation::RecordAction;
    let leaves = matches!(
        call.operation.act,
        RecordAction::Expire { .. }
            | RecordAction::SetBit { .. }
            | RecordAction::Transform(_)
            | RecordAction::Trim { .. }
    );
    let version = match &call.end {
        OperationEnd::Done(Reply::Done { version, .. } | Reply::Counter { version, .. }) => *version,
        _ => return None,
    };
    (call.operation.is_write() && !leaves && version != Timestamp::ZERO).then_some(version)
}
