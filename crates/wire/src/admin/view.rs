//! The reliability of a status: the node that reports it, its age, and groups without progress.

use prost::Message;

use super::GroupsStatus;

/// The view of the node that reports the status.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct NodeView {
    /// The node; 0: it has not joined.
    #[prost(uint32, tag = "1")]
    pub node: u32,
    /// The node that leads the control group; 0: none is known now.
    #[prost(uint32, tag = "2")]
    pub leader: u32,
    /// Time since the node last knew a leader, in milliseconds: the status is as old. A node outside the control group receives a message from the
    /// leader about every second.
    #[prost(uint64, tag = "3")]
    pub age_ms: u64,
    /// Whether the control group has a quorum, as far as the node knows.
    #[prost(bool, tag = "4")]
    pub quorum: bool,
    /// Number of members of the control group; 0: the node is standalone.
    #[prost(uint32, tag = "5")]
    pub managers: u32,
    /// Number of these that answer the node, itself included.
    #[prost(uint32, tag = "6")]
    pub answering: u32,
    /// Nodes that are up according to the map but do not answer this node.
    #[prost(uint32, repeated, tag = "7")]
    pub silent: Vec<u32>,
    /// Number of groups without a primary: it is down, silent, or not chosen yet.
    #[prost(uint32, tag = "8")]
    pub no_primary: u32,
    /// Number of groups without progress although their primary is up: an in-sync replica is silent.
    #[prost(uint32, tag = "9")]
    pub stuck: u32,
    /// What the node's start waits for; empty once it has joined.
    #[prost(string, tag = "10")]
    pub waits_for: String,
    /// The most important warnings, each with what the operator can do.
    #[prost(string, repeated, tag = "11")]
    pub warnings: Vec<String>,
    /// Number of groups whose primary is on the node and accepts no writes, because its log has failed.
    #[prost(uint32, tag = "12")]
    pub log_failed: u32,
    /// Number of groups whose primary is on the node and serves no request, because the data is not split yet as the map says.
    #[prost(uint32, tag = "13")]
    pub not_split: u32,
}

impl NodeView {
    /// Number of these groups that do not serve all requests, as far as the node knows: reads and writes, or writes alone.
    #[must_use]
    pub fn unserved(&self, groups: &GroupsStatus) -> u32 {
        let GroupsStatus { groups: all, below_min_in_sync, recovering, down, lost, .. } = *groups;
        let stopped = self.no_primary + self.stuck + self.log_failed + self.not_split;
        // These sets overlap: the greatest of them is a lower bound.
        [stopped, below_min_in_sync, recovering, down, lost].into_iter().max().unwrap_or(0).min(all)
    }
}
