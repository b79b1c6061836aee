//! Why a procedure ends without its result.

use crate::limits::{LEASES_MAX, MESSAGE_BYTES_MAX, NAME_MAX, PARTITIONS_MAX};

/// Why a procedure ends without its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueueError {
    /// The keyspace has no queue.
    NoSuchQueue,
    /// The keyspace has a queue already.
    QueueExists,
    /// A queue has 1 to `PARTITIONS_MAX` partitions.
    BadPartitionCount,
    /// The name of a group or a message is empty, too long, or has a byte 00.
    BadName,
    /// A message has more than [`MESSAGE_BYTES_MAX`] bytes.
    MessageTooLong {
        /// Its bytes.
        bytes: usize,
    },
    /// A lease of no time.
    BadLease,
    /// The producer has pushed messages with the higher number `number`.
    OldPush {
        /// The number.
        number: u64,
    },
    /// The consumer has popped under the higher number `number`.
    OldPop {
        /// The number.
        number: u64,
    },
    /// The consumer has leased as many messages of one partition as it may.
    TooManyLeased,
    /// The lease is one of another queue.
    OtherQueue,
    /// The lease of a message has lapsed: another consumer may have it, or has processed it.
    LeaseLapsed,
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

impl std::fmt::Display for QueueError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoSuchQueue => formatter.write_str("the queue does not exist"),
            Self::QueueExists => formatter.write_str("the queue exists"),
            Self::BadPartitionCount => write!(formatter, "a queue has 1 to {PARTITIONS_MAX} partitions"),
            Self::BadName => write!(formatter, "a name has 1 to {NAME_MAX} bytes, and no byte 00"),
            Self::MessageTooLong { bytes } => {
                write!(formatter, "a message has at most {MESSAGE_BYTES_MAX} bytes, and this one has {bytes}")
            }
            Self::BadLease => formatter.write_str("a lease lasts at least a millisecond"),
            Self::OldPush { number } => {
                write!(formatter, "the producer has pushed messages up to the number {number}")
            }
            Self::OldPop { number } => {
                write!(formatter, "the consumer has popped under the higher number {number}")
            }
            Self::TooManyLeased => write!(
                formatter,
                "the consumer has leased {LEASES_MAX} messages of a partition: acknowledge or release some first"
            ),
            Self::OtherQueue => formatter.write_str("the receipt is of another queue"),
            Self::LeaseLapsed => {
                formatter.write_str("the lease of the message has lapsed, or was settled before: another consumer may have the message")
            }
            Self::Busy => formatter.write_str("other writers changed the same records in each attempt"),
            Self::Corrupt(key) => write!(formatter, "the record of {key:02x?} is corrupt"),
            Self::NoRoom => formatter.write_str("the store has no room"),
            Self::Refused(why) => formatter.write_str(why),
            Self::Unavailable(why) => write!(formatter, "the store is unavailable: {why}"),
        }
    }
}

impl std::error::Error for QueueError {}

impl zerohop_layer_procedure::LayerError for QueueError {
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
