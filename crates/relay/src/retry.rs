//! Units that were reported as not run, so that no unit that was sent after one runs before it.

use std::collections::{BTreeMap, BTreeSet};

use super::limits::SENT_BACK_MAX;

/// By their sender.
#[derive(Debug)]
pub(super) struct RetryTable<S> {
    by: BTreeMap<S, Numbers>,
}

#[derive(Debug, Default)]
struct Numbers {
    sent_back: BTreeSet<u64>,
    /// Numbers up to this one are forgotten.
    dropped_through: u64,
}

impl<S: Ord + Copy> RetryTable<S> {
    pub(super) fn new() -> RetryTable<S> {
        RetryTable { by: BTreeMap::new() }
    }

    /// Whether a unit must not run because the unit before it was not run, or may not have been.
    pub(super) fn follows_one(&self, of: S, behind: u64) -> bool {
        let is_rejected =
            |numbers: &Numbers| behind <= numbers.dropped_through || numbers.sent_back.contains(&behind);
        behind != 0 && self.by.get(&of).is_some_and(is_rejected)
    }

    /// A unit was not run.
    pub(super) fn add(&mut self, of: S, number: u64) {
        let numbers = self.by.entry(of).or_default();
        numbers.sent_back.insert(number);
        if numbers.sent_back.len() > SENT_BACK_MAX {
            numbers.dropped_through = numbers.sent_back.pop_first().unwrap_or(0);
        }
    }

    /// The sender is gone.
    pub(super) fn closed(&mut self, of: S) {
        self.by.remove(&of);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_behind_returned_or_evicted_unit_are_returned() {
        let mut retries = RetryTable::new();
        retries.add('a', 5);
        assert!(retries.follows_one('a', 5));
        assert!(!retries.follows_one('a', 4) && !retries.follows_one('a', 0) && !retries.follows_one('b', 5));
        for number in 6..=5 + SENT_BACK_MAX as u64 {
            retries.add('a', number);
        }
        assert!(retries.follows_one('a', 5) && retries.follows_one('a', 4) && retries.follows_one('a', 6));
        assert!(!retries.follows_one('a', 0));
        retries.closed('a');
        assert!(!retries.follows_one('a', 6));
    }
}
