//! Anti-entropy: the members of a group compare their contents, a few records at a time.
//!
//! ```text
//!   primary:  a range, as of the end of its log ──DigestQuery──> members
//!             once that entry is committed: its own digest
//!   member:   once exactly that entry is applied: its digest ──DigestReply──> primary
//!   primary:  a digest other than its own ──DigestDiffers──> member: installs a snapshot, as if damaged
//! ```
//!
//! All digests are of one position of the log, so a difference is certain. A member that has applied more by the time of the
//! request does not answer; the range is compared again later. The primary compares record metadata by itself, with each piece of
//! its log that it scrubs. On request of a client it also compares contents ([`ComparisonRequest`]).

use std::collections::VecDeque;

use zerohop_engine::disk::Disk;
use zerohop_engine::{Cursor, Engine, EngineError, EngineResult};
use zerohop_wire::messages::{DigestRange, EntryName, Member, PeerBody};

use super::compare::ComparisonRequest;
use super::compared_keys::ComparedKeys;
use super::follower_progress::Stream;
use super::limits::{AUDIT_RECORDS, AUDIT_ROUND_US};
use super::primary::name_at;
use super::{Context, Replica, ReplicaEffects};
use zerohop_partition::digest::{DigestError, RecordDigest, hash};
use zerohop_partition::limits::COMPARED_RECORDS;
use zerohop_partition::planted::{Bug, is_planted};

/// Number of records, and their digest.
type CountAndDigest = (u64, u64);

/// The answer of a member that cannot be compared, because its log uses another hash seed.
const INCOMPARABLE: CountAndDigest = (u64::MAX, 0);

fn found_of(digested: &RecordDigest) -> CountAndDigest {
    (digested.records, digested.sum)
}

/// The comparisons of a replica.
#[derive(Debug, Default)]
pub(super) struct Audit {
    /// As primary: where the next range starts.
    from: Cursor,
    pub(super) round: Option<Round>,
    /// Comparisons that clients have requested. The first is in progress.
    pub(super) client_requests: VecDeque<ComparisonRequest>,
    /// As another member: the range to answer once its entry is applied.
    digest_requested: Option<ComparedKeys>,
    /// As another member: the range that it has answered last.
    digest_sent: Option<ComparedKeys>,
}

#[derive(Debug)]
pub(super) struct Round {
    pub(super) range: ComparedKeys,
    pub(super) begun_us: u64,
    pub(super) own: Option<RecordDigest>,
    pub(super) others: Vec<(Member, CountAndDigest)>,
}

impl Audit {
    /// Limits the next commit step to the log index for which a digest is wanted.
    pub(super) fn stop(&self, applied: u64, through: u64) -> u64 {
        let own = self.round.as_ref().filter(|round| round.own.is_none()).map(|round| &round.range);
        let stop = own.or(self.digest_requested.as_ref()).map_or(u64::MAX, |range| range.as_of.index.0);
        if applied < stop && !is_planted(Bug::DigestIndexNotChecked) { through.min(stop) } else { through }
    }
}

impl Replica {
    /// Compares a few records with the other members, if this replica is the primary and the previous round has ended.
    pub(super) fn begin_audit<D: Disk>(
        &mut self,
        context: &mut Context<'_, D>,
        effects: &mut dyn ReplicaEffects,
    ) -> EngineResult<()> {
        if !self.audit.client_requests.is_empty() || !self.may_begin_round(context) {
            return Ok(());
        }
        let handle = self.partition.handle();
        if !self.has_common_seed(context.engine)? {
            return Ok(());
        }
        let from = self.audit.from.clone();
        let to = match context.engine.range_end(handle, &from, AUDIT_RECORDS, u64::MAX) {
            // The log of another member was installed, and its hash seed was another.
            Err(EngineError::Cursor(_)) => {
                self.audit.from = Cursor::START;
                return Ok(());
            }
            end => end?,
        };
        self.begin_round(context, (from, to), false, effects)
    }

    pub(super) fn may_begin_round<D: Disk>(&self, context: &Context<'_, D>) -> bool {
        let is_over = |round: &Round| context.now_us >= round.begun_us + AUDIT_ROUND_US;
        self.audit.round.as_ref().is_none_or(is_over)
            && self.may_answer(context)
            && self.health.repair.is_idle()
            && !self.health.has_corruption
    }

