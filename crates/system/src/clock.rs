//! The clocks of the process: all other modules get the time from here.

#![expect(clippy::disallowed_methods, reason = "the one place that asks the system for the time")]

mod test_offset;

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use zerohop_wire::ids::Timestamp;

/// A hybrid logical clock (Kulkarni and others, 2014): milliseconds since 1970 and a counter. Its timestamps are unique and increasing while it
/// lives, whatever the system's clock does.
#[derive(Clone, Copy, Debug, Default)]
pub struct HybridClock {
    last: Timestamp,
}

impl HybridClock {
    /// A timestamp above all earlier ones of this clock.
    pub fn tick(&mut self) -> Timestamp {
        self.next_at(unix_ms())
    }

    fn next_at(&mut self, wall_ms: u64) -> Timestamp {
        self.last = self.last.next().max(Timestamp::from_millis(wall_ms));
        self.last
    }
}

/// Measures durations with a monotonic clock.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch {
    started: Instant,
}

impl Stopwatch {
    /// Starts now.
    #[must_use]
    pub fn start() -> Self {
        Stopwatch { started: Instant::now() }
    }

    /// The time since the start.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Complete milliseconds since the start.
    #[must_use]
    pub fn elapsed_ms(&self) -> u64 {
        // 64 bits of milliseconds never overflow.
        self.elapsed().as_millis() as u64
    }
}

/// Milliseconds since 1970; 0 if the system's clock is earlier.
#[must_use]
pub fn unix_ms() -> u64 {
    let ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
    ms.saturating_add_signed(test_offset::offset_ms())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_rise_also_when_the_time_of_day_does_not() {
        let mut clock = HybridClock::default();
        let times = [1000, 1000, 999, 0, 1001].map(|wall_ms| clock.next_at(wall_ms));
        assert!(times.is_sorted_by(|a, b| a < b), "{times:?}");
        assert_eq!(times.map(Timestamp::millis), [1000, 1000, 1000, 1000, 1001]);
    }

    #[test]
    fn the_time_of_day_is_after_this_was_written() {
        assert!(HybridClock::default().tick().millis() > 1_700_000_000_000);
    }

    #[test]
    fn a_full_counter_runs_into_the_next_millisecond() {
        let mut clock = HybridClock { last: Timestamp::new(7, u16::MAX) };
        assert_eq!(clock.next_at(7), Timestamp::new(8, 0));
    }
}
