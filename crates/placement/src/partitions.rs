//! The division of a keyspace's 64-bit hash space into equal hash ranges: the top bits of a hash name its partition.
//!
//! The number of partitions is a power of two. Doubling it splits every partition by the next bit of the existing hashes, and no key is hashed
//! again.
//!
//! An ordered keyspace has any number of partitions, its [regions](crate::Regions).

use std::fmt;

use zerohop_wire::ids::PartitionId;

use crate::limits::PARTITIONS_MAX;

/// A number of partitions: a power of two from 1 to [`PARTITIONS_MAX`]; of an ordered keyspace, the number of its regions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartitionCount {
    count: u32,
}

impl PartitionCount {
    /// The default number of partitions.
    pub const DEFAULT: PartitionCount = PartitionCount { count: 1 << 8 };
    /// A single partition.
    pub const ONE: PartitionCount = PartitionCount { count: 1 };

    /// Checks that `partitions` is a power of two within the limit.
    pub fn new(partitions: u32) -> Result<PartitionCount, PartitionCountError> {
        if partitions == 0 || partitions > PARTITIONS_MAX || !partitions.is_power_of_two() {
            return Err(PartitionCountError { requested: partitions });
        }
        Ok(PartitionCount { count: partitions })
    }

    /// The number of partitions of some keyspace, hashed or ordered; `None` beyond the limits.
    #[must_use]
    pub const fn of_division(partitions: u32) -> Option<PartitionCount> {
        match partitions {
            1..=PARTITIONS_MAX => Some(PartitionCount { count: partitions }),
            _ => None,
        }
    }

    /// The regions between separators.
    pub(crate) const fn of_regions(regions: u32) -> PartitionCount {
        PartitionCount { count: regions }
    }

    /// The number itself.
    pub const fn get(self) -> u32 {
        self.count
    }

    /// The number of top bits of a hash that name a partition.
    pub const fn bits(self) -> u32 {
        u32::BITS - (self.count - 1).leading_zeros()
    }
}

impl fmt::Display for PartitionCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

/// The partition of `hash`: its top bits. It is a number below `partitions`, if that is a power of two.
pub const fn partition_of(hash: u64, partitions: PartitionCount) -> PartitionId {
    // The wider shift avoids a special case for a single partition (a shift by 64).
    PartitionId(((hash as u128) >> (64 - partitions.bits())) as u32)
}

/// The error for an invalid number of partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionCountError {
    /// The requested number.
    pub requested: u32,
}

impl fmt::Display for PartitionCountError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} partitions: ask for a power of two from 1 to {PARTITIONS_MAX}", self.requested)?;
        if (1..PARTITIONS_MAX).contains(&self.requested) {
            write!(f, ", such as {}", self.requested.next_power_of_two())?;
        }
        Ok(())
    }
}

impl std::error::Error for PartitionCountError {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_powers_of_two_within_the_bound_are_accepted() {
        for good in [1, 2, 256, 16384, PARTITIONS_MAX] {
            assert_eq!(PartitionCount::new(good).unwrap().get(), good);
        }
        for bad in [0, 3, 255, PARTITIONS_MAX + 1, PARTITIONS_MAX * 2, u32::MAX] {
            assert_eq!(PartitionCount::new(bad), Err(PartitionCountError { requested: bad }));
        }
    }

    #[test]
    fn partition_count_error_suggests_a_valid_number() {
        let message = PartitionCount::new(1000).unwrap_err().to_string();
        assert!(message.ends_with("such as 1024"), "{message}");
    }

    #[test]
    fn partitions_are_the_top_bits() {
        let of = |hash, partitions| partition_of(hash, PartitionCount::new(partitions).unwrap()).get();
        assert_eq!(of(u64::MAX, 1), 0);
        assert_eq!(of(0, 256), 0);
        assert_eq!(of(u64::MAX, 256), 255);
        assert_eq!(of(0x8000_0000_0000_0000, 2), 1);
        assert_eq!(of(0x7fff_ffff_ffff_ffff, 2), 0);
        assert_eq!(of(0xabcd_0000_0000_0000, 65536), 0xabcd);
    }

    #[test]
    fn bits_name_every_region() {
        for (regions, bits) in [(1, 0), (2, 1), (3, 2), (4, 2), (5, 3), (4096, 12)] {
            let count = PartitionCount::of_regions(regions);
            assert_eq!((count.get(), count.bits()), (regions, bits));
        }
    }

    proptest! {
        #[test]
        fn doubling_splits_each_partition_in_two_without_moves(hash: u64, bits in 0u32..16) {
            let before = partition_of(hash, PartitionCount::new(1 << bits).unwrap()).get();
            let after = partition_of(hash, PartitionCount::new(2 << bits).unwrap()).get();
            prop_assert_eq!(after / 2, before);
        }
    }
}
