//! Requests of the caller.

use bytes::Bytes;
use zerohop_transaction::StageId;
use zerohop_transaction::codec::encode_release;
use zerohop_wire::ids::{KeyspaceId, MapEpoch, Sequence, SnapshotId, Timestamp};
use zerohop_wire::messages::{Message, Query, RecordOperation, RecordRead, SnapshotQuery, SnapshotRequest};
use zerohop_wire::{Failure, pack};

use crate::coalescing::Coalescing;
use crate::invalid_transaction::InvalidTransaction;
use crate::key_range::KeyRange;
use crate::request_kind::{ChangesQuery, HashRange, PointMessage, RequestKind, SnapshotTarget};
use crate::transaction::{Commit, Composite, CompositeItem, ConsistentRead};

/// One operation of a caller.
#[derive(Clone, Debug)]
pub struct SessionRequest {
    pub(crate) operation: RequestedOperation,
    /// Time limit in microseconds. For a wait: how long the server waits.
    pub(crate) limit_us: u64,
    pub(crate) collecting: Coalescing,
}

/// What a caller requests.
#[derive(Clone, Debug)]
pub(crate) enum RequestedOperation {
    /// An operation of one request.
    Single(RequestKind),
    /// Several operations that end together.
    Composite(Box<Composite>),
}

impl RequestedOperation {
    /// Bytes that it occupies; the operations of a composite count again in it.
    fn bytes(&self) -> usize {
        match self {
            Self::Single(request) => request.bytes(),
            Self::Composite(composite) => composite.bytes(),
        }
    }
}

impl SessionRequest {
    /// A transaction of these operations: it applies all of them at one version, or none. Ends with [`Reply::Transacted`], with the replies in the
    /// order of `items`, or with [`SessionError::Aborted`].
    ///
    /// [`Reply::Transacted`]: crate::Reply::Transacted
    /// [`SessionError::Aborted`]: crate::SessionError::Aborted
    ///
    /// # Errors
    /// The transaction is empty, or exceeds a limit.
    pub fn transaction(items: Vec<CompositeItem>, limit_us: u64) -> Result<Self, InvalidTransaction> {
        let composite = Composite::Commit(Commit::new(items)?);
        Ok(Self {
            operation: RequestedOperation::Composite(Box::new(composite)),
            limit_us,
            collecting: Coalescing::Never,
        })
    }

    /// Stages an operation of a later transaction at the partition of its key's hash. Ends with [`Reply::Staged`](crate::Reply::Staged); the caller
    /// must pass that id to the item.
    #[must_use]
    pub fn stage(item: &CompositeItem, point: u64, limit_us: u64) -> Self {
        let (keyspace, bytes) = (item.keyspace, item.packed.clone());
        let query = RequestKind::Point { keyspace, point, what: PointMessage::StageItem, bytes };
        Self { operation: RequestedOperation::Single(query), limit_us, collecting: Coalescing::Never }
    }

    /// Extends the time for which the partition of this hash keeps what this session has staged. The request stages an empty piece that is never
    /// used.
    #[must_use]
    pub fn stay_staged(keyspace: KeyspaceId, point: u64, limit_us: u64) -> Self {
        let query = RequestKind::Point { keyspace, point, what: PointMessage::Stage, bytes: Bytes::new() };
        Self { operation: RequestedOperation::Single(query), limit_us, collecting: Coalescing::Never }
    }

    /// Ends pieces of this session at the partition of this hash that no transaction will use; at most `EXPIRED_PER_ENTRY_MAX`.
    #[must_use]
    pub fn release_staged(keyspace: KeyspaceId, point: u64, pieces: &[StageId], limit_us: u64) -> Self {
        let pieces: Vec<Sequence> = pieces.iter().map(|piece| piece.sequence).collect();
        let bytes = encode_release(&pieces).into();
        let query = RequestKind::Point { keyspace, point, what: PointMessage::Stage, bytes };
        Self { operation: RequestedOperation::Single(query), limit_us, collecting: Coalescing::Never }
    }

