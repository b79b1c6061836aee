//! The clients' blob operations: the same items and transactions as `zerohop-client` sends, each
//! tried once.
//!
//! ```text
//!  header, unless it is cached ──> write, replacement, append, truncation, removal, creation:
//!        │                       │    one transaction of header and chunks
//!        │                       ├──> one chunk alone, under the generation that was seen
//!        │                       ├──> staged append: header ──> chunks behind the end ──> header
//!        │                       └──> chunks ──> confirmed ──> header again: a consistent read
//!        │                                          ├─ else by one transaction
//!        │                                          └──> transaction that depends on it all
//!        └── a writer first removes another client's staged append or unfinished truncation
//! ```
//!
//! For the checker of transactions a blob's header and each of its chunks are registers, and its tail is a list
//! (`workload/blobs.rs`).

use std::collections::BTreeMap;

use bytes::Bytes;
use zerohop_base::time::Time;
use zerohop_session::{Reply, SessionError, SessionRequest};
use zerohop_wire::ids::{KeyspaceId, Timestamp};
use zerohop_wire::{Failure, blob::BlobStamp};

use super::SimulatedCluster;
use super::running_transaction::fail;
use crate::cycles::{CheckedAction, TransactionFate};
use crate::transacted::{BlobLife, TransactionFailure, TransactionRecord};
use crate::workload::blobs::{
    BASE_BYTES, BASE_CHUNKS, BlobChangeKind, BlobContents, BlobOperationPlan, CHUNK_BITS, MARKED, MARKS_MAX,
    NUMBERS, RECORD_BYTES, RECORDS_MAX, chunk_id, header_id, mark_id, staged_bytes, tail_id,
};
use crate::workload::transactional::KEYSPACES;
use items::{HeaderChange, ReadHeader, chunk_in, contents, header_of, is_of_other, size_after};

#[path = "blobs/changes.rs"]
mod changes;
#[path = "blobs/filling.rs"]
mod filling;
#[path = "blobs/items.rs"]
pub(super) mod items;

/// Operations of a session with tokens from here on are blob operations, each with `PARTS` tokens.
pub(super) const BLOBS_FROM: usize = 1 << 41;
const PARTS: usize = 16;

/// The blob operations of all clients that have not ended.
#[derive(Debug, Default)]
pub(super) struct Blobs {
    open: BTreeMap<usize, OpenBlobOperation>,
    next: usize,
    /// The header of each blob as each client has last read it.
    known: BTreeMap<(usize, u64), ReadHeader>,
    /// Number of marks that were assigned, per edition and chunk.
    marks: BTreeMap<(u64, u64), u32>,
}

#[derive(Debug)]
struct OpenBlobOperation {
    client: usize,
    operation: BlobOperationPlan,
    keyspace: KeyspaceId,
    limit_us: u64,
    stage: BlobStage,
    /// Index of its entry in the history.
    at: usize,
    header: Option<ReadHeader>,
    /// Number of outstanding answers.
    waiting: usize,
    chunks_read: Vec<Option<ChunkRead>>,
    /// A chunk has changed since the header was read, so a transaction reads the blob.
    has_changed: bool,
    /// How often it has removed bytes behind the end for other clients.
    truncations_done: u32,
    may_have_late_copy: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BlobStage {
    /// Reads the header.
    Header,
    /// Sends the one request that changes something.
    Change(HeaderChange),
    /// Writes chunks behind the end: so many records.
    StagesChunks(u64),
    /// Truncates chunks behind the end.
    TruncatesChunks,
    /// Reads all chunks.
    ReadsChunks,
    /// Confirms the chunks that were read.
    Confirms,
    /// Reads the header once more.
    Again,
    /// Reads header and chunks in one transaction.
    Together,
}

/// A chunk that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ChunkRead {
    pub(super) version: Timestamp,
    pub(super) stamp: BlobStamp,
    pub(super) bytes: Bytes,
}

impl Blobs {
    pub(super) fn is_idle(&self) -> bool {
        self.open.is_empty()
    }

    /// A copy of a frame of this client may take effect later, whatever the client receives as
    /// answer.
    pub(super) fn haunt(&mut self, client: usize) {
        self.open
            .values_mut()
            .filter(|open| open.client == client)
            .for_each(|open| open.may_have_late_copy = true);
    }
}

