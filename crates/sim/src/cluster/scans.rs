//! The clients' scans: now and then a client scans all keys of a keyspace with the procedure that
//! `zerohop-client` runs. It pauses between pages while faults strike the members, so the next page
//! may come from another primary or from child partitions. The pages go into the history
//! (`check/scans.rs` checks them).
//!
//! The few keys of the other operations are not enough for a scan: before it, a client writes some
//! additional keys and removes a few of them.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use zerohop_base::random::Random;
use zerohop_placement::{KeyOrder, Separators};
use zerohop_session::procedures::{ClusterHandle, ProcedureSettings};
use zerohop_session::procedures::{Error, Keyspace, RangeScan, Scan as KeyScan};
use zerohop_session::{Coalescing, ScanKey};
use zerohop_wire::ids::{InstanceId, KeyspaceId};
use zerohop_wire::limits::SCAN_PAGE_KEYS_MAX;
use zerohop_wire::messages::Expiry;

use super::SimulatedCluster;
use crate::history::{Scan, ScanPage, ScannedRange};
use crate::streams::Draw;
use crate::workload::operation::{RecordAction, RecordCall};

const MS: u64 = 1_000;

/// Operations with tokens from here on write keys for scans; the rest of the token is the index in
/// the history.
pub(super) const PUTS_FROM: usize = 1 << 46;

/// One of so many calls starts one.
const OF_CALLS: u64 = 80;

/// The highest number of open scans.
const OPEN_MAX: usize = 4;

/// Number of additional keys of a keyspace.
const MANY: u64 = 40;

/// The highest number of them that are written before a scan.
const PUTS_MAX: u64 = 14;

/// One of so many of these writes is a removal.
const OF_PUTS: u64 = 8;

/// Number of scans of a keyspace that is about to be split, and the longest pause between their
/// pages.
const SCANS_OF_SPLIT: u32 = 2;
const SPLIT_PAUSE_US_MAX: u64 = 1_000 * MS;

/// A client abandons a scan after so many failures in a row.
const FAILURES_MAX: u32 = 8;

/// The pause after a failure, in microseconds.
const FAILURE_PAUSE_US: u64 = 1_000 * MS;

/// The highest number of pages of a scan: there are few keys, and few reasons for empty pages.
const PAGES_MAX: usize = 2_000;

/// The scans of all clients that have not ended.
#[derive(Debug)]
pub(super) struct Scans {
    random: Random,
    open: BTreeMap<usize, RunningScan>,
    next: usize,
    reports: ScanEvents,
}

#[derive(Clone, Debug)]
struct RunningScan {
    client: usize,
    /// Its index among the scans of the history, once its first page is requested.
    entry: Option<usize>,
    keyspace: KeyspaceId,
    range: ScannedRange,
    /// The primaries of its keyspace's partitions when it began.
    primaries: Vec<Option<InstanceId>>,
}

/// Reports of the procedures, in order, each with the number of its scan.
type ScanEvents = Arc<Mutex<VecDeque<(usize, ScanEvent)>>>;

#[derive(Debug)]
enum ScanEvent {
    /// It requests a page of this keyspace.
    Requests(KeyspaceId),
    Page(Vec<ScanKey>),
    /// The page was not read; the scan goes on.
    Fails(String),
    /// The scan has seen everything, or is abandoned.
    Ends {
        is_complete: bool,
    },
}

/// What a scan draws before it begins.
#[derive(Debug)]
struct ScanPlan {
    keyspace: String,
    keys_max: u32,
    /// The longest rest between two pages, in microseconds.
    page_pause_us_max: u64,
    range: ScannedRange,
    /// A scan of a range: with values, and the bytes of a page.
    values: bool,
    page_bytes: Option<u32>,
    random: Random,
}

/// A scan of all keys, or of a range of them.
enum AnyScan {
    Keys(KeyScan),
    Range(RangeScan),
}

impl AnyScan {
    fn of(keyspace: &Keyspace, plan: &ScanPlan) -> AnyScan {
        if !plan.range.is_ordered {
            return AnyScan::Keys(keyspace.scan(Bytes::new()).page_keys(plan.keys_max));
        }
        let ScannedRange { from, to, is_reverse, .. } = &plan.range;
        let to = to.clone().map_or(Bound::Unbounded, Bound::Excluded);
        let mut scan =
            keyspace.scan_range::<Box<[u8]>>((Bound::Included(from.clone()), to)).page_keys(plan.keys_max);
        if *is_reverse {
            scan = scan.reverse();
        }
        if plan.values {
            scan = scan.values();
        }
        if let Some(bytes) = plan.page_bytes {
            scan = scan.page_bytes(bytes);
        }
        AnyScan::Range(scan)
    }

    async fn next_page(&mut self) -> Result<Option<Vec<ScanKey>>, Error> {
        match self {
            AnyScan::Keys(scan) => scan.next_page().await,
            AnyScan::Range(scan) => scan.next_page().await,
        }
    }
}

