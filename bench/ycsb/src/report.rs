//! The results: everything measured as JSON, and how to read the tables.

use bench_common::Machine;
use bench_common::report::Summary;
use serde::Serialize;

/// The output of `--json`.
#[derive(Serialize)]
pub(crate) struct Report {
    pub(crate) machine: Machine,
    pub(crate) setting: YcsbSetting,
    pub(crate) missing: Vec<String>,
    /// One of each mode and workload.
    pub(crate) scenarios: Vec<Summary>,
}

/// The arguments of all runs.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct YcsbSetting {
    pub(crate) records: u64,
    pub(crate) value_bytes: u32,
    pub(crate) seconds: u64,
    pub(crate) clients: u32,
    pub(crate) depth: u32,
    pub(crate) rounds: u64,
    /// Of the servers, and of the clients.
    pub(crate) cores: Vec<usize>,
    pub(crate) client_cores: Vec<usize>,
}

impl Report {
    /// How to read the tables.
    pub(crate) fn notes(&self) -> String {
        let YcsbSetting { records, value_bytes, seconds, clients, depth, cores, client_cores, .. } =
            &self.setting;
        format!(
            "\nMedians over rounds with [least-greatest]; ratios are computed within each round before their median. Every answer was checked: a wrong one \
             is listed as a failure.\n\
             {records} records of {value_bytes} bytes; {clients} clients with {depth} operations under way each, one thread; {seconds} s for each workload; \
             servers on cores {cores:?}, clients on cores {client_cores:?}\n{}",
            self.machine
        )
    }
}
