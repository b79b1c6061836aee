//! A worker thread: one instance and its queue.
//!
//! ```text
//!   take all that waits ──> start each ──> one flush ──> answer all callers ──> a step of maintenance ────┐
//!         ^                                                                                       │
//!         └───────────────────────────────────────────────────────────────────────────────────────┘
//! ```
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
use super::limits::{BATCH_ANSWER_BYTES_MAX, IDLE_ROUNDS, MAINTENANCE_INTERVAL, MAINTENANCE_INTERVAL_IDLE};
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
    begun: Vec<StoreRequest>,
    closers: Vec<SyncSender<StoreAnswer>>,
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
            idle_rounds = if batch.waiting.is_empty() { (idle_rounds + 1).min(IDLE_ROUNDS) } else { 0 };
            self.work(batch);
            if !batch.closers.is_empty() {
                return std::mem::take(&mut batch.closers);
            }
            has_maintenance = self.instance.maintain();
        }
    }

    fn work(&mut self, batch: &mut WorkerBatch) {
        self.instance.advance(unix_ms(), self.uptime.elapsed_ms());
        while let Some(request) = batch.waiting.pop_front() {
            if matches!(request.operation, StoreOperation::Close) {
                batch.closers.push(request.reply);
                continue;
            }
            // This comes before the execution: if it panics, the caller is answered only once the reason is known.
            batch.begun.push(request);
            if let Some(StoreRequest { operation, .. }) = batch.begun.last() {
                self.instance.begin(operation);
            }
            if self.instance.answer_bytes() > BATCH_ANSWER_BYTES_MAX {
                self.flush_and_answer(batch);
            }
        }
        self.flush_and_answer(batch);
    }

    /// One flush for the batch, then its answers.
    fn flush_and_answer(&mut self, batch: &mut WorkerBatch) {
        self.instance.end_batch();
        for (slot, request) in batch.begun.iter().enumerate() {
            let answer = self.instance.answer(slot, &request.operation);
            send(&request.reply, answer);
        }
        batch.begun.clear();
        self.instance.clear_batch();
    }
}

/// The channel has room for one answer; a caller that has stopped waiting does not need it.
fn send(reply: &SyncSender<StoreAnswer>, answer: StoreAnswer) {
    drop(reply.try_send(answer));
}
