//! A model of replica groups, leases and promotions, small enough that everything that can happen is tried.
//!
//! ```text
//!   control     decides groups: requests, verdicts, plans, restarts   crates/control/src/state
//!   member      writes, copies, commits, promotions, restarts         crates/replication/src
//!   lease       which grants may be in use                            crates/replication/src/lease.rs
//!   world       what is remembered, and what is under way             check    what must hold
//!   rules       what can be left out, to see it noticed               bounds   how much is tried
//!   model       its bounds and rules as methods                    steps, explore  what may happen, and when
//!   commit      a transaction over three partitions                   crates/transaction/src/transactions
//!   reads       a read of two records in one round or two        crates/session/src/transaction/consistent_read.rs
//! ```
//!
//! One partition, three members, the control group as one coordinator. Messages are lost, repeated, late and overtaken; processes
//! stop for any while, for ever, or start again with any end of their log gone; verdicts are right or wrong. What follows
//! from the bytes of messages and the order of code is for the simulator; what follows from the rules is found here, as
//! the shortest schedule that leads to it.

pub mod bounds;
mod check;
pub mod commit;
pub mod control;
mod explore;
mod lease;
pub mod log;
mod member;
pub mod model;
pub mod reads;
pub mod rules;
pub mod steps;
pub mod world;
