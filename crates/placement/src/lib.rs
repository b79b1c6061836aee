//! Where a key lives: hash functions, partitions, and keyspaces. Shared by client and server, so
//! that both reach the same answer without asking anybody.
//!
//! ```text
//!   key ──HashKind::hash(seed)──> 64-bit hash ──partition_of (top bits)──> partition
//! ```
//!
//! Pure: no clock, no I/O, no randomness of its own.

pub mod hash;
pub mod keyspace;
pub mod limits;
pub mod partitions;

pub use hash::HashKind;
pub use keyspace::{ConfigError, Durability, KeyspaceConfig, KeyspaceName};
pub use partitions::{PartitionCount, partition_of};