    /// Requests the digest of these keys from all members, including this one.
    pub(super) fn begin_round<D: Disk>(
        &mut self,
        context: &mut Context<'_, D>,
        (from, to): (Cursor, Option<Cursor>),
        contents: bool,
        effects: &mut dyn ReplicaEffects,
    ) -> EngineResult<()> {
        self.audit.round = None;
        let handle = self.partition.handle();
        let Some(as_of) = name_at(context.engine, handle, self.last())? else { return Ok(()) };
        let range = ComparedKeys { as_of, from, to, contents };
        for stream in self.lead.streams.iter().filter(|stream| stream.is_found) {
            effects.send(stream.member, self.view.epoch, &PeerBody::DigestQuery(range.message()));
        }
        self.audit.round = Some(Round { range, begun_us: context.now_us, own: None, others: Vec::new() });
        self.audit_own(context, effects)
    }

    /// Computes the primary's own digest, if it has just reached the log index of the round.
    pub(super) fn audit_own<D: Disk>(
        &mut self,
        context: &mut Context<'_, D>,
        effects: &mut dyn ReplicaEffects,
    ) -> EngineResult<()> {
        let applied = self.partition.applied();
        let Some(round) = &self.audit.round else { return Ok(()) };
        let range = round.range.clone();
        let is_there = range.as_of.index.0 == applied || is_planted(Bug::DigestIndexNotChecked);
        if round.own.is_some() || !is_there {
            return Ok(());
        }
        let found = self.digest_of(context.engine, &range)?;
        match (found, &mut self.audit.round) {
            (Some(found), Some(round)) => {
                round.own = Some(found);
                self.compare(context.now_us, effects);
            }
            _ => self.audit.round = None,
        }
        Ok(())
    }

    /// Handles the primary's request for a digest.
    pub(super) fn handle_digest_request<D: Disk>(
        &mut self,
        context: &mut Context<'_, D>,
        range: &DigestRange<'_>,
        effects: &mut dyn ReplicaEffects,
    ) -> EngineResult<()> {
        self.audit.digest_requested = ComparedKeys::of(range);
        self.answer_digest_request(context, effects)
    }

    /// Answers the primary's request, if the entry that it names has just been applied.
    pub(super) fn answer_digest_request<D: Disk>(
        &mut self,
        context: &mut Context<'_, D>,
        effects: &mut dyn ReplicaEffects,
    ) -> EngineResult<()> {
        let Some(range) = self.audit.digest_requested.clone() else { return Ok(()) };
        let (applied, EntryName { index, .. }) = (self.partition.applied(), range.as_of);
        let is_whole =
            !self.needs_snapshot() && self.follow.snapshot_install.is_none() && self.health.repair.is_idle();
        if applied < index.0 && is_whole && !is_planted(Bug::DigestIndexNotChecked) {
            return Ok(());
        }
        self.audit.digest_requested = None;
        let is_as_of = name_at(context.engine, self.partition.handle(), applied)? == Some(range.as_of);
        // The log must equal the primary's up to there, in this epoch. Otherwise its contents must not be compared.
        let is_matched = self.follow.matched.is_some_and(|matched| matched >= index.0);
        let is_comparable = self.has_common_seed(context.engine)?;
        if !is_whole || !is_matched || !is_as_of && !is_planted(Bug::DigestIndexNotChecked) {
            return Ok(());
        }
        let found = if is_comparable { self.digest_of(context.engine, &range)? } else { None };
        let (records, digest) = match found.as_ref().map(found_of) {
            Some(found) => found,
            // A client waits for this digest, so the member reports at once that it has none.
            None if range.contents && self.health.repair.is_idle() => INCOMPARABLE,
            None => return Ok(()),
        };
        let body = PeerBody::DigestReply { range: range.message(), records, digest };
        effects.send(self.view.primary, self.view.epoch, &body);
        self.audit.digest_sent = Some(range);
        Ok(())
    }

