//! What may happen to the transaction: `crates/transaction/src/transactions`.

use super::model::Commit;
use super::rules::Rule;
use super::world::{ATTEMPTS, Appended, Decision, PARTICIPANTS, Pair, Prepared, Read, Running, Set, World};

/// What may happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
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
    Ask(usize),
    /// It frees its intents by itself (if it may).
    FreeAlone(usize),
    /// Its primary is replaced; what is not committed is lost.
    Fail(usize),
    /// The decider hears that a participant has prepared an attempt, as an entry.
    Prepared(usize, u8, u8),
    /// It hears that a participant is busy.
    HearBusy(usize, u8),
    /// It hears a question.
    HearAsk(usize, u8),
    /// It hears that a participant has applied.
    HearApplied(usize),
    /// It gives up.
    GiveUp,
    /// Its entry is committed.
    Decide,
    /// Its primary is replaced.
    FailDecider,
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
fn only(number: u8) -> Set {
    1 << number
}

/// Whether a number is in a set.
pub(crate) fn has(set: Set, number: u8) -> bool {
    set & only(number) != 0
}

impl Commit {
    /// Takes a step. `None` if it cannot be taken.
    pub(crate) fn take(&self, world: &mut World, step: Step) -> Option<()> {
        match step {
            Step::Request => self.request(world),
            Step::Prepare(me, attempt) => self.prepare(world, me, attempt),
            Step::Busy(me, attempt) => {
                let is_free =
                    world.participants[me].held.is_none() && world.participants[me].appended.is_none();
                let may = has(world.sent[me].prepare, attempt) && !has(world.chained, attempt) && is_free;
                may.then(|| world.sent[me].busy |= only(attempt))
            }
            Step::Log(me) => self.log(world, me),
            Step::Release(me, attempt) => {
                let held = world.participants[me].held.filter(|_| has(world.sent[me].release, attempt))?;
                let may = held.attempt <= attempt || !self.follows(Rule::ReleaseNamesAttempt);
                may.then(|| self.append(world, me, Appended::Release)).flatten()
            }
            Step::Commit(me) => self.commit(world, me),
            Step::Drop(me) => {
                (world.sent[me].drop && world.participants[me].held.is_some()).then_some(())?;
                self.append(world, me, Appended::Release)
            }
            Step::Forget(me) => {
                let may = world.sent[me].forget && world.participants[me].remembers;
                may.then(|| world.participants[me].remembers = false)
            }
            Step::Ask(me) => {
                let held = world.participants[me].held?;
                world.sent[me].ask |= only(held.attempt);
                Some(())
            }
            Step::FreeAlone(me) => {
                (!self.follows(Rule::HeldUntilDecided) && world.participants[me].held.is_some())
                    .then_some(())?;
                self.append(world, me, Appended::Release)
            }
            Step::Fail(me) => {
                (world.failovers < self.failovers).then_some(())?;
                world.participants[me].appended.take()?;
                world.failovers += 1;
                world.read = world.read.filter(|read| usize::from(read.place) != me);
                Some(())
            }
            Step::Prepared(me, attempt, entry) => self.prepared(world, me, (attempt, entry)),
            Step::HearBusy(me, attempt) => {
                let running = world.decider.running.filter(|one| one.attempt == attempt && !one.chain)?;
                (has(world.sent[me].busy, attempt) && world.decider.appended.is_none()).then_some(())?;
                world.sent.iter_mut().for_each(|sent| sent.release |= only(running.attempt));
                self.attempt(world, true)
            }
            Step::HearAsk(me, attempt) => self.hear_ask(world, me, attempt),
            Step::HearApplied(me) => {
                let decider = &mut world.decider;
                let may = world.sent[me].applied && !decider.is_finished && !decider.acknowledged[me];
                (may && matches!(decider.decided, Some(Decision::Commit(_)))).then_some(())?;
                decider.acknowledged[me] = true;
                if decider.acknowledged.iter().all(|one| *one) {
                    decider.is_finished = true;
                    world.sent.iter_mut().for_each(|sent| sent.forget = true);
                }
                Some(())
            }
            Step::GiveUp => {
                (world.decider.running.is_some() && world.decider.appended.is_none()).then_some(())?;
                world.decider.appended = Some(Decision::Abort);
                Some(())
            }
            Step::Decide => self.decide(world),
            Step::FailDecider => {
                (world.failovers < self.failovers).then_some(())?;
                let decider = &mut world.decider;
                (decider.running.is_some() || decider.appended.is_some()).then_some(())?;
                (decider.running, decider.appended) = (None, None);
                decider.acknowledged = [false; PARTICIPANTS];
                world.failovers += 1;
                world.read = world.read.filter(|read| usize::from(read.place) != PARTICIPANTS);
                Some(())
            }
            _ => self.look(world, step),
        }
    }

