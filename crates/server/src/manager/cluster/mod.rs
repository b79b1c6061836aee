//! The shell of [`zerohop_control::agent`], which makes all decisions about the node's membership in its cluster.
//!
//! ```text
//!   peers (manager ports) ──messages──┐                 ┌── Persist ──> store (a thread: control log, member file)
//!   instances ── requests ────────────┤                 ├── Send ─────> peers
//!   operators (jobs) ── commands ─────┼──> run ─ Agent ─┼── Map ──────> history, follow ──> instances, in order
//!   store ── it is on disk ───────────┤                 ├── Open, Joined ──> the thread that starts instances
//!   timers ───────────────────────────┘                 └── Answered, Ended
//! ```

mod first;
mod follow;
mod peers;
mod run;
mod store;

use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use tokio::sync::mpsc;
use zerohop_control::agent::{AgentSettings, EndReason};
use zerohop_placement::{Address, ClusterMap};
use zerohop_wire::ids::NodeId;
use zerohop_wire::messages::ClusterId;

pub(super) use self::follow::follow;
pub(super) use self::peers::serve as serve_peer;
pub(super) use self::run::run;

use crate::error::ServeError;
use crate::instance::InstanceMessage;

/// The parameters of a node in a cluster.
pub(crate) struct ClusterPlan {
    pub(crate) settings: AgentSettings,
    /// Length of the control log's file in bytes.
    pub(crate) log_bytes: u64,
    /// Creates the keyspace `default` once this many nodes have joined; `None`: another node does.
    pub(crate) first: Option<FirstKeyspace>,
    /// The channel to the thread that starts instances: what to start, and then that the node has joined.
    pub(crate) opening: SyncSender<OpeningOrder>,
    /// Messages of the instances.
    pub(crate) instance_messages: mpsc::Receiver<InstanceMessage>,
}

/// The creation of the first keyspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FirstKeyspace {
    /// Number of nodes to wait for, so that its copies are placed correctly at once.
    pub(crate) nodes: usize,
    /// This node's position among the nodes that would create it: each waits for those before it.
    pub(crate) create_order: u32,
}

/// Orders to the thread that starts instances.
#[derive(Debug)]
pub(crate) enum OpeningOrder {
    /// Start the instances of this node with this map.
    Instances { cluster: ClusterId, node: NodeId, first_instance: u32, map: Arc<ClusterMap> },
    /// The node has joined and its instances run.
    Joined,
}

/// The reason why the agent of the node has ended.
#[derive(Debug)]
pub(super) enum MembershipEnd {
    Ended(EndReason),
    Store(String),
    /// All managers that it could contact have refused it: the last of them, and the reason.
    Refused {
        by: Address,
        reason: String,
    },
}

/// Maximum number of inputs that wait for the agent. Messages that find no room are dropped, as by a network.
pub(super) const INPUTS_MAX: usize = 4_096;

impl std::fmt::Display for MembershipEnd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            MembershipEnd::Ended(ended) => ended.fmt(f),
            MembershipEnd::Refused { by, reason } => write!(
                f,
                "the cluster cannot be joined: {by}, which was to be asked, does not talk to this node: {reason}"
            ),
            MembershipEnd::Store(reason) => write!(
                f,
                "the control state cannot be written: {reason}. The node stays a member of the cluster: see to the disk of its data folder, \
                 and start it again"
            ),
        }
    }
}

impl From<MembershipEnd> for ServeError {
    fn from(end: MembershipEnd) -> ServeError {
        let reason = end.to_string();
        let MembershipEnd::Ended(ended) = end else { return ServeError::Cluster { reason } };
        match ended {
            EndReason::Removed { .. }
            | EndReason::OtherCluster { .. }
            | EndReason::BootstrappedBefore { .. } => ServeError::NoPlace { reason },
            // These may pass: a process that was killed is still known, or a change is in progress.
            EndReason::AnotherStart { .. } | EndReason::Refused { .. } => ServeError::Cluster { reason },
        }
    }
}
