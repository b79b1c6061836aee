//! What a caller asks for.

use bytes::Bytes;
use zerohop_placement::{Keyspace, PartitionCount, partition_of};
use zerohop_wire::ids::{KeyspaceId, MapEpoch, PartitionId, SnapshotId, Timestamp};
use zerohop_wire::messages::{Message, Query, RecordOperation, RecordRead, SnapshotAsk, SnapshotRequest};
use zerohop_wire::{Element, Failure, Kind, pack};

use crate::transaction::{Commit, Composite, CompositeItem, ConsistentRead, InvalidTransaction};

/// Whether an operation may wait for others to the same instance, so that they travel together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Coalescing {
    /// As the keyspace is configured.
    #[default]
    AsKeyspace,
    /// Never: it goes with the next write to the socket.
    Never,
    /// Within these bounds.
    Within(Collect),
}

/// Bounds of collecting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Collect {
    /// How long the first one waits, in microseconds. 0: only for what was submitted in the same turn.
    pub delay_us: u32,
    /// Bytes of operations to one instance at which they go at once.
    pub bytes: u32,
}

/// A partition, by its number and how many there are: a split of the keyspace gives the number to another slice.
pub type Slice = (PartitionId, PartitionCount);

/// One operation of a caller.
#[derive(Clone, Debug)]
pub struct SessionRequest {
    pub(crate) ask: RequestKind,
    /// How long to try, in microseconds. For a wait: how long the server waits.
    pub(crate) limit_us: u64,
    pub(crate) collecting: Coalescing,
}

#[derive(Clone, Debug)]
pub(crate) enum RequestKind {
    /// An operation on a record, packed as an item of a batch: one buffer, whatever the operation.
    Record { keyspace: KeyspaceId, item: Bytes, write: bool, wait: bool },
    /// What a transaction needs of whoever holds this point of the keyspace's hashes: numbered like a write there.
    Point { keyspace: KeyspaceId, point: u64, what: PointMessage, bytes: Bytes },
    /// Several operations that end together.
    Together(Box<Composite>),
    /// A page of the keys of a partition.
    Scan { keyspace: KeyspaceId, slice: Slice, cursor: Bytes, prefix: Bytes, keys_max: u32, blobs: bool },
    /// Members compare a slice of a partition.
    Compare { keyspace: KeyspaceId, slice: Slice, from: u32 },
    /// About a snapshot of a partition, packed as its body.
    Snapshot { keyspace: KeyspaceId, to: SnapshotTarget, kind: Kind, body: Bytes },
    /// A control request to a manager.
    Admin { encoded: Bytes },
    /// The keyspace of this name, in a map that is not older than `least`.
    Keyspace { name: Box<str>, least: MapEpoch },
}

/// Which partition a request about a snapshot is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SnapshotTarget {
    Slice(Slice),
    /// The one that holds the key of the read.
    Key,
}

/// What is sent to the holder of a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PointMessage {
    /// Encoded parts, to their coordinator.
    Transact,
    /// A piece.
    Stage,
}

impl RequestKind {
    pub(crate) fn keyspace(&self) -> KeyspaceId {
        match self {
            Self::Record { keyspace, .. }
            | Self::Scan { keyspace, .. }
            | Self::Compare { keyspace, .. }
            | Self::Snapshot { keyspace, .. }
            | Self::Point { keyspace, .. } => *keyspace,
            Self::Admin { .. } | Self::Keyspace { .. } | Self::Together(_) => KeyspaceId::NONE,
        }
    }

    /// Whether its frames carry a number of the session.
    pub(crate) fn is_numbered(&self) -> bool {
        matches!(self, Self::Record { write: true, .. } | Self::Point { .. })
    }

    /// Bytes that it holds; those that consist of others count once more in them.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Record { item, .. } => item.len(),
            Self::Point { bytes, .. } => bytes.len(),
            Self::Together(together) => together.bytes(),
            Self::Scan { cursor, prefix, .. } => cursor.len() + prefix.len(),
            Self::Compare { .. } => 0,
            Self::Snapshot { body, .. } => body.len(),
            Self::Admin { encoded } => encoded.len(),
            Self::Keyspace { name, .. } => name.len(),
        }
    }

    /// Where it lies by a hash, if it does.
    pub(crate) fn partition_in(&self, keyspace: &Keyspace) -> Option<PartitionId> {
        match self {
            Self::Record { item, .. } => Some(keyspace.partition(unpack(item).key())),
            Self::Point { point, .. } => Some(partition_of(*point, keyspace.config().partitions)),
            Self::Snapshot { to: SnapshotTarget::Key, kind, body, .. } => {
                match Message::decode_body(*kind, body) {
                    Ok(Message::Snapshot(SnapshotRequest {
                        ask: SnapshotAsk::Read { read, .. }, ..
                    })) => Some(keyspace.partition(read.key)),
                    _ => None,
                }
            }
            _ => None,
        }
    }
}

