//! The watches of a node: the clients that follow the changes of keyspaces there.

use prost::Message;

/// Requests the watches of the node that is asked. It is a request of its own, because their keys and addresses are for operators only.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct WatchList {
    /// The name of a keyspace; empty: all.
    #[prost(string, tag = "1")]
    pub keyspace: String,
}

/// The watches of a node.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Watches {
    /// Those with the greatest lag first; of many only the first ones.
    #[prost(message, repeated, tag = "1")]
    pub watches: Vec<WatchStatus>,
    /// Their number, with those that are not listed.
    #[prost(uint64, tag = "2")]
    pub total: u64,
    /// Instances that did not report theirs in time.
    #[prost(uint32, repeated, tag = "3")]
    pub unreported: Vec<u32>,
}

/// A watch: what one connection to an instance follows of a keyspace.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct WatchStatus {
    /// The instance.
    #[prost(uint32, tag = "1")]
    pub instance: u32,
    /// The name of the keyspace.
    #[prost(string, tag = "2")]
    pub keyspace: String,
    /// The name of the client's token; unset: it has none.
    #[prost(string, optional, tag = "3")]
    pub token: Option<String>,
    /// Whether a client without a token has proved that it knows the secret. Otherwise the cluster has none.
    #[prost(bool, tag = "4")]
    pub has_secret: bool,
    /// The client's address; empty: not known.
    #[prost(string, tag = "5")]
    pub address: String,
    /// Keys at or above this.
    #[prost(bytes = "vec", tag = "6")]
    pub from: Vec<u8>,
    /// Keys below this; empty: up to the last.
    #[prost(bytes = "vec", tag = "7")]
    pub to: Vec<u8>,
    /// Keys with this prefix.
    #[prost(bytes = "vec", tag = "8")]
    pub prefix: Vec<u8>,
    /// Number of partitions that it follows there.
    #[prost(uint32, tag = "9")]
    pub partitions: u32,
    /// Kept changes of these partitions behind its positions, whatever their keys.
    #[prost(uint64, tag = "10")]
    pub changes_behind: u64,
    /// Time since the oldest of them, in milliseconds.
    #[prost(uint64, tag = "11")]
    pub lag_ms: u64,
    /// Partitions that no longer keep all changes behind its position. It must read the records again.
    #[prost(uint32, tag = "12")]
    pub gone: u32,
}
