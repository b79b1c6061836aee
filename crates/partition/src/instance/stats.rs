//! What an instance counts, and how it stands.

use zerohop_engine::disk::Disk;
use zerohop_engine::{EngineError, EngineStats, PartitionStats};
use zerohop_wire::Kind;
use zerohop_wire::ids::{KeyspaceId, PartitionId};

use super::Instance;
use crate::limits::{DAMAGED_TOLD_MAX, TROUBLES_MAX};
use crate::replica::{CopyDamage, Replica};

/// How an instance stands. Counts begin at its start.
#[derive(Clone, Debug, Default)]
pub struct InstanceStats {
    /// Requests by kind; kinds that were never asked are left out. The operations of a batch are not counted one by one.
    pub requests: Vec<(Kind, u64)>,
    /// Failures answered, by error code.
    pub failures: Vec<(u16, u64)>,
    /// Requests let go because their asker has the answer.
    pub let_go: u64,
    /// Units run for other protocols.
    pub units: u64,
    /// Flushes for `sync` partitions; each answers a whole batch.
    pub flushes: u64,
    /// Partitions held.
    pub partitions: u64,
    /// Those of the engine.
    pub engine: EngineStats,
    /// All partitions together: sizes and counts are sums. While partitions that were split let go of what went to their
    /// siblings, their records are an estimate.
    pub records: u64,
    /// Pieces staged for transactions to come, and their bytes.
    pub staged: u64,
    /// See `staged`.
    pub staged_bytes: u64,
    /// Snapshots that partitions keep for, each counted in every member of every partition.
    pub snapshots: u64,
    /// Keyspaces that are being dropped, as it knows, and in which nothing is under way where it is primary.
    pub drained: Vec<KeyspaceId>,
    /// Older versions kept.
    pub versions: u64,
    /// Bytes of all logs.
    pub log_bytes: u64,
    /// Bytes of them that are still needed.
    pub live_bytes: u64,
    /// Segment files.
    pub segments: u64,
    /// Bytes of the newest checkpoints.
    pub checkpoint_bytes: u64,
    /// Memory of indexes and tables, in bytes.
    pub overhead_bytes: u64,
    /// Copies of partitions that are being sent whole to other instances, and the bytes that these are yet to have, about.
    pub copies: u64,
    /// See `copies`.
    pub copies_left_bytes: u64,
    /// Sessions remembered, over all partitions.
    pub sessions: u64,
    /// Requests that wait for a record to become something.
    pub waits: u64,
    /// The disk has no room for new entries, as far as the last look told; and how many bytes are free on it now.
    pub is_full: bool,
    /// By how many milliseconds the time of day was set ahead that it does not follow, as no other instance's agrees.
    pub clock_distrusted_ms: u64,
    /// See `is_full`; [`u64::MAX`]: it does not say.
    pub free_bytes: u64,
    /// Partitions of which the only copy that counts is here and was found damaged by the start: nobody is served there. Of the first
    /// of them what was found.
    pub damaged: u64,
    /// See `damaged`.
    pub damaged_told: Vec<(KeyspaceId, PartitionId, CopyDamage)>,
    /// Those that have gone on without what was found damaged, on an operator's word, since the start; the first of them.
    pub given_up: Vec<(KeyspaceId, PartitionId, CopyDamage)>,
    /// What went wrong where no request was at fault, the newest last: syncs that failed, writes that stopped.
    pub troubles: Vec<String>,
}

/// Counts of requests and failures: two additions for each.
#[derive(Debug)]
pub(super) struct RequestCounters {
    requests: [u64; KINDS],
    failures: [u64; CODES],
    pub(super) let_go: u64,
    pub(super) units: u64,
    pub(super) flushes: u64,
    troubles: Vec<String>,
}

/// Numbers of each class of requests (the second byte of a kind): those of blobs begin at 32.
const KINDS_OF_CLASS: usize = 64;
/// Requests are of four classes.
const KINDS: usize = 4 * KINDS_OF_CLASS;
/// Error codes are below this.
const CODES: usize = 512;

impl Default for RequestCounters {
    fn default() -> RequestCounters {
        RequestCounters {
            requests: [0; KINDS],
            failures: [0; CODES],
            let_go: 0,
            units: 0,
            flushes: 0,
            troubles: Vec::new(),
        }
    }
}

impl RequestCounters {
    #[inline]
    pub(super) fn asked(&mut self, kind: Kind) {
        if let Some(count) = self.requests.get_mut(place_of(kind)) {
            *count += 1;
        }
    }

