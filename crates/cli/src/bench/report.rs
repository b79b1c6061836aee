//! The result of a benchmark, as text and as JSON.

use std::fmt;
use std::time::Duration;
use zerohop_wire::plurals::counted;

use serde::Serialize;

use super::histogram::Histogram;

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
    pub(super) phases: Vec<OperationReport>,
    /// The first wrong answer.
    pub(super) wrong: Option<String>,
}

/// One kind of operation. Latencies are in microseconds, as a client sees them.
#[derive(Debug, Serialize)]
pub(super) struct OperationReport {
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

impl OperationReport {
    pub(super) fn new(operation: &'static str, latencies: &Histogram, took: Duration) -> Self {
        let seconds = took.as_secs_f64();
        OperationReport {
            operation,
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

/// Writes a line for each kind of operation.
pub(super) fn write_operations<'r>(
    f: &mut fmt::Formatter<'_>,
    operations: impl IntoIterator<Item = &'r OperationReport>,
) -> fmt::Result {
    let operations: Vec<&OperationReport> = operations.into_iter().collect();
    let width = operations.iter().map(|one| one.operation.len()).max().unwrap_or_default().max(8);
    writeln!(
        f,
        "{:<width$} {:>10} {:>8} {:>10} {:>9} {:>9} {:>9} {:>9} {:>9}",
        "", "operations", "seconds", "per second", "p50 us", "p90 us", "p99 us", "p99.9 us", "max us"
    )?;
    for one in operations {
        writeln!(
            f,
            "{:<width$} {:>10} {:>8.2} {:>10.0} {:>9.1} {:>9.1} {:>9.1} {:>9.1} {:>9.1}",
            one.operation,
            one.ops,
            one.seconds,
            one.ops_per_second,
            one.p50_us,
            one.p90_us,
            one.p99_us,
            one.p999_us,
            one.max_us
        )?;
    }
    Ok(())
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
        write_operations(f, &self.phases)?;
        match &self.wrong {
            None => write!(f, "\nEvery answer was right, and no key is left behind."),
            Some(wrong) => write!(f, "\nWRONG: {wrong}. Please report this with the lines above."),
        }
    }
}
