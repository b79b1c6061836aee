//! The control group: the 1, 3 or 5 managers that agree by Raft on the cluster map, and on nothing else. The
//! crate is pure: events and a time go in, effects come out; the caller provides the seed of the random
//! numbers.
//!
//! ```text
//!   commands ──▶ consensus (the raft crate over log and snapshots of our own) ──▶ state: the map of the next epoch
//!                                                                                      │
//!   gossip, reports of instances and clients ──▶ verdicts ──▶ commands                 │
//!   plan: where replicas should be ──▶ the next steps ──▶ commands ◀───────────────────┘
//! ```
//!
//! On every node an [`agent`] combines all of this with the duties of the node towards the cluster.
//!
//! `docs/protocols/control.md` defines the requests that each node may send, and what a manager persists and
//! when. `docs/formats/control-log.md` defines the bytes.

pub mod agent;
pub mod command;
mod consensus;
#[cfg(test)]
mod documented;
#[cfg(test)]
mod golden;
pub mod gossip;
pub mod limits;
pub mod manager;
pub mod plan;
pub mod planted;
pub mod state;

pub use consensus::LogError;
