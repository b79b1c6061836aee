//! The search of [`super::linear`] for calls on a model without versions. It finds an order of all calls with known
//! outcomes, each between its begin and its end, in which the model gives the same answers. A call of unknown outcome
//! may stand at any place after its begin, once or not at all.

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hash, Hasher};

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

    /// It leaves every state as it is. Where such a call with a known outcome may come next and its answer fits, it can be
    /// taken at once: whatever else comes next may as well follow it.
    fn is_read(&self) -> bool;

    /// The state after the call, if its answer fits.
    fn after(&self, state: &Self::State) -> Option<Self::State>;
}

#[derive(Clone)]
struct CallPosition<S> {
    done: Vec<u64>,
    /// All calls before this one are done.
    first_open: usize,
    state: S,
    /// The last call of the order, as an index into [`Order`], and the number of calls.
    last: usize,
    length: usize,
    required: usize,
    /// Calls of unknown outcome since the last known one.
    row: usize,
}

/// The orders of all positions: each call with the index of the call before it.
struct Order(Vec<(usize, usize)>);

impl Order {
    /// The calls of an order, from its last one.
    fn calls(&self, last: usize) -> Vec<usize> {
        let mut calls = Vec::new();
        let mut at = last;
        while let Some((before, call)) = self.0.get(at) {
            calls.push(*call);
            at = *before;
        }
        calls.reverse();
        calls
    }
}

/// Positions are known by digests, which need no further hash.
#[derive(Default)]
struct DigestHasher(u64);

impl Hasher for DigestHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        let first = bytes.first_chunk::<8>().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        self.0 ^= first;
    }
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
    let mut visited: HashSet<u128, BuildHasherDefault<DigestHasher>> = HashSet::default();
    let (mut orders, mut dead) = (Order(Vec::new()), (usize::MAX, 0, C::State::default()));
    let first = CallPosition {
        done: vec![0; items.len().div_ceil(64)],
        first_open: 0,
        state: C::State::default(),
        last: usize::MAX,
        length: 0,
        required: 0,
        row: 0,
    };
    let mut stack = vec![first];
    while let Some(place) = stack.pop() {
        if place.required == required {
            return Ok(true);
        }
        if *budget == 0 {
            return Ok(false);
        }
        *budget -= 1;
        if place.length >= dead.1 {
            dead = (place.last, place.length, place.state.clone());
        }
        let next_calls = candidates(items, &place, in_a_row);
        let fits = |at: &usize| {
            items[*at].is_read() && items[*at].is_required() && items[*at].after(&place.state).is_some()
        };
        let read = next_calls.iter().copied().find(fits);
        for at in read.map_or(next_calls, |at| vec![at]) {
            let item = &items[at];
            let Some(state) = item.after(&place.state) else { continue };
            let mut next = CallPosition { state, ..position_after(&place, at) };
            next.required += usize::from(item.is_required());
            next.row = if item.is_required() { 0 } else { next.row + 1 };
            let mut hash = Xxh3::new();
            (&next.done, &next.state).hash(&mut hash);
            hash.write_usize(if in_a_row == usize::MAX { 0 } else { next.row });
            if visited.insert(hash.digest128()) {
                next.last = orders.0.len();
                orders.0.push((place.last, at));
                stack.push(next);
            }
        }
    }
    let (last, _, state) = dead;
    Err(StuckOrder { order: orders.calls(last), state })
}

/// The position after one more call, apart from what only the call knows. Its state is the default.
fn position_after<S: Default>(place: &CallPosition<S>, at: usize) -> CallPosition<S> {
    let mut done = place.done.clone();
    done[at / 64] |= 1 << (at % 64);
    let mut first_open = place.first_open;
    while done.get(first_open / 64).is_some_and(|word| word >> (first_open % 64) & 1 != 0) {
        first_open += 1;
    }
    CallPosition {
        done,
        first_open,
        state: S::default(),
        last: place.last,
        length: place.length + 1,
        required: place.required,
        row: place.row,
    }
}

/// The calls that may come next, the likeliest last.
fn candidates<C: OrderedCall>(items: &[C], place: &CallPosition<C::State>, in_a_row: usize) -> Vec<usize> {
    let open = |at: usize| place.done[at / 64] >> (at % 64) & 1 == 0;
    let mut soonest = Time::NEVER;
    let mut next = Vec::new();
    for (at, item) in items.iter().enumerate().skip(place.first_open) {
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
