//! The partition's hybrid logical clock (Kulkarni and others, 2014).

use zerohop_wire::Failure;
use zerohop_wire::ids::Timestamp;
use zerohop_wire::limits::CLOCK_AHEAD_MS_MAX;

use crate::event::Now;

/// Gives every entry a timestamp above all before it, above what sessions have seen, and not below the time.
///
/// A group of several also keeps below a ceiling that its members have synced ahead, so that whoever is promoted begins
/// above every timestamp given. Whoever lets a request in sees to it ([`Clock::is_below`]).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Clock {
    last: Timestamp,
    now_ms: u64,
    elapsed_ms: u64,
    /// Where it had to begin, ahead of the time perhaps.
    begun_ms: u64,
}

/// Room that is left below a ceiling before anything is let in: one request may take thousands of timestamps, and a
/// millisecond has 65,536.
const BELOW_CEILING_MS: u64 = 2;

impl Clock {
    /// Time goes on; it never goes back.
    pub(crate) fn advance(&mut self, now: Now) {
        self.now_ms = self.now_ms.max(now.ms.min(Timestamp::MILLIS_MAX));
        self.elapsed_ms = self.elapsed_ms.max(now.elapsed_ms);
    }

    /// Milliseconds since some start, on a clock that nobody sets.
    pub(crate) fn elapsed_ms(&self) -> u64 {
        self.elapsed_ms
    }

    pub(crate) fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// Refuses a timestamp from too far ahead: following it would drag every version along.
    pub(crate) fn check(&self, seen: Timestamp) -> Result<(), Failure<'static>> {
        let ahead_ms = seen.millis().saturating_sub(self.present_ms());
        if ahead_ms > CLOCK_AHEAD_MS_MAX {
            return Err(Failure::ClockAhead { ahead_ms });
        }
        Ok(())
    }

    /// Never falls behind what a session has seen, or what stands in the log.
    pub(crate) fn witness(&mut self, seen: Timestamp) {
        self.last = self.last.max(seen);
    }

    /// Begins above a ceiling that others may have come close to.
    pub(crate) fn begin_above(&mut self, ceiling: Timestamp) {
        self.witness(ceiling);
        self.begun_ms = self.begun_ms.max(ceiling.millis());
    }

    /// From when on what is too far ahead is counted, in milliseconds since 1970.
    pub(crate) fn present_ms(&self) -> u64 {
        self.now_ms.max(self.begun_ms)
    }

    /// Whether the timestamps of one more request, which has seen this one, stay below a ceiling.
    pub(crate) fn is_below(&self, seen: Timestamp, ceiling: Timestamp) -> bool {
        self.last.max(seen).millis().max(self.now_ms) + BELOW_CEILING_MS < ceiling.millis()
    }

    /// The newest timestamp given or seen.
    pub(crate) fn newest(&self) -> Timestamp {
        self.last
    }

    /// The timestamp of the next entry.
    pub(crate) fn next(&mut self) -> Timestamp {
        self.last = self.last.next().max(Timestamp::from_millis(self.now_ms));
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_rise_strictly_though_the_time_stands_still_or_goes_back() {
        let mut clock = Clock::default();
        clock.advance(Now::at_ms(1_000));
        let first = clock.next();
        assert_eq!(first, Timestamp::from_millis(1_000));
        clock.advance(Now::at_ms(900));
        let second = clock.next();
        assert!(second > first);
        clock.witness(Timestamp::new(1_200, 7));
        assert_eq!(clock.next(), Timestamp::new(1_200, 8));
        clock.advance(Now::at_ms(1_300));
        assert_eq!(clock.next(), Timestamp::from_millis(1_300));
    }

    #[test]
    fn a_timestamp_from_more_than_the_bound_ahead_is_refused() {
        let mut clock = Clock::default();
        clock.advance(Now::at_ms(1_000));
        assert_eq!(clock.check(Timestamp::new(1_500, 9)), Ok(()));
        let refused = clock.check(Timestamp::from_millis(1_501));
        assert_eq!(refused, Err(Failure::ClockAhead { ahead_ms: 501 }));
    }
}
