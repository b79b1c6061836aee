//! The effects of an agent.

use std::fmt;
use std::sync::Arc;

use zerohop_placement::{Address, ClusterMap, MapDelta};
use zerohop_wire::ids::{Incarnation, InstanceId, KeyspaceId, MapEpoch, NodeId, PartitionEpoch, PartitionId};
use zerohop_wire::messages::ClusterId;

use super::notice::LogNotice;
use crate::command::{CommandOutcome, ManagerInfo};

/// An action for the shell. The shell carries out effects in the order in which they come.
#[derive(Clone, Debug, PartialEq)]
pub enum AgentEffect {
    /// The control log on disk: these bytes are appended to it, or replace all of it. The shell syncs them
    /// and then sends [`super::AgentEvent::Persisted`], in order; of several effects the number of the last
    /// one is enough. Later effects need not wait: the agent itself holds back what depends on these bytes.
    Persist {
        /// Counts persist effects.
        number: u64,
        /// The bytes.
        bytes: Vec<u8>,
        /// Whether they replace the whole file atomically: written beside it, synced and renamed.
        replace: bool,
    },
    /// To be sent to the agent at this address, as one message of at most
    /// [`crate::limits::AGENT_FRAME_BYTES_MAX`] bytes. It may be lost, repeated or late.
    Send {
        /// The address of a manager, as in the map, the control group or the settings.
        to: Address,
        /// The bytes.
        bytes: Vec<u8>,
        /// The message fits a datagram and may be sent as one. It is gossip: loss is better than delay.
        datagram: bool,
    },
    /// The cluster's name, which this node did not know. The shell stores it in the node's folder.
    Cluster(ClusterId),
    /// A map that is no older than this start. The shell opens the instances with it and then sends
    /// [`super::AgentEvent::Opened`]. The map is empty (epoch zero) if no node has joined yet. Instances must
    /// not be opened with an older map: they remove partitions from their disks that the map does not assign
    /// to them. A node without a number has nothing to open: its shell sends `Opened` at once. It opens the
    /// instances, which then have numbers, on [`AgentEffect::Joined`], with the map of [`super::Agent::map`].
    /// Emitted once.
    Open(Arc<ClusterMap>),
    /// The map has changed, permanently. For instances, for clients that fetch the map, and for the disk. The
    /// delta applies to the map of the last effect of this kind, of `MapReplaced` or of `Open`; none comes
    /// before `Open`. Deltas that arrive while instances are being opened are for these instances too.
    Map(Arc<MapDelta>),
    /// The same, without the changes in between: the map is now this one, of a higher epoch than before.
    MapReplaced(Arc<ClusterMap>),
    /// The node is in the map under this number, which the shell stores in the node's folder before anything
    /// else. Emitted once.
    Joined {
        /// The node's number.
        node: NodeId,
        /// The id of its first instance; the other ids follow it.
        first_instance: InstanceId,
        /// The epoch of the map in which it joined.
        epoch: MapEpoch,
    },
    /// The control group as last heard of. The shell should store it as [`super::AgentSettings::contacts`] of
    /// the next start.
    Managers(Vec<ManagerInfo>),
    /// Groups with members on this node are recovering, and the agent needs the ends of their logs. The shell
    /// answers with [`super::AgentEvent::LogEnds`] for those logs that exist. The agent repeats the effect as
    /// long as the groups recover.
    RequestLogEnds(Vec<LogEndQuery>),
    /// The answer to [`super::AgentEvent::Operate`].
    Answered {
        /// The token of the request.
        token: u64,
        /// The result of the request.
        result: Result<CommandOutcome, NoOutcome>,
    },
    /// The group of a partition continues with a log that may lack up to one interval of writes. Every
    /// manager reports it.
    WritesMayBeLost {
        /// The keyspace.
        keyspace: KeyspaceId,
        /// The partition in it.
        partition: PartitionId,
    },
    /// A notice for the log file of the node.
    Log(LogNotice),
    /// This process has no place in the cluster any more and must end; no further effects come. Its instances
    /// must not continue to serve.
    Ended(EndReason),
}

/// A log whose end is to be reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogEndQuery {
    /// The instance of this node.
    pub instance: InstanceId,
    /// The keyspace.
    pub keyspace: KeyspaceId,
    /// The partition in it.
    pub partition: PartitionId,
    /// The epoch of the recovering group, to be repeated in the answer.
    pub epoch: PartitionEpoch,
}

/// Why an operator has no outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoOutcome {
    /// The request was not decided in time: the control group has no leader that this node reaches. It may
    /// still be decided later; the map shows whether it was.
    TimedOut,
    /// Too many requests are waiting here: nothing was done.
    Busy,
}

impl fmt::Display for NoOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TimedOut => "the control group has not decided it in time, and may still do so",
            Self::Busy => "too many commands are waiting: nothing was done, ask again later",
        })
    }
}

impl std::error::Error for NoOutcome {}

/// Why a process has no place in the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EndReason {
    /// The control group knows another start of this node, of which this start does not know.
    AnotherStart {
        /// The node.
        node: NodeId,
        /// The start in the map, if it is known.
        incarnation: Option<Incarnation>,
    },
    /// The node was permanently removed from the map.
    Removed {
        /// The node's number.
        node: NodeId,
    },
    /// The control group refuses the node.
    Refused {
        /// Why, for people.
        reason: String,
    },
    /// The contacted node belongs to another cluster.
    OtherCluster {
        /// The address that was given.
        by: Address,
        /// The cluster of that node.
        cluster: ClusterId,
    },
    /// This node was to bootstrap a control group that was bootstrapped before: it has lost its log, and must
    /// join as a new member under a new number.
    BootstrappedBefore {
        /// The node that reports it.
        by: Address,
    },
}

impl fmt::Display for EndReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AnotherStart { node, .. } => write!(
                f,
                "another process has started as node {node}: two must not run on one folder; stop the other one first"
            ),
            Self::Removed { node } => write!(
                f,
                "node {node} was removed from the cluster: to bring this machine back, start it with an empty folder"
            ),
            Self::Refused { reason } => write!(f, "the cluster will not have this node: {reason}"),
            Self::OtherCluster { by, cluster } => {
                write!(f, "the node at {by} is of another cluster (")?;
                cluster.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
                f.write_str("): give the address of a node of this one, or start with an empty folder")
            }
            Self::BootstrappedBefore { by } => write!(
                f,
                "this bootstrap manager has lost its log, and {by} knows the control group. Start the node with an empty \
                 folder and --join {by} instead of --hosts"
            ),
        }
    }
}

impl std::error::Error for EndReason {}
