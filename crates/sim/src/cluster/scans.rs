//! The clients' scans: now and then a client scans all keys of a keyspace, page by page, as
//! `crates/client` does. It pauses between pages while faults strike the members, so the next page
//! may come from another primary or from child partitions. The pages go into the history
//! (`check/scans.rs` checks them).
//!
//! The few keys of the other operations are not enough for a scan: before it, a client writes some
//! additional keys and removes a few of them.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use zerohop_base::random::Random;
use zerohop_placement::PartitionCount;
use zerohop_session::{Coalescing, Reply, SessionError, SessionRequest};
use zerohop_wire::ids::{InstanceId, KeyspaceId, PartitionId};
use zerohop_wire::limits::SCAN_PAGE_KEYS_MAX;
use zerohop_wire::messages::Expiry;

use super::{ClusterEvent, SimulatedCluster};
use crate::history::{Scan, ScanPage};
use crate::streams::Draw;
use crate::workload::operation::{Act, RecordCall};

const MS: u64 = 1_000;

/// Operations of a session with tokens from here on are scans.
pub(super) const SCANS_FROM: usize = 1 << 45;

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

/// A client abandons a scan after so many failures in a row.
const FAILURES_MAX: u32 = 8;

/// The highest number of pages of a scan: there are few keys, and few reasons for empty pages.
const PAGES_MAX: usize = 2_000;

/// The scans of all clients that have not ended.
#[derive(Debug)]
pub(super) struct Scans {
    random: Random,
    open: BTreeMap<usize, RunningScan>,
    next: usize,
}

#[derive(Clone, Debug)]
struct RunningScan {
    client: usize,
    /// Its index among the scans of the history.
    entry: usize,
    keyspace: KeyspaceId,
    partitions: PartitionCount,
    /// The remaining partitions and the cursor in each, the next first.
    left: VecDeque<(PartitionId, Bytes)>,
    keys_max: u32,
    /// The longest rest between two pages, in microseconds.
    page_pause_us_max: u64,
    /// The primary when the previous page was requested.
    primary: Option<InstanceId>,
    /// Failures in a row.
    failures: u32,
}

impl Scans {
    pub(super) fn new(random: Random) -> Scans {
        Scans { random, open: BTreeMap::new(), next: 0 }
    }

