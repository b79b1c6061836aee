//! What a store tells about itself.

use std::time::Duration;

use zerohop_engine::{PartitionStats, RecoveryReport};

/// How a store stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreStats {
    /// Worker threads.
    pub instances: u64,
    /// Partitions.
    pub partitions: u64,
    /// Records.
    pub records: u64,
    /// Bytes of the logs' segments.
    pub log_bytes: u64,
    /// Bytes of them that nothing refers to any more.
    pub dead_bytes: u64,
    /// Bytes of the journals' files.
    pub journal_bytes: u64,
    /// Memory of log blocks, in bytes.
    pub resident_bytes: u64,
    /// Memory of indexes and tables, in bytes.
    pub overhead_bytes: u64,
    /// What went wrong in the background since the store was opened, the newest of each instance.
    pub trouble: Vec<String>,
}

impl StoreStats {
    pub(super) fn add_partition(&mut self, partition: &PartitionStats) {
        self.partitions += 1;
        self.records += partition.records;
        self.log_bytes += partition.log.bytes;
        self.dead_bytes += partition.log.dead_bytes;
        self.overhead_bytes += partition.overhead_bytes;
    }

    pub(super) fn add(&mut self, other: StoreStats) {
        self.instances += other.instances;
        self.partitions += other.partitions;
        self.records += other.records;
        self.log_bytes += other.log_bytes;
        self.dead_bytes += other.dead_bytes;
        self.journal_bytes += other.journal_bytes;
        self.resident_bytes += other.resident_bytes;
        self.overhead_bytes += other.overhead_bytes;
        self.trouble.extend(other.trouble);
    }
}

/// What opening a store found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// How long it took, all workers side by side.
    pub took: Duration,
    /// Entries taken from checkpoints.
    pub from_checkpoint: u64,
    /// Entries read from the logs behind them.
    pub from_log: u64,
    /// Entries taken from journals.
    pub from_journal: u64,
    /// Bytes of torn tails that were cut off.
    pub torn_bytes: u64,
    /// Things that are corrupt or missing; the store's `damage` names them.
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
