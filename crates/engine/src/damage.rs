//! Damage on disk, as it is reported.

use std::fmt;

use crate::ids::PartitionId;

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
