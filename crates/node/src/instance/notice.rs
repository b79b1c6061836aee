//! What the manager tells an instance, and what it asks.

use std::sync::Arc;

use tokio::sync::oneshot;
use zerohop_control::agent::LogWanted;
use zerohop_control::command::HeldLog;
use zerohop_partition::instance::{AnswerOrigin, InstanceStats, MapChangeError};
use zerohop_partition::replica::GroupChange;
use zerohop_placement::MapDelta;
use zerohop_resp::Ticket;
use zerohop_wire::ids::{InstanceId, KeyspaceId, MapEpoch, Timestamp};

use super::histogram::Histogram;
use crate::reactor::{ConnectionId, ReactorCounters};
use crate::redis::{ReplyBatch, Siblings, Spanning, Units};

/// A message to an instance's thread.
#[derive(Debug)]
pub(crate) enum InstanceNotice {
    /// Follow this change of the map, and say once that is done.
    Map {
        /// The change.
        delta: Arc<MapDelta>,
        /// Who waits.
        done: oneshot::Sender<Result<(), MapChangeError>>,
    },
    /// Say how you stand.
    Figures(oneshot::Sender<Box<Figures>>),
    /// Say where these logs end, as far as they are here.
    LogEnds {
        /// Which, with the epochs of their groups.
        wanted: Vec<LogWanted>,
        /// Who waits.
        asker: oneshot::Sender<Vec<HeldLog>>,
    },
    /// The manager's answer to a control request that was forwarded to it.
    Admin {
        /// The number that the instance gave to the request.
        ask: u64,
        /// The answer, encoded.
        encoded: Vec<u8>,
    },
    /// These are all instances of this node, and the newest timestamp that any of them has stored.
    Siblings(Siblings, Timestamp),
    /// Run these units of Redis clients of another instance.
    Run(Units),
    /// Replies to units that this one has asked another to run.
    Ran(ReplyBatch),
    /// Units of Redis clients may have keys in several partitions: who executes them.
    Spanning(Arc<dyn Spanning>),
    /// The reply to one.
    Spanned {
        /// Whose.
        connection: ConnectionId,
        /// To which of the client's units.
        ticket: Ticket,
        /// The reply.
        reply: Vec<u8>,
    },
    /// This instance stops soon: new writes of Redis clients wait for other primaries, and it says when those under way have ended.
    Yield(oneshot::Sender<()>),
    /// Take up no more commands of Redis clients, and say when those that were taken up are answered.
    EndClients(oneshot::Sender<()>),
    /// Answer what is in flight, and end.
    Stop,
    /// Come to a bad end, as a test asks.
    #[cfg(test)]
    Panic,
}

/// How an instance stands.
#[derive(Clone, Debug)]
pub(crate) struct Figures {
    /// What the instance itself counts.
    pub(crate) stats: InstanceStats,
    /// What its reactor counts.
    pub(crate) counters: ReactorCounters,
    /// Connections open now.
    pub(crate) connections: usize,
    /// Other instances that are reached now, and messages to others that were let lie.
    pub(crate) links: usize,
    pub(crate) peer_dropped: u64,
    /// Requests of a batch.
    pub(crate) batch_requests: Histogram,
    /// From the first request of a batch to its answers, in microseconds.
    pub(crate) batch_us: Histogram,
}

/// What an instance says to its manager, for the control group. It repeats what it wants until the map is another, so that
/// what finds no room is let lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum InstanceMessage {
    /// It asks for a change of a group.
    Asks {
        /// Who.
        instance: InstanceId,
        /// The group, in the epoch on which it has decided.
        place: AnswerOrigin,
        /// What it wants.
        change: GroupChange,
    },
    /// Nothing is under way in a keyspace that is being dropped, where it is primary by the map of this epoch.
    Drained {
        /// Who.
        instance: InstanceId,
        /// The keyspace.
        keyspace: KeyspaceId,
        /// The map.
        map: MapEpoch,
    },
    /// Another instance has a newer map.
    MapWanted,
}
