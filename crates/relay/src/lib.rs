//! The Redis clients of one instance, as a state machine: their commands become units, which run here, at another instance of the node, or at another
//! node. Pure: a shell ([`RelayContext`]) has the instance, the time and the connections. A server is one shell, the simulator another.
//!
//! ```text
//!   bytes ──> Clients ──> resp::Connection ──> ConnectionWorld::run ──> UnitScheduler ─┬─> [here]
//!                ^                                                                     └─> [later]
//!                └── resp::Connection::complete <── reply or failure
//!
//!   [here]   Instance::run(Execution); what cannot run yet goes to [later]
//!   [later]  ClientQueues ─┬─> OutgoingMessages ────> another instance of the node
//!                          └─> RemoteLinks ─> another node
//! ```
//!
//! `zerohop-resp` knows the commands; `zerohop-partition` runs several reads and changes as one
//! unit. This crate carries a unit to the primary of its keys, in the order of its client's
//! commands, and returns the reply within a time limit. [`client_queues`] has the rules,
//! [`remote`] the messages between nodes. Units with keys in several partitions go to
//! [`RelayContext::run_across`], and [`cross_partition`] executes them as transactions of a client.

mod client_queues;
mod clients;
mod cluster_slots;
mod context;
pub mod cross_partition;
mod delays;
mod execution;
pub mod limits;
mod outage_hint;
mod outgoing;
pub mod planted;
mod redis_client;
mod remote;
mod retry;
mod scheduler;
mod shutdown;
mod shutdown_progress;
mod unit_batches;
mod unit_deadlines;
mod world;

use zerohop_wire::Failure;

pub use self::clients::{Clients, ReceivedBytes};
pub use self::context::{CrossPartition, RelayContext};
pub use self::unit_batches::{AnsweredUnit, ForwardItem, ReplyBatch, Units};

/// Sets tokens of units apart from those of requests: no connection has so high a number.
pub const UNIT_TOKEN_BIT: u64 = 1 << 31;

/// What an instance answers to a pending unit or to a wait.
#[derive(Debug)]
pub enum UnitAnswer {
    /// The reply of its program.
    Reply(Vec<u8>),
    /// The record that it waited for has changed, or its time is over.
    WaitEnded,
    /// It cannot be done.
    Failed(Failure<'static>),
}

impl UnitAnswer {
    /// The answer that a message to a unit's token means.
    #[must_use]
    pub fn of(message: &zerohop_wire::Message<'_>) -> UnitAnswer {
        match message {
            zerohop_wire::Message::Answer(Err(Failure::TimedOut { .. } | Failure::NotFound)) => {
                UnitAnswer::WaitEnded
            }
            zerohop_wire::Message::Answer(Err(failure)) => UnitAnswer::Failed(failure.clone().into_owned()),
            _ => UnitAnswer::WaitEnded,
        }
    }
}
