//! Which keys a partition owns: after a split it holds, for a while, what its sister owns too.

use zerohop_placement::{HashKind, Keyspace, PartitionCount, partition_of};
use zerohop_wire::ids::PartitionId;

/// A partition's slice of the hashes of its keyspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    hash: HashKind,
    seed: u64,
    partitions: PartitionCount,
    partition: PartitionId,
    splits: u8,
}

impl Slice {
    /// That of a partition of a keyspace as the map has it now.
    #[must_use]
    pub fn of(keyspace: &Keyspace, partition: PartitionId) -> Slice {
        let config = keyspace.config();
        let (hash, seed, partitions) = (config.hash, config.seed, config.partitions);
        Slice { hash, seed, partitions, partition, splits: keyspace.splits() }
    }

    /// Whether a key is one of its own.
    #[must_use]
    pub fn owns(&self, key: &[u8]) -> bool {
        partition_of(self.hash.hash(self.seed, key), self.partitions) == self.partition
    }

    /// How often the keyspace was split until it was cut so.
    pub(crate) fn splits(&self) -> u8 {
        self.splits
    }

    /// How many such slices there are.
    pub(crate) fn count(&self) -> u32 {
        self.partitions.get()
    }
}
