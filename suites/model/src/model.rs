//! The model as the checker sees it: where it begins, what may happen next, and what two states have in common.

use stateright::Property;

use crate::bounds::Bounds;
use crate::check;
use crate::control::Decision;
use crate::log::Entry;
use crate::rules::Rule;
use crate::world::{ALL, Asked, Control, EPOCHS, Group, MEMBERS, Member, Sent, World, has, only};

/// See the crate.
#[derive(Clone, Debug)]
pub struct Model {
    /// How much of it is tried.
    pub bounds: Bounds,
}

/// What may happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// A client writes at a member.
    Write(usize),
    /// A primary commits its next entry.
    Commit(usize),
    /// A member gets the entry behind an index of the primary of an epoch.
    Entry(usize, u8, u8),
    /// A member hears of the commit index.
    HearCommit(usize),
    /// A member takes a whole state as of a commit index.
    State(usize, u8),
    /// A member's flush ends.
    Flush(usize),
    /// The map of an epoch comes to a member.
    Map(usize, u8),
    /// The primary of an epoch hears that a member yields.
    Yield(u8, usize),
    /// A primary asks for a change.
    Ask(usize, Asked, usize),
    /// A process starts again; so many entries are left on its disk, or it has another disk.
    Restart(usize, Option<u8>),
    /// Time passes, until no grant is in use that a member waits for.
    Wait(usize),
    /// A grant under an old map arrives after it was waited for (if it may).
    LateGrant(usize, u8, usize),
    /// The control group decides.
    Decide(Decision),
}

impl Model {
    /// Whether a rule is followed.
    #[must_use]
    pub fn follows(&self, rule: Rule) -> bool {
        self.bounds.follows(rule)
    }

    fn begin(&self) -> World {
        let mut world = World::default();
        let in_sync = self.bounds.in_sync & !only(0);
        let group = Group { in_sync, followers: ALL & !only(0) & !in_sync, ..Group::default() };
        let mut member =
            Member { known: 1, durable: u8::from(self.bounds.is_sync), applied: 1, ..Member::default() };
        member.log.push(Entry { epoch: 1, write: 0 });
        for (me, place) in world.members.iter_mut().enumerate() {
            *place = Member { mark: u8::from(me == 0), matched: u8::from(me != 0), ..member };
        }
        world.control = Control { epoch: 1, ..Control::default() };
        world.sent[1] = Sent { group, log: member.log, commit: 1, held: [0, 1, 1], yields: 0 };
        world
    }

    /// Takes a step. `None` if it cannot be taken.
    fn take(&self, world: &mut World, step: Step) -> Option<()> {
        match step {
            Step::Write(me) => self.write(world, me),
            Step::Commit(me) => self.commit(world, me),
            Step::Entry(me, epoch, index) => self.take_entry(world, me, (epoch, index)),
            Step::HearCommit(me) => self.hear_commit(world, me),
            Step::State(me, commit) => self.take_state(world, me, commit),
            Step::Flush(me) => self.flush(world, me),
            Step::Map(me, epoch) => self.take_map(world, me, epoch),
            Step::Yield(epoch, from) => self.take_yield(world, (epoch, from)),
            Step::Ask(me, kind, about) => self.ask(world, me, (kind, about)),
            Step::Restart(me, kept) => self.restart(world, me, kept),
            Step::Wait(me) => self.wait(world, me),
            Step::LateGrant(granter, epoch, holder) => {
                let start = usize::from(world.members[granter].start);
                world.late[granter][start][holder] |= 1 << epoch;
                Some(())
            }
            Step::Decide(decision) => self.decide(world, decision),
        }
    }

    /// Forgets what can matter no more, so that states that differ by nothing else are one.
    fn forget(&self, world: &mut World) {
        self.forget_useless_grants(world);
        let names_epoch = self.follows(Rule::YieldNamesEpoch);
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
        let keeps_old = !self.follows(Rule::OlderEpochsRefused) || !self.follows(Rule::HeldInThisEpoch);
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
                world.sent[place] = Sent { yields: world.sent[place].yields, ..Sent::default() };
                if !names_epoch {
                    world.sent[place].group = sent.group;
                }
            }
        }
    }

    /// Whether the map of an epoch can yet make a member act in it.
    fn may_come_to(&self, world: &World, me: usize, epoch: u8) -> bool {
        let member = &world.members[me];
        member.known < epoch && world.group(epoch).starts[me] == member.start
    }
}

impl stateright::Model for Model {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        vec![self.begin()]
    }

    fn actions(&self, world: &World, steps: &mut Vec<Step>) {
        for me in 0..MEMBERS {
            let member = &world.members[me];
            steps.extend([Step::Write(me), Step::Commit(me), Step::HearCommit(me), Step::Flush(me)]);
            if member.waits != 0 || member.waits_start {
                steps.push(Step::Wait(me));
            }
            let oldest = if self.follows(Rule::OlderEpochsRefused) { member.known } else { 1 };
            for epoch in oldest.max(1)..=member.known {
                let entries = world.sent[usize::from(epoch)].log.last();
                // What is matched already changes nothing.
                let first = if epoch == member.known { member.matched } else { 0 };
                steps.extend((first..entries).map(|index| Step::Entry(me, epoch, index)));
            }
            let sent = &world.sent[usize::from(member.known)];
            if member.needs_state {
                steps.extend((0..=sent.commit).map(|commit| Step::State(me, commit)));
            }
            for epoch in member.known + 1..=world.control.epoch {
                if self.may_come_to(world, me, epoch) {
                    steps.push(Step::Map(me, epoch));
                }
            }
            if self.bounds.asks {
                steps.push(Step::Ask(me, Asked::Keep, me));
                for about in (0..MEMBERS).filter(|about| *about != me) {
                    steps.extend([Step::Ask(me, Asked::Admit, about), Step::Ask(me, Asked::Remove, about)]);
                }
            }
            if world.restarts < self.bounds.restarts {
                steps.push(Step::Restart(me, None));
                steps.extend((0..=member.log.last()).map(|kept| Step::Restart(me, Some(kept))));
            }
            for holder in 0..MEMBERS {
                if !self.follows(Rule::GrantsCountFromAsking) && holder != me {
                    let epochs = self.late_grants(world, me);
                    steps.extend(epochs.map(|epoch| Step::LateGrant(me, epoch, holder)));
                }
            }
        }
        for epoch in 1..EPOCHS as u8 {
            let yields = world.sent[usize::from(epoch)].yields;
            steps.extend((0..MEMBERS).filter(|from| has(yields, *from)).map(|from| Step::Yield(epoch, from)));
        }
        let mut decisions = Vec::new();
        self.decisions(world, &mut decisions);
        steps.extend(decisions.into_iter().map(Step::Decide));
    }

    fn next_state(&self, before: &World, step: Step) -> Option<World> {
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
