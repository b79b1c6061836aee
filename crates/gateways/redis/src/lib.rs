//! The Redis gateway: Redis clients, served by an instance beside its own protocol's clients. The program passes it to the server ([`GATEWAY`]).
//!
//! ```text
//!   bytes ──> Clients ──> resp::Connection ──> ConnectionWorld::run ──> UnitScheduler ─┬─> [here]
//!                ^                                                                     └─> [later]
//!                └── resp::Connection::complete <── reply or failure
//!
//!   [here]   Instance::run(Execution); what cannot run yet goes to [later]
//!   [later]  ClientQueues ─┬─> OutgoingMessages ────> another thread
//!                          └─> RemoteLinks ─> another node
//! ```
//!
//! `zerohop-resp` knows the commands; `zerohop-partition` runs several reads and changes as one
//! unit. This module brings a unit to the primary of its keys, in the order of its client's
//! commands, and returns the reply within a time limit. [`client_queues`] has the rules.
//! [`zerohop_server::gateway::OutgoingMessages`] reaches other instances of the node and [`remote`] other nodes. Units with keys in
//! several partitions go to the task that runs them as transactions ([`cross_partition`]).

mod client_queues;
mod clients;
mod cross_partition;
mod delays;
mod execution;
mod limits;
mod members;
mod remote;
mod retry;
mod scheduler;
mod shutdown;
mod unit_deadlines;
mod world;

use zerohop_server::gateway::GatewayStart;

pub use self::cross_partition::{ReplySink, Spans, TooManyUnits};

use self::clients::Clients;

/// The gateway, for [`zerohop_server::ServerOptions::gateway`].
pub const GATEWAY: GatewayStart = GatewayStart(|place, time_out| Box::new(Clients::new(place, time_out)));
