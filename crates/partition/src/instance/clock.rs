//! The time of an instance: the time of day while that runs forward, and its own going on when it is set back.

use zerohop_wire::ids::Timestamp;

use crate::event::Now;

/// What the owner's clocks show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Time {
    /// Milliseconds since 1970. May be set back.
    pub unix_ms: u64,
    /// Milliseconds since some start. Never runs backwards: [`crate::instance::Instance::next_wake_ms`] is told in it.
    pub elapsed_ms: u64,
}

/// Follows the time of day forward. Where that is set back, time goes on at nearly the pace of the other clock, so that
/// whatever waits for a moment still meets it, and the time of day catches up: an instance that stayed ahead for ever, or
/// whose other clock runs fast, would leave its clients with timestamps that others refuse. It begins no earlier than the newest version that is stored, which
/// some client may have seen.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct InstanceClock {
    /// Milliseconds since 1970, as partitions are told it.
    unix_ms: u64,
    elapsed_ms: u64,
    issued: Timestamp,
    /// Milliseconds gone by ahead of the time of day, of which the part not counted yet.
    ahead_ms: u64,
}

/// Of so many milliseconds that pass while it is ahead of the time of day, one is not counted.
const SLOWER_BY: u64 = 16;

impl InstanceClock {
    pub(super) fn new(now: Time, newest: Timestamp) -> InstanceClock {
        InstanceClock {
            unix_ms: now.unix_ms.max(newest.millis()),
            elapsed_ms: now.elapsed_ms,
            issued: newest,
            ahead_ms: 0,
        }
    }

    /// Nothing that was given before a restart is given again.
    pub(super) fn begin_above(&mut self, ceiling: Timestamp) {
        self.issued = self.issued.max(ceiling);
        self.unix_ms = self.unix_ms.max(ceiling.millis());
    }

    pub(super) fn advance(&mut self, now: Time) {
        let passed_ms = now.elapsed_ms.saturating_sub(self.elapsed_ms);
        self.elapsed_ms = self.elapsed_ms.max(now.elapsed_ms);
        self.ahead_ms += passed_ms;
        let counted_ms = passed_ms - (self.ahead_ms / SLOWER_BY).min(passed_ms);
        self.ahead_ms %= SLOWER_BY;
        self.unix_ms = now.unix_ms.max(self.unix_ms.saturating_add(counted_ms)).min(Timestamp::MILLIS_MAX);
    }

    /// Time is not before this: another instance has stored it, and some client may have seen it there.
    pub(super) fn not_before(&mut self, newest: Timestamp) {
        self.unix_ms = self.unix_ms.max(newest.millis());
        self.issued = self.issued.max(newest);
    }

    /// The newest timestamp issued or stored.
    pub(super) fn newest(&self) -> Timestamp {
        self.issued
    }

    pub(super) fn now(&self) -> Now {
        Now { ms: self.unix_ms }
    }

    pub(super) fn elapsed_ms(&self) -> u64 {
        self.elapsed_ms
    }

    /// When a moment of the time of day comes, on the other clock.
    pub(super) fn elapsed_at(&self, unix_ms: u64) -> u64 {
        self.elapsed_ms.saturating_add(unix_ms.saturating_sub(self.unix_ms))
    }

    /// A timestamp that was never given before.
    pub(super) fn issue(&mut self) -> Timestamp {
        self.issued = self.issued.next().max(Timestamp::from_millis(self.unix_ms));
        self.issued
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(unix_ms: u64, elapsed_ms: u64) -> Time {
        Time { unix_ms, elapsed_ms }
    }

    #[test]
    fn time_follows_the_day_forward_and_goes_on_when_that_is_set_back() {
        let mut clock = InstanceClock::new(at(1_000, 10), Timestamp::ZERO);
        clock.advance(at(5_000, 20));
        assert_eq!(clock.now().ms, 5_000);
        clock.advance(at(2_000, 25));
        assert_eq!(clock.now().ms, 5_005);
        clock.advance(at(2_100, 125));
        // A little slower, so that the time of day is met again.
        let shows = clock.now().ms;
        assert!((5_095..5_105).contains(&shows), "{shows}");
        for ms in 125..60_000 {
            clock.advance(at(2_000 + ms - 25, ms));
        }
        assert_eq!(clock.now().ms, 2_000 + 59_999 - 25);
        clock.advance(at(90_000, 60_001));
        assert_eq!((clock.now().ms, clock.elapsed_at(90_500), clock.elapsed_at(0)), (90_000, 60_501, 60_001));
    }

    #[test]
    fn a_fast_clock_does_not_lead_away_from_the_time_of_day() {
        let mut clock = InstanceClock::new(at(1_000, 0), Timestamp::ZERO);
        for ms in 0..100_000 {
            clock.advance(at(1_000 + ms, ms + ms / 20));
        }
        assert!(clock.now().ms < 1_000 + 100_000 + 10, "{}", clock.now().ms);
    }

    #[test]
    fn what_another_has_stored_is_not_ahead() {
        let mut clock = InstanceClock::new(at(1_000, 0), Timestamp::ZERO);
        clock.not_before(Timestamp::new(9_000, 3));
        clock.advance(at(1_005, 5));
        assert_eq!(clock.now().ms, 9_005);
        assert!(clock.issue() > Timestamp::new(9_000, 3));
        clock.not_before(Timestamp::new(500, 0));
        assert_eq!(clock.now().ms, 9_005);
    }

    #[test]
    fn nothing_is_issued_twice_nor_below_what_is_stored() {
        let mut clock = InstanceClock::new(at(1_000, 0), Timestamp::new(3_000, 7));
        assert_eq!(clock.now().ms, 3_000);
        let first = clock.issue();
        assert!(first > Timestamp::new(3_000, 7));
        assert!(clock.issue() > first);
    }
}
