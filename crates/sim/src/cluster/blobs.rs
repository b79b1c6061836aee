//! The clients' blob operations: tasks that run the procedures of `zerohop-client`, several times in a row with
//! one handle.
//!
//! ```text
//!   write, poke, replace, put, extend, staged extension, truncate, transforms, read, stream, list, delete
//!     └─ each call is an entry of the history, with what it intends; its result says what it did and saw
//! ```
//!
//! For the checker of transactions a blob's header and each of its chunks are registers, and its tail is a list
//! (`workload/blobs.rs`). A procedure repeats itself on a later state of the blob if another client is faster, so
//! a client may not know which edition its write has changed. The reads of the run tell.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use zerohop_base::time::Time;
use zerohop_session::procedures::{BlobError, BlobLimits, Error, ProcedureSettings};

pub(super) use self::plain::PlainBlobRun;
use self::plain::PlainBlobs;
use self::task::{BlobOutcome, BlobReport, BlobStep, is_absent, run_blob};
use super::SimulatedCluster;
use super::running_transaction::fail_of;
use crate::cycles::{CheckedAction, TransactionFate};
use crate::transaction_results::{BlobLife, TransactionFailure, TransactionRecord};
use crate::workload::blobs::{BlobChangeKind, BlobOperationPlan, MARKS_MAX, NUMBERS, PutEnd, blob_of_header};

#[path = "blobs/contents.rs"]
mod contents;
#[path = "blobs/placement.rs"]
mod placement;
#[path = "blobs/plain.rs"]
mod plain;
#[path = "blobs/task.rs"]
mod task;

/// The longest rest between two operations with one handle, in microseconds.
const REST_US: u64 = 400_000;

/// The limits of clients for which the blobs of the simulator are large: streams read snapshots, a put
/// stages its bytes, and leaves the replaced chunks to be removed one by one.
const LARGE: BlobLimits =
    BlobLimits { ahead_bytes: 6_000, put_bytes: 9_000, replaced_bytes: 9_000, transaction_chunks: 4_096 };
const LARGE_PUTS: BlobLimits = BlobLimits { transaction_chunks: 2, ..LARGE };

/// The blob operations of all clients that have not ended.
#[derive(Debug, Default)]
pub(super) struct Blobs {
    open: BTreeMap<usize, OpenBlobOperation>,
    next: usize,
    reports: Arc<Mutex<VecDeque<(usize, BlobReport)>>>,
    /// Number of marks that were assigned, per blob and chunk.
    marks: BTreeMap<(u64, u64), u32>,
    /// The order of each change of attributes: its first generation that was seen. Staged extensions raise the
    /// generation and leave the attributes.
    orders: BTreeMap<u64, u64>,
    /// The calls on the plain blob.
    plain: PlainBlobs,
}

#[derive(Debug)]
struct OpenBlobOperation {
    client: usize,
    blob: u64,
    limit_us: u64,
    /// Index in the history of its present call.
    entry: Option<usize>,
    may_have_late_copy: bool,
}

impl Blobs {
    pub(super) fn is_idle(&self) -> bool {
        self.open.is_empty() && self.plain.is_idle()
    }

    /// A copy of a frame of this client may take effect later, whatever the client receives as
    /// answer.
    pub(super) fn mark_may_repeat(&mut self, client: usize) {
        self.plain.mark_may_repeat(client);
        self.open
            .values_mut()
            .filter(|open| open.client == client)
            .for_each(|open| open.may_have_late_copy = true);
    }

    /// Replaces the orders of headers in reads by those of their changes.
    pub(super) fn settle_orders(&mut self, actions: &mut [CheckedAction]) {
        for action in actions {
            if let CheckedAction::Look { key, value, version } = action
                && blob_of_header(*key).is_some()
            {
                *version = *self.orders.entry(*value).or_insert(*version);
            }
        }
    }

    /// Assigns a mark that is not set; none if all are set.
    fn mark(&mut self, blob: u64, chunk: Option<u64>) -> Option<u32> {
        let chunks = chunk.map_or(NUMBERS, |chunk| chunk..chunk + 1);
        let used = |chunk| self.marks.get(&(blob, chunk)).copied().unwrap_or(0);
        let mark = chunks.clone().map(used).max().filter(|mark| *mark < MARKS_MAX)?;
        self.marks.extend(chunks.map(|chunk| ((blob, chunk), mark + 1)));
        Some(mark)
    }
}

