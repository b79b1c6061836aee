//! The model of the commit as the checker sees it: where it begins, what may happen next, and what must hold.

use stateright::Property;

use super::rules::Rule;
use super::step::{Step, has};
use super::world::{ATTEMPTS, Decision, PARTICIPANTS, World};

/// One transaction over two participants and a decider.
#[derive(Clone, Copy, Debug)]
pub struct Commit {
    /// Attempts, at most.
    pub attempts: u8,
    /// `Prepare` entries of one participant, at most.
    pub entries: u8,
    /// Primaries that are replaced, of anybody.
    pub failovers: u8,
    /// Reads of one record, or of both participants' records.
    pub reads: u8,
    /// A rule that nobody follows.
    pub without: Option<Rule>,
}

impl Commit {
    /// Whether a rule is followed.
    #[must_use]
    pub fn follows(&self, rule: Rule) -> bool {
        self.without != Some(rule)
    }

    fn steps(&self) -> Vec<Step> {
        let mut steps = vec![Step::Request, Step::GiveUp, Step::Decide, Step::FailDecider];
        for me in 0..PARTICIPANTS {
            steps.extend([Step::Log(me), Step::Commit(me), Step::Drop(me), Step::Forget(me), Step::Ask(me)]);
            steps.extend([Step::FreeAlone(me), Step::Fail(me), Step::HearApplied(me)]);
            for attempt in 1..ATTEMPTS as u8 {
                steps.extend([
                    Step::Prepare(me, attempt),
                    Step::Busy(me, attempt),
                    Step::Release(me, attempt),
                ]);
                steps.extend([Step::HearBusy(me, attempt), Step::HearAsk(me, attempt)]);
                steps.extend((1..=self.entries).map(|entry| Step::Prepared(me, attempt, entry)));
            }
        }
        if self.reads > 0 {
            steps.extend([Step::Answer, Step::Pair]);
            steps.extend((0..=PARTICIPANTS).map(Step::Read));
            steps.extend((0..PARTICIPANTS).flat_map(|me| [Step::PairRead(me), Step::PairConfirm(me)]));
        }
        steps
    }

    /// Whether all comes to its end from here if nothing more goes wrong and everybody does what is due, in turn.
    fn comes_to_an_end(&self, mut world: World) -> bool {
        let calm = Commit { entries: 7, failovers: 0, reads: 0, ..*self };
        for _ in 0..40 {
            if world.has_ended() {
                return true;
            }
            for me in 0..PARTICIPANTS {
                let present = world.decider.running.map(|running| running.attempt);
                if let Some(attempt) = present {
                    calm.take(&mut world, Step::Prepare(me, attempt));
                    calm.take(&mut world, Step::Log(me));
                    calm.take(&mut world, Step::Prepare(me, attempt));
                    calm.take(&mut world, Step::Log(me));
                    let entry = world.participants[me].held.map(|held| held.entry);
                    entry.and_then(|entry| calm.take(&mut world, Step::Prepared(me, attempt, entry)));
                }
                calm.take(&mut world, Step::Decide);
                if let Some(attempt) = world.participants[me].held.map(|held| held.attempt) {
                    calm.take(&mut world, Step::Ask(me));
                    calm.take(&mut world, Step::HearAsk(me, attempt));
                    calm.take(&mut world, Step::Decide);
                    calm.take(&mut world, Step::Release(me, attempt));
                }
                calm.take(&mut world, Step::Commit(me));
                calm.take(&mut world, Step::Log(me));
                calm.take(&mut world, Step::Drop(me));
                calm.take(&mut world, Step::Log(me));
                calm.take(&mut world, Step::HearApplied(me));
                calm.take(&mut world, Step::Forget(me));
            }
        }
        false
    }
}

impl stateright::Model for Commit {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        vec![World::default()]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Step>) {
        actions.extend(self.steps().into_iter().filter(|step| self.next_state(world, *step).is_some()));
    }

    fn next_state(&self, world: &World, step: Step) -> Option<World> {
        let mut next = *world;
        self.take(&mut next, step)?;
        (next != *world).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(ATOMIC, |_, world: &World| match world.decider.decided {
                Some(Decision::Commit(entries)) => (0..PARTICIPANTS).all(|me| {
                    let one = &world.participants[me];
                    one.applied > 0 || one.held.is_some_and(|held| held.entry == entries[me])
                }),
                _ => world.participants.iter().all(|one| one.applied == 0),
            }),
            Property::always(ONCE, |_, world: &World| world.participants.iter().all(|one| one.applied < 2)),
            Property::always(NOT_LOST, |_, world: &World| !world.broken.is_lost),
            Property::always(CURRENT, |_, world: &World| !world.broken.is_stale),
            Property::always(WHOLE, |_, world: &World| !world.broken.is_torn),
            Property::always(ENDS, |model: &Commit, world: &World| model.comes_to_an_end(*world)),
            Property::sometimes("a chain commits", |model: &Commit, world: &World| {
                let attempt = world.decider.attempts;
                model.attempts < 2 || world.decider.is_finished && has(world.chained, attempt)
            }),
            Property::sometimes("a transaction is aborted", |_, world: &World| {
                world.decider.decided == Some(Decision::Abort)
            }),
            Property::sometimes(
                "a transaction is finished after a failover",
                |model: &Commit, world: &World| {
                    model.failovers == 0
                        || world.failovers > 0 && world.decider.is_finished && world.has_ended()
                },
            ),
        ]
    }
}

/// Decided means that every participant has what was decided, or has done it; not decided that none has.
pub const ATOMIC: &str = "what is decided is held or applied everywhere, and nothing else is applied";
/// I3.
pub const ONCE: &str = "I3: nothing is applied twice";
/// `NotHeld`.
pub const NOT_LOST: &str = "nothing is told to be lost";
/// I2, of reads one after the other.
pub const CURRENT: &str = "I2: what was seen is seen by whoever asks later";
/// I2, of reads of several.
pub const WHOLE: &str = "I2: what is confirmed was so at one moment";
/// I5.
pub const ENDS: &str = "I5: from everywhere it comes to an end";
