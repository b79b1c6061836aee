//! The control group: `crates/control/src/state`, for one partition.

use crate::model::Model;
use crate::rules::ReplicationRule;
use crate::world::{
    Control, EPOCHS, Group, MEMBERS, MemberSet, PrimaryTraffic, ReplicaWorld, STARTS, each, has, only,
};

/// What the control group decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ControlDecision {
    /// What a primary has asked for.
    Admit(usize),
    /// The same.
    Exclude(usize),
    /// The same.
    Keep,
    /// A node is dead, says gossip, rightly or not; at once it may be up again. The heir of its primaries, or itself.
    Down(usize, usize),
    /// A plan.
    Promote(usize),
    /// A plan.
    Demote(usize),
    /// A node's manager says that it has started again; the heir as above.
    Join(usize, usize),
    /// A member of a recovering group says what it has.
    LogReported(usize),
}

impl Model {
    /// Whether another epoch may be decided.
    fn has_epochs(&self, world: &ReplicaWorld) -> bool {
        world.control.epoch < self.bounds.epochs && usize::from(world.control.epoch) + 1 < EPOCHS
    }

    fn set(&self, world: &mut ReplicaWorld, group: Group) -> Option<()> {
        self.has_epochs(world).then_some(())?;
        let Control { epoch, admits, removes, keeps, .. } = world.control;
        world.control = Control { epoch: epoch + 1, ..Control::default() };
        if !self.follows(ReplicationRule::CompareAndSet) {
            (world.control.admits, world.control.removes, world.control.keeps) = (admits, removes, keeps);
        }
        world.sent[usize::from(epoch) + 1] = PrimaryTraffic { group, ..PrimaryTraffic::default() };
        Some(())
    }

    /// Decides. `None` if nothing comes of it.
    pub(crate) fn decide(&self, world: &mut ReplicaWorld, decision: ControlDecision) -> Option<()> {
        let mut group = *world.present();
        match decision {
            ControlDecision::Admit(member) => {
                let may = has(world.control.admits, member)
                    && !group.is_recovering
                    && has(group.followers, member)
                    && group.copies().count_ones() < u32::from(self.bounds.min_in_sync);
                may.then_some(())?;
                group.followers &= !only(member);
                group.in_sync |= only(member);
                self.set(world, group)
            }
            ControlDecision::Exclude(member) => {
                let may = has(world.control.removes, member) && !group.is_recovering;
                (may && has(group.in_sync, member)).then_some(())?;
                group.in_sync &= !only(member);
                group.followers |= only(member);
                self.set(world, group)
            }
            ControlDecision::Keep => {
                (world.control.keeps && !group.is_recovering).then_some(())?;
                self.set(world, group)
            }
            ControlDecision::Down(member, heir) => {
                (self.bounds.verdicts && !group.is_recovering).then_some(())?;
                self.after_down(world, group, (member, heir))
            }
            ControlDecision::Promote(member) => {
                let may = self.bounds.plans && !group.is_recovering;
                (may && has(group.in_sync, member)).then_some(())?;
                group.in_sync = group.copies() & !only(member);
                group.primary = member as u8;
                self.set(world, group)
            }
            ControlDecision::Demote(member) => {
                let may = self.bounds.plans && !group.is_recovering && has(group.in_sync, member);
                (may && group.copies().count_ones() > u32::from(self.bounds.min_in_sync)).then_some(())?;
                group.in_sync &= !only(member);
                group.followers |= only(member);
                self.set(world, group)
            }
            ControlDecision::Join(member, heir) => self.join(world, member, heir),
            ControlDecision::LogReported(member) => self.handle_log_report(world, member),
        }
    }

    /// A dead primary is followed by an in-sync replica; a dead in-sync replica follows.
    fn after_down(
        &self,
        world: &mut ReplicaWorld,
        mut group: Group,
        (down, heir): (usize, usize),
    ) -> Option<()> {
        if group.primary() == down {
            let followers = if self.follows(ReplicationRule::FollowersStay) { 0 } else { group.followers };
            has(group.in_sync | followers, heir).then_some(())?;
            group.primary = heir as u8;
        } else {
            (has(group.in_sync, down) && heir == down).then_some(())?;
        }
        group.in_sync &= !only(down) & !only(heir);
        group.followers = (group.followers | only(down)) & !only(group.primary());
        self.set(world, group)
    }

