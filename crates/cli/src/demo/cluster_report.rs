//! The results of the part with a cluster.

use std::fmt;

use serde::Serialize;
use zerohop_wire::plurals::counted;

use super::fault::Fault;

/// The next line of a row: no line of the report is wider than 80 columns, however many files there are.
pub(super) const CONTINUED: &str = "\n                           ";

/// The results, as the report has them. Times in seconds, rates in megabytes (10^6 bytes) a second.
#[derive(Debug, Default, Serialize)]
pub(super) struct ClusterReport {
    pub(super) nodes: u16,
    /// Copies of every file, and how many must have it before it is acknowledged.
    pub(super) replicas: u32,
    pub(super) min_in_sync: u32,
    pub(super) write_seconds: f64,
    pub(super) write_mb_per_second: f64,
    /// Files acknowledged before one node was killed.
    pub(super) acknowledged: u64,
    /// Files acknowledged before or after the kill.
    pub(super) files: u64,
    /// Until the killed node was back, and in sync.
    pub(super) return_seconds: f64,
    /// Until the fourth node had its share, and the number of partition copies in it.
    pub(super) join_seconds: f64,
    pub(super) join_copies: u32,
    /// Until the drained node had no partitions.
    pub(super) drain_seconds: f64,
    /// Files that are intact at the end, including those acknowledged before the kill.
    pub(super) whole: u64,
    pub(super) verified: u64,
    pub(super) foreign_keys: u64,
    #[serde(skip)]
    pub(super) faults: Vec<Fault>,
}

impl ClusterReport {
    /// Whether all results are as they must be.
    pub(super) fn is_well(&self) -> bool {
        self.whole == self.files && self.verified == self.acknowledged && self.foreign_keys == 0
    }
}

impl fmt::Display for ClusterReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "  cluster  {:>8.1} MB/s   {:.2} s, {}, {}, {} of them in sync;{CONTINUED}one node killed after {}",
            self.write_mb_per_second,
            self.write_seconds,
            counted(self.nodes, "node"),
            counted(self.replicas, "copy"),
            self.min_in_sync,
            counted(self.acknowledged, "file")
        )?;
        writeln!(
            f,
            "  return   {:>8.0} ms     until the killed node had all its copies again",
            self.return_seconds * 1e3
        )?;
        writeln!(
            f,
            "  grow     {:>8.0} ms     until a fourth node had its share:{CONTINUED}{}",
            self.join_seconds * 1e3,
            format_args!("{} of partitions", counted(self.join_copies, "copy"))
        )?;
        writeln!(f, "  shrink   {:>8.0} ms     until another was emptied", self.drain_seconds * 1e3)?;
        writeln!(
            f,
            "  verify   {:>8} files  of {} are whole after all that; {}",
            self.whole,
            self.files,
            counted(self.foreign_keys, "strange key")
        )
    }
}