    pub(super) fn failed(&mut self, code: u16) {
        if let Some(count) = self.failures.get_mut(usize::from(code)) {
            *count += 1;
        }
    }

    /// Takes note of a failure that is no request's fault, once if it repeats.
    pub(super) fn trouble(&mut self, error: &EngineError) {
        self.trouble_text(error.to_string());
    }

    /// The same in words.
    pub(super) fn trouble_text(&mut self, text: String) {
        if !self.troubles.contains(&text) {
            if self.troubles.len() == TROUBLES_MAX {
                self.troubles.remove(0);
            }
            self.troubles.push(text);
        }
    }
}

fn place_of(kind: Kind) -> usize {
    let number = usize::from(kind.number());
    (number >> 8) * KINDS_OF_CLASS + number % KINDS_OF_CLASS
}

impl<D: Disk> Instance<D> {
    /// Whether its disk has room for new entries.
    pub fn has_room(&self) -> bool {
        self.engine.has_room()
    }

    /// How it stands. Walks over all partitions: for reports, not for every request.
    pub fn stats(&mut self) -> InstanceStats {
        let drained = self.drained();
        let Instance { engine, table, groups, counters, clock, .. } = self;
        engine.look_at_room();
        let asked = Kind::ALL.iter().filter(|kind| !kind.is_answer());
        let asked = asked.map(|kind| (*kind, counters.requests[place_of(*kind)]));
        let mut stats = InstanceStats {
            requests: asked.filter(|(_, count)| *count > 0).collect(),
            failures: (0..).zip(counters.failures).filter(|(_, count)| *count > 0).collect(),
            let_go: counters.let_go,
            units: counters.units,
            flushes: counters.flushes,
            partitions: (table.len() + groups.len()) as u64,
            drained,
            engine: engine.stats(),
            troubles: counters.troubles.clone(),
            clock_distrusted_ms: clock.distrusted_ms(),
            is_full: !engine.has_room(),
            free_bytes: engine.disk().free_bytes().unwrap_or(u64::MAX),
            ..InstanceStats::default()
        };
        for copying in groups.replicas().flat_map(Replica::copies) {
            stats.copies += 1;
            stats.copies_left_bytes += copying.total_bytes.saturating_sub(copying.done_bytes);
        }
        for (place, replica) in groups.by.iter() {
            let told = |damaged: CopyDamage| (place.0, place.1, damaged);
            if let Some(damaged) = replica.damaged_alone() {
                stats.damaged += 1;
                if stats.damaged_told.len() < DAMAGED_TOLD_MAX {
                    stats.damaged_told.push(told(damaged));
                }
            }
            let has_room = stats.given_up.len() < DAMAGED_TOLD_MAX;
            stats.given_up.extend(replica.given_up().filter(|_| has_room).cloned().map(told));
        }
        let shared = groups.replicas().map(|replica| (replica.stats(), replica.handle()));
        let slots = table.slots();
        let alone = slots.iter().map(|slot| table.partition(*slot));
        for (own, handle) in alone.map(|one| (one.stats(), one.handle())).chain(shared) {
            stats.sessions += own.sessions as u64;
            stats.waits += own.waits as u64;
            stats.snapshots += own.snapshots as u64;
            stats.staged += own.staged;
            stats.staged_bytes += own.staged_bytes;
            // A partition that is held is open in the engine.
            let PartitionStats { records, versions, log, checkpoint_bytes, overhead_bytes, .. } =
                engine.partition_stats(handle).unwrap_or_default();
            // Pieces are records of the partition's own.
            stats.records += own.own_of(records.saturating_sub(own.staged));
            stats.versions += versions;
            stats.log_bytes += log.bytes;
            stats.live_bytes += log.bytes.saturating_sub(log.dead_bytes);
            stats.segments += log.segments;
            stats.checkpoint_bytes += checkpoint_bytes;
            stats.overhead_bytes += overhead_bytes;
        }
        stats
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerohop_wire::ErrorCode;

    #[test]
    fn every_kind_of_request_and_every_code_has_a_place_of_its_own() {
        let mut places: Vec<usize> =
            Kind::ALL.iter().filter(|kind| !kind.is_answer()).map(|kind| place_of(*kind)).collect();
        let count = places.len();
        places.sort_unstable();
        places.dedup();
        assert_eq!(places.len(), count);
        assert!(places.iter().all(|place| *place < KINDS));
        assert!(ErrorCode::ALL.iter().all(|code| usize::from(code.number()) < CODES));
    }
}
