//! The result of a run, as text and as JSON.

use std::fmt;

use serde::Serialize;
use zerohop_wire::plurals::counted;
use zerohop_ycsb::YcsbWorkload;

use super::super::report::{OperationReport, write_operations};

#[derive(Debug, Serialize)]
pub(super) struct YcsbReport {
    /// Whether every answer was correct.
    pub(super) ok: bool,
    pub(super) workload: YcsbWorkload,
    pub(super) clients: u32,
    pub(super) depth: u32,
    /// Records that are loaded.
    pub(super) records: u64,
    pub(super) value_bytes: u32,
    pub(super) keyspace: String,
    pub(super) durability: String,
    /// Of the load.
    pub(super) load: Option<OperationReport>,
    /// Of all operations of the run.
    pub(super) ops_per_second: f64,
    pub(super) operations: Vec<OperationReport>,
    /// The first wrong answer.
    pub(super) wrong: Option<String>,
}

impl fmt::Display for YcsbReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let YcsbReport { workload, clients, depth, records, value_bytes, keyspace, durability, .. } = self;
        writeln!(
            f,
            "workload {workload:?}, {}, {depth} outstanding each, one thread; {} of {}; keyspace {keyspace} ({durability})\n",
            counted(*clients, "client"),
            counted(*records, "record"),
            counted(*value_bytes, "byte")
        )?;
        write_operations(f, self.load.iter().chain(&self.operations))?;
        writeln!(f, "\nThe run: {:.0} operations per second", self.ops_per_second)?;
        match &self.wrong {
            None => write!(f, "\nEvery answer was right, and no key is left behind."),
            Some(wrong) => write!(f, "\nWRONG: {wrong}. Please report this with the lines above."),
        }
    }
}
