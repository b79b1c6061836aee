//! `compare`: a client has the members of a group compare their contents, one range for each request.
//!
//! ```text
//!   Compare ──> wanted ──> a round of digests ──all there──────────────────────> Compared
//!                 ^             │ └── 1 s: a member is silent; again ──────────┐
//!                 │             └── too much for one step: a smaller range ────┤
//!                 └────────────────────────────────────────────────────────────┘   5 s: with the digests that have arrived
//! ```

use zerohop_engine::disk::Disk;
use zerohop_engine::{Cursor, EngineError, EngineResult};
use zerohop_wire::ids::InstanceId;
use zerohop_wire::messages::{Compare, Member, Outcome, RangeComparison};
use zerohop_wire::{BadRequestReason, Elements, Failure, Message};

use super::compared_keys::ComparedKeys;
use super::limits::{AUDIT_ROUND_US, COMPARE_RETRY_US, COMPARE_US, COMPARES_MAX};
use super::{Context, Replica, ReplicaEffects, failed, unavailable};
use zerohop_partition::digest::RecordDigest;
use zerohop_partition::limits::{BUSY_RETRY_MS, COMPARED_BYTES, COMPARED_RECORDS};
use zerohop_partition::{PartitionEvent, RecordRequest, Token};

/// A client's request to compare a range.
#[derive(Debug)]
pub(super) struct ComparisonRequest {
    pub(super) token: Token,
    from: Cursor,
    /// Most records of a range. The number is reduced if the range was too much for one step.
    records: usize,
    /// When the comparison is started again, if it is not in progress.
    next_us: u64,
    until_us: u64,
}

impl Replica {
    /// Handles a client's request to compare a range, as the primary of the group.
    pub(super) fn handle_compare<D: Disk>(
        &mut self,
        context: &mut Context<'_, D>,
        request: &RecordRequest<'_>,
        compare: Compare<'_>,
        effects: &mut dyn ReplicaEffects,
    ) -> EngineResult<()> {
        let RecordRequest { token, envelope, .. } = *request;
        if envelope.partition_epoch.0 != 0 && envelope.partition_epoch != self.view.epoch {
            effects.wrong_owner(token);
            return Ok(());
        }
        if let Some(failure) = self.cannot_compare() {
            effects.answer(token, &failed(failure));
            return Ok(());
        }
        if self.audit.client_requests.len() >= COMPARES_MAX {
            effects.answer(token, &failed(Failure::Busy { retry_after_ms: BUSY_RETRY_MS }));
            return Ok(());
        }
        let Ok(from) = Cursor::from_bytes(compare.from) else {
            effects.answer(token, &failed(BadRequestReason::Cursor.into()));
            return Ok(());
        };
        let time_out_us = match envelope.time_out_ms {
            0 => COMPARE_US,
            ms => COMPARE_US.min(u64::from(ms) * 1_000),
        };
        self.audit.client_requests.push_back(ComparisonRequest {
            token,
            from,
            records: COMPARED_RECORDS,
            next_us: context.now_us,
            until_us: context.now_us + time_out_us,
        });
        self.compare_on(context, effects)
    }

