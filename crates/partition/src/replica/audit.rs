//! Members compare what they hold, a few records at a time.
//!
//! ```text
//!   primary:  a slice, as of the end of its log ──DigestAsk──> members
//!             once that is committed: its own digest
//!   member:   once exactly that is applied: its digest ──DigestTold──> primary
//!   primary:  another than its own ──DigestDiffers──> member: takes a whole state, as damaged
//! ```
//!
//! All are of one moment of the log, so there is no doubt about what differs. Whoever has applied more by the time that it is
//! asked says nothing; the slice comes up again.

use std::collections::BTreeSet;

use zerohop_engine::disk::Disk;
use zerohop_engine::{Engine, EngineError, EngineResult};
use zerohop_wire::messages::{Call, EntryName, Member, Slice};

use super::digest::hash;
use super::limits::{AUDIT_RECORDS, AUDIT_ROUND_US};
use super::primary::name_at;
use super::{Context, Effects, Replica, Role};
use crate::planted::{Bug, is_planted};

/// Records, and their digest.
type Found = (u64, u64);

/// What is being compared.
#[derive(Debug, Default)]
pub(super) struct Audit {
    /// As primary: where the next slice begins.
    from: u32,
    round: Option<Round>,
    /// As another member: what it is to answer once that is applied.
    asked: Option<Slice>,
    /// And what it has answered last.
    told: Option<Slice>,
}

#[derive(Debug)]
struct Round {
    slice: Slice,
    begun_us: u64,
    own: Option<Found>,
    others: Vec<(Member, Found)>,
}

impl Audit {
    /// The next step ends at this log index, if it would pass it: a digest is wanted as of there.
    pub(super) fn stop(&self, applied: u64, through: u64) -> u64 {
        let own = self.round.as_ref().filter(|round| round.own.is_none()).map(|round| round.slice);
        let stop = own.or(self.asked).map_or(u64::MAX, |slice| slice.as_of.index.0);
        if applied < stop && !is_planted(Bug::DigestOfAnyIndex) { through.min(stop) } else { through }
    }
}

impl Replica {
    /// Compares a few records with the other members, if it is the primary and they are there.
    pub(super) fn begin_audit<D: Disk>(
        &mut self,
        context: &mut Context<'_, D>,
        effects: &mut dyn Effects,
    ) -> EngineResult<()> {
        let now_us = context.now_us;
        let is_under_way =
            self.audit.round.as_ref().is_some_and(|round| now_us < round.begun_us + AUDIT_ROUND_US);
        if is_under_way || !self.may_answer(context) || !self.mending.is_idle() || self.has_rot {
            return Ok(());
        }
        let handle = self.partition.handle();
        if !self.has_common_seed(context.engine)? {
            return Ok(());
        }
        let Some(as_of) = name_at(context.engine, handle, self.last())? else { return Ok(()) };
        let from = self.audit.from;
        let through = context.engine.slice_end(handle, from, AUDIT_RECORDS)?;
        let slice = Slice { as_of, from, through };
        self.audit.round = Some(Round { slice, begun_us: now_us, own: None, others: Vec::new() });
        for stream in self.streams.iter().filter(|stream| stream.is_found) {
            effects.send(stream.member, self.view.epoch, &Call::DigestAsk(slice));
        }
        self.audit_own(context, effects)
    }

    /// The primary's own digest, if it has just come to where it is wanted.
    pub(super) fn audit_own<D: Disk>(
        &mut self,
        context: &mut Context<'_, D>,
        effects: &mut dyn Effects,
    ) -> EngineResult<()> {
        let applied = self.partition.applied();
        let Some(round) = &self.audit.round else { return Ok(()) };
        let slice = round.slice;
        let is_there = slice.as_of.index.0 == applied || is_planted(Bug::DigestOfAnyIndex);
        if round.own.is_some() || !is_there {
            return Ok(());
        }
        let found = self.digest_of(context.engine, slice)?;
        match (found, &mut self.audit.round) {
            (Some(found), Some(round)) => {
                round.own = Some(found);
                self.compare(effects);
            }
            _ => self.audit.round = None,
        }
        Ok(())
    }

    /// The primary wants a digest.
    pub(super) fn take_digest_ask<D: Disk>(
        &mut self,
        context: &mut Context<'_, D>,
        slice: Slice,
        effects: &mut dyn Effects,
    ) -> EngineResult<()> {
        self.audit.asked = Some(slice);
        self.audit_asked(context, effects)
    }

    /// Answers what the primary wants to know, if what that is as of has just been applied.
    pub(super) fn audit_asked<D: Disk>(
        &mut self,
        context: &mut Context<'_, D>,
        effects: &mut dyn Effects,
    ) -> EngineResult<()> {
        let Some(slice) = self.audit.asked else { return Ok(()) };
        let (applied, EntryName { index, .. }) = (self.partition.applied(), slice.as_of);
        let is_whole = !self.wants_state() && self.taking.is_none() && self.mending.is_idle();
        if applied < index.0 && is_whole && !is_planted(Bug::DigestOfAnyIndex) {
            return Ok(());
        }
        self.audit.asked = None;
        let is_as_of = name_at(context.engine, self.partition.handle(), applied)? == Some(slice.as_of);
        // What it has is the primary's log up to there, in this epoch: else it is not what is compared.
        let is_matched = self.matched.is_some_and(|matched| matched >= index.0);
        let is_comparable = self.has_common_seed(context.engine)?;
        if !is_comparable || !is_whole || !is_matched || !is_as_of && !is_planted(Bug::DigestOfAnyIndex) {
            return Ok(());
        }
        if let Some((records, digest)) = self.digest_of(context.engine, slice)? {
            self.audit.told = Some(slice);
            let call = Call::DigestTold { slice, records, digest };
            effects.send(self.view.primary, self.view.epoch, &call);
        }
        Ok(())
    }

