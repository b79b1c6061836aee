//! Requests of the caller.

use bytes::Bytes;
use zerohop_placement::{Keyspace, PartitionCount};
use zerohop_transaction::StageId;
use zerohop_transaction::codec::encode_release;
use zerohop_wire::ids::{KeyspaceId, MapEpoch, PartitionId, Sequence, SnapshotId, Timestamp};
use zerohop_wire::messages::{Message, Query, RecordOperation, RecordRead, SnapshotQuery, SnapshotRequest};
use zerohop_wire::{Element, Failure, FrameKind, pack};

use crate::invalid_transaction::InvalidTransaction;
use crate::key_range::KeyRange;
use crate::transaction::{Commit, Composite, CompositeItem, ConsistentRead};

/// Whether an operation may wait a short time for others to the same instance, so that they are sent together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Coalescing {
    /// As the keyspace is configured.
    #[default]
    AsKeyspace,
    /// Never: the operation is sent with the next write to the socket.
    Never,
    /// Within these bounds.
    Within(Collect),
}

/// Limits of the wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Collect {
    /// How long the first operation waits, in microseconds. 0: only for operations that are submitted in the same turn.
    pub delay_us: u32,
    /// Number of bytes of operations to one instance at which they are sent at once.
    pub bytes: u32,
}

/// A partition, by its number and the number of partitions: after a split of the keyspace the number means another hash range.
pub type HashRange = (PartitionId, PartitionCount);

/// One operation of a caller.
#[derive(Clone, Debug)]
pub struct SessionRequest {
    pub(crate) operation: RequestKind,
    /// Time limit in microseconds. For a wait: how long the server waits.
    pub(crate) limit_us: u64,
    pub(crate) collecting: Coalescing,
}

#[derive(Clone, Debug)]
pub(crate) enum RequestKind {
    /// An operation on a record, encoded as a batch item: one buffer for every kind of operation.
    Record { keyspace: KeyspaceId, item: Bytes, write: bool, wait: bool },
    /// A message of a transaction to the partition of this hash; it has a sequence number there, like a write.
    Point { keyspace: KeyspaceId, point: u64, what: PointMessage, bytes: Bytes },
    /// Several operations that end together.
    Composite(Box<Composite>),
    /// A page of the keys of a partition.
    Scan {
        keyspace: KeyspaceId,
        hash_range: HashRange,
        cursor: Bytes,
        prefix: Bytes,
        keys_max: u32,
        blobs: bool,
        range: KeyRange,
    },
    /// A page of the chunks of a blob that a partition has.
    Chunks {
        keyspace: KeyspaceId,
        hash_range: HashRange,
        cursor: Bytes,
        name: Bytes,
        /// The first number, and the number behind the last.
        numbers: (u64, u64),
        numbers_max: u32,
    },
    /// A comparison of a hash range of a partition by its members.
    Compare { keyspace: KeyspaceId, hash_range: HashRange, from: Bytes },
    /// A request about a snapshot of a partition, encoded as its body.
    Snapshot { keyspace: KeyspaceId, to: SnapshotTarget, kind: FrameKind, body: Bytes },
    /// A control request to a manager.
    Admin { encoded: Bytes },
    /// A lookup of a keyspace by name, in a map with an epoch of at least `least`.
    Keyspace { name: Box<str>, least: MapEpoch },
}

/// The partition of a snapshot request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SnapshotTarget {
    HashRange(HashRange),
    /// The partition of the key in the read.
    Key,
}

/// A message to the partition of a hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PointMessage {
    /// The encoded parts of a transaction, to the coordinator.
    Transact,
    /// An operation to stage, at the partition of its key.
    StageItem,
    /// A list to stage, or pieces to release.
    Stage,
}

impl RequestKind {
    pub(crate) fn keyspace(&self) -> KeyspaceId {
        match self {
            Self::Record { keyspace, .. }
            | Self::Scan { keyspace, .. }
            | Self::Chunks { keyspace, .. }
            | Self::Compare { keyspace, .. }
            | Self::Snapshot { keyspace, .. }
            | Self::Point { keyspace, .. } => *keyspace,
            Self::Admin { .. } | Self::Keyspace { .. } | Self::Composite(_) => KeyspaceId::NONE,
        }
    }

    /// Whether its frames have a sequence number of the session.
    pub(crate) fn is_numbered(&self) -> bool {
        matches!(self, Self::Record { write: true, .. } | Self::Point { .. })
    }

