//! Invalid transactions.

use std::fmt;

use zerohop_wire::Failure;

/// The reason why no server can execute a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InvalidTransaction {
    /// It has no operations.
    Empty,
    /// It has too many operations.
    Items {
        /// Their number.
        count: usize,
        /// The maximum.
        limit: usize,
    },
    /// Its records are in too many partitions.
    Partitions {
        /// Number of partitions.
        count: usize,
        /// The maximum.
        limit: usize,
    },
    /// An operation is too long.
    Long {
        /// Its length in bytes, with its key.
        length: usize,
        /// The maximum, in bytes.
        limit: usize,
    },
    /// Its operations have too many bytes in total.
    Bytes {
        /// The number of bytes.
        length: u64,
        /// The maximum.
        limit: u64,
    },
    /// The operations staged in one partition have too many bytes.
    PartitionBytes {
        /// The number of bytes.
        length: u64,
        /// The maximum.
        limit: u64,
    },
    /// An operation is a wait: a transaction must not wait while others wait for it.
    Waits,
    /// An operation of a read of several records is a write.
    Writes,
    /// An operation to be written is a read.
    NoWrite,
    /// An operation exceeds a limit of the protocol.
    Operation {
        /// The failure.
        failure: Failure<'static>,
    },
}

impl InvalidTransaction {
    /// Whether the transaction as a whole is beyond a limit, and not one of its operations.
    #[must_use]
    pub const fn is_of_whole(&self) -> bool {
        matches!(
            self,
            Self::Empty
                | Self::Items { .. }
                | Self::Partitions { .. }
                | Self::Bytes { .. }
                | Self::PartitionBytes { .. }
        )
    }
}

impl std::error::Error for InvalidTransaction {}

impl fmt::Display for InvalidTransaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("a transaction of nothing: give it at least one operation"),
            Self::Items { count, limit } => {
                write!(f, "{count} operations in one transaction, {limit} are allowed: split it")
            }
            Self::Partitions { count, limit } => {
                write!(f, "a transaction over {count} partitions, {limit} are allowed: split it")
            }
            Self::Long { length, limit } => write!(
                f,
                "an operation of {length} bytes in a transaction, {limit} are allowed: use a blob for large data"
            ),
            Self::Bytes { length, limit } => {
                write!(f, "{length} bytes in one transaction, {limit} are allowed: split it")
            }
            Self::PartitionBytes { length, limit } => write!(
                f,
                "{length} bytes of one transaction in one partition, {limit} are allowed: split it, or the keyspace"
            ),
            Self::Waits => {
                f.write_str("a transaction does not wait for records to change: wait before it begins")
            }
            Self::Writes => f.write_str("one of these reads is a write: use a transaction"),
            Self::NoWrite => f.write_str("this is no write: read it instead"),
            Self::Operation { failure } => failure.fmt(f),
        }
    }
}
