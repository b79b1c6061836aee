//! What may happen to the transaction: `crates/transaction/src/transactions`.

use super::bounds::Commit;
use super::rules::CommitRule;
use super::world::{
    ATTEMPTS, AppendedEntry, AttemptSet, CommitDecision, CommitWorld, PARTICIPANTS, Pair, PreparedPart, Read,
    RunningAttempt,
};

/// What may happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CommitStep {
    /// The client's request comes, or comes again.
    Request,
    /// A participant gets `Prepare` of an attempt.
    Prepare(usize, u8),
    /// It gets it, and something is in the way.
    Busy(usize, u8),
    /// A participant's entry is committed.
    Log(usize),
    /// It gets `Release` of an attempt.
    Release(usize, u8),
    /// It gets `Commit`.
    Commit(usize),
    /// It hears that it is over.
    Drop(usize),
    /// It hears that it is finished.
    Forget(usize),
    /// It has waited too long.
    QueryStatus(usize),
    /// It frees its intents by itself (if it may).
    ReleaseUnilaterally(usize),
    /// Its primary is replaced; what is not committed is lost.
    Fail(usize),
    /// The coordinator hears that a participant has prepared an attempt, as an entry.
    Prepared(usize, u8, u8),
    /// It hears that a participant is busy.
    ReceiveBusy(usize, u8),
    /// It hears a question.
    ReceiveQuery(usize, u8),
    /// It hears that a participant has applied.
    ReceiveApplied(usize),
    /// It gives up.
    GiveUp,
    /// Its entry is committed.
    Decide,
    /// Its primary is replaced.
    FailCoordinator,
    /// A read arrives.
    Read(usize),
    /// It is answered.
    Answer,
    /// A read of both begins.
    Pair,
    /// One of both is read.
    PairRead(usize),
    /// One of both is confirmed, or not.
    PairConfirm(usize),
}

/// The set of one.
fn only(number: u8) -> AttemptSet {
    1 << number
}

/// Whether a number is in a set.
pub(crate) fn has(set: AttemptSet, number: u8) -> bool {
    set & only(number) != 0
}

impl Commit {
    /// Takes a step. `None` if it cannot be taken.
    pub(crate) fn take(&self, world: &mut CommitWorld, step: CommitStep) -> Option<()> {
        match step {
            CommitStep::Request => self.request(world),
            CommitStep::Prepare(me, attempt) => self.prepare(world, me, attempt),
            CommitStep::Busy(me, attempt) => {
                let is_free = world.participants[me].committed_state.is_none()
                    && world.participants[me].appended.is_none();
                let may = has(world.sent[me].prepare, attempt) && !has(world.chained, attempt) && is_free;
                may.then(|| world.sent[me].busy |= only(attempt))
            }
            CommitStep::Log(me) => self.log(world, me),
            CommitStep::Release(me, attempt) => {
                let committed = world.participants[me]
                    .committed_state
                    .filter(|_| has(world.sent[me].release, attempt))?;
                let may = committed.attempt <= attempt || !self.follows(CommitRule::ReleaseNamesAttempt);
                may.then(|| self.append(world, me, AppendedEntry::Release)).flatten()
            }
            CommitStep::Commit(me) => self.commit(world, me),
            CommitStep::Drop(me) => {
                (world.sent[me].drop && world.participants[me].committed_state.is_some()).then_some(())?;
                self.append(world, me, AppendedEntry::Release)
            }
            CommitStep::Forget(me) => {
                let may = world.sent[me].forget && world.participants[me].remembers;
                may.then(|| world.participants[me].remembers = false)
            }
            CommitStep::QueryStatus(me) => {
                let committed = world.participants[me].committed_state?;
                world.sent[me].queries |= only(committed.attempt);
                Some(())
            }
            CommitStep::ReleaseUnilaterally(me) => {
                (!self.follows(CommitRule::LockedUntilDecided)
                    && world.participants[me].committed_state.is_some())
                .then_some(())?;
                self.append(world, me, AppendedEntry::Release)
            }
            CommitStep::Fail(me) => {
                (world.failovers < self.failovers).then_some(())?;
                world.participants[me].appended.take()?;
                world.failovers += 1;
                world.read = world.read.filter(|read| usize::from(read.place) != me);
                Some(())
            }
            CommitStep::Prepared(me, attempt, entry) => self.prepared(world, me, (attempt, entry)),
            CommitStep::ReceiveBusy(me, attempt) => {
                let running = world.coordinator.running.filter(|one| one.attempt == attempt && !one.chain)?;
                (has(world.sent[me].busy, attempt) && world.coordinator.appended.is_none()).then_some(())?;
                world.sent.iter_mut().for_each(|sent| sent.release |= only(running.attempt));
                self.attempt(world, true)
            }
            CommitStep::ReceiveQuery(me, attempt) => self.receive_query(world, me, attempt),
            CommitStep::ReceiveApplied(me) => {
                let coordinator = &mut world.coordinator;
                let may = world.sent[me].applied && !coordinator.is_finished && !coordinator.acknowledged[me];
                (may && matches!(coordinator.decided, Some(CommitDecision::Commit(_)))).then_some(())?;
                coordinator.acknowledged[me] = true;
                if coordinator.acknowledged.iter().all(|one| *one) {
                    coordinator.is_finished = true;
                    world.sent.iter_mut().for_each(|sent| sent.forget = true);
                }
                Some(())
            }
            CommitStep::GiveUp => {
                (world.coordinator.running.is_some() && world.coordinator.appended.is_none()).then_some(())?;
                world.coordinator.appended = Some(CommitDecision::Abort);
                Some(())
            }
            CommitStep::Decide => self.decide(world),
            CommitStep::FailCoordinator => {
                (world.failovers < self.failovers).then_some(())?;
                let coordinator = &mut world.coordinator;
                (coordinator.running.is_some() || coordinator.appended.is_some()).then_some(())?;
                (coordinator.running, coordinator.appended) = (None, None);
                coordinator.acknowledged = [false; PARTICIPANTS];
                world.failovers += 1;
                world.read = world.read.filter(|read| usize::from(read.place) != PARTICIPANTS);
                Some(())
            }
            _ => self.look(world, step),
        }
    }

