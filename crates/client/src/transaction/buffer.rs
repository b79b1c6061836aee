//! What a transaction has read and will write.

use std::collections::BTreeMap;

use bytes::Bytes;
use tokio::time::Instant;
use zerohop_session::{CompositeItem, InvalidTransaction, Reply, SessionError as Reason, StageId};
use zerohop_wire::ids::{KeyspaceId, PartitionId, Timestamp};
use zerohop_wire::messages::{Query, RecordOperation, RecordRead};
use zerohop_wire::{AbortReason, Failure};

use super::blobs::BlobBuffer;
use super::overlay::Local;
use crate::limits::{
    COMMIT_BYTES_MAX, STAGED_BYTES_MIN, STAYS_FOR, TRANSACTION_BYTES_MAX, TRANSACTION_ITEMS_MAX,
};

type BufferAnswer = Result<Reply, Failure<'static>>;
pub(super) type RecordName = (KeyspaceId, Vec<u8>);
/// A hash, and the partition that it lies in.
pub(super) type Cell = (u64, PartitionId);

/// What a transaction has read and will write.
#[derive(Debug, Default)]
pub(super) struct Buffer {
    writes: Vec<CompositeItem>,
    records: BTreeMap<RecordName, BufferedRecord>,
    /// Blobs, by their names.
    pub(super) blobs: BTreeMap<RecordName, BlobBuffer>,
    reads: usize,
    /// Bytes of all operations, and of those that are still here.
    bytes: u64,
    here: usize,
    /// The hashes by which the keys of the writes are placed.
    cells: Vec<Cell>,
    /// Where pieces are staged, one hash of each, and since when none has come.
    staged_at: BTreeMap<(KeyspaceId, PartitionId), (u64, Instant)>,
}

/// One record, as the transaction has to do with it.
#[derive(Debug, Default)]
struct BufferedRecord {
    /// The version that was read; zero: there was no record.
    version: Option<Timestamp>,
    /// What each read of it brought, by its bytes.
    answers: BTreeMap<Bytes, BufferAnswer>,
    /// Its writes.
    writes: Vec<usize>,
}

/// What is known of a record before a server is asked.
pub(super) enum BufferLookup {
    /// This is what a read brings.
    Known(BufferAnswer),
    /// Nothing.
    Unknown,
    /// What is written lies over something that is not known.
    Under,
    /// What is written makes of it what only its primary can tell.
    Never,
}

/// What a commit sends.
pub(super) struct Commit {
    /// First those that only check what was read, then the writes.
    pub(super) items: Vec<CompositeItem>,
    /// How many of the former.
    pub(super) checks: usize,
    /// There is nothing to be checked or done: one record was read, at this version.
    pub(super) is_settled: Option<Timestamp>,
}

impl Buffer {
    /// What a read would bring, as far as the transaction knows.
    pub(super) fn find(&self, read: &CompositeItem) -> BufferLookup {
        let Some(seen) = self.records.get(&place(read)) else { return BufferLookup::Unknown };
        if seen.writes.is_empty() {
            return seen
                .answers
                .get(read.packed())
                .cloned()
                .map_or(BufferLookup::Unknown, BufferLookup::Known);
        }
        if seen.writes.iter().any(|at| self.writes[*at].is_ahead()) {
            return BufferLookup::Never;
        }
        let writes: Vec<RecordOperation<'_>> =
            seen.writes.iter().map(|at| self.writes[*at].operation()).collect();
        let is_lookup =
            matches!(read.operation(), RecordOperation::Read(RecordRead { query: Query::Lookup, .. }));
        let base = match (seen.answers.get(read.packed()), seen.version) {
            (Some(answer), _) => Local::of(answer),
            (None, Some(Timestamp::ZERO)) => Some(Local::Absent),
            // Read otherwise than whole.
            (None, _) => None,
        };
        if !is_lookup {
            return BufferLookup::Never;
        }
        match Local::after(base, &writes) {
            Ok(Some(local)) => BufferLookup::Known(local.answer()),
            Ok(None) if seen.answers.contains_key(read.packed()) => BufferLookup::Never,
            Ok(None) => BufferLookup::Under,
            Err(()) => BufferLookup::Never,
        }
    }

    /// A read has brought this. Errors: it contradicts what was read before, or is one too many.
    pub(super) fn note(&mut self, read: &CompositeItem, answer: &BufferAnswer) -> Result<(), Reason> {
        let version = match answer {
            Ok(reply) => reply.version(),
            Err(_) => Timestamp::ZERO,
        };
        self.admit(read)?;
        self.rest(read, version)?.answers.insert(read.packed().clone(), answer.clone());
        Ok(())
    }

