//! A member: `crates/replication/src`, step by step.

use crate::log::Entry;
use crate::model::Model;
use crate::rules::ReplicationRule;
use crate::world::{ALL, LastRequest, MEMBERS, Member, NO_MARK, ReplicaWorld, Role, each, has, only};

impl Model {
    /// What a member is in the group of an epoch.
    pub(crate) fn role_in(&self, world: &ReplicaWorld, me: usize, epoch: u8) -> Role {
        let group = world.group(epoch);
        let serves_none = group.is_recovering && self.follows(ReplicationRule::RecoveringDoesNotServe);
        if epoch == 0 || group.starts[me] != world.members[me].start || serves_none {
            Role::Removed
        } else if group.primary() == me {
            Role::Primary
        } else if has(group.in_sync, me) {
            Role::InSync
        } else if has(group.followers, me) {
            Role::Follower
        } else {
            Role::Removed
        }
    }

    /// What a member takes itself for.
    pub(crate) fn role(&self, world: &ReplicaWorld, me: usize) -> Role {
        self.role_in(world, me, world.members[me].known)
    }

    pub(crate) fn is_started(&self, world: &ReplicaWorld, me: usize) -> bool {
        let member = &world.members[me];
        member.mark != NO_MARK && (member.applied >= member.mark || !self.follows(ReplicationRule::MarkFirst))
    }

    /// Whether a member may answer at this moment, if it has got all the grants that it can have (`admission.rs`).
    pub(crate) fn may_answer(&self, world: &ReplicaWorld, me: usize) -> bool {
        self.role(world, me) == Role::Primary
            && self.is_started(world, me)
            && self.has_waited(world, me)
            && self.may_have_all_leases(world, me)
    }

    fn has_copies(&self, world: &ReplicaWorld, me: usize) -> bool {
        let copies = world.view(me).copies().count_ones() as u8;
        copies >= self.bounds.min_in_sync || !self.follows(ReplicationRule::CopiesBeforeWrites)
    }

    /// A client writes.
    pub(crate) fn write(&self, world: &mut ReplicaWorld, me: usize) -> Option<()> {
        let may = world.writes < self.bounds.writes
            && world.members[me].log.has_room()
            && self.may_answer(world, me)
            && self.has_copies(world, me);
        may.then_some(())?;
        world.writes += 1;
        let write = world.writes;
        self.append(world, me, write);
        world.members[me].pending |= 1 << (write - 1);
        Some(())
    }

    /// Clients read whatever can be read, all the time; a read of something uncommitted is answered once it is committed.
    pub(crate) fn read(&self, world: &mut ReplicaWorld) {
        for me in 0..MEMBERS {
            let member = &world.members[me];
            let is_committed =
                member.applied == member.log.last() || !self.follows(ReplicationRule::AnswersWait);
            let is_new = member.log.writes() & !world.acknowledged != 0;
            if is_new && is_committed && self.may_answer(world, me) {
                world.acknowledged |= world.members[me].log.writes();
            }
        }
    }

    fn append(&self, world: &mut ReplicaWorld, me: usize, write: u8) {
        let member = &mut world.members[me];
        member.log.push(Entry { epoch: member.known, write });
        world.sent[usize::from(member.known)].log = member.log;
    }

    /// A primary commits its next entry, and answers the requests that wait for it.
    pub(crate) fn commit(&self, world: &mut ReplicaWorld, me: usize) -> Option<()> {
        (self.role(world, me) == Role::Primary).then_some(())?;
        let member = world.members[me];
        let index = member.applied + 1;
        let entry = member.log.at(index)?;
        let is_starting = member.applied < member.mark;
        let may = self.has_waited(world, me) && (is_starting || self.may_have_all_leases(world, me));
        let needed =
            if self.follows(ReplicationRule::AllInSyncAcknowledge) { self.needed(world, me) } else { 0 };
        let has_acknowledged = |other: usize| {
            let epochs =
                if self.follows(ReplicationRule::AcknowledgedInThisEpoch) { member.known } else { 1 };
            (epochs..=member.known).any(|epoch| world.sent[usize::from(epoch)].acknowledged[other] >= index)
        };
        let is_durable = !self.bounds.is_sync || member.durable >= index;
        (may && is_durable && each(needed).all(has_acknowledged)).then_some(())?;
        world.members[me].applied = index;
        let sent = &mut world.sent[usize::from(member.known)];
        sent.commit = sent.commit.max(index);
        let bit = if entry.write == 0 { 0 } else { 1 << (entry.write - 1) };
        if member.pending & bit != 0 {
            world.members[me].pending &= !bit;
            world.acknowledged |= bit;
            let others = sent.acknowledged.iter().filter(|stored| **stored >= index);
            world.broken.is_thin |= others.count() + 1 < usize::from(self.bounds.min_in_sync);
        }
        Some(())
    }

