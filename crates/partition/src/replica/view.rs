//! The replica group as the map names it, and what a member asks to be changed in it.

use zerohop_placement::{Group, GroupState};
use zerohop_wire::ids::{Incarnation, InstanceId, MapEpoch, PartitionEpoch};
pub use zerohop_wire::messages::Member;

/// A group in one epoch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupView {
    /// Of the partition; 0 before any map is known.
    pub epoch: PartitionEpoch,
    /// Of the map that says so.
    pub map_epoch: MapEpoch,
    /// Who orders writes and answers.
    pub primary: Member,
    /// The others that hold everything that was acknowledged.
    pub in_sync: Vec<Member>,
    /// Those that follow behind.
    pub followers: Vec<Member>,
    /// Copies that must hold a write before it is acknowledged; the group is brought to so many.
    pub min_in_sync: u8,
}

/// What a member is in a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// Not in it, or with another incarnation.
    #[default]
    Removed,
    /// See [`GroupView::followers`].
    Follower,
    /// See [`GroupView::in_sync`].
    InSync,
    /// See [`GroupView::primary`].
    Primary,
}

/// A change of a group that its primary asks for. The control group makes it only if the epoch is still the one named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupChange {
    /// This follower is in sync.
    Admit(Member),
    /// This in-sync replica is one no more; it may follow, if it can.
    Remove(Member),
    /// The same group under a higher epoch: settles what an earlier request of this epoch has left open.
    Keep,
}

impl GroupView {
    /// The group of a map. `incarnation` tells that of an instance in this map; the map names it for each node. While the
    /// group recovers nobody is a member: nobody serves, and no log changes before one is chosen.
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

    /// What a member is in it.
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

    /// Copies that hold everything that was acknowledged.
    pub fn copies(&self) -> usize {
        1 + self.in_sync.len()
    }

    /// The epoch as entries carry it.
    pub(crate) fn entry_epoch(&self) -> u32 {
        // Raised by one for each change of one group: 2^32 of them outlast the machine.
        u32::try_from(self.epoch.0).unwrap_or(u32::MAX)
    }
}
