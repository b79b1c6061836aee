//! The clients' watches: a client follows the changes of a keyspace while faults occur, in runs whose keyspaces keep a history.
//!
//! ```text
//!   changes ──> chain: each change of a key begins with the version that the one before has left
//!   marks ────> rise, and no later change is at or below one
//!   reads ────> a version that a read has found, and that is not older than the watch, was returned by the time of a mark at or above it
//! ```
//!
//! So no change is missed, none is returned twice, and marks never overtake. A keyspace that has lost what it had acknowledged is exempt: its log goes on
//! with other entries at the same indexes.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use zerohop_base::random::Random;
use zerohop_placement::{ChangeHistory, Durability};
use zerohop_session::ChangedRecord;
use zerohop_session::procedures::{ClusterHandle, Keyspace, ProcedureSettings, WatchEvent, WatchOptions};
use zerohop_wire::Failure;
use zerohop_wire::ids::{KeyspaceId, Timestamp};

use super::SimulatedCluster;
use super::scans::key_of_many;
use crate::streams::Draw;

const MS: u64 = 1_000;

/// One of so many calls starts one.
const OF_CALLS: u64 = 40;
/// The most watches at a time: each has a request at every partition.
const OPEN_MAX: usize = 4;
/// The events of a watch.
const EVENTS: (u64, u64) = (20, 400);
/// The keys that are read after a mark, of those that scans write too.
const MANY: u64 = 12;
/// Failures in a row after which a watch ends.
const FAILURES_MAX: u32 = 6;
const FAILURE_PAUSE_US: u64 = 200 * MS;

/// The seeds whose keyspaces keep a history. They are named by number, so that all others stay as they were.
const FIRST_SEED: u64 = 38;
const OF_SEEDS: u64 = 8;

/// Watches pause from this seed on, and continue from their cursors: after one of so many events, for at most so long.
const FIRST_SEED_WITH_PAUSES: u64 = 140;
const PAUSES_OF_EVENTS: u64 = 12;
const PAUSE_US_MAX: u64 = 6_000 * MS;

/// The draws are in a stream of their own.
const WATCHES: u64 = 0xED << 56;

/// Whether the keyspaces of a run keep a history.
pub(super) fn keeps_history(seed: u64) -> bool {
    seed >= FIRST_SEED && seed % OF_SEEDS == OF_SEEDS - 1
}

/// The history of the keyspace at this place. Every other one is short, so that watches fall behind.
pub(super) fn history(seed: u64, at: usize) -> ChangeHistory {
    match keeps_history(seed) {
        true => ChangeHistory::of_ms(if at.is_multiple_of(2) { 60_000 } else { 700 }),
        false => ChangeHistory::NONE,
    }
}

/// The watches of all clients that have not ended.
#[derive(Debug, Default)]
pub(super) struct RunningWatches {
    open: BTreeMap<usize, WatchCheck>,
    next: usize,
    reports: WatchReports,
}

/// Reports of the procedures, in order, each with the number of its watch.
type WatchReports = Arc<Mutex<VecDeque<(usize, WatchReport)>>>;

#[derive(Debug)]
enum WatchReport {
    Event(WatchEvent),
    /// It continues from its cursor.
    Continues,
    /// A read has found this version; zero: no record.
    Found {
        key: Bytes,
        version: Timestamp,
    },
    Ends(&'static str),
}

/// What a watch has returned so far.
#[derive(Clone, Debug)]
struct WatchCheck {
    client: usize,
    keyspace: KeyspaceId,
    /// The last change of each key: its time, and whether it left a record.
    last: BTreeMap<Bytes, (Timestamp, bool)>,
    mark: Timestamp,
    /// It has continued from its cursor since.
    has_continued: bool,
    /// The version of each key at its first read.
    first_read: BTreeMap<Bytes, Timestamp>,
    /// Versions that were made since, and must be returned before a mark at or above them.
    expected: Vec<(Bytes, Timestamp)>,
}

impl WatchCheck {
    /// Checks a change.
    ///
    /// # Errors
    /// What is wrong with it.
    fn changed(&mut self, change: &ChangedRecord) -> Result<(), String> {
        let ChangedRecord { key, at, before, record, .. } = change;
        if *at <= self.mark {
            return Err(format!("{key:?} changed at {at}, below the mark {}", self.mark));
        }
        let known = self.last.insert(key.clone(), (*at, record.is_some()));
        let Some((last, was)) = known else { return Ok(()) };
        let left = if was { last } else { Timestamp::ZERO };
        match *before == left && *at > last {
            true => Ok(()),
            false => Err(format!(
                "{key:?} changed from {before} to {at}, and the change before it at {last} left {left}"
            )),
        }
    }

