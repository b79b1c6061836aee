//! Letting go of what a sister owns: after a split a partition holds the records of both, and removes those that are not its
//! own, a page of the index at a time, while it serves.
//!
//! The primary logs each removal, and a mark at the end, so that all members hold the same at the same log index, whoever
//! is primary meanwhile, and a crash costs no more than beginning the walk anew. Until then nobody is shown the others:
//! scans pass over them, counts leave them out, and requests that name their keys are refused. What was staged
//! before the split is of both, and goes with its transaction.

use zerohop_engine::disk::Disk;
use zerohop_engine::{Engine, EngineError, EngineResult, Kind};
use zerohop_wire::blob::is_staged;
use zerohop_wire::messages::{Snapshot, SnapshotAsk};
use zerohop_wire::{Failure, Message};

use super::Partition;
use crate::event::Effects;
use crate::group::Entry;
use crate::limits::{SIEVE_AHEAD_MAX, SIEVE_PARTITIONS_PER_MS};
use crate::note::Mark;
use crate::planted::{Bug, is_planted};
use crate::slice::Slice;

/// How far it has come.
#[derive(Debug, Default)]
pub(super) struct Sieve {
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

impl Sieve {
    pub(super) fn new(slice: Slice) -> Sieve {
        Sieve { slice: Some(slice), ..Sieve::default() }
    }
}

impl Partition {
    /// What its daughters must know beside its log, and the log index that is as of.
    pub(crate) fn bequeath(&self) -> (u64, Vec<u8>) {
        (self.state.applied, self.state.encode())
    }

    /// Says which keys are its own.
    pub fn set_slice(&mut self, slice: Slice) {
        self.sieve = Sieve::new(slice);
    }

    /// Its slice, if whoever opened it has said.
    pub(super) fn slice(&self) -> Option<Slice> {
        self.sieve.slice
    }

    /// Whether all keys that a request names are its own: whoever routed it may have known another map, by whatever road it has
    /// come and however long that took. The items of a transaction are looked at when it is prepared.
    #[inline]
    pub(super) fn owns_keys_of(&self, message: &Message<'_>) -> bool {
        let Some(slice) = self.sieve.slice.filter(|_| !is_planted(Bug::SliceNotChecked)) else { return true };
        // Keys of staged pieces, which are where their transaction is, are nobody's to name: they are refused as such.
        let is_own = |key: &[u8]| slice.owns(key) || is_staged(key);
        match message {
            Message::Read { read, .. } => is_own(read.key),
            Message::Write { write, .. } => is_own(write.key),
            Message::Batch(batch) => batch.operations.iter().all(|operation| is_own(operation.key())),
            Message::Snapshot(Snapshot { ask: SnapshotAsk::Read { read, .. }, .. }) => is_own(read.key),
            _ => true,
        }
    }

    /// Its slice, as long as it may hold records of others.
    #[must_use]
    pub fn foreign(&self) -> Option<Slice> {
        let slice = self.sieve.slice.filter(|_| !is_planted(Bug::ForeignCounted));
        slice.filter(|slice| slice.splits() > self.state.sieved && self.group.last() > 0)
    }

    /// Records removed as a sister's, while there may be more of them.
    pub(super) fn removed_of_sisters(&self) -> Option<u64> {
        self.foreign().map(|_| self.sieve.removed)
    }

    /// When the next step is due.
    pub(super) fn next_sieve_ms(&self) -> Option<u64> {
        self.foreign().filter(|_| !self.sieve.is_told).map(|_| self.sieve.at_ms)
    }

    /// Removes what is not its own of one page of the index, if it is time. For the primary, once all that came before it is
    /// committed.
    pub(super) fn sieve<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        effects: &mut dyn Effects,
    ) -> EngineResult<()> {
        let (Some(slice), now_ms) = (self.foreign(), self.clock.now_ms()) else { return Ok(()) };
        let is_behind = self.group.last() - self.state.applied > SIEVE_AHEAD_MAX;
        if self.sieve.is_told || now_ms < self.sieve.at_ms || is_behind {
            return Ok(());
        }
        // All partitions of a keyspace are split at once: each goes the slower the more there are.
        self.sieve.at_ms = now_ms + u64::from(slice.count() / SIEVE_PARTITIONS_PER_MS).max(1);
        let (keys, next) = engine.scan(self.handle(), self.sieve.cursor)?;
        for key in keys.iter().filter(|key| !slice.owns(key) && !is_staged(key)) {
            match self.remove_foreign(engine, key, effects) {
                Ok(()) => self.sieve.removed += 1,
                // It is tried again; nobody is shown it meanwhile.
                Err(Failure::DiskFull | Failure::MemoryFull | Failure::Busy { .. }) => return Ok(()),
                Err(failure) => return Err(EngineError::Stopped { reason: failure.to_string() }),
            }
        }
        match next {
            Some(cursor) => self.sieve.cursor = cursor,
            None => self.end_sieve(engine, slice, effects)?,
        }
        Ok(())
    }

    /// From now on all that it holds is its own.
    fn end_sieve<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        slice: Slice,
        effects: &mut dyn Effects,
    ) -> EngineResult<()> {
        let at = self.clock.next();
        let mut payload = Vec::new();
        Mark::Sieved { splits: slice.splits() }.encode(at, &mut payload);
        let entry = Entry { kind: Kind::Mark, flags: 0, at, key: &[], payload: &payload, hint: None };
        let meta = match self.group.append(engine, &entry) {
            Err(
                EngineError::DiskFull { .. } | EngineError::Scarce { .. } | EngineError::MemoryFull { .. },
            ) => return Ok(()),
            other => other?,
        };
        self.sieve.is_told = true;
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
