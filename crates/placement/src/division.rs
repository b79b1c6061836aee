//! How the keys of a keyspace are divided among its partitions in one map: by their hashes, or into regions.

use std::ops::RangeInclusive;

use zerohop_wire::blob::routed;
use zerohop_wire::ids::PartitionId;

use crate::hash::HashKind;
use crate::keyspace::{KeyOrder, KeyspaceConfig};
use crate::limits::SEPARATOR_BYTES_MAX;
use crate::partitions::{PartitionCount, partition_of};
use crate::regions::{RegionFault, Regions};
use crate::separators::Separators;

/// The division of a keyspace. A clone shares the regions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Division {
    order: KeyOrder,
    hash: HashKind,
    seed: u64,
    count: PartitionCount,
    separators: Separators,
    regions: Regions,
}

impl Division {
    /// The division of a new keyspace.
    pub fn new(config: &KeyspaceConfig) -> Division {
        Division {
            order: config.order,
            hash: config.hash,
            seed: config.seed,
            count: config.partitions,
            separators: config.separators.clone(),
            regions: Regions::default(),
        }
    }

    /// The same keyspace with these regions, as many as it has separators.
    pub(crate) fn with_regions(&self, regions: Regions) -> Division {
        Division { regions, ..self.clone() }
    }

    /// The division after a split of the region at a position.
    pub(crate) fn split_region(
        &self,
        position: u32,
        separators: Separators,
        share: u8,
    ) -> Result<Division, RegionFault> {
        let regions = self.regions.split(position, self.count, share)?;
        Ok(Division { count: separators.regions(), separators, regions, ..self.clone() })
    }

    /// The number of partitions.
    pub fn count(&self) -> PartitionCount {
        self.count
    }

    /// The separators of the regions of an ordered keyspace.
    pub fn separators(&self) -> &Separators {
        &self.separators
    }

    /// The numbers and points of the regions of an ordered keyspace.
    pub fn regions(&self) -> &Regions {
        &self.regions
    }

    /// The partition of a key. Header and chunk 0 of a blob are in the same partition; in a hashed keyspace, each other chunk is placed by its
    /// number.
    pub fn partition(&self, key: &[u8]) -> PartitionId {
        match self.order {
            KeyOrder::Hashed => partition_of(self.hash.hash(self.seed, routed(key)), self.count),
            KeyOrder::Ordered => self.regions.number(self.separators.region(routed(key))),
        }
    }

    /// The partitions: by number, or in the order of their keys.
    pub fn partitions(&self) -> impl ExactSizeIterator<Item = PartitionId> + '_ {
        (0..self.count.get()).map(|position| self.at(position))
    }

    /// The partition at a position in [`Self::partitions`], which must be below their count.
    pub fn at(&self, position: u32) -> PartitionId {
        self.regions.number(position)
    }

    /// The position of a partition in [`Self::partitions`].
    pub fn position(&self, partition: PartitionId) -> Option<u32> {
        self.regions.position(partition, self.count)
    }

    /// The partition of a point: of a hash, or of a point of a region.
    pub fn partition_at(&self, point: u64) -> PartitionId {
        self.regions.number(self.regions.position_at(point, self.count))
    }

    /// The points of a partition: its hashes, or the points of a region.
    pub fn points(&self, partition: PartitionId) -> Option<RangeInclusive<u64>> {
        Some(self.regions.points(self.position(partition)?, self.count))
    }

    /// The keys of a region: its lowest key, and the key before which it ends, if there is one.
    pub fn bounds(&self, region: PartitionId) -> Option<(&[u8], Option<&[u8]>)> {
        let position = self.position(region)?;
        Some((self.separators.begin(position), self.separators.end(position)))
    }

    /// The shortest key at which a region can be split between two of its keys that are adjacent, `left` below `right`. `None`: there is none
    /// of at most [`SEPARATOR_BYTES_MAX`] bytes, or both keys are of one blob and in one partition everywhere.
    pub fn separator_between(&self, region: PartitionId, left: &[u8], right: &[u8]) -> Option<Vec<u8>> {
        let (left, right) = (routed(left), routed(right));
        let common = left.iter().zip(right).take_while(|(a, b)| a == b).count();
        let separator = right.get(..=common).filter(|key| left < *key && key.len() <= SEPARATOR_BYTES_MAX)?;
        let (begin, end) = self.bounds(region)?;
        (begin < separator && end.is_none_or(|end| separator < end)).then(|| separator.to_vec())
    }

    /// The regions that a retired region was split into, in the order of their keys. Empty: there never was such a region, or it still is one.
    pub fn descendants(&self, retired: PartitionId) -> Vec<PartitionId> {
        let Some(points) = self.regions.retired(retired) else { return Vec::new() };
        let at = |point: &u64| self.regions.position_at(*point, self.count);
        (at(points.start())..=at(points.end())).map(|position| self.at(position)).collect()
    }

    /// The partitions that one of an earlier division has become; itself, if it was not split.
    pub fn successors(&self, partition: PartitionId, before: &Division) -> Vec<PartitionId> {
        self.successors_of((partition, before.count))
    }

    /// The same for a partition of a division of this keyspace into so many partitions.
    pub fn successors_of(&self, (partition, before): (PartitionId, PartitionCount)) -> Vec<PartitionId> {
        match self.order {
            KeyOrder::Hashed => {
                let each = (self.count.get() / before.get()).max(1);
                (0..each).map(|n| PartitionId(partition.get() * each + n)).collect()
            }
            KeyOrder::Ordered if self.position(partition).is_some() => vec![partition],
            KeyOrder::Ordered => self.descendants(partition),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separator_is_the_shortest_key_between_two_adjacent_ones() {
        let separators = Separators::new([&b"d"[..]]).expect("is one");
        let config = KeyspaceConfig::new("papers".parse().expect("is a name"), 3);
        let division = Division::new(&KeyspaceConfig { separators, ..config.ordered() });
        let between = |left: &[u8], right: &[u8]| division.separator_between(PartitionId(0), left, right);
        assert_eq!(between(b"abc", b"abx-long"), Some(b"abx".to_vec()));
        assert_eq!(between(b"a", b"ab"), Some(b"ab".to_vec()));
        assert_eq!(between(b"c", b"d"), None, "the region ends there");
        let long = [b'c'; 300];
        assert_eq!(between(&long[..299], &long), None, "no separator has 300 bytes");
        assert_eq!(between(&long[..255], &long), Some(long[..256].to_vec()));
        assert_eq!(between(b"b", b"b"), None, "they are adjacent keys");
    }
}
