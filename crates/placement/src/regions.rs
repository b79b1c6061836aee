//! The regions of an ordered keyspace: their numbers, which are never used again, and their ranges of *points*.
//!
//! A point is a 64-bit number that names the region around it, as a hash names the partition of its hash range. Transactions name their
//! parts by points. The points of the regions ascend with their keys. A split divides the range of its region between the two children, so a
//! point of a transaction leads to one of them, and the order of parts stays the same.
//!
//! A region that was split is *retired*. Its range stays known, so that an instance that was away finds the children of what it stores.

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;

use zerohop_wire::escaped::quoted;
use zerohop_wire::ids::PartitionId;

use crate::limits::REGION_NUMBERS_MAX;
use crate::partitions::{PartitionCount, partition_of};
use crate::separators::SeparatorError;

/// The regions of a keyspace in the order of their keys. Without a split, the numbers are the positions, and nothing is stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Regions(Option<Arc<RegionTable>>);

/// Regions of which at least one was split.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RegionTable {
    /// By position.
    live: Vec<LiveRegion>,
    /// By number.
    retired: Vec<RetiredRegion>,
    /// Positions, by number.
    by_number: Vec<u32>,
    /// The number of the next region.
    next: u32,
}

/// A region of the map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveRegion {
    /// Its number.
    pub number: u32,
    /// The number of splits, modulo 256, that led to it. It tells a child from its parent, whose records it begins with.
    pub generation: u8,
    /// Its first point.
    pub first: u64,
}

/// A region that was split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetiredRegion {
    /// Its number.
    pub number: u32,
    /// Its first point.
    pub first: u64,
    /// Its last point.
    pub last: u64,
}

/// Why a region cannot be split, or a table cannot be one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RegionFault {
    /// The keyspace is hashed.
    Hashed,
    /// The separator is not a key of the region above its lowest one.
    Outside {
        /// The separator.
        separator: Box<[u8]>,
    },
    /// The separator is too long, or there would be too many.
    Separator(SeparatorError),
    /// The region has a single point.
    OnePoint,
    /// All numbers were used.
    Numbers,
    /// Points or numbers are out of order, or occur twice, or a keyspace that is not new gets a table.
    Table,
}

impl fmt::Display for RegionFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hashed => {
                f.write_str("belongs to a hashed keyspace, which splits as a whole: use keyspace split")
            }
            Self::Outside { separator } => write!(
                f,
                "cannot be split at {}, which must be above the region's lowest key and below its end: region list \
                 shows both",
                quoted(separator)
            ),
            Self::Separator(error) => error.fmt(f),
            Self::OnePoint => f.write_str(
                "was split too often at one place to be split once more: copy the keyspace into a new one",
            ),
            Self::Numbers => write!(
                f,
                "cannot be split: the keyspace has used all {REGION_NUMBERS_MAX} numbers of regions; copy it into a \
                 new one"
            ),
            Self::Table => f.write_str("is in a table of regions that splits do not lead to"),
        }
    }
}

impl RegionTable {
    /// A table of these regions, in the order of their keys.
    ///
    /// # Errors
    /// The table is not one that splits lead to.
    pub fn new(
        live: Vec<LiveRegion>,
        retired: Vec<RetiredRegion>,
        next: u32,
    ) -> Result<RegionTable, RegionFault> {
        let ascend = live.windows(2).all(|pair| pair[0].first < pair[1].first);
        let begins = live.first().is_some_and(|region| region.first == 0);
        let sorted = retired.windows(2).all(|pair| pair[0].number < pair[1].number);
        let ranges = retired.iter().all(|region| region.first < region.last);
        if !(ascend && begins && sorted && ranges) {
            return Err(RegionFault::Table);
        }
        let mut by_number: Vec<u32> = (0..live.len() as u32).collect();
        by_number.sort_unstable_by_key(|at| live[*at as usize].number);
        let number = |at: &u32| live[*at as usize].number;
        let is_once = by_number.windows(2).all(|pair| number(&pair[0]) < number(&pair[1]));
        let is_live = |region: &RetiredRegion| by_number.binary_search_by_key(&region.number, number).is_ok();
        let is_below = live
            .iter()
            .map(|one| one.number)
            .chain(retired.iter().map(|one| one.number))
            .all(|one| one < next);
        if !is_once || !is_below || next > REGION_NUMBERS_MAX || retired.iter().any(is_live) {
            return Err(RegionFault::Table);
        }
        Ok(RegionTable { live, retired, by_number, next })
    }

    /// The table of regions that were never split.
    fn as_created(count: PartitionCount) -> RegionTable {
        let region = |number| LiveRegion { number, generation: 0, first: first_point(number, count) };
        let live = (0..count.get()).map(region).collect();
        RegionTable { live, retired: Vec::new(), by_number: (0..count.get()).collect(), next: count.get() }
    }

    /// The regions, in the order of their keys.
    pub fn live(&self) -> &[LiveRegion] {
        &self.live
    }

