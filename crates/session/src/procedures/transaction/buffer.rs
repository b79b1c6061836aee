//! The reads and pending writes of a transaction.

use std::collections::BTreeMap;

use crate::planted::{Bug, is_planted};
use crate::{CompositeItem, InvalidTransaction, Reply, SessionError as Reason, StageId};
use bytes::Bytes;
use zerohop_base::time::Time;
use zerohop_wire::ids::{KeyspaceId, PartitionId, Timestamp};
use zerohop_wire::messages::{Query, RecordOperation, RecordRead};
use zerohop_wire::{AbortReason, Failure};

use super::blob_buffer::BlobBuffer;
use super::overlay;
use super::record_name::{RecordName, record_name};
use super::staged_pieces::{KeyLocation, StagedPieces};
use super::update_locks::UpdateLocks;
use crate::procedures::cluster_handle::{ClusterHandle, micros};
use crate::procedures::limits::{
    COMMIT_BYTES_MAX, STAGED_BYTES_MIN, STAYS_FOR, TRANSACTION_BYTES_MAX, TRANSACTION_ITEMS_MAX,
};

type BufferAnswer = Result<Reply, Failure<'static>>;

/// The reads and pending writes of a transaction.
#[derive(Debug, Default)]
pub(super) struct Buffer {
    writes: Vec<CompositeItem>,
    records: BTreeMap<RecordName, BufferedRecord>,
    /// The transaction's blobs, by name.
    pub(super) blobs: BTreeMap<RecordName, BlobBuffer>,
    reads: usize,
    /// Whether a version is required that the transaction has not read itself: the commit checks it, also if it is the only item.
    requires: bool,
    /// Bytes of all operations, and of the operations that the client still has in memory.
    bytes: u64,
    here: usize,
    /// The hash and partition of each write's key.
    write_locations: Vec<KeyLocation>,
    /// The partitions with staged data: a hash that routes to each, and the time of the last staged piece or renewal.
    staged_at: BTreeMap<(KeyspaceId, PartitionId), (u64, Time)>,
    pieces: StagedPieces,
    pub(super) update_locks: UpdateLocks,
}

/// The state that the transaction keeps for one record.
#[derive(Debug, Default)]
struct BufferedRecord {
    /// The version that was read; zero: the record was absent.
    version: Option<Timestamp>,
    /// The result of each read of the record, keyed by the bytes of the read.
    answers: BTreeMap<Bytes, BufferAnswer>,
    /// Indices of the writes to the record.
    writes: Vec<usize>,
    /// The record after so many of these writes, kept by [`Buffer::write_suitable`].
    written: Option<(usize, overlay::LocalRecord)>,
}

/// The transaction's knowledge of a record before a request to a server.
pub(super) enum BufferLookup {
    /// The result of the read is known.
    Known(BufferAnswer),
    /// The transaction knows nothing of the record.
    Unknown,
    /// The transaction has written to the record, but its earlier contents are unknown.
    Under,
    /// Only the primary can compute the result of the transaction's own writes.
    Never,
}

/// The transaction's knowledge of a record before another write.
enum RecordBefore {
    /// The record, after the transaction's own writes.
    Known(overlay::LocalRecord),
    /// It must be looked up.
    Unknown,
    /// Only the primary can compute it.
    Never,
}

/// The contents of a commit request.
pub(super) struct CommitItems {
    /// The items: first those that only check what was read, then the writes.
    pub(super) items: Vec<CompositeItem>,
    /// The number of items that only check.
    pub(super) checks: usize,
    /// The records that were read, with their versions; zero: there was none.
    pub(super) reads: Vec<(RecordName, Timestamp)>,
    /// The transaction writes nothing, and has read every record on whose version it depends.
    pub(super) has_only_reads: bool,
    /// The commit has nothing to check or write: the transaction has read one record, at this version.
    pub(super) is_empty: Option<Timestamp>,
}

impl Buffer {
    /// The result that a read would have, as far as the transaction knows.
    pub(super) fn find(&self, read: &CompositeItem) -> BufferLookup {
        let Some(seen) = self.records.get(&record_name(read)) else { return BufferLookup::Unknown };
        if is_planted(Bug::RereadReplaces) && seen.writes.is_empty() {
            return BufferLookup::Unknown;
        }
        if seen.writes.is_empty() || is_planted(Bug::OwnWritesUnseen) {
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
            (Some(answer), _) => overlay::of_answer(answer),
            (None, Some(Timestamp::ZERO)) => Some(None),
            // Only a part of the record was read.
            (None, _) => None,
        };
        if !is_lookup {
            return BufferLookup::Never;
        }
        match overlay::after(base, &writes) {
            Ok(Some(local)) => BufferLookup::Known(overlay::answer(local)),
            Ok(None) if seen.answers.contains_key(read.packed()) => BufferLookup::Never,
            Ok(None) => BufferLookup::Under,
            Err(()) => BufferLookup::Never,
        }
    }

