//! The groups of all partitions of a keyspace: their placement, and the groups that have changed since.
//!
//! | kept as | bytes | when |
//! | --- | --- | --- |
//! | a list of groups | 16 a partition and 4 a member | fewer than [`PLACED_PARTITIONS_MIN`] partitions, or half have changed |
//! | members in rows | 4 a member | groups alike in epoch and roles |
//! | a ring | 4 an instance, once for all keyspaces | groups computed from [`Ring`] |
//!
//! In the last two, each group that has changed is an exception, of 20 bytes and 4 a member.

use std::sync::Arc;

use zerohop_wire::ids::{InstanceId, PartitionEpoch, PartitionId};

use super::group::GroupList;
use super::{Group, GroupFault, GroupState, ReplicaGroup, Ring};
use crate::limits::PLACED_PARTITIONS_MIN;

/// The groups of a keyspace; see the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct GroupTable {
    placed: Option<GroupShape>,
    /// By partition: all groups; or if there is `placed`, those that differ from it.
    list: GroupList,
}

/// Groups that differ only in their members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GroupShape {
    pub(crate) partitions: u32,
    pub(crate) epoch: PartitionEpoch,
    pub(crate) in_sync: u8,
    pub(crate) followers: u8,
    pub(crate) members: Members,
    /// The partitions that differ, in order.
    pub(crate) changed: Vec<u32>,
}

/// The members of placed groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Members {
    /// The members of each group, one group after another.
    Rows(Vec<InstanceId>),
    /// As many instances as a group has members, from its position on the ring. The order is empty until it is needed.
    Ring(Ring, Arc<[InstanceId]>),
}

impl GroupShape {
    pub(crate) fn size(&self) -> usize {
        1 + usize::from(self.in_sync) + usize::from(self.followers)
    }

    /// A copy of a group's members, which does not need the order of the ring.
    fn members(&self, partition: u32) -> Vec<InstanceId> {
        let size = self.size();
        match &self.members {
            Members::Rows(rows) => rows[partition as usize * size..][..size].to_vec(),
            Members::Ring(ring, _) => {
                let place = ring.primary_position(partition, self.partitions);
                (place..place + size).map(|place| ring.at(place)).collect()
            }
        }
    }

    fn group(&self, partition: u32) -> ReplicaGroup {
        let members = self.members(partition);
        self.as_group(&members).to_group()
    }

    fn as_group<'a>(&self, members: &'a [InstanceId]) -> Group<'a> {
        let (in_sync, followers) = members[1..].split_at(usize::from(self.in_sync));
        Group { epoch: self.epoch, primary: members[0], in_sync, followers, state: GroupState::Stable }
    }
}

impl GroupTable {
    /// The groups of partitions, in order. If many are alike, only the differences are stored.
    pub(super) fn new(groups: &[ReplicaGroup]) -> GroupTable {
        let list = || GroupTable { placed: None, list: GroupList::new(groups) };
        let first = groups.iter().filter(|group| group.state == GroupState::Stable);
        let Some(first) = first.min_by_key(|group| group.epoch) else { return list() };
        let shape =
            |group: &ReplicaGroup| (group.epoch, group.in_sync.len(), group.followers.len(), group.state);
        let changed: Vec<u32> =
            (0..).zip(groups).filter(|(_, group)| shape(group) != shape(first)).map(|(at, _)| at).collect();
        let has_older = groups.iter().any(|group| group.epoch < first.epoch);
        if groups.len() < PLACED_PARTITIONS_MIN as usize || has_older || changed.len() * 2 > groups.len() {
            return list();
        }
        let size = 1 + first.in_sync.len() + first.followers.len();
        let mut rows = Vec::with_capacity(groups.len() * size);
        for group in groups {
            let as_group = group.as_group();
            let members = as_group.members().chain(std::iter::repeat(group.primary));
            rows.extend(members.take(size));
        }
        let exceptions: Vec<ReplicaGroup> = changed.iter().map(|at| groups[*at as usize].clone()).collect();
        let placed = GroupShape {
            partitions: groups.len() as u32,
            epoch: first.epoch,
            in_sync: first.in_sync.len() as u8,
            followers: first.followers.len() as u8,
            members: Members::Rows(rows),
            changed,
        };
        GroupTable { placed: Some(placed), list: GroupList::new(&exceptions) }
    }

