//! Clients of Redis, served by an instance beside its own.
//!
//! ```text
//!   reactor ── bytes ──> Clients ──> resp::Connection ──> World::run ──> UnitScheduler ──┬─> here: Instance::run(Execution) ──> reply
//!                           │                                                  │   ^ what cannot be run yet
//!                           │                                                  └─> Lanes ─┬─> Outgoing ──> another thread
//!                           │                                                             └─> Wires ─────> another node
//!                           └──<── resp::Connection::complete <──── replied, not run, waits <── its Clients ─┘
//! ```
//!
//! `zerohop-resp` knows the commands, `zerohop-partition` how to run several reads and changes as one unit. What is done
//! here is to bring a unit to where its keys live, in the order of its client's commands, and its reply back, within a time:
//! [`client_queues`] has the rules, [`forward`] the way to other instances of the node and [`remote`] that to other nodes. What has keys in
//! several partitions goes to the task that runs it as a transaction ([`cross_partition`]).

mod client_queues;
mod clients;
mod cross_partition;
mod delays;
mod execution;
mod forward;
pub(crate) mod limits;
mod members;
mod overdue;
mod remote;
mod retry;
mod scheduler;
mod shutdown;
mod world;

pub(crate) use self::clients::{Clients, UnitAnswer};
pub use self::cross_partition::{NoRoom, ReplyAddress, Spanning};
pub(crate) use self::forward::{ReplyBatch, Siblings, Units};
pub(crate) use self::scheduler::TOKEN_MARK;
