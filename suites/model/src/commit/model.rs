//! The model of the commit as the checker sees it: where it begins, what may happen next, and what must hold.

use stateright::Property;

use super::bounds::Commit;
use super::step::{CommitStep, has};
use super::world::{ATTEMPTS, CommitDecision, CommitWorld, PARTICIPANTS};

impl Commit {
    fn steps(&self) -> Vec<CommitStep> {
        let mut steps =
            vec![CommitStep::Request, CommitStep::GiveUp, CommitStep::Decide, CommitStep::FailCoordinator];
        for me in 0..PARTICIPANTS {
            steps.extend([
                CommitStep::Log(me),
                CommitStep::Commit(me),
                CommitStep::Drop(me),
                CommitStep::Forget(me),
                CommitStep::QueryStatus(me),
            ]);
            steps.extend([
                CommitStep::ReleaseUnilaterally(me),
                CommitStep::Fail(me),
                CommitStep::ReceiveApplied(me),
            ]);
            for attempt in 1..ATTEMPTS as u8 {
                steps.extend([
                    CommitStep::Prepare(me, attempt),
                    CommitStep::Busy(me, attempt),
                    CommitStep::Release(me, attempt),
                ]);
                steps.extend([CommitStep::ReceiveBusy(me, attempt), CommitStep::ReceiveQuery(me, attempt)]);
                steps.extend((1..=self.entries).map(|entry| CommitStep::Prepared(me, attempt, entry)));
            }
        }
        if self.reads > 0 {
            steps.extend([CommitStep::Answer, CommitStep::Pair]);
            steps.extend((0..=PARTICIPANTS).map(CommitStep::Read));
            steps.extend(
                (0..PARTICIPANTS).flat_map(|me| [CommitStep::PairRead(me), CommitStep::PairConfirm(me)]),
            );
        }
        steps
    }

    /// Whether all comes to its end from here if nothing more goes wrong and every group does what is due, in turn.
    fn comes_to_an_end(&self, mut world: CommitWorld) -> bool {
        let quiet = Commit { entries: 7, failovers: 0, reads: 0, ..*self };
        for _ in 0..40 {
            if world.has_ended() {
                return true;
            }
            for me in 0..PARTICIPANTS {
                let present = world.coordinator.running.map(|running| running.attempt);
                if let Some(attempt) = present {
                    quiet.take(&mut world, CommitStep::Prepare(me, attempt));
                    quiet.take(&mut world, CommitStep::Log(me));
                    quiet.take(&mut world, CommitStep::Prepare(me, attempt));
                    quiet.take(&mut world, CommitStep::Log(me));
                    let entry = world.participants[me].committed_state.map(|committed| committed.entry);
                    entry.and_then(|entry| quiet.take(&mut world, CommitStep::Prepared(me, attempt, entry)));
                }
                quiet.take(&mut world, CommitStep::Decide);
                if let Some(attempt) =
                    world.participants[me].committed_state.map(|committed| committed.attempt)
                {
                    quiet.take(&mut world, CommitStep::QueryStatus(me));
                    quiet.take(&mut world, CommitStep::ReceiveQuery(me, attempt));
                    quiet.take(&mut world, CommitStep::Decide);
                    quiet.take(&mut world, CommitStep::Release(me, attempt));
                }
                quiet.take(&mut world, CommitStep::Commit(me));
                quiet.take(&mut world, CommitStep::Log(me));
                quiet.take(&mut world, CommitStep::Drop(me));
                quiet.take(&mut world, CommitStep::Log(me));
                quiet.take(&mut world, CommitStep::ReceiveApplied(me));
                quiet.take(&mut world, CommitStep::Forget(me));
            }
        }
        false
    }
}

impl stateright::Model for Commit {
    type State = CommitWorld;
    type Action = CommitStep;

    fn init_states(&self) -> Vec<CommitWorld> {
        vec![CommitWorld::default()]
    }

    fn actions(&self, world: &CommitWorld, actions: &mut Vec<CommitStep>) {
        actions.extend(self.steps().into_iter().filter(|step| self.next_state(world, *step).is_some()));
    }

    fn next_state(&self, world: &CommitWorld, step: CommitStep) -> Option<CommitWorld> {
        let mut next = *world;
        self.take(&mut next, step)?;
        (next != *world).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(ATOMIC, |_, world: &CommitWorld| match world.coordinator.decided {
                Some(CommitDecision::Commit(entries)) => (0..PARTICIPANTS).all(|me| {
                    let one = &world.participants[me];
                    one.applied > 0
                        || one.committed_state.is_some_and(|committed| committed.entry == entries[me])
                }),
                _ => world.participants.iter().all(|one| one.applied == 0),
            }),
            Property::always(ONCE, |_, world: &CommitWorld| {
                world.participants.iter().all(|one| one.applied < 2)
            }),
            Property::always(NOT_LOST, |_, world: &CommitWorld| !world.broken.is_lost),
            Property::always(CURRENT, |_, world: &CommitWorld| !world.broken.is_stale),
            Property::always(WHOLE, |_, world: &CommitWorld| !world.broken.is_torn),
            Property::always(ENDS, |model: &Commit, world: &CommitWorld| model.comes_to_an_end(*world)),
            Property::sometimes("a chain commits", |model: &Commit, world: &CommitWorld| {
                let attempt = world.coordinator.attempts;
                model.attempts < 2 || world.coordinator.is_finished && has(world.chained, attempt)
            }),
            Property::sometimes("a transaction is aborted", |_, world: &CommitWorld| {
                world.coordinator.decided == Some(CommitDecision::Abort)
            }),
            Property::sometimes(
                "a transaction is finished after a failover",
                |model: &Commit, world: &CommitWorld| {
                    model.failovers == 0
                        || world.failovers > 0 && world.coordinator.is_finished && world.has_ended()
                },
            ),
        ]
    }
}

/// Decided means that every participant has what was decided, or has done it; not decided that none has.
pub const ATOMIC: &str = "what is decided is held or applied everywhere, and nothing else is applied";
/// I3.
pub const ONCE: &str = "I3: nothing is applied twice";
/// `NotPrepared`.
pub const NOT_LOST: &str = "nothing is told to be lost";
/// I2, of reads one after the other.
pub const CURRENT: &str = "I2: a later reader sees what an earlier one saw";
/// I2, of reads of several.
pub const WHOLE: &str = "I2: what is confirmed was so at one moment";
/// I5.
pub const ENDS: &str = "I5: from everywhere it comes to an end";
