//! Counters and figures of an instance.

use std::collections::BTreeMap;

use zerohop_base::invariant::BrokenInvariant;
use zerohop_engine::disk::Disk;
use zerohop_engine::limits::BALLAST_BYTES;
use zerohop_engine::{EngineError, EngineStats, PartitionStats};
use zerohop_wire::ids::{KeyspaceId, PartitionId};
use zerohop_wire::{ErrorCode, FrameKind};

use super::{ClockReading, Instance, InstanceWatches};
use crate::limits::{DAMAGED_REPORTED_MAX, ERRORS_MAX};
use zerohop_replication::{CopyDamage, Replica, Role};

/// Figures of the copies of one keyspace's partitions in an instance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyspaceFigures {
    /// Copies of its partitions here.
    pub copies: u64,
    /// Records of the partitions whose primary is here, so that the sum over all instances counts each record once. An estimate during post-split
    /// cleanup.
    pub records: u64,
    /// Bytes of the logs of all copies here.
    pub log_bytes: u64,
    /// Copies here that accept no writes, because the disk has failed under their log.
    pub failed_copies: u64,
    /// Those of them that are primaries.
    pub failed_primaries: u64,
    /// The keyspace is being dropped, and nothing is in progress in it where this instance is primary.
    pub is_drained: bool,
}

/// Partitions of keyspaces that were split whose children are not made yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PendingSplits {
    /// Their number. They serve no requests.
    pub parents: u64,
    /// Children with their primary here, which are not served.
    pub primaries: u64,
}

/// Figures of an instance. Counters start at its start.
#[derive(Clone, Debug, Default)]
pub struct InstanceStats {
    /// Requests by kind; kinds without requests are left out. The operations of a batch are not counted separately.
    pub requests: Vec<(FrameKind, u64)>,
    /// Answered failures, by error code.
    pub failures: Vec<(u16, u64)>,
    /// Requests dropped because their client already has the answer.
    pub dropped_requests: u64,
    /// Atomic batches run for other protocols.
    pub atomic_batches: u64,
    /// Flushes for `sync` partitions; each answers a whole batch.
    pub flushes: u64,
    /// Partitions here.
    pub partitions: u64,
    /// Splits that are not done yet.
    pub splits_pending: PendingSplits,
    /// Figures of the engine.
    pub engine: EngineStats,
    /// All partitions together: sizes and counts are sums. During post-split cleanup the records are an estimate.
    pub records: u64,
    /// Figures by keyspace, of those with a copy here and of those that are being dropped.
    pub keyspaces: BTreeMap<KeyspaceId, KeyspaceFigures>,
    /// Pieces staged for future transactions.
    pub staged: u64,
    /// Bytes of the staged pieces.
    pub staged_bytes: u64,
    /// Snapshots that partitions keep, each counted in every member of every partition.
    pub snapshots: u64,
    /// Older versions kept.
    pub versions: u64,
    /// Bytes of all logs.
    pub log_bytes: u64,
    /// Bytes of the logs that are still needed.
    pub live_bytes: u64,
    /// Segment files.
    pub segments: u64,
    /// Bytes of the newest checkpoints.
    pub checkpoint_bytes: u64,
    /// Memory of indexes and tables, in bytes.
    pub overhead_bytes: u64,
    /// Snapshots of partitions that are being sent to other instances.
    pub copies: u64,
    /// The approximate bytes of these snapshots that are still to be sent.
    pub copies_left_bytes: u64,
    /// Sessions remembered, over all partitions.
    pub sessions: u64,
    /// Requests that wait for a record to reach a state.
    pub waits: u64,
    /// The disk had no room for new entries at the last check.
    pub is_full: bool,
    /// By how many milliseconds the wall clock was set ahead that is not followed, because no other instance's time agrees.
    pub clock_distrusted_ms: u64,
    /// The bytes that are free on the disk now; [`u64::MAX`]: the disk does not report it.
    pub free_bytes: u64,
    /// Partitions whose only in-sync copy is here and was found damaged at the start. They serve no requests.
    pub damaged: u64,
    /// What was found in the first of the damaged partitions.
    pub damage_text: Vec<(KeyspaceId, PartitionId, CopyDamage)>,
    /// The first of the partitions that have continued without their damaged part, on an operator's command, since the start.
    pub loss_accepted: Vec<(KeyspaceId, PartitionId, CopyDamage)>,
    /// Invariants of partitions that were found broken since the start. Each such partition has stopped.
    pub broken_invariants: Vec<(KeyspaceId, PartitionId, BrokenInvariant)>,
    /// Failures that no request has caused, the newest last: syncs that failed, writes that stopped.
    pub errors: Vec<String>,
}

/// The logs of an instance that accept no entries, because the disk has failed under them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailedLogs<'i> {
    /// The keyspace of the first.
    pub keyspace: KeyspaceId,
    /// The partition of the first.
    pub partition: PartitionId,
    /// The failure of the first.
    pub reason: &'i str,
    /// How many there are.
    pub copies: usize,
}

