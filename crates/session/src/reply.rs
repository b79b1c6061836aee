//! What an operation brought, owned by whoever asked.

use bytes::Bytes;
use zerohop_placement::KeyspaceConfig;
use zerohop_transaction::StageId;
use zerohop_wire::Failure;
use zerohop_wire::blob::BlobStamp;
use zerohop_wire::ids::{InstanceId, KeyspaceId, PartitionId, Timestamp};
use zerohop_wire::messages::{ItemAnswer, Outcome, RecordType, SliceComparison, TransactionDone};

use crate::limits::SHARE_BYTES_MIN;

/// What an operation that succeeded brought. The version is that of the record, zero if there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// It was done.
    Done {
        /// The record's version now.
        version: Timestamp,
        /// What the operation counts.
        number: u64,
    },
    /// A counter was changed.
    Counter {
        /// The record's version now.
        version: Timestamp,
        /// Its value now.
        value: i64,
    },
    /// A bytes record, or the part of it that was asked for.
    Value {
        /// The record's version.
        version: Timestamp,
        /// Bytes in the whole record.
        length: u64,
        /// The bytes.
        bytes: Bytes,
    },
    /// A list, or a page of the part of it that was asked for.
    List {
        /// The record's version.
        version: Timestamp,
        /// Values in the whole list.
        length: u64,
        /// The place of the first value of this page in the list, from zero.
        first: u64,
        /// The values.
        values: Vec<Bytes>,
    },
    /// All but a record's contents.
    Info {
        /// The record's version.
        version: Timestamp,
        /// What it is.
        record: RecordType,
        /// Bytes of bytes, values of a list.
        length: u64,
        /// When it ceases to be, in milliseconds since 1970.
        expires_at_ms: Option<u64>,
    },
    /// A part of a chunk of a blob.
    Chunk {
        /// The chunk's version.
        version: Timestamp,
        /// Of which blob, and which cut it knows.
        stamp: BlobStamp,
        /// The bytes; fewer than were asked for, if zeros follow.
        bytes: Bytes,
    },
    /// A page of the keys of a partition.
    Page {
        /// Where the next page begins; empty if this was the last.
        next: Bytes,
        /// The keys.
        keys: Vec<ListedKey>,
    },
    /// Members of a partition have compared a slice of what they hold.
    Compared(ComparedSlice),
    /// A transaction was done.
    Transacted {
        /// The version of all that it changed.
        version: Timestamp,
        /// What its operations brought, in their order.
        answers: Vec<Result<Reply, Failure<'static>>>,
    },
    /// What several reads brought, in their order.
    Many(Vec<Result<Reply, Failure<'static>>>),
    /// The same, of reads that were looked at once.
    Looked {
        /// What they brought, in their order.
        answers: Vec<Result<Reply, Failure<'static>>>,
        /// All were so at one moment since they were asked for; else it is not known.
        is_one_moment: bool,
    },
    /// A piece is staged, under the number of the request that brought it.
    Staged(StageId),
    /// The answer to a control request: Protocol Buffers.
    Admin(Bytes),
    /// The keyspace that was looked up.
    Keyspace(Box<FoundKeyspace>),
}

/// What a comparison of a slice of a partition brought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComparedSlice {
    /// The partition.
    pub partition: PartitionId,
    /// Where the next slice begins; 0: this was the last.
    pub next: u32,
    /// Records in it.
    pub records: u64,
    /// Bytes of their contents.
    pub bytes: u64,
    /// Members that have read it, the primary among them.
    pub copies: u32,
    /// Those of them that hold something else.
    pub differing: Vec<InstanceId>,
}

/// One key of a scan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedKey {
    /// The key.
    pub key: Bytes,
    /// The partition that holds it.
    pub partition: PartitionId,
    /// What its record is.
    pub record: RecordType,
    /// The version of its record.
    pub version: Timestamp,
}

/// A keyspace that was looked up by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundKeyspace {
    /// Its id.
    pub id: KeyspaceId,
    /// What it was asked to be.
    pub config: KeyspaceConfig,
}

impl Reply {
    /// The outcome, owned. Large values share `frame`, if they lie in it; small ones are copied, so that they do not
    /// keep a receive buffer alive.
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
            Outcome::ChunkApart { version, stamp, pieces, .. } => {
                Self::Chunk { version, stamp, bytes: pieces.concat().into() }
            }
            Outcome::Page { next, keys } => {
                let listed = |key: zerohop_wire::messages::ScannedKey<'_>| ListedKey {
                    key: owned(key.key, frame),
                    partition,
                    record: key.record,
                    version: key.version,
                };
                Self::Page { next: owned(next, frame), keys: keys.iter().map(listed).collect() }
            }
            Outcome::Compared(SliceComparison { next, records, bytes, copies, differing }) => {
                let differing = differing.iter().collect();
                Self::Compared(ComparedSlice { partition, next, records, bytes, copies, differing })
            }
        }
    }
}

impl Reply {
    /// What a transaction brought. What is of its version says so.
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

    /// The version of the record that it tells of; zero: of none.
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

/// The version that an outcome tells, zero if none.
pub(crate) fn version_of(outcome: &Outcome<'_>) -> Timestamp {
    match *outcome {
        Outcome::Done { version, .. }
        | Outcome::Counter { version, .. }
        | Outcome::Value { version, .. }
        | Outcome::List { version, .. }
        | Outcome::Info { version, .. }
        | Outcome::Chunk { version, .. }
        | Outcome::ChunkApart { version, .. } => version,
        Outcome::Page { .. } | Outcome::Compared(_) => Timestamp::ZERO,
    }
}

pub(crate) fn owned(bytes: &[u8], frame: Option<&Bytes>) -> Bytes {
    match frame {
        // A body that was compressed lies elsewhere.
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