    /// Several reads of any partitions, whose results were all true at one moment. Ends with [`Reply::Many`].
    ///
    /// [`Reply::Many`]: crate::Reply::Many
    ///
    /// # Errors
    /// There are more reads than a transaction may have, or an item is not a read.
    pub fn read_many(items: Vec<CompositeItem>, limit_us: u64) -> Result<Self, InvalidTransaction> {
        let composite = Composite::Reading(ConsistentRead::new(items)?);
        Ok(Self {
            operation: RequestedOperation::Composite(Box::new(composite)),
            limit_us,
            collecting: Coalescing::Never,
        })
    }

    /// Same as [`SessionRequest::read_many`], but in one round. The reply says whether the results are known to be of one moment; if they are not,
    /// the caller must confirm them. Ends with [`Reply::UnconfirmedReads`](crate::Reply::UnconfirmedReads).
    ///
    /// # Errors
    /// Same as [`SessionRequest::read_many`].
    pub fn read_unconfirmed(items: Vec<CompositeItem>, limit_us: u64) -> Result<Self, InvalidTransaction> {
        let composite = Composite::Reading(ConsistentRead::unconfirmed(items)?);
        Ok(Self {
            operation: RequestedOperation::Composite(Box::new(composite)),
            limit_us,
            collecting: Coalescing::Never,
        })
    }

