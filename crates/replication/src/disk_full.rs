//! Full disks. A primary that cannot write hands over to an in-sync replica that can. A member that cannot accept entries reports
//! that and is removed from the in-sync set, as long as enough members with free space remain. Otherwise no member is moved. New
//! writes are then answered with `DiskFull`, and requests that free space are admitted everywhere.

use zerohop_engine::disk::Disk;
use zerohop_engine::{Durability, Engine};
use zerohop_wire::messages::{Call, FollowerReport, Member};

use super::limits::{NO_ROOM_AGAIN_US, NO_ROOM_SURE_US};
use super::{Context, GroupChange, Replica, ReplicaEffects, Role};

impl Replica {
    /// Whether the partition is written to a disk, and this disk is full.
    pub(super) fn is_full<D: Disk>(&self, engine: &Engine<D>) -> bool {
        self.partition.durability() != Durability::Memory && !engine.has_room()
    }

    /// Checks this disk. A member other than the primary reports a full disk repeatedly. When the reports stop, the primary knows
    /// that the member has room again.
    pub(super) fn look_at_room<D: Disk>(
        &mut self,
        context: &Context<'_, D>,
        effects: &mut dyn ReplicaEffects,
    ) {
        let now_us = context.now_us;
        if !self.is_full(context.engine) {
            (self.full_since_us, self.told_full_us) = (None, 0);
            return;
        }
        self.full_since_us.get_or_insert(now_us);
        let is_member = matches!(self.role, Role::InSync | Role::Follower);
        let is_due = self.told_full_us == 0 || now_us >= self.told_full_us + NO_ROOM_AGAIN_US;
        if is_member && is_due {
            self.told_full_us = now_us.max(1);
            self.counts.told_full += 1;
            effects.send(self.view.primary, self.view.epoch, &Call::ReplicateAck(FollowerReport::NoRoom));
        }
    }

    /// When it must next report or check a full disk, even if no event arrives.
    pub(super) fn room_wake_us(&self, now_us: u64) -> u64 {
        let Some(since_us) = self.full_since_us else { return u64::MAX };
        match self.role {
            Role::Primary if now_us < self.sure_us(since_us) => self.sure_us(since_us),
            // When members that have reported full disks have room again, their reports stop.
            Role::Primary => now_us + NO_ROOM_AGAIN_US,
            Role::InSync | Role::Follower => self.told_full_us + NO_ROOM_AGAIN_US,
            Role::Removed => u64::MAX,
        }
    }

    /// The time by which other members with full disks have reported them to this primary in this epoch.
    fn sure_us(&self, full_since_us: u64) -> u64 {
        full_since_us.max(self.settled_us) + NO_ROOM_SURE_US
    }

    /// Whether another member has reported that its disk is full.
    pub(super) fn has_told_full(&self, member: Member, now_us: u64) -> bool {
        self.streams.iter().any(|stream| stream.member == member && now_us < stream.full_until_us)
    }

    /// Whether enough members have room for as many copies as a write needs.
    pub(super) fn enough_have_room<D: Disk>(&self, context: &Context<'_, D>) -> bool {
        let own = usize::from(!self.is_full(context.engine));
        let others = self.view.others().filter(|one| !self.has_told_full(*one, context.now_us));
        own + others.count() >= usize::from(self.view.min_in_sync)
    }

    /// Makes the partition refuse writes that cannot get enough copies, instead of letting them wait for full members.
    pub(super) fn refuse_without_room<D: Disk>(&mut self, context: &Context<'_, D>) {
        let lacks_room = self.role == Role::Primary && !self.enough_have_room(context);
        self.partition.set_lacks_room(lacks_room);
    }

    /// The member that this group must remove because of a full disk. It is an in-sync replica, or this primary itself if a
    /// member with room can take over.
    pub(super) fn change_for_room<D: Disk>(&self, context: &Context<'_, D>) -> Option<GroupChange> {
        if !self.enough_have_room(context) {
            return None;
        }
        let now_us = context.now_us;
        if !self.is_full(context.engine) {
            let full = self.view.in_sync.iter().copied().find(|one| self.has_told_full(*one, now_us));
            return full.map(GroupChange::Remove);
        }
        // By then members whose disks became full at the same moment, perhaps because they share a disk, have reported that.
        let is_sure = self.full_since_us.is_some_and(|since_us| now_us >= self.sure_us(since_us));
        let has_heir = self.view.in_sync.iter().any(|one| !self.has_told_full(*one, now_us));
        (is_sure && has_heir).then_some(GroupChange::Remove(self.me))
    }

    /// Whether a member is sent no entries until its disk has room, because it could not store them. If this disk is full too,
    /// entries are sent, because all members need those that free space.
    pub(super) fn waits_for_room<D: Disk>(&self, context: &Context<'_, D>, full_until_us: u64) -> bool {
        context.now_us < full_until_us && !self.is_full(context.engine)
    }
}
