//! Time-outs, in the order in which they come.
//!
//! An ordered set rather than a wheel of slots: it is bounded by what is parked, exact to the millisecond, costs nothing
//! while nobody waits, and one insert among tens of thousands is still well below a microsecond.

use std::collections::BTreeSet;

/// Deadlines, each with the number of what is parked.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    set: BTreeSet<(u64, u32)>,
}

impl Timers {
    pub(crate) fn insert(&mut self, deadline_ms: u64, number: u32) {
        self.set.insert((deadline_ms, number));
    }

    pub(crate) fn remove(&mut self, deadline_ms: u64, number: u32) {
        self.set.remove(&(deadline_ms, number));
    }

    /// When the next one is due.
    pub(crate) fn first(&self) -> Option<u64> {
        self.set.first().map(|(deadline_ms, _)| *deadline_ms)
    }

    /// Takes one out that is due.
    pub(crate) fn pop_due(&mut self, now_ms: u64) -> Option<u32> {
        let &(deadline_ms, number) = self.set.first().filter(|(deadline_ms, _)| *deadline_ms <= now_ms)?;
        self.set.remove(&(deadline_ms, number));
        Some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_come_in_order_and_not_before_their_time() {
        let mut timers = Timers::default();
        for (deadline, number) in [(30, 1), (10, 2), (10, 3), (20, 4)] {
            timers.insert(deadline, number);
        }
        timers.remove(10, 3);
        assert_eq!(timers.first(), Some(10));
        assert_eq!(timers.pop_due(9), None);
        assert_eq!((timers.pop_due(25), timers.pop_due(25), timers.pop_due(25)), (Some(2), Some(4), None));
        assert_eq!(timers.pop_due(30), Some(1));
    }
}
