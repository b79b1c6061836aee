//! Whether a loop that has nothing to do looks for more for a moment before it sleeps: that of an instance, and that of a client.
//!
//! Going to sleep and being woken takes longer than a short request's whole way there and back, on virtual machines several times. So
//! where the next thing to do mostly comes soon, a loop does not sleep at once; where it mostly comes late, it does. What counts is how
//! long the last waits were, whether the loop looked in them or slept: nothing has to be tried to be known, and who has nothing to do
//! never looks. It does not look either for a while after several have asked at once, as one wake-up for all of them is cheap, nor after
//! it was taken off its core while it looked: somebody else needs that, perhaps whom it waits for.

use std::time::Duration;

/// How long it looks: twice what sleeping and being woken takes, and as long as a batch of a hundred records does.
pub const WINDOW: Duration = Duration::from_micros(100);

/// A wait in which it slept is as much longer, for want of having been woken earlier.
const WOKEN_AFTER: Duration = Duration::from_micros(50);

/// What the worth of looking rises to.
const WORTH_MAX: u32 = 8;

/// From which worth on it looks. A short wait adds one, a long one takes two away: it looks while more than two of three waits are short,
/// and stops at the second long one.
const WORTH_ENOUGH: u32 = 6;

/// Waits without looking after several have asked at once.
const CROWDED_WAITS: u32 = 64;

/// Waits without looking after it was taken off its core: some ten milliseconds, if they are short.
const DISTURBED_WAITS: u32 = 256;

/// What the last waits were like.
#[derive(Clone, Copy, Debug, Default)]
pub struct BusyPoll {
    worth: u32,
    /// Waits yet to come without looking.
    pause: u32,
}

impl BusyPoll {
    /// For how long to look before sleeping, in a wait that lasts for `time_out` at most. Zero: not at all.
    #[must_use]
    pub fn window(self, time_out: Option<Duration>) -> Duration {
        match self.worth >= WORTH_ENOUGH && self.pause == 0 {
            true => time_out.map_or(WINDOW, |time_out| time_out.min(WINDOW)),
            false => Duration::ZERO,
        }
    }

    /// So many have asked for something at once, frames or calls: a batch is one.
    pub fn asked(&mut self, asked: usize) {
        if asked > 1 {
            self.pause = self.pause.max(CROWDED_WAITS);
        }
    }

    /// It has looked for so long.
    pub fn looked(&mut self, lasted: Duration) {
        if lasted > 2 * WINDOW {
            self.pause = DISTURBED_WAITS;
        }
    }

    /// A wait has ended, after so long, the last part of it asleep or not.
    pub fn waited(&mut self, lasted: Duration, slept: bool) {
        self.pause = self.pause.saturating_sub(1);
        let short = if slept { WINDOW + WOKEN_AFTER } else { WINDOW };
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
        let mut looking = BusyPoll::default();
        waits.into_iter().for_each(|(lasted, slept)| looking.waited(lasted, slept));
        looking
    }

    #[test]
    fn it_looks_once_what_comes_mostly_comes_soon() {
        assert_eq!(after([]).window(None), Duration::ZERO);
        assert_eq!(after([(LATE, true); 20]).window(None), Duration::ZERO);
        let soon = after([(SOON, true); 20]);
        assert_eq!(soon.window(None), WINDOW);
        assert_eq!(soon.window(Some(LATE)), WINDOW);
        assert_eq!(soon.window(Some(SOON)), SOON, "no longer than the wait");
        // Of what it slept through, a part was being woken.
        assert_eq!(after([(WINDOW + SOON, true); 20]).window(None), WINDOW);
        assert_eq!(after([(WINDOW + SOON, false); 20]).window(None), Duration::ZERO);
    }

    #[test]
    fn it_sleeps_at_once_when_a_busy_time_ends_and_where_as_much_comes_late_as_soon() {
        let mut looking = after([(SOON, false); 1000]);
        looking.waited(LATE, true);
        assert_eq!(looking.window(None), WINDOW, "one long wait is no end");
        looking.waited(LATE, true);
        assert_eq!(looking.window(None), Duration::ZERO);
        let mixed = (0..1000).map(|wait| (if wait % 2 == 0 { SOON } else { LATE }, true));
        assert_eq!(after(mixed).window(None), Duration::ZERO);
    }

    #[test]
    fn it_does_not_look_for_a_while_after_several_asked_at_once_or_others_needed_its_core() {
        let mut looking = after([(SOON, false); 20]);
        looking.asked(1);
        looking.looked(WINDOW);
        assert_eq!(looking.window(None), WINDOW);
        let pauses = |mut looking: BusyPoll| {
            (0..1000)
                .take_while(|_| {
                    looking.waited(SOON, true);
                    looking.window(None) == Duration::ZERO
                })
                .count() as u32
                + 1
        };
        looking.asked(2);
        assert_eq!(pauses(looking), CROWDED_WAITS);
        looking.looked(LATE);
        looking.asked(2);
        assert_eq!(pauses(looking), DISTURBED_WAITS);
    }
}
