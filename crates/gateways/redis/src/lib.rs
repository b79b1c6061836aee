//! The Redis gateway: Redis clients, served by an instance beside its own protocol's clients. The program passes it to the server ([`GATEWAY`]).
//!
//! `zerohop-relay` has the state machines: it carries a unit to the primary of its keys and returns the reply. This crate connects them to a
//! server's reactor ([`gateway`]). Units with keys in several partitions go to the task that runs them as transactions ([`cross_partition`]).

mod cross_partition;
mod gateway;

use zerohop_server::gateway::GatewayStart;

pub use self::cross_partition::{CrossPartitionCommands, ReplySink, TooManyUnits};

use self::gateway::RedisGateway;

/// The gateway, for [`zerohop_server::ServerOptions::gateway`].
pub const GATEWAY: GatewayStart =
    GatewayStart(|place, time_out| Box::new(RedisGateway::new(place, time_out)));
