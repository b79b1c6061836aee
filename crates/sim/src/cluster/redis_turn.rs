//! What a turn of the Redis clients of a simulated instance leaves to do.

use zerohop_base::connection::ConnectionId;
use zerohop_relay::{ReplyBatch, Units};
use zerohop_resp::Ticket;
use zerohop_wire::ids::InstanceId;

use crate::network::{LinkEnd, LinkId};

/// A message of another instance of the node.
#[derive(Debug)]
pub(super) enum SiblingMessage {
    Run(Units),
    Ran(ReplyBatch),
}

/// A unit over several partitions, which a client of the node executes.
#[derive(Debug)]
pub(super) struct SimulatedCrossPartitionUnit {
    /// The name of the keyspace.
    pub(super) keyspace: String,
    pub(super) unit: Vec<u8>,
    /// The receiver of the reply.
    pub(super) requester: (ConnectionId, Ticket),
}

/// What a turn of the Redis side leaves to do.
#[derive(Debug, Default)]
pub(super) struct RedisTurn {
    /// Bytes for the other end of a connection.
    pub(super) sent: Vec<(LinkId, LinkEnd, Vec<u8>)>,
    /// Connections that close, with the end that stays.
    pub(super) closed: Vec<(LinkId, LinkEnd)>,
    /// Other nodes' instances to connect to.
    pub(super) calls: Vec<InstanceId>,
    pub(super) siblings: Vec<(usize, SiblingMessage)>,
    /// Units over several partitions.
    pub(super) spanning: Vec<SimulatedCrossPartitionUnit>,
    pub(super) counts: RedisCounts,
}

/// What has happened, for the coverage.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RedisCounts {
    pub(super) to_siblings: u64,
    pub(super) to_nodes: u64,
    pub(super) sent_back: u64,
    pub(super) waits: u64,
    pub(super) waits_elsewhere: u64,
    pub(super) links_lost: u64,
    pub(super) queued_over_splits: u64,
    pub(super) spanning: u64,
    pub(super) pages_awaited: u64,
}