    fn request(&self, world: &mut CommitWorld) -> Option<()> {
        let coordinator = &world.coordinator;
        let begins_again =
            coordinator.decided == Some(CommitDecision::Abort) && !self.follows(CommitRule::AbortIsFinal);
        let is_new = coordinator.decided.is_none() || begins_again;
        (is_new && coordinator.running.is_none() && coordinator.appended.is_none()).then_some(())?;
        self.attempt(world, false)?;
        world.coordinator.decided = None;
        Some(())
    }

    /// A new attempt, side by side or along the chain.
    fn attempt(&self, world: &mut CommitWorld, chain: bool) -> Option<()> {
        (usize::from(world.coordinator.attempts) + 1 < ATTEMPTS.min(usize::from(self.attempts) + 1))
            .then_some(())?;
        world.coordinator.attempts += 1;
        let attempt = world.coordinator.attempts;
        world.coordinator.running = Some(RunningAttempt { attempt, chain, got: [None; PARTICIPANTS] });
        world.sent[0].prepare |= only(attempt);
        if chain {
            world.chained |= only(attempt);
        } else {
            world.sent[1].prepare |= only(attempt);
        }
        Some(())
    }

    fn append(&self, world: &mut CommitWorld, me: usize, entry: AppendedEntry) -> Option<()> {
        let appended = &mut world.participants[me].appended;
        appended.is_none().then_some(())?;
        *appended = Some(entry);
        Some(())
    }

    fn prepare(&self, world: &mut CommitWorld, me: usize, attempt: u8) -> Option<()> {
        has(world.sent[me].prepare, attempt).then_some(())?;
        let participant = &mut world.participants[me];
        (!participant.remembers).then_some(())?;
        if let Some(committed) = participant.committed_state {
            // The lower one is released first.
            let replaces = committed.attempt < attempt || !self.follows(CommitRule::LowerAttemptsIgnored);
            return (replaces && committed.attempt != attempt)
                .then(|| self.append(world, me, AppendedEntry::Release))
                .flatten();
        }
        (participant.entries < self.entries && participant.appended.is_none()).then_some(())?;
        participant.entries += 1;
        let prepared = PreparedPart { attempt, entry: participant.entries };
        participant.appended = Some(AppendedEntry::Prepare(prepared));
        if !self.follows(CommitRule::PreparedOnceCommitted) {
            self.send_prepared(world, me, prepared);
        }
        Some(())
    }

    fn send_prepared(&self, world: &mut CommitWorld, me: usize, prepared: PreparedPart) {
        world.sent[me].prepared[usize::from(prepared.attempt)] |= only(prepared.entry);
        if me == 0 && has(world.chained, prepared.attempt) {
            world.sent[1].prepare |= only(prepared.attempt);
        }
    }

    fn log(&self, world: &mut CommitWorld, me: usize) -> Option<()> {
        let participant = &mut world.participants[me];
        match participant.appended.take()? {
            AppendedEntry::Prepare(prepared) => {
                participant.committed_state = Some(prepared);
                self.send_prepared(world, me, prepared);
            }
            AppendedEntry::Release => participant.committed_state = None,
            AppendedEntry::Apply => {
                participant.committed_state = None;
                participant.applied = (participant.applied + 1).min(2);
                participant.remembers = self.follows(CommitRule::AppliedRemembered);
                world.sent[me].applied = true;
            }
        }
        Some(())
    }

    fn commit(&self, world: &mut CommitWorld, me: usize) -> Option<()> {
        let named = world.sent[me].commit?;
        let participant = world.participants[me];
        let names = self.follows(CommitRule::CommitNamesEntry);
        if participant.committed_state.is_some_and(|committed| committed.entry == named || !names) {
            return self.append(world, me, AppendedEntry::Apply);
        }
        // Its answer is `Applied`, which was sent, or `NotPrepared`.
        let is_lost = !participant.remembers
            && participant.appended.is_none()
            && !world.coordinator.is_finished
            && !world.coordinator.acknowledged[me];
        (is_lost && !world.broken.is_lost).then(|| world.broken.is_lost = true)
    }

