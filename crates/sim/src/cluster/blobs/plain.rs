//! The plain blob. A task makes some calls of `crates/session/src/procedures/blob` on it that are not transactions of a
//! client. Each call has a handle of its own, so that it begins with the present header.
//!
//! ```text
//!   create, set attributes, truncate, write, stat, read, remove ──> an entry of the history each
//!   remove in steps ──> sometimes its client is gone amid: the blob may stay, empty
//!   truncate in steps, in some runs ──> sometimes its client is gone amid: the next writer does the rest
//! ```

use std::collections::{BTreeMap, VecDeque};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use zerohop_session::procedures::{Blob, BlobError, BlobLimits, ClusterHandle, Error, ProcedureSettings};
use zerohop_wire::Failure;

use super::super::SimulatedCluster;
use super::task::is_absent;
use crate::plain_blobs::{
    PLAIN_CHUNK_BYTES, PLAIN_CHUNKS, PlainBlobAct, PlainBlobCall, PlainBlobEnd, PlainBlobReply,
};
use crate::streams::Draw;
use crate::workload::blobs::number_of;
use crate::workload::plain_blobs::{PLAIN_CHUNK_BITS, PLAIN_NAME, PlainBlobPlan};
use crate::workload::tokens::{TOKEN_BYTES, token};
use crate::workload::transactional::KEYSPACES;

/// Calls of one operation, at most.
const CALLS_MAX: u64 = 5;

/// A client with these limits removes two chunks of the blob in steps.
const IN_STEPS: BlobLimits =
    BlobLimits { ahead_bytes: 6_000, put_bytes: 9_000, replaced_bytes: 9_000, transaction_chunks: 1 };

/// The calls on the plain blob that have not ended.
#[derive(Debug, Default)]
pub(super) struct PlainBlobs {
    open: BTreeMap<usize, OpenPlainCalls>,
    next: usize,
    reports: Arc<Mutex<VecDeque<(usize, PlainBlobReport)>>>,
}

#[derive(Debug)]
struct OpenPlainCalls {
    client: usize,
    /// Index in the history of the present call.
    entry: Option<usize>,
    may_have_late_copy: bool,
    must_end: bool,
}

/// What the task reports.
#[derive(Debug)]
enum PlainBlobReport {
    Calls(PlainBlobAct),
    /// `None`: its client is gone.
    Ended(Option<Result<PlainBlobReply, PlainBlobFailure>>),
    Over,
}

/// Why a call has no answer.
#[derive(Debug)]
enum PlainBlobFailure {
    Call(Error),
    /// The bytes are of no client.
    Bytes(String),
}

impl From<Error> for PlainBlobFailure {
    fn from(error: Error) -> PlainBlobFailure {
        PlainBlobFailure::Call(error)
    }
}

impl PlainBlobs {
    pub(super) fn is_idle(&self) -> bool {
        self.open.is_empty()
    }

    /// As [`super::Blobs::mark_may_repeat`].
    pub(super) fn mark_may_repeat(&mut self, client: usize) {
        let own = self.open.values_mut().filter(|open| open.client == client);
        own.for_each(|open| open.may_have_late_copy = true);
    }

    /// A client dies; its calls may or may not have taken effect.
    pub(super) fn drop_of(&mut self, client: usize) {
        self.open.retain(|_, open| open.client != client);
    }
}

/// The calls on the plain blob, while a client begins some or has a turn.
pub(in crate::cluster) struct PlainBlobRun<'w> {
    pub(in crate::cluster) world: &'w mut SimulatedCluster,
}

