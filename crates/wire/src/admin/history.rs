//! The changes that a keyspace keeps for readers that watch it.

use prost::Message;

/// The limits of the changes that are kept.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct KeyspaceHistory {
    /// Milliseconds for which a change is kept.
    #[prost(uint32, tag = "1")]
    pub ms: u32,
    /// Bytes of the changes that a copy of a partition keeps at most.
    #[prost(uint32, tag = "2")]
    pub bytes: u32,
}
