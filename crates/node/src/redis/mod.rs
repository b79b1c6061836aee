//! Clients of Redis, served by an instance beside its own.
//!
//! ```text
//!   reactor ── bytes ──> Clients ──> resp::Connection ──> World::run ──> Desk ──┬─> here: Instance::run(Execution) ──> reply
//!                           │                                                  │   ^ what cannot be run yet
//!                           │                                                  └─> Lanes ─┬─> Outgoing ──> another thread
//!                           │                                                             └─> Wires ─────> another node
//!                           └──<── resp::Connection::complete <──── replied, not run, waits <── its Clients ─┘
//! ```
//!
//! `zerohop-resp` knows the commands, `zerohop-partition` how to run several reads and changes as one unit. What is done
//! here is to bring a unit to where its keys live, in the order of its client's commands, and its reply back, within a time:
//! [`lanes`] has the rules, [`forward`] the way to other instances of the node and [`wires`] that to other nodes. What has keys in
//! several partitions goes to whoever does that as a transaction ([`spans`]).

mod clients;
mod delays;
mod desk;
mod ending;
mod execution;
mod forward;
mod lanes;
pub(crate) mod limits;
mod members;
mod overdue;
mod spans;
mod turned;
mod wires;
mod world;

pub(crate) use self::clients::{Answer, Clients};
pub(crate) use self::desk::TOKEN_MARK;
pub(crate) use self::forward::{Replied, Siblings, Units};
pub use self::spans::{Asker, NoRoom, Spanning};