    /// A list of groups, however alike they are.
    pub(crate) fn listed(groups: &[ReplicaGroup]) -> GroupTable {
        GroupTable { placed: None, list: GroupList::new(groups) }
    }

    /// Placed groups with exceptions, one for each of the partitions that differ.
    pub(crate) fn placed(placed: GroupShape, exceptions: &[ReplicaGroup]) -> GroupTable {
        GroupTable { placed: Some(placed), list: GroupList::new(exceptions) }
    }

    /// The common values, and the exceptions; all groups, if there are no common values.
    pub(crate) fn parts(&self) -> (Option<&GroupShape>, impl Iterator<Item = (PartitionId, Group<'_>)>) {
        let changed = |at: PartitionId| match &self.placed {
            Some(placed) => PartitionId(placed.changed[at.get() as usize]),
            None => at,
        };
        (self.placed.as_ref(), self.list.iter().map(move |(at, group)| (changed(at), group)))
    }

    pub(super) fn len(&self) -> usize {
        self.placed.as_ref().map_or(self.list.counts().0, |placed| placed.partitions as usize)
    }

    /// The group of a partition; the order of a ring must be present.
    pub(super) fn get(&self, partition: PartitionId) -> Option<Group<'_>> {
        let Some(placed) = &self.placed else { return self.list.get(partition) };
        if partition.get() >= placed.partitions {
            return None;
        }
        if let Ok(at) = placed.changed.binary_search(&partition.get()) {
            return self.list.get(PartitionId(at as u32));
        }
        let size = placed.size();
        let members = match &placed.members {
            Members::Rows(rows) => &rows[partition.get() as usize * size..][..size],
            Members::Ring(ring, order) => {
                &order[ring.primary_position(partition.get(), placed.partitions)..][..size]
            }
        };
        Some(placed.as_group(members))
    }

    /// A copy of the group of a partition; the order of a ring need not be present.
    pub(super) fn copied(&self, partition: PartitionId) -> Option<ReplicaGroup> {
        match &self.placed {
            Some(placed) if partition.get() < placed.partitions => {
                match placed.changed.binary_search(&partition.get()) {
                    Ok(at) => self.list.get(PartitionId(at as u32)).map(Group::to_group),
                    Err(_) => Some(placed.group(partition.get())),
                }
            }
            Some(_) => None,
            None => self.list.get(partition).map(Group::to_group),
        }
    }

    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = (PartitionId, Group<'_>)> {
        (0..self.len()).map(|at| {
            let partition = PartitionId(at as u32);
            (partition, self.get(partition).expect("the partition is within the table"))
        })
    }

    fn all(&self) -> Vec<ReplicaGroup> {
        (0..self.len() as u32).filter_map(|at| self.copied(PartitionId(at))).collect()
    }

    /// The first invalid group. Groups on a ring are valid: the ring was checked when it was decoded or created.
    pub(super) fn fault(&self) -> Option<(PartitionId, GroupFault)> {
        let is_ring = |placed: &GroupShape| matches!(placed.members, Members::Ring(..));
        let check = |(partition, group): (PartitionId, Group<'_>)| {
            group.check().err().map(|fault| (partition, fault))
        };
        if self.placed.as_ref().is_some_and(is_ring) {
            self.parts().1.find_map(check)
        } else {
            self.iter().find_map(check)
        }
    }

