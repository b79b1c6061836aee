//! A step that has succeeded, and its line.

use std::time::Duration;

/// A step that has succeeded.
#[derive(Clone, Debug, PartialEq)]
pub struct CompletedStep {
    /// Its name.
    pub step: &'static str,
    /// Elapsed time.
    pub took: Duration,
    /// Processor time, including children.
    pub cost: Duration,
    /// A summary.
    pub summary: String,
}

/// The line of a step.
pub fn line(verdict: &str, done: &CompletedStep) -> String {
    let CompletedStep { step, took, cost, summary: summary_line } = done;
    format!(
        "xtask: {verdict:6} {step:11} {:7.1} s {:7.1} s of processor  {summary_line}",
        took.as_secs_f64(),
        cost.as_secs_f64()
    )
    .trim_end()
    .to_owned()
}
