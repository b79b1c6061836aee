//! What happens to an agent.

use zerohop_wire::ids::{Incarnation, InstanceId, KeyspaceId, NodeId, PartitionEpoch, PartitionId};

use crate::command::{ControlCommand, GroupStep, HeldLog, KeyspaceDrained, ManagerId};

/// What happens to an agent. Events that come too often, or tell what is known, do no harm.
#[derive(Clone, Debug)]
pub enum AgentEvent<'a> {
    /// Nothing but that time passes; due at [`super::Agent::wake_at`].
    Tick,
    /// A message of another node's agent, as its [`super::AgentEffect::Send`] had it. Lost, repeated and late ones do no harm.
    Received {
        /// The bytes of one message.
        bytes: &'a [u8],
    },
    /// Everything up to the persist effect of this number is durable.
    Persisted(u64),
    /// The instances are opened, with the map of [`super::AgentEffect::Open`] or a newer one. Only now does the node join.
    Opened {
        /// Whether all logs that were there are whole, as recovery found them; false also if disks are new or were lost
        /// since the node's last start.
        intact: bool,
        /// Whether the start that the map of [`super::AgentEffect::Open`] names has ended in order, as all disks say: what it
        /// held durably in the end is all that it ever acknowledged, but for what is held in memory only.
        closed: bool,
    },
    /// An instance of this node asks for a change of a group (`Effects::ask_control` of it). It repeats what it wants
    /// until the map has another epoch, so that nothing here need be remembered for ever.
    InstanceAsks {
        /// Which instance of this node.
        instance: InstanceId,
        /// The keyspace.
        keyspace: KeyspaceId,
        /// The partition in it.
        partition: PartitionId,
        /// The epoch of the group on which the instance decided.
        epoch: PartitionEpoch,
        /// What it wants.
        wish: GroupRequest,
    },
    /// Nothing is under way in a keyspace that is being dropped, where an instance of this node is primary (`Effects::drained` of
    /// it).
    Drained(KeyspaceDrained),
    /// Somebody has a newer map (`Effects::fetch_map` of an instance, or a client's word).
    FetchMap,
    /// Where logs end that [`super::AgentEffect::WantLogEnds`] asked for. A log that does not stand for a whole state is told
    /// with the end zero: it is chosen only if there is no other.
    LogEnds(Vec<HeldLog>),
    /// Another node's instance does not answer one of this node's, or this node's clients. To be told again as long as it
    /// is so: a report counts for a second.
    Unreachable {
        /// The node.
        node: NodeId,
        /// The start of it that is meant, as the map had it.
        incarnation: Incarnation,
    },
    /// How much is asked of the primary of a partition, as one of this node's instances has counted: operations in some
    /// time, the same for all. The last word of each partition is passed on every few seconds.
    Load {
        /// The keyspace.
        keyspace: KeyspaceId,
        /// The partition in it.
        partition: PartitionId,
        /// How much.
        load: u32,
    },
    /// The operator wants this done. Answered by [`super::AgentEffect::Answered`], exactly once.
    Operate {
        /// By which the asker knows the answer.
        token: u64,
        /// What.
        command: ControlCommand,
    },
    /// What time it is, in milliseconds since 1970. Due every second as long as [`super::Agent::wants_clock`].
    Clock {
        /// Milliseconds since 1970, by this machine's clock.
        unix_ms: u64,
    },
    /// The operator wants another manager to lead; heard only by the one that leads.
    TransferLeadership(ManagerId),
    /// The process is about to end in order, and still serves: others are to take over what it is primary of. It has
    /// happened once the map has this node as down. Nothing is lost if it does not.
    Leave,
}

/// What a primary may ask of its group: `replica::Change` of the partition crate, which stands beside this one. Members
/// are instances here: a member that starts again raises the epoch of all its groups, so that no wish for an earlier start
/// of it is granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GroupRequest {
    /// This follower has caught up (`Change::Admit`).
    Admit(InstanceId),
    /// This in-sync replica is one no more; the primary itself hands over (`Change::Remove`).
    Remove(InstanceId),
    /// The same group under a higher epoch (`Change::Keep`).
    Keep,
}

impl GroupRequest {
    /// As a command has it.
    pub fn step(self) -> GroupStep {
        match self {
            GroupRequest::Admit(instance) => GroupStep::Admit(instance),
            GroupRequest::Remove(instance) => GroupStep::Exclude(instance),
            GroupRequest::Keep => GroupStep::Keep,
        }
    }
}
