//! The events of an agent.

use zerohop_wire::ids::{Incarnation, InstanceId, KeyspaceId, NodeId, PartitionEpoch, PartitionId};

use crate::command::{ControlCommand, GroupStep, KeyspaceDrained, LogReport, ManagerId};

/// An event for an agent. Events that come too often, or contain nothing new, are harmless.
#[derive(Clone, Debug)]
pub enum AgentEvent<'a> {
    /// Nothing but that time passes; due at [`super::Agent::tick_due`].
    Tick,
    /// A message of another node's agent, as in its [`super::AgentEffect::Send`]. Lost, repeated and late
    /// messages are harmless.
    Received {
        /// The bytes of one message.
        bytes: &'a [u8],
    },
    /// Everything up to the persist effect of this number is durable.
    Persisted(u64),
    /// The instances are opened, with the map of [`super::AgentEffect::Open`] or a newer one. The node joins
    /// only after this event.
    Opened {
        /// Whether all existing logs are intact, as recovery found them. Also false if disks are new or were
        /// lost since the node's last start.
        intact: bool,
        /// Whether all disks say that the start in the map of [`super::AgentEffect::Open`] was shut down
        /// cleanly. Its durable data is then all that it ever acknowledged, except for data in memory only.
        closed: bool,
    },
    /// An instance of this node requests a change of a group (its `InstanceEffect::ProposeChange`). It
    /// repeats the request until the map has another epoch, so that the agent need not remember it permanently.
    InstanceProposes {
        /// The instance of this node.
        instance: InstanceId,
        /// The keyspace.
        keyspace: KeyspaceId,
        /// The partition in it.
        partition: PartitionId,
        /// The epoch of the group on which the instance decided.
        epoch: PartitionEpoch,
        /// The requested change.
        change: GroupRequest,
    },
    /// A keyspace is being dropped, and an instance of this node has no pending work in the partitions of
    /// which it is primary (its `InstanceEffect::Drained`).
    Drained(KeyspaceDrained),
    /// Another node has a newer map (`InstanceEffect::FetchMap`, or a client's message).
    FetchMap,
    /// The ends of the logs that [`super::AgentEffect::RequestLogEnds`] requested. A log that does not represent
    /// a complete state is reported with the end zero: recovery chooses it only if there is no other.
    LogEnds(Vec<LogReport>),
    /// Another node's instance does not answer an instance or a client of this node. To be repeated as long
    /// as that is so: a report is valid for a second.
    Unreachable {
        /// The node.
        node: NodeId,
        /// The start of it that is meant, as in the map.
        incarnation: Incarnation,
    },
    /// The load on the primary of a partition, as counted by an instance of this node: operations in a period
    /// that is the same for all partitions. The agent passes on the latest value of each partition every few
    /// seconds.
    Load {
        /// The keyspace.
        keyspace: KeyspaceId,
        /// The partition in it.
        partition: PartitionId,
        /// The load.
        load: u32,
    },
    /// A command of the operator. Answered by [`super::AgentEffect::Answered`], exactly once.
    Operate {
        /// The number by which the requester recognizes the answer.
        token: u64,
        /// The command.
        command: ControlCommand,
    },
    /// The wall-clock time in milliseconds since 1970. Due every second as long as
    /// [`super::Agent::needs_clock`].
    Clock {
        /// Milliseconds since 1970, by this machine's clock.
        unix_ms: u64,
    },
    /// The operator requests another leader; only the agent of the current leader acts on it.
    TransferLeadership(ManagerId),
    /// The process is about to shut down cleanly and still serves: other nodes are to take over its
    /// primaries. The takeover is complete once the map has this node as down. If it does not happen, nothing
    /// is lost.
    Leave,
}

/// A change that a primary may request for its group: it corresponds to `GroupChange` of the replication crate; neither
/// crate depends on the other. Members are instances here. A member that starts again raises the epoch of all its groups, so
/// that no request about an earlier start of it is granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GroupRequest {
    /// This follower has caught up (`GroupChange::Admit`).
    Admit(InstanceId),
    /// This replica is no longer in sync; if it is the primary itself, it hands over (`GroupChange::Remove`).
    Remove(InstanceId),
    /// The same group under a higher epoch (`GroupChange::RaiseEpoch`).
    RaiseEpoch,
}

impl GroupRequest {
    /// The form that a command has.
    pub fn step(self) -> GroupStep {
        match self {
            GroupRequest::Admit(instance) => GroupStep::Admit(instance),
            GroupRequest::Remove(instance) => GroupStep::Exclude(instance),
            GroupRequest::RaiseEpoch => GroupStep::RaiseEpoch,
        }
    }
}
