//! Disks without room. A primary that cannot write hands over to a replica that can, and a member that cannot take entries says so
//! and is put out of sync, as long as enough members are left that have room. If not, nobody is moved about for it: new writes
//! are answered `DiskFull`, and what makes room is let in everywhere.

use zerohop_engine::disk::Disk;
use zerohop_engine::{Durability, Engine};
use zerohop_wire::messages::{Call, FollowerReport, Member};

use super::limits::{NO_ROOM_AGAIN_US, NO_ROOM_SURE_US};
use super::{Context, GroupChange, Replica, ReplicaEffects, Role};

impl Replica {
    /// Whether what is written goes to a disk, and this one's has no room.
    pub(super) fn is_full<D: Disk>(&self, engine: &Engine<D>) -> bool {
        self.partition.durability() != Durability::Memory && !engine.has_room()
    }

    /// Takes note of how this disk stands; a member that is not primary says that it is full, again and again: so the primary that
    /// hears nothing of it any more knows that there is room.
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

    /// When it has something to say of its disk, or to do, though nothing comes.
    pub(super) fn room_wake_us(&self, now_us: u64) -> u64 {
        let Some(since_us) = self.full_since_us else { return u64::MAX };
        match self.role {
            Role::Primary if now_us < self.sure_us(since_us) => self.sure_us(since_us),
            // That those who have said that they are full have room again comes by their silence.
            Role::Primary => now_us + NO_ROOM_AGAIN_US,
            Role::InSync | Role::Follower => self.told_full_us + NO_ROOM_AGAIN_US,
            Role::Removed => u64::MAX,
        }
    }

    /// From when on others whose disks are full have said so, to this primary of this epoch.
    fn sure_us(&self, full_since_us: u64) -> u64 {
        full_since_us.max(self.settled_us) + NO_ROOM_SURE_US
    }

    /// Whether another member has said that its disk is full.
    pub(super) fn has_told_full(&self, member: Member, now_us: u64) -> bool {
        self.streams.iter().any(|stream| stream.member == member && now_us < stream.full_until_us)
    }

    /// Whether enough members have room for as many copies as a write must have.
    pub(super) fn enough_have_room<D: Disk>(&self, context: &Context<'_, D>) -> bool {
        let own = usize::from(!self.is_full(context.engine));
        let others = self.view.others().filter(|one| !self.has_told_full(*one, context.now_us));
        own + others.count() >= usize::from(self.view.min_in_sync)
    }

    /// Has what cannot be promised refused, instead of waiting for those who will not take it.
    pub(super) fn refuse_without_room<D: Disk>(&mut self, context: &Context<'_, D>) {
        let lacks_room = self.role == Role::Primary && !self.enough_have_room(context);
        self.partition.set_lacks_room(lacks_room);
    }

    /// Whom this group is to do without because of a full disk: an in-sync replica, or this primary itself, for which one takes
    /// over that has room.
    pub(super) fn change_for_room<D: Disk>(&self, context: &Context<'_, D>) -> Option<GroupChange> {
        if !self.enough_have_room(context) {
            return None;
        }
        let now_us = context.now_us;
        if !self.is_full(context.engine) {
            let full = self.view.in_sync.iter().copied().find(|one| self.has_told_full(*one, now_us));
            return full.map(GroupChange::Remove);
        }
        // Others that have become full at the same moment, of one disk perhaps, have said so by then.
        let is_sure = self.full_since_us.is_some_and(|since_us| now_us >= self.sure_us(since_us));
        let has_heir = self.view.in_sync.iter().any(|one| !self.has_told_full(*one, now_us));
        (is_sure && has_heir).then_some(GroupChange::Remove(self.me))
    }

    /// Whether a member is to be let alone until its disk has room: it could not keep what it were sent. If this one has none
    /// either, what makes room must come to all.
    pub(super) fn waits_for_room<D: Disk>(&self, context: &Context<'_, D>, full_until_us: u64) -> bool {
        context.now_us < full_until_us && !self.is_full(context.engine)
    }
}
