//! Full disks. A primary that cannot write hands over to an in-sync replica that can. A member that cannot accept entries reports
//! that and is removed from the in-sync set, as long as enough members with free space remain. Otherwise no member is moved. New
//! writes are then answered with `DiskFull`, and requests that free space are admitted everywhere.

use zerohop_engine::disk::Disk;
use zerohop_engine::{Durability, Engine};
use zerohop_wire::messages::{FollowerReport, Member, PeerBody};

use super::limits::{DISK_FULL_HANDOVER_US, DISK_FULL_REPORT_US};
use super::{Context, GroupChange, Replica, ReplicaEffects, Role};

impl Replica {
    /// Whether the partition is written to a disk, and this disk is full.
    pub(super) fn is_full<D: Disk>(&self, engine: &Engine<D>) -> bool {
        self.partition.durability() != Durability::Memory && !engine.has_disk_space()
    }

    /// Checks this disk. A member other than the primary reports a full disk repeatedly. When the reports stop, the primary knows
    /// that the member has room again.
    pub(super) fn check_disk_space<D: Disk>(
        &mut self,
        context: &Context<'_, D>,
        effects: &mut dyn ReplicaEffects,
    ) {
        let now_us = context.now_us;
        if !self.is_full(context.engine) {
            (self.follow.full_since_us, self.follow.full_reported_us) = (None, 0);
            return;
        }
        self.follow.full_since_us.get_or_insert(now_us);
        let is_member = matches!(self.role, Role::InSync | Role::Follower);
        let is_due =
            self.follow.full_reported_us == 0 || now_us >= self.follow.full_reported_us + DISK_FULL_REPORT_US;
        if is_member && is_due {
            self.follow.full_reported_us = now_us.max(1);
            self.counts.disk_full_reports += 1;
            effects.send(
                self.view.primary,
                self.view.epoch,
                &PeerBody::ReplicateAck(FollowerReport::DiskFull),
            );
        }
    }

    /// When it must next report or check a full disk, even if no event arrives.
    pub(super) fn disk_full_due_us(&self, now_us: u64) -> u64 {
        let Some(since_us) = self.follow.full_since_us else { return u64::MAX };
        match self.role {
            Role::Primary if now_us < self.sure_us(since_us) => self.sure_us(since_us),
            // When members that have reported full disks have room again, their reports stop.
            Role::Primary => now_us + DISK_FULL_REPORT_US,
            Role::InSync | Role::Follower => self.follow.full_reported_us + DISK_FULL_REPORT_US,
            Role::Removed => u64::MAX,
        }
    }

    /// The time by which other members with full disks have reported them to this primary in this epoch.
    fn sure_us(&self, full_since_us: u64) -> u64 {
        full_since_us.max(self.role_changed_us) + DISK_FULL_HANDOVER_US
    }

    /// Whether another member has reported that its disk is full.
    pub(super) fn has_reported_full(&self, member: Member, now_us: u64) -> bool {
        self.lead.streams.iter().any(|stream| stream.member == member && now_us < stream.full_until_us)
    }

    /// Whether enough members have room for as many copies as a write needs.
    pub(super) fn have_enough_disk_space<D: Disk>(&self, context: &Context<'_, D>) -> bool {
        let own = usize::from(!self.is_full(context.engine));
        let others = self.view.others().filter(|one| !self.has_reported_full(*one, context.now_us));
        own + others.count() >= usize::from(self.view.min_in_sync)
    }

    /// Makes the partition refuse writes that cannot get enough copies, instead of letting them wait for full members.
    pub(super) fn refuse_if_disks_full<D: Disk>(&mut self, context: &Context<'_, D>) {
        let lacks_room = self.role == Role::Primary && !self.have_enough_disk_space(context);
        self.partition.set_lacks_disk_space(lacks_room);
    }

    /// The member that this group must remove because of a full disk. It is an in-sync replica, or this primary itself if a
    /// member with room can take over.
    pub(super) fn change_for_full_disk<D: Disk>(&self, context: &Context<'_, D>) -> Option<GroupChange> {
        if !self.have_enough_disk_space(context) {
            return None;
        }
        let now_us = context.now_us;
        if !self.is_full(context.engine) {
            let full = self.view.in_sync.iter().copied().find(|one| self.has_reported_full(*one, now_us));
            return full.map(GroupChange::Remove);
        }
        // By then members whose disks became full at the same moment, perhaps because they share a disk, have reported that.
        let is_sure = self.follow.full_since_us.is_some_and(|since_us| now_us >= self.sure_us(since_us));
        let has_heir = self.view.in_sync.iter().any(|one| !self.has_reported_full(*one, now_us));
        (is_sure && has_heir).then_some(GroupChange::Remove(self.this_member))
    }

    /// Whether a member is sent no entries until its disk has room, because it could not store them. If too few members have room, or
    /// this disk is full too, entries are sent, because all members need those that free space.
    pub(super) fn waits_for_disk_space<D: Disk>(&self, context: &Context<'_, D>, full_until_us: u64) -> bool {
        context.now_us < full_until_us
            && !self.is_full(context.engine)
            && self.have_enough_disk_space(context)
    }
}
