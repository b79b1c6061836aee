//! The node in its cluster: the shell of [`zerohop_control::agent`], which decides everything that is decided here.
//!
//! ```text
//!   peers (manager ports) ──messages──┐                 ┌── Persist ──> store (a thread: control log, member file)
//!   instances ── asks ────────────────┤                 ├── Send ─────> peers
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

use tokio::sync::{mpsc, oneshot};
use zerohop_control::agent::{AgentSettings, ClusterStanding, EndReason, NoOutcome};
use zerohop_control::command::{CommandOutcome, ControlCommand, HeldLog};
use zerohop_control::state::Pin;
use zerohop_placement::{Address, ClusterMap};
use zerohop_wire::ids::{KeyspaceId, NodeId, PartitionId};
use zerohop_wire::messages::ClusterId;

pub(super) use self::follow::{Follow, follow};
pub(super) use self::peers::serve as serve_peer;
pub(super) use self::run::run;

use crate::instance::InstanceMessage;

/// What a node in a cluster is started with.
pub(crate) struct ClusterPlan {
    pub(crate) settings: AgentSettings,
    /// Bytes of the control log that are in its file.
    pub(crate) log_bytes: u64,
    /// Makes the keyspace `default` once so many nodes are there; `None`: somebody else does.
    pub(crate) first: Option<FirstKeyspace>,
    /// Tells the thread that starts instances what to start, and then that all is well.
    pub(crate) opening: SyncSender<OpeningOrder>,
    /// What instances say.
    pub(crate) words: mpsc::Receiver<InstanceMessage>,
}

/// Who makes the first keyspace, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FirstKeyspace {
    /// Nodes that are waited for, so that its copies are where they belong at once.
    pub(crate) nodes: usize,
    /// This node's place among those who would make it: each waits for those before it.
    pub(crate) place: u32,
}

/// What the thread that starts instances is told.
#[derive(Debug)]
pub(crate) enum OpeningOrder {
    /// Start them with this map, as those of this node.
    Instances { cluster: ClusterId, node: NodeId, first_instance: u32, map: Arc<ClusterMap> },
    /// The node has joined and its instances run.
    Joined,
}

/// What comes to the agent from this process.
#[derive(Debug)]
pub(super) enum Input {
    /// A message of another agent.
    Received(Vec<u8>),
    /// What was to be persisted up to this number is.
    Persisted(u64),
    /// It cannot be.
    StoreFailed(String),
    /// Another manager will not talk to this one, whatever is said: of another version, or of another secret.
    Refused { by: Address, reason: String },
    /// It waits until the disk has room; or does so no more.
    StoreWaits(bool),
    /// The member file is as it was to be.
    MemberSaved,
    /// All instances are open.
    Opened { intact: bool, closed: bool },
    /// Where logs end.
    LogEnds(Vec<HeldLog>),
    /// The node is about to end: others are to take over.
    Leave,
    /// Where do operators want partitions of a keyspace? As [`zerohop_control::agent::Agent::pins`].
    Pins { keyspace: KeyspaceId, answer: oneshot::Sender<Option<Vec<(PartitionId, Pin)>>> },
    /// Which partitions does the drop of a keyspace wait for? As [`zerohop_control::agent::Agent::undrained`].
    Undrained { keyspace: KeyspaceId, answer: oneshot::Sender<Option<Vec<PartitionId>>> },
    /// How does the cluster stand? As [`zerohop_control::agent::Agent::standing`].
    Standing(oneshot::Sender<ClusterStanding>),
    /// Where do the managers listen?
    Managers(oneshot::Sender<Vec<String>>),
    /// By which command are these nodes the control group? As [`zerohop_control::agent::Agent::managers_on`].
    ManagersOn { nodes: Vec<NodeId>, answer: oneshot::Sender<Result<ControlCommand, String>> },
    /// An operator wants something.
    Operate { command: ControlCommand, answer: oneshot::Sender<Result<CommandOutcome, NoOutcome>> },
}

/// The way to the agent from other tasks of the manager.
#[derive(Clone, Debug)]
pub(super) struct ClusterHandle {
    pub(super) inputs: mpsc::Sender<Input>,
}

/// Why the node has no place in the cluster any more.
#[derive(Debug)]
pub(super) enum MembershipEnd {
    Ended(EndReason),
    Store(String),
    /// All whom it could ask have refused to talk to it: the last of them, and why.
    Refused {
        by: Address,
        reason: String,
    },
}

/// Inputs that wait for the agent. Messages that find no room are let lie, as the network may.
pub(super) const INPUTS_MAX: usize = 4_096;

impl ClusterHandle {
    /// Has a command decided by the control group.
    pub(super) async fn operate(&self, command: ControlCommand) -> Result<CommandOutcome, NoOutcome> {
        let (answer, outcome) = oneshot::channel();
        if self.inputs.send(Input::Operate { command, answer }).await.is_err() {
            return Err(NoOutcome::TimedOut);
        }
        outcome.await.unwrap_or(Err(NoOutcome::TimedOut))
    }
}

impl std::fmt::Display for MembershipEnd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            MembershipEnd::Ended(ended) => ended.fmt(f),
            MembershipEnd::Refused { by, reason } => write!(
                f,
                "the cluster cannot be joined: {by}, which was to be asked, does not talk to this node: {reason}"
            ),
            MembershipEnd::Store(reason) => write!(f, "the control log cannot be written: {reason}"),
        }
    }
}
