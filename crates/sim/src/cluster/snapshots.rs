//! The clients' snapshots: opened over both keyspaces of transactions, read many times while others
//! write, renewed or left to expire.
//!
//! ```text
//!   open, at every partition ──> the highest floor is its time ──> renew, at every partition: open
//!     ──> rest ──> reads of records, a blob, a bank; mostly a renewal ──> rest ──> ... ──> close
//! ```

use std::collections::BTreeMap;

use zerohop_base::random::Random;
use zerohop_base::time::Time;
use zerohop_placement::PartitionCount;
use zerohop_session::{Reply, SessionError, SessionRequest};
use zerohop_wire::Failure;
use zerohop_wire::ids::{InstanceId, KeyspaceId, PartitionId, SnapshotId, Timestamp};
use zerohop_wire::messages::{Query, RecordRead, SnapshotAsk};

use super::blobs::ChunkRead;
use super::blobs::items::contents;
use super::blobs::items::{ReadHeader, WHOLE_CHUNK, chunk_in, header_of, key_of_chunk, key_of_header};
use super::running_transaction::fail;
use super::transaction_reads::{ReadResult, got, read_of};
use super::{ClusterEvent, ClusterPhase, SimulatedCluster};
use crate::cycles::TransactionFate;
use crate::snapshots::{SnapshotHistory, SnapshotRead, SnapshotRecord};
use crate::streams::Draw;
use crate::transacted::TransactionRecord;
use crate::workload::blobs::{any, header_id};
use crate::workload::transactional::{ClassedKey, KeyClass};

const MS: u64 = 1_000;

/// Operations of a session with tokens from here on are snapshots, each with `PARTS` tokens.
pub(super) const SNAPSHOTS_FROM: usize = 1 << 42;
const PARTS: usize = 4_096;

/// The highest number of open snapshots: more than one, so that one keeps versions that another
/// does not need.
const OPEN_MAX: usize = 4;

/// The time limit of each of its requests.
const LIMIT_US: u64 = 4_000 * MS;

/// The longest time for which one stays open.
const AGE_MS: u64 = 30_000;

/// The snapshots of all clients that have not ended.
#[derive(Debug)]
pub(super) struct Snapshots {
    random: Random,
    open: BTreeMap<usize, RunningSnapshot>,
    next: usize,
}