impl PlainBlobRun<'_> {
    /// A client makes some calls on the plain blob.
    pub(in crate::cluster) fn begin(&mut self, client: usize, limit_us: u64) {
        let calls = self.world.transacting.draws.random().between(2, CALLS_MAX);
        let plans = (0..calls).map(|_| self.world.transacting.draws.plain_blob()).collect();
        self.begin_calls(client, plans, (limit_us, false));
    }

    /// The plain blob is read once more. It can also be written: nothing that a client has left amid prevents that.
    pub(in crate::cluster) fn read_last(&mut self) {
        let size = PLAIN_CHUNKS as u64 * PLAIN_CHUNK_BYTES;
        let acts = [
            PlainBlobAct::Stat,
            PlainBlobAct::Read,
            PlainBlobAct::Truncate { size, in_steps: false },
            PlainBlobAct::Read,
        ];
        let plans = acts.map(|act| PlainBlobPlan { act, cut_short: None }).to_vec();
        self.begin_calls(0, plans, (8_000_000, true));
    }

    fn begin_calls(&mut self, client: usize, plans: Vec<PlainBlobPlan>, (limit_us, must_end): (u64, bool)) {
        let (now, number) = (self.world.now(), self.world.blobs.plain.next);
        self.world.blobs.plain.next += 1;
        self.world.trace.record(now, format_args!("c{client} begins plain blob #{number}: {plans:?}"));
        let open = OpenPlainCalls { client, entry: None, may_have_late_copy: false, must_end };
        self.world.blobs.plain.open.insert(number, open);
        let reports = Arc::clone(&self.world.blobs.plain.reports);
        let report =
            move |what| reports.lock().unwrap_or_else(PoisonError::into_inner).push_back((number, what));
        let procedures = &mut self.world.clients[client].procedures;
        let settings = ProcedureSettings::new(Duration::from_micros(limit_us));
        let handles = (
            procedures.handle(settings),
            procedures.handle(ProcedureSettings { blobs: IN_STEPS, ..settings }),
        );
        procedures.start(run_plain_blob(handles, plans, report));
        let soon = self.world.streams.schedule.below(20);
        self.world.schedule_client(client, now.after_us(soon));
    }

    /// Adds what the tasks have reported in this turn of a client to the history.
    pub(in crate::cluster) fn handle_reports(&mut self) {
        loop {
            let report =
                self.world.blobs.plain.reports.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            let Some((number, report)) = report else { return };
            self.handle_report(number, report);
        }
    }

    fn handle_report(&mut self, number: usize, report: PlainBlobReport) {
        let now = self.world.now();
        let keyspace = self.world.transactional().map(|both| both[0]);
        let (Some(open), Some(keyspace)) = (self.world.blobs.plain.open.get_mut(&number), keyspace) else {
            return;
        };
        let client = open.client;
        match report {
            PlainBlobReport::Calls(act) => {
                open.entry = Some(self.world.history.plain_blobs.len());
                open.may_have_late_copy = false;
                self.world.history.plain_blobs.push(PlainBlobCall {
                    client,
                    keyspace,
                    act,
                    invoked: now,
                    returned: None,
                    end: PlainBlobEnd::Open,
                    must_end: open.must_end,
                });
            }
            PlainBlobReport::Ended(result) => {
                let Some(at) = open.entry.take() else { return };
                let entry = &mut self.world.history.plain_blobs[at];
                entry.returned = Some(now);
                entry.end = end_of(entry.act, result, open.may_have_late_copy);
                self.world.coverage.blob(case_of(entry));
                self.world.coverage.operations += u64::from(matches!(entry.end, PlainBlobEnd::Answered(_)));
                self.world.trace.record(now, format_args!("plain blob #{number} ends as {entry}"));
            }
            PlainBlobReport::Over => {
                self.world.blobs.plain.open.remove(&number);
                let life = self.world.clients[client].life;
                self.world.call_again(client, life);
            }
        }
    }
}

/// The end that a result means; `None`: the client is gone.
fn end_of(
    act: PlainBlobAct,
    result: Option<Result<PlainBlobReply, PlainBlobFailure>>,
    may_have_late_copy: bool,
) -> PlainBlobEnd {
    let error = match result {
        None => return PlainBlobEnd::Unknown,
        Some(Ok(reply)) => return PlainBlobEnd::Answered(reply),
        Some(Err(PlainBlobFailure::Bytes(what))) => return PlainBlobEnd::Impossible(what),
        Some(Err(PlainBlobFailure::Call(error))) => error,
    };
    // What is in steps and fails may have made the first of them.
    let may_be_done = act.is_write() && (error.is_unknown() || may_have_late_copy || act.is_in_steps());
    match &error {
        _ if may_be_done => PlainBlobEnd::Unknown,
        error if matches!(error.failure(), Some(Failure::ClockAhead { .. })) => PlainBlobEnd::ClockAhead,
        Error::Blob { why: BlobError::Contended, .. } | Error::Operation { .. } => {
            PlainBlobEnd::NotDone(error.to_string())
        }
        _ => PlainBlobEnd::Impossible(error.to_string()),
    }
}

/// The name under which a call is counted.
fn case_of(call: &PlainBlobCall) -> &'static str {
    match (call.act, &call.end) {
        (PlainBlobAct::Remove { in_steps: true }, PlainBlobEnd::Unknown) => "plain blobs: removals cut short",
        (PlainBlobAct::Truncate { in_steps: true, .. }, PlainBlobEnd::Unknown) => {
            "plain blobs: truncations cut short"
        }
        (_, PlainBlobEnd::Answered(PlainBlobReply::Absent)) => "plain blobs: found absent",
        (_, PlainBlobEnd::Answered(PlainBlobReply::Exists)) => "plain blobs: creations refused",
        (act, PlainBlobEnd::Answered(_)) => match act {
            PlainBlobAct::Create { .. } => "plain blobs: creations",
            PlainBlobAct::Describe { .. } => "plain blobs: attributes set",
            PlainBlobAct::Truncate { in_steps: false, .. } => "plain blobs: truncations",
            PlainBlobAct::Truncate { in_steps: true, .. } => "plain blobs: truncations in steps",
            PlainBlobAct::Write { .. } => "plain blobs: writes",
            PlainBlobAct::Stat => "plain blobs: attributes read",
            PlainBlobAct::Read => "plain blobs: reads",
            PlainBlobAct::Remove { in_steps: false } => "plain blobs: removals",
            PlainBlobAct::Remove { in_steps: true } => "plain blobs: removals in steps",
        },
        _ => "plain blobs: calls that failed",
    }
}

