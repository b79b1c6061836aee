//! The replica group as the map names it, and the changes that a member may request.

use zerohop_placement::{Group, GroupState};
use zerohop_wire::ids::{Incarnation, InstanceId, MapEpoch, PartitionEpoch};
pub use zerohop_wire::messages::Member;

/// A group in one epoch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupView {
    /// The epoch of the partition; 0 before any map is known.
    pub epoch: PartitionEpoch,
    /// The epoch of the map that names this group.
    pub map_epoch: MapEpoch,
    /// The member that orders writes and answers requests.
    pub primary: Member,
    /// The other members that have everything that was acknowledged.
    pub in_sync: Vec<Member>,
    /// The members that receive the log and do not count for acknowledgements.
    pub followers: Vec<Member>,
    /// Copies that must exist before a write is acknowledged. The group is extended to that number.
    pub min_in_sync: u8,
}

/// The role of a member in a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// The instance is not a member, or is a member under another incarnation.
    #[default]
    Removed,
    /// See [`GroupView::followers`].
    Follower,
    /// See [`GroupView::in_sync`].
    InSync,
    /// See [`GroupView::primary`].
    Primary,
}

/// A change of a group that its primary requests. The control group makes it only if the epoch is still the named epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupChange {
    /// Add this follower to the in-sync set.
    Admit(Member),
    /// Remove this member from the in-sync set. It may be a follower if it is able to.
    Remove(Member),
    /// The same group under a higher epoch. This settles requests of this epoch that are still open.
    RaiseEpoch,
}

impl GroupView {
    /// The group of a map. `incarnation` returns the incarnation of an instance in this map, which the map states for each node.
    /// While the group is recovering it has no members: no replica serves, and no log changes before a primary is chosen.
    pub fn of(
        group: Group<'_>,
        map_epoch: MapEpoch,
        min_in_sync: u8,
        mut incarnation: impl FnMut(InstanceId) -> Incarnation,
    ) -> GroupView {
        if group.state == GroupState::Recovering {
            let primary = Member { instance: group.primary, incarnation: Incarnation(0) };
            return GroupView { epoch: group.epoch, map_epoch, primary, min_in_sync, ..GroupView::default() };
        }
        let mut member = |instance| Member { instance, incarnation: incarnation(instance) };
        GroupView {
            epoch: group.epoch,
            map_epoch,
            primary: member(group.primary),
            in_sync: group.in_sync.iter().map(|one| member(*one)).collect(),
            followers: group.followers.iter().map(|one| member(*one)).collect(),
            min_in_sync,
        }
    }

    /// The role of a member in this group.
    pub fn role(&self, member: Member) -> Role {
        if self.primary == member {
            Role::Primary
        } else if self.in_sync.contains(&member) {
            Role::InSync
        } else if self.followers.contains(&member) {
            Role::Follower
        } else {
            Role::Removed
        }
    }

    /// In-sync replicas and followers.
    pub fn others(&self) -> impl Iterator<Item = Member> + '_ {
        self.in_sync.iter().chain(&self.followers).copied()
    }

    /// The number of copies that have everything that was acknowledged.
    pub fn copies(&self) -> usize {
        1 + self.in_sync.len()
    }

    /// The epoch in the width that log entries use.
    pub(crate) fn entry_epoch(&self) -> u32 {
        // Each change of a group adds one. 2^32 changes outlast the machine.
        u32::try_from(self.epoch.0).unwrap_or(u32::MAX)
    }
}