#[derive(Debug)]
struct RunningSnapshot {
    client: usize,
    id: SnapshotId,
    keyspaces: [(KeyspaceId, PartitionCount); 2],
    stage: SnapshotStage,
    /// The highest floor so far, which becomes its timestamp.
    at: Timestamp,
    lease_ms: u32,
    is_renewed: bool,
    /// Rounds of reads that are still to come.
    rounds: u64,
    /// The questions, by token; and the number of outstanding answers.
    questions: Vec<SnapshotQuestion>,
    waiting: usize,
    /// Index in the history of its opening; and of its reads.
    entry: usize,
    seen: Option<usize>,
    /// Blobs whose chunks are being read.
    blobs: BTreeMap<u64, Blob>,
    /// The instance that answered first for each record.
    primaries: BTreeMap<u64, Option<InstanceId>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SnapshotStage {
    Opening,
    /// A renewal at every partition, after which no clock is behind its timestamp.
    Fixing,
    Reading,
    Closing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SnapshotQuestion {
    /// Opens, renews or closes the snapshot itself.
    Mark,
    Record(ClassedKey),
    Header(u64),
    Chunk(u64, usize),
}

#[derive(Debug)]
struct Blob {
    header: ReadHeader,
    chunks_read: Vec<Option<ChunkRead>>,
    left: usize,
}

impl Snapshots {
    pub(super) fn new(random: Random) -> Snapshots {
        Snapshots { random, open: BTreeMap::new(), next: 0 }
    }
}

impl SimulatedCluster {
    /// A client opens a snapshot beside its other work.
    pub(super) fn begin_snapshot(&mut self, client: usize) {
        let Some(both) = self.transactional() else { return };
        let now = self.now();
        let counted = both.map(|id| self.watch.map.keyspace(id).map(|known| (id, known.config().partitions)));
        let [Some(one), Some(other)] = counted else { return };
        let Snapshots { random, open, next } = &mut self.snapshots;
        if open.len() >= OPEN_MAX {
            return;
        }
        let number = *next;
        *next += 1;
        let id = SnapshotId(u128::from(random.next_u64()) << 64 | u128::from(random.next_u64()));
        let snapshot = RunningSnapshot {
            client,
            id,
            keyspaces: [one, other],
            stage: SnapshotStage::Opening,
            at: Timestamp::ZERO,
            lease_ms: random.between(1_500, 8_000) as u32,
            is_renewed: random.chance(2, 3),
            rounds: random.between(3, 7),
            questions: Vec::new(),
            waiting: 0,
            entry: self.history.transactions.len(),
            seen: None,
            blobs: BTreeMap::new(),
            primaries: BTreeMap::new(),
        };
        self.trace.record(now, format_args!("c{client} opens snapshot #{number}"));
        let lease_ms = snapshot.lease_ms;
        open.insert(number, snapshot);
        self.history.transactions.push(TransactionRecord::begun(
            client,
            now,
            now.after_us(LIMIT_US),
            Vec::new(),
        ));
        self.query_all_partitions(
            number,
            SnapshotStage::Opening,
            SnapshotAsk::Open { lease_ms, age_ms: AGE_MS },
        );
    }

    /// Sends a request to every partition.
    fn query_all_partitions(&mut self, number: usize, stage: SnapshotStage, ask: SnapshotAsk<'_>) {
        let now = self.now();
        let Some(open) = self.snapshots.open.get_mut(&number) else { return };
        open.stage = stage;
        let client = open.client;
        for (keyspace, partitions) in open.keyspaces {
            for partition in 0..partitions.get() {
                let slice = (PartitionId(partition), partitions);
                let request = SessionRequest::snapshot(keyspace, slice, (open.id, ask), LIMIT_US);
                let token = open.next_token(number, SnapshotQuestion::Mark);
                self.clients[client].session.submit(now, request.expect("is within bounds"), token);
            }
        }
        let soon = self.streams.schedule.below(20);
        self.schedule_client(client, now.after_us(soon));
    }

    /// Reads from it, or closes it.
    pub(super) fn snapshot(&mut self, number: usize) {
        let now = self.now();
        let Some(open) = self.snapshots.open.get_mut(&number) else { return };
        let paused_until = self.clients[open.client].paused_until;
        if now < paused_until {
            return self.agenda.at(paused_until, ClusterEvent::Snapshot(number));
        }
        (open.questions, open.waiting) = (Vec::new(), 0);
        if open.rounds == 0 || self.phase >= ClusterPhase::Quiet {
            return self.query_all_partitions(number, SnapshotStage::Closing, SnapshotAsk::Close);
        }
        open.rounds -= 1;
        let random = &mut self.snapshots.random;
        let mut wanted: Vec<SnapshotQuestion> = Vec::new();
        let classes: &[KeyClass] = match random.below(4) {
            0 => &[KeyClass::Account],
            1 => &[KeyClass::Cell],
            2 => &[KeyClass::List],
            _ => &[KeyClass::Register, KeyClass::List],
        };
        wanted.extend(classes.iter().flat_map(|class| ClassedKey::all(*class)).map(SnapshotQuestion::Record));
        wanted.push(SnapshotQuestion::Header(any(random)));
        let (lease_ms, renews) = (open.lease_ms, open.is_renewed);
        for asked in wanted {
            self.read_in_snapshot(number, asked);
        }
        if renews {
            self.query_all_partitions(number, SnapshotStage::Reading, SnapshotAsk::Renew { lease_ms });
        }
    }

    fn read_in_snapshot(&mut self, number: usize, asked: SnapshotQuestion) {
        let now = self.now();
        let Some(open) = self.snapshots.open.get_mut(&number) else { return };
        let (client, [(first, _), (second, _)]) = (open.client, open.keyspaces);
        let (keyspace, key, query) = match asked {
            SnapshotQuestion::Record(key) => ([first, second][key.keyspace], key.bytes(), Query::Lookup),
            SnapshotQuestion::Header(blob) => (first, key_of_header(blob), Query::Lookup),
            SnapshotQuestion::Chunk(blob, chunk) => (first, key_of_chunk(blob, chunk as u64), WHOLE_CHUNK),
            SnapshotQuestion::Mark => return,
        };
        open.stage = SnapshotStage::Reading;
        let read = RecordRead { key: &key, query };
        let request = SessionRequest::read_at(keyspace, (open.id, open.at), &read, LIMIT_US);
        let token = open.next_token(number, asked);
        self.clients[client].session.submit(now, request.expect("is within bounds"), token);
        let soon = self.streams.schedule.below(20);
        self.schedule_client(client, now.after_us(soon));
    }

    /// Handles one answer about a snapshot.
    pub(super) fn handle_snapshot_answer(&mut self, token: usize, result: Result<Reply, SessionError>) {
        let now = self.now();
        let (number, part) = ((token - SNAPSHOTS_FROM) / PARTS, (token - SNAPSHOTS_FROM) % PARTS);
        let Some(open) = self.snapshots.open.get_mut(&number) else { return };
        // Answers of an earlier round are ignored.
        let Some(asked) = open.questions.get(part).copied() else { return };
        open.waiting = open.waiting.saturating_sub(1);
        let entry = &mut self.history.transactions[open.entry];
        match (&result, asked, open.stage) {
            (Ok(Reply::Done { version, .. }), SnapshotQuestion::Mark, stage) => {
                if stage == SnapshotStage::Opening {
                    open.at = open.at.max(*version);
                }
            }
            (Err(error), _, SnapshotStage::Opening | SnapshotStage::Fixing) => {
                // Partitions where it was opened release it when the lease expires.
                entry.transaction.end = Some(now.0);
                fail(entry, error, false);
                if matches!(error, SessionError::Split { .. }) {
                    entry.failure = None;
                }
                self.coverage.blob("snapshots not opened");
                self.snapshots.open.remove(&number);
                return;
            }
            (
                Err(SessionError::Answer { failure: Failure::SnapshotExpired } | SessionError::Split { .. }),
                ..,
            ) => {
                self.coverage.blob("snapshots expired");
                self.trace.record(now, format_args!("snapshot #{number} has expired"));
                self.snapshots.open.remove(&number);
                return;
            }
            (_, SnapshotQuestion::Mark, _) => {}
            (_, asked, _) => self.snapshot_read(number, asked, result),
        }
        let Some(open) = self.snapshots.open.get_mut(&number).filter(|open| open.waiting == 0) else {
            return;
        };
        match open.stage {
            SnapshotStage::Opening => {
                let entry = &mut self.history.transactions[open.entry];
                entry.deadline = entry.deadline.max(now.after_us(LIMIT_US));
                let lease_ms = open.lease_ms;
                self.query_all_partitions(number, SnapshotStage::Fixing, SnapshotAsk::Renew { lease_ms });
            }
            SnapshotStage::Fixing => {
                let entry = &mut self.history.transactions[open.entry];
                entry.transaction.end = Some(now.0);
                entry.transaction.fate = TransactionFate::Committed;
                open.seen = Some(self.history.snapshots.len());
                self.trace.record(now, format_args!("snapshot #{number} is open, of {}", open.at));
                let (client, at, begin) = (open.client, open.at.0, entry.begin());
                self.history.snapshots.push(SnapshotHistory {
                    client,
                    at,
                    begin,
                    end: now,
                    reads: Vec::new(),
                });
                self.coverage.blob("snapshots opened");
                self.agenda.at(now, ClusterEvent::Snapshot(number));
            }
            SnapshotStage::Reading => {
                let rest_us = self.snapshots.random.between(100 * MS, 3_000 * MS);
                self.agenda.at(now.after_us(rest_us), ClusterEvent::Snapshot(number));
            }
            SnapshotStage::Closing => {
                self.coverage.blob("snapshots closed");
                self.snapshots.open.remove(&number);
            }
        }
    }

    /// Records the result of a read. A failed read proves nothing.
    fn snapshot_read(&mut self, number: usize, asked: SnapshotQuestion, result: Result<Reply, SessionError>) {
        let answer = match result {
            Ok(reply) => Ok(reply),
            Err(SessionError::Answer { failure: Failure::NotFound }) => Err(Failure::NotFound),
            Err(_) => return,
        };
        let Some(open) = self.snapshots.open.get_mut(&number) else { return };
        match asked {
            SnapshotQuestion::Mark => {}
            SnapshotQuestion::Record(key) => {
                let found = match got(key, &answer) {
                    Some(got) => SnapshotRecord {
                        version: got.version().0,
                        actions: read_of(key, &got).into_iter().collect(),
                        account: match got {
                            ReadResult::Number(_, holds) => {
                                Some((key.class as u64, ClassedKey::all(key.class).len(), holds))
                            }
                            _ => None,
                        },
                        impossible: None,
                    },
                    None => SnapshotRecord::impossible(format!("{key:?}: {answer:?}")),
                };
                self.found_in_snapshot(number, key.id(), found);
            }
            SnapshotQuestion::Header(blob) => match answer {
                Err(_) => self.found_in_snapshot(number, header_id(blob), SnapshotRecord::nothing()),
                Ok(reply) => match header_of(&reply) {
                    Some(header) => {
                        let chunks = header.chunks() as usize;
                        open.blobs
                            .insert(blob, Blob { header, chunks_read: vec![None; chunks], left: chunks });
                        (0..chunks).for_each(|chunk| {
                            self.read_in_snapshot(number, SnapshotQuestion::Chunk(blob, chunk))
                        });
                        self.handle_complete_blob(number, blob);
                    }
                    None => {
                        let found = SnapshotRecord::impossible(format!("no header: {reply:?}"));
                        self.found_in_snapshot(number, header_id(blob), found);
                    }
                },
            },
            SnapshotQuestion::Chunk(blob, chunk) => {
                let Some(known) = open.blobs.get_mut(&blob) else { return };
                known.left = known.left.saturating_sub(1);
                known.chunks_read[chunk] = answer.ok().as_ref().and_then(chunk_in);
                self.handle_complete_blob(number, blob);
            }
        }
    }

    /// Handles a blob once all its chunks are read.
    fn handle_complete_blob(&mut self, number: usize, blob: u64) {
        let Some(open) = self.snapshots.open.get_mut(&number) else { return };
        if open.blobs.get(&blob).is_none_or(|known| known.left > 0) {
            return;
        }
        let Some(known) = open.blobs.remove(&blob) else { return };
        let read = contents(blob, &known.header, &known.chunks_read);
        let version = read.chunks.iter().map(|(version, _)| *version).max().unwrap_or(0);
        let version = version.max(known.header.version.0);
        let found = match read.actions() {
            Ok(actions) => SnapshotRecord { version, actions, account: None, impossible: None },
            Err(what) => SnapshotRecord::impossible(format!("blob {blob}: {what}")),
        };
        self.coverage.blob("snapshots: reads of blobs");
        self.found_in_snapshot(number, header_id(blob), found);
    }

    fn found_in_snapshot(&mut self, number: usize, of: u64, found: SnapshotRecord) {
        let now = self.now();
        let Some(open) = self.snapshots.open.get_mut(&number) else { return };
        let Some(seen) = open.seen else { return };
        self.coverage.blob("snapshots: reads");
        self.trace.record(now, format_args!("snapshot #{number} shows {of:x}: {found:?}"));
        let place = ClassedKey::with_id(of).map(|key| (open.keyspaces[key.keyspace].0, key.bytes()));
        let (keyspace, key) = place.unwrap_or_else(|| (open.keyspaces[0].0, key_of_header(of & 0xFF)));
        let known = self.watch.map.keyspace(keyspace);
        let primary = known.and_then(|known| Some(known.group(known.partition(&key))?.primary));
        match open.primaries.get(&of) {
            Some(first) => {
                self.coverage.blob("snapshots: reads again");
                if *first != primary {
                    self.coverage.blob("snapshots: reads again at another primary");
                }
            }
            None => drop(open.primaries.insert(of, primary)),
        }
        self.history.snapshots[seen].reads.push(SnapshotRead { when: now, of, found });
    }

    /// A client dies: its snapshots are not renewed any more.
    pub(super) fn drop_snapshots(&mut self, client: usize) {
        self.snapshots.open.retain(|_, open| {
            if open.client == client {
                let entry = &mut self.history.transactions[open.entry];
                entry.is_left |= entry.transaction.end.is_none();
            }
            open.client != client
        });
    }

    /// A client is paused until then and handles no deadline.
    pub(super) fn pause_snapshots(&mut self, client: usize, until: Time) {
        for open in self.snapshots.open.values().filter(|open| open.client == client) {
            let entry = &mut self.history.transactions[open.entry];
            entry.deadline = entry.deadline.max(until);
        }
    }
}

impl RunningSnapshot {
    /// The token of the next question.
    fn next_token(&mut self, number: usize, asked: SnapshotQuestion) -> usize {
        // Never more than the partitions and records there are.
        debug_assert!(self.questions.len() < PARTS, "tokens are its own");
        self.questions.push(asked);
        self.waiting += 1;
        SNAPSHOTS_FROM + number * PARTS + self.questions.len() - 1
    }
}