/// Makes the calls, one after the other. The second handle is that of a client that removes and truncates in steps.
async fn run_plain_blob(
    (handle, in_steps): (ClusterHandle, ClusterHandle),
    plans: Vec<PlainBlobPlan>,
    report: impl Fn(PlainBlobReport),
) {
    let keyspaces = (handle.keyspace(KEYSPACES[0]).await, in_steps.keyspace(KEYSPACES[0]).await);
    let (Ok(keyspace), Ok(stepwise)) = keyspaces else { return report(PlainBlobReport::Over) };
    for PlainBlobPlan { act, cut_short } in plans {
        let blob = if act.is_in_steps() { stepwise.blob(PLAIN_NAME) } else { keyspace.blob(PLAIN_NAME) };
        report(PlainBlobReport::Calls(act));
        let result = match cut_short {
            None => Some(call(&blob, act).await),
            Some(after) => ends_by(call(&blob, act), handle.sleep(after)).await,
        };
        let is_missing = matches!(result, Some(Ok(PlainBlobReply::Absent)));
        report(PlainBlobReport::Ended(result));
        // Without a blob, most calls show nothing.
        if let PlainBlobAct::Describe { value } | PlainBlobAct::Write { value, .. } = act
            && is_missing
        {
            let act = PlainBlobAct::Create { value };
            report(PlainBlobReport::Calls(act));
            let result = call(&keyspace.blob(PLAIN_NAME), act).await;
            report(PlainBlobReport::Ended(Some(result)));
        }
    }
    report(PlainBlobReport::Over);
}

/// The result of a call, unless its client is gone before.
async fn ends_by<T>(call: impl Future<Output = T>, gone: impl Future<Output = ()>) -> Option<T> {
    let (mut call, mut gone) = (pin!(call), pin!(gone));
    std::future::poll_fn(move |cx| {
        if let Poll::Ready(result) = call.as_mut().poll(cx) {
            return Poll::Ready(Some(result));
        }
        gone.as_mut().poll(cx).map(|()| None)
    })
    .await
}

async fn call(blob: &Blob<'_>, act: PlainBlobAct) -> Result<PlainBlobReply, PlainBlobFailure> {
    let result = match act {
        PlainBlobAct::Create { value } => blob.create_with(PLAIN_CHUNK_BITS, &token(value)).await.map(drop),
        PlainBlobAct::Describe { value } => blob.set_attributes(&token(value)).await,
        PlainBlobAct::Truncate { size, .. } => blob.truncate(size).await,
        PlainBlobAct::Write { chunk, value } => {
            blob.write_at(chunk as u64 * PLAIN_CHUNK_BYTES, &token(value)).await
        }
        PlainBlobAct::Stat => {
            let Some(info) = blob.stat().await? else { return Ok(PlainBlobReply::Absent) };
            let attributes = number_of(&info.attributes)
                .ok_or_else(|| PlainBlobFailure::Bytes(format!("no client writes {info:?}")))?;
            return Ok(PlainBlobReply::Header { attributes, size: info.size });
        }
        PlainBlobAct::Read => match blob.read_with_version(0, u64::MAX).await {
            Ok((bytes, _)) => return contents(&bytes),
            Err(error) => Err(error),
        },
        PlainBlobAct::Remove { .. } => match blob.delete().await? {
            true => Ok(()),
            false => return Ok(PlainBlobReply::Absent),
        },
    };
    match result {
        Ok(()) => Ok(PlainBlobReply::Done),
        result if is_absent(&result) => Ok(PlainBlobReply::Absent),
        Err(error) => match (act, error.failure()) {
            (PlainBlobAct::Create { .. }, Some(Failure::ConditionFailed { .. })) => {
                Ok(PlainBlobReply::Exists)
            }
            _ => Err(error.into()),
        },
    }
}

/// The size, and the value of each chunk.
fn contents(bytes: &Bytes) -> Result<PlainBlobReply, PlainBlobFailure> {
    let strange = |chunk: usize| PlainBlobFailure::Bytes(format!("no client has written chunk {chunk}"));
    let mut chunks = [0; PLAIN_CHUNKS];
    for (number, chunk) in bytes.chunks(PLAIN_CHUNK_BYTES as usize).enumerate() {
        let value =
            chunk.split_at_checked(TOKEN_BYTES).filter(|(_, rest)| rest.iter().all(|byte| *byte == 0));
        let (value, _) = value.ok_or_else(|| strange(number))?;
        if value.iter().any(|byte| *byte != 0) {
            *chunks.get_mut(number).ok_or_else(|| strange(number))? =
                number_of(value).ok_or_else(|| strange(number))?;
        }
    }
    Ok(PlainBlobReply::Contents { size: bytes.len() as u64, chunks })
}
