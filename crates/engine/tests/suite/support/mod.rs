//! A property test of the engine: random operations, crashes and faults on a simulated disk,
//! compared with a plain model.
//!
//! ```text
//!   plan        the parameters of a seed: options, partitions, faults
//!   world       engine, disk and models; one step is one random operation  (ops)
//!   recover     a stop of the engine, and the check of what is restored    (checks)
//!   repair      an entry becomes corrupt, and is repaired
//!   corruption  the last phase of some seeds: bytes on the disk change
//! ```
//!
//! `log_world` is the model of the log of an instance, with `log_model`, `log_compaction` and `log_checks`.
//!
//! A seed determines everything. Errors are text, and panics of the engine count as errors.

#![allow(unreachable_pub, missing_docs, reason = "helpers of tests, which have no public")]

pub mod checks;
pub mod corruption;
pub mod log_checks;
pub mod log_compaction;
pub mod log_model;
pub mod log_world;
pub mod model;
pub mod ops;
pub mod part;
pub mod plan;
pub mod recover;
pub mod repair;
pub mod split;
pub mod units;
pub mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};

use zerohop_engine::disk::simulated::SimulatedDisk;

pub type TestEngine = zerohop_engine::Engine<SimulatedDisk>;

/// Runs one seed, over one log of all partitions if `is_shared`. The error is the first difference.
pub fn run_seed(seed: u64, is_shared: bool) -> Result<(), String> {
    let trace = std::env::var_os("ZEROHOP_TRACE").is_some();
    let mut world = world::EngineWorld::new(seed, is_shared, trace);
    let played = catch_unwind(AssertUnwindSafe(|| world.run()));
    let result = played.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Err(format!("panic: {}", text.unwrap_or_default()))
    });
    result.map_err(|wrong| {
        let traced = if trace { format!("{}\n", world.trace.join("\n")) } else { String::new() };
        format!("{traced}seed {seed}, step {}: {wrong}", world.step)
    })
}

/// The seeds of `ZEROHOP_SEEDS=from..to`, or this many from 0.
pub fn seeds(usual: u64) -> std::ops::Range<u64> {
    let Ok(text) = std::env::var("ZEROHOP_SEEDS") else { return 0..usual };
    let parsed = text.split_once("..").and_then(|(from, to)| Some(from.parse().ok()?..to.parse().ok()?));
    parsed.unwrap_or_else(|| panic!("ZEROHOP_SEEDS={text} is not FROM..TO"))
}
