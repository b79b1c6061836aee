//! The clients' part in scans: now and then one goes through all keys of a keyspace, page by page, as `crates/client` does, with
//! pauses between pages, whatever befalls the members meanwhile: the next page may come from another primary, or from children of a
//! split. What it was told goes into the history (`check/scans.rs` looks at it).
//!
//! The few keys that all clients meet at are not enough to go through: before its scan a client puts some of others there, of which
//! it takes a few away again.

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

/// Tokens of a session's operations from here on are those of scans.
pub(super) const SCANS_FROM: usize = 1 << 45;

/// And from here on those of writes of keys to go through, each its place in the history.
pub(super) const PUTS_FROM: usize = 1 << 46;

/// One of so many calls begins one.
const OF_CALLS: u64 = 80;

/// So many are under way at a time.
const OPEN_MAX: usize = 4;

/// Keys of a keyspace that are there to be gone through.
const MANY: u64 = 40;

/// So many of them are written before a scan, at most.
const PUTS_MAX: u64 = 14;

/// One of so many of these is a removal.
const OF_PUTS: u64 = 8;

/// After so many failures one after the other a client lets a scan be.
const FAILURES_MAX: u32 = 8;

/// No scan has more pages than these: there are few keys, and little that could make pages without any.
const PAGES_MAX: usize = 2_000;

/// What all clients have under way.
#[derive(Debug)]
pub(super) struct Scans {
    random: Random,
    open: BTreeMap<usize, RunningScan>,
    next: usize,
}

#[derive(Clone, Debug)]
struct RunningScan {
    client: usize,
    /// Its place among the scans of the history.
    entry: usize,
    keyspace: KeyspaceId,
    partitions: PartitionCount,
    /// What is still to be gone through, the next first: partitions, and where in each.
    left: VecDeque<(PartitionId, Bytes)>,
    keys_max: u32,
    /// How long it rests between two pages, at most.
    rest_us: u64,
    /// Who was primary as the page before was asked for.
    primary: Option<InstanceId>,
    /// Failures one after the other.
    failures: u32,
}

impl Scans {
    pub(super) fn new(random: Random) -> Scans {
        Scans { random, open: BTreeMap::new(), next: 0 }
    }

    /// A client dies.
    pub(super) fn forget(&mut self, client: usize) {
        self.open.retain(|_, one| one.client != client);
    }
}

impl SimulatedCluster {
    /// A client may go through all keys of a keyspace, beside what else it does.
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
        // What its next pages come from changes most where something has just befallen the primary.
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
            rest_us,
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

    /// The next page of a scan is asked for.
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
            self.trace.say(now, format_args!("c{client} scans {keyspace}, #{number}"));
        }
        let group = self.watch.map.keyspace(keyspace).and_then(|known| known.group(partition));
        let primary = group.map(|group| group.primary);
        if !cursor.is_empty() && one.primary.is_some() && primary.is_some() && primary != one.primary {
            self.coverage.blob("scans that went on at another primary");
        }
        one.primary = primary;
        let page = ScanPage { asked: now, told: None, keys: Vec::new() };
        let limit_us = self.scans.random.between(500 * MS, 8_000 * MS);
        let slice = (partition, one.partitions);
        let request = SessionRequest::scan(keyspace, slice, cursor, Bytes::new(), one.keys_max, limit_us);
        self.history.scans[one.entry].pages.push(page);
        self.clients[client].session.submit(now, request, SCANS_FROM + number);
        let soon = self.streams.schedule.below(20);
        self.wake_client(client, now.after_us(soon));
    }

    /// A page has come, or could not be had.
    pub(super) fn scan_is_told(&mut self, token: usize, result: Result<Reply, SessionError>) {
        let now = self.now();
        let number = token - SCANS_FROM;
        let Some(one) = self.scans.open.get_mut(&number) else { return };
        let scan = &mut self.history.scans[one.entry];
        let rest_us = match result {
            Ok(Reply::Page { next, keys }) => {
                one.failures = 0;
                if let Some(page) = scan.pages.last_mut() {
                    page.told = Some(now);
                    page.keys = keys.iter().map(|listed| listed.key.to_vec().into_boxed_slice()).collect();
                    self.trace.say(now, format_args!("scan #{number} is told {page}"));
                }
                match one.left.front_mut() {
                    Some((_, cursor)) if !next.is_empty() => *cursor = next,
                    _ => {
                        one.left.pop_front();
                        one.primary = None;
                    }
                }
                one.rest_us
            }
            // It was split: each partition has become several, which go through their keys in the order that it had.
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
            // The same page can be asked for again.
            Err(_) if one.failures < FAILURES_MAX => {
                scan.pages.pop();
                one.failures += 1;
                1_000 * MS
            }
            other => {
                self.trace.say(now, format_args!("scan #{number} fails: {other:?}"));
                self.scans.open.remove(&number);
                return self.coverage.blob("scans that failed");
            }
        };
        if scan.pages.len() > PAGES_MAX {
            let what =
                format!("scan #{number} of {} has had {PAGES_MAX} pages, and does not end", one.keyspace);
            self.scans.open.remove(&number);
            return self.trouble("scan", what);
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
