//! Post-split cleanup: after a split a partition has the records of both siblings. It removes the records that are not its own,
//! a few at a time, while it serves. A region walks over the order of its keys, which is in memory, and any other partition over its hash index,
//! whose keys it reads.
//!
//! The primary logs each removal, and a mark at the end. All members therefore have the same records at the same log index,
//! whichever member is primary. After a crash only the walk starts again. Until the end clients do not see foreign records: scans
//! and counts skip them, and requests that name their keys are refused. Data staged before the split belongs to both siblings,
//! and is removed with its transaction.

use std::ops::Bound;

use zerohop_engine::disk::Disk;
use zerohop_engine::{Cursor, Engine, EngineError, EngineResult, EntryKind, Handle, KeyRange};
use zerohop_wire::blob::is_staged;
use zerohop_wire::messages::{SnapshotQuery, SnapshotRequest};
use zerohop_wire::{Failure, Message};

use super::Partition;
use crate::entry_metadata::Mark;
use crate::event::PartitionEffects;
use crate::hash_range::HashRange;
use crate::limits::{
    SPLIT_CLEANUP_AHEAD_MAX, SPLIT_CLEANUP_KEYS_MAX, SPLIT_CLEANUP_PARTITIONS_PER_MS, SPLIT_CLEANUP_PAUSE_MS,
    SPLIT_CLEANUP_WALKED_MAX,
};
use crate::log_writer::NewLogEntry;
use crate::planted::{Bug, is_planted};

/// The progress of the cleanup.
#[derive(Debug, Default)]
pub(super) struct SplitCleanup {
    /// `None`: the caller that opened the partition did not set it, so all keys are its own.
    hash_range: Option<HashRange>,
    /// Where the walk continues.
    walk: Walk,
    /// The time of the next step.
    at_ms: u64,
    /// The mark of the end is in the log.
    is_end_logged: bool,
    /// Records removed since the partition was opened.
    removed: u64,
}

/// The place behind which the walk over the keys continues.
#[derive(Debug)]
enum Walk {
    /// In the hash index.
    Hashes(Cursor),
    /// In the order of the keys; an empty key is before all others.
    Keys(Vec<u8>),
}

impl Default for Walk {
    fn default() -> Walk {
        Walk::Hashes(Cursor::START)
    }
}

impl Walk {
    /// Before all keys.
    fn of(hash_range: &HashRange) -> Walk {
        if hash_range.region().is_some() { Walk::Keys(Vec::new()) } else { Walk::default() }
    }

    /// The keys of a step that may be foreign, and where the next step begins; `None`: at the end.
    fn step<D: Disk>(
        &self,
        engine: &mut Engine<D>,
        handle: Handle,
        is_foreign: impl Fn(&[u8]) -> bool,
    ) -> EngineResult<(Vec<Vec<u8>>, Option<Walk>)> {
        match self {
            Walk::Hashes(cursor) => {
                let (mut keys, next) = engine.scan_few(handle, cursor, SPLIT_CLEANUP_KEYS_MAX)?;
                keys.retain(|key| is_foreign(key));
                Ok((keys, next.map(Walk::Hashes)))
            }
            Walk::Keys(behind) => {
                let from =
                    if behind.is_empty() { Bound::Unbounded } else { Bound::Excluded(behind.as_slice()) };
                let range = KeyRange { from, to: Bound::Unbounded, is_reverse: false };
                let found = engine.key_order(handle)?.keys(range, SPLIT_CLEANUP_WALKED_MAX, None)?;
                let last = found.keys.last().cloned();
                let mut foreign: Vec<_> = found.keys.into_iter().filter(|key| is_foreign(key)).collect();
                let is_cut = foreign.len() > SPLIT_CLEANUP_KEYS_MAX;
                foreign.truncate(SPLIT_CLEANUP_KEYS_MAX);
                let reached = if is_cut { foreign.last().cloned() } else { last };
                let has_more = is_cut || found.has_more;
                Ok((foreign, reached.filter(|_| has_more).map(Walk::Keys)))
            }
        }
    }
}

impl SplitCleanup {
    pub(super) fn new(hash_range: HashRange) -> SplitCleanup {
        let walk = Walk::of(&hash_range);
        SplitCleanup { hash_range: Some(hash_range), walk, ..SplitCleanup::default() }
    }

    /// The member is no longer primary: removals in its log that were not committed may be lost, and the mark of the end too.
    pub(super) fn begin_again(&mut self) {
        self.walk = self.hash_range.as_ref().map(Walk::of).unwrap_or_default();
        self.is_end_logged = false;
    }
}

impl Partition {
    /// The state that its children need beside its log, and its log index.
    pub fn state_for_children(&self) -> (u64, Vec<u8>) {
        (self.state.applied, self.state.encode())
    }

    /// Sets the hash range whose keys are its own.
    pub fn set_hash_range(&mut self, hash_range: HashRange) {
        self.split_cleanup = SplitCleanup::new(hash_range);
    }

    /// Its hash range, if the caller that opened it has set one.
    pub(super) fn hash_range(&self) -> Option<HashRange> {
        self.split_cleanup.hash_range.clone()
    }

