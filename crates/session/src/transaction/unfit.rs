//! What is no transaction that could be done.

use std::fmt;

use zerohop_wire::Failure;

/// Why something is no transaction that could be done, here or anywhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InvalidTransaction {
    /// It has no operations.
    Empty,
    /// It has too many.
    Items {
        /// How many.
        count: usize,
        /// How many it may have.
        limit: usize,
    },
    /// Its records lie in too many partitions.
    Partitions {
        /// In how many.
        count: usize,
        /// In how many they may lie.
        limit: usize,
    },
    /// An operation is too long.
    Long {
        /// Bytes of it, with its key.
        length: usize,
        /// Bytes it may have.
        limit: usize,
    },
    /// Its operations are too many bytes together.
    Bytes {
        /// How many.
        length: u64,
        /// How many they may be.
        limit: u64,
    },
    /// Those of them that are staged in one partition are too many bytes.
    PartitionBytes {
        /// How many.
        length: u64,
        /// How many they may be.
        limit: u64,
    },
    /// An operation waits for something: nobody may wait while others wait for him.
    Waits,
    /// One of several reads is a write.
    Writes,
    /// What is to be written is a read.
    NoWrite,
    /// An operation passes a bound of the protocol.
    Operation {
        /// Which.
        failure: Failure<'static>,
    },
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
