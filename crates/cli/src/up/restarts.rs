//! When a node that has ended by itself starts again.
//!
//! ```text
//!   ends ──> 1 s ──> starts ──> ends ──> 2 s ──> starts ──> … ──> 30 s at most
//!                      ├── runs for a minute: the next delay is 1 s again
//!                      └── ends within 10 s, five times in a row: it stays ended
//! ```

use std::time::Duration;

use clap::Args;

/// The first delay.
const DELAY_MIN: Duration = Duration::from_secs(1);

/// The longest delay: a node whose cause is removed serves again within this time.
const DELAY_MAX: Duration = Duration::from_secs(30);

/// A node that has run for this time is sound: its next delay is the first again.
const SOUND_AFTER: Duration = Duration::from_secs(60);

/// A node that ends within this time has not recovered from what ended it.
const SHORT_RUN: Duration = Duration::from_secs(10);

/// The number of short runs in a row after which a node stays ended.
pub(super) const SHORT_RUNS_MAX: u32 = 5;

/// Whether nodes that end by themselves start again.
#[derive(Args, Clone, Copy, Debug)]
pub(super) struct RestartArguments {
    /// Does not start a node again that ends by itself. By default it starts again after a second, and later after up
    /// to 30 s; after five ends in a row, each soon after a start, it stays ended.
    #[arg(long)]
    pub(super) no_restart: bool,
}

/// What happens to a node that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RestartDecision {
    /// It starts again after this delay.
    After(Duration),
    /// It has ended soon after its start too often.
    GiveUp,
}

/// The runs of one node so far.
#[derive(Clone, Copy, Debug)]
pub(super) struct NodeRuns {
    next_delay: Duration,
    short_runs: u32,
}

impl Default for NodeRuns {
    fn default() -> NodeRuns {
        NodeRuns { next_delay: DELAY_MIN, short_runs: 0 }
    }
}

impl NodeRuns {
    /// Records the end of a run, and how long the node has served; zero: it did not start.
    pub(super) fn record_end(&mut self, served: Duration) -> RestartDecision {
        if served >= SOUND_AFTER {
            self.next_delay = DELAY_MIN;
        }
        self.short_runs = if served < SHORT_RUN { self.short_runs + 1 } else { 0 };
        if self.short_runs >= SHORT_RUNS_MAX {
            return RestartDecision::GiveUp;
        }
        let delay = self.next_delay;
        self.next_delay = (delay * 2).min(DELAY_MAX);
        RestartDecision::After(delay)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delays(runs: &mut NodeRuns, served: &[u64]) -> Vec<Option<u64>> {
        let decisions = served.iter().map(|served| runs.record_end(Duration::from_secs(*served)));
        let seconds = |decision| match decision {
            RestartDecision::After(delay) => Some(delay.as_secs()),
            RestartDecision::GiveUp => None,
        };
        decisions.map(seconds).collect()
    }

    #[test]
    fn delay_doubles_up_to_thirty_seconds_and_is_short_again_after_a_minute() {
        let mut runs = NodeRuns::default();
        let all = [Some(1), Some(2), Some(4), Some(8), Some(16), Some(30), Some(30), Some(1), Some(2)];
        assert_eq!(delays(&mut runs, &[3600, 10, 59, 10, 20, 59, 59, 60, 10]), all);
    }

    #[test]
    fn fifth_short_run_in_a_row_is_the_last() {
        let mut runs = NodeRuns::default();
        assert_eq!(delays(&mut runs, &[9, 0, 3, 9, 0]), [Some(1), Some(2), Some(4), Some(8), None]);
        let mut runs = NodeRuns::default();
        assert_eq!(
            delays(&mut runs, &[9, 0, 3, 9, 10, 9, 0, 0, 0, 0]),
            [Some(1), Some(2), Some(4), Some(8), Some(16), Some(30), Some(30), Some(30), Some(30), None]
        );
        assert_eq!(delays(&mut NodeRuns::default(), &[100, 0, 0, 0, 0, 0]).last(), Some(&None));
    }
}
