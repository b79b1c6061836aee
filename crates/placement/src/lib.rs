//! Where a key lives: hash functions and partitions. Shared by client and server, so that both reach the same
//! answer without asking anybody. Pure: no clock, no I/O, no randomness of its own.
//!
//! ```text
//!   key ──HashKind::hash(seed)──> 64-bit hash ──partition_of (top bits)──> partition
//! ```

pub mod hash;
pub mod partitions;

pub use hash::HashKind;
pub use partitions::{PartitionCount, partition_of};
