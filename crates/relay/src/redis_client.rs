//! A Redis client of an instance.

use zerohop_base::connection::ConnectionId;
use zerohop_resp::Connection;

/// A client's connection and the state of its conversation.
#[derive(Debug)]
pub(super) struct RedisClient {
    pub(super) id: ConnectionId,
    pub(super) connection: Connection,
}