    /// A replica gets entry `index + 1` of the primary of an epoch, behind entry `index` (`replication/src/follower.rs`).
    pub(crate) fn take_entry(
        &self,
        world: &mut ReplicaWorld,
        me: usize,
        (epoch, index): (u8, u8),
    ) -> Option<()> {
        let sent = world.sent[usize::from(epoch)];
        let entry = sent.log.at(index + 1)?;
        self.accepts_from(world, me, epoch).then_some(())?;
        self.match_at(world, me, (epoch, index))?;
        let member = &mut world.members[me];
        let next = index + 1;
        let conflicts = member.log.epoch_at(next).is_some_and(|own| own != entry.epoch);
        if conflicts && self.follows(ReplicationRule::ConflictsCut) {
            if next <= member.applied {
                self.needs_state(world, me);
                return Some(());
            }
            member.log.cut_after(index);
            member.durable = member.durable.min(index);
        }
        let member = &mut world.members[me];
        if next == member.log.last() + 1 {
            member.log.push(entry);
        }
        if next > member.log.last() {
            return None;
        }
        member.matched = member.matched.max(next);
        self.acknowledge(world, me, epoch);
        Some(())
    }

    /// A replica hears up to where the primary has committed.
    pub(crate) fn receive_commit(&self, world: &mut ReplicaWorld, me: usize) -> Option<()> {
        let epoch = world.members[me].known;
        let commit = world.sent[usize::from(epoch)].commit;
        self.accepts_from(world, me, epoch).then_some(())?;
        let member = &mut world.members[me];
        let known =
            if self.follows(ReplicationRule::CommitNeedsMatch) { member.matched } else { member.log.last() };
        member.applied = member.applied.max(commit.min(known));
        if member.log.epoch_at(member.applied) == Some(epoch) {
            // The primary of this epoch has waited for all before it.
            (member.former_primaries, member.has_unknown_former_primaries) = (0, false);
        }
        Some(())
    }

    /// A replica without its state gets a snapshot install, as of a commit index of the primary.
    pub(crate) fn take_state(&self, world: &mut ReplicaWorld, me: usize, commit: u8) -> Option<()> {
        let epoch = world.members[me].known;
        let sent = world.sent[usize::from(epoch)];
        let is_replica = matches!(self.role(world, me), Role::InSync | Role::Follower);
        let member = &mut world.members[me];
        (is_replica && member.needs_state && commit <= sent.commit).then_some(())?;
        member.log = sent.log.up_to(commit);
        (member.applied, member.durable, member.matched) = (commit, commit, commit);
        member.needs_state = false;
        self.acknowledge(world, me, epoch);
        Some(())
    }

    /// Whether a member takes what the primary of an epoch sends.
    fn accepts_from(&self, world: &ReplicaWorld, me: usize, epoch: u8) -> bool {
        let member = &world.members[me];
        let was_meant = self.role_in(world, me, epoch) != Role::Removed
            && world.group(epoch).primary() != me
            && epoch <= world.control.epoch;
        let is_replica = matches!(self.role(world, me), Role::InSync | Role::Follower);
        let may = match epoch.cmp(&member.known) {
            std::cmp::Ordering::Equal => is_replica,
            std::cmp::Ordering::Less => !self.follows(ReplicationRule::OlderEpochsRefused),
            // Held until the map is there: as if it came later.
            std::cmp::Ordering::Greater => false,
        };
        may && was_meant && !member.needs_state
    }