    pub(super) fn handle_digest(
        &mut self,
        from: Member,
        (range, found): (&DigestRange<'_>, CountAndDigest),
        now_us: u64,
        effects: &mut dyn ReplicaEffects,
    ) {
        if let Some(round) = self.audit.round.as_mut().filter(|round| round.range.message() == *range)
            && round.others.iter().all(|(other, _)| *other != from)
        {
            round.others.push((from, found));
            self.compare(now_us, effects);
        }
    }

    /// The primary reports that the digest of this member differs from its own.
    pub(super) fn handle_digest_differs(&mut self, range: &DigestRange<'_>) {
        if self.audit.digest_sent.take().is_some_and(|sent| sent.message() == *range) {
            self.counts.differed += 1;
            self.give_up_repair();
        }
    }

    /// Ends the round once all digests have arrived. A member that differs is notified. If at least two other members agree with
    /// each other and not with the primary, the primary differs, and another member must become primary.
    fn compare(&mut self, now_us: u64, effects: &mut dyn ReplicaEffects) {
        let Some(Round { own: Some(_), others, range, .. }) = &self.audit.round else { return };
        let is_there = |member: Member| others.iter().any(|(other, _)| *other == member);
        let mut found = self.lead.streams.iter().filter(|stream| stream.is_found);
        if found.all(|stream| is_there(stream.member) || !self.is_catching_up(stream, range, now_us)) {
            self.end_round(effects);
        }
    }

    /// Whether the round waits for a digest. A client waits for a round with contents. A member without log progress will hardly
    /// send a digest: its disk is full, it is installing a snapshot, or it is silent.
    fn is_catching_up(&self, stream: &Stream, range: &ComparedKeys, now_us: u64) -> bool {
        let gets_on = stream.sending.is_none() && now_us < stream.progressed_us + AUDIT_ROUND_US;
        !range.contents
            || self.view.in_sync.contains(&stream.member)
            || stream.matched >= range.as_of.index.0
            || gets_on && !self.has_reported_full(stream.member, now_us)
    }

    /// Compares the digests that have arrived.
    pub(super) fn end_round(&mut self, effects: &mut dyn ReplicaEffects) {
        let Some(Round { range, own: Some(digested), others, .. }) = self.audit.round.take() else { return };
        if self.narrow_if_incomplete(&range, &digested) {
            return;
        }
        self.counts.audits += 1;
        let own = found_of(&digested);
        let others: Vec<_> = others.into_iter().filter(|(_, found)| *found != INCOMPARABLE).collect();
        let mut differing: Vec<Member> =
            others.iter().filter(|(_, found)| *found != own).map(|(member, _)| *member).collect();
        let is_own_fault =
            others.len() > 1 && differing.len() == others.len() && others.iter().all(|o| o.1 == others[0].1);
        if is_own_fault {
            differing = vec![self.this_member];
        }
        self.answer_compared(&range, (&digested, others.len()), &differing, effects);
        if is_own_fault {
            self.counts.differed += 1;
            effects.differs(self.this_member, range.message());
            self.give_up_repair();
            return;
        }
        if differing.is_empty() && !range.contents {
            self.audit.from = range.to.clone().unwrap_or(Cursor::START);
        }
        for member in differing {
            effects.differs(member, range.message());
            effects.send(member, self.view.epoch, &PeerBody::DigestDiffers(range.message()));
        }
    }

    /// Whether this member orders its keys as the other members do.
    pub(super) fn has_common_seed<D: Disk>(&self, engine: &mut Engine<D>) -> EngineResult<bool> {
        Ok(engine.index_seed(self.partition.handle())? == self.options.index_seed)
    }

    /// The digest of a range; `None` if the range has too many records for one step, or some of them are corrupt.
    fn digest_of<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        range: &ComparedKeys,
    ) -> EngineResult<Option<RecordDigest>> {
        let most = if range.contents { COMPARED_RECORDS } else { AUDIT_RECORDS };
        let state = self.partition.state();
        let of_state = hash(state.sessions_count() as u64, &(state.deadlines_count() as u64).to_le_bytes());
        match self.partition.digest(engine, (&range.from, range.to.as_ref()), (4 * most, range.contents)) {
            Ok(digested) => Ok(Some(RecordDigest { sum: of_state.wrapping_add(digested.sum), ..digested })),
            // A primary with the same seed makes other cursors only if it is broken.
            Err(DigestError::TooMany | DigestError::Engine(EngineError::Cursor(_))) => Ok(None),
            Err(DigestError::Corrupt(key)) => {
                match key.map(|key| engine.corrupt_of(self.partition.handle(), &key)) {
                    Some(Ok(corrupt)) => self.record_corruption(corrupt),
                    _ => self.suspect_corruption(true),
                }
                Ok(None)
            }
            Err(DigestError::Engine(error)) => Err(error),
        }
    }

    /// Forgets all earlier requests, because the group is new.
    pub(super) fn drop_audit_requests(&mut self, effects: &mut dyn ReplicaEffects) {
        (self.audit.round, self.audit.digest_requested, self.audit.digest_sent) = (None, None, None);
        self.audit.client_requests.drain(..).for_each(|one| effects.wrong_owner(one.token));
    }
}