    /// A client dies.
    pub(super) fn drop_client(&mut self, client: usize) {
        self.open.retain(|_, one| one.client != client);
    }
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
        let Some(known) = self.watch.map.keyspace(keyspace) else { return };
        let partitions = known.config().partitions;
        let keys_max = match random.below(4) {
            0 => SCAN_PAGE_KEYS_MAX,
            _ => random.between(1, 5) as u32,
        };
        let rest_us = *random.pick(&[1, 20 * MS, 300 * MS, 1_500 * MS]);
        let begins_after_us = random.below(1_500 * MS);
        let puts = random.below(PUTS_MAX + 1);
        for _ in 0..puts {
            self.put_one_of_many(client, keyspace);
        }
        let number = self.scans.next;
        self.scans.next += 1;
        let scanning = RunningScan {
            client,
            entry: usize::MAX,
            keyspace,
            partitions,
            left: partitions.ids().map(|id| (id, Bytes::new())).collect(),
            keys_max,
            page_pause_us_max: rest_us,
            primary: None,
            failures: 0,
        };
        self.scans.open.insert(number, scanning);
        self.agenda.at(now.after_us(begins_after_us), ClusterEvent::ScanPage(number));
    }

    fn put_one_of_many(&mut self, client: usize, keyspace: KeyspaceId) {
        let random = &mut self.scans.random;
        let key = format!("many-{}", random.below(MANY));
        let act = match random.below(OF_PUTS) {
            0 => Act::Remove,
            _ => Act::Insert { value: self.draws.token(), expiry: Expiry::Never },
        };
        let limit_us = random.between(1_500 * MS, 8_000 * MS);
        let operation = RecordCall::new(key.as_bytes(), act);
        self.submit_as(PUTS_FROM, client, keyspace, operation, (limit_us, Coalescing::AsKeyspace));
    }

    /// Requests the next page of a scan.
    pub(super) fn scan_page(&mut self, number: usize) {
        let now = self.now();
        let Some(one) = self.scans.open.get_mut(&number) else { return };
        let paused_until = self.clients[one.client].paused_until;
        if now < paused_until {
            return self.agenda.at(paused_until, ClusterEvent::ScanPage(number));
        }
        let Some((partition, cursor)) = one.left.front().cloned() else { return };
        let (client, keyspace) = (one.client, one.keyspace);
        if one.entry == usize::MAX {
            one.entry = self.history.scans.len();
            let begun = Scan { client, keyspace, begin: now, end: None, pages: Vec::new() };
            self.history.scans.push(begun);
            self.trace.record(now, format_args!("c{client} scans {keyspace}, #{number}"));
        }
        let group = self.watch.map.keyspace(keyspace).and_then(|known| known.group(partition));
        let primary = group.map(|group| group.primary);
        if !cursor.is_empty() && one.primary.is_some() && primary.is_some() && primary != one.primary {
            self.coverage.blob("scans that went on at another primary");
        }
        one.primary = primary;
        let page = ScanPage { requested_at: now, answered_at: None, keys: Vec::new() };
        let limit_us = self.scans.random.between(500 * MS, 8_000 * MS);
        let slice = (partition, one.partitions);
        let request = SessionRequest::scan(keyspace, slice, cursor, Bytes::new(), one.keys_max, limit_us);
        self.history.scans[one.entry].pages.push(page);
        self.clients[client].session.submit(now, request, SCANS_FROM + number);
        let soon = self.streams.schedule.below(20);
        self.schedule_client(client, now.after_us(soon));
    }

    /// A page has arrived, or the request has failed.
    pub(super) fn handle_scan_answer(&mut self, token: usize, result: Result<Reply, SessionError>) {
        let now = self.now();
        let number = token - SCANS_FROM;
        let Some(one) = self.scans.open.get_mut(&number) else { return };
        let scan = &mut self.history.scans[one.entry];
        let rest_us = match result {
            Ok(Reply::Page { next, keys }) => {
                one.failures = 0;
                if let Some(page) = scan.pages.last_mut() {
                    page.answered_at = Some(now);
                    page.keys = keys.iter().map(|listed| listed.key.to_vec().into_boxed_slice()).collect();
                    self.trace.record(now, format_args!("scan #{number} is told {page}"));
                }
                match one.left.front_mut() {
                    Some((_, cursor)) if !next.is_empty() => *cursor = next,
                    _ => {
                        one.left.pop_front();
                        one.primary = None;
                    }
                }
                one.page_pause_us_max
            }
            // The keyspace was split: each partition has become several, which the scan visits in
            // the parent's hash order.
            Err(SessionError::Split { partitions }) => {
                scan.pages.pop();
                let each = partitions.get() / one.partitions.get();
                let children = |(partition, cursor): (PartitionId, Bytes)| {
                    (0..each).map(move |n| (PartitionId(partition.0 * each + n), cursor.clone()))
                };
                let is_amidst = one.left.front().is_some_and(|(_, cursor)| !cursor.is_empty());
                one.left = std::mem::take(&mut one.left).into_iter().flat_map(children).collect();
                (one.partitions, one.primary) = (partitions, None);
                if is_amidst {
                    self.coverage.blob("scans that went on in children");
                }
                1
            }
            // The same page can be requested again.
            Err(_) if one.failures < FAILURES_MAX => {
                scan.pages.pop();
                one.failures += 1;
                1_000 * MS
            }
            other => {
                self.trace.record(now, format_args!("scan #{number} fails: {other:?}"));
                self.scans.open.remove(&number);
                return self.coverage.blob("scans that failed");
            }
        };
        if scan.pages.len() > PAGES_MAX {
            let what =
                format!("scan #{number} of {} has had {PAGES_MAX} pages, and does not end", one.keyspace);
            self.scans.open.remove(&number);
            return self.record_violation("scan", what);
        }
        if one.left.is_empty() {
            scan.end = Some(now);
            self.scans.open.remove(&number);
            return self.coverage.blob("scans to the end");
        }
        let rest_us = self.scans.random.below(rest_us);
        self.agenda.at(now.after_us(rest_us), ClusterEvent::ScanPage(number));
    }
}
