//! The connections that this process has refused for lack of descriptors within the last minute. The limit belongs to the process, too.

use std::collections::VecDeque;
use std::sync::{LazyLock, Mutex, PoisonError};

use crate::clock::Stopwatch;

/// How long a refusal counts.
const COUNTED_MS: u64 = 60_000;

static REFUSED: LazyLock<(Stopwatch, Mutex<RecentCount>)> =
    LazyLock::new(|| (Stopwatch::start(), Mutex::default()));

/// Counts refused connections.
pub fn record(connections: u64) {
    let (started, recent) = &*REFUSED;
    let mut recent = recent.lock().unwrap_or_else(PoisonError::into_inner);
    recent.record(started.elapsed_ms(), connections);
}

/// Number of connections that were refused within the last minute.
#[must_use]
pub fn in_last_minute() -> u64 {
    let (started, recent) = &*REFUSED;
    recent.lock().unwrap_or_else(PoisonError::into_inner).total(started.elapsed_ms())
}

/// Events of the last minute, counted by seconds.
#[derive(Debug, Default)]
struct RecentCount {
    /// The start of each second with events, and their number.
    seconds: VecDeque<(u64, u64)>,
}

impl RecentCount {
    fn record(&mut self, now_ms: u64, more: u64) {
        self.forget_before(now_ms);
        let second_ms = now_ms / 1_000 * 1_000;
        match self.seconds.back_mut() {
            Some((last_ms, count)) if *last_ms == second_ms => *count += more,
            _ => self.seconds.push_back((second_ms, more)),
        }
    }

    fn total(&mut self, now_ms: u64) -> u64 {
        self.forget_before(now_ms);
        self.seconds.iter().map(|(_, count)| count).sum()
    }

    fn forget_before(&mut self, now_ms: u64) {
        while self.seconds.front().is_some_and(|(at_ms, _)| at_ms + COUNTED_MS <= now_ms) {
            self.seconds.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_count_for_a_minute() {
        let mut recent = RecentCount::default();
        assert_eq!(recent.total(0), 0);
        for (now_ms, more) in [(0, 3), (999, 1), (1_000, 5)] {
            recent.record(now_ms, more);
        }
        assert_eq!((recent.seconds.len(), recent.total(59_999)), (2, 9));
        assert_eq!((recent.total(60_000), recent.total(61_000)), (5, 0));
    }
}
