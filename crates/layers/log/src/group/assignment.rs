//! Which member reads which partitions.

use std::ops::Range;

use crate::planted::{Bug, is_planted};

/// One range for each member, in their order. The lengths differ by one at most.
pub(super) fn ranges(partitions: u32, members: usize) -> Vec<Range<u32>> {
    let (partitions, count) = (u64::from(partitions), members as u64);
    // A bound is below or equal to the number of partitions.
    let bound = |number: u64| (partitions * number / count.max(1)) as u32;
    let overlap = u32::from(is_planted(Bug::RangesOverlap));
    (0..count).map(|number| bound(number)..(bound(number + 1) + overlap).min(partitions as u32)).collect()
}

#[cfg(test)]
mod tests {
    use super::ranges;

    #[test]
    fn each_partition_has_one_member_and_ranges_are_of_similar_length() {
        for partitions in 0..20 {
            for members in 1..25 {
                let ranges = ranges(partitions, members);
                assert_eq!(ranges.len(), members);
                assert!(ranges.iter().cloned().flatten().eq(0..partitions), "{ranges:?}");
                let lengths = || ranges.iter().map(|range| range.len());
                assert!(lengths().max() <= lengths().min().map(|min| min + 1), "{ranges:?}");
            }
        }
        assert_eq!(ranges(4, 0), []);
    }
}