impl SimulatedCluster {
    /// A client starts a blob operation.
    pub(super) fn begin_blob(&mut self, client: usize, plan: BlobOperationPlan, limit_us: u64) {
        let Some((keyspace, _)) = self.watch.map.keyspace_named(KEYSPACES[0]) else { return };
        let blobs = &mut self.blobs;
        let number = blobs.next;
        blobs.next += 1;
        let header = blobs.known.get(&(client, plan.blob)).filter(|_| plan.recalls).cloned();
        let open = OpenBlobOperation {
            client,
            operation: plan,
            keyspace,
            limit_us,
            stage: BlobStage::Header,
            at: 0,
            header: None,
            waiting: 0,
            chunks_read: Vec::new(),
            has_changed: false,
            truncations_done: 0,
            may_have_late_copy: false,
        };
        blobs.open.insert(number, open);
        self.trace.record(self.agenda.now(), format_args!("c{client} begins blob #{number}: {plan:?}"));
        match header {
            Some(header) => self.continue_blob(number, header),
            None => self.send_blob_requests(number, BlobStage::Header, Vec::new()),
        }
    }

    /// Sends the requests of a stage, with a new entry in the history or as part of the previous
    /// one.
    fn send_blob_requests(&mut self, number: usize, stage: BlobStage, actions: Vec<CheckedAction>) {
        let now = self.now();
        let Some(open) = self.blobs.open.get_mut(&number) else { return };
        let deadline = now.after_us(open.limit_us);
        let (client, header) = (open.client, open.header.as_ref());
        let blob = (open.keyspace, open.operation.blob);
        let requests: Vec<SessionRequest> = match (stage, header) {
            (BlobStage::Header | BlobStage::Again, _) => {
                vec![items::read_header_request(blob, open.limit_us)]
            }
            (BlobStage::Change(made), header) => {
                let seen = if matches!(made, HeaderChange::Rewrite | HeaderChange::TruncateTail(_)) {
                    open.versions()
                } else {
                    vec![]
                };
                vec![items::change(blob, header, (made, open.operation, &seen), open.limit_us)]
            }
            (BlobStage::StagesChunks(records), Some(header)) => items::stage_requests(
                blob,
                header,
                &staged_bytes(open.operation.records(records)),
                open.limit_us,
            ),
            (BlobStage::TruncatesChunks, Some(header)) => {
                items::truncate_requests(blob, header, open.limit_us)
            }
            // As a client reads a short blob in one request, or streams a long one.
            (BlobStage::ReadsChunks, Some(header)) if !number.is_multiple_of(3) => {
                vec![items::read_all_request(blob, header, open.limit_us)]
            }
            (BlobStage::ReadsChunks, Some(header)) => items::chunk_read_requests(blob, header, open.limit_us),
            (BlobStage::Confirms, Some(_)) => {
                items::confirms(blob, open.versions().into_iter(), open.limit_us)
            }
            (BlobStage::Together, Some(header)) => vec![items::read_together(blob, header, open.limit_us)],
            (_, None) => Vec::new(),
        };
        if matches!(stage, BlobStage::Confirms | BlobStage::Again) {
            let entry = &mut self.history.transactions[open.at];
            entry.deadline = entry.deadline.max(deadline);
        } else {
            open.at = self.history.transactions.len();
            self.history.transactions.push(TransactionRecord::begun(client, now, deadline, actions));
        }
        if let (BlobStage::Change(HeaderChange::Deletion | HeaderChange::Renewal), Some(header)) =
            (stage, header)
        {
            self.history.transactions[open.at]
                .lives
                .push((open.operation.blob, BlobLife::Ended(header.stamp.id)));
        }
        (open.stage, open.waiting) = (stage, requests.len());
        if stage == BlobStage::ReadsChunks {
            open.chunks_read = vec![None; header.map_or(0, |header| header.chunks() as usize)];
        }
        debug_assert!((1..=PARTS).contains(&requests.len()), "there is something to ask for");
        for (part, request) in requests.into_iter().enumerate() {
            self.clients[client].session.submit(now, request, BLOBS_FROM + number * PARTS + part);
        }
        let soon = self.streams.schedule.below(20);
        self.schedule_client(client, now.after_us(soon));
    }

