//! The replica group of a partition, and a compact list of groups.

use zerohop_wire::ids::{InstanceId, PartitionEpoch, PartitionId};

use crate::limits::GROUP_MEMBERS_MAX;

/// The state of a group's change; only the control group sets it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GroupState {
    /// No change. The primary requests the admission of followers only while there are fewer in-sync copies than `min_in_sync`.
    #[default]
    Stable,
    /// The first follower is to be admitted to the in-sync set as soon as it has caught up: it is the target of a move.
    Admitting,
    /// No replica serves: the in-sync replicas have restarted, and the control group is choosing the log to continue with.
    Recovering,
}

/// The replicas of one partition, as a change of the map describes them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaGroup {
    /// Incremented by every change of the group.
    pub epoch: PartitionEpoch,
    /// The replica that orders writes and answers reads. A group always has one, though it may be down.
    pub primary: InstanceId,
    /// The other replicas that store every acknowledged write; only these may be promoted.
    pub in_sync: Vec<InstanceId>,
    /// The replicas that receive the log but do not count for acknowledgements.
    pub followers: Vec<InstanceId>,
    /// The state of the group's change.
    pub state: GroupState,
}

/// The replicas of one partition, in a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group<'a> {
    /// Incremented by every change of the group.
    pub epoch: PartitionEpoch,
    /// See [`ReplicaGroup::primary`].
    pub primary: InstanceId,
    /// See [`ReplicaGroup::in_sync`].
    pub in_sync: &'a [InstanceId],
    /// See [`ReplicaGroup::followers`].
    pub followers: &'a [InstanceId],
    /// See [`ReplicaGroup::state`].
    pub state: GroupState,
}

impl ReplicaGroup {
    /// A group of one member.
    pub fn of_one(epoch: PartitionEpoch, primary: InstanceId) -> ReplicaGroup {
        ReplicaGroup { epoch, primary, in_sync: Vec::new(), followers: Vec::new(), state: GroupState::Stable }
    }

    /// The same, borrowed.
    pub fn as_group(&self) -> Group<'_> {
        Group {
            epoch: self.epoch,
            primary: self.primary,
            in_sync: &self.in_sync,
            followers: &self.followers,
            state: self.state,
        }
    }
}

impl Group<'_> {
    /// Primary, in-sync replicas, followers, in this order.
    pub fn members(self) -> impl Iterator<Item = InstanceId> {
        std::iter::once(self.primary)
            .chain(self.in_sync.iter().copied())
            .chain(self.followers.iter().copied())
    }

    /// The group as a change would describe it.
    pub fn to_group(self) -> ReplicaGroup {
        let Group { epoch, primary, in_sync, followers, state } = self;
        ReplicaGroup { epoch, primary, in_sync: in_sync.to_vec(), followers: followers.to_vec(), state }
    }

    /// Checks that this group is valid, as far as that is possible without the map.
    pub(super) fn check(self) -> Result<(), GroupFault> {
        let count = 1 + self.in_sync.len() + self.followers.len();
        if count > GROUP_MEMBERS_MAX {
            return Err(GroupFault::TooMany { members: count });
        }
        if self.state == GroupState::Admitting && self.followers.is_empty() {
            return Err(GroupFault::NoFollowerToAdmit);
        }
        let mut members: Vec<InstanceId> = self.members().collect();
        members.sort_unstable();
        match members.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(GroupFault::Twice { instance: pair[0] }),
            None => Ok(()),
        }
    }
}

/// The reason why a group is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupFault {
    /// The group exceeds the maximum number of members.
    TooMany {
        /// The number of members.
        members: usize,
    },
    /// An instance is named twice.
    Twice {
        /// The instance.
        instance: InstanceId,
    },
    /// The state says that a follower is to be admitted, but there is none.
    NoFollowerToAdmit,
}

impl std::fmt::Display for GroupFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TooMany { members } => write!(f, "has {members} members, of at most {GROUP_MEMBERS_MAX}"),
            Self::Twice { instance } => write!(f, "names instance {instance} twice"),
            Self::NoFollowerToAdmit => f.write_str("has a follower to admit, and no follower"),
        }
    }
}

/// The position of a group's members, in 16 bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct GroupEntry {
    epoch: PartitionEpoch,
    start: u32,
    in_sync: u8,
    followers: u8,
    state: GroupState,
}

/// A list of groups: 4 bytes a member and 16 a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct GroupList {
    /// By partition.
    entries: Vec<GroupEntry>,
    /// For each group, from its start: primary, in-sync replicas, followers. The vector is compact, in the order of partitions, except between
    /// [`GroupList::set`] and [`GroupList::compact`].
    members: Vec<InstanceId>,
}

impl GroupList {
    /// The groups must have passed [`Group::check`].
    pub(super) fn new(groups: &[ReplicaGroup]) -> GroupList {
        let mut table = GroupList::default();
        for group in groups {
            let entry = table.stored(group.as_group());
            table.entries.push(entry);
        }
        table.compact();
        table
    }

