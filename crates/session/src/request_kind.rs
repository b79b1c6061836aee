//! The kinds of requests. Each goes to one partition, to a manager or to the session's own map.

use bytes::Bytes;
use zerohop_placement::{Keyspace, PartitionCount};
use zerohop_wire::ids::{KeyspaceId, MapEpoch, PartitionId, Timestamp};
use zerohop_wire::messages::{Message, ReadChanges, RecordOperation, SnapshotQuery, SnapshotRequest};
use zerohop_wire::{Element, FrameKind};

use crate::key_range::KeyRange;

/// A partition, by its number and the number of partitions: after a split of the keyspace the number means another hash range.
pub type HashRange = (PartitionId, PartitionCount);

/// The request of an operation that is not a composite one.
#[derive(Clone, Debug)]
pub(crate) enum RequestKind {
    /// An operation on a record, encoded as a batch item: one buffer for every kind of operation.
    Record { keyspace: KeyspaceId, item: Bytes, write: bool, wait: bool },
    /// A message of a transaction to the partition of this hash; it has a sequence number there, like a write.
    Point { keyspace: KeyspaceId, point: u64, what: PointMessage, bytes: Bytes },
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
    /// A page of the changes of a partition, for which the answer may wait.
    Changes { keyspace: KeyspaceId, hash_range: HashRange, query: Box<ChangesQuery> },
    /// A comparison of a hash range of a partition by its members.
    Compare { keyspace: KeyspaceId, hash_range: HashRange, from: Bytes },
    /// A request about a snapshot of a partition, encoded as its body.
    Snapshot { keyspace: KeyspaceId, to: SnapshotTarget, kind: FrameKind, body: Bytes },
    /// A control request to a manager.
    Admin { encoded: Bytes },
    /// A lookup of a keyspace by name, in a map with an epoch of at least `least`.
    Keyspace { name: Box<str>, least: MapEpoch },
}

/// The changes that a reader wants of a partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangesQuery {
    /// The log index that the previous page gave, with its newest timestamp; [`AFTER_NOW`](zerohop_wire::messages::AFTER_NOW): from now on.
    pub position: (u64, Timestamp),
    /// How long the answer waits for a first change, in milliseconds.
    pub wait_ms: u32,
    /// Maximum number of changes.
    pub changes_max: u32,
    /// Whether values are wanted.
    pub values: bool,
    /// Only keys at or above this.
    pub from: Bytes,
    /// Only keys below this; empty: up to the last.
    pub to: Bytes,
    /// Only keys with this prefix.
    pub prefix: Bytes,
}

impl ChangesQuery {
    pub(crate) fn as_wire(&self, seen: Timestamp) -> ReadChanges<'_> {
        let ChangesQuery { position: (after, newest), wait_ms, changes_max, values, .. } = *self;
        let ChangesQuery { from, to, prefix, .. } = self;
        ReadChanges { seen, after, newest, wait_ms, changes_max, bytes_max: 0, values, from, to, prefix }
    }
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
            | Self::Changes { keyspace, .. }
            | Self::Compare { keyspace, .. }
            | Self::Snapshot { keyspace, .. }
            | Self::Point { keyspace, .. } => *keyspace,
            Self::Admin { .. } | Self::Keyspace { .. } => KeyspaceId::NONE,
        }
    }

    /// Whether its frames have a sequence number of the session.
    pub(crate) fn is_numbered(&self) -> bool {
        matches!(self, Self::Record { write: true, .. } | Self::Point { .. })
    }

    /// Bytes that the request occupies.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Record { item, .. } => item.len(),
            Self::Point { bytes, .. } => bytes.len(),
            Self::Scan { cursor, prefix, range, .. } => cursor.len() + prefix.len() + range.bytes(),
            Self::Chunks { cursor, name, .. } => cursor.len() + name.len(),
            Self::Changes { query, .. } => query.from.len() + query.to.len() + query.prefix.len(),
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

/// Decodes the operation in a batch item.
pub(crate) fn unpack(item: &[u8]) -> RecordOperation<'_> {
    RecordOperation::take(&mut { item }).expect("an item was packed by `SessionRequest::record`")
}