    /// The regions that were split, by number.
    pub fn retired(&self) -> &[RetiredRegion] {
        &self.retired
    }

    /// The number of the next region.
    pub fn next(&self) -> u32 {
        self.next
    }

    fn position(&self, region: PartitionId) -> Option<usize> {
        let number = |at: &u32| self.live[*at as usize].number;
        let found = self.by_number.binary_search_by_key(&region.get(), number).ok()?;
        Some(self.by_number[found] as usize)
    }

    fn last(&self, position: usize) -> u64 {
        self.live.get(position + 1).map_or(u64::MAX, |next| next.first - 1)
    }

    /// Divides the region at a position. The left child gets `share` of 256 parts of its points.
    fn split(&self, position: usize, share: u8) -> Result<RegionTable, RegionFault> {
        let parent = self.live[position];
        let last = self.last(position);
        if parent.first == last {
            return Err(RegionFault::OnePoint);
        }
        if self.next + 2 > REGION_NUMBERS_MAX {
            return Err(RegionFault::Numbers);
        }
        // At least one point for each child.
        let width = u128::from(last - parent.first) + 1;
        let left = (width * u128::from(share) / 256).clamp(1, width - 1) as u64;
        let generation = parent.generation.wrapping_add(1);
        let child = |number, first| LiveRegion { number, generation, first };
        let mut live = self.live.clone();
        let children = [child(self.next, parent.first), child(self.next + 1, parent.first + left)];
        live.splice(position..=position, children);
        let mut retired = self.retired.clone();
        let at = retired.partition_point(|one| one.number < parent.number);
        retired.insert(at, RetiredRegion { number: parent.number, first: parent.first, last });
        RegionTable::new(live, retired, self.next + 2)
    }
}

/// The first point of a region that was never split: its number in the top bits.
fn first_point(number: u32, count: PartitionCount) -> u64 {
    // The wider shift keeps a single region from being a special case.
    (u128::from(number) << (u64::BITS - count.bits())) as u64
}

impl Regions {
    /// Regions with this table.
    pub(crate) fn of_table(table: RegionTable) -> Regions {
        Regions(Some(Arc::new(table)))
    }

    /// The table, if a region was split.
    pub fn table(&self) -> Option<&RegionTable> {
        self.0.as_deref()
    }

    /// The number of the region at a position in the order of keys, of `count` regions.
    pub(crate) fn number(&self, position: u32) -> PartitionId {
        PartitionId(self.0.as_ref().map_or(position, |table| table.live[position as usize].number))
    }

    /// The position of a region in the order of keys.
    pub(crate) fn position(&self, region: PartitionId, count: PartitionCount) -> Option<u32> {
        match &self.0 {
            None => Some(region.get()).filter(|number| *number < count.get()),
            Some(table) => table.position(region).map(|at| at as u32),
        }
    }

    /// The position of the region that has a point.
    pub(crate) fn position_at(&self, point: u64, count: PartitionCount) -> u32 {
        match &self.0 {
            // The last region has the points behind it too.
            None => partition_of(point, count).get().min(count.get() - 1),
            // The first region begins at point 0.
            Some(table) => table.live.partition_point(|region| region.first <= point) as u32 - 1,
        }
    }

    /// The points of the region at a position.
    pub(crate) fn points(&self, position: u32, count: PartitionCount) -> RangeInclusive<u64> {
        match &self.0 {
            None if position + 1 == count.get() => first_point(position, count)..=u64::MAX,
            None => first_point(position, count)..=first_point(position + 1, count) - 1,
            Some(table) => table.live[position as usize].first..=table.last(position as usize),
        }
    }

    /// The number of splits, modulo 256, that led to the region at a position.
    pub(crate) fn generation(&self, position: u32) -> u8 {
        self.0.as_ref().map_or(0, |table| table.live[position as usize].generation)
    }

    /// The points of a region that was split.
    pub(crate) fn retired(&self, region: PartitionId) -> Option<RangeInclusive<u64>> {
        let table = self.0.as_ref()?;
        let at = table.retired.binary_search_by_key(&region.get(), |one| one.number).ok()?;
        let found = table.retired[at];
        Some(found.first..=found.last)
    }