impl SessionRequest {
    /// A transaction of these operations: all are done, at one version, or none. Ends with [`Reply::Transacted`], the
    /// replies in the order of `items`, or with [`SessionError::Aborted`].
    ///
    /// [`Reply::Transacted`]: crate::Reply::Transacted
    /// [`SessionError::Aborted`]: crate::SessionError::Aborted
    ///
    /// # Errors
    /// It is empty, or larger than a transaction may be.
    pub fn transaction(items: Vec<CompositeItem>, limit_us: u64) -> Result<Self, InvalidTransaction> {
        let together = Composite::Commit(Commit::new(items)?);
        Ok(Self { ask: RequestKind::Together(Box::new(together)), limit_us, collecting: Coalescing::Never })
    }

    /// Stages an operation of a transaction to come, where the hash by which its key is placed lies. Ends with
    /// [`Reply::Staged`](crate::Reply::Staged), of which the item is to be told.
    #[must_use]
    pub fn stage(item: &CompositeItem, point: u64, limit_us: u64) -> Self {
        let (keyspace, bytes) = (item.keyspace, item.packed.clone());
        let ask = RequestKind::Point { keyspace, point, what: PointMessage::Stage, bytes };
        Self { ask, limit_us, collecting: Coalescing::Never }
    }

    /// Has what this session has staged where a hash lies stay, as another piece would: one of no bytes, of which nobody is told.
    #[must_use]
    pub fn stay_staged(keyspace: KeyspaceId, point: u64, limit_us: u64) -> Self {
        let ask = RequestKind::Point { keyspace, point, what: PointMessage::Stage, bytes: Bytes::new() };
        Self { ask, limit_us, collecting: Coalescing::Never }
    }

    /// Several reads whose answers were all true at one moment, of any partitions. Ends with [`Reply::Many`].
    ///
    /// [`Reply::Many`]: crate::Reply::Many
    ///
    /// # Errors
    /// They are more than a transaction may have, or one of them is no read.
    pub fn read_many(items: Vec<CompositeItem>, limit_us: u64) -> Result<Self, InvalidTransaction> {
        let together = Composite::Reading(ConsistentRead::new(items)?);
        Ok(Self { ask: RequestKind::Together(Box::new(together)), limit_us, collecting: Coalescing::Never })
    }

    /// As [`SessionRequest::read_many`], in one round, that tells whether they were all so at one moment: its caller sees to it if not. Ends
    /// with [`Reply::Looked`](crate::Reply::Looked).
    ///
    /// # Errors
    /// As there.
    pub fn look_at(items: Vec<CompositeItem>, limit_us: u64) -> Result<Self, InvalidTransaction> {
        let together = Composite::Reading(ConsistentRead::look_only(items)?);
        Ok(Self { ask: RequestKind::Together(Box::new(together)), limit_us, collecting: Coalescing::Never })
    }

