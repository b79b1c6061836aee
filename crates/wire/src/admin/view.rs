//! How much a status is worth: whose view it is, how old, and what stands still.

use prost::Message;

/// The view of the node that was asked.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct NodeView {
    /// The node; 0: it has not joined.
    #[prost(uint32, tag = "1")]
    pub node: u32,
    /// The node that leads the control group; 0: none is known now.
    #[prost(uint32, tag = "2")]
    pub leader: u32,
    /// How long ago a leader was last known, in milliseconds: the status is as old. A node outside the control group hears from the
    /// leader every second or so.
    #[prost(uint64, tag = "3")]
    pub age_ms: u64,
    /// The control group decides, as far as the node knows.
    #[prost(bool, tag = "4")]
    pub quorum: bool,
    /// Members of the control group; 0: the node stands alone.
    #[prost(uint32, tag = "5")]
    pub managers: u32,
    /// Those of them that answer the node, itself included.
    #[prost(uint32, tag = "6")]
    pub answering: u32,
    /// Nodes that the map has as up, and that do not answer this node.
    #[prost(uint32, repeated, tag = "7")]
    pub silent: Vec<u32>,
    /// Groups without a primary: it is down or silent, or still to be chosen.
    #[prost(uint32, tag = "8")]
    pub no_primary: u32,
    /// Groups that stand still although their primary is there: an in-sync replica is silent.
    #[prost(uint32, tag = "9")]
    pub stuck: u32,
    /// What the node's start waits for; empty once it has joined.
    #[prost(string, tag = "10")]
    pub waits_for: String,
    /// What is to be said before everything else, and what to do about it.
    #[prost(string, repeated, tag = "11")]
    pub warnings: Vec<String>,
}
