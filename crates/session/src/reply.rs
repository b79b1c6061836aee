//! Results of operations, owned by the caller.

use bytes::Bytes;
use zerohop_placement::{Division, KeyspaceConfig};
use zerohop_transaction::StageId;
use zerohop_wire::Failure;
use zerohop_wire::blob::BlobStamp;
use zerohop_wire::ids::{InstanceId, KeyspaceId, PartitionId, Timestamp};
use zerohop_wire::messages::{
    ChangeCause, CommittedChange, ItemAnswer, Outcome, RangeComparison, RecordType, TransactionDone,
};

use crate::limits::SHARE_BYTES_MIN;

/// The result of an operation that succeeded. The version is that of the record, zero if the record is absent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The operation was done.
    Done {
        /// The record's new version.
        version: Timestamp,
        /// The number that the operation returns.
        number: u64,
    },
    /// A counter was changed.
    Counter {
        /// The record's new version.
        version: Timestamp,
        /// Its new value.
        value: i64,
    },
    /// A bytes record, or the requested part of it.
    Value {
        /// The record's version.
        version: Timestamp,
        /// Length of the complete record, in bytes.
        length: u64,
        /// The bytes.
        bytes: Bytes,
    },
    /// A list, or a page of the requested part of it.
    List {
        /// The record's version.
        version: Timestamp,
        /// Length of the complete list, in values.
        length: u64,
        /// The index in the list of the first value of this page, from zero.
        first: u64,
        /// The values.
        values: Vec<Bytes>,
    },
    /// The metadata of a record.
    Info {
        /// The record's version.
        version: Timestamp,
        /// The record's type.
        record: RecordType,
        /// Length: bytes of a bytes record, values of a list.
        length: u64,
        /// When the record expires, in milliseconds since 1970.
        expires_at_ms: Option<u64>,
    },
    /// A part of a chunk of a blob.
    Chunk {
        /// The chunk's version.
        version: Timestamp,
        /// The blob stamp of the chunk: the blob's id, and the last truncation that the chunk knows.
        stamp: BlobStamp,
        /// The bytes; fewer than requested if zeros follow.
        bytes: Bytes,
    },
    /// A page of the keys of a partition.
    Page {
        /// The scan cursor of the next page; empty if this was the last.
        next: Bytes,
        /// The keys.
        keys: Vec<ScanKey>,
    },
    /// The members of a partition have compared a hash range.
    Compared(ComparedRange),
    /// Changes of a partition.
    Changes {
        /// The log index to read on from.
        next: u64,
        /// No change at or below that index has a higher timestamp.
        newest: Timestamp,
        /// All changes of the partition up to this timestamp were read with this reply, or before.
        through: Timestamp,
        /// The changes, in the order of the partition's log.
        changes: Vec<ChangedRecord>,
    },
    /// A transaction was committed.
    Transacted {
        /// The version of all records that it changed.
        version: Timestamp,
        /// The results of its operations, in their order.
        answers: Vec<Result<Reply, Failure<'static>>>,
    },
    /// The results of several reads, in their order.
    Many(Vec<Result<Reply, Failure<'static>>>),
    /// The results of several reads that were read in one round.
    UnconfirmedReads {
        /// The results, in the order of the reads.
        answers: Vec<Result<Reply, Failure<'static>>>,
        /// All the results were true at one moment since the request; `false` means that this is not known.
        is_one_moment: bool,
    },
    /// A piece is staged, under the number of its request.
    Staged(StageId),
    /// The reply to a control request, as Protocol Buffers.
    Admin(Bytes),
    /// The keyspace that was looked up.
    Keyspace(Box<KeyspaceLookup>),
}

/// A committed change of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedRecord {
    /// The key.
    pub key: Bytes,
    /// The partition of the key.
    pub partition: PartitionId,
    /// When it was made: the version of the record from then on, unless it was removed.
    pub at: Timestamp,
    /// The version of the record before; zero: there was none.
    pub before: Timestamp,
    /// The log index of the change, in its partition.
    pub index: u64,
    /// The type of the record from then on; `None`: it was removed.
    pub record: Option<RecordType>,
    /// Why it was made.
    pub cause: ChangeCause,
    /// The value from then on, if it was requested and the history has it: of bytes records of up to 64 KiB.
    pub value: Option<Bytes>,
}

/// The result of the comparison of a hash range of a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComparedRange {
    /// The partition.
    pub partition: PartitionId,
    /// The cursor at which the next range begins; empty: this was the last.
    pub next: Bytes,
    /// Number of records in the range.
    pub records: u64,
    /// Number of bytes of their contents.
    pub bytes: u64,
    /// Number of members that have read the range, including the primary.
    pub copies: u32,
    /// The members whose contents differ.
    pub differing: Vec<InstanceId>,
}

/// One key of a scan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScanKey {
    /// The key.
    pub key: Bytes,
    /// The partition that stores it.
    pub partition: PartitionId,
    /// The type of its record.
    pub record: RecordType,
    /// The version of its record.
    pub version: Timestamp,
    /// Its value, if the scan requests values and the record is bytes. A page lacks values above half a MiB.
    pub value: Option<Bytes>,
}

/// A keyspace that was looked up by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyspaceLookup {
    /// Its id.
    pub id: KeyspaceId,
    /// The keyspace's configuration.
    pub config: KeyspaceConfig,
    /// How its keys were divided.
    pub division: Division,
}

