//! The result of a benchmark, as text and as JSON.

use std::fmt;
use std::time::Duration;
use zerohop_wire::plurals::counted;

use serde::Serialize;

use super::histogram::Histogram;
use super::kv_phase::KvPhase;

#[derive(Debug, Serialize)]
pub(super) struct KvBenchReport {
    /// Whether every answer was correct.
    pub(super) ok: bool,
    pub(super) clients: u32,
    pub(super) depth: u32,
    pub(super) threads: u32,
    /// Operations of each phase.
    pub(super) ops: u64,
    pub(super) key_bytes: u32,
    pub(super) value_bytes: u32,
    pub(super) keyspace: String,
    pub(super) durability: String,
    pub(super) phases: Vec<KvPhaseReport>,
    /// The first wrong answer.
    pub(super) wrong: Option<String>,
}

/// One phase. Latencies are in microseconds, as a client sees them.
#[derive(Debug, Serialize)]
pub(super) struct KvPhaseReport {
    operation: &'static str,
    ops: u64,
    seconds: f64,
    ops_per_second: f64,
    mean_us: f64,
    p50_us: f64,
    p90_us: f64,
    p99_us: f64,
    p999_us: f64,
    max_us: f64,
}

impl KvPhaseReport {
    pub(super) fn new(phase: KvPhase, latencies: &Histogram, took: Duration) -> Self {
        let seconds = took.as_secs_f64();
        KvPhaseReport {
            operation: phase.name(),
            ops: latencies.count(),
            seconds,
            ops_per_second: if seconds > 0.0 { latencies.count() as f64 / seconds } else { 0.0 },
            mean_us: latencies.mean_us(),
            p50_us: latencies.percentile_us(0.5),
            p90_us: latencies.percentile_us(0.9),
            p99_us: latencies.percentile_us(0.99),
            p999_us: latencies.percentile_us(0.999),
            max_us: latencies.max_us(),
        }
    }
}

impl fmt::Display for KvBenchReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let KvBenchReport { clients, depth, threads, key_bytes, value_bytes, keyspace, durability, .. } =
            self;
        writeln!(
            f,
            "{}, {depth} outstanding each, {}; keys of {}, values of {value_bytes}; keyspace {keyspace} ({durability})\n",
            counted(*clients, "client"),
            counted(*threads, "client thread"),
            counted(*key_bytes, "byte")
        )?;
        writeln!(
            f,
            "{:<8} {:>10} {:>8} {:>10} {:>9} {:>9} {:>9} {:>9} {:>9}",
            "", "operations", "seconds", "per second", "p50 us", "p90 us", "p99 us", "p99.9 us", "max us"
        )?;
        for phase in &self.phases {
            writeln!(
                f,
                "{:<8} {:>10} {:>8.2} {:>10.0} {:>9.1} {:>9.1} {:>9.1} {:>9.1} {:>9.1}",
                phase.operation,
                phase.ops,
                phase.seconds,
                phase.ops_per_second,
                phase.p50_us,
                phase.p90_us,
                phase.p99_us,
                phase.p999_us,
                phase.max_us
            )?;
        }
        match &self.wrong {
            None => write!(f, "\nEvery answer was right, and no key is left behind."),
            Some(wrong) => write!(f, "\nWRONG: {wrong}. Please report this with the lines above."),
        }
    }
}
