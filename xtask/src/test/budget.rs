//! The table of the budgets of all steps of `cargo xtask test`.
//!
//! A cost is processor time, which other work on the machine hardly changes; two idle cores use two
//! seconds of it per second. The run as a whole has a limit of elapsed time on two idle cores.

use std::time::Duration;

/// The budget of a step, and its purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BudgetRow {
    /// The step's name.
    pub step: &'static str,
    /// Seconds of processor time, including children.
    pub seconds: u64,
    /// Its purpose.
    pub what: &'static str,
}

/// Elapsed time of a whole run on two idle cores, including the build.
pub const WHOLE_RUN: Duration = Duration::from_secs(20 * 60);

/// A step is reported at the end of the run if it costs so many percent of its budget.
pub const REPORTED_FROM_PERCENT: u32 = 125;

/// Every step, in the order in which they start.
pub const ROWS: [BudgetRow; 13] = [
    BudgetRow {
        step: "format",
        seconds: 10,
        what: "`cargo fmt --check` of the workspace and of the fuzz targets",
    },
    BudgetRow { step: "tidy", seconds: 10, what: "the project's rules" },
    BudgetRow {
        step: "lint",
        seconds: 230,
        what: "clippy over all targets, benchmarks included; a check without debug assertions",
    },
    BudgetRow { step: "docs", seconds: 50, what: "links and markup in doc comments" },
    BudgetRow { step: "build", seconds: 750, what: "the programs and all test programs" },
    BudgetRow { step: "environment", seconds: 60, what: "outside clients, installed once and kept" },
    BudgetRow {
        step: "tests",
        seconds: 300,
        what: "unit, property and suite tests; fuzz corpora; canaries of planted bugs",
    },
    BudgetRow { step: "processes", seconds: 340, what: "tests that start nodes" },
    BudgetRow { step: "simulation", seconds: 130, what: "fixed seeds of one node and of clusters" },
    BudgetRow { step: "redis", seconds: 40, what: "redis-cli, redis-py and the guide's examples" },
    BudgetRow { step: "s3", seconds: 30, what: "boto3 against a gateway of S3" },
    BudgetRow {
        step: "slurm",
        seconds: 10,
        what: "nodes inside jobs of a Slurm, and the guide's job script",
    },
    BudgetRow { step: "python", seconds: 170, what: "the Python package, its tests, its types" },
];

/// The row of a step.
pub fn row(step: &str) -> Option<&'static BudgetRow> {
    ROWS.iter().find(|row| row.step == step)
}

/// The message about a step over its budget; `None` within it.
pub fn excess(step: &str, cost: Duration) -> Option<String> {
    let row = row(step)?;
    let reported_from = Duration::from_secs(row.seconds) * REPORTED_FROM_PERCENT / 100;
    (cost > reported_from).then(|| {
        format!(
            "{step} cost {:.0} s of processor time, its budget is {} s: make it cheaper, or change xtask/src/test/budget.rs and say why",
            cost.as_secs_f64(),
            row.seconds
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn step_is_reported_beyond_125_percent_of_budget() {
        let budget = row("tidy").unwrap().seconds;
        assert_eq!(excess("tidy", Duration::from_secs(budget)), None);
        assert_eq!(excess("tidy", Duration::from_secs(budget * 125 / 100)), None);
        assert!(excess("tidy", Duration::from_secs(budget * 2)).unwrap().starts_with("tidy cost"));
    }

    #[test]
    fn all_steps_together_fit_into_the_whole_run_on_two_cores() {
        let all: u64 = ROWS.iter().map(|row| row.seconds).sum();
        assert!(all <= 2 * WHOLE_RUN.as_secs(), "{all} s of processor time");
    }
}