    /// Looks whether its entry at an index is that of the primary. A replica that has committed another there must
    /// take everything again.
    fn match_at(&self, world: &mut ReplicaWorld, me: usize, (epoch, index): (u8, u8)) -> Option<()> {
        let member = &world.members[me];
        let primary = world.sent[usize::from(epoch)].log.epoch_at(index);
        let own = member.log.epoch_at(index);
        if own == primary || !self.follows(ReplicationRule::PrecedingMatched) {
            return Some(());
        }
        if own.is_some() && index <= member.applied {
            self.needs_state(world, me);
        }
        None
    }

    fn needs_state(&self, world: &mut ReplicaWorld, me: usize) {
        world.members[me].needs_state = true;
        world.broken.is_commit_cut |= !world.is_loss_reported;
    }

    /// Says what it holds.
    fn acknowledge(&self, world: &mut ReplicaWorld, me: usize, epoch: u8) {
        let member = &world.members[me];
        let waits_for_disk = self.bounds.is_sync && self.follows(ReplicationRule::DurableBeforeAcknowledged);
        let stored = if waits_for_disk { member.matched.min(member.durable) } else { member.matched };
        let acknowledged_index = &mut world.sent[usize::from(epoch)].acknowledged[me];
        *acknowledged_index = stored.max(*acknowledged_index);
    }

    /// A flush ends.
    pub(crate) fn flush(&self, world: &mut ReplicaWorld, me: usize) -> Option<()> {
        let member = &mut world.members[me];
        (self.bounds.is_sync && member.durable < member.log.last()).then_some(())?;
        member.durable = member.log.last();
        let known = member.known;
        if matches!(self.role(world, me), Role::InSync | Role::Follower) {
            self.acknowledge(world, me, known);
        }
        Some(())
    }

    /// The map of an epoch arrives (`role_change.rs`).
    pub(crate) fn take_map(&self, world: &mut ReplicaWorld, me: usize, epoch: u8) -> Option<()> {
        let before = world.members[me];
        (before.known < epoch && epoch <= world.control.epoch).then_some(())?;
        let has_seen_all = before.known + 1 == epoch;
        // No member was in sync with it, and none comes to be unless it asks.
        let was_alone = self.needed(world, me) == 0;
        let was = self.role(world, me);
        let has_started = was == Role::Primary && before.mark <= before.applied && self.has_waited(world, me);
        let former = world.view(me).primary();
        self.leave_grants(world, me);
        let is = self.role_in(world, me, epoch);
        let group = *world.group(epoch);
        let member = &mut world.members[me];
        member.known = epoch;
        (member.last_proposal, member.admitting, member.removing, member.matched) =
            (LastRequest::Nothing, 0, 0, 0);
        if has_started {
            (member.former_primaries, member.has_unknown_former_primaries) = (0, false);
        } else if was == Role::Primary {
            if self.follows(ReplicationRule::WaitsOutliveDeposition) {
                member.former_primaries |= member.waits;
            }
        } else if before.known != 0 && former != me {
            member.former_primaries |= only(former);
        }
        member.has_unknown_former_primaries |= before.known == 0 || !has_seen_all;
        if was == Role::Primary && is != Role::Primary {
            (member.pending, member.waits, member.waits_start, member.mark) = (0, 0, false, 0);
            world.sent[usize::from(epoch)].yields |= only(me);
        }
        if is == Role::Primary {
            let goes_on = has_seen_all || was_alone || !self.follows(ReplicationRule::UnseenEpochsStartAgain);
            if was == Role::Primary && goes_on {
                world.sent[usize::from(epoch)].log = world.members[me].log;
                world.sent[usize::from(epoch)].commit = world.members[me].applied;
            } else {
                self.promote(world, me);
            }
            if group.copies().count_ones() < u32::from(self.bounds.min_in_sync) {
                world.members[me].pending = 0;
            }
        }
        Some(())
    }

    fn promote(&self, world: &mut ReplicaWorld, me: usize) {
        let member = &mut world.members[me];
        let mut waits = std::mem::take(&mut member.former_primaries);
        member.pending = 0;
        member.waits_start = false;
        if member.has_unknown_former_primaries && self.follows(ReplicationRule::UnseenEpochsWaitedOut) {
            waits = ALL;
            member.waits_start = true;
        }
        let names_epoch = self.follows(ReplicationRule::YieldNamesEpoch);
        let has_yielded = |other: usize| member.yielded[other] >= if names_epoch { member.known } else { 1 };
        member.waits = each(waits & !only(me)).filter(|other| !has_yielded(*other)).map(only).sum();
        member.promoted = member.known;
        let (may_log, known) = (!member.needs_state, usize::from(member.known));
        world.sent[known].log = world.members[me].log;
        world.sent[known].commit = world.members[me].applied;
        if may_log && world.members[me].log.has_room() {
            self.append(world, me, 0);
            world.members[me].mark = world.members[me].log.last();
        } else {
            world.members[me].mark = NO_MARK;
        }
    }

