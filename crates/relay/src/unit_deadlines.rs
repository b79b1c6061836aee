//! Time limits for the answers of units that run here: without one, an instance that is cut off
//! from its groups' members would keep clients waiting as long as that lasts.

use std::collections::VecDeque;
use std::time::Duration;

/// The ends of all waits. All waits last equally long, so the ends are in the order of the
/// beginnings.
#[derive(Debug)]
pub(super) struct UnitDeadlines {
    time_out_ms: u64,
    /// (end, number of the unit).
    ends: VecDeque<(u64, u64)>,
}

impl UnitDeadlines {
    pub(super) fn new(time_out: Duration) -> UnitDeadlines {
        UnitDeadlines {
            time_out_ms: u64::try_from(time_out.as_millis()).unwrap_or(u64::MAX),
            ends: VecDeque::new(),
        }
    }

    /// The time that each wait has.
    pub(super) fn time_out_ms(&self) -> u64 {
        self.time_out_ms
    }

    /// A wait begins.
    #[inline]
    pub(super) fn begin(&mut self, number: u64, now_ms: u64) {
        self.ends.push_back((now_ms.saturating_add(self.time_out_ms), number));
    }

    /// The next unit whose time is over. Answered units are skipped, whatever their time.
    pub(super) fn next_overdue(&mut self, now_ms: u64, waits: impl Fn(u64) -> bool) -> Option<u64> {
        while let Some(&(end_ms, number)) = self.ends.front() {
            let waits = waits(number);
            if waits && end_ms > now_ms {
                return None;
            }
            self.ends.pop_front();
            if waits {
                return Some(number);
            }
        }
        None
    }

    /// When the next wait may end.
    pub(super) fn next_ms(&self) -> Option<u64> {
        self.ends.front().map(|(end_ms, _)| *end_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overdue_units_expire_in_order_unless_answered() {
        let mut deadlines = UnitDeadlines::new(Duration::from_millis(700));
        assert_eq!((deadlines.next_overdue(0, |_| true), deadlines.next_ms()), (None, None));
        for (number, now_ms) in [(1, 10), (2, 10), (3, 20), (4, 800)] {
            deadlines.begin(number, now_ms);
        }
        assert_eq!((deadlines.next_overdue(709, |_| true), deadlines.next_ms()), (None, Some(710)));
        assert_eq!(deadlines.next_overdue(710, |number| number != 1), Some(2));
        assert_eq!((deadlines.next_overdue(719, |_| true), deadlines.next_ms()), (None, Some(720)));
        // An answered unit makes room before its time.
        assert_eq!(
            (deadlines.next_overdue(719, |number| number == 4), deadlines.next_ms()),
            (None, Some(1500))
        );
        assert_eq!((deadlines.next_overdue(1500, |_| true), deadlines.next_ms()), (Some(4), None));
    }
}