    /// A read has found a version.
    fn found(&mut self, key: Bytes, version: Timestamp) {
        match self.first_read.get(&key) {
            None => drop(self.first_read.insert(key, version)),
            Some(first) if *first != version && version != Timestamp::ZERO => {
                self.expected.push((key, version))
            }
            Some(_) => {}
        }
    }

    /// Checks a mark.
    ///
    /// # Errors
    /// What is wrong with it.
    fn marked(&mut self, mark: Timestamp) -> Result<(), String> {
        // The first mark behind a cursor may be the one that was returned last.
        let is_same = std::mem::take(&mut self.has_continued) && mark == self.mark;
        if mark <= self.mark && !is_same {
            return Err(format!("the mark {mark} follows {}", self.mark));
        }
        self.mark = mark;
        for (key, version) in self.expected.extract_if(.., |(_, version)| *version <= mark) {
            let returned = self.last.get(&key).map_or(Timestamp::ZERO, |(at, _)| *at);
            if returned < version {
                return Err(format!(
                    "{key:?} was changed at {version}, the mark is {mark}, and its last change is of {returned}"
                ));
            }
        }
        Ok(())
    }
}

/// Reads the versions of a few records.
async fn read_some(keyspace: &Keyspace, random: &mut Random, report: &impl Fn(WatchReport)) {
    for _ in 0..2 {
        let key = key_of_many(random.below(MANY));
        let version = match keyspace.inspect(&key).await {
            Ok(info) => info.map_or(Timestamp::ZERO, |info| info.version),
            Err(_) => continue,
        };
        report(WatchReport::Found { key: Bytes::from(key), version });
    }
}

async fn run_watch(
    handle: ClusterHandle,
    name: String,
    (events, mark_ms, mut random): (u64, u32, Random),
    pauses: bool,
    report: impl Fn(WatchReport),
) {
    let Ok(keyspace) = handle.keyspace(&name).await else {
        return report(WatchReport::Ends("watches that did not begin"));
    };
    let changes_max = *random.pick(&[1, 2, 1024]);
    let mut options = WatchOptions { mark_ms, changes_max, ..WatchOptions::default() };
    let Ok(mut watch) = keyspace.watch(options.clone()) else {
        return report(WatchReport::Ends("watches that did not begin"));
    };
    let mut failures = 0;
    for _ in 0..events {
        if pauses
            && random.chance(1, PAUSES_OF_EVENTS)
            && let Some(cursor) = watch.cursor()
        {
            options.cursor = Some(cursor);
            handle.sleep(Duration::from_micros(random.below(PAUSE_US_MAX))).await;
            match keyspace.watch(options.clone()) {
                Ok(next) => {
                    watch = next;
                    report(WatchReport::Continues);
                }
                Err(_) => return report(WatchReport::Ends("watches that did not continue")),
            }
        }
        match watch.next().await {
            Ok(event) => {
                failures = 0;
                let is_mark = matches!(event, WatchEvent::Mark(_));
                report(WatchReport::Event(event));
                if is_mark {
                    read_some(&keyspace, &mut random, &report).await;
                }
            }
            Err(error) if matches!(error.failure(), Some(Failure::HistoryGone { .. })) => {
                return report(WatchReport::Ends("watches that fell behind"));
            }
            Err(_) if failures < FAILURES_MAX => {
                failures += 1;
                handle.sleep(Duration::from_micros(FAILURE_PAUSE_US)).await;
            }
            Err(_) => return report(WatchReport::Ends("watches that failed")),
        }
    }
    report(WatchReport::Ends("watches that ended"));
}

/// See the module.
pub(super) struct Watchers<'w> {
    pub(super) world: &'w mut SimulatedCluster,
}