    pub(super) fn get(&self, partition: PartitionId) -> Option<Group<'_>> {
        let GroupEntry { epoch, start, in_sync, followers, state } =
            self.entries.get(partition.get() as usize)?;
        let (in_sync, followers) = (usize::from(*in_sync), usize::from(*followers));
        let [primary, others @ ..] = &self.members[*start as usize..][..1 + in_sync + followers] else {
            unreachable!("the slice has a length of at least one");
        };
        let (in_sync, followers) = others.split_at(in_sync);
        Some(Group { epoch: *epoch, primary: *primary, in_sync, followers, state: *state })
    }

    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = (PartitionId, Group<'_>)> {
        (0..self.entries.len()).map(|at| {
            let partition = PartitionId(at as u32);
            (partition, self.get(partition).expect("the partition is within the table"))
        })
    }

    /// Replaces an existing group by one that has passed [`Group::check`]. A group with the same number of members overwrites the old one.
    /// Otherwise the old members remain unused, and [`GroupList::compact`] must follow. Returns whether it must.
    pub(super) fn set(&mut self, partition: PartitionId, group: Group<'_>) -> bool {
        let at = partition.get() as usize;
        let old = &self.entries[at];
        let (start, count) = (old.start, 1 + usize::from(old.in_sync) + usize::from(old.followers));
        if count == group.members().count() {
            let place = &mut self.members[start as usize..][..count];
            place.iter_mut().zip(group.members()).for_each(|(place, member)| *place = member);
            self.entries[at] = counts(group, start);
            return false;
        }
        let entry = self.stored(group);
        self.entries[at] = entry;
        true
    }

    /// Inserts a group that has passed [`Group::check`] at a position. [`GroupList::compact`] must follow.
    pub(super) fn insert(&mut self, at: usize, group: Group<'_>) {
        let entry = self.stored(group);
        self.entries.insert(at, entry);
    }

    /// Removes members that no group refers to.
    pub(super) fn compact(&mut self) {
        let mut members = Vec::with_capacity(self.iter().map(|(_, group)| group.members().count()).sum());
        for entry in &mut self.entries {
            let count = 1 + usize::from(entry.in_sync) + usize::from(entry.followers);
            let old = &self.members[entry.start as usize..][..count];
            entry.start = members.len() as u32;
            members.extend_from_slice(old);
        }
        self.members = members;
        self.entries.shrink_to_fit();
    }

    /// The numbers of partitions, and of members of all groups.
    pub(super) fn counts(&self) -> (usize, usize) {
        (self.entries.len(), self.members.len())
    }

    /// Bytes on the heap.
    pub(super) fn memory_bytes(&self) -> usize {
        self.entries.capacity() * size_of::<GroupEntry>() + self.members.capacity() * size_of::<InstanceId>()
    }

    fn stored(&mut self, group: Group<'_>) -> GroupEntry {
        // Deltas are limited (`CHANGES_MAX` groups of `GROUP_MEMBERS_MAX`), so a table that is being changed stays far below.
        let start = u32::try_from(self.members.len()).expect("a table has fewer than 2^32 members");
        self.members.extend(group.members());
        counts(group, start)
    }
}

/// The entry of a group whose members begin at `start`.
fn counts(group: Group<'_>, start: u32) -> GroupEntry {
    // Each count is at most `GROUP_MEMBERS_MAX`: the group has been checked.
    GroupEntry {
        epoch: group.epoch,
        start,
        in_sync: group.in_sync.len() as u8,
        followers: group.followers.len() as u8,
        state: group.state,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn groups() -> impl Strategy<Value = ReplicaGroup> {
        let members = proptest::collection::vec(0u32..1000, 0..4);
        (any::<u64>(), 0u32..1000, members.clone(), members, any::<bool>()).prop_map(
            |(epoch, primary, in_sync, followers, recovering)| {
                let ids = |ids: Vec<u32>| ids.into_iter().map(InstanceId).collect();
                ReplicaGroup {
                    epoch: PartitionEpoch(epoch),
                    primary: InstanceId(primary),
                    in_sync: ids(in_sync),
                    followers: ids(followers),
                    state: if recovering { GroupState::Recovering } else { GroupState::Stable },
                }
            },
        )
    }

    proptest! {
        #[test]
        fn group_list_returns_last_set_groups_only(
            mut model in proptest::collection::vec(groups(), 1..20),
            sets in proptest::collection::vec((any::<prop::sample::Index>(), groups()), 0..40),
        ) {
            let mut table = GroupList::new(&model);
            for (at, group) in sets {
                let at = at.index(model.len());
                table.set(PartitionId(at as u32), group.as_group());
                model[at] = group;
            }
            table.compact();
            let stored: Vec<ReplicaGroup> = table.iter().map(|(_, group)| group.to_group()).collect();
            prop_assert_eq!(&stored, &model);
            // This also checks that the form is canonical, so that equal maps compare equal.
            prop_assert_eq!(&table, &GroupList::new(&model));
            prop_assert!(table.get(PartitionId(model.len() as u32)).is_none());
        }
    }

    #[test]
    fn group_refuses_duplicate_and_too_many_members() {
        let group = |in_sync: &[u32], followers: &[u32]| ReplicaGroup {
            in_sync: in_sync.iter().copied().map(InstanceId).collect(),
            followers: followers.iter().copied().map(InstanceId).collect(),
            ..ReplicaGroup::of_one(PartitionEpoch(1), InstanceId(0))
        };
        let check = |group: ReplicaGroup| group.as_group().check();
        assert_eq!(check(group(&[1, 2], &[3])), Ok(()));
        assert_eq!(check(group(&[1, 2], &[1])), Err(GroupFault::Twice { instance: InstanceId(1) }));
        assert_eq!(check(group(&[], &[0])), Err(GroupFault::Twice { instance: InstanceId(0) }));
        let many: Vec<u32> = (1..=16).collect();
        assert_eq!(check(group(&many, &[])), Err(GroupFault::TooMany { members: 17 }));
        assert_eq!(check(group(&many[..15], &[])), Ok(()));
        let admitting = |group| check(ReplicaGroup { state: GroupState::Admitting, ..group });
        assert_eq!(admitting(group(&[1], &[2])), Ok(()));
        assert_eq!(admitting(group(&[1], &[])), Err(GroupFault::NoFollowerToAdmit));
    }
}