    /// A deposed primary tells the primary of an epoch that it yields to it.
    pub(crate) fn take_yield(&self, world: &mut ReplicaWorld, (epoch, from): (u8, usize)) -> Option<()> {
        let me = world.group(epoch).primary();
        has(world.sent[usize::from(epoch)].yields, from).then_some(())?;
        let member = &mut world.members[me];
        (world.sent[usize::from(epoch)].group.starts[me] == member.start).then_some(())?;
        member.yielded[from] = member.yielded[from].max(epoch);
        if epoch >= member.known || !self.follows(ReplicationRule::YieldNamesEpoch) {
            member.waits &= !only(from);
        }
        Some(())
    }

    /// A primary asks for a change of its group. `None` keeps it.
    pub(crate) fn propose(
        &self,
        world: &mut ReplicaWorld,
        me: usize,
        (kind, about): (LastRequest, usize),
    ) -> Option<()> {
        (self.role(world, me) == Role::Primary).then_some(())?;
        let group = *world.view(me);
        let member = world.members[me];
        let may = match kind {
            LastRequest::Nothing => false,
            LastRequest::Remove => member.last_proposal != LastRequest::Remove && has(group.in_sync, about),
            LastRequest::Keep => member.last_proposal == LastRequest::Admit,
            LastRequest::Admit => {
                let stored = world.sent[usize::from(member.known)].acknowledged[about];
                let has_all =
                    stored >= member.applied || !self.follows(ReplicationRule::CaughtUpBeforeAdmission);
                member.last_proposal == LastRequest::Nothing
                    && member.applied >= member.mark
                    && has(group.followers, about)
                    && group.copies().count_ones() < u32::from(self.bounds.min_in_sync)
                    && self.may_have_lease(world, me, about)
                    && has_all
            }
        };
        let is_present = member.known == world.control.epoch || !self.follows(ReplicationRule::CompareAndSet);
        // What a request asks for that will never be granted makes no difference, unless it is an admission.
        (may && (is_present || kind == LastRequest::Admit)).then_some(())?;
        let member = &mut world.members[me];
        member.last_proposal = kind;
        match kind {
            LastRequest::Admit => member.admitting |= only(about),
            LastRequest::Remove if !self.follows(ReplicationRule::UndecidedRemovalWaits) => {
                member.removing |= only(about)
            }
            _ => {}
        }
        if is_present {
            let control = &mut world.control;
            match kind {
                LastRequest::Admit => control.admits |= only(about),
                LastRequest::Remove => control.removes |= only(about),
                _ => control.keeps = true,
            }
        }
        Some(())
    }

    /// The process ends and another begins on its disk, which has kept so many entries; or on an empty one.
    pub(crate) fn restart(&self, world: &mut ReplicaWorld, me: usize, kept: Option<u8>) -> Option<()> {
        let before = world.members[me];
        let may = world.restarts < self.bounds.restarts && before.start == 0;
        let lowest = if self.bounds.is_sync { before.durable } else { 0 };
        let is_possible = match kept {
            Some(kept) => (lowest..=before.log.last()).contains(&kept),
            None => self.bounds.disks_lost,
        };
        (may && is_possible).then_some(())?;
        world.restarts += 1;
        self.leave_grants(world, me);
        self.drop_grants_to(world, me);
        let is_damaged = kept.is_none() && self.follows(ReplicationRule::LostDiskIsNotIntact);
        let kept = kept.unwrap_or(0);
        world.members[me] = Member {
            start: before.start + 1,
            log: before.log.up_to(kept),
            durable: if self.bounds.is_sync { kept } else { 0 },
            is_damaged,
            has_unknown_former_primaries: true,
            ..Member::default()
        };
        Some(())
    }
}
