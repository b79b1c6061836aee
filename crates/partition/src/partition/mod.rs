//! The partition: events in, effects out.

mod atomic_batch;
pub(crate) mod changes;
mod commit;
mod compare;
mod maintenance;
mod member;
pub(crate) mod open;
mod read;
mod read_locks;
mod snapshots;
mod split_cleanup;
#[cfg(test)]
mod tests;
mod transactions;
mod update_locks;
mod write;

use zerohop_engine::disk::Disk;
use zerohop_engine::{Durability, Engine, EngineResult, Handle};
use zerohop_wire::ids::{PartitionEpoch, Timestamp};
use zerohop_wire::limits::VALUE_BYTES_MAX;
use zerohop_wire::messages::{OperationAnswer, OperationBatch, RecordOperation, StageBytes, Transact};
use zerohop_wire::{BadRequestReason, Failure, Message};

use crate::batch::Collector;
use crate::clock::Clock;
use crate::event::{PartitionEffects, PartitionEvent, RecordRequest, StepContext, Token};
use crate::limits::{BUFFER_RETAINED_BYTES, BUSY_RETRY_MS, SHARED_BUFFER_KEPT_BYTES};
use crate::log_writer::LogWriter;
use crate::map_view::MapView;
use crate::overlay::Overlay;
use crate::pending_replies::PendingReplies;
use crate::planted::{Bug, is_planted};
use crate::reply::Reply;
use crate::state::PartitionState;
use crate::view::RecordView;
use crate::waits::{WaitTable, WaitTarget};
use crate::write_buffer::UnitWriteBuffer;
use changes::PartitionChanges;
use read_locks::ReadLockRequest;
use update_locks::PartitionUpdateLocks;

/// One partition of a keyspace, whose primary this instance is.
#[derive(Debug)]
pub struct Partition {
    log_writer: LogWriter,
    clock: Clock,
    /// The state as of the last committed entry.
    state: PartitionState,
    /// The entries that are appended and not yet committed.
    overlay: Overlay,
    pending_replies: PendingReplies,
    waits: WaitTable,
    sweep_at_ms: u64,
    counts: PartitionCounts,
    split_cleanup: split_cleanup::SplitCleanup,
    /// As primary: the transactions over several partitions; `None` until the first arrives.
    transacting: Option<Box<transactions::PrimaryTransactions>>,
    /// Transactions are not resumed before this log index is committed.
    transactions_after: u64,
    /// When the last read lock that was granted here ends.
    read_locks_end_ms: u64,
    /// When the last read lock ends that this partition does not know.
    unknown_read_locks_end_ms: u64,
    /// The data that readers of the past need; `None` while there are no snapshots.
    snapshots: Option<Box<crate::snapshots::Snapshots>>,
    feed: changes::ChangeFeed,
    terms: WriteTerms,
    buffers: Buffers,
}

/// What has happened in a partition since it was opened; see [`PartitionFigures`].
#[derive(Debug, Default)]
struct PartitionCounts {
    answered_again: u64,
    staged_expired: u64,
    horizons_moved: u64,
}

/// What the owner of a partition has set for its writes.
#[derive(Debug)]
struct WriteTerms {
    /// Enough members have copies for writes to be acknowledged.
    has_copies: bool,
    /// The longest bytes record that a write may make by adding to it.
    bytes_max: u64,
}

impl Default for WriteTerms {
    fn default() -> WriteTerms {
        WriteTerms { has_copies: true, bytes_max: VALUE_BYTES_MAX as u64 }
    }
}

/// Memory that requests use again.
#[derive(Debug, Default)]
struct Buffers {
    contents: Vec<u8>,
    cursor: Vec<u8>,
    batch: Vec<u8>,
    /// `None` while an atomic batch runs.
    staged: Option<Box<UnitWriteBuffer>>,
}

/// Figures of a partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartitionFigures {
    /// Sessions remembered.
    pub sessions: usize,
    /// Memory of the session table.
    pub session_bytes: usize,
    /// Records that will expire.
    pub deadlines: usize,
    /// Waiting requests.
    pub waits: usize,
    /// Pending replies.
    pub pending_replies: usize,
    /// Log index of the last entry appended.
    pub last: u64,
    /// Log index of the last entry committed.
    pub commit: u64,
    /// Records of siblings that were removed since the partition was opened, as long as there may be more; see
    /// [`PartitionFigures::own_records`].
    pub removed_of_siblings: Option<u64>,
    /// Repeated writes since the partition was opened that were answered with their first outcome.
    pub answered_again: u64,
    /// Staged pieces that have expired since the partition was opened, as primary.
    pub staged_expired: u64,
    /// Pieces that are staged for future transactions.
    pub staged: u64,
    /// Bytes of the staged pieces.
    pub staged_bytes: u64,
    /// Transactions that are prepared, or decided while some participant has not been notified.
    pub unfinished: u64,
    /// Snapshots that are open here, and those about to be opened.
    pub snapshots: usize,
    /// Marks since the start that have ended snapshots which this member kept.
    pub horizons_moved: u64,
}

