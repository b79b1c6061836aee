//! The pending events. The simulated clock is the time of the next event.

use std::collections::BTreeMap;

use zerohop_base::random::Random;
use zerohop_base::time::Time;

use crate::limits::QUEUED_EVENTS_MAX;

/// Events by their time. The schedule's stream draws the order of events at the same time, as
/// nothing in a real system orders them either.
#[derive(Debug)]
pub(crate) struct EventQueue<E> {
    events: BTreeMap<(Time, u32, u64), E>,
    count: u64,
    schedule: Random,
    now: Time,
}

impl<E> EventQueue<E> {
    pub(crate) fn new(schedule: Random, now: Time) -> Self {
        Self { events: BTreeMap::new(), count: 0, schedule, now }
    }

    /// The simulated time: that of the last event.
    pub(crate) fn now(&self) -> Time {
        self.now
    }

    /// Schedules an event, at once if the time has passed.
    pub(crate) fn at(&mut self, time: Time, event: E) {
        self.count += 1;
        assert!(
            self.events.len() < QUEUED_EVENTS_MAX,
            "the run has run away: {} events wait",
            self.events.len()
        );
        let tie = self.schedule.next_u64() as u32;
        self.events.insert((time.max(self.now), tie, self.count), event);
    }

    /// Advances to the next event.
    pub(crate) fn next(&mut self) -> Option<E> {
        let ((time, _, _), event) = self.events.pop_first()?;
        self.now = time;
        Some(event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drained(seed: u64) -> Vec<(u64, u64)> {
        let mut event_queue = EventQueue::new(Random::new(seed), Time(10));
        for event in 0..50 {
            event_queue.at(Time(event % 5 * 10), event);
        }
        std::iter::from_fn(|| event_queue.next().map(|event| (event_queue.now().0, event))).collect()
    }

    #[test]
    fn events_are_ordered_by_time_and_ties_by_seed() {
        let order = drained(1);
        assert!(order.is_sorted_by_key(|(time, _)| *time) && order[0].0 == 10, "{order:?}");
        assert_eq!(order, drained(1));
        assert_ne!(order, drained(2));
    }
}