    /// An operation on a record. Errors: it passes a bound of the protocol.
    pub fn record(
        keyspace: KeyspaceId,
        operation: &RecordOperation<'_>,
        limit_us: u64,
    ) -> Result<Self, Failure<'static>> {
        let mut item = Vec::with_capacity(packed_len(operation));
        pack(operation, &mut item)?;
        Ok(Self::of_packed(keyspace, operation, item.into(), limit_us))
    }

    /// The same of several operations, which are packed into one buffer.
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
        let wait =
            matches!(operation, RecordOperation::Read(read) if matches!(read.query, Query::Wait { .. }));
        let ask = RequestKind::Record { keyspace, item, write, wait };
        Self { ask, limit_us, collecting: Coalescing::AsKeyspace }
    }

    /// A page of the keys of a partition, from `cursor` on (empty to begin). If the keyspace has more partitions by now, it
    /// ends as [`SessionError::Split`](crate::SessionError::Split): the same cursor leads on in each that the partition has become.
    #[must_use]
    pub fn scan(
        keyspace: KeyspaceId,
        slice: Slice,
        cursor: Bytes,
        prefix: Bytes,
        keys_max: u32,
        limit_us: u64,
    ) -> Self {
        let ask = RequestKind::Scan { keyspace, slice, cursor, prefix, keys_max, blobs: false };
        Self { ask, limit_us, collecting: Coalescing::Never }
    }

    /// A page of the names of blobs in a partition, in their order, behind the last name of the page before (empty to
    /// begin). Otherwise as [`SessionRequest::scan`].
    #[must_use]
    pub fn scan_blobs(
        keyspace: KeyspaceId,
        slice: Slice,
        after: Bytes,
        prefix: Bytes,
        names_max: u32,
        limit_us: u64,
    ) -> Self {
        let (cursor, keys_max) = (after, names_max);
        let ask = RequestKind::Scan { keyspace, slice, cursor, prefix, keys_max, blobs: true };
        Self { ask, limit_us, collecting: Coalescing::Never }
    }

    /// Has the members of a partition compare a slice of what they hold, from a hash fragment on: 0, then what
    /// [`Reply::Compared`](crate::Reply::Compared) says. If the keyspace has more partitions by now, it ends as
    /// [`SessionError::Split`](crate::SessionError::Split): then from 0 on again.
    #[must_use]
    pub fn compare(keyspace: KeyspaceId, slice: Slice, from: u32, limit_us: u64) -> Self {
        let ask = RequestKind::Compare { keyspace, slice, from };
        Self { ask, limit_us, collecting: Coalescing::Never }
    }

    /// About a snapshot, of one partition: of all but reads of a record. If the keyspace has more partitions by now, it ends as
    /// [`SessionError::Split`](crate::SessionError::Split).
    ///
    /// # Errors
    /// It passes a bound of the protocol.
    pub fn snapshot(
        keyspace: KeyspaceId,
        slice: Slice,
        (id, ask): (SnapshotId, SnapshotAsk<'_>),
        limit_us: u64,
    ) -> Result<Self, Failure<'static>> {
        Self::about_snapshot((keyspace, SnapshotTarget::Slice(slice)), (id, ask), limit_us)
    }

    /// What a record was at the time of a snapshot.
    ///
    /// # Errors
    /// It passes a bound of the protocol.
    pub fn read_at(
        keyspace: KeyspaceId,
        (id, at): (SnapshotId, Timestamp),
        read: &RecordRead<'_>,
        limit_us: u64,
    ) -> Result<Self, Failure<'static>> {
        let ask = SnapshotAsk::Read { at, read: *read };
        Self::about_snapshot((keyspace, SnapshotTarget::Key), (id, ask), limit_us)
    }

    fn about_snapshot(
        (keyspace, to): (KeyspaceId, SnapshotTarget),
        (id, ask): (SnapshotId, SnapshotAsk<'_>),
        limit_us: u64,
    ) -> Result<Self, Failure<'static>> {
        let message = Message::Snapshot(SnapshotRequest { seen: Timestamp::ZERO, id, ask });
        let mut body = Vec::new();
        let kind = message.encode_body(&mut body)?;
        let ask = RequestKind::Snapshot { keyspace, to, kind, body: body.into() };
        Ok(Self { ask, limit_us, collecting: Coalescing::Never })
    }

    /// A control request to a manager: its bytes are Protocol Buffers. It is sent once, as nobody numbers it.
    #[must_use]
    pub fn admin(encoded: Bytes, limit_us: u64) -> Self {
        Self { ask: RequestKind::Admin { encoded }, limit_us, collecting: Coalescing::Never }
    }

    /// Looks a keyspace up by its name, in a newer map if need be, and in none that is older than `least`.
    #[must_use]
    pub fn keyspace(name: &str, least: MapEpoch, limit_us: u64) -> Self {
        Self {
            ask: RequestKind::Keyspace { name: name.into(), least },
            limit_us,
            collecting: Coalescing::Never,
        }
    }

    /// Chooses whether it is collected with others.
    #[must_use]
    pub fn collecting(mut self, collecting: Coalescing) -> Self {
        self.collecting = collecting;
        self
    }

    /// Bytes that it holds.
    pub(crate) fn bytes(&self) -> usize {
        self.ask.bytes()
    }
}

/// The operation in a packed item.
pub(crate) fn unpack(item: &[u8]) -> RecordOperation<'_> {
    RecordOperation::take(&mut { item }).expect("an item was packed by `Request::record`")
}

/// About how many bytes an operation takes, so that packing allocates once.
fn packed_len(operation: &RecordOperation<'_>) -> usize {
    const FIELDS_BYTES: usize = 64;
    FIELDS_BYTES + operation.key().len() + payload_len(operation)
}

/// About how many of them its payload takes.
fn payload_len(operation: &RecordOperation<'_>) -> usize {
    use zerohop_wire::messages::{BlobChange, WaitUntil, WriteChange};
    match operation {
        RecordOperation::Write(write) => match &write.change {
            WriteChange::Insert { value, .. } => value.len(),
            WriteChange::Append { values } => values.iter().map(|value| value.len() + 4).sum(),
            WriteChange::Extend { bytes } | WriteChange::Blob(BlobChange::WriteChunk { bytes, .. }) => {
                bytes.len()
            }
            WriteChange::Blob(
                BlobChange::Create { attributes, .. } | BlobChange::Describe { attributes, .. },
            ) => attributes.len(),
            WriteChange::CompareSwap { expected, new } => {
                expected.map_or(0, <[u8]>::len) + new.map_or(0, <[u8]>::len)
            }
            _ => 0,
        },
        RecordOperation::Read(read) => match read.query {
            Query::Wait { until: WaitUntil::Equals(value) | WaitUntil::Differs(value) } => value.len(),
            _ => 0,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerohop_wire::limits::KEY_BYTES_MAX;

    #[test]
    fn several_are_packed_as_each_by_itself_and_one_that_cannot_be_stands_in_nobodys_way() {
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
