//! A worker thread: one instance and its queue.
//!
//! ```text
//!   take all that waits ──> start each ──> one flush ──> answer all callers ──> a step of maintenance ────┐
//!         ^                                                                                       │
//!         └───────────────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! A write that finds no room while compaction gives space back is started again every few milliseconds, for a limited time.
//!
//! Writes are answered after the flush that covers them. Reads of the same batch wait for it too. If it fails, those of records without unflushed
//! changes are answered all the same: a full disk refuses writes and serves reads.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use zerohop_engine::disk::Disk;
use zerohop_system::clock::{Stopwatch, unix_ms};

use super::error::StoreError;
use super::instance::EmbeddedInstance;
use super::limits::{
    BATCH_ANSWER_BYTES_MAX, IDLE_ROUNDS, MAINTENANCE_INTERVAL, MAINTENANCE_INTERVAL_IDLE, ROOM_RETRY,
    ROOM_WAIT,
};
use super::mailbox::{MailboxEnd, WorkerMailbox};
use super::request::{StoreAnswer, StoreOperation, StoreOutcome, StoreRequest};

/// Serves a mailbox until it is closed, or fails; waiting callers then get the reason.
pub(super) fn serve<D: Disk>(instance: EmbeddedInstance<D>, mailbox: &WorkerMailbox<StoreRequest>) {
    // The batch is owned here, so that no answer is dropped before the mailbox has the reason.
    let mut batch = WorkerBatch::default();
    let closing = catch_unwind(AssertUnwindSafe(|| {
        let mut worker = StoreWorker { instance, uptime: Stopwatch::start() };
        let closers = worker.run(mailbox, &mut batch);
        (closers, worker.instance.close())
    }));
    match closing {
        Ok((closers, closed)) => {
            mailbox.end(MailboxEnd::Closed);
            let closed = closed.map_err(StoreError::NotDurable);
            for reply in closers {
                send(&reply, closed.clone().map(|()| StoreOutcome::Done));
            }
        }
        Err(panic) => {
            let words = panic.downcast_ref::<&str>().map(|words| (*words).to_owned());
            let words = words.or_else(|| panic.downcast_ref::<String>().cloned());
            mailbox.end(MailboxEnd::Fault(format!("a fault of the program: {}", words.unwrap_or_default())));
        }
    }
}

struct StoreWorker<D: Disk> {
    instance: EmbeddedInstance<D>,
    uptime: Stopwatch,
}

/// Requests from the mailbox that are not answered yet.
#[derive(Default)]
struct WorkerBatch {
    waiting: VecDeque<StoreRequest>,
    begun: Vec<RequestAttempt>,
    /// Requests that found no room, and when they are started again, in the time of the worker.
    awaiting_room: Vec<RequestAttempt>,
    room_retry_ms: u64,
    closers: Vec<SyncSender<StoreAnswer>>,
}

/// A request that was started, and until when it may be started again.
struct RequestAttempt {
    request: StoreRequest,
    until_ms: u64,
}

impl<D: Disk> StoreWorker<D> {
    /// Returns the channel that must be notified of the close.
    fn run(
        &mut self,
        mailbox: &WorkerMailbox<StoreRequest>,
        batch: &mut WorkerBatch,
    ) -> Vec<SyncSender<StoreAnswer>> {
        let mut idle_rounds = 0;
        let mut has_maintenance = false;
        loop {
            let wait = match idle_rounds {
                _ if has_maintenance => Duration::ZERO,
                IDLE_ROUNDS.. => MAINTENANCE_INTERVAL_IDLE,
                _ => MAINTENANCE_INTERVAL,
            };
            mailbox.take_all(&mut batch.waiting, wait);
            let is_idle = batch.waiting.is_empty() && batch.awaiting_room.is_empty();
            idle_rounds = if is_idle { (idle_rounds + 1).min(IDLE_ROUNDS) } else { 0 };
            self.work(batch);
            if !batch.closers.is_empty() {
                // Their callers are answered: no more room is given back.
                self.begin_again(batch, u64::MAX);
                self.flush_and_answer(batch);
                return std::mem::take(&mut batch.closers);
            }
            has_maintenance = self.instance.maintain();
        }
    }

    fn work(&mut self, batch: &mut WorkerBatch) {
        let now_ms = self.uptime.elapsed_ms();
        self.instance.advance(unix_ms(), now_ms);
        if now_ms >= batch.room_retry_ms {
            self.begin_again(batch, now_ms);
        }
        let until_ms = now_ms + ROOM_WAIT.as_millis() as u64;
        while let Some(request) = batch.waiting.pop_front() {
            if matches!(request.operation, StoreOperation::Close) {
                batch.closers.push(request.reply);
                continue;
            }
            // This comes before the execution: if it panics, the caller is answered only once the reason is known.
            batch.begun.push(RequestAttempt { request, until_ms });
            self.begin_last(batch);
            if self.instance.answer_bytes() > BATCH_ANSWER_BYTES_MAX {
                self.flush_and_answer(batch);
            }
        }
        self.flush_and_answer(batch);
    }