    /// The regions after a split of the one at a position.
    pub(crate) fn split(
        &self,
        position: u32,
        count: PartitionCount,
        share: u8,
    ) -> Result<Regions, RegionFault> {
        let table = match &self.0 {
            Some(table) => table.split(position as usize, share),
            None => RegionTable::as_created(count).split(position as usize, share),
        };
        table.map(Regions::of_table)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::separators::Separators;
    use proptest::prelude::*;

    fn count(regions: u32) -> PartitionCount {
        Separators::new((1..regions).map(u32::to_be_bytes)).unwrap().regions()
    }

    #[test]
    fn regions_as_created_have_their_numbers_in_front_of_their_points() {
        let regions = Regions::default();
        for points in [1, 2, 3, 5, 4096] {
            let count = count(points);
            let mut next = 0;
            for position in 0..points {
                let range = regions.points(position, count);
                assert_eq!(*range.start(), next);
                for point in [*range.start(), *range.end()] {
                    assert_eq!(regions.position_at(point, count), position);
                }
                next = range.end().wrapping_add(1);
                assert_eq!(regions.number(position), PartitionId(position));
                assert_eq!(regions.position(PartitionId(position), count), Some(position));
            }
            assert_eq!(next, 0, "all points have a region");
            assert_eq!(regions.position(PartitionId(points), count), None);
            let table = RegionTable::as_created(count);
            let (live, retired) = (table.live().to_vec(), table.retired().to_vec());
            assert_eq!(RegionTable::new(live, retired, points), Ok(table));
        }
    }

    #[test]
    fn children_have_new_numbers_and_share_the_points_of_their_parent() {
        let one = Regions::default().split(1, count(3), 128).unwrap();
        let four = count(4);
        let numbers: Vec<u32> = (0..4).map(|at| one.number(at).get()).collect();
        assert_eq!(numbers, [0, 3, 4, 2]);
        assert_eq!(one.position(PartitionId(1), four), None, "the parent is no region any more");
        assert_eq!(one.retired(PartitionId(1)), Some(1 << 62..=(2 << 62) - 1));
        assert_eq!(one.points(1, four), 1 << 62..=(1 << 62) + (1 << 61) - 1);
        assert_eq!((one.generation(0), one.generation(1), one.generation(2)), (0, 1, 1));
        let tail = one.split(3, four, 1).unwrap();
        let points = tail.points(3, count(5));
        assert_eq!(points.end() - points.start() + 1, 1 << (63 - 8), "the left child has a small share");
    }

    #[test]
    fn region_of_one_point_is_not_split() {
        let live = vec![
            LiveRegion { number: 0, generation: 0, first: 0 },
            LiveRegion { number: 1, generation: 0, first: 1 },
        ];
        let regions = Regions::of_table(RegionTable::new(live.clone(), Vec::new(), 2).unwrap());
        assert_eq!(regions.split(0, count(2), 128), Err(RegionFault::OnePoint));
        let full = RegionTable::new(live.clone(), Vec::new(), REGION_NUMBERS_MAX - 1).unwrap();
        assert_eq!(Regions::of_table(full).split(1, count(2), 128), Err(RegionFault::Numbers));
        for (share, left) in [(0, 1), (255, (u64::MAX >> 8) * 255)] {
            let split = regions.split(1, count(2), share).unwrap();
            let points = split.points(1, count(3));
            assert!(points.end() - points.start() + 1 >= left, "{share}");
        }
    }

    #[test]
    fn table_that_splits_do_not_lead_to_is_refused() {
        let live = |number, first| LiveRegion { number, generation: 0, first };
        let retired = |number, first, last| RetiredRegion { number, first, last };
        let new = |live: &[LiveRegion], retired: &[RetiredRegion], next| {
            RegionTable::new(live.to_vec(), retired.to_vec(), next).map(drop)
        };
        let good = [live(1, 0), live(2, 8)];
        assert_eq!(new(&good, &[retired(0, 0, 9)], 3), Ok(()));
        let faults = [
            new(&[], &[], 3),
            new(&[live(1, 1), live(2, 8)], &[], 3),
            new(&[live(1, 0), live(2, 0)], &[], 3),
            new(&[live(1, 0), live(1, 8)], &[], 3),
            new(&good, &[], 2),
            new(&good, &[], REGION_NUMBERS_MAX + 1),
            new(&good, &[retired(2, 0, 9)], 3),
            new(&good, &[retired(0, 9, 9)], 3),
            new(&good, &[retired(3, 0, 9)], 3),
            new(&[live(5, 0)], &[retired(1, 0, 9), retired(0, 0, 9)], 6),
        ];
        for (at, fault) in faults.into_iter().enumerate() {
            assert_eq!(fault, Err(RegionFault::Table), "{at}");
        }
    }

    proptest! {
        #[test]
        fn splits_keep_a_partition_of_all_points(
            first in 1u32..6,
            splits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..40),
            points in prop::collection::vec(any::<u64>(), 1..20),
        ) {
            let (mut regions, mut number) = (Regions::default(), first);
            for (at, share) in splits {
                let position = at.index(number as usize) as u32;
                let parent = regions.number(position);
                let range = regions.points(position, count(number));
                let Ok(next) = regions.split(position, count(number), share) else { continue };
                number += 1;
                prop_assert_eq!(next.retired(parent), Some(range.clone()));
                let [left, right] = [position, position + 1].map(|at| next.points(at, count(number)));
                prop_assert_eq!((left.start(), right.end()), (range.start(), range.end()));
                regions = next;
            }
            let all = count(number);
            for point in points {
                let position = regions.position_at(point, all);
                prop_assert!(regions.points(position, all).contains(&point));
                prop_assert_eq!(regions.position(regions.number(position), all), Some(position));
            }
        }
    }
}
