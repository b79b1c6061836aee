//! The clients' snapshots: opened over both keyspaces of transactions with the procedure that
//! `zerohop-client` runs, and read many times while others write.
//!
//! ```text
//!   open ──> rest ──> a round: records, a blob, metadata or a listing ──> rest ──> ... ──> close, or drop of the handle
//!     └─ the procedure's task renews the lease; for a third of the snapshots it never runs, and they expire
//! ```

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use zerohop_base::random::Random;
use zerohop_base::time::Time;
use zerohop_placement::PartitionCount;
use zerohop_session::procedures::{ProcedureSettings, SnapshotOptions};
use zerohop_wire::blob::header_key;
use zerohop_wire::ids::InstanceId;

use super::SimulatedCluster;
use super::running_transaction::fail_of;
use super::snapshot_task::{SnapshotPlan, SnapshotReport, is_split_error, run_snapshot};
use crate::cycles::TransactionFate;
use crate::snapshots::{SnapshotHistory, SnapshotRead, SnapshotRecord, SnapshotVersion};
use crate::streams::Draw;
use crate::transaction_results::TransactionRecord;
use crate::workload::blobs::name;
use crate::workload::transactional::{ClassedKey, KEYSPACES};

const MS: u64 = 1_000;

/// The highest number of open snapshots: more than one, so that one keeps versions that another
/// does not need.
const OPEN_MAX: usize = 5;

/// The time limit of each of its requests.
const LIMIT_US: u64 = 4_000 * MS;

/// How many such limits an opening takes at most: its request, the renewal, and the close of an
/// opening that failed.
const ROUNDS_OF_OPENING: u64 = 3;

/// The same if the keyspaces are split meanwhile: the procedure repeats its request, and asks each
/// keyspace for its partitions between.
const ROUNDS_OVER_SPLIT: u64 = 8;

/// One of so many is opened later than its client opens the keyspaces, and the longest time
/// between.
const OPENED_LATER_OF: u64 = 4;
const OPENED_LATER_US: u64 = 8_000 * MS;

/// The number of snapshots over a split.
const SNAPSHOTS_OF_SPLIT: u64 = 2;

/// The longest time for which one stays open.
const AGE: Duration = Duration::from_secs(30);

/// The snapshots of all clients that have not ended.
#[derive(Debug)]
pub(super) struct Snapshots {
    random: Random,
    open: BTreeMap<usize, RunningSnapshot>,
    next: usize,
    reports: SnapshotReports,
    /// Set when no client reads any more: all snapshots are closed.
    are_over: Arc<AtomicBool>,
}

#[derive(Debug)]
struct RunningSnapshot {
    client: usize,
    /// The partitions of the two keyspaces before it was opened.
    partitions: [Option<PartitionCount>; 2],
    /// Index in the history of its opening; and of its reads.
    entry: usize,
    seen: Option<usize>,
    /// The instance that answered first for each record.
    primaries: BTreeMap<u64, Option<InstanceId>>,
}

/// Reports of the procedures, in order, each with the number of its snapshot.
type SnapshotReports = Arc<Mutex<VecDeque<(usize, SnapshotReport)>>>;

impl Snapshots {
    pub(super) fn new(random: Random) -> Snapshots {
        let (reports, are_over) = Default::default();
        Snapshots { random, open: BTreeMap::new(), next: 0, reports, are_over }
    }

    /// No client reads any more.
    pub(super) fn end_all(&self) {
        self.are_over.store(true, Ordering::Relaxed);
    }
}

impl SimulatedCluster {
    /// A client opens a snapshot beside its other work.
    pub(super) fn begin_snapshot(&mut self, client: usize) {
        let random = &mut self.snapshots.random;
        let opens_after_us =
            if random.chance(1, OPENED_LATER_OF) { random.below(OPENED_LATER_US) } else { 0 };
        self.begin_snapshot_after(client, opens_after_us);
    }

    /// A keyspace of transactions is about to be split: clients that know its partitions of now
    /// open snapshots of it later.
    pub(super) fn begin_snapshots_over_split(&mut self) {
        if self.programs.is_on() {
            return;
        }
        for at in 1..=SNAPSHOTS_OF_SPLIT {
            let client = self.snapshots.random.below(self.scenario.clients as u64) as usize;
            if self.is_paused(client) {
                continue;
            }
            self.begin_snapshot_after(client, at * OPENED_LATER_US / SNAPSHOTS_OF_SPLIT);
        }
    }

    fn begin_snapshot_after(&mut self, client: usize, opens_after_us: u64) {
        if self.transactional().is_none() || self.snapshots.open.len() >= OPEN_MAX {
            return;
        }
        let now = self.now();
        let number = self.snapshots.next;
        self.snapshots.next += 1;
        let entry = self.history.transactions.len();
        let partitions = self.partitions_of_snapshots();
        let running = RunningSnapshot { client, partitions, entry, seen: None, primaries: BTreeMap::new() };
        self.snapshots.open.insert(number, running);
        let deadline = now.after_us(KEYSPACES.len() as u64 * LIMIT_US + opens_after_us);
        self.history.transactions.push(TransactionRecord::begun(client, now, deadline, Vec::new()));
        let random = &mut self.snapshots.random;
        let options =
            SnapshotOptions { lease: Duration::from_millis(random.between(1_500, 8_000)), age: AGE };
        let is_renewed = random.chance(2, 3);
        let plan = SnapshotPlan {
            opens_after: Duration::from_micros(opens_after_us),
            options,
            rounds: random.between(3, 7),
            is_closed: random.chance(4, 5),
            random: random.fork(number as u64),
            are_over: Arc::clone(&self.snapshots.are_over),
        };
        self.trace.record(now, format_args!("c{client} opens snapshot #{number}: {plan:?}"));
        let reports = Arc::clone(&self.snapshots.reports);
        let report = move |what| {
            reports.lock().unwrap_or_else(PoisonError::into_inner).push_back((number, what));
        };
        let procedures = &mut self.clients[client].procedures;
        let settings = ProcedureSettings::new(Duration::from_micros(LIMIT_US));
        let handle = match is_renewed {
            true => procedures.handle(settings),
            false => procedures.handle_without_background(settings),
        };
        procedures.start(run_snapshot(handle, plan, report));
        let soon = self.streams.schedule.below(20);
        self.schedule_client(client, now.after_us(soon));
    }

