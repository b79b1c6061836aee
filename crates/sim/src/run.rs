//! One run of one seed, and its report.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::check::{Violation, check};
use crate::cluster::{Limits, SimulatedCluster};
use crate::coverage::Coverage;
use crate::programs::ClientPrograms;
use crate::trace::LineRetention;
use crate::world::NodeWorld;

/// The result of a run.
#[derive(Clone, Debug)]
pub struct RunReport {
    /// Its seed.
    pub seed: u64,
    /// Digest of every event and every byte that was sent.
    pub digest: u64,
    /// Violated invariants.
    pub violations: Vec<Violation>,
    /// Its coverage.
    pub coverage: Coverage,
    /// The trace, as far as it was kept.
    pub lines: Vec<String>,
}

/// Runs a seed and checks its history.
#[must_use]
pub fn run(seed: u64, keep: LineRetention) -> RunReport {
    let mut world = NodeWorld::new(seed, keep);
    // A broken assertion is a finding like any other; the trace shows its cause.
    let played = catch_unwind(AssertUnwindSafe(|| world.run()));
    let mut violations: Vec<Violation> = Vec::new();
    let mut coverage = world.coverage.clone();
    match played {
        Ok(()) => {
            let findings = check(&world.history);
            coverage.sections = findings.sections as u64;
            coverage.undecided = findings.undecided as u64;
            violations = findings.violations;
        }
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("without words");
            violations.push(Violation { checker: "panic", what: text.to_owned() });
        }
    }
    let troubles = world.violations.drain(..).map(|what| Violation { checker: "world", what });
    violations.extend(troubles);
    RunReport { seed, digest: world.trace.digest(), violations, coverage, lines: world.trace.into_lines() }
}

/// Runs a seed with a cluster, and checks its history.
#[must_use]
pub fn run_cluster(seed: u64, limits: Limits, keep: LineRetention) -> RunReport {
    play_cluster(seed, SimulatedCluster::new(seed, keep, limits))
}

/// Runs a seed with a cluster whose clients run programs.
#[must_use]
pub fn run_programs(seed: u64, programs: Box<dyn ClientPrograms>, keep: LineRetention) -> RunReport {
    play_cluster(seed, SimulatedCluster::with_programs(seed, keep, programs))
}

fn play_cluster(seed: u64, mut world: SimulatedCluster) -> RunReport {
    let played = catch_unwind(AssertUnwindSafe(|| world.run()));
    let troubles = world.violations.drain(..).map(|(checker, what)| Violation { checker, what });
    let mut violations: Vec<Violation> = troubles.collect();
    let mut coverage = world.coverage.clone();
    match played {
        Ok(()) => {
            let findings = check(&world.history);
            coverage.sections = findings.sections as u64;
            coverage.undecided = findings.undecided as u64;
            coverage.transactions = findings.transactions as u64;
            violations.extend(findings.violations);
            let wrong = world.programs.programs.iter_mut().flat_map(|programs| programs.violations());
            violations.extend(wrong.map(|what| Violation { checker: "programs", what }));
        }
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("without words");
            violations.push(Violation { checker: "panic", what: text.to_owned() });
        }
    }
    RunReport { seed, digest: world.trace.digest(), violations, coverage, lines: world.trace.into_lines() }
}

/// Runs a seed twice: the second run must equal the first, to the byte.
#[must_use]
pub fn run_twice(seed: u64) -> RunReport {
    let mut first = run(seed, LineRetention::Nothing);
    let second = run(seed, LineRetention::Nothing);
    if first.digest != second.digest {
        let what = format!("two runs of one seed differ: {:016x} and {:016x}", first.digest, second.digest);
        first.violations.push(Violation { checker: "digest", what });
    }
    first
}
