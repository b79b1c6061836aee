//! Time-outs, in the order in which they are due.
//!
//! This is an ordered set rather than a timer wheel. It is bounded by the waiting requests, exact to the millisecond, and costs
//! nothing while no request waits. One insert among tens of thousands is still well below a microsecond.

use std::collections::BTreeSet;

/// Deadlines, each with the number of the waiting request.
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

    /// When the next deadline is due.
    pub(crate) fn first(&self) -> Option<u64> {
        self.set.first().map(|(deadline_ms, _)| *deadline_ms)
    }

    /// Removes and returns a request that is due.
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
    fn timers_fire_in_order_and_never_early() {
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