    fn request(&self, world: &mut World) -> Option<()> {
        let decider = &world.decider;
        let begins_anew = decider.decided == Some(Decision::Abort) && !self.follows(Rule::AbortIsFinal);
        let is_new = decider.decided.is_none() || begins_anew;
        (is_new && decider.running.is_none() && decider.appended.is_none()).then_some(())?;
        self.attempt(world, false)?;
        world.decider.decided = None;
        Some(())
    }

    /// A new attempt, side by side or along the chain.
    fn attempt(&self, world: &mut World, chain: bool) -> Option<()> {
        (usize::from(world.decider.attempts) + 1 < ATTEMPTS.min(usize::from(self.attempts) + 1))
            .then_some(())?;
        world.decider.attempts += 1;
        let attempt = world.decider.attempts;
        world.decider.running = Some(Running { attempt, chain, got: [None; PARTICIPANTS] });
        world.sent[0].prepare |= only(attempt);
        if chain {
            world.chained |= only(attempt);
        } else {
            world.sent[1].prepare |= only(attempt);
        }
        Some(())
    }

    fn append(&self, world: &mut World, me: usize, entry: Appended) -> Option<()> {
        let appended = &mut world.participants[me].appended;
        appended.is_none().then_some(())?;
        *appended = Some(entry);
        Some(())
    }

    fn prepare(&self, world: &mut World, me: usize, attempt: u8) -> Option<()> {
        has(world.sent[me].prepare, attempt).then_some(())?;
        let participant = &mut world.participants[me];
        (!participant.remembers).then_some(())?;
        if let Some(held) = participant.held {
            // The lower one is released first.
            let replaces = held.attempt < attempt || !self.follows(Rule::LowerAttemptsIgnored);
            return (replaces && held.attempt != attempt)
                .then(|| self.append(world, me, Appended::Release))
                .flatten();
        }
        (participant.entries < self.entries && participant.appended.is_none()).then_some(())?;
        participant.entries += 1;
        let prepared = Prepared { attempt, entry: participant.entries };
        participant.appended = Some(Appended::Prepare(prepared));
        if !self.follows(Rule::PreparedOnceCommitted) {
            self.say_prepared(world, me, prepared);
        }
        Some(())
    }

    fn say_prepared(&self, world: &mut World, me: usize, prepared: Prepared) {
        world.sent[me].prepared[usize::from(prepared.attempt)] |= only(prepared.entry);
        if me == 0 && has(world.chained, prepared.attempt) {
            world.sent[1].prepare |= only(prepared.attempt);
        }
    }

    fn log(&self, world: &mut World, me: usize) -> Option<()> {
        let participant = &mut world.participants[me];
        match participant.appended.take()? {
            Appended::Prepare(prepared) => {
                participant.held = Some(prepared);
                self.say_prepared(world, me, prepared);
            }
            Appended::Release => participant.held = None,
            Appended::Apply => {
                participant.held = None;
                participant.applied = (participant.applied + 1).min(2);
                participant.remembers = self.follows(Rule::AppliedRemembered);
                world.sent[me].applied = true;
            }
        }
        Some(())
    }

    fn commit(&self, world: &mut World, me: usize) -> Option<()> {
        let named = world.sent[me].commit?;
        let participant = world.participants[me];
        let names = self.follows(Rule::CommitNamesEntry);
        if participant.held.is_some_and(|held| held.entry == named || !names) {
            return self.append(world, me, Appended::Apply);
        }
        // Its answer is `Applied`, which was sent, or `NotHeld`.
        let is_lost = !participant.remembers
            && participant.appended.is_none()
            && !world.decider.is_finished
            && !world.decider.acknowledged[me];
        (is_lost && !world.broken.is_lost).then(|| world.broken.is_lost = true)
    }