    /// An operation on a record. Errors: it exceeds a limit of the protocol.
    pub fn record(
        keyspace: KeyspaceId,
        operation: &RecordOperation<'_>,
        limit_us: u64,
    ) -> Result<Self, Failure<'static>> {
        let mut item = Vec::with_capacity(packed_len(operation));
        pack(operation, &mut item)?;
        Ok(Self::of_packed(keyspace, operation, item.into(), limit_us))
    }

    /// Several operations on records, encoded into one buffer.
    pub fn records(
        keyspace: KeyspaceId,
        operations: &[RecordOperation<'_>],
        limit_us: u64,
        collecting: Coalescing,
    ) -> Vec<Result<Self, Failure<'static>>> {
        let mut packed = Vec::with_capacity(operations.iter().map(packed_len).sum());
        let pack_one = |operation| {
            let start = packed.len();
            match pack(operation, &mut packed) {
                Ok(()) => Ok(start..packed.len()),
                Err(failure) => {
                    packed.truncate(start);
                    Err(failure)
                }
            }
        };
        let places: Vec<_> = operations.iter().map(pack_one).collect();
        let packed = Bytes::from(packed);
        let one = |(place, operation): (Result<std::ops::Range<usize>, _>, _)| {
            let request = |place| Self::of_packed(keyspace, operation, packed.slice(place), limit_us);
            place.map(|place| request(place).collecting(collecting))
        };
        places.into_iter().zip(operations).map(one).collect()
    }

    fn of_packed(keyspace: KeyspaceId, operation: &RecordOperation<'_>, item: Bytes, limit_us: u64) -> Self {
        let write = matches!(operation, RecordOperation::Write(_));
        let wait = matches!(operation, RecordOperation::Read(read) if matches!(read.query, Query::Wait(_) | Query::UpdateLock(_)));
        let query = RequestKind::Record { keyspace, item, write, wait };
        Self { operation: RequestedOperation::Single(query), limit_us, collecting: Coalescing::AsKeyspace }
    }

    /// A page of the keys of a partition, from `cursor` on (empty for the first page). If the keyspace has more partitions now, the request ends
    /// with [`SessionError::Split`](crate::SessionError::Split). The same cursor is then valid in each partition that this one has become.
    #[must_use]
    pub fn scan(
        keyspace: KeyspaceId,
        hash_range: HashRange,
        cursor: Bytes,
        prefix: Bytes,
        keys_max: u32,
        limit_us: u64,
    ) -> Self {
        Self::scan_range(keyspace, (hash_range, cursor), (prefix, keys_max), KeyRange::default(), limit_us)
    }

    /// A page of a range of the keys of a partition of an ordered keyspace. Otherwise same as [`SessionRequest::scan`].
    #[must_use]
    pub fn scan_range(
        keyspace: KeyspaceId,
        (hash_range, cursor): (HashRange, Bytes),
        (prefix, keys_max): (Bytes, u32),
        range: KeyRange,
        limit_us: u64,
    ) -> Self {
        let query = RequestKind::Scan { keyspace, hash_range, cursor, prefix, keys_max, blobs: false, range };
        Self { operation: RequestedOperation::Single(query), limit_us, collecting: Coalescing::Never }
    }

    /// A page of the names of blobs in a partition, in their order, after the last name of the page before (empty for the first page). Otherwise
    /// same as [`SessionRequest::scan`].
    #[must_use]
    pub fn scan_blobs(
        keyspace: KeyspaceId,
        hash_range: HashRange,
        after: Bytes,
        prefix: Bytes,
        names_max: u32,
        limit_us: u64,
    ) -> Self {
        let (cursor, keys_max) = (after, names_max);
        let range = KeyRange::default();
        let query = RequestKind::Scan { keyspace, hash_range, cursor, prefix, keys_max, blobs: true, range };
        Self { operation: RequestedOperation::Single(query), limit_us, collecting: Coalescing::Never }
    }

    /// A page of the numbers of a blob's chunks that a partition has, of those from the first number up to, but not including, the second. Otherwise
    /// same as [`SessionRequest::scan`]. Numbers below [`CHUNKS_LISTED_FROM`](zerohop_wire::limits::CHUNKS_LISTED_FROM) are left out, and one may
    /// be listed twice.
    #[must_use]
    pub fn chunks(
        keyspace: KeyspaceId,
        hash_range: HashRange,
        (cursor, name): (Bytes, Bytes),
        numbers: (u64, u64),
        numbers_max: u32,
        limit_us: u64,
    ) -> Self {
        let query = RequestKind::Chunks { keyspace, hash_range, cursor, name, numbers, numbers_max };
        Self { operation: RequestedOperation::Single(query), limit_us, collecting: Coalescing::Never }
    }

    /// A page of the changes of a partition. The answer waits for a first change, at most as long as the query says. If the keyspace has more
    /// partitions now, the request ends with [`SessionError::Split`](crate::SessionError::Split), and continues with the same position in each child.
    #[must_use]
    pub fn changes(keyspace: KeyspaceId, hash_range: HashRange, query: ChangesQuery, limit_us: u64) -> Self {
        let query = RequestKind::Changes { keyspace, hash_range, query: Box::new(query) };
        Self { operation: RequestedOperation::Single(query), limit_us, collecting: Coalescing::Never }
    }

    /// A comparison by the members of a partition of a range. `from` is a cursor: empty at first, then the one in
    /// [`Reply::Compared`](crate::Reply::Compared). If the keyspace has more partitions now, the request ends with
    /// [`SessionError::Split`](crate::SessionError::Split), and the comparison must start from the beginning.
    #[must_use]
    pub fn compare(keyspace: KeyspaceId, hash_range: HashRange, from: Bytes, limit_us: u64) -> Self {
        let query = RequestKind::Compare { keyspace, hash_range, from };
        Self { operation: RequestedOperation::Single(query), limit_us, collecting: Coalescing::Never }
    }

    /// A request about a snapshot, to one partition: any request except a read of a record. If the keyspace has more partitions now, it ends with
    /// [`SessionError::Split`](crate::SessionError::Split).
    ///
    /// # Errors
    /// The request exceeds a limit of the protocol.
    pub fn snapshot(
        keyspace: KeyspaceId,
        hash_range: HashRange,
        (id, query): (SnapshotId, SnapshotQuery<'_>),
        limit_us: u64,
    ) -> Result<Self, Failure<'static>> {
        Self::about_snapshot((keyspace, SnapshotTarget::HashRange(hash_range)), (id, query), limit_us)
    }

    /// A read of a record at the time of a snapshot.
    ///
    /// # Errors
    /// The request exceeds a limit of the protocol.
    pub fn read_at(
        keyspace: KeyspaceId,
        (id, at): (SnapshotId, Timestamp),
        read: &RecordRead<'_>,
        limit_us: u64,
    ) -> Result<Self, Failure<'static>> {
        let query = SnapshotQuery::Read { at, read: *read };
        Self::about_snapshot((keyspace, SnapshotTarget::Key), (id, query), limit_us)
    }

    fn about_snapshot(
        (keyspace, to): (KeyspaceId, SnapshotTarget),
        (id, query): (SnapshotId, SnapshotQuery<'_>),
        limit_us: u64,
    ) -> Result<Self, Failure<'static>> {
        let message = Message::Snapshot(SnapshotRequest { seen: Timestamp::ZERO, id, request: query });
        let mut body = Vec::new();
        let kind = message.encode_body(&mut body)?;
        let query = RequestKind::Snapshot { keyspace, to, kind, body: body.into() };
        Ok(Self { operation: RequestedOperation::Single(query), limit_us, collecting: Coalescing::Never })
    }

    /// A control request to a manager, as Protocol Buffers. The session sends it only once, because it has no sequence number.
    #[must_use]
    pub fn admin(encoded: Bytes, limit_us: u64) -> Self {
        let query = RequestKind::Admin { encoded };
        Self { operation: RequestedOperation::Single(query), limit_us, collecting: Coalescing::Never }
    }

    /// Looks a keyspace up by its name, if necessary in a newer map, and in none with an epoch below `least`.
    #[must_use]
    pub fn keyspace(name: &str, least: MapEpoch, limit_us: u64) -> Self {
        let query = RequestKind::Keyspace { name: name.into(), least };
        Self { operation: RequestedOperation::Single(query), limit_us, collecting: Coalescing::Never }
    }

    /// Chooses whether the operation waits for others.
    #[must_use]
    pub fn collecting(mut self, collecting: Coalescing) -> Self {
        self.collecting = collecting;
        self
    }

    /// Bytes that the request occupies.
    pub(crate) fn bytes(&self) -> usize {
        self.operation.bytes()
    }
}

