//! The time of an instance: the wall clock while that runs forward, and the instance's own time after the wall clock was set
//! back.

use zerohop_wire::ids::Timestamp;

use zerohop_partition::ClockSample;
use zerohop_partition::planted::{Bug, is_planted};

/// A reading of the owner's clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockReading {
    /// Milliseconds since 1970. May be set back.
    pub unix_ms: u64,
    /// Milliseconds since some start. Never runs backwards. [`crate::Instance::next_tick_ms`] uses this clock.
    pub elapsed_ms: u64,
}

/// The clock of an instance. It follows the wall clock forward. It starts no earlier than the newest stored version, which some
/// client may have seen, and no earlier than its timestamp bound. It may therefore be ahead of the wall clock, as it is after the
/// wall clock was set back. Its clients carry its timestamps to other instances, which refuse timestamps too far ahead. So it
/// barely advances until the wall clock has caught up. If that would take too long, because a clock was set wrong by more
/// than [`CATCHES_UP_MS`], it runs at nearly the pace of the monotonic clock. Requests that wait for a time then still reach it.
///
/// An instance that shares partitions with others does not follow a wall clock that is set ahead while it runs. The others would
/// refuse every client that has seen such a time. Its time then runs with the monotonic clock until another instance's time
/// agrees with the new wall clock, or until the wall clock is set back. The other instance agrees if the machine was asleep, or
/// if its clock was wrong before.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct InstanceClock {
    /// Milliseconds since 1970, as partitions see them.
    unix_ms: u64,
    elapsed_ms: u64,
    issued: Timestamp,
    /// The wall clock that is believed, at the last reading.
    day_ms: u64,
    /// The wall clock as it was read, whether or not it is believed.
    wall_clock_ms: u64,
    /// Other instances share partitions, and would be misled.
    is_shared: bool,
    /// Sixteenths of a millisecond that have passed and have not been counted yet.
    fraction: u64,
}

/// The wall clock counts as set ahead if it has advanced by this much more than the monotonic clock. It is well below the lead
/// that others refuse.
const STEP_MS: u64 = 250;

/// How many of sixteen passing milliseconds are counted while the instance is ahead of the wall clock.
const COUNTED_AHEAD: u64 = 2;
/// How many are counted if it is ahead by more than can be waited for.
const COUNTED_FAR_AHEAD: u64 = 15;
/// If the instance is further ahead than this, it does not wait for the wall clock.
const CATCHES_UP_MS: u64 = 10_000;

impl InstanceClock {
    pub(super) fn new(now: ClockReading, newest: Timestamp) -> InstanceClock {
        InstanceClock {
            unix_ms: now.unix_ms.max(newest.millis()),
            elapsed_ms: now.elapsed_ms,
            issued: newest,
            day_ms: now.unix_ms,
            wall_clock_ms: now.unix_ms,
            is_shared: false,
            fraction: 0,
        }
    }

    /// Assigns no timestamp again that was assigned before a restart.
    pub(super) fn begin_above(&mut self, timestamp_bound: Timestamp) {
        if is_planted(Bug::TimestampBoundIgnored) {
            return;
        }
        self.issued = self.issued.max(timestamp_bound);
        self.unix_ms = self.unix_ms.max(timestamp_bound.millis());
    }

    pub(super) fn advance(&mut self, now: ClockReading) {
        let passed_ms = now.elapsed_ms.saturating_sub(self.elapsed_ms);
        self.elapsed_ms = self.elapsed_ms.max(now.elapsed_ms);
        self.wall_clock_ms = now.unix_ms;
        let passed_to_ms = self.day_ms.saturating_add(passed_ms);
        let is_set = self.is_shared && now.unix_ms > passed_to_ms.saturating_add(STEP_MS);
        self.day_ms = if is_set { passed_to_ms } else { now.unix_ms };
        self.fraction = self.fraction.saturating_add(passed_ms.saturating_mul(self.counted()));
        let counted_ms = self.fraction / 16;
        self.fraction %= 16;
        self.unix_ms = self.day_ms.max(self.unix_ms.saturating_add(counted_ms)).min(Timestamp::MILLIS_MAX);
    }

