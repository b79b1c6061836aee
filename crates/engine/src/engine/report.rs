//! Reports and statistics of the engine.

use std::fmt;

use crate::PartitionId;
use crate::log::LogSizes;
use crate::store::recover::PartitionReport;

/// Damage on disk: bytes that are not as they were written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The partition.
    pub partition: PartitionId,
    /// The kind of damage.
    pub kind: DamageKind,
    /// File and offset.
    pub place: String,
}

/// An entry whose payload is not as written; its head and key are intact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CorruptEntry {
    /// Its epoch.
    pub epoch: u32,
    /// Its log index.
    pub index: u64,
}

/// The position at which a scrub continues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScrubFrom {
    /// First log index of the segment.
    pub(crate) index: u64,
    /// How often the segment was rewritten.
    pub(crate) generation: u32,
    /// Offset in it.
    pub(crate) offset: u64,
}

/// The result of a step of a scrub.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScrubStep {
    /// The next position; `None`: everything has been read.
    pub next: Option<ScrubFrom>,
    /// Bytes read.
    pub bytes: u64,
    /// Entries that can be repaired.
    pub corrupt: Vec<CorruptEntry>,
    /// The scrub found bytes that are no entry; the original entry cannot be determined.
    pub is_unreadable: bool,
}

/// A kind of damage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DamageKind {
    /// An entry's payload is corrupt. Reading its key returns an error.
    Entry {
        /// Its log index.
        index: u64,
        /// Its key.
        key: Vec<u8>,
    },
    /// Bytes without a readable entry; the original entry is lost.
    Unreadable {
        /// Log index of the last good entry before them; 0 if unknown.
        after: u64,
    },
    /// Missing entries.
    Missing {
        /// First log index.
        from: u64,
        /// Last log index.
        through: u64,
    },
    /// A checkpoint; an older one or the log was used instead.
    Checkpoint,
    /// The journal.
    Journal,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Damage { partition, place, .. } = self;
        match &self.kind {
            DamageKind::Entry { index, key } => write!(
                f,
                "partition {partition}: the value of key {:?} (entry {index}) at {place} is corrupt; reading it will say so",
                String::from_utf8_lossy(key)
            ),
            DamageKind::Unreadable { after } => {
                write!(f, "partition {partition}: unreadable bytes at {place}, after entry {after}")
            }
            DamageKind::Missing { from, through } => {
                write!(f, "partition {partition}: entries {from} to {through} are missing at {place}")
            }
            DamageKind::Checkpoint => write!(f, "partition {partition}: a checkpoint was not used: {place}"),
            DamageKind::Journal => write!(f, "the journal has unreadable bytes at {place}"),
        }
    }
}

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
