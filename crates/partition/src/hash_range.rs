//! The keys that a partition owns: those of a range of hashes, or of keys if the keyspace is ordered. After a split it still has its sibling's
//! records for a while.

use std::sync::Arc;

use zerohop_placement::{HashKind, KeyOrder, Keyspace};
use zerohop_transaction::KeyspaceRange;
use zerohop_wire::blob::routed;
use zerohop_wire::ids::{KeyspaceId, PartitionId};

use crate::planted::{Bug, is_planted};

/// A partition's part of the keys of its keyspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HashRange {
    hash: HashKind,
    seed: u64,
    /// Its hashes; of a region, its points.
    points: KeyspaceRange,
    region: Option<Arc<RegionBounds>>,
    /// The number of partitions of the keyspace.
    partitions: u32,
    generation: u8,
}

/// A region of an ordered keyspace.
#[derive(Debug, PartialEq, Eq)]
struct RegionBounds {
    number: PartitionId,
    begin: Box<[u8]>,
    /// None: the last region.
    end: Option<Box<[u8]>>,
}

impl HashRange {
    /// The range of a partition of a keyspace, as the map has it now; none if the map has no such partition.
    #[must_use]
    pub fn of(id: KeyspaceId, keyspace: &Keyspace, partition: PartitionId) -> Option<HashRange> {
        let (config, points) = (keyspace.config(), keyspace.division().points(partition)?);
        let region = match config.order {
            KeyOrder::Hashed => None,
            KeyOrder::Ordered => {
                let (begin, end) = keyspace.division().bounds(partition)?;
                let (begin, end) = (begin.into(), end.map(Box::from));
                Some(Arc::new(RegionBounds { number: partition, begin, end }))
            }
        };
        Some(HashRange {
            hash: config.hash,
            seed: config.seed,
            points: KeyspaceRange { keyspace: id, first: *points.start(), last: *points.end() },
            region,
            partitions: config.partitions.get(),
            generation: keyspace.generation(partition),
        })
    }

    /// The hash range of a keyspace with one partition and a fixed seed, for tests.
    #[must_use]
    pub fn whole() -> HashRange {
        let points = KeyspaceRange { keyspace: KeyspaceId(1), first: 0, last: u64::MAX };
        HashRange { hash: HashKind::Xxh3, seed: 7, points, region: None, partitions: 1, generation: 0 }
    }

    /// One of two children after the first split, for tests: of lower hashes, or of the keys below `end`.
    #[cfg(test)]
    pub(crate) fn half(end: Option<&[u8]>) -> HashRange {
        let whole = HashRange::whole();
        let points = match end {
            None => KeyspaceRange { last: u64::MAX / 2, ..whole.points },
            Some(_) => whole.points,
        };
        let number = PartitionId(2);
        let region =
            end.map(|end| Arc::new(RegionBounds { number, begin: Box::default(), end: Some(end.into()) }));
        HashRange { points, region, partitions: 2, generation: 1, ..whole }
    }

    /// Whether a key belongs to the partition.
    #[must_use]
    #[inline]
    pub fn owns(&self, key: &[u8]) -> bool {
        match &self.region {
            None => self.partitions == 1 || self.has_hash(self.lock_key(key)),
            Some(region) => {
                let key = routed(key);
                let is_below_end = region.end.as_deref().is_none_or(|end| key < end);
                &*region.begin <= key && (is_below_end || is_planted(Bug::RegionEndIgnored))
            }
        }
    }

    fn has_hash(&self, hash: u64) -> bool {
        (self.points.first..=self.points.last).contains(&hash)
    }

    /// The hash of a key, by which transactions lock it.
    pub(crate) fn lock_key(&self, key: &[u8]) -> u64 {
        self.hash.hash(self.seed, routed(key))
    }

    /// The range of its points.
    #[must_use]
    pub fn keyspace_range(&self) -> KeyspaceRange {
        self.points
    }

    /// The number of the region, in an ordered keyspace.
    #[must_use]
    pub fn region(&self) -> Option<PartitionId> {
        self.region.as_ref().map(|region| region.number)
    }

    /// The number of splits, modulo 256, that have led to this range.
    pub(crate) fn generation(&self) -> u8 {
        self.generation
    }

    /// The number of partitions of the keyspace.
    pub(crate) fn count(&self) -> u32 {
        self.partitions
    }
}