    /// Starts the requests again that found no room.
    fn begin_again(&mut self, batch: &mut WorkerBatch, now_ms: u64) {
        batch.room_retry_ms = now_ms.saturating_add(ROOM_RETRY.as_millis() as u64);
        for RequestAttempt { request, until_ms } in std::mem::take(&mut batch.awaiting_room) {
            // The last attempt: its answer is final.
            let until_ms = if now_ms < until_ms { until_ms } else { 0 };
            batch.begun.push(RequestAttempt { request, until_ms });
            self.begin_last(batch);
        }
    }

    fn begin_last(&mut self, batch: &WorkerBatch) {
        if let Some(RequestAttempt { request, .. }) = batch.begun.last() {
            self.instance.begin(&request.operation);
        }
    }

    /// One flush for the batch, then its answers.
    fn flush_and_answer(&mut self, batch: &mut WorkerBatch) {
        self.instance.end_batch();
        let answer_or_wait = |(slot, begun): (usize, &RequestAttempt)| {
            let RequestAttempt { request, until_ms } = begun;
            let waits = *until_ms > 0 && request.operation.writes() && self.instance.awaits_room(slot);
            if !waits {
                send(&request.reply, self.instance.answer(slot, &request.operation));
            }
            waits
        };
        let waits: Vec<bool> = batch.begun.iter().enumerate().map(answer_or_wait).collect();
        let begun = batch.begun.drain(..).zip(waits);
        batch.awaiting_room.extend(begun.filter_map(|(begun, waits)| waits.then_some(begun)));
        self.instance.clear_batch();
    }
}

/// The channel has room for one answer; a caller that has stopped waiting does not need it.
fn send(reply: &SyncSender<StoreAnswer>, answer: StoreAnswer) {
    drop(reply.try_send(answer));
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc::{Receiver, sync_channel};

    use zerohop_engine::disk::simulated::SimulatedDisk;
    use zerohop_engine::{Durability, EngineError, EngineOptions};
    use zerohop_placement::{KeyOrder, PartitionCount};

    use super::super::request::{KeyValue, StoreKey};
    use super::super::settings::StoreSettings;
    use super::*;

    const CAPACITY: u64 = 3 << 20;
    const VALUE_BYTES: usize = 4 << 10;

    fn settings() -> StoreSettings {
        let partitions = PartitionCount::new(1).unwrap();
        StoreSettings { instances: 1, partitions, seed: 1, order: KeyOrder::Hashed }
    }

    fn key(number: usize) -> StoreKey {
        StoreKey { partition: 0, key: format!("key-{number}").into() }
    }

    fn insert(number: usize) -> StoreOperation {
        StoreOperation::Insert(KeyValue { key: key(number), value: vec![number as u8; VALUE_BYTES] })
    }

    fn open(disk: &SimulatedDisk) -> EmbeddedInstance<SimulatedDisk> {
        let options = EngineOptions {
            segment_bytes: 64 << 10,
            journal_file_bytes: 64 << 10,
            memory_bytes: 128 << 10,
            disk_reserve_bytes: 256 << 10,
            check_after_bytes: 16 << 10,
            ..EngineOptions::default()
        };
        let map = Arc::new(settings().map(Durability::DEFAULT).unwrap());
        EmbeddedInstance::open(disk.clone(), options, &map, 0, unix_ms()).unwrap().0
    }

    /// Sends an operation to a worker.
    fn send_to(mailbox: &WorkerMailbox<StoreRequest>, operation: StoreOperation) -> Receiver<StoreAnswer> {
        let (reply, answer) = sync_channel(1);
        mailbox.put(StoreRequest { operation, reply }, 1, Duration::from_secs(60)).unwrap();
        answer
    }

    /// Fills the disk, removes half, and writes five times what the disk holds over those keys. Returns the first problem.
    fn overwrite_on_full_disk(mailbox: &WorkerMailbox<StoreRequest>) -> Result<(), String> {
        let call = |operation| send_to(mailbox, operation).recv().expect("is answered");
        let filled = (0..2_000).find_map(|number| call(insert(number)).err().map(|error| (number, error)));
        let (number, error) = filled.ok_or("the disk is never full")?;
        if !matches!(error, StoreError::Engine(EngineError::DiskFull { .. })) {
            return Err(format!("not a full disk: {error:?}"));
        }
        for removed in (0..number).step_by(2) {
            call(StoreOperation::Remove(key(removed)))
                .map_err(|error| format!("removal {removed}: {error}"))?;
        }
        for round in 0..5 * number {
            let written = call(insert(2 * (round % (number / 4))));
            written.map_err(|error| format!("write {round} of {}: {error}", 5 * number))?;
        }
        Ok(())
    }

    #[expect(clippy::disallowed_methods, reason = "the caller and the worker are two threads")]
    #[test]
    fn writes_wait_while_dead_space_is_given_back() {
        let disk = SimulatedDisk::new(1);
        disk.set_capacity(CAPACITY);
        let mailbox = Arc::new(WorkerMailbox::new());
        let caller = std::thread::spawn({
            let mailbox = Arc::clone(&mailbox);
            move || {
                let result = overwrite_on_full_disk(&mailbox);
                send_to(&mailbox, StoreOperation::Close).recv().expect("is answered").expect("closes");
                result
            }
        });
        serve(open(&disk), &mailbox);
        caller.join().unwrap().unwrap();
    }
}
