//! The node's clock: it may run fast or slow, and be set; checkers need bounds of its readings.

use zerohop_base::time::Time;
use zerohop_shard as instance;

/// Milliseconds since 1970 at the start of the simulation.
const START_UNIX_MS: u64 = 1_700_000_000_000;

/// A clock that runs at some rate from each setting on.
#[derive(Debug)]
pub(crate) struct NodeClock {
    /// Each setting: its time, the reading from then on, and the rate in parts of a million of the
    /// true rate.
    settings: Vec<(Time, u64, u64)>,
    /// How far instances that never follow it backwards may be ahead of it since each setting, in
    /// milliseconds.
    ahead_ms: Vec<u64>,
    /// How far instances that do not follow a jump forward may be behind it since each setting, in
    /// milliseconds.
    behind_ms: Vec<u64>,
    /// When the process started.
    start: Time,
    /// The rate of the clock that is never set, if it differs from that of the time of day, which
    /// is corrected repeatedly.
    elapsed_rate: Option<u64>,
    /// It advances in steps of so many milliseconds.
    step_ms: u64,
}

impl NodeClock {
    pub(crate) fn new(now: Time) -> Self {
        Self {
            settings: vec![(now, START_UNIX_MS, 1_000_000)],
            ahead_ms: vec![0],
            behind_ms: vec![0],
            start: now,
            elapsed_rate: None,
            step_ms: 1,
        }
    }

    /// From now on it advances in steps of so many milliseconds.
    pub(crate) fn set_step(&mut self, step_ms: u64) {
        self.step_ms = step_ms.max(1);
    }

    /// The clock is set by so many milliseconds.
    pub(crate) fn set(&mut self, now: Time, by_ms: i64) {
        let rate = self.rate();
        self.set_to(now, by_ms, rate);
    }

    /// A process starts, and counts from now. The clock has been set by so many milliseconds, and
    /// runs at this rate in parts of a million of the true rate from now on.
    pub(crate) fn restart(&mut self, now: Time, by_ms: i64, rate: u64) {
        self.set_to(now, by_ms, rate);
        self.begin(now);
    }

    /// The same, but only the clock that is never set runs at that rate.
    pub(crate) fn restart_monotonic(&mut self, now: Time, by_ms: i64, elapsed_rate: u64) {
        self.set_to(now, by_ms, 1_000_000);
        self.begin(now);
        self.elapsed_rate = Some(elapsed_rate);
    }

    /// A process begins with its reading.
    fn begin(&mut self, now: Time) {
        self.start = now;
        if let Some(behind) = self.behind_ms.last_mut() {
            *behind = 0;
        }
    }

    /// It is set to the true time.
    pub(crate) fn set_right(&mut self, now: Time) {
        let (first, shows, _) = self.settings[0];
        let right = shows + now.since_us(first) / 1_000;
        let by_ms = right as i64 - self.unix_ms(now) as i64;
        self.set(now, by_ms);
    }

    fn set_to(&mut self, now: Time, by_ms: i64, rate: u64) {
        let shows = self.unix_ms(now);
        let next = shows.saturating_add_signed(by_ms);
        let ahead = self.ahead_ms.last().copied().unwrap_or(0);
        self.ahead_ms.push((shows + ahead).saturating_sub(next));
        let behind = self.behind_ms.last().copied().unwrap_or(0);
        self.behind_ms.push((next + behind).saturating_sub(shows));
        self.settings.push((now, next, rate));
    }

    /// Its reading.
    pub(crate) fn show(&self, now: Time) -> instance::ClockReading {
        let elapsed_us: u64 = now.since_us(self.start);
        let elapsed_ms = (u128::from(elapsed_us) * u128::from(self.elapsed_rate()) / 1_000_000_000) as u64;
        let unix_ms = self.unix_ms(now);
        instance::ClockReading {
            unix_ms: unix_ms - unix_ms % self.step_ms,
            elapsed_ms: elapsed_ms - elapsed_ms % self.step_ms,
        }
    }

    /// Microseconds since the process started, by this clock.
    pub(crate) fn elapsed_us(&self, now: Time) -> u64 {
        let elapsed_us: u64 = now.since_us(self.start);
        (u128::from(elapsed_us) * u128::from(self.elapsed_rate()) / 1_000_000) as u64
    }

    /// When it will show so many microseconds since the process started, or soon after.
    pub(crate) fn when_elapsed_us(&self, elapsed_us: u64) -> Time {
        let us = u128::from(elapsed_us) * 1_000_000 / u128::from(self.elapsed_rate()) + 1;
        self.start.after_us(u64::try_from(us).unwrap_or(u64::MAX))
    }

