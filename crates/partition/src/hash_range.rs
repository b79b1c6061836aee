//! The keys that a partition owns: those of a range of hashes, or of keys if the keyspace is ordered. After a split it still has its sibling's
//! records for a while.

use zerohop_placement::{HashKind, Keyspace, PartitionCount, Separators, partition_of};
use zerohop_transaction::KeyspaceRange;
use zerohop_wire::blob::routed;
use zerohop_wire::ids::{KeyspaceId, PartitionId};

use crate::planted::{Bug, is_planted};

/// A partition's part of the hash space of its keyspace. In an ordered keyspace, the part of its cells
/// ([`KeyspaceConfig::cell`](zerohop_placement::KeyspaceConfig::cell)).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HashRange {
    keyspace: KeyspaceId,
    hash: HashKind,
    seed: u64,
    partitions: PartitionCount,
    /// Of an ordered keyspace.
    separators: Separators,
    partition: PartitionId,
    splits: u8,
}

impl HashRange {
    /// The hash range of a partition of a keyspace, as the map has it now.
    #[must_use]
    pub fn of(id: KeyspaceId, keyspace: &Keyspace, partition: PartitionId) -> HashRange {
        let config = keyspace.config();
        let (hash, seed, partitions) = (config.hash, config.seed, config.partitions);
        let (separators, splits) = (config.separators.clone(), keyspace.splits());
        HashRange { keyspace: id, hash, seed, partitions, separators, partition, splits }
    }

    /// The hash range of a keyspace with one partition and a fixed seed, for tests.
    ///
    /// # Panics
    /// Never.
    #[must_use]
    pub fn whole() -> HashRange {
        let partitions = PartitionCount::new(1).expect("is a power of two");
        let (keyspace, partition, separators) = (KeyspaceId(1), PartitionId(0), Separators::NONE);
        HashRange { keyspace, hash: HashKind::Xxh3, seed: 7, partitions, separators, partition, splits: 0 }
    }

    /// Whether a key belongs to the partition.
    #[must_use]
    #[inline]
    pub fn owns(&self, key: &[u8]) -> bool {
        match self.separators.is_empty() {
            true => {
                self.partitions.bits() == 0 || partition_of(self.cell(key), self.partitions) == self.partition
            }
            false => self.separators.has(self.partition, routed(key)),
        }
    }

    /// The cell of a key, by which transactions lock it.
    pub(crate) fn cell(&self, key: &[u8]) -> u64 {
        let key = routed(key);
        self.separators.cell(key, self.hash.hash(self.seed, key))
    }

    /// The lock key of a key of a request. It is the one by which transactions lock the key.
    pub(crate) fn lock_key(&self, key: &[u8]) -> u64 {
        match is_planted(Bug::RegionIntentsByHash) {
            true => self.hash.hash(self.seed, routed(key)),
            false => self.cell(key),
        }
    }

    /// The range of its hashes, or cells.
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
