//! Groups that are computed from a few numbers: neighbours on a ring of instances.
//!
//! The ring visits instances with consecutive ids in steps, so that neighbours are on different nodes. The partitions are spaced evenly around it,
//! with an offset from the keyspace's seed. The group of a partition is the instance at its position and those that follow. A keyspace of any size
//! is therefore described in 21 bytes, and later changes are exceptions.

use std::sync::Arc;

use zerohop_wire::ids::InstanceId;

use crate::limits::GROUP_MEMBERS_MAX;

/// The placement of a keyspace's groups on a ring of instances.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ring {
    /// The lowest instance id.
    pub first: InstanceId,
    /// The number of instances, with consecutive ids.
    pub count: u32,
    /// The distance between neighbours; it has no common divisor with `count`.
    pub step: u32,
    /// The position of partition 0, in instances from the start of the ring.
    pub first_position: u32,
    /// How often partitions have been split since they were placed: children have the position of their parent.
    pub splits: u8,
}

impl Ring {
    /// Whether the ring is valid for groups of this many members, and for the present number of partitions.
    pub fn is_valid(&self, members: usize, partitions: u32) -> bool {
        let Ring { first, count, step, first_position: turn, splits } = *self;
        let step_is_least = step < count || (step, count) == (1, 1);
        (1..=count as usize).contains(&members)
            && first.get().checked_add(count).is_some()
            && step_is_least
            && greatest_common_divisor(step, count) == 1
            && turn < count
            && u32::from(splits) <= partitions.trailing_zeros()
    }

    /// The position of a partition's primary, for the present number of partitions.
    pub(super) fn primary_position(&self, partition: u32, partitions: u32) -> usize {
        let (parent, parents) = (u64::from(partition >> self.splits), u64::from(partitions >> self.splits));
        let place = u64::from(self.first_position) + parent * u64::from(self.count) / parents;
        (place % u64::from(self.count)) as usize
    }

    /// The instance at a position; the ring wraps around.
    pub(super) fn at(&self, place: usize) -> InstanceId {
        let count = u64::from(self.count);
        let offset = (place as u64 % count) * u64::from(self.step) % count;
        InstanceId(self.first.get() + offset as u32)
    }

    /// All instances in order, followed by enough of the first ones again that every group is contiguous.
    pub(super) fn order(&self) -> Arc<[InstanceId]> {
        (0..self.count as usize + GROUP_MEMBERS_MAX).map(|place| self.at(place)).collect()
    }

    /// Whether another ring has the same instances in the same order.
    pub(super) fn has_order_of(&self, other: &Ring) -> bool {
        (self.first, self.count, self.step) == (other.first, other.count, other.step)
    }
}

fn greatest_common_divisor(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}