    /// When it will show so many milliseconds since the process started, or soon after.
    pub(crate) fn when_elapsed(&self, elapsed_ms: u64) -> Time {
        let elapsed_ms = elapsed_ms.checked_next_multiple_of(self.step_ms).unwrap_or(u64::MAX);
        let us = u128::from(elapsed_ms) * 1_000_000_000 / u128::from(self.elapsed_rate()) + 1;
        self.start.after_us(u64::try_from(us).unwrap_or(u64::MAX))
    }

    /// Bounds of an instance's time between two moments, in milliseconds.
    pub(crate) fn bounds_ms(&self, from: Time, to: Time) -> (u64, u64) {
        let (mut least, mut most) = (u64::MAX, 0);
        for (at, (since, shows, _)) in self.settings.iter().enumerate() {
            if *since > to {
                break;
            }
            let next = self.settings.get(at + 1).map(|next| next.0);
            if next.is_none_or(|next| next > from) {
                let first = if *since > from { *shows } else { self.at(at, from) };
                least = least.min(first.saturating_sub(self.behind_ms[at]));
            }
            let until = next.map_or(to, |next| next.min(to));
            most = most.max(self.at(at, until) + self.ahead_ms[at]);
        }
        // A coarse clock shows the beginning of its step.
        let least = least.saturating_sub(self.step_ms - 1);
        // Two clocks are rounded to milliseconds at different moments: each setting may add one.
        (least, most + 1 + self.settings.len() as u64)
    }

    /// The rate of the clock that is never set.
    fn elapsed_rate(&self) -> u64 {
        self.elapsed_rate.unwrap_or_else(|| self.rate())
    }

    /// The rate changes only with a restart: within a process time passes evenly.
    fn rate(&self) -> u64 {
        self.settings.last().map_or(1_000_000, |setting| setting.2)
    }

    fn unix_ms(&self, now: Time) -> u64 {
        let newest = self.settings.iter().rposition(|(since, _, _)| *since <= now).unwrap_or(0);
        self.at(newest, now)
    }

    fn at(&self, setting: usize, now: Time) -> u64 {
        let (since, shows, rate) = self.settings[setting];
        shows + (u128::from(now.since_us(since)) * u128::from(rate) / 1_000_000_000) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_runs_at_its_rate_jumps_and_reports_its_bounds() {
        let mut clock = NodeClock::new(Time(0));
        assert_eq!(clock.show(Time(2_000_000)).unix_ms, START_UNIX_MS + 2_000);
        clock.restart(Time(2_000_000), -500, 2_000_000);
        assert_eq!(clock.show(Time(3_000_000)).unix_ms, START_UNIX_MS + 3_500);
        assert_eq!(clock.when_elapsed(clock.show(Time(3_000_000)).elapsed_ms), Time(3_000_001));
        // An instance that does not follow it backwards is 500 ms ahead of it.
        assert_eq!(
            clock.bounds_ms(Time(1_900_000), Time(2_100_000)),
            (START_UNIX_MS + 1_500, START_UNIX_MS + 2_203)
        );
    }

    #[test]
    fn coarse_clock_stands_still_within_its_step() {
        let mut clock = NodeClock::new(Time(0));
        clock.set_step(7);
        let shown = |clock: &NodeClock, at_us| (clock.show(Time(at_us)), clock.when_elapsed(2));
        let (first, when) = shown(&clock, 1_000);
        assert_eq!(first, clock.show(Time(4_000)));
        assert_eq!((first.elapsed_ms, when), (0, Time(7_001)));
        assert_eq!(clock.show(when).elapsed_ms, 7);
        let least = clock.bounds_ms(Time(4_000), Time(4_000)).0;
        assert!(least <= first.unix_ms, "a reading is within the bounds");
    }

    #[test]
    fn instance_may_lag_behind_advanced_clock_until_restart() {
        let mut clock = NodeClock::new(Time(0));
        clock.set(Time(1_000_000), -300);
        clock.set(Time(2_000_000), 800);
        let least = |clock: &NodeClock, at| clock.bounds_ms(Time(at), Time(at)).0;
        assert_eq!(least(&clock, 3_000_000), START_UNIX_MS + 2_700, "it has 800 ms to follow");
        clock.set(Time(4_000_000), -500);
        assert_eq!(least(&clock, 5_000_000), START_UNIX_MS + 4_700, "and 300 ms of them still");
        clock.restart(Time(6_000_000), 0, 1_000_000);
        assert_eq!(least(&clock, 6_000_000), START_UNIX_MS + 6_000);
    }
}