    /// Records the result of a read. Errors: it contradicts an earlier read, or the transaction has too many items.
    pub(super) fn record_read(&mut self, read: &CompositeItem, answer: &BufferAnswer) -> Result<(), Reason> {
        let version = match answer {
            Ok(reply) => reply.version(),
            Err(_) => Timestamp::ZERO,
        };
        // Another read of the same record is no further item of the commit.
        let is_known = self.records.get(&record_name(read)).is_some_and(|seen| seen.version.is_some());
        self.admit(read, usize::from(!is_known))?;
        self.add_read_dependency(read, version)?.answers.insert(read.packed().clone(), answer.clone());
        Ok(())
    }

    /// Adds a read dependency: the record must have this version when the transaction commits. Errors: an earlier read has seen another version.
    fn add_read_dependency(
        &mut self,
        read: &CompositeItem,
        version: Timestamp,
    ) -> Result<&mut BufferedRecord, Reason> {
        let seen = self.records.entry(record_name(read)).or_default();
        if seen.version.is_some_and(|known| known != version) && !is_planted(Bug::RereadReplaces) {
            return Err(Reason::Aborted { reason: AbortReason::ReadChanged, item: None });
        }
        if seen.version.replace(version).is_none() {
            self.reads += 1;
        }
        Ok(seen)
    }

    /// Adds a read dependency on a version, without the contents of the record.
    pub(super) fn add_version_dependency(
        &mut self,
        read: &CompositeItem,
        version: Timestamp,
    ) -> Result<(), Reason> {
        if self.records.get(&record_name(read)).is_none_or(|seen| seen.version.is_none()) {
            self.admit(read, 1)?;
        }
        self.add_read_dependency(read, version).map(drop)
    }

    /// Adds a dependency on a version that the transaction has not read itself.
    pub(super) fn require(&mut self, read: &CompositeItem, version: Timestamp) -> Result<(), Reason> {
        self.requires = true;
        self.add_version_dependency(read, version)
    }

    /// Same as [`Buffer::write`], if the record does not refuse the write after the earlier ones. `None`: the record must be looked up before, by
    /// `lookup`. Errors of the record are [`Reason::Answer`].
    pub(super) fn write_suitable(
        &mut self,
        lookup: &CompositeItem,
        item: CompositeItem,
        location: KeyLocation,
    ) -> Option<Result<usize, Reason>> {
        let name = record_name(&item);
        let mut record = match self.record_before(lookup, &name) {
            RecordBefore::Known(record) => record,
            RecordBefore::Unknown => return None,
            RecordBefore::Never => return Some(self.write(item, location)),
        };
        if let RecordOperation::Write(write) = item.operation()
            && !overlay::condition_fails(&item.operation(), Some(&record))
            && let Err(failure) = overlay::try_write(&mut record, &write.change)
        {
            return Some(Err(Reason::Answer { failure }));
        }
        let place = self.write(item, location);
        if let (Ok(_), Some(seen)) = (&place, self.records.get_mut(&name)) {
            seen.written = Some((seen.writes.len(), record));
        }
        Some(place)
    }

    /// The record after the writes so far, as far as its type and contents decide whether it refuses another write.
    fn record_before(&mut self, lookup: &CompositeItem, name: &RecordName) -> RecordBefore {
        let Some(seen) = self.records.get_mut(name) else { return RecordBefore::Unknown };
        if seen.writes.iter().any(|at| self.writes[*at].is_ahead()) {
            return RecordBefore::Never;
        }
        let (done, record) = match seen.written.take().filter(|(done, _)| *done <= seen.writes.len()) {
            Some((done, record)) => (done, Some(record)),
            None => match (seen.answers.get(lookup.packed()), seen.version) {
                (Some(answer), _) => (0, overlay::beginning_of_answer(answer)),
                (None, Some(Timestamp::ZERO)) => (0, Some(None)),
                (None, _) => (0, None),
            },
        };
        let mut known = record;
        for at in &seen.writes[done..] {
            let write = self.writes[*at].operation();
            if overlay::condition_fails(&write, known.as_ref()) {
                // The commit aborts the transaction for it, and names it.
                return RecordBefore::Never;
            }
            known = match overlay::after(known, &[write]) {
                Ok(known) => known,
                Err(()) => return RecordBefore::Never,
            };
        }
        match known {
            Some(record) => RecordBefore::Known(record),
            None if !seen.answers.contains_key(lookup.packed()) => RecordBefore::Unknown,
            None => RecordBefore::Never,
        }
    }

    /// The number of writes.
    pub(super) fn writes(&self) -> usize {
        self.writes.len()
    }