    /// Replaces an existing group by a newer one that has passed [`Group::check`]. Returns whether [`GroupTable::compact`] must follow.
    pub(super) fn set(&mut self, partition: PartitionId, group: Group<'_>) -> bool {
        let Some(placed) = &mut self.placed else { return self.list.set(partition, group) };
        match placed.changed.binary_search(&partition.get()) {
            Ok(at) => self.list.set(PartitionId(at as u32), group),
            Err(at) => {
                placed.changed.insert(at, partition.get());
                self.list.insert(at, group);
                if placed.changed.len() * 2 > placed.partitions as usize {
                    *self = GroupTable::listed(&self.all());
                }
                true
            }
        }
    }

    /// Splits every partition into two with the same members. A partition number then means another hash range, so all children get an epoch above
    /// that of any parent. A request that was routed before the split is therefore refused.
    pub(super) fn double(&mut self) {
        let highest = match &self.placed {
            Some(placed) => {
                self.parts().1.map(|(_, group)| group.epoch).fold(placed.epoch, PartitionEpoch::max)
            }
            None => self.iter().map(|(_, group)| group.epoch).max().unwrap_or_default(),
        };
        let children = |groups: &[ReplicaGroup]| -> Vec<ReplicaGroup> {
            let child = |group: &ReplicaGroup| ReplicaGroup { epoch: highest.next(), ..group.clone() };
            groups.iter().flat_map(|group| [child(group), child(group)]).collect()
        };
        match &mut self.placed {
            Some(placed) if matches!(placed.members, Members::Ring(..)) => {
                if let Members::Ring(ring, _) = &mut placed.members {
                    ring.splits += 1;
                }
                (placed.partitions, placed.epoch) = (placed.partitions * 2, highest.next());
                placed.changed = placed.changed.iter().flat_map(|at| [at * 2, at * 2 + 1]).collect();
                let exceptions: Vec<ReplicaGroup> =
                    self.list.iter().map(|(_, group)| group.to_group()).collect();
                self.list = GroupList::new(&children(&exceptions));
            }
            Some(_) => *self = GroupTable::new(&children(&self.all())),
            None => *self = GroupTable::listed(&children(&self.all())),
        }
    }

    /// Splits one partition into two with the same members, in an epoch above its own.
    pub(super) fn split(&mut self, position: u32) {
        let mut groups = self.all();
        let parent = &mut groups[position as usize];
        parent.epoch = parent.epoch.next();
        let child = parent.clone();
        groups.insert(position as usize + 1, child);
        *self = GroupTable::new(&groups);
    }

    /// Removes entries that no group refers to.
    pub(super) fn compact(&mut self) {
        self.list.compact();
        if let Some(placed) = &mut self.placed {
            placed.changed.shrink_to_fit();
        }
    }

    /// The ring, if its order is not present yet.
    pub(super) fn missing_ring(&self) -> Option<&Ring> {
        match &self.placed.as_ref()?.members {
            Members::Ring(ring, order) if order.is_empty() => Some(ring),
            _ => None,
        }
    }

    /// The ring and its order.
    pub(super) fn ring(&self) -> Option<(&Ring, &Arc<[InstanceId]>)> {
        match &self.placed.as_ref()?.members {
            Members::Ring(ring, order) if !order.is_empty() => Some((ring, order)),
            _ => None,
        }
    }

    /// Sets the order of the ring, or removes it.
    pub(super) fn order(&mut self, given: Arc<[InstanceId]>) {
        if let Some(GroupShape { members: Members::Ring(_, order), .. }) = &mut self.placed {
            *order = given;
        }
    }

    /// Bytes on the heap, without the order of a ring.
    pub(super) fn memory_bytes(&self) -> usize {
        let placed = self.placed.as_ref().map_or(0, |placed| {
            let rows = match &placed.members {
                Members::Rows(rows) => rows.capacity() * size_of::<InstanceId>(),
                Members::Ring(..) => 0,
            };
            rows + placed.changed.capacity() * size_of::<u32>()
        });
        placed + self.list.memory_bytes()
    }

    /// The number of groups in the list, and of their members.
    pub(crate) fn list_counts(&self) -> (usize, usize) {
        self.list.counts()
    }
}
