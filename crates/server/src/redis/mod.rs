//! Redis clients, served by an instance beside its own protocol's clients.
//!
//! ```text
//!   bytes ──> Clients ──> resp::Connection ──> ConnectionWorld::run ──> UnitScheduler ─┬─> [here]
//!                ^                                                                     └─> [later]
//!                └── resp::Connection::complete <── reply or failure
//!
//!   [here]   Instance::run(Execution); what cannot run yet goes to [later]
//!   [later]  ClientQueues ─┬─> Outgoing ────> another thread
//!                          └─> RemoteLinks ─> another node
//! ```
//!
//! `zerohop-resp` knows the commands; `zerohop-partition` runs several reads and changes as one
//! unit. This module brings a unit to the primary of its keys, in the order of its client's
//! commands, and returns the reply within a time limit. [`client_queues`] has the rules.
//! [`forward`] reaches other instances of the node and [`remote`] other nodes. Units with keys in
//! several partitions go to the task that runs them as transactions ([`cross_partition`]).

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
pub(crate) use self::scheduler::UNIT_TOKEN_BIT;