impl PartitionFigures {
    /// The partition's own records, of `records` in all. While a sibling's records are being removed this is an estimate.
    /// The sum over the siblings is right for the records at the split.
    #[must_use]
    pub fn own_records(&self, records: u64) -> u64 {
        self.removed_of_siblings.map_or(records, |removed| (records + removed) / 2)
    }
}

/// Where an answer is sent.
enum AnswerTarget<'t> {
    One(Token),
    /// An operation of a batch, by its place.
    Item(&'t mut Collector, u32),
}

impl AnswerTarget<'_> {
    fn token(&self) -> Token {
        match self {
            AnswerTarget::One(token) => *token,
            AnswerTarget::Item(collector, _) => collector.token,
        }
    }
}

impl Partition {
    /// Handles an event and passes the resulting actions to `effects`, in order.
    ///
    /// # Errors
    /// Engine errors that no request has caused. The caller logs them. The client has been answered.
    pub fn step<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        at: StepContext<'_>,
        event: PartitionEvent<'_>,
        effects: &mut dyn PartitionEffects,
    ) -> EngineResult<()> {
        self.clock.advance(at.now);
        let is_message =
            matches!(event, PartitionEvent::Transaction(_) | PartitionEvent::UnsyncedPrepared(_));
        if is_message || matches!(event, PartitionEvent::Request(_) | PartitionEvent::Tick) {
            self.resume_after_read_locks(engine, effects);
        }
        let mut result = Ok(());
        match event {
            PartitionEvent::Request(request) => self.request(engine, &request, at.map, effects),
            PartitionEvent::Flushed => result = self.commit(engine, effects),
            PartitionEvent::FlushFailed => self.pending_replies.fail(Failure::DiskFailed, effects),
            PartitionEvent::Transaction(message) => {
                self.transaction(engine, (message, false), at.map, effects);
            }
            PartitionEvent::UnsyncedPrepared(message) => {
                self.transaction(engine, (message, true), at.map, effects);
            }
            PartitionEvent::ForgetUnsynced => self.forget_unsynced(),
            PartitionEvent::PrimaryMoved(range) => self.send_again(engine, range, effects),
            PartitionEvent::Tick => result = self.tick(engine, at.map, effects),
            PartitionEvent::TokensChanged => {
                PartitionChanges { partition: self }.end_for_new_tokens(effects);
            }
            PartitionEvent::Disconnected { connection } => {
                self.waits.disconnect(connection);
                PartitionUpdateLocks { partition: self }.disconnect(connection);
                self.feed.disconnect(connection);
                self.disconnect_transactions(connection);
            }
        }
        if self.log_writer.may_commit_unflushed(self.state.applied) {
            return result.and(self.commit(engine, effects));
        }
        result
    }

    /// When [`PartitionEvent::Tick`] has something to do, in milliseconds since 1970.
    #[must_use]
    pub fn next_tick_ms(&self) -> Option<u64> {
        let transactions_ms = self.next_transactions_ms();
        let waits_ms = [self.waits.first_deadline(), self.feed.first_deadline()];
        let work_ms = [self.state.deadlines.first(), transactions_ms, self.next_snapshots_ms()];
        waits_ms.into_iter().chain(work_ms).flatten().min()
    }

    /// The engine's handle of the partition.
    #[must_use]
    pub fn handle(&self) -> Handle {
        self.log_writer.handle()
    }

    /// The epoch in which the partition serves.
    #[must_use]
    pub fn epoch(&self) -> PartitionEpoch {
        PartitionEpoch(u64::from(self.log_writer.epoch()))
    }

    /// Adopts the epoch to which the map has raised the group. In a group of one member only the number changes, because no other
    /// member could have appended.
    pub fn raise_epoch(&mut self, epoch: PartitionEpoch) {
        self.log_writer.raise_epoch(u32::try_from(epoch.0).unwrap_or(u32::MAX));
    }

    /// The newest timestamp that the partition has assigned or seen. No client's clock is behind it because of this partition.
    #[must_use]
    pub fn newest(&self) -> Timestamp {
        self.clock.newest()
    }

    /// Sets the longest bytes record that single writes may make by adding to it, for an owner whose answers are not frames.
    /// Initially it is [`VALUE_BYTES_MAX`]. Atomic batches and transactions keep that.
    pub fn set_bytes_max(&mut self, bytes: u64) {
        self.terms.bytes_max = bytes;
    }

    /// Whether requests wait in the partition, or readers watch it, so that [`PartitionEvent::Disconnected`] has something to do.
    #[must_use]
    pub fn has_waits(&self) -> bool {
        !self.waits.is_empty() || self.feed.has_readers() || self.has_queued()
    }

    /// When [`PartitionEvent::Tick`] has something to do though no request arrives: a deadline, or sessions to be forgotten.
    #[must_use]
    pub fn next_maintenance_ms(&self) -> Option<u64> {
        let sweep = (self.state.sessions.len() > 0).then_some(self.sweep_at_ms);
        [self.next_tick_ms(), sweep, self.next_split_cleanup_ms()].into_iter().flatten().min()
    }

    /// Answers all pending replies and waiting requests with a failure, because they will not be answered otherwise. The
    /// partition still accepts requests, and answers with the same failure those that would have to wait.
    pub fn release(&mut self, failure: &Failure<'static>, effects: &mut dyn PartitionEffects) {
        self.pending_replies.fail(failure.clone(), effects);
        self.drop_transactions(failure, effects);
        self.waits.update_locks.clear();
        while let Some(wait) = self.waits.take_overdue(u64::MAX) {
            self.deliver_wait(wait.requester, &Err(failure.clone()), effects);
        }
        PartitionChanges { partition: self }.fail(failure, effects);
    }

    /// The figures of the partition.
    #[must_use]
    pub fn stats(&self) -> PartitionFigures {
        let (staged, staged_bytes) = self.state.transacted.as_ref().map_or((0, 0), |one| one.state.staged());
        PartitionFigures {
            sessions: self.state.sessions.len(),
            session_bytes: self.state.sessions.bytes(),
            deadlines: self.state.deadlines.len(),
            waits: self.waits.len() + self.feed.waits(),
            pending_replies: self.pending_replies.len(),
            last: self.log_writer.last(),
            commit: self.state.applied,
            removed_of_siblings: self.removed_of_siblings(),
            answered_again: self.counts.answered_again,
            staged_expired: self.counts.staged_expired,
            staged: staged as u64,
            staged_bytes,
            unfinished: self.state.transacted.as_ref().map_or(0, |one| one.state.unfinished()) as u64,
            snapshots: self.snapshots.as_ref().map_or(0, |snapshots| snapshots.len()),
            horizons_moved: self.counts.horizons_moved,
        }
    }

    /// Changes when entries survive a crash, and answers requests that only waited for that. A partition that was in memory gets
    /// a checkpoint at once, because its log has not kept the data that sessions and deadlines need.
    ///
    /// # Errors
    /// As [`Engine::set_durability`] and [`Engine::checkpoint_begin`].
    pub fn set_durability<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        durability: Durability,
        effects: &mut dyn PartitionEffects,
    ) -> EngineResult<()> {
        let was_in_memory = !self.log_writer.reaches_disk();
        self.log_writer.set_durability(engine.set_durability(self.handle(), durability)?);
        self.commit(engine, effects)?;
        if was_in_memory && self.log_writer.reaches_disk() {
            self.checkpoint(engine)?;
            engine.finish_work(self.handle())?;
        }
        Ok(())
    }

    fn request<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        request: &RecordRequest<'_>,
        map: MapView<'_>,
        effects: &mut dyn PartitionEffects,
    ) {
        let RecordRequest { token, envelope, message } = *request;
        let names_other = envelope.partition_epoch.0 != 0 && envelope.partition_epoch != self.epoch();
        if names_other && !is_planted(Bug::EpochNotChecked) {
            effects.wrong_owner(token);
            return;
        }
        if !self.owns_keys_of(message) {
            effects.wrong_owner(token);
            return;
        }
        if let Err(failure) = self.admit(message) {
            effects.answer(token, &Message::Answer(Err(failure)));
            return;
        }
        if self.has_unknown_read_locks() && Partition::may_change(message) {
            let failure = Failure::Busy { retry_after_ms: BUSY_RETRY_MS };
            effects.answer(token, &Message::Answer(Err(failure)));
            return;
        }
        if self.has_transactions() && self.waits_for_intents(request, 0, effects) {
            return;
        }
        // A transaction waits for intents inside the commit protocol, not as a request.
        if let Message::Transact(transact) = message {
            return self.with_shared_buffer(engine, |partition, engine| {
                if partition.is_answered(&transact.stamp) {
                    effects.dropped(token);
                } else {
                    partition.transact(engine, transact, (token, map), effects);
                }
            });
        }
        self.evaluate_unblocked(engine, request, effects);
    }

    /// Lends the engine's buffer to the partition. With hundreds of partitions, a long buffer in each would exceed the memory
    /// budgets and every cache.
    fn with_shared_buffer<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        act: impl FnOnce(&mut Partition, &mut Engine<D>),
    ) {
        std::mem::swap(&mut self.buffers.contents, engine.scratch());
        act(self, engine);
        std::mem::swap(&mut self.buffers.contents, engine.scratch());
        if engine.scratch().capacity() > SHARED_BUFFER_KEPT_BYTES {
            *engine.scratch() = Vec::new();
        }
        self.buffers.shrink();
    }

    /// Evaluates a request that no intent blocks.
    fn evaluate_unblocked<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        request: &RecordRequest<'_>,
        effects: &mut dyn PartitionEffects,
    ) {
        self.with_shared_buffer(engine, |partition, engine| {
            partition.evaluate_request(engine, request, effects)
        });
    }

    fn evaluate_request<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        request: &RecordRequest<'_>,
        effects: &mut dyn PartitionEffects,
    ) {
        let RecordRequest { token, envelope, message } = *request;
        let mut to = AnswerTarget::One(token);
        let read_lock = self.read_lock_for(&envelope);
        match message {
            Message::Read { read, .. } => {
                self.read(engine, (read, read_lock.as_ref()), envelope.time_out_ms, &mut to, effects)
            }
            Message::Scan(scan) => self.scan(engine, scan, token, effects),
            Message::Chunks(list) => self.list_chunks(engine, list, token, effects),
            Message::Changes(request) => {
                PartitionChanges { partition: self }.read(engine, request, token, effects);
            }
            Message::Compare(compare) => self.compare(engine, compare, token, effects),
            Message::Snapshot(snapshot) => self.snapshot(engine, snapshot, token, effects),
            Message::Write { stamp, write } => {
                if self.is_answered(stamp) {
                    effects.dropped(token);
                } else {
                    self.write(engine, stamp, stamp.sequence.0, write, &mut to, effects);
                }
            }
            Message::Stage(StageBytes { stamp, .. }) if self.is_answered(stamp) => effects.dropped(token),
            Message::Stage(stage) => self.stage(engine, stage, token, effects),
            Message::Batch(batch) => {
                self.batch(engine, (batch, read_lock.as_ref()), envelope.time_out_ms, token, effects)
            }
            _ => effects.answer(token, &Message::Answer(Err(BadRequestReason::Unexpected.into()))),
        }
    }

    /// Refuses a request whose timestamp is too far ahead, or for which there is no room.
    fn admit(&mut self, message: &Message<'_>) -> Result<(), Failure<'static>> {
        let (seen, issued) = match message {
            Message::Read { seen, .. } => (*seen, Timestamp::ZERO),
            Message::Scan(scan) => (scan.seen, Timestamp::ZERO),
            Message::Chunks(list) => (list.seen, Timestamp::ZERO),
            Message::Changes(request) => (request.seen, Timestamp::ZERO),
            Message::Snapshot(snapshot) => (snapshot.newest(), Timestamp::ZERO),
            Message::Write { stamp, .. }
            | Message::Batch(OperationBatch { stamp, .. })
            | Message::Transact(Transact { stamp, .. })
            | Message::Stage(StageBytes { stamp, .. }) => (stamp.seen, stamp.session.issued),
            _ => return Ok(()),
        };
        // A session from the future would, once evicted, shut out all others.
        self.clock.check(seen.max(issued))?;
        self.clock.witness(seen);
        if self.pending_replies.is_full() {
            return Err(Failure::Busy { retry_after_ms: BUSY_RETRY_MS });
        }
        Ok(())
    }

    fn batch<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        (batch, read_lock): (&OperationBatch<'_>, Option<&ReadLockRequest>),
        time_out_ms: u32,
        token: Token,
        effects: &mut dyn PartitionEffects,
    ) {
        let has_writes =
            batch.operations.iter().any(|operation| matches!(operation, RecordOperation::Write(_)));
        if has_writes && self.is_answered(&batch.stamp) {
            effects.dropped(token);
            return;
        }
        let count = batch.operations.len() as u32;
        let mut collector = Collector::new(token, count, std::mem::take(&mut self.buffers.batch));
        for (place, (sequence, operation)) in (0u32..).zip(batch.numbered()) {
            let mut to = AnswerTarget::Item(&mut collector, place);
            match operation {
                RecordOperation::Read(read) => {
                    self.read(engine, (&read, read_lock), time_out_ms, &mut to, effects)
                }
                RecordOperation::Write(write) => {
                    self.write(engine, &batch.stamp, sequence.0, &write, &mut to, effects);
                }
            }
        }
        self.waits.add_early_answers(&mut collector);
        if collector.is_open() {
            self.waits.open_batch(collector);
        } else {
            self.send_batch(collector, effects);
        }
    }

    fn send_batch(&mut self, collector: Collector, effects: &mut dyn PartitionEffects) {
        let Collector { token, count, index, .. } = collector;
        let read_lock_us = collector.read_lock_us();
        let reply = Reply::Batch { count, packed: collector.finish() };
        if index > self.state.applied {
            self.pending_replies.push(index, token, reply, effects);
            return;
        }
        reply.send_read_locked(token, read_lock_us, effects);
        if let Reply::Batch { packed, .. } = reply {
            self.buffers.batch = packed;
            self.buffers.batch.clear();
        }
    }

    /// Sends the answer of a write once the entry of this index is committed. Answers to reads that wait for entries of others
    /// go through [`deliver`].
    fn deliver(
        &mut self,
        to: &mut AnswerTarget<'_>,
        index: u64,
        answer: &OperationAnswer<'_>,
        effects: &mut dyn PartitionEffects,
    ) {
        match to {
            AnswerTarget::One(token) if index > self.state.applied => {
                self.pending_replies.push(index, *token, Reply::of_write(answer), effects);
            }
            _ => deliver(&mut self.pending_replies, self.state.applied, to, index, answer, effects),
        }
    }

    /// Sends the answer of a wait. The answer is committed.
    fn deliver_wait(
        &mut self,
        requester: WaitTarget,
        answer: &OperationAnswer<'_>,
        effects: &mut dyn PartitionEffects,
    ) {
        match requester {
            WaitTarget::One(token) => effects.answer(token, &Message::Answer(answer.clone())),
            WaitTarget::Item(batch, place) => {
                if let Some(collector) = self.waits.add_to_batch(batch, place, answer) {
                    self.send_batch(collector, effects);
                }
            }
        }
    }

    fn view<'v, D>(&'v self, engine: &'v mut Engine<D>) -> RecordView<'v, D> {
        let overlay = Some(&self.overlay).filter(|overlay| !overlay.is_empty());
        RecordView { engine, handle: self.handle(), overlay, deadlines: &self.state.deadlines }
    }
}

