//! Deletes what nothing names: bodies that stayed pending, sets without references, parts that were left out.
//!
//! A timer names what may be due; the records decide, since a set may have several timers. A transaction first makes a set or a body dead, then its blob is deleted, then the
//! records and the timer go. A sweep that stops anywhere leaves the timer, and the next one begins again. Several sweeps
//! at once do no harm.

use std::collections::BTreeSet;

use zerohop_layer_procedure::NO_BYTE_LIMIT;

use crate::bucket::SCAN_PAGE;
use crate::error::ObjectError;
use crate::ids::{BodyId, SetId, WHOLE_OBJECT};
use crate::keys::{self, RecordKey, Timer};
use crate::optimistic::{OptimisticTransaction, Reads, Writes};
use crate::planted::{Bug, is_planted};
use crate::procedure::{BodyDeletion, Effect, Event, Procedure, Step};
use crate::records::{BodyRecord, Manifest, PartRecord, Record, SetRecord};
use crate::references::{Lifetimes, UNTIL_UNKNOWN, drop_part_contents, move_reference};

/// What a sweep did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SweepReport {
    /// Timers that were due.
    pub timers: u64,
    /// Bodies that were deleted.
    pub bodies: u64,
}

/// What the records say about a timer.
enum Verdict {
    /// Nothing is to be deleted: the timer is gone.
    Nothing,
    /// The body of a set without parts.
    Single,
    /// One body of an upload.
    Body,
    /// The set of a dead upload.
    Parts,
    /// The parts of a completed upload that are not in its manifest.
    Unlisted(BTreeSet<u16>),
}

/// A step of a sweep.
enum Task {
    Judge(Timer),
    DropParts {
        set: SetId,
        from: RecordKey,
        kept: Option<BTreeSet<u16>>,
    },
    DropPart {
        set: SetId,
        number: u16,
        is_set_dead: bool,
    },
    DeleteBodies {
        set: SetId,
        from: RecordKey,
    },
    DeleteBody(BodyId),
    ForgetBody(BodyId),
    /// With the records of what the timer names, if that is dead.
    Finish {
        timer: Timer,
        is_dead: bool,
    },
}

enum SweepState {
    Idle,
    FindingTimers,
    Judging(Timer, Box<dyn Procedure<Output = Verdict> + Send>),
    ScanningParts(SetId, Option<BTreeSet<u16>>),
    ScanningBodies(SetId),
    Deleting,
    Committing(Box<dyn Procedure<Output = ()> + Send>),
}

/// A sweep over the timers that are due.
pub struct Sweep {
    lifetimes: Lifetimes,
    limit: usize,
    state: SweepState,
    /// Tasks to do, the next one last.
    tasks: Vec<Task>,
    /// Until when a body of the current dead set may still be written; 0 if none may.
    pending_until: u64,
    report: SweepReport,
}

impl Sweep {
    /// Sweeps at most `limit` timers.
    #[must_use]
    pub const fn new(lifetimes: Lifetimes, limit: usize) -> Self {
        let report = SweepReport { timers: 0, bodies: 0 };
        Self { lifetimes, limit, state: SweepState::Idle, tasks: Vec::new(), pending_until: 0, report }
    }

    fn next(&mut self, now: u64) -> Step<SweepReport> {
        let Some(task) = self.tasks.pop() else { return Step::Done(Ok(self.report)) };
        match task {
            Task::Judge(timer) => {
                self.pending_until = 0;
                self.report.timers += 1;
                let judge = Box::new(judge(timer, self.lifetimes));
                self.in_judgement(now, timer, judge, Event::Start)
            }
            Task::DropParts { set, from, kept } => {
                self.state = SweepState::ScanningParts(set, kept);
                scan(b'p', set, from)
            }
            Task::DropPart { set, number, is_set_dead } => {
                let grace = self.lifetimes.grace;
                self.commit(now, Box::new(drop_part(set, number, is_set_dead, grace)), Event::Start)
            }
            Task::DeleteBodies { set, from } => {
                self.state = SweepState::ScanningBodies(set);
                scan(b'd', set, from)
            }
            Task::DeleteBody(body) => {
                self.state = SweepState::Deleting;
                self.report.bodies += 1;
                Step::Effect(Effect::Own(BodyDeletion(body)))
            }
            Task::ForgetBody(body) => self.commit(now, Box::new(forget_body(body)), Event::Start),
            Task::Finish { timer, is_dead } => {
                let finish = finish(timer, is_dead, self.pending_until, self.lifetimes);
                self.commit(now, Box::new(finish), Event::Start)
            }
        }
    }

    fn commit(
        &mut self,
        now: u64,
        mut work: Box<dyn Procedure<Output = ()> + Send>,
        event: Event,
    ) -> Step<SweepReport> {
        match work.step(now, event) {
            Step::Effect(effect) => {
                self.state = SweepState::Committing(work);
                Step::Effect(effect)
            }
            Step::Done(Ok(())) => self.next(now),
            Step::Done(Err(error)) => Step::fail(error),
        }
    }

