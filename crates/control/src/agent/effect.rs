//! What an agent wants done.

use std::fmt;
use std::sync::Arc;

use zerohop_placement::{Address, ClusterMap, MapDelta};
use zerohop_wire::ids::{Incarnation, InstanceId, KeyspaceId, MapEpoch, NodeId, PartitionEpoch, PartitionId};
use zerohop_wire::messages::ClusterId;

use super::notice::LogNotice;
use crate::command::{CommandOutcome, ManagerInfo};

/// What is to be done, in the order in which effects come.
#[derive(Clone, Debug, PartialEq)]
pub enum AgentEffect {
    /// The control log on disk: these bytes are appended to it, or take the place of all of it. To be synced, and then
    /// [`super::AgentEvent::Persisted`] says so; in order, of several the last one's number is enough. Later effects need not
    /// wait: what rests on it is held back inside.
    Persist {
        /// Counts persist effects.
        number: u64,
        /// The bytes.
        bytes: Vec<u8>,
        /// Whether they replace the whole file, all or nothing: written beside it, synced and renamed.
        replace: bool,
    },
    /// To the agent that listens there, as one message of at most [`crate::limits::AGENT_FRAME_BYTES_MAX`] bytes. It may
    /// be lost, repeated or late.
    Send {
        /// Where: the address of a manager, as the map, the control group or the settings have it.
        to: Address,
        /// The bytes.
        bytes: Vec<u8>,
        /// It fits a datagram and may be sent as one: it is gossip, which would rather be lost than late.
        datagram: bool,
    },
    /// This is the cluster's name, which this node did not know: to be remembered in its folder.
    Cluster(ClusterId),
    /// A map that is no older than this start: instances are to be opened with it, and then [`super::AgentEvent::Opened`]. It
    /// is empty (epoch zero) where nobody has joined yet. Instances must not be opened with an older one: they remove
    /// partitions from their disks that the map does not give them. A node without a number has nothing to open: it says
    /// `Opened` at once, and opens its instances, which are numbered then, on [`AgentEffect::Joined`], with the map of
    /// [`super::Agent::map`]. Once.
    Open(Arc<ClusterMap>),
    /// The map has changed; nothing takes it back. For instances, clients that ask for the map, and the disk. The delta
    /// follows the map of the last such effect, of `MapReplaced` or of `Open`, before which none comes; those that come
    /// while instances are being opened are for them too.
    Map(Arc<MapDelta>),
    /// The same, where what lies between is not known: the map is now this one, of a higher epoch than before.
    MapReplaced(Arc<ClusterMap>),
    /// The node is in the map under this number, which is to be remembered in its folder before anything else. Once.
    Joined {
        /// Its number.
        node: NodeId,
        /// Its first instance; the others follow.
        first_instance: InstanceId,
        /// The epoch of the map in which it joined.
        epoch: MapEpoch,
    },
    /// The control group as last heard of: worth remembering as [`super::AgentSettings::contacts`] of the next start.
    Managers(Vec<ManagerInfo>),
    /// Groups of which members are instances of this node recover: where do their logs end? Answered by
    /// [`super::AgentEvent::LogEnds`], for those that there are; asked again as long as they recover.
    WantLogEnds(Vec<LogWanted>),
    /// The answer to [`super::AgentEvent::Operate`].
    Answered {
        /// Of the asker.
        token: u64,
        /// What became of it.
        result: Result<CommandOutcome, NoOutcome>,
    },
    /// The group of a partition goes on with a log of which up to an interval may be missing. Said by every manager.
    MayHaveLost {
        /// The keyspace.
        keyspace: KeyspaceId,
        /// The partition in it.
        partition: PartitionId,
    },
    /// For the log.
    Noted(LogNotice),
    /// This process has no place in the cluster any more, and is to end; nothing else comes. Its instances must not serve
    /// on.
    Ended(EndReason),
}

/// A log whose end is to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogWanted {
    /// Which instance of this node.
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
    /// Nobody decided it in time: the control group has no leader that this node reaches. Whether it will still be
    /// decided is open: look at the map.
    TimedOut,
    /// Too much is waiting here: nothing was done.
    Busy,
}

impl fmt::Display for NoOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TimedOut => {
                "the control group has not answered in time; it may still do this: look at the status before asking again"
            }
            Self::Busy => "too many commands are waiting: nothing was done, ask again later",
        })
    }
}

impl std::error::Error for NoOutcome {}

/// Why a process has no place in the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EndReason {
    /// Another start of this node was told to the control group, which this one does not know of.
    AnotherStart {
        /// The node.
        node: NodeId,
        /// The start that the map has, if it is known.
        incarnation: Option<Incarnation>,
    },
    /// The node was removed from the map, for ever.
    Removed {
        /// Its number.
        node: NodeId,
    },
    /// The control group will not have it.
    Refused {
        /// Why, for people.
        reason: String,
    },
    /// Whoever was asked is of another cluster.
    OtherCluster {
        /// Whose address was given.
        by: Address,
        /// Its cluster.
        cluster: ClusterId,
    },
    /// It was to found a control group that has been founded already: it has lost its log, and must come as a new member
    /// under a new number.
    FoundedBefore {
        /// Who says so.
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
            Self::FoundedBefore { by } => write!(
                f,
                "the control group exists, as {by} says, and this founder of it has lost its log: start the node as a new \
                 one, with an empty folder and with --join {by} instead of the list of hosts"
            ),
        }
    }
}

impl std::error::Error for EndReason {}