    /// A process that was replaced by another is in the map: with an intact log under `sync` in its old place.
    fn join(&self, world: &mut ReplicaWorld, member: usize, heir: usize) -> Option<()> {
        let mut group = *world.present();
        let process = world.members[member];
        (group.starts[member] != process.start).then_some(())?;
        let keeps_all =
            self.bounds.is_sync && !process.is_damaged || !self.follows(ReplicationRule::RestartedIsNoMember);
        group.starts[member] = process.start;
        if group.is_recovering {
            let (mut restarted, mut reports) = (world.control.restarted, world.control.log_reports);
            reports[member] = None;
            if !keeps_all {
                restarted |= only(member);
            }
            self.set(world, group)?;
            (world.control.restarted, world.control.log_reports) = (restarted, reports);
            // The reports hold for the new epoch too: no log has changed.
            return self.has_epochs(world).then(|| self.try_to_end(world)).flatten().or(Some(()));
        }
        let lost = if keeps_all { 0 } else { only(member) };
        let copies = group.copies();
        let trusted = copies & !lost;
        if trusted != 0 {
            let is_choice =
                if has(trusted, group.primary()) { heir == group.primary() } else { has(trusted, heir) };
            is_choice.then_some(())?;
            group.primary = heir as u8;
            group.in_sync = trusted & !only(heir);
            group.followers |= copies & !trusted;
            group.followers &= !only(heir);
            return self.set(world, group);
        }
        (heir == member).then_some(())?;
        if copies & lost == 0 {
            return self.set(world, group);
        }
        group.is_recovering = true;
        self.set(world, group)?;
        world.control.restarted = copies & lost;
        self.has_epochs(world).then(|| self.try_to_end(world)).flatten().or(Some(()))
    }

    fn handle_log_report(&self, world: &mut ReplicaWorld, member: usize) -> Option<()> {
        let process = world.members[member];
        let control = &world.control;
        let may = world.present().is_recovering
            && process.known == control.epoch
            && world.present().starts[member] == process.start
            && control.log_reports[member].is_none()
            && !process.needs_state;
        may.then_some(())?;
        let (epoch, index) = process.log.end();
        world.control.log_reports[member] = Some((epoch, index, !process.is_damaged));
        self.try_to_end(world).or(Some(()))
    }

    /// The group with which to go on, if it can be decided yet (`recovery.rs`).
    fn try_to_end(&self, world: &mut ReplicaWorld) -> Option<()> {
        let group = *world.present();
        let Control { restarted, log_reports: reports, .. } = world.control;
        let highest = |candidates: MemberSet| {
            each(candidates)
                .filter_map(|one| reports[one].map(|(epoch, index, _)| ((epoch, index), one)))
                .reduce(|best, next| if next.0 > best.0 { next } else { best })
                .map(|(_, one)| one)
        };
        let copies = group.copies();
        let whole = each(copies & !restarted).next();
        let intact: MemberSet =
            each(copies).filter(|one| reports[*one].is_some_and(|reports| reports.2)).map(only).sum();
        let synced = || self.bounds.is_sync.then(|| highest(intact)).flatten();
        let members = copies | group.followers;
        let all_reported = each(members).all(|one| reports[one].is_some());
        let (chosen, in_doubt) = if let Some(chosen) = whole.or_else(synced) {
            (chosen, false)
        } else if all_reported || !self.follows(ReplicationRule::AllReportAfterRestart) {
            (highest(members)?, true)
        } else {
            return None;
        };
        let next = Group {
            primary: chosen as u8,
            in_sync: 0,
            followers: (copies | group.followers) & !only(chosen),
            is_recovering: false,
            ..group
        };
        self.set(world, next)?;
        if in_doubt {
            world.is_loss_reported = true;
            // If it has started again since its report, the group will recover once more.
            if world.members[chosen].start == group.starts[chosen] {
                let writes = world.members[chosen].log.writes();
                let elsewhere = world.members.iter().fold(0, |all, member| all | member.log.writes());
                world.broken.is_lost_needlessly |= world.acknowledged & elsewhere & !writes != 0;
                world.acknowledged &= writes;
            }
        }
        Some(())
    }

    /// All that may be decided; most come to nothing.
    pub(crate) fn decisions(&self, world: &ReplicaWorld, out: &mut Vec<ControlDecision>) {
        for member in 0..MEMBERS {
            if has(world.control.admits, member) {
                out.push(ControlDecision::Admit(member));
            }
            if has(world.control.removes, member) {
                out.push(ControlDecision::Exclude(member));
            }
            out.extend([
                ControlDecision::Promote(member),
                ControlDecision::Demote(member),
                ControlDecision::LogReported(member),
            ]);
            for heir in 0..MEMBERS {
                out.push(ControlDecision::Down(member, heir));
                if usize::from(world.members[member].start) < STARTS {
                    out.push(ControlDecision::Join(member, heir));
                }
            }
        }
        if world.control.keeps {
            out.push(ControlDecision::Keep);
        }
    }
}