impl SimulatedCluster {
    /// A client starts an operation on a blob, and perhaps others after it.
    pub(super) fn begin_blob(&mut self, client: usize, first: BlobOperationPlan, limit_us: u64) {
        let mut plans = vec![first];
        while self.transacting.draws.random().chance(1, 3) && plans.len() < 4 {
            plans.push(BlobOperationPlan { blob: first.blob, ..self.transacting.draws.blob() });
        }
        self.begin_blob_steps(client, plans, limit_us);
    }

    fn begin_blob_steps(&mut self, client: usize, plans: Vec<BlobOperationPlan>, limit_us: u64) {
        let Some(first) = plans.first().copied() else { return };
        let number = self.blobs.next;
        self.blobs.next += 1;
        let is_alone = plans.len() == 1;
        let mut steps = Vec::new();
        for mut plan in plans {
            let mut mark = 0;
            if let BlobChangeKind::Mark { chunk } = plan.kind {
                match self.blobs.mark(plan.blob, chunk) {
                    Some(free) => mark = free,
                    None => plan.kind = BlobChangeKind::Write,
                }
            }
            let rest_us = if is_alone { 0 } else { self.transacting.draws.random().below(REST_US) };
            steps.push(BlobStep { plan, mark, rest: Duration::from_micros(rest_us) });
        }
        let now = self.now();
        self.trace.record(now, format_args!("c{client} begins blob #{number}: {steps:?}"));
        self.blobs.open.insert(
            number,
            OpenBlobOperation { client, blob: first.blob, limit_us, entry: None, may_have_late_copy: false },
        );
        let reports = Arc::clone(&self.blobs.reports);
        let report =
            move |what| reports.lock().unwrap_or_else(PoisonError::into_inner).push_back((number, what));
        let procedures = &mut self.clients[client].procedures;
        let settings = ProcedureSettings::new(Duration::from_micros(limit_us));
        let handle = |blobs| procedures.handle(ProcedureSettings { blobs, ..settings });
        let handles = match first.is_large {
            true => (handle(LARGE), handle(LARGE_PUTS)),
            false => (handle(BlobLimits::default()), handle(BlobLimits::default())),
        };
        self.clients[client].procedures.start(run_blob(handles, steps, report));
        let soon = self.streams.schedule.below(20);
        self.schedule_client(client, now.after_us(soon));
    }

    /// Adds what the blob operations have reported in this turn of a client to the history.
    pub(super) fn handle_blob_reports(&mut self) {
        loop {
            let report = self.blobs.reports.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            let Some((number, report)) = report else { return };
            self.handle_blob_report(number, report);
        }
    }

    fn handle_blob_report(&mut self, number: usize, mut report: BlobReport) {
        let now = self.now();
        if let BlobReport::Calls { actions, .. } | BlobReport::Intends(actions) = &mut report {
            self.blobs.settle_orders(actions);
        }
        let Some(open) = self.blobs.open.get_mut(&number) else { return };
        let client = open.client;
        match report {
            BlobReport::Calls { actions, life } => {
                open.entry = Some(self.history.transactions.len());
                open.may_have_late_copy = false;
                let deadline = now.after_us(open.limit_us);
                let mut entry = TransactionRecord::begun(client, now, deadline, actions);
                entry.lives.extend(life.map(|life| (open.blob, life)));
                self.history.transactions.push(entry);
            }
            BlobReport::Intends(actions) => {
                if let Some(at) = open.entry {
                    self.history.transactions[at].transaction.actions = actions;
                }
            }
            BlobReport::Continues => {
                if let Some(at) = open.entry {
                    self.history.transactions[at].deadline = now.after_us(open.limit_us);
                }
            }
            BlobReport::Ended(result) => {
                let Some(at) = open.entry.take() else { return };
                let (blob, may_have_late_copy) = (open.blob, open.may_have_late_copy);
                let entry = &mut self.history.transactions[at];
                entry.transaction.end = Some(now.0);
                match result {
                    Ok(mut outcome) => {
                        self.blobs.settle_orders(outcome.actions.as_deref_mut().unwrap_or_default());
                        self.coverage.blob(outcome.case);
                        record_outcome(entry, blob, outcome);
                    }
                    Err(error) => {
                        if let Some(case) = case_of(&error) {
                            self.coverage.blob(case);
                        }
                        record_error(entry, blob, &error, may_have_late_copy);
                    }
                }
                self.coverage.operations += u64::from(entry.transaction.fate == TransactionFate::Committed);
                self.trace.record(now, format_args!("blob #{number} ends as {entry}"));
            }
            BlobReport::Over => {
                self.blobs.open.remove(&number);
                let life = self.clients[client].life;
                self.call_again(client, life);
            }
        }
    }