/// Counters of requests and failures, at two additions for each.
#[derive(Debug)]
pub(super) struct RequestCounters {
    requests: [u64; KINDS],
    failures: [u64; CODES],
    pub(super) dropped_requests: u64,
    pub(super) atomic_batches: u64,
    pub(super) flushes: u64,
    broken_invariants: Vec<(KeyspaceId, PartitionId, BrokenInvariant)>,
    errors: Vec<String>,
}

/// Numbers of each class of requests (the second byte of a kind); those of blobs start at 32.
const KINDS_OF_CLASS: usize = 64;
/// There are four classes of requests.
const KINDS: usize = 4 * KINDS_OF_CLASS;
/// Error codes are below this.
const CODES: usize = 512;

impl Default for RequestCounters {
    fn default() -> RequestCounters {
        RequestCounters {
            requests: [0; KINDS],
            failures: [0; CODES],
            dropped_requests: 0,
            atomic_batches: 0,
            flushes: 0,
            broken_invariants: Vec::new(),
            errors: Vec::new(),
        }
    }
}

impl RequestCounters {
    #[inline]
    pub(super) fn count_request(&mut self, kind: FrameKind) {
        if let Some(count) = self.requests.get_mut(kind_index(kind)) {
            *count += 1;
        }
    }

    pub(super) fn failed(&mut self, code: u16) {
        if let Some(count) = self.failures.get_mut(usize::from(code)) {
            *count += 1;
        }
    }

    /// Records a failure that no request has caused, once if it repeats. A full disk is none: the statistics say so for as long
    /// as it is full.
    pub(super) fn record_error(&mut self, error: &EngineError) {
        if !matches!(error, EngineError::DiskFull { .. }) {
            self.record_error_text(error.to_string());
        }
    }

    /// The newest failure that no request has caused.
    pub(super) fn newest_error(&self) -> Option<&str> {
        self.errors.last().map(String::as_str)
    }

    /// Records that an invariant of a partition is broken.
    pub(super) fn record_broken(
        &mut self,
        keyspace: KeyspaceId,
        partition: PartitionId,
        broken: BrokenInvariant,
    ) {
        let found = (keyspace, partition, broken);
        if self.broken_invariants.contains(&found) {
            return;
        }
        self.broken_invariants.push(found);
        self.record_error_text(format!(
            "keyspace {keyspace}, partition {partition}: {broken}; this replica has stopped, and its log is not \
             written, until the process starts again; another in-sync replica takes over if there is one"
        ));
    }

    /// [`RequestCounters::record_error`] for a text.
    pub(super) fn record_error_text(&mut self, text: String) {
        if !self.errors.contains(&text) {
            if self.errors.len() == ERRORS_MAX {
                self.errors.remove(0);
            }
            self.errors.push(text);
        }
    }
}

fn kind_index(kind: FrameKind) -> usize {
    let number = usize::from(kind.number());
    (number >> 8) * KINDS_OF_CLASS + number % KINDS_OF_CLASS
}

impl<D: Disk> Instance<D> {
    /// Whether its disk has room for new entries.
    pub fn has_disk_space(&self) -> bool {
        self.engine.has_disk_space()
    }

    /// See [`zerohop_engine::Engine::awaits_disk_space`].
    pub fn awaits_disk_space(&self) -> bool {
        self.engine.awaits_disk_space()
    }

    /// Holds room for removals on a full disk: see [`zerohop_engine::Engine::keep_ballast`].
    pub fn keep_ballast(&mut self) {
        self.engine.keep_ballast(BALLAST_BYTES);
    }

    /// A number that rises with each answer about a failed disk and each new failure that no request has caused: only then may more logs have
    /// failed.
    pub fn disk_failures(&self) -> u64 {
        self.counters.failures[usize::from(ErrorCode::DiskFailed.number())]
            + self.counters.errors.len() as u64
    }