    fn prepared(&self, world: &mut World, me: usize, (attempt, entry): (u8, u8)) -> Option<()> {
        has(world.sent[me].prepared[usize::from(attempt)], entry).then_some(())?;
        let decider = &mut world.decider;
        let running = decider.running.as_mut().filter(|_| decider.appended.is_none())?;
        let counts = running.attempt == attempt || !self.follows(Rule::PresentAttemptCounts);
        (counts && running.got[me].is_none()).then_some(())?;
        running.got[me] = Some(entry);
        if let [Some(one), Some(other)] = running.got {
            decider.appended = Some(Decision::Commit([one, other]));
            if !self.follows(Rule::ToldOnceCommitted) {
                (world.sent[0].commit, world.sent[1].commit) = (Some(one), Some(other));
            }
        }
        Some(())
    }

    fn decide(&self, world: &mut World) -> Option<()> {
        let decision = world.decider.appended.take()?;
        world.decider.decided = Some(decision);
        let running = world.decider.running.take();
        match decision {
            Decision::Commit([one, other]) => {
                (world.sent[0].commit, world.sent[1].commit) = (Some(one), Some(other));
                world.is_seen = true;
                world.decider.is_finished = !self.follows(Rule::KeptUntilFinished);
            }
            Decision::Abort => {
                for sent in &mut world.sent {
                    // Who asked is told; who was asked is released.
                    sent.drop |= sent.ask != 0;
                    sent.release |= running.map_or(0, |running| only(running.attempt));
                }
            }
        }
        Some(())
    }

    fn hear_ask(&self, world: &mut World, me: usize, attempt: u8) -> Option<()> {
        has(world.sent[me].ask, attempt).then_some(())?;
        let decider = &mut world.decider;
        match (decider.decided, decider.running, decider.appended) {
            (Some(Decision::Commit(_)), ..) => {
                (decider.is_finished && !world.sent[me].drop).then(|| world.sent[me].drop = true)
            }
            (Some(Decision::Abort), ..) => (!world.sent[me].drop).then(|| world.sent[me].drop = true),
            (None, Some(running), None) => {
                let release = &mut world.sent[me].release;
                (attempt < running.attempt && !has(*release, attempt)).then(|| *release |= only(attempt))
            }
            (None, None, None) if !self.follows(Rule::UnknownIsLogged) => {
                (!world.sent[me].drop).then(|| world.sent[me].drop = true)
            }
            (None, None, None) => {
                decider.appended = Some(Decision::Abort);
                Some(())
            }
            _ => None,
        }
    }

    /// Reads.
    fn look(&self, world: &mut World, step: Step) -> Option<()> {
        match step {
            Step::Read(place) => {
                (world.reads < self.reads && world.read.is_none()).then_some(())?;
                world.reads += 1;
                let waits = world.stands(place).filter(|_| self.follows(Rule::ReadsWait));
                world.read = Some(Read { place: place as u8, is_after: world.is_seen, waits });
            }
            Step::Answer => {
                let read = world.read?;
                let place = usize::from(read.place);
                (read.waits.is_none() || world.stands(place) != read.waits).then_some(())?;
                world.read = None;
                if world.is_new(place) {
                    world.is_seen = true;
                } else if read.is_after {
                    world.broken.is_stale = true;
                }
            }
            Step::Pair => {
                (world.reads < self.reads && world.pair.is_none()).then_some(())?;
                world.reads += 1;
                world.pair = Some(Pair { is_after: world.is_seen, ..Pair::default() });
            }
            Step::PairRead(place) => {
                let is_new = world.is_new(place);
                let stands = world.stands(place).is_some();
                let pair = world.pair.as_mut().filter(|pair| pair.values[place].is_none() && !stands)?;
                pair.values[place] = Some(is_new);
            }
            Step::PairConfirm(place) => {
                let mut pair = world.pair.filter(|pair| pair.values.iter().all(Option::is_some))?;
                (!pair.confirmed[place]).then_some(())?;
                let stands = world.stands(place).is_some() && self.follows(Rule::ConfirmLooksAtIntents);
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
