//! What a service answers a request by.

use zerohop_wire::ids::{KeyspaceId, PartitionId, RequestId};

use super::driver::ConnectionId;

/// Matches an answer to its request. The service must answer or drop every request exactly once, at any time and in any order; the reactor drops
/// answers to connections that are closed by then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestToken {
    /// The connection of the request.
    pub connection: ConnectionId,
    /// Its id, which the answer repeats.
    pub request: RequestId,
    /// The request's keyspace, which the answer repeats.
    pub keyspace: KeyspaceId,
    /// The request's partition, which the answer repeats.
    pub partition: PartitionId,
}