    /// The number of copies here whose log has failed, and the first of them with the reason. Walks over all partitions.
    pub fn failed_logs(&self) -> Option<FailedLogs<'_>> {
        let mut failed = self.partitions.by.iter().filter_map(|(place, replica)| {
            self.engine.disk_failure(replica.handle()).map(|reason| (place, reason))
        });
        let ((keyspace, partition), reason) = failed.next()?;
        Some(FailedLogs { keyspace, partition, reason, copies: 1 + failed.count() })
    }

    /// Records of a keyspace in the partitions whose primary is here, as [`KeyspaceFigures::records`]. Walks over all partitions.
    pub fn primary_records(&self, keyspace: KeyspaceId) -> u64 {
        let primaries = self
            .partitions
            .by
            .iter()
            .filter(|(place, replica)| place.0 == keyspace && replica.role() == Role::Primary);
        primaries
            .map(|(_, replica)| {
                let (own, all) = (replica.stats(), self.engine.records(replica.handle()).unwrap_or_default());
                own.own_records(all.saturating_sub(own.staged))
            })
            .sum()
    }

    /// The watches of the partitions whose primary is here. Walks over all partitions, so it is for reports.
    pub fn watches(&mut self, now: ClockReading) -> InstanceWatches {
        self.clock.advance(now);
        let primaries = self.partitions.by.iter().filter(|(_, replica)| replica.role() == Role::Primary);
        let primaries = primaries.map(|(place, replica)| (place.0, replica.partition()));
        InstanceWatches::of(primaries, self.clock.now().ms)
    }

    /// The figures of the instance. Walks over all partitions, so it is for reports, not for every request.
    pub fn stats(&mut self) -> InstanceStats {
        let drained = self.drained();
        let splits_pending =
            PendingSplits { parents: self.splits_pending() as u64, primaries: self.unsplit_primaries() };
        let Instance { engine, partitions, counters, clock, .. } = self;
        engine.check_disk_space();
        let requests = FrameKind::ALL.iter().filter(|kind| !kind.is_answer());
        let requests = requests.map(|kind| (*kind, counters.requests[kind_index(*kind)]));
        let mut stats = InstanceStats {
            requests: requests.filter(|(_, count)| *count > 0).collect(),
            failures: (0..).zip(counters.failures).filter(|(_, count)| *count > 0).collect(),
            dropped_requests: counters.dropped_requests,
            atomic_batches: counters.atomic_batches,
            flushes: counters.flushes,
            broken_invariants: counters.broken_invariants.clone(),
            partitions: partitions.len() as u64,
            splits_pending,
            engine: engine.stats(),
            errors: counters.errors.clone(),
            clock_distrusted_ms: clock.clock_jump_ms(),
            is_full: !engine.has_disk_space(),
            free_bytes: engine.disk().free_bytes().unwrap_or(u64::MAX),
            ..InstanceStats::default()
        };
        for keyspace in drained {
            stats.keyspaces.entry(keyspace).or_default().is_drained = true;
        }
        for copying in partitions.replicas().flat_map(Replica::copies) {
            stats.copies += 1;
            stats.copies_left_bytes += copying.total_bytes.saturating_sub(copying.done_bytes);
        }
        for (place, replica) in partitions.by.iter() {
            let row = |damaged: CopyDamage| (place.0, place.1, damaged);
            if let Some(damaged) = replica.sole_copy_damage() {
                stats.damaged += 1;
                if stats.damage_text.len() < DAMAGED_REPORTED_MAX {
                    stats.damage_text.push(row(damaged));
                }
            }
            let has_room = stats.loss_accepted.len() < DAMAGED_REPORTED_MAX;
            stats.loss_accepted.extend(replica.loss_accepted().filter(|_| has_room).cloned().map(row));
        }
        for (place, replica) in partitions.by.iter() {
            let (own, handle) = (replica.stats(), replica.handle());
            stats.sessions += own.sessions as u64;
            stats.waits += own.waits as u64;
            stats.snapshots += own.snapshots as u64;
            stats.staged += own.staged;
            stats.staged_bytes += own.staged_bytes;
            // Every partition here is open in the engine.
            let PartitionStats {
                records, versions, log, checkpoint_bytes, overhead_bytes, has_failed, ..
            } = engine.partition_stats(handle).unwrap_or_default();
            // Staged pieces are internal records of the partition.
            let records = own.own_records(records.saturating_sub(own.staged));
            let of_keyspace = stats.keyspaces.entry(place.0).or_default();
            of_keyspace.copies += 1;
            of_keyspace.records += if replica.role() == Role::Primary { records } else { 0 };
            of_keyspace.log_bytes += log.bytes;
            of_keyspace.failed_copies += u64::from(has_failed);
            of_keyspace.failed_primaries += u64::from(has_failed && replica.role() == Role::Primary);
            stats.records += records;
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

    #[test]
    fn full_disk_is_no_lasting_error() {
        let mut counters = RequestCounters::default();
        counters.record_error(&EngineError::DiskFull { free_bytes: 7 });
        assert_eq!(counters.newest_error(), None);
        counters.record_error(&EngineError::UnknownPartition);
        assert!(counters.newest_error().is_some());
    }

    #[test]
    fn every_request_kind_and_code_has_its_own_counter() {
        let mut places: Vec<usize> =
            FrameKind::ALL.iter().filter(|kind| !kind.is_answer()).map(|kind| kind_index(*kind)).collect();
        let count = places.len();
        places.sort_unstable();
        places.dedup();
        assert_eq!(places.len(), count);
        assert!(places.iter().all(|place| *place < KINDS));
        assert!(ErrorCode::ALL.iter().all(|code| usize::from(code.number()) < CODES));
    }
}
