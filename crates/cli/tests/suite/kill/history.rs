//! The states of one record, write after write, and the states that are allowed after a kill.

use std::time::{Duration, Instant};

use crate::kill::NodeAvailability;

/// The acknowledged writes that must have survived a kill.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Rules {
    /// All.
    All,
    /// Writes acknowledged this long before the kill, plus [`NodeAvailability::late`].
    Before(Duration),
}

/// The states of a record, oldest first; the last is the state that its writer expects.
#[derive(Debug)]
pub(crate) struct RecordHistory<S> {
    states: Vec<RecordState<S>>,
}

#[derive(Debug)]
struct RecordState<S> {
    state: S,
    /// `None`: the outcome of the write is unknown.
    acknowledged: Option<Instant>,
}

impl<S: Clone + PartialEq + std::fmt::Debug> RecordHistory<S> {
    pub(crate) fn new(state: S) -> Self {
        RecordHistory { states: vec![RecordState { state, acknowledged: Some(Instant::now()) }] }
    }

    pub(crate) fn last(&self) -> &S {
        &self.states.last().unwrap().state
    }

    pub(crate) fn acknowledged(&mut self, state: S) {
        self.states.push(RecordState { state, acknowledged: Some(Instant::now()) });
    }

    /// Adds a write with an unknown outcome.
    pub(crate) fn add_unknown_write(&mut self, state: S) {
        self.states.push(RecordState { state, acknowledged: None });
    }

    /// Checks the state that was found after a kill, and continues from it.
    pub(crate) fn check_state(&mut self, key: &str, found: S, availability: &NodeAvailability, rules: Rules) {
        let must_be_there = |state: &RecordState<S>| match (state.acknowledged, rules) {
            (None, _) => false,
            (Some(_), Rules::All) => true,
            // An answer soon after the kill may have been in flight before it.
            (Some(at), Rules::Before(window)) => {
                at + window + availability.late <= availability.killed_at || at >= availability.up_at
            }
        };
        let oldest = self.states.iter().rposition(must_be_there).unwrap_or(0);
        let Some(at) = self.states[oldest..].iter().rposition(|state| state.state == found) else {
            let expected = &self.states[oldest];
            let before_kill =
                expected.acknowledged.map(|at| availability.killed_at.saturating_duration_since(at));
            let older = self.states.iter().rposition(|state| state.state == found);
            panic!(
                "key {key}, {rules:?}, {:?} late: found {found:?}, {}; {:?} must be there, acknowledged {before_kill:?} \
                 before the kill",
                availability.late,
                older.map_or("never written".to_owned(), |at| format!("{} writes older", oldest - at)),
                expected.state
            );
        };
        self.states.truncate(oldest + at + 1);
        // States older than the last synced one cannot return; later ones may, after the next kill.
        let is_synced = |state: &RecordState<S>| match (state.acknowledged, rules) {
            (None, _) => false,
            (Some(_), Rules::All) => true,
            (Some(at), Rules::Before(window)) => at + window + availability.late <= availability.killed_at,
        };
        let synced = self.states.iter().rposition(is_synced).unwrap_or(0);
        self.states.drain(..synced);
        // The state is confirmed now, if no answer had confirmed it before.
        let last = self.states.last_mut().unwrap();
        last.acknowledged.get_or_insert_with(Instant::now);
    }
}