    /// Starts the next requested comparison, and ends comparisons that have waited too long.
    pub(super) fn compare_on<D: Disk>(
        &mut self,
        context: &mut Context<'_, D>,
        effects: &mut dyn ReplicaEffects,
    ) -> EngineResult<()> {
        while let Some(ComparisonRequest { token, from, records, next_us, until_us }) =
            self.audit.client_requests.front()
        {
            let (token, records, next_us, until_us) = (*token, *records, *next_us, *until_us);
            let from = from.clone();
            if let Some(failure) = self.cannot_compare() {
                self.audit.client_requests.pop_front();
                effects.answer(token, &failed(failure));
                continue;
            }
            if context.now_us >= until_us {
                let is_own = self.audit.round.as_ref().is_some_and(|r| r.range.contents && r.own.is_some());
                if is_own && self.may_answer(context) {
                    self.end_round(effects);
                }
                // Unless the round has just answered it.
                if self.audit.client_requests.front().is_some_and(|one| one.token == token) {
                    self.audit.client_requests.pop_front();
                    effects.answer(token, &failed(unavailable()));
                }
                continue;
            }
            if context.now_us < next_us || !self.may_begin_round(context) {
                break;
            }
            if let Some(one) = self.audit.client_requests.front_mut() {
                one.next_us = context.now_us + COMPARE_RETRY_US;
            }
            if !self.has_common_seed(context.engine)? {
                self.audit.client_requests.pop_front();
                self.compare_own_copy(context, (token, &from), effects)?;
                continue;
            }
            let handle = self.partition.handle();
            let to = match context.engine.range_end(handle, &from, records, COMPARED_BYTES) {
                Err(EngineError::Cursor(_)) => {
                    self.audit.client_requests.pop_front();
                    effects.answer(token, &failed(BadRequestReason::Cursor.into()));
                    continue;
                }
                end => end?,
            };
            self.begin_round(context, (from, to), true, effects)?;
        }
        Ok(())
    }

    /// The failure to answer if the replica can neither read its contents nor have them repaired. If there is another member, it
    /// takes over.
    fn cannot_compare(&self) -> Option<Failure<'static>> {
        let is_alone = self.view.others().next().is_none();
        self.health.has_corruption.then(|| if is_alone { Failure::DataCorrupt } else { unavailable() })
    }

    /// Compares nothing and reports only this member's contents, because the other logs use another hash seed.
    fn compare_own_copy<D: Disk>(
        &mut self,
        context: &mut Context<'_, D>,
        (token, from): (Token, &Cursor),
        effects: &mut dyn ReplicaEffects,
    ) -> EngineResult<()> {
        let message = Message::Compare(Compare { from: from.as_bytes() });
        let request = RecordRequest { token, envelope: Default::default(), message: &message };
        self.partition.step(context.engine, context.at(), PartitionEvent::Request(request), effects)
    }

    /// Whether the range of a round was too much for one step. In that case a smaller range is compared instead.
    pub(super) fn narrow_if_incomplete(&mut self, range: &ComparedKeys, digested: &RecordDigest) -> bool {
        let Some(one) = self.audit.client_requests.front_mut().filter(|one| one.from == range.from) else {
            return false;
        };
        let does = range.contents && digested.is_incomplete && one.records > 1;
        if does {
            (one.records, one.next_us) = (one.records / 2, 0);
        }
        does
    }

    /// Answers the client that has requested the range of a round.
    pub(super) fn answer_compared(
        &mut self,
        range: &ComparedKeys,
        (digested, others): (&RecordDigest, usize),
        differing: &[Member],
        effects: &mut dyn ReplicaEffects,
    ) {
        if !self.audit.client_requests.front().is_some_and(|one| range.contents && one.from == range.from) {
            return;
        }
        let Some(one) = self.audit.client_requests.pop_front() else { return };
        let differing: Vec<InstanceId> = differing.iter().map(|member| member.instance).collect();
        let compared = RangeComparison {
            next: range.to.as_ref().map_or(&[], Cursor::as_bytes),
            records: digested.records,
            bytes: digested.bytes,
            copies: others as u32 + 1,
            differing: Elements::from_slice(&differing),
        };
        effects.answer(one.token, &Message::Answer(Ok(Outcome::Compared(compared))));
    }

    /// When the next tick for requested comparisons is due.
    pub(super) fn compare_due_us(&self) -> u64 {
        let round_us = self.audit.round.as_ref().map_or(0, |round| round.begun_us + AUDIT_ROUND_US);
        let soonest = |one: &ComparisonRequest| one.until_us.min(one.next_us.max(round_us));
        self.audit.client_requests.front().map_or(u64::MAX, soonest)
    }
}