/// Estimate of the encoded length of an operation, so that encoding allocates once.
fn packed_len(operation: &RecordOperation<'_>) -> usize {
    const FIELDS_BYTES: usize = 64;
    FIELDS_BYTES + operation.key().len() + payload_len(operation)
}

/// Estimate of the payload's part of it.
fn payload_len(operation: &RecordOperation<'_>) -> usize {
    match operation {
        RecordOperation::Write(write) => write.change.payload_bytes(),
        RecordOperation::Read(read) => read.query.payload_bytes(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerohop_wire::limits::KEY_BYTES_MAX;

    #[test]
    fn batch_encodes_operations_as_single_ones_and_isolates_invalid_one() {
        let keys = [b"a".to_vec(), vec![b'b'; KEY_BYTES_MAX + 1], b"c".to_vec()];
        let operations: Vec<RecordOperation<'_>> =
            keys.iter().map(|key| RecordOperation::Read(RecordRead { key, query: Query::Lookup })).collect();
        let together = SessionRequest::records(KeyspaceId(1), &operations, 7, Coalescing::AsKeyspace);
        for (one, operation) in together.iter().zip(&operations) {
            let alone = SessionRequest::record(KeyspaceId(1), operation, 7);
            assert_eq!(format!("{one:?}"), format!("{alone:?}"));
        }
        assert_eq!(together.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, false, true]);
    }
}
