//! The model as the checker sees it: where it begins, what may happen next, and what two states have in common.

use stateright::Property;

use crate::check;
use crate::log::Entry;
use crate::model::Model;
use crate::rules::ReplicationRule;
use crate::steps::ReplicationStep;
use crate::world::{
    ALL, Control, EPOCHS, Group, LastRequest, MEMBERS, Member, PrimaryTraffic, ReplicaWorld, has, only,
};

impl Model {
    /// Whether a rule is followed.
    #[must_use]
    pub fn follows(&self, rule: ReplicationRule) -> bool {
        self.bounds.follows(rule)
    }

    fn begin(&self) -> ReplicaWorld {
        let mut world = ReplicaWorld::default();
        let in_sync = self.bounds.in_sync & !only(0);
        let group = Group { in_sync, followers: ALL & !only(0) & !in_sync, ..Group::default() };
        let mut member =
            Member { known: 1, durable: u8::from(self.bounds.is_sync), applied: 1, ..Member::default() };
        member.log.push(Entry { epoch: 1, write: 0 });
        for (me, place) in world.members.iter_mut().enumerate() {
            *place = Member { mark: u8::from(me == 0), matched: u8::from(me != 0), ..member };
        }
        world.control = Control { epoch: 1, ..Control::default() };
        world.sent[1] =
            PrimaryTraffic { group, log: member.log, commit: 1, acknowledged: [0, 1, 1], yields: 0 };
        world
    }

    /// Takes a step. `None` if it cannot be taken.
    fn take(&self, world: &mut ReplicaWorld, step: ReplicationStep) -> Option<()> {
        match step {
            ReplicationStep::Write(me) => self.write(world, me),
            ReplicationStep::Commit(me) => self.commit(world, me),
            ReplicationStep::Entry(me, epoch, index) => self.take_entry(world, me, (epoch, index)),
            ReplicationStep::ReceiveCommit(me) => self.receive_commit(world, me),
            ReplicationStep::State(me, commit) => self.take_state(world, me, commit),
            ReplicationStep::Flush(me) => self.flush(world, me),
            ReplicationStep::Map(me, epoch) => self.take_map(world, me, epoch),
            ReplicationStep::Yield(epoch, from) => self.take_yield(world, (epoch, from)),
            ReplicationStep::Propose(me, kind, about) => self.propose(world, me, (kind, about)),
            ReplicationStep::Restart(me, kept) => self.restart(world, me, kept),
            ReplicationStep::Wait(me) => self.wait(world, me),
            ReplicationStep::LateGrant(granter, epoch, holder) => {
                let start = usize::from(world.members[granter].start);
                world.late[granter][start][holder] |= 1 << epoch;
                Some(())
            }
            ReplicationStep::Decide(decision) => self.decide(world, decision),
        }
    }

    /// Forgets what can matter no more, so that states that differ by nothing else are one.
    fn forget(&self, world: &mut ReplicaWorld) {
        self.forget_useless_grants(world);
        let names_epoch = self.follows(ReplicationRule::YieldNamesEpoch);
        for me in 0..MEMBERS {
            if self.has_waited(world, me) {
                (world.members[me].waits, world.members[me].waits_start) = (0, false);
            }
            let member = &mut world.members[me];
            let is_waiting = member.waits != 0 || member.waits_start;
            if !is_waiting {
                member.promoted = 0;
            }
            for yielded in &mut member.yielded {
                if names_epoch && *yielded <= member.known {
                    *yielded = 0;
                }
            }
        }
        let keeps_old = !self.follows(ReplicationRule::OlderEpochsRefused)
            || !self.follows(ReplicationRule::AcknowledgedInThisEpoch);
        for epoch in 1..world.control.epoch {
            let sent = world.sent[usize::from(epoch)];
            let acts = |me: usize| self.may_come_to(world, me, epoch) || world.members[me].known == epoch;
            let is_over = !(0..MEMBERS).any(acts) && !keeps_old;
            let primary = &world.members[sent.group.primary()];
            let yields_count =
                primary.known <= epoch && primary.start == sent.group.starts[sent.group.primary()];
            let place = usize::from(epoch);
            if !yields_count && names_epoch {
                world.sent[place].yields = 0;
            }
            if is_over {
                world.sent[place] =
                    PrimaryTraffic { yields: world.sent[place].yields, ..PrimaryTraffic::default() };
                if !names_epoch {
                    world.sent[place].group = sent.group;
                }
            }
        }
    }

