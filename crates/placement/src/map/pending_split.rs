//! Splits that wait for the primaries of their partitions.

use zerohop_wire::ids::PartitionId;

/// The partitions that are to be split.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PendingSplit {
    /// All partitions of a hashed keyspace.
    Keyspace,
    /// A region of an ordered keyspace.
    Region {
        /// The region.
        region: PartitionId,
        /// The lowest key of its right child.
        separator: Box<[u8]>,
        /// The left child's share of the points, of 256.
        share: u8,
    },
}

impl PendingSplit {
    /// Whether a partition is to be split.
    #[must_use]
    pub fn covers(&self, partition: PartitionId) -> bool {
        match self {
            PendingSplit::Keyspace => true,
            PendingSplit::Region { region, .. } => *region == partition,
        }
    }
}