    /// Sets whether partitions are shared with other instances.
    pub(super) fn set_shared(&mut self, is_shared: bool) {
        self.is_shared = is_shared;
    }

    /// By how much the wall clock is ahead that is not followed.
    pub(super) fn clock_jump_ms(&self) -> u64 {
        self.wall_clock_ms.saturating_sub(self.day_ms)
    }

    /// Another instance's time is about this. If the wall clock as read is nearer to it, it is believed after all.
    pub(super) fn observe_peer_time(&mut self, other_ms: u64) {
        if other_ms.abs_diff(self.wall_clock_ms) < other_ms.abs_diff(self.day_ms) {
            self.day_ms = self.wall_clock_ms;
        }
    }

    /// How many of sixteen milliseconds are counted if the instance is ahead.
    fn counted(&self) -> u64 {
        let ahead_ms = self.unix_ms.saturating_sub(self.day_ms);
        if ahead_ms > CATCHES_UP_MS { COUNTED_FAR_AHEAD } else { COUNTED_AHEAD }
    }

    /// The base from which the next timestamp bound must be `ahead_ms` ahead. The lead is smaller while the instance is ahead of
    /// the wall clock and barely advances. A start begins at the bound of the previous start. If each start added a full
    /// `ahead_ms`, a few restarts in a row would lead seconds away.
    pub(super) fn timestamp_bound_base_ms(&self, ahead_ms: u64) -> u64 {
        // Twice the time that would pass, since bounds are not raised for every millisecond.
        let needed_ms = (2 * ahead_ms * self.counted() / 16).min(ahead_ms);
        self.day_ms.max(self.unix_ms.saturating_sub(ahead_ms - needed_ms)).min(self.unix_ms)
    }

    /// Time is not before this: another instance has stored it, and some client may have seen it there.
    pub(super) fn not_before(&mut self, newest: Timestamp) {
        self.unix_ms = self.unix_ms.max(newest.millis());
        self.issued = self.issued.max(newest);
    }

    /// The newest timestamp that was issued or stored.
    pub(super) fn newest(&self) -> Timestamp {
        self.issued
    }

    pub(super) fn now(&self) -> ClockSample {
        ClockSample { ms: self.unix_ms, elapsed_ms: self.elapsed_ms }
    }

    pub(super) fn elapsed_ms(&self) -> u64 {
        self.elapsed_ms
    }

    /// A timestamp that was never assigned before.
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
    fn clock_follows_wall_clock_forward_only() {
        let mut clock = InstanceClock::new(at(1_000, 10), Timestamp::ZERO);
        clock.advance(at(5_000, 20));
        assert_eq!(clock.now().ms, 5_000);
        clock.advance(at(2_000, 25));
        assert_eq!(clock.now().ms, 5_000);
        clock.advance(at(2_080, 105));
        // It barely advances, so that the wall clock catches up.
        assert_eq!(clock.now().ms, 5_010);
        for ms in 105..4_000 {
            clock.advance(at(2_000 + ms - 25, ms));
        }
        assert_eq!(clock.now().ms, 2_000 + 3_999 - 25);
        clock.advance(at(90_000, 60_001));
        assert_eq!(clock.now().ms, 90_000);
    }

