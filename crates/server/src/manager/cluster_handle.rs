//! The handle of the node's agent for the tasks of the manager, and what they send to it.

use tokio::sync::{mpsc, oneshot};
use zerohop_control::agent::{ClusterStatus, NoOutcome};
use zerohop_control::command::{CommandOutcome, ControlCommand, LogReport};
use zerohop_control::state::PlacementOverride;
use zerohop_placement::Address;
use zerohop_wire::ids::{KeyspaceId, NodeId, PartitionId};

/// Inputs of the agent from this process.
#[derive(Debug)]
pub(super) enum Input {
    /// A message of another agent.
    Received(Vec<u8>),
    /// Everything up to this number is persisted.
    Persisted(u64),
    /// Persisting has failed.
    StoreFailed(String),
    /// Another manager permanently refuses this one: its version or its secret differs.
    Refused { by: Address, reason: String },
    /// Whether the store waits for room on the disk.
    StoreWaits(bool),
    /// The member file is saved.
    MemberSaved,
    /// All instances are open.
    Opened { intact: bool, closed: bool },
    /// The ends of logs.
    LogEnds(Vec<LogReport>),
    /// The node is about to end: other nodes should take over.
    Leave,
    /// Query: the pinned partitions of a keyspace. See [`zerohop_control::agent::Agent::placement_overrides`].
    Pins { keyspace: KeyspaceId, answer: oneshot::Sender<Option<Vec<(PartitionId, PlacementOverride)>>> },
    /// Query: the partitions that the drop of a keyspace waits for. See [`zerohop_control::agent::Agent::undrained`].
    Undrained { keyspace: KeyspaceId, answer: oneshot::Sender<Option<Vec<PartitionId>>> },
    /// Query: the state of the cluster. See [`zerohop_control::agent::Agent::cluster_state`].
    ClusterState(oneshot::Sender<ClusterStatus>),
    /// Query: the addresses of the managers.
    Managers(oneshot::Sender<Vec<String>>),
    /// Query: the command that places the control group on these nodes. See [`zerohop_control::agent::Agent::managers_on`].
    ManagersOn { nodes: Vec<NodeId>, answer: oneshot::Sender<Result<ControlCommand, String>> },
    /// A command of an operator.
    Operate { command: ControlCommand, answer: oneshot::Sender<Result<CommandOutcome, NoOutcome>> },
}

/// The handle of the agent for other tasks of the manager.
#[derive(Clone, Debug)]
pub(super) struct ClusterHandle {
    pub(super) inputs: mpsc::Sender<Input>,
}

impl ClusterHandle {
    /// Has the control group decide a command.
    pub(super) async fn operate(&self, command: ControlCommand) -> Result<CommandOutcome, NoOutcome> {
        let (answer, outcome) = oneshot::channel();
        if self.inputs.send(Input::Operate { command, answer }).await.is_err() {
            return Err(NoOutcome::TimedOut);
        }
        outcome.await.unwrap_or(Err(NoOutcome::TimedOut))
    }
}