    /// Adds a write and returns its index. Errors: the transaction is too large.
    pub(super) fn write(&mut self, item: CompositeItem, location: KeyLocation) -> Result<usize, Reason> {
        if !super::is_write(&item.operation()) {
            return Err(Reason::InvalidTransaction(InvalidTransaction::NoWrite));
        }
        self.admit(&item, 1)?;
        let at = self.writes.len();
        self.records.entry(record_name(&item)).or_default().writes.push(at);
        self.write_locations.push(location);
        self.writes.push(item);
        Ok(at)
    }

    /// A write that the client is to stage, with the hash of its key.
    pub(super) fn to_stage(&self, at: usize) -> Option<(CompositeItem, u64)> {
        self.writes.get(at).cloned().zip(self.write_locations.get(at).map(|(hash, _)| *hash))
    }

    /// Records that a write is staged: its bytes are no longer in memory.
    pub(super) fn is_staged(&mut self, at: usize, id: StageId, client: &ClusterHandle) {
        if let Some(item) = self.writes.get_mut(at) {
            let (before, keyspace) = (item.packed().len(), item.keyspace());
            if let Some((hash, partition)) = self.write_locations.get(at) {
                self.staged_at.insert((keyspace, *partition), (*hash, client.now()));
                self.pieces.add(client, keyspace, (*hash, *partition), id);
            }
            // The key's length was checked before.
            if item.is_staged(id).is_ok() {
                self.here -= before - item.packed().len();
            }
        }
    }

    /// Returns a hash of each partition whose staged data would expire soon, and counts them as renewed.
    pub(super) fn take_renewals_due(&mut self, now: Time) -> Vec<(KeyspaceId, u64)> {
        let is_due = |((keyspace, _), (hash, at)): (&(KeyspaceId, PartitionId), &mut (u64, Time))| {
            let is_due = now.since_us(*at) >= micros(STAYS_FOR);
            *at = if is_due { now } else { *at };
            is_due.then_some((*keyspace, *hash))
        };
        self.staged_at.iter_mut().filter_map(is_due).collect()
    }

    /// Indices of the writes that the client must stage before a commit, in order. Empty, unless the transaction exceeds [`COMMIT_BYTES_MAX`].
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

    /// The staged pieces, which the caller keeps until the outcome is known.
    pub(super) fn take_pieces(&mut self) -> StagedPieces {
        std::mem::take(&mut self.pieces)
    }

    pub(super) fn into_commit(mut self) -> CommitItems {
        let mut items = Vec::new();
        if self.writes.is_empty() && self.reads == 1 && !self.requires {
            let is_settled = self.records.values().find_map(|seen| seen.version);
            let (reads, has_only_reads) = (Vec::new(), true);
            return CommitItems { items, checks: 0, reads, has_only_reads, is_empty: is_settled };
        }
        let has_only_reads = self.writes.is_empty() && !self.requires;
        if is_planted(Bug::StagedLeftOut) && self.writes.iter().any(|item| !item.is_ahead()) {
            self.records.values_mut().for_each(|seen| seen.writes.clear());
            self.writes.retain(|item| !item.is_ahead());
        }
        for ((keyspace, key), seen) in &self.records {
            match (seen.version, seen.writes.first()) {
                // For a record that was both read and written, its first write checks the version.
                (Some(_), Some(_)) if is_planted(Bug::WrittenNotChecked) => {}
                (Some(_), None) if !self.writes.is_empty() && is_planted(Bug::OnlyReadNotChecked) => {}
                (Some(version), Some(first)) if !self.writes[*first].commutes() => {
                    self.writes[*first].add_read_dependency(version);
                }
                (Some(version), _) => {
                    let check = RecordOperation::Read(RecordRead { key, query: Query::Inspect });
                    // The key's length was checked when the record was read.
                    items.extend(CompositeItem::new(*keyspace, &check, Some(version)));
                }
                (None, _) => {}
            }
        }
        let checks = items.len();
        items.append(&mut self.writes);
        let reads = self.records.into_iter().filter_map(|(name, seen)| Some((name, seen.version?))).collect();
        CommitItems { items, checks, reads, has_only_reads, is_empty: None }
    }

    /// Counts the bytes of an operation, which adds this many items to the commit. Errors: the transaction has too many of either.
    fn admit(&mut self, item: &CompositeItem, more: usize) -> Result<(), Reason> {
        let (count, limit) = (self.writes.len() + self.reads + more, TRANSACTION_ITEMS_MAX);
        if count > limit {
            return Err(Reason::InvalidTransaction(InvalidTransaction::Items { count, limit }));
        }
        let (length, limit) = (self.bytes + item.packed().len() as u64, TRANSACTION_BYTES_MAX);
        if length > limit {
            return Err(Reason::InvalidTransaction(InvalidTransaction::Bytes { length, limit }));
        }
        self.bytes = length;
        self.here += item.packed().len();
        Ok(())
    }
}
