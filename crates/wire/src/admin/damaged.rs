//! What a node says of damaged copies.

use prost::Message;

/// A partition whose only copy that counts was found damaged by a start.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct DamagedPartition {
    /// The keyspace's name.
    #[prost(string, tag = "1")]
    pub keyspace: String,
    /// The partition in it.
    #[prost(uint32, tag = "2")]
    pub partition: u32,
    /// The instance that has the copy.
    #[prost(uint32, tag = "3")]
    pub instance: u32,
    /// How many places of it are damaged, or missing.
    #[prost(uint64, tag = "4")]
    pub found: u64,
    /// The first of them, in words.
    #[prost(string, repeated, tag = "5")]
    pub named: Vec<String>,
}
