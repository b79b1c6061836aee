//! The control group: the 1, 3 or 5 managers that agree by Raft on the cluster map, and on nothing else. Pure: events and
//! a time go in, effects come out; the seed of its random numbers is the caller's.
//!
//! ```text
//!   commands ──▶ consensus (the raft crate over log and snapshots of our own) ──▶ state: the map of the next epoch
//!                                                                                      │
//!   gossip, reports of instances and clients ──▶ verdicts ──▶ commands                 │
//!   plan: where replicas should be ──▶ the next steps ──▶ commands ◀───────────────────┘
//! ```
//!
//! On every node an [`agent`] joins all of this with what the node owes the cluster.
//!
//! `docs/protocols/control.md` tells who may ask what and what is persisted when; `docs/formats/control-log.md` gives the
//! bytes.

pub mod agent;
pub mod command;
mod consensus;
#[cfg(test)]
mod golden;
pub mod gossip;
pub mod limits;
pub mod manager;
pub mod plan;
pub mod planted;
mod random;
pub mod state;
mod time;

pub use consensus::LogError;
pub use time::Time;
