//! Reports of a store.

use std::time::Duration;

use zerohop_engine::RecoveryReport;

/// Statistics of a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreStats {
    /// Number of worker threads.
    pub instances: u64,
    /// Number of partitions.
    pub partitions: u64,
    /// Number of records.
    pub records: u64,
    /// Size of the logs' segments, in bytes.
    pub log_bytes: u64,
    /// Dead space in them, in bytes.
    pub dead_bytes: u64,
    /// Size of the journals' files, in bytes.
    pub journal_bytes: u64,
    /// Memory of log blocks, in bytes.
    pub resident_bytes: u64,
    /// Memory of indexes and tables, in bytes.
    pub overhead_bytes: u64,
    /// Background errors since the store was opened, the newest of each instance.
    pub background_errors: Vec<String>,
}

impl StoreStats {
    pub(super) fn add(&mut self, other: StoreStats) {
        self.instances += other.instances;
        self.partitions += other.partitions;
        self.records += other.records;
        self.log_bytes += other.log_bytes;
        self.dead_bytes += other.dead_bytes;
        self.journal_bytes += other.journal_bytes;
        self.resident_bytes += other.resident_bytes;
        self.overhead_bytes += other.overhead_bytes;
        self.background_errors.extend(other.background_errors);
    }
}

/// The results of recovery when a store was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Its duration; all workers run in parallel.
    pub duration: Duration,
    /// Number of entries from checkpoints.
    pub from_checkpoint: u64,
    /// Number of entries from the logs after them.
    pub from_log: u64,
    /// Number of entries from journals.
    pub from_journal: u64,
    /// Bytes of torn tails that were cut off.
    pub torn_bytes: u64,
    /// Number of corrupt or missing parts; the store's `damage` describes them.
    pub damage: u64,
}

impl Recovery {
    pub(super) fn add(&mut self, report: &RecoveryReport) {
        for (_, partition) in &report.partitions {
            self.from_checkpoint += partition.from_checkpoint;
            self.from_log += partition.from_log;
            self.from_journal += partition.from_journal;
            self.torn_bytes += partition.torn_bytes;
        }
        self.damage += report.damage().count() as u64;
    }
}