    /// A client dies; its operations may or may not have taken effect.
    pub(super) fn drop_blob_operations(&mut self, client: usize) {
        self.blobs.plain.drop_of(client);
        self.blobs.open.retain(|_, open| {
            if open.client == client
                && let Some(at) = open.entry
            {
                self.history.transactions[at].is_left = true;
            }
            open.client != client
        });
    }

    /// A client is paused until then and handles no deadline.
    pub(super) fn pause_blobs(&mut self, client: usize, until: Time) {
        for open in self.blobs.open.values().filter(|open| open.client == client) {
            if let Some(at) = open.entry {
                let entry = &mut self.history.transactions[at];
                entry.deadline = entry.deadline.max(until);
            }
        }
    }

    /// Every blob is read once more.
    pub(super) fn read_all_blobs(&mut self) {
        for read in BlobOperationPlan::reads() {
            // A put finds and removes what others have staged, which must leave the contents of the blob.
            let put = BlobOperationPlan {
                kind: BlobChangeKind::Put { replaces: true, end: PutEnd::Discarded },
                blob: read.blob,
                is_large: true,
                ..self.transacting.draws.blob()
            };
            self.begin_blob_steps(0, vec![put, read], 8_000_000);
        }
    }

    /// Enters the places of writes and the versions of reads that only others have seen.
    pub(super) fn place_blob_writes(&mut self) {
        placement::place(&mut self.history);
    }
}

fn record_outcome(entry: &mut TransactionRecord, blob: u64, outcome: BlobOutcome) {
    entry.transaction.fate = TransactionFate::Committed;
    if let Some(actions) = outcome.actions {
        entry.transaction.actions = actions;
    }
    if let Some(life) = outcome.life {
        entry.lives = vec![(blob, life)];
    }
    entry.lives.extend(outcome.names);
    entry.failure =
        outcome.impossible.map(|what| TransactionFailure::Impossible(format!("blob {blob}: {what}")));
    entry.version = outcome.version;
    for action in &mut entry.transaction.actions {
        if let (CheckedAction::Write { key, version, .. }, Some(own)) = (action, outcome.version)
            && blob_of_header(*key).is_none()
        {
            *version = Some(own.0);
        }
    }
}

fn record_error(entry: &mut TransactionRecord, blob: u64, error: &Error, may_have_late_copy: bool) {
    if !matches!(error, Error::Blob { .. }) && !is_absent::<()>(&Err(error.clone())) {
        return fail_of(entry, error, may_have_late_copy);
    }
    let is_changing = !entry.transaction.actions.is_empty() || !entry.lives.is_empty();
    if may_have_late_copy && is_changing {
        entry.transaction.fate = TransactionFate::Unknown;
    } else if matches!(error, Error::Blob { why: BlobError::Absent, .. }) {
        entry.transaction.fate = TransactionFate::Committed;
        entry.transaction.actions.clear();
        entry.lives = vec![(blob, BlobLife::Absent)];
    } else {
        entry.transaction.fate = TransactionFate::Aborted;
    }
    let text = error.to_string();
    entry.failure = Some(match error {
        Error::Blob {
            why:
                BlobError::Absent | BlobError::Unfinished | BlobError::Contended | BlobError::ChangedMeanwhile,
            ..
        } => TransactionFailure::Conflict(text),
        Error::Blob { .. } => TransactionFailure::Impossible(text),
        _ => TransactionFailure::Conflict(text),
    });
}

/// The name under which a failure is counted.
fn case_of(error: &Error) -> Option<&'static str> {
    match error {
        Error::Blob { why: BlobError::Unfinished, .. } => Some("blobs: found unfinished"),
        Error::Blob { why: BlobError::Contended, .. } => Some("blobs: calls that others were faster than"),
        Error::Blob { why: BlobError::Absent, .. } => Some("blobs: found absent"),
        _ if error.is_conflict() => Some("blobs: writes of what has changed refused"),
        _ => None,
    }
}
