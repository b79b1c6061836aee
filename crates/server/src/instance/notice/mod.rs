//! Messages between the manager and an instance.

mod cross_partition;
mod siblings;

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::oneshot;
use zerohop_control::agent::LogEndQuery;
use zerohop_control::command::LogReport;
use zerohop_monitoring::{Histogram, LatencyHistogram};
use zerohop_placement::{MapDelta, Reachability};
use zerohop_reactor::{ConnectionId, ReactorCounters};
use zerohop_replication::GroupChange;
use zerohop_resp::Ticket;
use zerohop_shard::{AnswerOrigin, InstanceStats, KeyspaceWatches, MapChangeError};
use zerohop_wire::ids::{InstanceId, KeyspaceId, MapEpoch, Timestamp};

use crate::instance::latencies::OperationClass;
use crate::instance::stage_waits::StageHistograms;
use crate::instance::watches::ClientWatch;
use zerohop_relay::{ReplyBatch, Units};

pub use self::cross_partition::{CrossPartitionRunner, ReplyAddress, TooManyUnits};
pub use self::siblings::Siblings;

/// A message to an instance's thread.
#[derive(Debug)]
pub(crate) enum InstanceNotice {
    /// Apply this change of the map, and confirm it.
    Map {
        /// The change.
        delta: Arc<MapDelta>,
        /// The channel for the confirmation.
        done: oneshot::Sender<Result<(), MapChangeError>>,
    },
    /// Report your figures.
    Figures {
        /// Record where operations wait from now on, and report what was recorded.
        records_waits: bool,
        /// The channel for the answer.
        reply_to: oneshot::Sender<Box<Figures>>,
    },
    /// Report the ends of these logs, as far as they are here.
    LogEnds {
        /// The logs, with the epochs of their groups.
        logs: Vec<LogEndQuery>,
        /// The channel for the answer.
        reply_to: oneshot::Sender<Vec<LogReport>>,
    },
    /// The manager's answer to a control request that was forwarded to it.
    Admin {
        /// The number that the instance assigned to the request.
        request_number: u64,
        /// The answer, encoded.
        encoded: Vec<u8>,
    },
    /// All instances of this node, and the newest timestamp that any of them has stored.
    Siblings(Siblings, Timestamp),
    /// Which nodes answer this one, and whether there is a quorum.
    Reachability(Arc<Reachability>),
    /// Execute these units of Redis clients of another instance.
    Run(Units),
    /// Replies to units that this instance has sent to another one.
    Ran(ReplyBatch),
    /// Units of Redis clients may have keys in several partitions: this executes them.
    CrossPartitionRunner(Arc<dyn CrossPartitionRunner>),
    /// The reply to such a unit.
    CrossPartitionReply {
        /// The client's connection.
        connection: ConnectionId,
        /// The client's unit.
        ticket: Ticket,
        /// The reply.
        reply: Vec<u8>,
    },
    /// This instance stops soon: new writes of Redis clients must wait for other primaries, and the instance reports when pending ones have ended.
    Yield(oneshot::Sender<()>),
    /// Accept no more commands of Redis clients, and report when all accepted ones are answered.
    EndClients(oneshot::Sender<()>),
    /// Answer requests in flight, and end.
    Stop,
    /// Fail, as a test requests.
    #[cfg(test)]
    Panic,
}

/// The figures of an instance.
#[derive(Clone, Debug)]
pub(crate) struct Figures {
    /// Counters of the instance itself.
    pub(crate) stats: InstanceStats,
    /// Counters of its reactor.
    pub(crate) counters: ReactorCounters,
    /// Commands of clients of another protocol that were run.
    pub(crate) foreign_commands: u64,
    /// Connections open now.
    pub(crate) connections: usize,
    /// Number of connected instances, and number of dropped messages to others.
    pub(crate) links: usize,
    pub(crate) peer_dropped: u64,
    /// Requests per batch.
    pub(crate) batch_requests: Histogram,
    /// Time from the first request of a batch to its answers, in microseconds.
    pub(crate) batch_us: Histogram,
    /// The watches of its partitions with the greatest lag, with their clients.
    pub(crate) watches: Vec<ClientWatch>,
    /// All watches, by keyspace.
    pub(crate) keyspace_watches: BTreeMap<KeyspaceId, KeyspaceWatches>,
    /// Time from a request of a native client to its answer, in microseconds, by class.
    pub(crate) operations_us: Vec<(OperationClass, LatencyHistogram)>,
    /// Time in each stage of the operations of native clients, if it was requested.
    pub(crate) stage_waits_us: Option<StageHistograms>,
}

/// Messages of an instance to its manager, for the control group. The instance repeats a request until the map changes, so a message without room
/// is dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum InstanceMessage {
    /// A request for a change of a group.
    ProposeChange {
        /// The instance.
        instance: InstanceId,
        /// The group, with the epoch for which the instance has decided.
        group: AnswerOrigin,
        /// The requested change.
        change: GroupChange,
    },
    /// The instance's primaries of a keyspace that is being dropped are drained, according to the map of this epoch.
    Drained {
        /// The instance.
        instance: InstanceId,
        /// The keyspace.
        keyspace: KeyspaceId,
        /// The epoch of the map.
        map: MapEpoch,
    },
    /// Another instance has a newer map.
    MapOutdated,
}
