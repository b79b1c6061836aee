//! Errors of keyspace configurations.

use std::fmt;

use zerohop_wire::plurals::counted;

use super::history::ChangeHistory;
use crate::hash::HashKind;
use crate::limits::{
    BATCH_BYTES_MAX, BATCH_DELAY_US_MAX, CHUNK_BYTES_MAX, CHUNK_BYTES_MIN, HISTORY_KEPT_BYTES_MAX,
    HISTORY_KEPT_BYTES_MIN, HISTORY_KEPT_MS_MAX, INTERVAL_MS_MAX, PARTITIONS_MAX, REPLICAS_MAX,
};
use crate::partitions::PartitionCount;
use crate::separators::SeparatorError;

/// An invalid setting of a keyspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigError {
    /// `crc16` uses the slots of Redis Cluster, of which there are 16384.
    MorePartitionsThanSlots {
        /// The requested number.
        partitions: PartitionCount,
    },
    /// The partitions of an ordered keyspace are the regions between its separators.
    OrderedPartitions {
        /// The requested number.
        requested: u32,
        /// The number of regions.
        regions: u32,
    },
    /// The regions of an ordered keyspace are given at its creation, and cannot be split yet.
    OrderedSplit,
    /// A hashed keyspace has no separators.
    HashedSeparators,
    /// Keys cannot be separators.
    Separators(SeparatorError),
    /// An ordered keyspace has no hash to choose.
    OrderedHash {
        /// The requested function.
        requested: HashKind,
    },
    /// The number of copies is zero or too large.
    ReplicaTable {
        /// The requested number.
        requested: u8,
    },
    /// The number of copies for an acknowledgement is zero, or exceeds the number of copies.
    MinInSync {
        /// The requested number.
        requested: u8,
        /// Total number of copies.
        replicas: u8,
    },
    /// The flush interval is zero or too long.
    Interval {
        /// The requested interval in milliseconds.
        requested_ms: u32,
    },
    /// The chunk size is not a power of two, or out of range.
    ChunkBytes {
        /// The requested size in bytes.
        requested: u32,
    },
    /// The delay is too long.
    BatchDelay {
        /// The requested delay in microseconds.
        requested_us: u32,
    },
    /// The batch size is zero or too large.
    BatchBytes {
        /// The requested size in bytes.
        requested: u32,
    },
    /// A limit of the history is out of range.
    History {
        /// The requested history.
        requested: ChangeHistory,
    },
    /// A split would exceed the maximum number of partitions.
    CannotSplit {
        /// The resulting number.
        requested: u32,
    },
    /// A setting that cannot be changed after creation.
    Fixed {
        /// Its name.
        setting: &'static str,
    },
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MorePartitionsThanSlots { partitions } => write!(
                f,
                "{partitions} partitions with hash crc16, which places the 16384 slots of Redis Cluster: ask for \
                 16384 or fewer, or for hash xxh3"
            ),
            Self::OrderedPartitions { requested, regions } => write!(
                f,
                "{} of an ordered keyspace with {}: its partitions are the regions between its separators, so leave the \
                 number out",
                counted(*requested, "partition"),
                counted(*regions - 1, "separator")
            ),
            Self::OrderedSplit => f.write_str(
                "an ordered keyspace splits one region at a time: `zerohop region split NAME --at KEY`",
            ),
            Self::HashedSeparators => f.write_str(
                "separators of a keyspace that places keys by hash: leave them out, or ask for an ordered keyspace",
            ),
            Self::Separators(error) => error.fmt(f),
            Self::OrderedHash { requested } => write!(
                f,
                "hash {requested} in an ordered keyspace, where keys are not placed by hash: leave it out"
            ),
            Self::CannotSplit { requested } => {
                write!(f, "a split into {requested} partitions: a keyspace has at most {PARTITIONS_MAX}")
            }
            Self::ReplicaTable { requested } => {
                write!(f, "{requested} replicas: ask for 1 to {REPLICAS_MAX}")
            }
            Self::MinInSync { requested, replicas } => {
                write!(
                    f,
                    "min-in-sync {requested} with {}: ask for min-in-sync 1",
                    counted(*replicas, "replica")
                )?;
                if *replicas > 1 {
                    write!(f, " to {replicas}")?;
                }
                if requested > replicas { f.write_str(", or for more replicas") } else { Ok(()) }
            }
            Self::Interval { requested_ms } => write!(
                f,
                "flushing every {requested_ms} ms: ask for 1 to {INTERVAL_MS_MAX} ms, for `sync`, or for `memory`"
            ),
            Self::ChunkBytes { requested } => {
                write!(
                    f,
                    "chunks of {requested} bytes: ask for a power of two from {CHUNK_BYTES_MIN} to {CHUNK_BYTES_MAX}"
                )
            }
            Self::BatchDelay { requested_us } => {
                write!(f, "collecting requests for {requested_us} us: ask for at most {BATCH_DELAY_US_MAX}")
            }
            Self::BatchBytes { requested } => {
                write!(
                    f,
                    "batches of {requested} bytes: ask for 1 to {BATCH_BYTES_MAX}; a delay of 0 turns batching off"
                )
            }
            Self::History { requested: ChangeHistory { ms, bytes } } => write!(
                f,
                "a history of {ms} ms and {bytes} bytes: ask for at most {HISTORY_KEPT_MS_MAX} ms, and \
                 {HISTORY_KEPT_BYTES_MIN} to {HISTORY_KEPT_BYTES_MAX} bytes a partition, or for none (0 of both)"
            ),
            Self::Fixed { setting } => write!(
                f,
                "the {setting} of a keyspace is fixed when it is created: create another keyspace and copy into it"
            ),
        }
    }
}

impl std::error::Error for ConfigError {}

impl From<SeparatorError> for ConfigError {
    fn from(error: SeparatorError) -> ConfigError {
        ConfigError::Separators(error)
    }
}
