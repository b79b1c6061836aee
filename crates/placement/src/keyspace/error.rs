//! Why a configuration is refused.

use std::fmt;

use crate::limits::{
    BATCH_BYTES_MAX, BATCH_DELAY_US_MAX, CHUNK_BYTES_MAX, CHUNK_BYTES_MIN, INTERVAL_MS_MAX, PARTITIONS_MAX,
    REPLICAS_MAX,
};
use crate::partitions::PartitionCount;

/// A setting of a keyspace that cannot be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigError {
    /// Redis Cluster has 16384 slots, which are what `crc16` places.
    MorePartitionsThanSlots {
        /// What was asked for.
        partitions: PartitionCount,
    },
    /// No copy, or too many.
    Replicas {
        /// What was asked for.
        asked: u8,
    },
    /// Acknowledging on no copy, or on more copies than there are.
    MinInSync {
        /// What was asked for.
        asked: u8,
        /// Copies in all.
        replicas: u8,
    },
    /// A flush interval of zero, or too long.
    Interval {
        /// What was asked for.
        asked_ms: u32,
    },
    /// A chunk size that is no power of two, or out of bounds.
    ChunkBytes {
        /// What was asked for.
        asked: u32,
    },
    /// Too long a delay.
    BatchDelay {
        /// What was asked for.
        asked_us: u32,
    },
    /// A batch of nothing, or too large.
    BatchBytes {
        /// What was asked for.
        asked: u32,
    },
    /// A split into more partitions than a keyspace may have.
    CannotSplit {
        /// How many there would be.
        asked: u32,
    },
    /// A setting that a living keyspace keeps.
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
            Self::CannotSplit { asked } => {
                write!(f, "a split into {asked} partitions: a keyspace has at most {PARTITIONS_MAX}")
            }
            Self::Replicas { asked } => write!(f, "{asked} replicas: ask for 1 to {REPLICAS_MAX}"),
            Self::MinInSync { asked, replicas } => write!(
                f,
                "min-in-sync {asked} with {replicas} replicas: ask for 1 to {replicas}, or for more replicas"
            ),
            Self::Interval { asked_ms } => write!(
                f,
                "flushing every {asked_ms} ms: ask for 1 to {INTERVAL_MS_MAX} ms, for `sync`, or for `memory`"
            ),
            Self::ChunkBytes { asked } => {
                write!(
                    f,
                    "chunks of {asked} bytes: ask for a power of two from {CHUNK_BYTES_MIN} to {CHUNK_BYTES_MAX}"
                )
            }
            Self::BatchDelay { asked_us } => {
                write!(f, "collecting requests for {asked_us} us: ask for at most {BATCH_DELAY_US_MAX}")
            }
            Self::BatchBytes { asked } => {
                write!(
                    f,
                    "batches of {asked} bytes: ask for 1 to {BATCH_BYTES_MAX}; a delay of 0 turns batching off"
                )
            }
            Self::Fixed { setting } => write!(
                f,
                "the {setting} of a keyspace is fixed when it is created: create another keyspace and copy into it"
            ),
        }
    }
}

impl std::error::Error for ConfigError {}