/// Sends the answer of a read once the entry of this index is committed. It may borrow from the rest of the partition.
fn deliver(
    pending_replies: &mut PendingReplies,
    commit: u64,
    to: &mut AnswerTarget<'_>,
    index: u64,
    answer: &OperationAnswer<'_>,
    effects: &mut dyn PartitionEffects,
) {
    deliver_read_locked(pending_replies, commit, to, (index, 0), answer, effects);
}

/// The same for an answer to a read whose record is read-locked for so many microseconds.
fn deliver_read_locked(
    pending_replies: &mut PendingReplies,
    commit: u64,
    to: &mut AnswerTarget<'_>,
    (index, read_lock_us): (u64, u32),
    answer: &OperationAnswer<'_>,
    effects: &mut dyn PartitionEffects,
) {
    match to {
        AnswerTarget::One(token) if index > commit => {
            pending_replies.push(index, *token, Reply::of(answer), effects)
        }
        AnswerTarget::One(token) => {
            effects.answer_read_locked(*token, &Message::Answer(answer.clone()), read_lock_us)
        }
        AnswerTarget::Item(collector, place) => {
            collector.put(*place, index, answer);
            collector.note_read_lock(read_lock_us);
        }
    }
}

impl Buffers {
    /// Frees the memory that a large request has left.
    fn shrink(&mut self) {
        for buffer in [&mut self.contents, &mut self.batch] {
            if buffer.capacity() > BUFFER_RETAINED_BYTES {
                *buffer = Vec::new();
            }
        }
    }
}