impl Reply {
    /// Converts an outcome to an owned reply. Large values inside `frame` share it; small ones are copied, so that they do not keep a receive
    /// buffer in memory.
    pub(crate) fn of(outcome: &Outcome<'_>, partition: PartitionId, frame: Option<&Bytes>) -> Self {
        match *outcome {
            Outcome::Done { version, number } => Self::Done { version, number },
            Outcome::Counter { version, value } => Self::Counter { version, value },
            Outcome::Value { version, length, bytes } => {
                Self::Value { version, length, bytes: owned(bytes, frame) }
            }
            Outcome::List { version, length, first, values } => {
                let values = values.iter().map(|value| owned(value, frame)).collect();
                Self::List { version, length, first, values }
            }
            Outcome::Info { version, record, length, expires_at_ms } => {
                Self::Info { version, record, length, expires_at_ms }
            }
            Outcome::Chunk { version, stamp, bytes } => {
                Self::Chunk { version, stamp, bytes: owned(bytes, frame) }
            }
            Outcome::ChunkMultiBuffer { version, stamp, pieces, .. } => {
                Self::Chunk { version, stamp, bytes: pieces.concat().into() }
            }
            Outcome::Page { next, keys } => {
                let listed = |key: zerohop_wire::messages::ScannedKey<'_>| ScanKey {
                    key: owned(key.key, frame),
                    partition,
                    record: key.record,
                    version: key.version,
                    value: key.value.map(|value| owned(value, frame)),
                };
                Self::Page { next: owned(next, frame), keys: keys.iter().map(listed).collect() }
            }
            Outcome::Compared(RangeComparison { next, records, bytes, copies, differing }) => {
                let differing = differing.iter().collect();
                let next = owned(next, frame);
                Self::Compared(ComparedRange { partition, next, records, bytes, copies, differing })
            }
            Outcome::Changes { next, newest, through, changes } => {
                let changed = |one: CommittedChange<'_>| ChangedRecord {
                    key: owned(one.key, frame),
                    partition,
                    at: one.at,
                    before: one.before,
                    index: one.index,
                    record: one.record,
                    cause: one.cause,
                    value: one.value.map(|value| owned(value, frame)),
                };
                Self::Changes { next, newest, through, changes: changes.iter().map(changed).collect() }
            }
        }
    }
}

impl Reply {
    /// The reply to a transaction. Results without a version get the version of the transaction.
    pub(crate) fn of_transaction(
        transacted: &TransactionDone<'_>,
        partition: PartitionId,
        frame: Option<&Bytes>,
    ) -> Self {
        let own = transacted.version;
        let answer = |answer: ItemAnswer<'_>| match answer.0 {
            Ok(outcome) => Ok(Self::of(&outcome, partition, frame).at_version(own)),
            Err(failure) => Err(failure.into_owned()),
        };
        Self::Transacted { version: own, answers: transacted.answers.iter().map(answer).collect() }
    }

    fn at_version(mut self, own: Timestamp) -> Self {
        match &mut self {
            Self::Done { version, .. }
            | Self::Counter { version, .. }
            | Self::Value { version, .. }
            | Self::List { version, .. }
            | Self::Chunk { version, .. }
            | Self::Info { version, .. }
                if *version == Timestamp::MAX =>
            {
                *version = own;
            }
            _ => {}
        }
        self
    }

    /// The version of the record in the reply; zero if the reply has none.
    #[must_use]
    pub fn version(&self) -> Timestamp {
        match self {
            Self::Done { version, .. }
            | Self::Counter { version, .. }
            | Self::Value { version, .. }
            | Self::List { version, .. }
            | Self::Info { version, .. }
            | Self::Chunk { version, .. }
            | Self::Transacted { version, .. } => *version,
            _ => Timestamp::ZERO,
        }
    }
}

/// The version in an outcome, zero if it has none.
pub(crate) fn version_of(outcome: &Outcome<'_>) -> Timestamp {
    match *outcome {
        Outcome::Done { version, .. }
        | Outcome::Counter { version, .. }
        | Outcome::Value { version, .. }
        | Outcome::List { version, .. }
        | Outcome::Info { version, .. }
        | Outcome::Chunk { version, .. }
        | Outcome::ChunkMultiBuffer { version, .. } => version,
        Outcome::Page { .. } | Outcome::Compared(_) => Timestamp::ZERO,
        Outcome::Changes { through, .. } => through,
    }
}

pub(crate) fn owned(bytes: &[u8], frame: Option<&Bytes>) -> Bytes {
    match frame {
        // A compressed body was expanded into another buffer.
        Some(frame) if bytes.len() >= SHARE_BYTES_MIN && frame.as_ptr_range().contains(&bytes.as_ptr()) => {
            frame.slice_ref(bytes)
        }
        _ => Bytes::copy_from_slice(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_values_are_shared_and_small_ones_copied() {
        let frame = Bytes::from(vec![7; 40_000]);
        let large = owned(&frame[100..30_000], Some(&frame));
        assert_eq!(large.as_ptr(), frame[100..].as_ptr());
        let small = owned(&frame[100..200], Some(&frame));
        assert!(!frame.as_ptr_range().contains(&small.as_ptr()) && small[..] == frame[100..200]);
        let elsewhere = vec![8; 30_000];
        assert_eq!(owned(&elsewhere, Some(&frame)), elsewhere);
    }
}