/// Scans a keyspace to its end, with pauses between pages.
async fn run_scan(handle: ClusterHandle, mut plan: ScanPlan, report: impl Fn(ScanEvent)) {
    let mut failures = 0;
    let keyspace = loop {
        match handle.keyspace(&plan.keyspace).await {
            Ok(keyspace) => break keyspace,
            Err(_) if failures < FAILURES_MAX => failures += 1,
            Err(_) => return report(ScanEvent::Ends { is_complete: false }),
        }
        handle.sleep(Duration::from_micros(FAILURE_PAUSE_US)).await;
    };
    let mut scan = AnyScan::of(&keyspace, &plan);
    failures = 0;
    loop {
        report(ScanEvent::Requests(keyspace.id()));
        let pause_us = match scan.next_page().await {
            Ok(Some(keys)) => {
                failures = 0;
                report(ScanEvent::Page(keys));
                plan.random.below(plan.page_pause_us_max)
            }
            Ok(None) => {
                report(ScanEvent::Page(Vec::new()));
                return report(ScanEvent::Ends { is_complete: true });
            }
            // The same page can be requested again.
            Err(error) => {
                failures += 1;
                report(ScanEvent::Fails(error.to_string()));
                if failures > FAILURES_MAX {
                    return report(ScanEvent::Ends { is_complete: false });
                }
                FAILURE_PAUSE_US
            }
        };
        handle.sleep(Duration::from_micros(pause_us)).await;
    }
}

impl Scans {
    pub(super) fn new(random: Random) -> Scans {
        Scans { random, open: BTreeMap::new(), next: 0, reports: ScanEvents::default() }
    }

    /// A client dies.
    pub(super) fn drop_client(&mut self, client: usize) {
        self.open.retain(|_, one| one.client != client);
    }
}

/// Bounds among the keys that are written for scans, in either direction. Some ranges end just behind a separator, which is in them.
fn draw_range(random: &mut Random, separators: &Separators) -> ScannedRange {
    let mut bound = || key_of_many(random.below(MANY)).into_bytes().into_boxed_slice();
    let (one, other) = (bound(), bound());
    let (from, to) = if one < other { (one, other) } else { (other, one) };
    let from = if random.chance(1, 3) { Box::default() } else { from };
    let mut to = random.chance(2, 3).then_some(to);
    if !separators.is_empty() && random.chance(1, 3) {
        let behind = separators.iter().nth(random.below(separators.len() as u64) as usize);
        to = behind.map(|separator| [separator, &[0]].concat().into_boxed_slice()).filter(|to| *to > from);
    }
    ScannedRange { from, to, is_ordered: true, is_reverse: random.chance(1, 2) }
}

pub(super) fn key_of_many(number: u64) -> String {
    format!("many-{number}")
}

impl SimulatedCluster {
    /// A client may scan all keys of a keyspace, beside its other work.
    pub(super) fn begins_scan(&mut self, client: usize) {
        let now = self.now();
        let focus = self.focus(now);
        let random = &mut self.scans.random;
        if !random.chance(1, OF_CALLS) || self.scans.open.len() >= OPEN_MAX {
            return;
        }
        let live: Vec<KeyspaceId> = self.watch.live(now).collect();
        if live.is_empty() {
            return;
        }
        let any = *random.pick(&live);
        // The source of its next pages changes most where a fault has just struck the primary.
        let keyspace = focus.filter(|one| live.contains(one) && random.chance(3, 4)).unwrap_or(any);
        let keys_max = match random.below(4) {
            0 => SCAN_PAGE_KEYS_MAX,
            _ => random.between(1, 5) as u32,
        };
        let page_pause_us_max = *random.pick(&[1, 20 * MS, 300 * MS, 1_500 * MS]);
        self.begin_scan(client, keyspace, (keys_max, page_pause_us_max));
    }

    /// The keyspace is about to be split: slow scans with small pages continue in the children.
    pub(super) fn begin_scans_over_split(&mut self, keyspace: KeyspaceId) {
        // The checker of scans knows the keys of single operations only.
        if !self.watch.live(self.now()).any(|live| live == keyspace) {
            return;
        }
        for _ in 0..SCANS_OF_SPLIT {
            let client = self.scans.random.below(self.scenario.clients as u64) as usize;
            if self.is_paused(client) {
                continue;
            }
            self.begin_scan(client, keyspace, (1, SPLIT_PAUSE_US_MAX));
        }
    }

