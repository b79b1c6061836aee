//! Admission control: whether a primary may answer. If not, requests wait here, outside the partition, and are not evaluated.

use zerohop_engine::EngineResult;
use zerohop_engine::disk::Disk;
use zerohop_wire::ids::{PartitionEpoch, Timestamp};
use zerohop_wire::limits::CLOCK_AHEAD_MS_MAX;
use zerohop_wire::messages::{Member, RecordOperation, StageBytes, Transact};
use zerohop_wire::{Envelope, Failure, Message};

use super::entry_repair::{CorruptAnswers, only_reads};
use super::limits::REPAIR_WAIT_US;
use super::wait_queue::QueuedRequest;
use super::{Context, Replica, ReplicaEffects, Role, failed, unavailable};
use zerohop_partition::limits::{BUSY_RETRY_MS, READ_LOCK_MS};
use zerohop_partition::planted::{Bug, is_planted};
use zerohop_partition::{PartitionEvent, RecordRequest, Token};
use zerohop_partition::{Program, ProgramResult};

impl Replica {
    pub(super) fn request<D: Disk>(
        &mut self,
        context: &mut Context<'_, D>,
        request: &RecordRequest<'_>,
        effects: &mut dyn ReplicaEffects,
    ) -> EngineResult<()> {
        let named = request.envelope.partition_epoch;
        if named > self.view.epoch {
            return self.answer_newer(request, effects);
        }
        if self.role != Role::Primary {
            effects.wrong_owner(request.token);
            return Ok(());
        }
        if self.is_damaged_sole_copy() {
            // No member can repair the log, and only an operator's command ends that state. Queued requests would wait in vain.
            effects.answer(request.token, &failed(Failure::DataCorrupt));
            return Ok(());
        }
        if let Message::Compare(compare) = request.message {
            return self.handle_compare(context, request, *compare, effects);
        }
        let is_write = writes(request.message);
        // A request that waits is not overtaken by later requests of its kind.
        let seen = seen(request.message, self.partition.present_ms());
        let may = self.may_answer(context)
            && self.is_below(context, seen)
            && (!is_write || self.has_copies() && !self.lead.wait_queue.has_writes());
        if !may {
            self.counts.queued_requests += 1;
            if !self.lead.wait_queue.push(request, is_write, seen, context.now_us) {
                effects.answer(request.token, &failed(Failure::Busy { retry_after_ms: BUSY_RETRY_MS }));
            }
            return Ok(());
        }
        self.evaluate(context, request, None, effects)
    }

    /// Evaluates a request. If a request only reads and its data is corrupt, it waits until another member may have supplied the
    /// data. It waits at most until `until_us` if it has waited before.
    fn evaluate<D: Disk>(
        &mut self,
        context: &mut Context<'_, D>,
        request: &RecordRequest<'_>,
        until_us: Option<u64>,
        effects: &mut dyn ReplicaEffects,
    ) -> EngineResult<()> {
        let until_us = until_us.unwrap_or(context.now_us + REPAIR_WAIT_US);
        let holds_back = only_reads(request.message)
            && self.view.others().next().is_some()
            && context.now_us < until_us
            && !self.health.has_corruption;
        let mut corrupt = CorruptAnswers {
            inner: effects,
            token: request.token,
            suppresses_corrupt: holds_back,
            is_found: false,
        };
        let read_lock = request.envelope.read_lock && self.may_grant_read_lock(context);
        let request = &RecordRequest { envelope: Envelope { read_lock, ..request.envelope }, ..*request };
        self.partition.step(context.engine, context.at(), PartitionEvent::Request(*request), &mut corrupt)?;
        if !corrupt.is_found {
            return Ok(());
        }
        let may_wait = self.handle_corrupt_read(context, request)?;
        if !holds_back || may_wait && self.lead.wait_queue.push_to_repair(request, until_us) {
            return Ok(());
        }
        self.partition.step(context.engine, context.at(), PartitionEvent::Request(*request), effects)
    }

    /// Handles a transaction message of another partition, if the primary may answer and write. Otherwise the message waits until
    /// it may. If this member is not about to be primary the message is dropped, and its sender repeats it.
    pub(super) fn transaction<D: Disk>(
        &mut self,
        context: &mut Context<'_, D>,
        (epoch, message): (PartitionEpoch, &zerohop_transaction::Message),
        effects: &mut dyn ReplicaEffects,
    ) -> EngineResult<()> {
        if !self.may_transact(context) {
            if self.role == Role::Primary || epoch > self.view.epoch {
                self.lead.waiting_messages.push(epoch, message);
            }
            return Ok(());
        }
        self.partition.step(context.engine, context.at(), PartitionEvent::Transaction(message), effects)
    }

