//! The search of [`super::linear`] for calls on a model without versions: an order of all calls with known outcomes, each between
//! its begin and its end, in which the model gives the same answers. A call of unknown outcome may stand at any place after its
//! begin, once or not at all.

use std::collections::BTreeSet;
use std::hash::{Hash, Hasher};

use xxhash_rust::xxh3::Xxh3;
use zerohop_base::time::Time;

use crate::limits::SEARCH_POSITIONS_MAX;

/// A call, as the search uses it.
pub(super) trait OrderedCall {
    /// The state of the model.
    type State: Clone + Default + Hash;

    fn invoked(&self) -> Time;

    /// It took effect no later than that.
    fn until(&self) -> Time;

    /// Its outcome is known: it must be in the order, with this answer.
    fn is_required(&self) -> bool;

    /// The calls that come before it, by their places among all.
    fn behind(&self) -> &[usize];

    /// The state after the call, if its answer fits.
    fn after(&self, state: &Self::State) -> Option<Self::State>;
}

#[derive(Clone)]
struct CallPosition<S> {
    done: Vec<u64>,
    state: S,
    order: Vec<usize>,
    required: usize,
    /// Calls of unknown outcome since the last known one.
    row: usize,
}

/// The deepest position at which the search got stuck.
#[derive(Default)]
pub(super) struct StuckOrder<S> {
    pub(super) order: Vec<usize>,
    pub(super) state: S,
}

/// Searches an order of the calls, which are sorted by their begins. `Ok(false)`: the search was abandoned.
pub(super) fn search<C: OrderedCall>(items: &[C]) -> Result<bool, StuckOrder<C::State>> {
    let optional = items.iter().filter(|item| !item.is_required()).count();
    let mut budget = SEARCH_POSITIONS_MAX;
    for in_a_row in [0, 1, 2, 4, usize::MAX] {
        match search_with(items, in_a_row, &mut budget) {
            Err(_) if optional > in_a_row => {}
            other => return other,
        }
    }
    Ok(false)
}

fn search_with<C: OrderedCall>(
    items: &[C],
    in_a_row: usize,
    budget: &mut usize,
) -> Result<bool, StuckOrder<C::State>> {
    let required = items.iter().filter(|item| item.is_required()).count();
    let (mut visited, mut dead) = (BTreeSet::new(), StuckOrder::default());
    let done = vec![0; items.len().div_ceil(64)];
    let first = CallPosition { done, state: C::State::default(), order: Vec::new(), required: 0, row: 0 };
    let mut stack = vec![first];
    while let Some(place) = stack.pop() {
        if place.required == required {
            return Ok(true);
        }
        if *budget == 0 {
            return Ok(false);
        }
        *budget -= 1;
        if place.order.len() >= dead.order.len() {
            dead = StuckOrder { order: place.order.clone(), state: place.state.clone() };
        }
        for at in candidates(items, &place, in_a_row) {
            let item = &items[at];
            let Some(state) = item.after(&place.state) else { continue };
            let mut next = place.clone();
            next.done[at / 64] |= 1 << (at % 64);
            next.state = state;
            next.order.push(at);
            next.required += usize::from(item.is_required());
            next.row = if item.is_required() { 0 } else { next.row + 1 };
            let mut hash = Xxh3::new();
            (&next.done, &next.state).hash(&mut hash);
            hash.write_usize(if in_a_row == usize::MAX { 0 } else { next.row });
            if visited.insert(hash.digest128()) {
                stack.push(next);
            }
        }
    }
    Err(dead)
}

/// The calls that may come next, the likeliest last.
fn candidates<C: OrderedCall>(items: &[C], place: &CallPosition<C::State>, in_a_row: usize) -> Vec<usize> {
    let open = |at: usize| place.done[at / 64] >> (at % 64) & 1 == 0;
    let mut soonest = Time::NEVER;
    let mut next = Vec::new();
    for (at, item) in items.iter().enumerate() {
        if item.invoked() > soonest {
            break;
        }
        if !open(at) {
            continue;
        }
        if item.is_required() {
            soonest = soonest.min(item.until());
        }
        let is_free = item.behind().iter().all(|before| !open(*before));
        if is_free && (item.is_required() || place.row < in_a_row) {
            next.push(at);
        }
    }
    next.retain(|at| items[*at].invoked() <= soonest);
    next.sort_by_key(|at| (items[*at].is_required(), std::cmp::Reverse(items[*at].until())));
    next
}
