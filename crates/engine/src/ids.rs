//! The names of partitions.

use std::fmt;

/// Names a partition's folder. Opaque to the engine; the owner puts the keyspace into the upper half and the
/// partition's number into the lower.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartitionId(pub u64);

impl fmt::Display for PartitionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.0 >> 32, self.0 & 0xFFFF_FFFF)
    }
}

/// An open partition of one [`Engine`](crate::Engine). Not reused while the engine exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handle(pub u32);