    /// Another partition has another primary. The messages of a primary that may not write wait for their next repetition.
    pub(super) fn primary_moved<D: Disk>(
        &mut self,
        context: &mut Context<'_, D>,
        range: zerohop_transaction::KeyspaceRange,
        effects: &mut dyn ReplicaEffects,
    ) -> EngineResult<()> {
        if !self.may_transact(context) {
            return Ok(());
        }
        self.partition.step(context.engine, context.at(), PartitionEvent::PrimaryMoved(range), effects)
    }

    fn may_transact<D: Disk>(&self, context: &Context<'_, D>) -> bool {
        self.may_answer(context) && self.has_copies()
    }

    /// Runs an atomic batch ([`zerohop_partition::Partition::run`]). It cannot be queued, so the primary refuses it if it cannot answer now.
    /// An atomic batch that only reads needs no copies.
    ///
    /// # Errors
    /// As there. `Unavailable` while this primary may not answer; `Corrupt` if it is the only copy and damaged; `WrongOwner`,
    /// without the map changes, if this replica is not the primary.
    pub fn run<D: Disk, P: Program>(
        &mut self,
        context: &mut Context<'_, D>,
        token: Token,
        (program, reply): (&mut P, &mut Vec<u8>),
        effects: &mut dyn ReplicaEffects,
    ) -> Result<ProgramResult, Failure<'static>> {
        if self.health.broken.is_some() && self.role == Role::Primary {
            return Err(unavailable());
        }
        if self.is_lone() {
            return self.run_admitted(context, token, (program, reply), effects);
        }
        if self.role != Role::Primary {
            let epoch = self.view.map_epoch;
            return Err(Failure::WrongOwner { epoch, delta: std::borrow::Cow::Borrowed(&[]) });
        }
        if self.is_damaged_sole_copy() {
            return Err(Failure::DataCorrupt);
        }
        let may_run = !program.may_write() || self.has_copies() && !self.lead.wait_queue.has_writes();
        if !self.may_answer(context) || !may_run {
            return Err(unavailable());
        }
        self.run_admitted(context, token, (program, reply), effects)
    }

    fn run_admitted<D: Disk, P: Program>(
        &mut self,
        context: &mut Context<'_, D>,
        token: Token,
        (program, reply): (&mut P, &mut Vec<u8>),
        effects: &mut dyn ReplicaEffects,
    ) -> Result<ProgramResult, Failure<'static>> {
        let result = self.partition.run(context.engine, context.now, token, (program, reply), effects);
        self.end_step(context, effects);
        result
    }

    /// All members whose copies and leases the primary needs: the in-sync replicas, and the members that a pending request may
    /// already have admitted.
    pub(super) fn needed(&self) -> impl Iterator<Item = Member> + '_ {
        let drops =
            |member: &&Member| is_planted(Bug::UndecidedChangeIgnored) && self.lead.removing.contains(member);
        let kept = self.view.in_sync.iter().filter(move |member| !drops(member));
        let admitting = self.lead.admitting.iter().filter(|_| !is_planted(Bug::UndecidedChangeIgnored));
        kept.chain(admitting.filter(|member| !self.view.in_sync.contains(member))).copied()
    }

    /// Whether every lease that this member granted before its promotion has ended.
    pub(super) fn has_waited(&self, now_us: u64) -> bool {
        is_planted(Bug::PromotedBeforeLeaseExpiry)
            || now_us >= self.former.wait_us && self.former.waits.values().all(|until_us| now_us >= *until_us)
    }

    /// Whether all needed members have granted this primary a valid lease, so that no other primary can be active.
    pub(super) fn has_leases<D: Disk>(&self, context: &Context<'_, D>) -> bool {
        let is_valid = |member| context.leases.is_valid(context.now_us, member);
        is_planted(Bug::LeaseNotChecked)
            || self.needed().all(is_valid)
            || is_planted(Bug::OneLeaseEnough) && self.needed().any(is_valid)
    }

    /// Whether no other primary can become active before a read lock that is granted now has ended.
    fn may_grant_read_lock<D: Disk>(&self, context: &Context<'_, D>) -> bool {
        let until_us = context.now_us + READ_LOCK_MS * 1_000;
        self.needed().all(|member| context.leases.is_valid(until_us, member))
    }

    fn has_started(&self, now_us: u64) -> bool {
        let is_marked =
            self.partition.applied() >= self.lead.epoch_marker || is_planted(Bug::EpochMarkerNotAwaited);
        is_marked && self.has_waited(now_us)
    }

    pub(super) fn has_copies(&self) -> bool {
        self.view.copies() >= usize::from(self.view.min_in_sync) || is_planted(Bug::MinInSyncIgnored)
    }

    /// Whether the primary may answer any request now.
    pub(super) fn may_answer<D: Disk>(&self, context: &Context<'_, D>) -> bool {
        self.role == Role::Primary
            && self.has_started(context.now_us)
            && self.has_leases(context)
            && self.is_below(context, Timestamp::ZERO)
    }

    /// Whether the timestamps of a request that has seen `seen` stay below the timestamp bound. The clock will advance to `seen`.
    fn is_below<D: Disk>(&self, context: &Context<'_, D>, seen: Timestamp) -> bool {
        is_planted(Bug::LeaseNotChecked)
            || self.partition.is_below(seen, context.leases.timestamp_bound(self.needed()))
    }

    /// Evaluates queued requests that are admissible now, and answers those whose time-out has passed.
    pub(super) fn admit_queued<D: Disk>(
        &mut self,
        context: &mut Context<'_, D>,
        effects: &mut dyn ReplicaEffects,
    ) -> EngineResult<()> {
        while let Some(one) = self.lead.wait_queue.take_overdue(context.now_us) {
            let failure = if one.repairs { Failure::DataCorrupt } else { unavailable() };
            effects.answer(one.token, &failed(failure));
        }
        if !self.lead.waiting_messages.is_empty() && self.may_transact(context) {
            for message in self.lead.waiting_messages.take_all() {
                let event = PartitionEvent::Transaction(&message);
                self.partition.step(context.engine, context.at(), event, effects)?;
            }
        }
        for _ in 0..self.lead.wait_queue.len() {
            if !self.may_answer(context) {
                break;
            }
            let has_copies = self.has_copies();
            let timestamp_bound = context.leases.timestamp_bound(self.needed());
            let partition = &self.partition;
            let is_repaired = self.health.repair.is_idle();
            let may = |one: &QueuedRequest| {
                (has_copies || !one.is_write)
                    && (is_repaired || !one.repairs)
                    && partition.is_below(one.seen, timestamp_bound)
            };
            let Some(one) = self.lead.wait_queue.take_first(may) else { break };
            let until_us = one.repairs.then_some(one.until_us);
            let stepped = one.with(|request| self.evaluate(context, request, until_us, effects));
            stepped.unwrap_or(Ok(()))?;
        }
        Ok(())
    }

    /// Answers all queued requests with a failure, because no member will serve them.
    pub(super) fn refuse_all(&mut self, failure: &Failure<'static>, effects: &mut dyn ReplicaEffects) {
        let mut refuse = |token| effects.answer(token, &failed(failure.clone()));
        while let Some(one) = self.lead.wait_queue.take_first(|_| true) {
            refuse(one.token);
        }
        self.audit.client_requests.drain(..).for_each(|one| refuse(one.token));
    }

    /// Sends all queued requests back to their clients, because another member may serve them.
    pub(super) fn reject_queued(&mut self, effects: &mut dyn ReplicaEffects) {
        while let Some(one) = self.lead.wait_queue.take_first(|_| true) {
            effects.wrong_owner(one.token);
        }
    }
}

/// The highest timestamp that a request's session has seen; zero if the request is refused because that timestamp is too far
/// ahead.
fn seen(message: &Message<'_>, now_ms: u64) -> Timestamp {
    let seen = match message {
        Message::Read { seen, .. } => *seen,
        Message::Scan(scan) => scan.seen,
        Message::Chunks(list) => list.seen,
        Message::Snapshot(snapshot) => snapshot.newest(),
        Message::Write { stamp, .. }
        | Message::Transact(Transact { stamp, .. })
        | Message::Stage(StageBytes { stamp, .. }) => stamp.seen,
        Message::Batch(batch) => batch.stamp.seen,
        _ => Timestamp::ZERO,
    };
    if seen.millis() > now_ms + CLOCK_AHEAD_MS_MAX { Timestamp::ZERO } else { seen }
}

fn writes(message: &Message<'_>) -> bool {
    match message {
        Message::Write { .. } | Message::Transact(_) | Message::Stage(_) => true,
        Message::Snapshot(snapshot) => snapshot.changes(),
        Message::Batch(batch) => batch.operations.iter().any(|one| matches!(one, RecordOperation::Write(_))),
        _ => false,
    }
}
