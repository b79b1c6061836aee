//! The groups of a new keyspace, as a change of the map describes them.

use zerohop_wire::ids::{PartitionEpoch, PartitionId};

use super::table::{GroupShape, GroupTable, Members};
use super::{ReplicaGroup, Ring};
use crate::limits::PLACED_PARTITIONS_MIN;

/// The group of every partition, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Groups(GroupTable);

impl From<Vec<ReplicaGroup>> for Groups {
    fn from(groups: Vec<ReplicaGroup>) -> Groups {
        Groups(GroupTable::new(&groups))
    }
}

impl FromIterator<ReplicaGroup> for Groups {
    fn from_iter<I: IntoIterator<Item = ReplicaGroup>>(groups: I) -> Groups {
        groups.into_iter().collect::<Vec<_>>().into()
    }
}

impl Groups {
    /// Groups of a primary, in-sync replicas and followers, placed on a ring; each in epoch 1. `None` if the ring is invalid, or if there are fewer
    /// than [`PLACED_PARTITIONS_MIN`] partitions.
    pub fn in_ring(ring: Ring, partitions: u32, in_sync: u8, followers: u8) -> Option<Groups> {
        let placed = GroupShape {
            partitions,
            epoch: PartitionEpoch(1),
            in_sync,
            followers,
            members: Members::Ring(ring, [].into()),
            changed: Vec::new(),
        };
        let is_many = partitions.is_power_of_two() && partitions >= PLACED_PARTITIONS_MIN;
        let is_valid = is_many && ring.is_valid(placed.size(), partitions);
        is_valid.then(|| Groups(GroupTable::placed(placed, &[])))
    }

    /// The number of groups.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no groups.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Iterates over copies of the groups.
    pub fn iter(&self) -> impl Iterator<Item = ReplicaGroup> {
        (0..self.len() as u32).filter_map(|at| self.0.copied(PartitionId(at)))
    }

    /// The groups of a map; the order of a ring is left out.
    pub(super) fn of(table: &GroupTable) -> Groups {
        let mut table = table.clone();
        table.order([].into());
        Groups(table)
    }

    pub(crate) fn of_table(table: GroupTable) -> Groups {
        Groups(table)
    }

    pub(crate) fn table(&self) -> &GroupTable {
        &self.0
    }
}