    #[test]
    fn wall_clock_jump_is_followed_only_if_peers_agree() {
        let mut clock = InstanceClock::new(at(1_000_000, 0), Timestamp::ZERO);
        clock.set_shared(true);
        for ms in 1..1_000 {
            clock.advance(at(1_000_000 + ms, ms));
        }
        // A small step is followed, since others believe it.
        clock.advance(at(1_001_200, 1_000));
        assert_eq!((clock.now().ms, clock.clock_jump_ms()), (1_001_200, 0));
        for ms in 1..1_000 {
            clock.advance(at(1_031_200 + ms, 1_000 + ms));
            assert_eq!((clock.now().ms, clock.clock_jump_ms()), (1_001_200 + ms, 30_000));
        }
        clock.observe_peer_time(1_002_000);
        clock.advance(at(1_032_200, 2_000));
        assert_eq!(clock.now().ms, 1_002_200, "others go by the time that was");
        // The wall clock is corrected.
        clock.advance(at(1_002_210, 2_010));
        assert_eq!((clock.now().ms, clock.clock_jump_ms()), (1_002_210, 0));
        // The machine was asleep, and the others have advanced.
        clock.advance(at(2_002_220, 2_020));
        assert_eq!(clock.now().ms, 1_002_220);
        clock.observe_peer_time(2_002_100);
        clock.advance(at(2_002_230, 2_030));
        assert_eq!((clock.now().ms, clock.clock_jump_ms()), (2_002_230, 0));
        // A single instance misleads no other.
        clock.set_shared(false);
        clock.advance(at(3_002_230, 2_040));
        assert_eq!(clock.now().ms, 3_002_230);
    }

    #[test]
    fn clock_advances_while_wall_clock_is_behind() {
        let mut clock = InstanceClock::new(at(5_000_000, 0), Timestamp::ZERO);
        clock.advance(at(1_000, 1_600));
        clock.advance(at(2_600, 3_200));
        assert!((5_000_000 + 1_500..5_000_000 + 3_200).contains(&clock.now().ms), "{}", clock.now().ms);
    }

    #[test]
    fn repeated_starts_do_not_drift_from_wall_clock() {
        let (mut bound_ms, ahead_ms) = (0, 400);
        for start in 0..100 {
            let begun_ms = 1_000_000 + start * 150;
            let mut clock = InstanceClock::new(at(begun_ms, 0), Timestamp::ZERO);
            clock.begin_above(Timestamp::from_millis(bound_ms));
            for ms in 0..150 {
                clock.advance(at(begun_ms + ms, ms));
                bound_ms = bound_ms.max(clock.timestamp_bound_base_ms(ahead_ms) + ahead_ms);
                // At least the time that passes until the bound is raised again.
                assert!(bound_ms >= clock.now().ms + ahead_ms / 8);
            }
            let led_ms = clock.now().ms - (begun_ms + 149);
            assert!(led_ms <= ahead_ms, "{led_ms} ms after {start} starts");
        }
    }

    #[test]
    fn fast_clock_does_not_drift_from_wall_clock() {
        let mut clock = InstanceClock::new(at(1_000, 0), Timestamp::ZERO);
        for ms in 0..100_000 {
            clock.advance(at(1_000 + ms, ms + ms / 20));
        }
        assert!(clock.now().ms < 1_000 + 100_000 + 10, "{}", clock.now().ms);
    }

    #[test]
    fn clock_advances_to_timestamps_of_other_instances() {
        let mut clock = InstanceClock::new(at(1_000, 0), Timestamp::ZERO);
        clock.not_before(Timestamp::new(9_000, 3));
        clock.advance(at(1_040, 40));
        assert_eq!(clock.now().ms, 9_005);
        assert!(clock.issue() > Timestamp::new(9_000, 3));
        clock.not_before(Timestamp::new(500, 0));
        assert_eq!(clock.now().ms, 9_005);
    }

    #[test]
    fn timestamps_are_unique_and_above_stored_ones() {
        let mut clock = InstanceClock::new(at(1_000, 0), Timestamp::new(3_000, 7));
        assert_eq!(clock.now().ms, 3_000);
        let first = clock.issue();
        assert!(first > Timestamp::new(3_000, 7));
        assert!(clock.issue() > first);
    }
}