    /// Whether the map of an epoch can yet make a member act in it.
    fn may_come_to(&self, world: &ReplicaWorld, me: usize, epoch: u8) -> bool {
        let member = &world.members[me];
        member.known < epoch && world.group(epoch).starts[me] == member.start
    }
}

impl stateright::Model for Model {
    type State = ReplicaWorld;
    type Action = ReplicationStep;

    fn init_states(&self) -> Vec<ReplicaWorld> {
        vec![self.begin()]
    }

    fn actions(&self, world: &ReplicaWorld, steps: &mut Vec<ReplicationStep>) {
        for me in 0..MEMBERS {
            let member = &world.members[me];
            steps.extend([
                ReplicationStep::Write(me),
                ReplicationStep::Commit(me),
                ReplicationStep::ReceiveCommit(me),
                ReplicationStep::Flush(me),
            ]);
            if member.waits != 0 || member.waits_start {
                steps.push(ReplicationStep::Wait(me));
            }
            let oldest = if self.follows(ReplicationRule::OlderEpochsRefused) { member.known } else { 1 };
            for epoch in oldest.max(1)..=member.known {
                let entries = world.sent[usize::from(epoch)].log.last();
                // What is matched already changes nothing.
                let first = if epoch == member.known { member.matched } else { 0 };
                steps.extend((first..entries).map(|index| ReplicationStep::Entry(me, epoch, index)));
            }
            let sent = &world.sent[usize::from(member.known)];
            if member.needs_state {
                steps.extend((0..=sent.commit).map(|commit| ReplicationStep::State(me, commit)));
            }
            for epoch in member.known + 1..=world.control.epoch {
                if self.may_come_to(world, me, epoch) {
                    steps.push(ReplicationStep::Map(me, epoch));
                }
            }
            if self.bounds.may_propose {
                steps.push(ReplicationStep::Propose(me, LastRequest::Keep, me));
                for about in (0..MEMBERS).filter(|about| *about != me) {
                    steps.extend([
                        ReplicationStep::Propose(me, LastRequest::Admit, about),
                        ReplicationStep::Propose(me, LastRequest::Remove, about),
                    ]);
                }
            }
            if world.restarts < self.bounds.restarts {
                steps.push(ReplicationStep::Restart(me, None));
                steps.extend((0..=member.log.last()).map(|kept| ReplicationStep::Restart(me, Some(kept))));
            }
            for holder in 0..MEMBERS {
                if !self.follows(ReplicationRule::GrantsCountFromRequest) && holder != me {
                    let epochs = self.late_grants(world, me);
                    steps.extend(epochs.map(|epoch| ReplicationStep::LateGrant(me, epoch, holder)));
                }
            }
        }
        for epoch in 1..EPOCHS as u8 {
            let yields = world.sent[usize::from(epoch)].yields;
            steps.extend(
                (0..MEMBERS)
                    .filter(|from| has(yields, *from))
                    .map(|from| ReplicationStep::Yield(epoch, from)),
            );
        }
        let mut decisions = Vec::new();
        self.decisions(world, &mut decisions);
        steps.extend(decisions.into_iter().map(ReplicationStep::Decide));
    }

    fn next_state(&self, before: &ReplicaWorld, step: ReplicationStep) -> Option<ReplicaWorld> {
        let mut world = *before;
        self.take(&mut world, step)?;
        self.read(&mut world);
        self.forget(&mut world);
        (world != *before).then_some(world)
    }

    fn properties(&self) -> Vec<Property<Model>> {
        check::properties(&self.bounds)
    }
}