    /// Bytes that the request occupies; the operations of a composite count again in it.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Record { item, .. } => item.len(),
            Self::Point { bytes, .. } => bytes.len(),
            Self::Composite(composite) => composite.bytes(),
            Self::Scan { cursor, prefix, range, .. } => cursor.len() + prefix.len() + range.bytes(),
            Self::Chunks { cursor, name, .. } => cursor.len() + name.len(),
            Self::Compare { from, .. } => from.len(),
            Self::Snapshot { body, .. } => body.len(),
            Self::Admin { encoded } => encoded.len(),
            Self::Keyspace { name, .. } => name.len(),
        }
    }

    /// The partition of its hash; `None` if it has no hash.
    pub(crate) fn partition_in(&self, keyspace: &Keyspace) -> Option<PartitionId> {
        match self {
            Self::Record { item, .. } => Some(keyspace.partition(unpack(item).key())),
            // In an ordered keyspace the point is that of the key's region in an older map, and a split has put the key on one of its sides.
            Self::Point { what: PointMessage::StageItem, bytes, .. } => {
                Some(keyspace.partition(unpack(bytes).key()))
            }
            Self::Point { point, .. } => Some(keyspace.division().partition_at(*point)),
            Self::Snapshot { to: SnapshotTarget::Key, kind, body, .. } => {
                match Message::decode_body(*kind, body) {
                    Ok(Message::Snapshot(SnapshotRequest {
                        request: SnapshotQuery::Read { read, .. },
                        ..
                    })) => Some(keyspace.partition(read.key)),
                    _ => None,
                }
            }
            _ => None,
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
            operation: RequestKind::Composite(Box::new(composite)),
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
        Self { operation: query, limit_us, collecting: Coalescing::Never }
    }

    /// Extends the time for which the partition of this hash keeps what this session has staged. The request stages an empty piece that is never
    /// used.
    #[must_use]
    pub fn stay_staged(keyspace: KeyspaceId, point: u64, limit_us: u64) -> Self {
        let query = RequestKind::Point { keyspace, point, what: PointMessage::Stage, bytes: Bytes::new() };
        Self { operation: query, limit_us, collecting: Coalescing::Never }
    }

    /// Ends pieces of this session at the partition of this hash that no transaction will use; at most `EXPIRED_PER_ENTRY_MAX`.
    #[must_use]
    pub fn release_staged(keyspace: KeyspaceId, point: u64, pieces: &[StageId], limit_us: u64) -> Self {
        let pieces: Vec<Sequence> = pieces.iter().map(|piece| piece.sequence).collect();
        let bytes = encode_release(&pieces).into();
        let query = RequestKind::Point { keyspace, point, what: PointMessage::Stage, bytes };
        Self { operation: query, limit_us, collecting: Coalescing::Never }
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
            operation: RequestKind::Composite(Box::new(composite)),
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
            operation: RequestKind::Composite(Box::new(composite)),
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
        let wait = matches!(operation, RecordOperation::Read(read) if matches!(read.query, Query::Wait(_)));
        let query = RequestKind::Record { keyspace, item, write, wait };
        Self { operation: query, limit_us, collecting: Coalescing::AsKeyspace }
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
        Self { operation: query, limit_us, collecting: Coalescing::Never }
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
        Self { operation: query, limit_us, collecting: Coalescing::Never }
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
        Self { operation: query, limit_us, collecting: Coalescing::Never }
    }

    /// A comparison by the members of a partition of a range. `from` is a cursor: empty at first, then the one in
    /// [`Reply::Compared`](crate::Reply::Compared). If the keyspace has more partitions now, the request ends with
    /// [`SessionError::Split`](crate::SessionError::Split), and the comparison must start from the beginning.
    #[must_use]
    pub fn compare(keyspace: KeyspaceId, hash_range: HashRange, from: Bytes, limit_us: u64) -> Self {
        let query = RequestKind::Compare { keyspace, hash_range, from };
        Self { operation: query, limit_us, collecting: Coalescing::Never }
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
        Ok(Self { operation: query, limit_us, collecting: Coalescing::Never })
    }

    /// A control request to a manager, as Protocol Buffers. The session sends it only once, because it has no sequence number.
    #[must_use]
    pub fn admin(encoded: Bytes, limit_us: u64) -> Self {
        Self { operation: RequestKind::Admin { encoded }, limit_us, collecting: Coalescing::Never }
    }

    /// Looks a keyspace up by its name, if necessary in a newer map, and in none with an epoch below `least`.
    #[must_use]
    pub fn keyspace(name: &str, least: MapEpoch, limit_us: u64) -> Self {
        Self {
            operation: RequestKind::Keyspace { name: name.into(), least },
            limit_us,
            collecting: Coalescing::Never,
        }
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

/// Decodes the operation in a batch item.
pub(crate) fn unpack(item: &[u8]) -> RecordOperation<'_> {
    RecordOperation::take(&mut { item }).expect("an item was packed by `Request::record`")
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