    /// The number of partitions of both keyspaces, by the newest map.
    fn partitions_of_snapshots(&self) -> [Option<PartitionCount>; 2] {
        let Some(both) = self.transactional() else { return [None; 2] };
        both.map(|id| self.watch.map.keyspace(id).map(|known| known.config().partitions))
    }

    /// Adds what the snapshots have reported in this turn of a client to the history.
    pub(super) fn handle_snapshot_reports(&mut self) {
        loop {
            let report = self.snapshots.reports.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            let Some((number, report)) = report else { return };
            self.handle_snapshot_report(number, report);
        }
    }

    fn handle_snapshot_report(&mut self, number: usize, report: SnapshotReport) {
        let now = self.now();
        let partitions = self.partitions_of_snapshots();
        let Some(open) = self.snapshots.open.get_mut(&number) else { return };
        let entry = &mut self.history.transactions[open.entry];
        let is_split = open.partitions != partitions;
        match report {
            SnapshotReport::Opens => {
                // What was acknowledged by now is in it.
                entry.transaction.begin = now.0;
                entry.deadline = now.after_us(ROUNDS_OF_OPENING * LIMIT_US);
            }
            SnapshotReport::NotOpened(error) => {
                // Partitions where it was opened release it when the lease expires.
                entry.transaction.end = Some(now.0);
                fail_of(entry, &error, false);
                if is_split_error(&error) {
                    entry.failure = None;
                }
                if is_split {
                    entry.deadline =
                        entry.deadline.after_us((ROUNDS_OVER_SPLIT - ROUNDS_OF_OPENING) * LIMIT_US);
                }
                self.coverage.blob("snapshots not opened");
                self.snapshots.open.remove(&number);
            }
            SnapshotReport::Opened(at) => {
                entry.transaction.end = Some(now.0);
                entry.transaction.fate = TransactionFate::Committed;
                if is_split {
                    entry.deadline =
                        entry.deadline.after_us((ROUNDS_OVER_SPLIT - ROUNDS_OF_OPENING) * LIMIT_US);
                    self.coverage.blob("snapshots opened over splits");
                }
                open.seen = Some(self.history.snapshots.len());
                self.trace.record(now, format_args!("snapshot #{number} is open, of {at}"));
                self.history.snapshots.push(SnapshotHistory {
                    client: open.client,
                    at: at.0,
                    begin: entry.begin(),
                    end: now,
                    reads: Vec::new(),
                    versions: Vec::new(),
                });
                self.coverage.blob("snapshots opened");
            }
            SnapshotReport::Shows(of, found) => self.found_in_snapshot(number, of, found),
            SnapshotReport::Version(of, version) => {
                if let Some(seen) = open.seen {
                    let version = SnapshotVersion { when: now, of, version: version.0 };
                    self.history.snapshots[seen].versions.push(version);
                }
            }
            SnapshotReport::ListsKeys => self.coverage.blob("snapshots: scans"),
            SnapshotReport::ListsBlobs => self.coverage.blob("snapshots: listings of blobs"),
            SnapshotReport::Ends { is_closed } => {
                self.coverage.blob(if is_closed { "snapshots closed" } else { "snapshots dropped" });
                self.snapshots.open.remove(&number);
            }
            SnapshotReport::Expired => {
                self.coverage.blob("snapshots expired");
                self.trace.record(now, format_args!("snapshot #{number} has expired"));
                self.snapshots.open.remove(&number);
            }
        }
    }

    fn found_in_snapshot(&mut self, number: usize, of: u64, mut found: SnapshotRecord) {
        let now = self.now();
        self.blobs.settle_orders(&mut found.actions);
        let Some(both) = self.transactional() else { return };
        let Some(open) = self.snapshots.open.get_mut(&number) else { return };
        let Some(seen) = open.seen else { return };
        self.coverage.blob("snapshots: reads");
        self.trace.record(now, format_args!("snapshot #{number} shows {of:x}: {found:?}"));
        let (keyspace, key) = match ClassedKey::with_id(of) {
            Some(key) => (both[key.keyspace], key.bytes()),
            None => {
                self.coverage.blob("snapshots: reads of blobs");
                (both[0], header_key(&name(of & 0xFF)).expect("is a name"))
            }
        };
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

    /// A client is paused until then: it handles no deadline, and goes on with its next request.
    pub(super) fn pause_snapshots(&mut self, client: usize, until: Time) {
        for open in self.snapshots.open.values().filter(|open| open.client == client) {
            let entry = &mut self.history.transactions[open.entry];
            entry.deadline = entry.deadline.max(until.after_us((ROUNDS_OF_OPENING - 1) * LIMIT_US));
        }
    }
}
