//! The report of a run: one line of JSON, the same from a Rust subject and a C++ peer.

use serde::{Deserialize, Serialize};

use crate::crash_safety::CrashSafe;

/// All phases of one subject in one round.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Run {
    pub(crate) subject: String,
    /// The library's version, as it reports it.
    pub(crate) version: String,
    pub(crate) mode: String,
    pub(crate) crash_safe: CrashSafe,
    pub(crate) records: u64,
    pub(crate) partitions: usize,
    /// What the harness itself costs an operation: key, value, clock. It is part of every sample and rate.
    pub(crate) harness_ns: f64,
    pub(crate) phases: Vec<Phase>,
}

impl Run {
    /// The phase of that name, if it was run.
    pub(crate) fn phase(&self, name: &str) -> Option<&Phase> {
        self.phases.iter().find(|phase| phase.name == name)
    }
}

/// One phase of a run. Sizes are those after the phase has settled; memory is the growth of the
/// process since before the store was opened.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Phase {
    pub(crate) name: String,
    pub(crate) ops: u64,
    /// Wall time of all operations, without settling.
    pub(crate) seconds: f64,
    pub(crate) settle_seconds: f64,
    pub(crate) p50_ns: u32,
    pub(crate) p99_ns: u32,
    pub(crate) p999_ns: u32,
    pub(crate) longest_ns: u32,
    /// CPU time of all threads of the process, user and system.
    pub(crate) cpu_seconds: f64,
    pub(crate) settle_cpu_seconds: f64,
    /// Allocated blocks of all files, as `du` counts.
    pub(crate) disk_bytes: u64,
    /// Resident memory, with mapped files.
    pub(crate) rss_bytes: u64,
    /// Resident memory, without mapped files.
    pub(crate) anonymous_bytes: u64,
    /// The store's own figure.
    pub(crate) own_memory_bytes: Option<u64>,
}

impl Phase {
    /// Operations per second.
    pub(crate) fn rate(&self) -> f64 {
        self.ops as f64 / self.seconds
    }

    /// Operations per second with the time to settle: the sustainable rate.
    pub(crate) fn sustainable_rate(&self) -> f64 {
        self.ops as f64 / (self.seconds + self.settle_seconds)
    }

    /// CPU microseconds per operation, settling included, since background threads work in both.
    pub(crate) fn cpu_us(&self) -> f64 {
        (self.cpu_seconds + self.settle_cpu_seconds) * 1e6 / self.ops as f64
    }
}
