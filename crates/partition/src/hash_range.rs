//! The keys that a partition owns. After a split it still has its sibling's records for a while.

use zerohop_placement::{HashKind, Keyspace, PartitionCount, partition_of};
use zerohop_transaction::KeyspaceRange;
use zerohop_wire::blob::routed;
use zerohop_wire::ids::{KeyspaceId, PartitionId};

/// A partition's part of the hash space of its keyspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashRange {
    keyspace: KeyspaceId,
    hash: HashKind,
    seed: u64,
    partitions: PartitionCount,
    partition: PartitionId,
    splits: u8,
}

impl HashRange {
    /// The hash range of a partition of a keyspace, as the map has it now.
    #[must_use]
    pub fn of(id: KeyspaceId, keyspace: &Keyspace, partition: PartitionId) -> HashRange {
        let config = keyspace.config();
        let (hash, seed, partitions) = (config.hash, config.seed, config.partitions);
        HashRange { keyspace: id, hash, seed, partitions, partition, splits: keyspace.splits() }
    }

    /// The hash range of a keyspace with one partition and a fixed seed, for tests.
    ///
    /// # Panics
    /// Never.
    #[must_use]
    pub fn whole() -> HashRange {
        let partitions = PartitionCount::new(1).expect("is a power of two");
        let (keyspace, partition) = (KeyspaceId(1), PartitionId(0));
        HashRange { keyspace, hash: HashKind::Xxh3, seed: 7, partitions, partition, splits: 0 }
    }

    /// Whether a key belongs to the partition.
    #[must_use]
    #[inline]
    pub fn owns(&self, key: &[u8]) -> bool {
        self.partitions.bits() == 0 || partition_of(self.hash(key), self.partitions) == self.partition
    }

    /// The hash by which a key is placed, and locked in transactions.
    pub(crate) fn hash(&self, key: &[u8]) -> u64 {
        self.hash.hash(self.seed, routed(key))
    }

    /// The range of its hashes.
    #[must_use]
    pub fn keyspace_range(&self) -> KeyspaceRange {
        let bits = self.partitions.bits();
        // One partition has no bits; the wider shift keeps it from being a special case.
        let first = (u128::from(self.partition.0) << (64 - bits)) as u64;
        let last = first | u64::MAX.checked_shr(bits).unwrap_or(0);
        KeyspaceRange { keyspace: self.keyspace, first, last }
    }

    /// The number of splits of the keyspace that have led to this hash range.
    pub(crate) fn splits(&self) -> u8 {
        self.splits
    }

    /// The number of such hash ranges in the keyspace.
    pub(crate) fn count(&self) -> u32 {
        self.partitions.get()
    }
}
