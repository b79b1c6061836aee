//! Clients of Redis, served by an instance beside its own.
//!
//! ```text
//!   reactor ── bytes ──> Clients ──> resp::Connection ──> World::run ──┬─> here: Instance::run(Execution) ──> reply
//!                           │                                         └─> another instance's: Outgoing ─┐
//!                           │                                                                           │ one notice a batch
//!                           └──<── resp::Connection::complete <──── Notice::Ran <── its Clients::run_for ┘
//! ```
//!
//! `zerohop-resp` knows the commands, `zerohop-partition` how to run several reads and changes as one unit. What is done
//! here is to bring a unit to where its keys live, and its reply back, within a time: see [`forward`].

mod clients;
mod execution;
mod forward;
pub(crate) mod limits;
mod members;
mod world;

pub(crate) use self::clients::{Answer, Clients, TOKEN_MARK};
pub(crate) use self::forward::{Replied, Siblings, Units};
