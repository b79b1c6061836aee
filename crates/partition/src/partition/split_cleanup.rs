//! Letting go of what a sibling owns: after a split a partition holds the records of both, and removes those that are not its
//! own, a page of the index at a time, while it serves.
//!
//! The primary logs each removal, and a mark at the end, so that all members hold the same at the same log index, whoever
//! is primary meanwhile, and a crash costs no more than beginning the walk again. Until then nobody is shown the others:
//! scans pass over them, counts leave them out, and requests that name their keys are refused. What was staged
//! before the split is of both, and goes with its transaction.

use zerohop_engine::disk::Disk;
use zerohop_engine::{Engine, EngineError, EngineResult, EntryKind};
use zerohop_wire::blob::is_staged;
use zerohop_wire::messages::{SnapshotAsk, SnapshotRequest};
use zerohop_wire::{Failure, Message};

use super::Partition;
use crate::entry_metadata::Mark;
use crate::event::PartitionEffects;
use crate::hash_range::Slice;
use crate::limits::{SPLIT_CLEANUP_AHEAD_MAX, SPLIT_CLEANUP_PARTITIONS_PER_MS};
use crate::log_writer::NewLogEntry;
use crate::planted::{Bug, is_planted};

/// How far it has come.
#[derive(Debug, Default)]
pub(super) struct SplitCleanup {
    /// `None`: whoever opened it did not say; all keys are its own.
    slice: Option<Slice>,
    /// Where the walk goes on.
    cursor: u32,
    /// No step before then.
    at_ms: u64,
    /// The mark of the end is in the log.
    is_told: bool,
    /// Records removed since it was opened.
    removed: u64,
}

impl SplitCleanup {
    pub(super) fn new(slice: Slice) -> SplitCleanup {
        SplitCleanup { slice: Some(slice), ..SplitCleanup::default() }
    }
}

impl Partition {
    /// What its children must know beside its log, and the log index that is as of.
    pub(crate) fn pass_on(&self) -> (u64, Vec<u8>) {
        (self.state.applied, self.state.encode())
    }

    /// Says which keys are its own.
    pub fn set_slice(&mut self, slice: Slice) {
        self.split_cleanup = SplitCleanup::new(slice);
    }

    /// Its slice, if whoever opened it has said.
    pub(super) fn slice(&self) -> Option<Slice> {
        self.split_cleanup.slice
    }

    /// Whether all keys that a request names are its own: whoever routed it may have known another map, by whatever road it has
    /// come and however long that took. The items of a transaction are looked at when it is prepared.
    #[inline]
    pub(super) fn owns_keys_of(&self, message: &Message<'_>) -> bool {
        let Some(slice) = self.split_cleanup.slice.filter(|_| !is_planted(Bug::SliceNotChecked)) else {
            return true;
        };
        // Keys of staged pieces, which are where their transaction is, are nobody's to name: they are refused as such.
        let is_own = |key: &[u8]| slice.owns(key) || is_staged(key);
        match message {
            Message::Read { read, .. } => is_own(read.key),
            Message::Write { write, .. } => is_own(write.key),
            Message::Batch(batch) => batch.operations.iter().all(|operation| is_own(operation.key())),
            Message::Snapshot(SnapshotRequest { ask: SnapshotAsk::Read { read, .. }, .. }) => {
                is_own(read.key)
            }
            _ => true,
        }
    }

    /// Its slice, as long as it may hold records of others.
    #[must_use]
    pub fn foreign(&self) -> Option<Slice> {
        let slice = self.split_cleanup.slice.filter(|_| !is_planted(Bug::ForeignCounted));
        slice.filter(|slice| slice.splits() > self.state.cleaned_splits && self.group.last() > 0)
    }

    /// Records removed as a sibling's, while there may be more of them.
    pub(super) fn removed_of_siblings(&self) -> Option<u64> {
        self.foreign().map(|_| self.split_cleanup.removed)
    }

    /// When the next step is due.
    pub(super) fn next_split_cleanup_ms(&self) -> Option<u64> {
        self.foreign().filter(|_| !self.split_cleanup.is_told).map(|_| self.split_cleanup.at_ms)
    }

    /// Removes what is not its own of one page of the index, if it is time. For the primary, once all that came before it is
    /// committed.
    pub(super) fn clean_up_split<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        effects: &mut dyn PartitionEffects,
    ) -> EngineResult<()> {
        let (Some(slice), now_ms) = (self.foreign(), self.clock.now_ms()) else { return Ok(()) };
        let is_behind = self.group.last() - self.state.applied > SPLIT_CLEANUP_AHEAD_MAX;
        if self.split_cleanup.is_told || now_ms < self.split_cleanup.at_ms || is_behind {
            return Ok(());
        }
        // All partitions of a keyspace are split at once: each goes the slower the more there are.
        self.split_cleanup.at_ms = now_ms + u64::from(slice.count() / SPLIT_CLEANUP_PARTITIONS_PER_MS).max(1);
        let (keys, next) = engine.scan(self.handle(), self.split_cleanup.cursor)?;
        for key in keys.iter().filter(|key| !slice.owns(key) && !is_staged(key)) {
            match self.remove_foreign(engine, key, effects) {
                Ok(()) => self.split_cleanup.removed += 1,
                // It is tried again; nobody is shown it meanwhile.
                Err(Failure::DiskFull | Failure::MemoryFull | Failure::Busy { .. }) => return Ok(()),
                Err(failure) => return Err(EngineError::Stopped { reason: failure.to_string() }),
            }
        }
        match next {
            Some(cursor) => self.split_cleanup.cursor = cursor,
            None => self.end_split_cleanup(engine, slice, effects)?,
        }
        Ok(())
    }

    /// From now on all that it holds is its own.
    fn end_split_cleanup<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        slice: Slice,
        effects: &mut dyn PartitionEffects,
    ) -> EngineResult<()> {
        let at = self.clock.next();
        let mut payload = Vec::new();
        Mark::SplitCleanedUp { splits: slice.splits() }.encode(at, &mut payload);
        let entry =
            NewLogEntry { kind: EntryKind::Mark, flags: 0, at, key: &[], payload: &payload, hint: None };
        let meta = match self.group.append(engine, &entry) {
            Err(
                EngineError::DiskFull { .. } | EngineError::Scarce { .. } | EngineError::MemoryFull { .. },
            ) => return Ok(()),
            other => other?,
        };
        self.split_cleanup.is_told = true;
        if self.group.commits_at_once() {
            self.apply(&meta, &[], &payload);
        } else {
            effects.flush_wanted();
        }
        Ok(())
    }

    /// How many records it holds of its own: a walk through all while there may be others.
    pub(crate) fn count_own<D: Disk>(
        engine: &mut Engine<D>,
        handle: zerohop_engine::Handle,
        foreign: Option<Slice>,
    ) -> EngineResult<u64> {
        let Some(slice) = foreign else {
            return engine.records(handle);
        };
        let (mut count, mut cursor) = (0, Some(0));
        while let Some(at) = cursor {
            let (keys, next) = engine.scan(handle, at)?;
            for key in keys.iter().filter(|key| slice.owns(key)) {
                // A page may repeat some of lower fragments.
                count += u64::from(engine.fragment_of(handle, key)? >= at);
            }
            cursor = next;
        }
        Ok(count)
    }
}
