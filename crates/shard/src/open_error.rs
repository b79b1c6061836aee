//! Why an instance cannot be opened.

use std::fmt;

use zerohop_engine::EngineError;
use zerohop_partition::PartitionOpenError;
use zerohop_wire::ids::{KeyspaceId, PartitionId};

/// Why an instance cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InstanceOpenError {
    /// The engine has failed.
    Engine(EngineError),
    /// A partition has failed to open.
    Partition {
        /// Its keyspace.
        keyspace: KeyspaceId,
        /// Its number.
        partition: PartitionId,
        /// The reason.
        error: PartitionOpenError,
    },
}

impl fmt::Display for InstanceOpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InstanceOpenError::Engine(error) => error.fmt(f),
            InstanceOpenError::Partition { keyspace, partition, error } => {
                write!(f, "partition {partition} of keyspace {keyspace}: {error}")
            }
        }
    }
}

impl std::error::Error for InstanceOpenError {}

impl InstanceOpenError {
    pub(super) fn of_partition(
        keyspace: KeyspaceId,
        partition: PartitionId,
        error: PartitionOpenError,
    ) -> InstanceOpenError {
        match error {
            PartitionOpenError::Engine(error) => InstanceOpenError::Engine(error),
            error => InstanceOpenError::Partition { keyspace, partition, error },
        }
    }
}

impl From<EngineError> for InstanceOpenError {
    fn from(error: EngineError) -> InstanceOpenError {
        InstanceOpenError::Engine(error)
    }
}