    /// Goes on with a header that was read, or with a cached one.
    fn continue_blob(&mut self, number: usize, header: ReadHeader) {
        let Blobs { open, marks, .. } = &mut self.blobs;
        let Some(open) = open.get_mut(&number) else { return };
        let BlobOperationPlan { blob, value, kind, .. } = open.operation;
        let (size, edition) = (header.size, header.edition);
        if header.pending_truncation_end > 0
            && !matches!(kind, BlobChangeKind::Read { .. } | BlobChangeKind::Delete)
        {
            return self.complete_truncation(number, header);
        }
        let records = size.saturating_sub(BASE_BYTES) / RECORD_BYTES;
        let made = match kind {
            BlobChangeKind::Read { .. } | BlobChangeKind::ReadAndChange { .. } => {
                let together = matches!(kind, BlobChangeKind::Read { together: true }) || size == 0;
                open.header = Some(header);
                let stage = if together { BlobStage::Together } else { BlobStage::ReadsChunks };
                return self.send_blob_requests(number, stage, Vec::new());
            }
            BlobChangeKind::Delete => HeaderChange::Deletion,
            BlobChangeKind::Make => HeaderChange::Renewal,
            BlobChangeKind::Write => HeaderChange::Write,
            _ if size == 0 => HeaderChange::Write,
            BlobChangeKind::Replace => HeaderChange::Replacement,
            BlobChangeKind::Poke { chunk } => HeaderChange::Poke(chunk),
            BlobChangeKind::Share { amount, is_float } => HeaderChange::Share { amount, is_float },
            BlobChangeKind::Mark { chunk } => {
                let chunks = chunk.map_or(NUMBERS, |chunk| chunk..chunk + 1);
                let used = |chunk| marks.get(&(edition, chunk)).copied().unwrap_or(0);
                let mark = chunks.clone().map(used).max().unwrap_or(0);
                if mark < MARKS_MAX {
                    marks.extend(chunks.map(|chunk| ((edition, chunk), mark + 1)));
                    HeaderChange::Mark(chunk, mark)
                } else {
                    HeaderChange::Write
                }
            }
            BlobChangeKind::StageAppend { records: more } if records + more <= RECORDS_MAX => {
                HeaderChange::StageAppend(more)
            }
            BlobChangeKind::Append | BlobChangeKind::Truncate | BlobChangeKind::StageAppend { .. } => {
                match records {
                    0 => HeaderChange::Append,
                    records if kind == BlobChangeKind::Append && records < RECORDS_MAX => {
                        HeaderChange::Append
                    }
                    _ => HeaderChange::Truncate,
                }
            }
        };
        let register = |key| CheckedAction::Write { key, value, version: None };
        let changed = register(header_id(blob));
        let all = |edition| (0..BASE_CHUNKS).map(move |chunk| register(chunk_id(edition, chunk)));
        let marked =
            |chunk, mark| CheckedAction::Append { key: mark_id(edition, chunk, mark), value: MARKED };
        let actions = match made {
            HeaderChange::Write => all(edition).collect(),
            HeaderChange::Replacement => std::iter::once(changed).chain(all(value)).collect(),
            HeaderChange::Deletion => vec![header.seen(blob)],
            HeaderChange::Renewal => [header.seen(blob), changed].into_iter().chain(all(value)).collect(),
            HeaderChange::Poke(chunk) => vec![register(chunk_id(edition, chunk))],
            HeaderChange::Append => vec![CheckedAction::Append { key: tail_id(header.change), value }],
            HeaderChange::Truncate => vec![changed],
            HeaderChange::Mark(Some(chunk), mark) => vec![marked(chunk, mark)],
            HeaderChange::Mark(None, mark) => NUMBERS.map(|chunk| marked(chunk, mark)).collect(),
            _ => Vec::new(),
        };
        open.header = Some(header);
        self.send_blob_requests(number, BlobStage::Change(made), actions);
    }