    /// What a read is of must have this version when the transaction commits. Errors: it was read at another before.
    fn rest(&mut self, read: &CompositeItem, version: Timestamp) -> Result<&mut BufferedRecord, Reason> {
        let seen = self.records.entry(place(read)).or_default();
        if seen.version.is_some_and(|known| known != version) {
            return Err(Reason::Aborted { reason: AbortReason::ReadChanged, item: None });
        }
        if seen.version.replace(version).is_none() {
            self.reads += 1;
        }
        Ok(seen)
    }

    /// As a read that has brought nothing but its version.
    pub(super) fn note_version(&mut self, read: &CompositeItem, version: Timestamp) -> Result<(), Reason> {
        if self.records.get(&place(read)).is_none_or(|seen| seen.version.is_none()) {
            self.admit(read)?;
        }
        self.rest(read, version).map(drop)
    }

    /// How many writes it has.
    pub(super) fn writes(&self) -> usize {
        self.writes.len()
    }

    /// Adds a write. Which of the writes it is. Errors: it is one too many.
    pub(super) fn write(&mut self, item: CompositeItem, cell: Cell) -> Result<usize, Reason> {
        if !super::is_write(&item.operation()) {
            return Err(Reason::Unfit(InvalidTransaction::NoWrite));
        }
        self.admit(&item)?;
        let at = self.writes.len();
        self.records.entry(place(&item)).or_default().writes.push(at);
        self.cells.push(cell);
        self.writes.push(item);
        Ok(at)
    }

    /// A write that is to be staged, with the hash of its key.
    pub(super) fn to_stage(&self, at: usize) -> Option<(CompositeItem, u64)> {
        self.writes.get(at).cloned().zip(self.cells.get(at).map(|(cell, _)| *cell))
    }

    /// One is staged: its bytes are not held any more.
    pub(super) fn is_staged(&mut self, at: usize, id: StageId) {
        if let Some(item) = self.writes.get_mut(at) {
            let (before, keyspace) = (item.packed().len(), item.keyspace());
            if let Some((cell, partition)) = self.cells.get(at) {
                self.staged_at.insert((keyspace, *partition), (*cell, Instant::now()));
            }
            // Its key was within bounds before.
            if item.is_staged(id).is_ok() {
                self.here -= before - item.packed().len();
            }
        }
    }

    /// Where what is staged would go before long: hashes, which are taken for renewed.
    pub(super) fn take_due(&mut self) -> Vec<(KeyspaceId, u64)> {
        let now = Instant::now();
        let is_due = |((keyspace, _), (cell, at)): (&(KeyspaceId, PartitionId), &mut (u64, Instant))| {
            let is_due = now.duration_since(*at) >= STAYS_FOR;
            *at = if is_due { now } else { *at };
            is_due.then_some((*keyspace, *cell))
        };
        self.staged_at.iter_mut().filter_map(is_due).collect()
    }

    /// Which of its writes are to be staged before a commit, in their order: none, unless it holds more than a session likes.
    pub(super) fn too_many(&self) -> Vec<usize> {
        let mut left = self.here;
        let is_worth = |(at, item): (usize, &CompositeItem)| {
            let length = item.packed().len();
            let is_one = left > COMMIT_BYTES_MAX && !item.is_ahead() && length >= STAGED_BYTES_MIN;
            left -= if is_one { length } else { 0 };
            is_one.then_some(at)
        };
        self.writes.iter().enumerate().filter_map(is_worth).collect()
    }

    pub(super) fn into_commit(mut self) -> Commit {
        let mut items = Vec::new();
        if self.writes.is_empty() && self.reads == 1 {
            let is_settled = self.records.values().find_map(|seen| seen.version);
            return Commit { items, checks: 0, is_settled };
        }
        for ((keyspace, key), seen) in &self.records {
            match (seen.version, seen.writes.first()) {
                // What is read and written is checked where it is written.
                (Some(version), Some(first)) if !self.writes[*first].commutes() => {
                    self.writes[*first].rest_on(version);
                }
                (Some(version), _) => {
                    let check = RecordOperation::Read(RecordRead { key, query: Query::Inspect });
                    // Its key was within bounds when it was read.
                    items.extend(CompositeItem::new(*keyspace, &check, Some(version)));
                }
                (None, _) => {}
            }
        }
        let checks = items.len();
        items.append(&mut self.writes);
        Commit { items, checks, is_settled: None }
    }

    fn admit(&mut self, item: &CompositeItem) -> Result<(), Reason> {
        let (count, limit) = (self.writes.len() + self.reads + 1, TRANSACTION_ITEMS_MAX);
        if count > limit {
            return Err(Reason::Unfit(InvalidTransaction::Items { count, limit }));
        }
        let (length, limit) = (self.bytes + item.packed().len() as u64, TRANSACTION_BYTES_MAX);
        if length > limit {
            return Err(Reason::Unfit(InvalidTransaction::Bytes { length, limit }));
        }
        self.bytes = length;
        self.here += item.packed().len();
        Ok(())
    }
}

pub(super) fn place(item: &CompositeItem) -> RecordName {
    (item.keyspace(), item.key().to_vec())
}
