//! The partition's hybrid logical clock (Kulkarni and others, 2014).

use zerohop_wire::Failure;
use zerohop_wire::ids::Timestamp;
use zerohop_wire::limits::CLOCK_AHEAD_MS_MAX;

use crate::event::ClockSample;
use crate::planted::{Bug, is_planted};

/// Assigns every entry a timestamp above all earlier ones, above all that sessions have seen, and not below the wall clock.
///
/// A group of several members also stays below a timestamp bound that its members have synced ahead. A promoted replica therefore
/// starts above every timestamp assigned. Admission control ensures this ([`Clock::is_below`]).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Clock {
    last: Timestamp,
    now_ms: u64,
    elapsed_ms: u64,
    /// Where the clock had to start, perhaps ahead of the wall clock.
    begun_ms: u64,
}

/// Room that is left below a bound before a request is admitted. One request may take thousands of timestamps, and a millisecond
/// has 65,536.
const BELOW_BOUND_MS: u64 = 2;

impl Clock {
    /// Advances the clock. It never runs backwards.
    pub(crate) fn advance(&mut self, now: ClockSample) {
        self.now_ms = self.now_ms.max(now.ms.min(Timestamp::MILLIS_MAX));
        self.elapsed_ms = self.elapsed_ms.max(now.elapsed_ms);
    }

    /// Milliseconds since some start, on the monotonic clock.
    pub(crate) fn elapsed_ms(&self) -> u64 {
        self.elapsed_ms
    }

    pub(crate) fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// Refuses a timestamp that is too far ahead. Following it would move every later version ahead too.
    pub(crate) fn check(&self, seen: Timestamp) -> Result<(), Failure<'static>> {
        let ahead_ms = seen.millis().saturating_sub(self.present_ms());
        if ahead_ms > CLOCK_AHEAD_MS_MAX {
            return Err(Failure::ClockAhead { ahead_ms });
        }
        Ok(())
    }

    /// The clock never falls behind what a session has seen, or what is in the log.
    pub(crate) fn witness(&mut self, seen: Timestamp) {
        let is_tie = seen.millis() == self.last.millis();
        if !(is_tie && is_planted(Bug::SeenTieIgnored)) {
            self.last = self.last.max(seen);
        }
    }

    /// Starts above a bound that others may have come close to.
    pub(crate) fn begin_above(&mut self, timestamp_bound: Timestamp) {
        self.witness(timestamp_bound);
        self.begun_ms = self.begun_ms.max(timestamp_bound.millis());
    }

    /// The time relative to which a timestamp counts as too far ahead, in milliseconds since 1970.
    pub(crate) fn present_ms(&self) -> u64 {
        self.now_ms.max(self.begun_ms)
    }

    /// Whether the timestamps of one more request, which has seen `seen`, stay below a bound.
    pub(crate) fn is_below(&self, seen: Timestamp, timestamp_bound: Timestamp) -> bool {
        self.last.max(seen).millis().max(self.now_ms) + BELOW_BOUND_MS < timestamp_bound.millis()
    }

    /// The newest timestamp assigned or seen.
    pub(crate) fn newest(&self) -> Timestamp {
        self.last
    }

    /// The timestamp of the next entry.
    pub(crate) fn next(&mut self) -> Timestamp {
        let above = if is_planted(Bug::TimestampsTie) { self.last } else { self.last.next() };
        self.last = above.max(Timestamp::from_millis(self.now_ms));
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The second timestamp is of the same millisecond as the first, though the clock goes back.
    fn first_two() -> [Timestamp; 2] {
        let mut clock = Clock::default();
        clock.advance(ClockSample::at_ms(1_000));
        let first = clock.next();
        clock.advance(ClockSample::at_ms(900));
        [first, clock.next()]
    }

    /// The timestamp after one that was seen. Both are of the same millisecond as one assigned before.
    fn after_seen_tie() -> Timestamp {
        let mut clock = Clock::default();
        clock.advance(ClockSample::at_ms(1_200));
        clock.next();
        clock.witness(Timestamp::new(1_200, 7));
        clock.next()
    }

    #[test]
    fn timestamps_increase_though_clock_stalls_or_goes_back() {
        let [first, second] = first_two();
        assert_eq!(first, Timestamp::from_millis(1_000));
        assert!(second > first);
        assert_eq!(after_seen_tie(), Timestamp::new(1_200, 8));
        let mut clock = Clock::default();
        clock.witness(Timestamp::new(1_200, 7));
        assert_eq!(clock.next(), Timestamp::new(1_200, 8));
        clock.advance(ClockSample::at_ms(1_300));
        assert_eq!(clock.next(), Timestamp::from_millis(1_300));
    }

    #[cfg(debug_assertions)]
    #[test]
    fn bugs_planted_in_clocks_are_found() {
        use crate::planted::plant;
        plant(Some(Bug::TimestampsTie));
        let [first, second] = first_two();
        plant(Some(Bug::SeenTieIgnored));
        let after_seen = after_seen_tie();
        plant(None);
        assert_eq!(first, second);
        assert_eq!(after_seen, Timestamp::new(1_200, 1));
    }

    #[test]
    fn a_timestamp_from_more_than_the_bound_ahead_is_refused() {
        let mut clock = Clock::default();
        clock.advance(ClockSample::at_ms(1_000));
        assert_eq!(clock.check(Timestamp::new(1_500, 9)), Ok(()));
        let refused = clock.check(Timestamp::from_millis(1_501));
        assert_eq!(refused, Err(Failure::ClockAhead { ahead_ms: 501 }));
    }
}
