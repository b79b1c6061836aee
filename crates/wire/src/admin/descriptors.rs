//! The descriptors of a node in its status.

use prost::Message;

/// The descriptors of a node's process, and the connections that it serves and refuses.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct DescriptorStatus {
    /// The node.
    #[prost(uint32, tag = "1")]
    pub node: u32,
    /// Maximum number of descriptors of its process; 0: no limit.
    #[prost(uint64, tag = "2")]
    pub limit: u64,
    /// Maximum number of connections, with the descriptors that it does not keep for its data; 0: no limit.
    #[prost(uint64, tag = "3")]
    pub connections_max: u64,
    /// Connections to its manager and its instances.
    #[prost(uint64, tag = "4")]
    pub connections: u64,
    /// Connections that it refused within the last minute for lack of descriptors.
    #[prost(uint64, tag = "5")]
    pub refused: u64,
}