    fn prepared(&self, world: &mut CommitWorld, me: usize, (attempt, entry): (u8, u8)) -> Option<()> {
        has(world.sent[me].prepared[usize::from(attempt)], entry).then_some(())?;
        let coordinator = &mut world.coordinator;
        let running = coordinator.running.as_mut().filter(|_| coordinator.appended.is_none())?;
        let counts = running.attempt == attempt || !self.follows(CommitRule::PresentAttemptCounts);
        (counts && running.got[me].is_none()).then_some(())?;
        running.got[me] = Some(entry);
        if let [Some(one), Some(other)] = running.got {
            coordinator.appended = Some(CommitDecision::Commit([one, other]));
            if !self.follows(CommitRule::NotifiedOnceCommitted) {
                (world.sent[0].commit, world.sent[1].commit) = (Some(one), Some(other));
            }
        }
        Some(())
    }

    fn decide(&self, world: &mut CommitWorld) -> Option<()> {
        let decision = world.coordinator.appended.take()?;
        world.coordinator.decided = Some(decision);
        let running = world.coordinator.running.take();
        match decision {
            CommitDecision::Commit([one, other]) => {
                (world.sent[0].commit, world.sent[1].commit) = (Some(one), Some(other));
                world.is_seen = true;
                world.coordinator.is_finished = !self.follows(CommitRule::KeptUntilFinished);
            }
            CommitDecision::Abort => {
                for sent in &mut world.sent {
                    // The group that queried is notified; the queried one is released.
                    sent.drop |= sent.queries != 0;
                    sent.release |= running.map_or(0, |running| only(running.attempt));
                }
            }
        }
        Some(())
    }

    fn receive_query(&self, world: &mut CommitWorld, me: usize, attempt: u8) -> Option<()> {
        has(world.sent[me].queries, attempt).then_some(())?;
        let coordinator = &mut world.coordinator;
        match (coordinator.decided, coordinator.running, coordinator.appended) {
            (Some(CommitDecision::Commit(_)), ..) => {
                (coordinator.is_finished && !world.sent[me].drop).then(|| world.sent[me].drop = true)
            }
            (Some(CommitDecision::Abort), ..) => (!world.sent[me].drop).then(|| world.sent[me].drop = true),
            (None, Some(running), None) => {
                let release = &mut world.sent[me].release;
                (attempt < running.attempt && !has(*release, attempt)).then(|| *release |= only(attempt))
            }
            (None, None, None) if !self.follows(CommitRule::UnknownIsLogged) => {
                (!world.sent[me].drop).then(|| world.sent[me].drop = true)
            }
            (None, None, None) => {
                coordinator.appended = Some(CommitDecision::Abort);
                Some(())
            }
            _ => None,
        }
    }

    /// Reads.
    fn look(&self, world: &mut CommitWorld, step: CommitStep) -> Option<()> {
        match step {
            CommitStep::Read(place) => {
                (world.reads < self.reads && world.read.is_none()).then_some(())?;
                world.reads += 1;
                let waits = world.pending_intents(place).filter(|_| self.follows(CommitRule::ReadsWait));
                world.read = Some(Read { place: place as u8, is_after: world.is_seen, waits });
            }
            CommitStep::Answer => {
                let read = world.read?;
                let place = usize::from(read.place);
                (read.waits.is_none() || world.pending_intents(place) != read.waits).then_some(())?;
                world.read = None;
                if world.is_new(place) {
                    world.is_seen = true;
                } else if read.is_after {
                    world.broken.is_stale = true;
                }
            }
            CommitStep::Pair => {
                (world.reads < self.reads && world.pair.is_none()).then_some(())?;
                world.reads += 1;
                world.pair = Some(Pair { is_after: world.is_seen, ..Pair::default() });
            }
            CommitStep::PairRead(place) => {
                let is_new = world.is_new(place);
                let stands = world.pending_intents(place).is_some();
                let pair = world.pair.as_mut().filter(|pair| pair.values[place].is_none() && !stands)?;
                pair.values[place] = Some(is_new);
            }
            CommitStep::PairConfirm(place) => {
                let mut pair = world.pair.filter(|pair| pair.values.iter().all(Option::is_some))?;
                (!pair.confirmed[place]).then_some(())?;
                let stands =
                    world.pending_intents(place).is_some() && self.follows(CommitRule::ConfirmChecksIntents);
                if stands || pair.values[place] != Some(world.is_new(place)) {
                    // What has changed is read again.
                    world.pair = None;
                    return Some(());
                }
                pair.confirmed[place] = true;
                world.pair = Some(pair);
                if pair.confirmed.iter().all(|one| *one) {
                    world.pair = None;
                    world.broken.is_torn |= pair.values[0] != pair.values[1];
                    world.broken.is_stale |= pair.is_after && pair.values.contains(&Some(false));
                    world.is_seen |= pair.values.contains(&Some(true));
                }
            }
            _ => return None,
        }
        Some(())
    }
}