    fn in_judgement(
        &mut self,
        now: u64,
        timer: Timer,
        mut judge: Box<dyn Procedure<Output = Verdict> + Send>,
        event: Event,
    ) -> Step<SweepReport> {
        let set = timer.set;
        match judge.step(now, event) {
            Step::Effect(effect) => {
                self.state = SweepState::Judging(timer, judge);
                return Step::Effect(effect);
            }
            Step::Done(Err(error)) => return Step::fail(error),
            Step::Done(Ok(Verdict::Nothing)) => {}
            Step::Done(Ok(Verdict::Single)) => {
                self.tasks.push(Task::Finish { timer, is_dead: true });
                self.tasks.push(Task::DeleteBody(BodyId { set, number: WHOLE_OBJECT }));
            }
            Step::Done(Ok(Verdict::Body)) => {
                self.tasks.push(Task::Finish { timer, is_dead: true });
                self.tasks.push(Task::DeleteBody(BodyId { set, number: timer.number }));
            }
            Step::Done(Ok(Verdict::Parts)) => {
                self.tasks.push(Task::Finish { timer, is_dead: true });
                self.tasks.push(Task::DeleteBodies { set, from: keys::of_set(b'd', set) });
                self.tasks.push(Task::DropParts { set, from: keys::of_set(b'p', set), kept: None });
            }
            Step::Done(Ok(Verdict::Unlisted(kept))) => {
                self.tasks.push(Task::Finish { timer, is_dead: false });
                self.tasks.push(Task::DropParts { set, from: keys::of_set(b'p', set), kept: Some(kept) });
            }
        }
        self.next(now)
    }

    fn part_page(
        &mut self,
        set: SetId,
        kept: Option<BTreeSet<u16>>,
        entries: &[(RecordKey, Vec<u8>)],
        next: Option<RecordKey>,
    ) {
        let is_set_dead = kept.is_none();
        let numbers = entries.iter().filter_map(|(key, _)| keys::part_of(key));
        let dropped: Vec<u16> =
            numbers.filter(|number| kept.as_ref().is_none_or(|kept| !kept.contains(number))).collect();
        if let Some(from) = next {
            self.tasks.push(Task::DropParts { set, from, kept });
        }
        let dropped = dropped.into_iter().rev();
        self.tasks.extend(dropped.map(|number| Task::DropPart { set, number, is_set_dead }));
    }

    fn body_page(&mut self, now: u64, set: SetId, entries: &[(RecordKey, Vec<u8>)], next: Option<RecordKey>) {
        if let Some(from) = next {
            self.tasks.push(Task::DeleteBodies { set, from });
        }
        for (key, value) in entries.iter().rev() {
            let Some(number) = keys::body_of(key) else { continue };
            if let Some(BodyRecord::Pending { until }) = BodyRecord::decode(value)
                && self.lifetimes.due(until) > now
            {
                // Its writer may still be at work.
                self.pending_until = self.pending_until.max(until);
                continue;
            }
            self.tasks.push(Task::ForgetBody(BodyId { set, number }));
            self.tasks.push(Task::DeleteBody(BodyId { set, number }));
        }
    }
}

fn scan(letter: u8, set: SetId, from: RecordKey) -> Step<SweepReport> {
    let to = keys::end_of(&keys::of_set(letter, set));
    Step::Effect(Effect::Scan { from, to, limit: SCAN_PAGE, bytes: NO_BYTE_LIMIT })
}

/// Makes what the timer names dead if nothing names it.
fn judge(timer: Timer, lifetimes: Lifetimes) -> impl Procedure<Output = Verdict> + Send {
    OptimisticTransaction::new(move |now: u64, reads: &mut Reads, writes: &mut Writes| {
        if timer.number != 0 {
            let key = keys::body(BodyId { set: timer.set, number: timer.number });
            match reads.get(&key)? {
                Some(BodyRecord::Dead) => return Ok(Verdict::Body),
                Some(BodyRecord::Pending { until }) if lifetimes.due(until) <= now => {
                    writes.put(key, &BodyRecord::Dead);
                    return Ok(Verdict::Body);
                }
                _ => {}
            }
        } else {
            let key = keys::set(timer.set);
            match reads.get(&key)? {
                // The transaction that released it was open for an unknown time: readers get theirs from here on.
                Some(SetRecord::Dead { in_parts, until: UNTIL_UNKNOWN })
                    if !is_planted(Bug::GraceFromDecision) =>
                {
                    let until = now.saturating_add(lifetimes.grace);
                    writes.put(key, &SetRecord::Dead { in_parts, until });
                    writes.put_empty(Timer { due: until, ..timer }.key());
                }
                Some(SetRecord::Dead { in_parts, until }) if until <= now => {
                    return Ok(if in_parts { Verdict::Parts } else { Verdict::Single });
                }
                Some(SetRecord::Pending { until }) if lifetimes.due(until) <= now => {
                    if !is_planted(Bug::SweepDeletesFirst) {
                        writes.put(key, &SetRecord::Dead { in_parts: false, until: now });
                    }
                    return Ok(Verdict::Single);
                }
                Some(SetRecord::Live { in_parts: true, .. }) => {
                    let key = keys::manifest(timer.set);
                    let manifest: Manifest = reads.get(&key)?.ok_or(ObjectError::Corrupt(key))?;
                    return Ok(Verdict::Unlisted(manifest.parts.iter().map(|part| part.number).collect()));
                }
                _ => {}
            }
        }
        writes.remove(timer.key());
        Ok(Verdict::Nothing)
    })
}

