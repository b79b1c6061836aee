//! Reports and statistics of the engine.

use crate::damage::Damage;
use crate::ids::PartitionId;
use crate::log::LogSizes;
use crate::store::recover::PartitionReport;

/// The findings of opening an engine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// Partition by partition.
    pub partitions: Vec<(PartitionId, PartitionReport)>,
    /// Damage to the journal.
    pub journal: Vec<Damage>,
}

impl RecoveryReport {
    /// All corrupt and missing parts.
    pub fn damage(&self) -> impl Iterator<Item = &Damage> {
        self.journal.iter().chain(self.partitions.iter().flat_map(|(_, p)| &p.damage))
    }
}

/// Statistics of a partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartitionStats {
    /// Records.
    pub records: u64,
    /// Epoch and index of the last entry.
    pub last: (u32, u64),
    /// Log index of the last committed entry.
    pub commit: u64,
    /// Log index of the last entry that survives a crash.
    pub durable: u64,
    /// Its log.
    pub log: LogSizes,
    /// Bytes of its newest checkpoint.
    pub checkpoint_bytes: u64,
    /// Memory of its indexes and tables, in bytes.
    pub overhead_bytes: u64,
    /// Memory of its hash index alone.
    pub index_bytes: u64,
    /// Older versions kept.
    pub versions: u64,
    /// The disk has failed under its log: it accepts no writes before it is opened again.
    pub has_failed: bool,
}

/// Statistics of an engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EngineStats {
    /// Partitions open.
    pub partitions: u64,
    /// Memory of log blocks, in bytes.
    pub resident_bytes: u64,
    /// Bytes of journal files.
    pub journal_bytes: u64,
    /// The work of maintenance since the engine was opened.
    pub maintenance: MaintenanceCounts,
}

/// Counters of maintenance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MaintenanceCounts {
    /// Started syncs of one partition's segments.
    pub segment_syncs: u64,
    /// Completed checkpoints.
    pub checkpoints: u64,
    /// Completed compactions of one partition.
    pub compactions: u64,
}
