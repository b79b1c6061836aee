//! The time of an instance: the time of day while that runs forward, and its own going on when it is set back.

use zerohop_wire::ids::Timestamp;

use crate::event::Now;
use crate::planted::{Bug, is_planted};

/// What the owner's clocks show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockReading {
    /// Milliseconds since 1970. May be set back.
    pub unix_ms: u64,
    /// Milliseconds since some start. Never runs backwards: [`crate::instance::Instance::next_wake_ms`] is told in it.
    pub elapsed_ms: u64,
}

/// Follows the time of day forward, and begins no earlier than the newest version that is stored, which some client may have
/// seen, nor than its ceiling. So it may be ahead of the time of day, as it is where that is set back. Its clients take
/// its timestamps to other instances, which refuse what is too far ahead: so it nearly stands still until the time of day has
/// caught up. Where that would take too long, as somebody has set a clock wrong by more than [`CATCHES_UP_MS`], it goes on at nearly
/// the pace of the other clock, so that whatever waits for a moment still meets it.
///
/// A time of day that is set ahead while it runs is not followed by who shares partitions with others, who would refuse whatever
/// has seen it: time goes on as it passes, until another instance's time agrees with the new one (a machine that was asleep, or
/// whose clock was wrong before), or somebody has set it back.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct InstanceClock {
    /// Milliseconds since 1970, as partitions are told it.
    unix_ms: u64,
    elapsed_ms: u64,
    issued: Timestamp,
    /// What the time of day was at the last look.
    day_ms: u64,
    /// The same as it was shown, whether or not it is believed.
    shown_ms: u64,
    /// There are others who would be misled.
    is_shared: bool,
    /// Sixteenths of a millisecond that have passed and have not been counted yet.
    rest: u64,
}

/// A time of day that is so much further ahead than time has passed was set: well below what others refuse.
const STEP_MS: u64 = 250;

/// Of sixteen milliseconds that pass while it is ahead of the time of day, so many are counted.
const COUNTED_AHEAD: u64 = 2;
/// And if it is ahead by more than may be waited for.
const COUNTED_FAR_AHEAD: u64 = 15;
/// Further ahead than this it does not wait for the time of day.
const CATCHES_UP_MS: u64 = 10_000;

impl InstanceClock {
    pub(super) fn new(now: ClockReading, newest: Timestamp) -> InstanceClock {
        InstanceClock {
            unix_ms: now.unix_ms.max(newest.millis()),
            elapsed_ms: now.elapsed_ms,
            issued: newest,
            day_ms: now.unix_ms,
            shown_ms: now.unix_ms,
            is_shared: false,
            rest: 0,
        }
    }

    /// Nothing that was given before a restart is given again.
    pub(super) fn begin_above(&mut self, ceiling: Timestamp) {
        if is_planted(Bug::CeilingForgotten) {
            return;
        }
        self.issued = self.issued.max(ceiling);
        self.unix_ms = self.unix_ms.max(ceiling.millis());
    }

    pub(super) fn advance(&mut self, now: ClockReading) {
        let passed_ms = now.elapsed_ms.saturating_sub(self.elapsed_ms);
        self.elapsed_ms = self.elapsed_ms.max(now.elapsed_ms);
        self.shown_ms = now.unix_ms;
        let passed_to_ms = self.day_ms.saturating_add(passed_ms);
        let is_set = self.is_shared && now.unix_ms > passed_to_ms.saturating_add(STEP_MS);
        self.day_ms = if is_set { passed_to_ms } else { now.unix_ms };
        self.rest = self.rest.saturating_add(passed_ms.saturating_mul(self.counted()));
        let counted_ms = self.rest / 16;
        self.rest %= 16;
        self.unix_ms = self.day_ms.max(self.unix_ms.saturating_add(counted_ms)).min(Timestamp::MILLIS_MAX);
    }

    /// Whether partitions are shared with others.
    pub(super) fn set_shared(&mut self, is_shared: bool) {
        self.is_shared = is_shared;
    }

    /// How far ahead the time of day was set that is not followed.
    pub(super) fn distrusted_ms(&self) -> u64 {
        self.shown_ms.saturating_sub(self.day_ms)
    }

    /// Another instance's time is about this: if the time of day that is shown is nearer to it, it is believed after all.
    pub(super) fn heard(&mut self, other_ms: u64) {
        if other_ms.abs_diff(self.shown_ms) < other_ms.abs_diff(self.day_ms) {
            self.day_ms = self.shown_ms;
        }
    }

    /// How many of sixteen milliseconds are counted if it is ahead.
    fn counted(&self) -> u64 {
        let ahead_ms = self.unix_ms.saturating_sub(self.day_ms);
        if ahead_ms > CATCHES_UP_MS { COUNTED_FAR_AHEAD } else { COUNTED_AHEAD }
    }