    pub(super) fn take_digest_told(
        &mut self,
        from: Member,
        slice: Slice,
        found: Found,
        effects: &mut dyn Effects,
    ) {
        if let Some(round) = self.audit.round.as_mut().filter(|round| round.slice == slice)
            && round.others.iter().all(|(other, _)| *other != from)
        {
            round.others.push((from, found));
            self.compare(effects);
        }
    }

    /// The primary says that the digest that was told is another than its own.
    pub(super) fn take_digest_differs(&mut self, slice: Slice) {
        if self.audit.told.take() == Some(slice) {
            self.counts.differed += 1;
            self.give_up_mending();
        }
    }

    /// Once all are there: whoever differs is told so. If all others agree with each other, and are two at least, it is the
    /// primary that differs, and another is to be it.
    fn compare(&mut self, effects: &mut dyn Effects) {
        let Some(Round { slice, own: Some(own), others, .. }) = &self.audit.round else { return };
        let asked = self.streams.iter().filter(|stream| stream.is_found).count();
        if others.len() < asked {
            return;
        }
        let (slice, own, others) = (*slice, *own, others.clone());
        self.audit.round = None;
        self.counts.audits += 1;
        let differing: Vec<Member> =
            others.iter().filter(|(_, found)| *found != own).map(|(member, _)| *member).collect();
        if differing.is_empty() {
            self.audit.from = slice.through.wrapping_add(1);
            return;
        }
        let is_own_fault =
            others.len() > 1 && differing.len() == others.len() && others.iter().all(|o| o.1 == others[0].1);
        if is_own_fault {
            self.counts.differed += 1;
            effects.differs(self.me, slice);
            self.give_up_mending();
            return;
        }
        for member in differing {
            effects.differs(member, slice);
            effects.send(member, self.view.epoch, &Call::DigestDiffers(slice));
        }
    }

    /// Whether its keys have the hash fragments that those of the other members have.
    fn has_common_seed<D: Disk>(&self, engine: &mut Engine<D>) -> EngineResult<bool> {
        Ok(engine.index_seed(self.partition.handle())? == self.options.index_seed)
    }

    /// What is held of a slice; `None` if that are too many records to be looked at in one step, or some have rotted.
    fn digest_of<D: Disk>(&mut self, engine: &mut Engine<D>, slice: Slice) -> EngineResult<Option<Found>> {
        let handle = self.partition.handle();
        let state = self.partition.state();
        let mut digest = hash(state.sessions.len() as u64, &(state.deadlines.len() as u64).to_le_bytes());
        let keys = match engine.keys_of_slice(handle, (slice.from, slice.through), 4 * AUDIT_RECORDS) {
            Ok(Some(keys)) => keys.into_iter().collect::<BTreeSet<_>>(),
            Ok(None) => return Ok(None),
            Err(EngineError::Rotten { .. }) => {
                self.suspect_rot(true);
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        let records = keys.len() as u64;
        for key in keys {
            match engine.inspect(handle, &key) {
                Ok(Some(found)) => {
                    let mut sum = hash(u64::from(found.is_list), &key);
                    sum = hash(sum, &found.units.to_le_bytes());
                    if !found.is_list {
                        // That of a list may be of a trim, which some have dropped already.
                        sum = hash(sum, &found.timestamp.to_le_bytes());
                    }
                    digest = digest.wrapping_add(sum);
                }
                Ok(None) => {}
                Err(EngineError::Rotten { .. }) => {
                    let rotten = engine.rotten_of(handle, &key);
                    match rotten {
                        Ok(rotten) => self.note_rot(rotten),
                        Err(_) => self.suspect_rot(true),
                    }
                    return Ok(None);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(Some((records, digest)))
    }

    /// A new group: nothing that was asked before counts.
    pub(super) fn forget_audit(&mut self) {
        (self.audit.round, self.audit.asked, self.audit.told) = (None, None, None);
    }

    /// Commits as agreed, stopping where a digest is wanted.
    pub(super) fn agree_in_steps<D: Disk>(
        &mut self,
        context: &mut Context<'_, D>,
        through: u64,
        effects: &mut dyn Effects,
    ) -> EngineResult<()> {
        let stop = self.audit.stop(self.partition.applied(), through);
        self.partition.agree(context.engine, stop, effects)?;
        match self.role {
            Role::Primary => self.audit_own(context, effects)?,
            _ => self.audit_asked(context, effects)?,
        }
        if stop < through { self.partition.agree(context.engine, through, effects) } else { Ok(()) }
    }
}
