//! Decides whether an idle loop busy-polls for a moment before it sleeps: an instance's, or a
//! client's.
//!
//! Sleep and wake-up take longer than the whole round trip of a short request, on virtual machines
//! several times as long. So a loop polls if the next event mostly comes soon, and sleeps at once
//! if it mostly comes late. Only the lengths of the last waits count, whether the loop polled or
//! slept: no trial is needed, and an idle loop never polls.
//!
//! The loop also does not poll for a while after several requests came at once, because one wake-up
//! for all of them is cheap. The same holds after it was descheduled while polling: another thread
//! needs the core, perhaps the thread that it waits for.

use std::time::Duration;

/// The polling time: twice the cost of sleep and wake-up, and the time of a batch of a hundred
/// records.
pub const WINDOW: Duration = Duration::from_micros(100);

/// The extra length of a wait with sleep, because the wake-up is late.
const WAKE_UP_DELAY: Duration = Duration::from_micros(50);

/// The highest score.
const WORTH_MAX: u32 = 8;

/// The score from which on it polls. A short wait adds one, a long one subtracts two. So it polls
/// while more than two of three waits are short, and stops at the second long one.
const WORTH_ENOUGH: u32 = 6;

/// Waits without polling after several requests at once.
const CROWDED_WAITS: u32 = 64;

/// Waits without polling after it was descheduled: some ten milliseconds, if they are short.
const DISTURBED_WAITS: u32 = 256;

/// The history of the last waits.
#[derive(Clone, Copy, Debug, Default)]
pub struct BusyPoll {
    worth: u32,
    /// Coming waits without polling.
    pause: u32,
}

impl BusyPoll {
    /// How long to poll before sleep, in a wait of at most `time_out`. Zero: not at all.
    #[must_use]
    pub fn window(self, time_out: Option<Duration>) -> Duration {
        match self.worth >= WORTH_ENOUGH && self.pause == 0 {
            true => time_out.map_or(WINDOW, |time_out| time_out.min(WINDOW)),
            false => Duration::ZERO,
        }
    }

    /// Records `arrivals` requests that came at once, frames or calls; a batch counts as one.
    pub fn record_arrivals(&mut self, arrivals: usize) {
        if arrivals > 1 {
            self.pause = self.pause.max(CROWDED_WAITS);
        }
    }

    /// It has polled for so long.
    pub fn record_polled(&mut self, lasted: Duration) {
        if lasted > 2 * WINDOW {
            self.pause = DISTURBED_WAITS;
        }
    }

    /// A wait has ended after so long; `slept` says whether its last part was sleep.
    pub fn waited(&mut self, lasted: Duration, slept: bool) {
        self.pause = self.pause.saturating_sub(1);
        let short = if slept { WINDOW + WAKE_UP_DELAY } else { WINDOW };
        self.worth = match lasted <= short {
            true => (self.worth + 1).min(WORTH_MAX),
            false => self.worth.saturating_sub(2),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_micros(30);
    const LATE: Duration = Duration::from_millis(1);

    fn after(waits: impl IntoIterator<Item = (Duration, bool)>) -> BusyPoll {
        let mut busy_poll = BusyPoll::default();
        waits.into_iter().for_each(|(lasted, slept)| busy_poll.waited(lasted, slept));
        busy_poll
    }

    #[test]
    fn busy_poll_starts_once_most_requests_arrive_soon() {
        assert_eq!(after([]).window(None), Duration::ZERO);
        assert_eq!(after([(LATE, true); 20]).window(None), Duration::ZERO);
        let soon = after([(SOON, true); 20]);
        assert_eq!(soon.window(None), WINDOW);
        assert_eq!(soon.window(Some(LATE)), WINDOW);
        assert_eq!(soon.window(Some(SOON)), SOON, "no longer than the wait");
        // Part of a wait with sleep was the wake-up.
        assert_eq!(after([(WINDOW + SOON, true); 20]).window(None), WINDOW);
        assert_eq!(after([(WINDOW + SOON, false); 20]).window(None), Duration::ZERO);
    }

    #[test]
    fn busy_poll_stops_after_busy_period_and_with_mixed_arrivals() {
        let mut busy_poll = after([(SOON, false); 1000]);
        busy_poll.waited(LATE, true);
        assert_eq!(busy_poll.window(None), WINDOW, "one long wait is no end");
        busy_poll.waited(LATE, true);
        assert_eq!(busy_poll.window(None), Duration::ZERO);
        let mixed = (0..1000).map(|wait| (if wait % 2 == 0 { SOON } else { LATE }, true));
        assert_eq!(after(mixed).window(None), Duration::ZERO);
    }

    #[test]
    fn busy_poll_pauses_after_concurrent_requests_or_core_contention() {
        let mut busy_poll = after([(SOON, false); 20]);
        busy_poll.record_arrivals(1);
        busy_poll.record_polled(WINDOW);
        assert_eq!(busy_poll.window(None), WINDOW);
        let pauses = |mut busy_poll: BusyPoll| {
            (0..1000)
                .take_while(|_| {
                    busy_poll.waited(SOON, true);
                    busy_poll.window(None) == Duration::ZERO
                })
                .count() as u32
                + 1
        };
        busy_poll.record_arrivals(2);
        assert_eq!(pauses(busy_poll), CROWDED_WAITS);
        busy_poll.record_polled(LATE);
        busy_poll.record_arrivals(2);
        assert_eq!(pauses(busy_poll), DISTURBED_WAITS);
    }
}
