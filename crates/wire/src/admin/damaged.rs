//! Reports of corrupt copies.

use prost::Message;

/// A partition whose only in-sync copy was found to be corrupt at the start.
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
    /// Number of its corrupt or missing places.
    #[prost(uint64, tag = "4")]
    pub found: u64,
    /// Descriptions of the first of them.
    #[prost(string, repeated, tag = "5")]
    pub named: Vec<String>,
}