    /// From where its next ceiling is to be `ahead_ms` ahead. Less while it is ahead of the time of day and nearly stands still:
    /// a start begins at the ceiling of the one before, and where each began its own a whole `ahead_ms` above that, a few
    /// starts in a row would lead seconds away.
    pub(super) fn ceiling_base_ms(&self, ahead_ms: u64) -> u64 {
        // Twice what would pass: ceilings are not raised for every millisecond.
        let needed_ms = (2 * ahead_ms * self.counted() / 16).min(ahead_ms);
        self.day_ms.max(self.unix_ms.saturating_sub(ahead_ms - needed_ms)).min(self.unix_ms)
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
        Now { ms: self.unix_ms, elapsed_ms: self.elapsed_ms }
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

    fn at(unix_ms: u64, elapsed_ms: u64) -> ClockReading {
        ClockReading { unix_ms, elapsed_ms }
    }

    #[test]
    fn time_follows_the_day_forward_and_goes_on_when_that_is_set_back() {
        let mut clock = InstanceClock::new(at(1_000, 10), Timestamp::ZERO);
        clock.advance(at(5_000, 20));
        assert_eq!(clock.now().ms, 5_000);
        clock.advance(at(2_000, 25));
        assert_eq!(clock.now().ms, 5_000);
        clock.advance(at(2_080, 105));
        // It nearly stands still, so that the time of day is met again.
        assert_eq!(clock.now().ms, 5_010);
        for ms in 105..4_000 {
            clock.advance(at(2_000 + ms - 25, ms));
        }
        assert_eq!(clock.now().ms, 2_000 + 3_999 - 25);
        clock.advance(at(90_000, 60_001));
        assert_eq!((clock.now().ms, clock.elapsed_at(90_500), clock.elapsed_at(0)), (90_000, 60_501, 60_001));
    }

    #[test]
    fn a_time_of_day_that_is_set_ahead_is_followed_only_if_others_agree() {
        let mut clock = InstanceClock::new(at(1_000_000, 0), Timestamp::ZERO);
        clock.set_shared(true);
        for ms in 1..1_000 {
            clock.advance(at(1_000_000 + ms, ms));
        }
        // A little is followed, as others believe it.
        clock.advance(at(1_001_200, 1_000));
        assert_eq!((clock.now().ms, clock.distrusted_ms()), (1_001_200, 0));
        for ms in 1..1_000 {
            clock.advance(at(1_031_200 + ms, 1_000 + ms));
            assert_eq!((clock.now().ms, clock.distrusted_ms()), (1_001_200 + ms, 30_000));
        }
        clock.heard(1_002_000);
        clock.advance(at(1_032_200, 2_000));
        assert_eq!(clock.now().ms, 1_002_200, "others go by the time that was");
        // It is set right again.
        clock.advance(at(1_002_210, 2_010));
        assert_eq!((clock.now().ms, clock.distrusted_ms()), (1_002_210, 0));
        // The machine was asleep: others have gone on.
        clock.advance(at(2_002_220, 2_020));
        assert_eq!(clock.now().ms, 1_002_220);
        clock.heard(2_002_100);
        clock.advance(at(2_002_230, 2_030));
        assert_eq!((clock.now().ms, clock.distrusted_ms()), (2_002_230, 0));
        // Who is alone misleads nobody.
        clock.set_shared(false);
        clock.advance(at(3_002_230, 2_040));
        assert_eq!(clock.now().ms, 3_002_230);
    }

    #[test]
    fn time_goes_on_where_the_day_is_far_behind() {
        let mut clock = InstanceClock::new(at(5_000_000, 0), Timestamp::ZERO);
        clock.advance(at(1_000, 1_600));
        clock.advance(at(2_600, 3_200));
        assert!((5_000_000 + 1_500..5_000_000 + 3_200).contains(&clock.now().ms), "{}", clock.now().ms);
    }

    #[test]
    fn many_starts_in_a_row_do_not_lead_away_from_the_time_of_day() {
        let (mut ceiling_ms, ahead_ms) = (0, 400);
        for start in 0..100 {
            let begun_ms = 1_000_000 + start * 150;
            let mut clock = InstanceClock::new(at(begun_ms, 0), Timestamp::ZERO);
            clock.begin_above(Timestamp::from_millis(ceiling_ms));
            for ms in 0..150 {
                clock.advance(at(begun_ms + ms, ms));
                ceiling_ms = ceiling_ms.max(clock.ceiling_base_ms(ahead_ms) + ahead_ms);
                // As far as time goes until it is raised the next time.
                assert!(ceiling_ms >= clock.now().ms + ahead_ms / 8);
            }
            let led_ms = clock.now().ms - (begun_ms + 149);
            assert!(led_ms <= ahead_ms, "{led_ms} ms after {start} starts");
        }
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
        clock.advance(at(1_040, 40));
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
