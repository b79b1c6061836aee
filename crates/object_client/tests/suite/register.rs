//! Whether the calls on one object have an order that respects real time and explains every answer: the object is a register whose
//! writes have unique tokens. The search is that of Wing and Gong, with a cache of visited states.

use std::collections::{BTreeMap, BTreeSet};

use zerohop_objects::ObjectError;

/// States that a search may visit.
const VISITS_MAX: usize = 400_000;

/// A condition of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Requires {
    Nothing,
    Absence,
    /// The object has these contents.
    Contents(u64),
}

/// What a call does, and what it has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// The object gets a token.
    Write { token: u64, requires: Requires },
    /// The object is removed. The call may know whether there was one.
    Remove { existed: Option<bool> },
    /// It was found absent.
    FindNothing,
    /// It was found with this token.
    FindToken(u64),
    /// It was found with these contents.
    FindContents(u64),
    /// A write with this condition was refused.
    Refused(Requires),
}

/// A call, between two moments of the history.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) client: usize,
    pub(crate) begin: u64,
    /// Without an end it may have happened at any time since, or not at all.
    pub(crate) end: Option<u64>,
    pub(crate) action: Action,
}

/// The result of a search.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum OrderSearch {
    Linearizable,
    Undecided,
    Not,
}

/// The contents of each token. A copy whose outcome is unknown, and that no read has found, has none.
pub(crate) type TokenContents = BTreeMap<u64, u64>;

impl Requires {
    /// Whether the condition holds; nothing if that is not known.
    fn holds(self, state: Option<u64>, contents: &TokenContents) -> Option<bool> {
        match (self, state) {
            (Self::Nothing, _) => Some(true),
            (Self::Absence, state) => Some(state.is_none()),
            (Self::Contents(_), None) => Some(false),
            (Self::Contents(wanted), Some(token)) => contents.get(&token).map(|has| *has == wanted),
        }
    }

    /// The condition that a store has refused with this error.
    pub(crate) fn is_refusal(self, error: &ObjectError) -> bool {
        match error {
            ObjectError::PreconditionFailed => self != Self::Nothing,
            ObjectError::NoSuchObject => matches!(self, Self::Contents(_)),
            _ => false,
        }
    }
}

/// The state after an action, if the action is possible.
fn after(action: &Action, state: Option<u64>, contents: &TokenContents) -> Option<Option<u64>> {
    let (is_possible, next) = match action {
        Action::Write { token, requires } => (requires.holds(state, contents) != Some(false), Some(*token)),
        Action::Remove { existed } => (existed.is_none_or(|existed| existed == state.is_some()), None),
        Action::FindNothing => (state.is_none(), state),
        Action::FindToken(token) => (state == Some(*token), state),
        Action::FindContents(wanted) => {
            (state.is_some_and(|token| contents.get(&token).is_none_or(|has| has == wanted)), state)
        }
        Action::Refused(requires) => (requires.holds(state, contents) != Some(true), state),
    };
    is_possible.then_some(next)
}

/// Searches an order of the calls on an object that is absent at first.
pub(crate) fn check(calls: &[Call], contents: &TokenContents) -> OrderSearch {
    let mut visited: BTreeSet<(Vec<u64>, Option<u64>)> = BTreeSet::new();
    let mut stack = vec![(vec![0u64; calls.len().div_ceil(64)], None)];
    while let Some((done, state)) = stack.pop() {
        let is_done = |at: usize| done[at / 64] >> (at % 64) & 1 != 0;
        let left = || (0..calls.len()).filter(|at| !is_done(*at));
        let Some(first_end) = left().filter_map(|at| calls[at].end).min() else {
            return OrderSearch::Linearizable;
        };
        let mut next: Vec<usize> = left().filter(|at| calls[*at].begin < first_end).collect();
        // The last one is tried first: calls that have ended, by their end.
        next.sort_by_key(|at| std::cmp::Reverse(calls[*at].end.unwrap_or(u64::MAX)));
        for at in next {
            let Some(changed) = after(&calls[at].action, state, contents) else { continue };
            let mut done = done.clone();
            done[at / 64] |= 1 << (at % 64);
            if visited.len() >= VISITS_MAX {
                return OrderSearch::Undecided;
            }
            if visited.insert((done.clone(), changed)) {
                stack.push((done, changed));
            }
        }
    }
    OrderSearch::Not
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(begin: u64, end: u64, action: Action) -> Call {
        Call { client: 0, begin, end: (end > 0).then_some(end), action }
    }

    fn put(token: u64, requires: Requires) -> Action {
        Action::Write { token, requires }
    }

    #[test]
    fn good_histories_have_an_order() {
        let contents = TokenContents::from([(1, 10), (2, 20)]);
        let calls = [
            call(0, 9, put(1, Requires::Absence)),
            call(1, 8, Action::Refused(Requires::Absence)),
            call(2, 3, Action::FindToken(1)),
            call(10, 0, put(2, Requires::Contents(10))),
            call(11, 12, Action::FindToken(1)),
            call(13, 14, Action::FindContents(20)),
            call(15, 16, Action::Remove { existed: Some(true) }),
            call(17, 18, Action::FindNothing),
        ];
        assert_eq!(check(&calls, &contents), OrderSearch::Linearizable);
    }

    #[test]
    fn two_winners_stale_reads_and_lost_writes_have_none() {
        let contents = TokenContents::from([(1, 10), (2, 20)]);
        let winners = [call(0, 9, put(1, Requires::Absence)), call(1, 8, put(2, Requires::Absence))];
        let stale = [
            call(0, 1, put(1, Requires::Nothing)),
            call(2, 3, put(2, Requires::Nothing)),
            call(4, 5, Action::FindToken(1)),
        ];
        let lost = [call(0, 1, put(1, Requires::Nothing)), call(2, 3, Action::FindNothing)];
        for calls in [&winners[..], &stale, &lost] {
            assert_eq!(check(calls, &contents), OrderSearch::Not, "{calls:?}");
        }
    }
}