impl Watchers<'_> {
    /// A client may begin to watch a keyspace, beside its other work.
    pub(super) fn begin(&mut self, client: usize) {
        let world = &mut *self.world;
        let now = world.now();
        let running = &mut world.compares.watches;
        if !keeps_history(world.seed) || running.open.len() >= OPEN_MAX {
            return;
        }
        let mut random = Random::new(world.seed ^ WATCHES).fork(now.0 ^ (client as u64) << 48);
        // Also those of transactions, whose changes have timestamps of their own.
        let all: Vec<(KeyspaceId, String)> = world
            .watch
            .map
            .keyspaces()
            .filter(|(_, known)| !known.is_dropping())
            .map(|(id, known)| (id, known.config().name.as_str().to_owned()))
            .collect();
        if !random.chance(1, OF_CALLS) || all.is_empty() {
            return;
        }
        let (keyspace, name) = random.pick(&all).clone();
        let number = running.next;
        running.next += 1;
        let check = WatchCheck {
            client,
            keyspace,
            last: BTreeMap::new(),
            mark: Timestamp::ZERO,
            has_continued: false,
            first_read: BTreeMap::new(),
            expected: Vec::new(),
        };
        running.open.insert(number, check);
        world.trace.record(now, format_args!("c{client} watches {keyspace}, #{number}"));
        let reports = Arc::clone(&world.compares.watches.reports);
        let report = move |what| {
            reports.lock().unwrap_or_else(PoisonError::into_inner).push_back((number, what));
        };
        let deadline = Duration::from_micros(random.between(500 * MS, 8_000 * MS));
        let (events, mark_ms) = (random.between(EVENTS.0, EVENTS.1), *random.pick(&[20, 200, 1_000]));
        let pauses = world.seed >= FIRST_SEED_WITH_PAUSES;
        let procedures = &mut world.clients[client].procedures;
        let handle = procedures.handle(ProcedureSettings::new(deadline));
        procedures.start(run_watch(handle, name, (events, mark_ms, random), pauses, report));
        world.schedule_client(client, now.after_us(1));
    }

    /// A client dies.
    pub(super) fn drop_client(&mut self, client: usize) {
        self.world.compares.watches.open.retain(|_, one| one.client != client);
    }

    /// Handles what the watches have reported in this turn of a client.
    pub(super) fn handle_reports(&mut self) {
        loop {
            let reports = &self.world.compares.watches.reports;
            let report = reports.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            let Some((number, report)) = report else { return };
            self.handle_report(number, report);
        }
    }

    fn handle_report(&mut self, number: usize, report: WatchReport) {
        let world = &mut *self.world;
        let Some(check) = world.compares.watches.open.get_mut(&number) else { return };
        let keyspace = check.keyspace;
        let result = match report {
            WatchReport::Event(WatchEvent::Changes(changes)) => {
                world.coverage.blob("changes that watches returned");
                changes.iter().try_for_each(|change| check.changed(change))
            }
            WatchReport::Event(WatchEvent::Mark(mark)) => check.marked(mark),
            WatchReport::Continues => {
                check.has_continued = true;
                Ok(())
            }
            WatchReport::Found { key, version } => {
                check.found(key, version);
                Ok(())
            }
            WatchReport::Ends(how) => {
                world.compares.watches.open.remove(&number);
                return world.coverage.blob(how);
            }
        };
        let Err(what) = result else { return };
        world.compares.watches.open.remove(&number);
        let is_in_memory = world
            .watch
            .map
            .keyspace(keyspace)
            .is_none_or(|known| known.config().durability == Durability::Memory);
        match is_in_memory || world.watch.has_lost(keyspace) {
            true => world.coverage.blob("watches of keyspaces that lost data"),
            false => world.record_violation("watch", format!("{keyspace}, #{number}: {what}")),
        }
    }
}
