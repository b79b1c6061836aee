//! Scenarios with targets for zerohop alone: shared syncs, recovery, compaction under load.
//!
//! ```text
//!   main ── run ── rounds ── child ──▶ bench-engine --run-scenario NAME --variant … --partitions …
//!              └── report ◀── a line of JSON each: figures by name
//! ```
//!
//! To add one: a file beside this one with a constant [`Scenario`], and a line in [`REGISTRY`].

mod compaction;
mod log;
mod recovery;
mod report;
mod sync;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

pub(crate) use report::{ScenarioSummary, write};

use crate::failure::Failure;
use crate::measure::now;
use crate::subjects::Subject;
use crate::subjects::zerohop::Zerohop;
use crate::workload::{Draws, Records, VALUE_BYTES, below};

/// A scenario: each variant, on each number of partitions, in its own process.
pub(crate) struct Scenario {
    /// Name on the command line.
    pub(crate) name: &'static str,
    /// Description of the work and the figures, printed above the table.
    pub(crate) about: &'static str,
    /// Default number of records.
    pub(crate) records: u64,
    /// Default number of rounds.
    pub(crate) rounds: usize,
    /// It waits for the disk at every batch, so it has a longer time limit.
    pub(crate) flushes: bool,
    /// The variants that are compared at one number of partitions.
    pub(crate) variants: &'static [&'static str],
    /// Measures one case in this process.
    pub(crate) run: fn(&Case) -> Result<ScenarioReading, Failure>,
    /// The targets of the figures.
    pub(crate) targets: fn(partitions: &[usize]) -> Vec<Target>,
}

/// All scenarios, in the order of the report.
pub(crate) const REGISTRY: &[&Scenario] =
    &[&sync::SCENARIO, &recovery::SCENARIO, &compaction::SCENARIO, &log::SCENARIO];

/// The case that a child measures.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    /// An empty folder.
    pub(crate) dir: PathBuf,
    pub(crate) records: u64,
    pub(crate) partitions: usize,
    pub(crate) variant: String,
    /// The round: it gives other keys in each, the same for all variants.
    pub(crate) seed: u64,
}

/// The measurement of a child, in the order of the table.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct ScenarioReading {
    pub(crate) figures: Vec<Figure>,
}

/// One figure.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Figure {
    /// Its name, with the unit.
    pub(crate) name: String,
    pub(crate) value: f64,
}

/// The target of a figure, or of its ratio to another case.
pub(crate) struct Target {
    pub(crate) figure: &'static str,
    /// The label of the case.
    pub(crate) of: String,
    /// The figure of this case in the same round is the divisor.
    pub(crate) over: Option<String>,
    pub(crate) bound: Bound,
}

/// The bound of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Bound {
    AtLeast(f64),
    Below(f64),
}

/// The label of a case in the tables.
pub(crate) fn label(partitions: usize, variant: &str) -> String {
    if variant.is_empty() { partitions.to_string() } else { format!("{partitions} {variant}") }
}

/// The scenario of that name.
pub(crate) fn find(name: &str) -> Result<&'static Scenario, Failure> {
    REGISTRY
        .iter()
        .copied()
        .find(|scenario| scenario.name == name)
        .ok_or_else(|| Failure::Usage(format!("no scenario is called {name}")))
}

impl ScenarioReading {
    fn put(&mut self, name: &str, value: f64) {
        self.figures.push(Figure { name: name.into(), value });
    }

    pub(crate) fn get(&self, name: &str) -> Option<f64> {
        self.figures.iter().find(|figure| figure.name == name).map(|figure| figure.value)
    }
}

/// The engine's clock: milliseconds since the case began.
struct Clock(Instant);

impl Clock {
    fn start() -> Clock {
        Clock(now())
    }

    fn ms(&self) -> u64 {
        self.elapsed().as_millis() as u64
    }

    fn elapsed(&self) -> Duration {
        now() - self.0
    }
}

/// Looks up so many uniformly drawn records and checks each.
fn check_some(store: &mut Zerohop, records: &Records, count: u64, lookups: u64) -> Result<(), Failure> {
    let mut draws = Draws::new(records.seed.wrapping_add(5));
    let mut found = [0; VALUE_BYTES];
    for _ in 0..lookups {
        let index = below(draws.next(), count);
        if !store.lookup(&records.key(index), &mut found)? {
            return Err(Failure::WrongAnswer { index, what: "is missing" });
        }
        if found != records.value(index, 0) {
            return Err(Failure::WrongAnswer { index, what: "has a wrong value" });
        }
    }
    Ok(())
}

fn us(ns: u32) -> f64 {
    f64::from(ns) / 1e3
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