    /// Handles one answer of a blob operation.
    pub(super) fn handle_blob_answer(&mut self, token: usize, result: Result<Reply, SessionError>) {
        let now = self.now();
        let (number, part) = ((token - BLOBS_FROM) / PARTS, (token - BLOBS_FROM) % PARTS);
        let Some(open) = self.blobs.open.get_mut(&number) else { return };
        let (client, plan, at, stage) = (open.client, open.operation, open.at, open.stage);
        open.waiting = open.waiting.saturating_sub(1);
        let entry = &mut self.history.transactions[at];
        let blob = plan.blob;
        if open.waiting == 0 || result.is_err() {
            entry.transaction.end = Some(now.0);
        }
        // The next step.
        let mut then = AnswerStep::End;
        match (stage, result) {
            (BlobStage::Header | BlobStage::Again, Ok(reply)) => match header_of(&reply) {
                Some(header) if stage == BlobStage::Header => {
                    entry.transaction.fate = TransactionFate::Committed;
                    entry.lives.push((blob, BlobLife::Seen(header.stamp.id)));
                    let (key, value, version) = (header_id(blob), header.change, header.order());
                    entry.transaction.actions.push(CheckedAction::Look { key, value, version });
                    then = AnswerStep::Continue(header);
                }
                Some(header) => match &open.header {
                    Some(was) if was.stamp == header.stamp && was.size == header.size => {
                        then = AnswerStep::Read(header)
                    }
                    _ => then = AnswerStep::ReadTogether(header),
                },
                None => entry.failure = Some(TransactionFailure::Impossible(format!("no header: {reply:?}"))),
            },
            (BlobStage::Header, Err(SessionError::Answer { failure: Failure::NotFound })) => {
                entry.transaction.fate = TransactionFate::Committed;
                entry.lives.push((blob, BlobLife::Absent));
                then = match plan.kind {
                    BlobChangeKind::Read { .. } | BlobChangeKind::Delete => AnswerStep::End,
                    BlobChangeKind::Make | BlobChangeKind::Write | BlobChangeKind::Replace => {
                        AnswerStep::Create(HeaderChange::Making)
                    }
                    _ => AnswerStep::Create(HeaderChange::Creation),
                };
            }
            (BlobStage::ReadsChunks, Ok(_) | Err(SessionError::Answer { failure: Failure::NotFound }))
                if open.has_changed =>
            {
                then = if open.waiting == 0 { AnswerStep::DropHeader } else { AnswerStep::Wait };
            }
            (BlobStage::ReadsChunks, Ok(Reply::UnconfirmedReads { answers, is_one_moment })) => {
                open.chunks_read =
                    answers.into_iter().map(|one| one.ok().as_ref().and_then(chunk_in)).collect();
                let stamp = open.header.as_ref().map(|header| header.stamp);
                let is_later = |looked: &ChunkRead| stamp.is_none_or(|stamp| looked.stamp > stamp);
                open.has_changed = open.chunks_read.iter().flatten().any(is_later);
                if is_one_moment {
                    self.coverage.blob("blobs: reads held");
                }
                then = match (open.has_changed, is_one_moment) {
                    (true, _) => AnswerStep::DropHeader,
                    (false, true) => AnswerStep::RereadChunks,
                    (false, false) => AnswerStep::Confirm,
                };
            }
            (BlobStage::ReadsChunks, Ok(reply)) => {
                let looked = chunk_in(&reply);
                open.has_changed |= open
                    .header
                    .as_ref()
                    .zip(looked.as_ref())
                    .is_none_or(|(header, looked)| looked.stamp > header.stamp);
                open.chunks_read[part] = looked;
                then = match (open.waiting, open.has_changed) {
                    (0, true) => AnswerStep::DropHeader,
                    (0, false) => AnswerStep::Confirm,
                    _ => AnswerStep::Wait,
                };
            }
            (BlobStage::ReadsChunks, Err(SessionError::Answer { failure: Failure::NotFound })) => {
                then = if open.waiting == 0 { AnswerStep::Confirm } else { AnswerStep::Wait };
            }
            (BlobStage::Confirms, Ok(reply)) => {
                open.has_changed |= !matches!(reply, Reply::Done { number: 1, .. });
                then = match (open.waiting, open.has_changed) {
                    (0, true) => AnswerStep::ReadAgain,
                    (0, false) => AnswerStep::RereadChunks,
                    _ => AnswerStep::Wait,
                };
            }
            (BlobStage::Together, Ok(Reply::Transacted { answers, .. })) => {
                let mut answers = answers.into_iter();
                let header = match answers.next() {
                    Some(Ok(reply)) => header_of(&reply),
                    Some(Err(Failure::NotFound)) => {
                        entry.transaction.fate = TransactionFate::Committed;
                        entry.lives.push((blob, BlobLife::Absent));
                        None
                    }
                    other => {
                        entry.failure = Some(TransactionFailure::Impossible(format!("no header: {other:?}")));
                        None
                    }
                };
                open.chunks_read = answers.map(|one| one.ok().as_ref().and_then(chunk_in)).collect();
                let is_same = |header: &ReadHeader| {
                    open.header
                        .as_ref()
                        .is_some_and(|was| was.stamp == header.stamp && was.size == header.size)
                };
                then = match header {
                    Some(header) if is_same(&header) => AnswerStep::Read(header),
                    _ => AnswerStep::DropHeader,
                };
            }
            (BlobStage::Change(made), Ok(reply)) => {
                let is_done = open.blob_changed(entry, made, &reply);
                if is_done {
                    self.coverage.blob(made.name());
                }
                then = match made {
                    HeaderChange::StageAppend(records) if is_done => AnswerStep::StageAppend(records),
                    HeaderChange::RemoveStaged | HeaderChange::Settling => AnswerStep::Again,
                    _ => AnswerStep::DropHeader,
                };
            }
            // Another client has removed what is behind the end.
            (
                BlobStage::Change(HeaderChange::RemoveStaged | HeaderChange::Settling),
                Err(SessionError::Answer { failure }),
            ) if is_of_other(&failure) => {
                entry.transaction.fate = TransactionFate::Aborted;
                then = AnswerStep::Again;
            }
            (
                BlobStage::TruncatesChunks,
                Ok(_) | Err(SessionError::Answer { failure: Failure::StaleBlob { .. } }),
            ) => {
                entry.transaction.fate = TransactionFate::Committed;
                then = if open.waiting == 0 { AnswerStep::CompleteTruncation } else { AnswerStep::Wait };
            }
            (BlobStage::StagesChunks(records), Ok(_)) => {
                entry.transaction.fate = TransactionFate::Committed;
                then = if open.waiting == 0 { AnswerStep::Publish(records) } else { AnswerStep::Wait };
            }
            (_, Err(error)) => {
                if matches!(error, SessionError::Answer { failure: Failure::StaleBlob { .. } }) {
                    self.coverage.blob("blobs: generations refused");
                }
                if matches!(stage, BlobStage::Change(HeaderChange::Rewrite | HeaderChange::TruncateTail(_)))
                    && matches!(error, SessionError::Aborted { .. })
                {
                    self.coverage.blob("blobs: writes of what has changed refused");
                }
                fail(entry, &error, open.may_have_late_copy);
                then = AnswerStep::DropHeader;
            }
            (_, Ok(other)) => entry.failure = Some(TransactionFailure::Impossible(format!("{other:?}"))),
        }
        if let AnswerStep::Wait = then {
            return;
        }
        if let AnswerStep::Read(header) = &then {
            match open.contents(header).actions() {
                Ok(actions) => {
                    entry.transaction.fate = TransactionFate::Committed;
                    entry.transaction.actions = actions;
                    entry.lives.push((blob, BlobLife::Seen(header.stamp.id)));
                    self.coverage.blob(if stage == BlobStage::Again {
                        "blobs: reads confirmed"
                    } else {
                        "blobs: reads in transactions"
                    });
                }
                Err(what) => {
                    entry.failure = Some(TransactionFailure::Impossible(format!("blob {blob}: {what}")))
                }
            }
        }
        if matches!(then, AnswerStep::ReadTogether(_) | AnswerStep::ReadAgain) {
            self.coverage.blob("blobs: reads changed meanwhile");
        }
        self.coverage.operations += u64::from(entry.transaction.fate == TransactionFate::Committed);
        if entry.transaction.end.is_some() {
            self.trace.record(now, format_args!("blob #{number} {stage:?} ends as {entry}"));
        }
        match then {
            AnswerStep::Continue(header) | AnswerStep::ReadTogether(header) => {
                self.blobs.known.insert((client, blob), header.clone());
                if stage == BlobStage::Again {
                    return self.blob_reads_together(number, header);
                }
                return self.continue_blob(number, header);
            }
            AnswerStep::Create(made) => return self.create_blob(number, made),
            AnswerStep::Confirm => return self.send_blob_requests(number, BlobStage::Confirms, Vec::new()),
            AnswerStep::RereadChunks => {
                return self.send_blob_requests(number, BlobStage::Again, Vec::new());
            }
            AnswerStep::ReadAgain => {
                if let Some(header) = self.blobs.open.get(&number).and_then(|open| open.header.clone()) {
                    return self.blob_reads_together(number, header);
                }
            }
            AnswerStep::Read(header)
                if matches!(plan.kind, BlobChangeKind::ReadAndChange { .. }) && header.size > 0 =>
            {
                self.blobs.known.insert((client, blob), header.clone());
                return self.change_whole_blob(number, header);
            }
            AnswerStep::Read(header) => drop(self.blobs.known.insert((client, blob), header)),
            AnswerStep::StageAppend(records) => {
                return self.send_blob_requests(number, BlobStage::StagesChunks(records), Vec::new());
            }
            AnswerStep::Publish(records) => return self.publish_blob(number, records),
            AnswerStep::CompleteTruncation => {
                return self.send_blob_requests(
                    number,
                    BlobStage::Change(HeaderChange::Settling),
                    Vec::new(),
                );
            }
            AnswerStep::Again => {
                self.blobs.known.remove(&(client, blob));
                return self.send_blob_requests(number, BlobStage::Header, Vec::new());
            }
            // Now and then a writer keeps its cached header when no answer has given it a newer
            // one.
            AnswerStep::DropHeader
                if !matches!(stage, BlobStage::Change(_)) || self.streams.workload.chance(1, 2) =>
            {
                self.blobs.known.remove(&(client, blob));
            }
            AnswerStep::DropHeader | AnswerStep::End | AnswerStep::Wait => {}
        }
        self.blobs.open.remove(&number);
        let life = self.clients[client].life;
        self.call_again(client, life);
    }

