//! Groups that follow from a few numbers: neighbours in a ring of instances.
//!
//! The ring goes through instances with successive ids in steps, so that neighbours are on different nodes. Partitions
//! stand evenly around it, from where the keyspace's seed turns it; the group of each is the instance there and those that
//! follow it. So a keyspace of any size is told in 21 bytes, and what has changed since is told as exceptions.

use std::sync::Arc;

use zerohop_wire::ids::InstanceId;

use crate::limits::GROUP_MEMBERS_MAX;

/// Where the groups of a keyspace's partitions stand in a ring of instances.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ring {
    /// The lowest id.
    pub first: InstanceId,
    /// How many instances, with the ids that follow.
    pub count: u32,
    /// From one to its neighbour; it has no divisor in common with `count`.
    pub step: u32,
    /// Where partition 0 stands, in instances from the beginning of the ring.
    pub turn: u32,
    /// How often partitions have been split since they were placed: children stand where their parent stood.
    pub splits: u8,
}

impl Ring {
    /// Whether there is such a ring, of groups of so many members, for so many partitions now.
    pub fn is_valid(&self, members: usize, partitions: u32) -> bool {
        let Ring { first, count, step, turn, splits } = *self;
        let step_is_least = step < count || (step, count) == (1, 1);
        (1..=count as usize).contains(&members)
            && first.get().checked_add(count).is_some()
            && step_is_least
            && greatest_common_divisor(step, count) == 1
            && turn < count
            && u32::from(splits) <= partitions.trailing_zeros()
    }

    /// The place of a partition's primary, of so many partitions now.
    pub(super) fn place(&self, partition: u32, partitions: u32) -> usize {
        let (parent, parents) = (u64::from(partition >> self.splits), u64::from(partitions >> self.splits));
        let place = u64::from(self.turn) + parent * u64::from(self.count) / parents;
        (place % u64::from(self.count)) as usize
    }

    /// The instance at a place; the ring begins again behind its end.
    pub(super) fn at(&self, place: usize) -> InstanceId {
        let count = u64::from(self.count);
        let offset = (place as u64 % count) * u64::from(self.step) % count;
        InstanceId(self.first.get() + offset as u32)
    }

    /// All instances in order, and so many of the first again that every group lies in one piece.
    pub(super) fn order(&self) -> Arc<[InstanceId]> {
        (0..self.count as usize + GROUP_MEMBERS_MAX).map(|place| self.at(place)).collect()
    }

    /// Whether another goes through the same instances in the same order.
    pub(super) fn has_order_of(&self, other: &Ring) -> bool {
        (self.first, self.count, self.step) == (other.first, other.count, other.step)
    }
}

fn greatest_common_divisor(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}