    fn begin_scan(&mut self, client: usize, keyspace: KeyspaceId, (keys_max, page_pause_us_max): (u32, u64)) {
        let now = self.now();
        let Some(known) = self.watch.map.keyspace(keyspace) else { return };
        let name = known.config().name.as_str().to_owned();
        let is_ordered = known.config().order == KeyOrder::Ordered;
        let separators = known.config().separators.clone();
        let random = &mut self.scans.random;
        let begins_after_us = random.below(1_500 * MS);
        let deadline = Duration::from_micros(random.between(500 * MS, 8_000 * MS));
        let puts = random.below(PUTS_MAX + 1);
        for _ in 0..puts {
            self.put_one_of_many(client, keyspace);
        }
        let number = self.scans.next;
        self.scans.next += 1;
        let primaries = self.primaries_of(keyspace);
        let mut random = self.scans.random.fork(number as u64);
        let (range, values, page_bytes) = match is_ordered {
            true => {
                let range = draw_range(&mut random, &separators);
                (range, random.chance(1, 2), random.chance(1, 3).then_some(64))
            }
            false => (ScannedRange::default(), false, None),
        };
        let running = RunningScan { client, entry: None, keyspace, range: range.clone(), primaries };
        self.scans.open.insert(number, running);
        let plan =
            ScanPlan { keyspace: name, keys_max, page_pause_us_max, range, values, page_bytes, random };
        let reports = Arc::clone(&self.scans.reports);
        let report = move |what| {
            reports.lock().unwrap_or_else(PoisonError::into_inner).push_back((number, what));
        };
        let procedures = &mut self.clients[client].procedures;
        let handle = procedures.handle(ProcedureSettings::new(deadline));
        procedures.start(async move {
            handle.sleep(Duration::from_micros(begins_after_us)).await;
            run_scan(handle, plan, report).await;
        });
        self.schedule_client(client, now.after_us(1));
    }

    fn put_one_of_many(&mut self, client: usize, keyspace: KeyspaceId) {
        let random = &mut self.scans.random;
        let key = key_of_many(random.below(MANY));
        let act = match random.below(OF_PUTS) {
            0 => RecordAction::Remove,
            _ => RecordAction::Insert { value: self.draws.token(), expiry: Expiry::Never },
        };
        let limit_us = random.between(1_500 * MS, 8_000 * MS);
        let operation = RecordCall::new(key.as_bytes(), act);
        self.submit_as(PUTS_FROM, client, keyspace, operation, (limit_us, Coalescing::AsKeyspace));
    }

    /// The primaries of all partitions of a keyspace, by the newest map.
    fn primaries_of(&self, keyspace: KeyspaceId) -> Vec<Option<InstanceId>> {
        let Some(known) = self.watch.map.keyspace(keyspace) else { return Vec::new() };
        known.groups().map(|(_, group)| Some(group.primary)).collect()
    }

    /// Adds what the scans have reported in this turn of a client to the history.
    pub(super) fn handle_scan_reports(&mut self) {
        loop {
            let report = self.scans.reports.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            let Some((number, report)) = report else { return };
            self.handle_scan_report(number, report);
        }
    }

    fn handle_scan_report(&mut self, number: usize, report: ScanEvent) {
        let now = self.now();
        let Some(one) = self.scans.open.get_mut(&number) else { return };
        let (client, history) = (one.client, &mut self.history.scans);
        match report {
            ScanEvent::Requests(keyspace) => {
                let entry = *one.entry.get_or_insert_with(|| {
                    one.keyspace = keyspace;
                    let range = one.range.clone();
                    history.push(Scan { client, keyspace, range, begin: now, end: None, pages: Vec::new() });
                    history.len() - 1
                });
                let pages = &mut history[entry].pages;
                pages.push(ScanPage {
                    requested_at: now,
                    answered_at: None,
                    keys: Vec::new(),
                    values: BTreeMap::new(),
                });
                if pages.len() > PAGES_MAX {
                    let what =
                        format!("scan #{number} of {keyspace} has had {PAGES_MAX} pages, and does not end");
                    self.scans.open.remove(&number);
                    self.record_violation("scan", what);
                }
            }
            ScanEvent::Page(keys) => {
                let Some(page) = one.entry.and_then(|entry| history[entry].pages.last_mut()) else { return };
                page.answered_at = Some(now);
                let key_of = |listed: &ScanKey| listed.key.to_vec().into_boxed_slice();
                page.keys = keys.iter().map(key_of).collect();
                let values =
                    keys.iter().filter_map(|listed| Some((key_of(listed), listed.value.as_ref()?.to_vec())));
                page.values = values.collect();
                self.trace.record(now, format_args!("c{client}: scan #{number} receives {page}"));
            }
            ScanEvent::Fails(why) => {
                if let Some(entry) = one.entry {
                    history[entry].pages.pop();
                }
                self.trace.record(now, format_args!("c{client}: a page of scan #{number} fails: {why}"));
            }
            ScanEvent::Ends { is_complete } => {
                let Some(one) = self.scans.open.remove(&number) else { return };
                if !is_complete {
                    return self.coverage.blob("scans that failed");
                }
                if let Some(entry) = one.entry {
                    self.history.scans[entry].end = Some(now);
                }
                let primaries = self.primaries_of(one.keyspace);
                if one.range.is_ordered {
                    self.coverage.blob("scans of ranges to the end");
                    if primaries.len() > 1 {
                        self.coverage.blob("scans of ranges over regions");
                    }
                    if primaries.len() > one.primaries.len() {
                        self.coverage.blob("scans of ranges over splits of regions");
                    }
                }
                if primaries.len() > one.primaries.len() {
                    self.coverage.blob("scans that went on in children");
                } else if primaries != one.primaries {
                    self.coverage.blob("scans that went on at another primary");
                }
                self.coverage.blob("scans to the end");
            }
        }
    }
}