/// Removes the record of a part that nothing names.
fn drop_part(set: SetId, number: u16, is_set_dead: bool, grace: u64) -> impl Procedure<Output = ()> + Send {
    OptimisticTransaction::new(move |now: u64, reads: &mut Reads, writes: &mut Writes| {
        let key = keys::part(set, number);
        let Some(part) = reads.get::<PartRecord>(&key)? else { return Ok(()) };
        writes.remove(key);
        if is_set_dead {
            // The bodies of a dead set are deleted with it.
            let source = part.source.filter(|_| !is_planted(Bug::CopiedPartsNotReleased));
            move_reference(now, grace, reads, writes, None, source)
        } else {
            drop_part_contents(now, grace, reads, writes, set, &part)
        }
    })
}

/// Removes the record of a body whose blob is deleted.
fn forget_body(body: BodyId) -> impl Procedure<Output = ()> + Send {
    OptimisticTransaction::new(move |_, reads: &mut Reads, writes: &mut Writes| {
        if reads.get::<BodyRecord>(&keys::body(body))?.is_some() {
            writes.remove(keys::body(body));
        }
        Ok(())
    })
}

/// Removes a timer, and the records of what the sweep has deleted.
///
/// Hazard: a set that was live at the judgement may be dead now. It has another timer.
fn finish(
    timer: Timer,
    is_dead: bool,
    pending_until: u64,
    lifetimes: Lifetimes,
) -> impl Procedure<Output = ()> + Send {
    OptimisticTransaction::new(move |_, reads: &mut Reads, writes: &mut Writes| {
        writes.remove(timer.key());
        if !is_dead && !is_planted(Bug::DyingSetForgotten) {
            return Ok(());
        }
        if timer.number != 0 {
            writes.remove(keys::body(BodyId { set: timer.set, number: timer.number }));
            return Ok(());
        }
        let key = keys::set(timer.set);
        match reads.get(&key)? {
            Some(SetRecord::Dead { .. }) if pending_until > 0 => {
                writes.put_empty(Timer { due: lifetimes.due(pending_until), ..timer }.key());
            }
            Some(SetRecord::Dead { in_parts, .. }) => {
                writes.remove(key);
                if in_parts {
                    writes.remove(keys::manifest(timer.set));
                }
            }
            _ => {}
        }
        Ok(())
    })
}

impl zerohop_layer_procedure::Procedure<ObjectError, BodyDeletion> for Sweep {
    type Output = SweepReport;

    fn step(&mut self, now: u64, event: Event) -> Step<SweepReport> {
        match (std::mem::replace(&mut self.state, SweepState::Idle), event) {
            (SweepState::Idle, Event::Start) => {
                self.state = SweepState::FindingTimers;
                Step::Effect(Effect::Scan {
                    from: vec![b't'],
                    to: Timer::due_end(now),
                    limit: self.limit,
                    bytes: NO_BYTE_LIMIT,
                })
            }
            (SweepState::FindingTimers, Event::Page { entries, .. }) => {
                for (key, _) in entries.iter().rev() {
                    let Some(timer) = Timer::parse(key) else {
                        return Step::fail(ObjectError::Corrupt(key.clone()));
                    };
                    self.tasks.push(Task::Judge(timer));
                }
                self.next(now)
            }
            (SweepState::Judging(timer, judge), event) => self.in_judgement(now, timer, judge, event),
            (SweepState::ScanningParts(set, kept), Event::Page { entries, next }) => {
                self.part_page(set, kept, &entries, next);
                self.next(now)
            }
            (SweepState::ScanningBodies(set), Event::Page { entries, next }) => {
                self.body_page(now, set, &entries, next);
                self.next(now)
            }
            (SweepState::Deleting, Event::OwnDone) => self.next(now),
            (SweepState::Committing(work), event) => self.commit(now, work, event),
            (_, event) => Step::unexpected(&event),
        }
    }
}