    /// Whether all keys that a request names are its own. The sender may have routed it by another map, on any path and with any
    /// delay. The items of a transaction are checked when it is prepared.
    #[inline]
    pub(super) fn owns_keys_of(&self, message: &Message<'_>) -> bool {
        let Some(hash_range) =
            self.split_cleanup.hash_range.as_ref().filter(|_| !is_planted(Bug::HashRangeNotChecked))
        else {
            return true;
        };
        // Keys of staged pieces are stored with their transaction. No request may name them; they are refused elsewhere.
        let is_own = |key: &[u8]| hash_range.owns(key) || is_staged(key);
        match message {
            Message::Read { read, .. } => is_own(read.key),
            Message::Write { write, .. } => is_own(write.key),
            Message::Batch(batch) => batch.operations.iter().all(|operation| is_own(operation.key())),
            Message::Snapshot(SnapshotRequest { request: SnapshotQuery::Read { read, .. }, .. }) => {
                is_own(read.key)
            }
            _ => true,
        }
    }

    /// Whether a key belongs to the partition.
    pub(super) fn owns(&self, key: &[u8]) -> bool {
        self.split_cleanup.hash_range.as_ref().is_none_or(|hash_range| hash_range.owns(key))
    }

    /// Its hash range, as long as it may have foreign records.
    #[must_use]
    pub fn foreign(&self) -> Option<HashRange> {
        let hash_range = self.split_cleanup.hash_range.as_ref();
        let foreign = hash_range.filter(|hash_range| {
            hash_range.generation() != self.state.cleaned_splits && self.log_writer.last() > 0
        });
        foreign.filter(|_| !is_planted(Bug::SiblingRecordsCounted)).cloned()
    }

    /// Its hash range, if a snapshot may show foreign records: the versions that the cleanup has ended stay while a snapshot from before it is
    /// open.
    pub(super) fn snapshot_range(&self) -> Option<HashRange> {
        self.split_cleanup.hash_range.clone().filter(|_| !is_planted(Bug::SiblingRecordsCounted))
    }

    /// Records removed as a sibling's, while there may be more of them.
    pub(super) fn removed_of_siblings(&self) -> Option<u64> {
        self.foreign().map(|_| self.split_cleanup.removed)
    }

    /// When the next step is due.
    pub(super) fn next_split_cleanup_ms(&self) -> Option<u64> {
        self.foreign().filter(|_| !self.split_cleanup.is_end_logged).map(|_| self.split_cleanup.at_ms)
    }

    /// Removes a few foreign records, if it is time. Only for a primary that has committed all earlier
    /// entries.
    pub(super) fn clean_up_split<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        effects: &mut dyn PartitionEffects,
    ) -> EngineResult<()> {
        let (Some(hash_range), now_ms) = (self.foreign(), self.clock.now_ms()) else { return Ok(()) };
        let is_behind = self.log_writer.last() - self.state.applied > SPLIT_CLEANUP_AHEAD_MAX;
        if self.split_cleanup.is_end_logged || now_ms < self.split_cleanup.at_ms || is_behind {
            return Ok(());
        }
        // All partitions of a keyspace are split at once. The more there are, the slower each proceeds.
        let pause_ms = u64::from(hash_range.count() / SPLIT_CLEANUP_PARTITIONS_PER_MS);
        self.split_cleanup.at_ms = now_ms + pause_ms.max(SPLIT_CLEANUP_PAUSE_MS);
        let is_foreign = |key: &[u8]| !hash_range.owns(key) && !is_staged(key);
        let (keys, next) = match self.split_cleanup.walk.step(engine, self.handle(), is_foreign) {
            // The log of another member was installed, and its hash seed is another.
            Err(EngineError::Cursor(_)) => {
                self.split_cleanup.walk = Walk::default();
                return Ok(());
            }
            found => found?,
        };
        for key in &keys {
            match self.remove_foreign(engine, key, effects) {
                Ok(()) => self.split_cleanup.removed += 1,
                // The removal is tried again. Clients do not see the record meanwhile.
                Err(Failure::DiskFull | Failure::MemoryFull | Failure::Busy { .. }) => return Ok(()),
                Err(failure) => return Err(EngineError::Stopped { reason: failure.to_string() }),
            }
        }
        match next {
            Some(walk) => self.split_cleanup.walk = walk,
            None => self.end_split_cleanup(engine, &hash_range, effects)?,
        }
        Ok(())
    }

    /// From now on all records are its own.
    fn end_split_cleanup<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        hash_range: &HashRange,
        effects: &mut dyn PartitionEffects,
    ) -> EngineResult<()> {
        let at = self.clock.next();
        let mut payload = Vec::new();
        Mark::SplitCleanedUp { splits: hash_range.generation() }.encode(at, &mut payload);
        let entry =
            NewLogEntry { kind: EntryKind::Mark, flags: 0, at, key: &[], payload: &payload, hint: None };
        let meta = match self.log_writer.append(engine, &entry) {
            Err(
                EngineError::DiskFull { .. } | EngineError::Scarce { .. } | EngineError::MemoryFull { .. },
            ) => return Ok(()),
            other => other?,
        };
        self.split_cleanup.is_end_logged = true;
        if self.log_writer.commits_at_once() {
            self.apply(&meta, &[], &payload);
        } else {
            effects.request_flush();
        }
        Ok(())
    }
}