    fn blob_reads_together(&mut self, number: usize, header: ReadHeader) {
        if let Some(open) = self.blobs.open.get_mut(&number) {
            // A read that was begun by other means observes nothing.
            self.history.transactions[open.at].transaction.fate = TransactionFate::Aborted;
            open.header = Some(header);
        }
        self.send_blob_requests(number, BlobStage::Together, Vec::new());
    }

    /// A client dies; its operations may or may not have taken effect.
    pub(super) fn drop_blob_operations(&mut self, client: usize) {
        let Blobs { open, known, .. } = &mut self.blobs;
        known.retain(|(owner, _), _| *owner != client);
        open.retain(|_, open| {
            if open.client == client {
                let entry = &mut self.history.transactions[open.at];
                entry.is_left |= entry.transaction.end.is_none();
            }
            open.client != client
        });
    }

    /// A client is paused until then and handles no deadline.
    pub(super) fn pause_blobs(&mut self, client: usize, until: Time) {
        for open in self.blobs.open.values().filter(|open| open.client == client) {
            let entry = &mut self.history.transactions[open.at];
            entry.deadline = entry.deadline.max(until);
        }
    }

    /// Every blob is read once more.
    pub(super) fn read_all_blobs(&mut self) {
        for plan in BlobOperationPlan::reads() {
            self.begin_blob(0, plan, 8_000_000);
        }
    }
}

/// The next step after an answer.
enum AnswerStep {
    Wait,
    End,
    /// The same, and the cached header may be stale.
    DropHeader,
    Continue(ReadHeader),
    /// Creates the blob, empty or with contents.
    Create(HeaderChange),
    Confirm,
    RereadChunks,
    /// Reads the blob again in a transaction.
    ReadAgain,
    ReadTogether(ReadHeader),
    Read(ReadHeader),
    /// Writes so many records behind the end.
    StageAppend(u64),
    Publish(u64),
    CompleteTruncation,
    /// Starts again with the header.
    Again,
}

impl OpenBlobOperation {
    /// The contents that were read.
    fn contents(&self, header: &ReadHeader) -> BlobContents<'_> {
        contents(self.operation.blob, header, &self.chunks_read)
    }

    /// The versions of the chunks that were read; zero for an absent chunk.
    fn versions(&self) -> Vec<Timestamp> {
        self.chunks_read.iter().map(|one| one.as_ref().map_or(Timestamp::ZERO, |one| one.version)).collect()
    }
}

const _: () =
    assert!((size_after(RECORDS_MAX) >> CHUNK_BITS) < PARTS as u64, "every chunk has a token of its own");
