//! Why a procedure ends without its result.

use crate::batch::BatchFault;

/// Why a procedure ends without its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogError {
    /// The keyspace has no log.
    NoSuchLog,
    /// The keyspace has a log already.
    LogExists,
    /// The log has no partition of this number.
    NoSuchPartition,
    /// A log has at least one partition, and no fewer than before.
    BadPartitionCount,
    /// The name of a group or a cursor is empty, too long, or has a byte 00.
    BadName,
    /// The batch is refused.
    BadBatch(BatchFault),
    /// The log has no state of this producer, and the batch is not its first one.
    UnknownProducer,
    /// A producer with the same id and the higher epoch `epoch` has appended.
    ProducerFenced {
        /// The epoch.
        epoch: u16,
    },
    /// The batch does not follow the producer's last one.
    SequenceGap {
        /// The sequence number that follows.
        expected: u32,
    },
    /// The batch was appended, and its offset is no longer remembered: the producer has appended too many others since.
    OldSequence,
    /// The log partition has no such offset, or no longer.
    OutOfRange {
        /// The first offset.
        first: u64,
        /// The offset of the next record.
        next: u64,
    },
    /// The group has no such member, or no longer.
    UnknownMember,
    /// The group has begun another generation: the member must join again.
    OldGeneration {
        /// The current generation.
        generation: u64,
    },
    /// The member does not read this partition.
    NotAssigned {
        /// The partition.
        partition: u32,
    },
    /// The group has members, so only they may commit, and it cannot be removed.
    GroupHasMembers,
    /// The group has as many members as it may have.
    GroupFull,
    /// The reader has popped under the higher number `number`.
    OldPop {
        /// The number.
        number: u64,
    },
    /// Other writers changed the same records in each attempt.
    Busy,
    /// A stored record has bytes that no version of this code writes.
    Corrupt(Vec<u8>),
    /// The store has no room, and nothing was written.
    NoRoom,
    /// The store refused, and nothing was written.
    Refused(String),
    /// The store did not answer. The write may have happened.
    Unavailable(String),
}

impl std::fmt::Display for LogError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = match self {
            Self::NoSuchLog => "the log does not exist",
            Self::LogExists => "the log exists",
            Self::NoSuchPartition => "the log has no such partition",
            Self::BadPartitionCount => "a log has at least one partition, and no fewer than before",
            Self::BadName => "a name has 1 to 249 bytes, and no byte 00",
            Self::BadBatch(fault) => return write!(formatter, "the batch is refused: {fault}"),
            Self::UnknownProducer => "the log does not know the producer, and the batch is not its first one",
            Self::ProducerFenced { epoch } => {
                return write!(formatter, "a producer of epoch {epoch} has replaced this one");
            }
            Self::SequenceGap { expected } => {
                return write!(formatter, "the next batch of the producer has sequence number {expected}");
            }
            Self::OldSequence => "the batch was appended before, and its offset is forgotten",
            Self::OutOfRange { first, next } => {
                return write!(formatter, "the log partition has the offsets from {first} to {next}");
            }
            Self::UnknownMember => "the group has no such member",
            Self::OldGeneration { generation } => {
                return write!(formatter, "the group has begun generation {generation}");
            }
            Self::NotAssigned { partition } => {
                return write!(formatter, "the member does not read partition {partition}");
            }
            Self::GroupHasMembers => "the group has members",
            Self::GroupFull => "the group has as many members as it may have",
            Self::OldPop { number } => {
                return write!(formatter, "the reader has popped under the higher number {number}");
            }
            Self::Busy => "other writers changed the same records in each attempt",
            Self::Corrupt(key) => return write!(formatter, "the record of {key:02x?} is corrupt"),
            Self::NoRoom => "the store has no room",
            Self::Refused(why) => return formatter.write_str(why),
            Self::Unavailable(why) => return write!(formatter, "the store is unavailable: {why}"),
        };
        formatter.write_str(text)
    }
}

impl std::error::Error for LogError {}

impl From<BatchFault> for LogError {
    fn from(fault: BatchFault) -> Self {
        Self::BadBatch(fault)
    }
}

impl zerohop_layer_procedure::LayerError for LogError {
    fn busy() -> Self {
        Self::Busy
    }

    fn corrupt(key: Vec<u8>) -> Self {
        Self::Corrupt(key)
    }

    fn unavailable(why: String) -> Self {
        Self::Unavailable(why)
    }
}
