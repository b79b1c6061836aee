//! Servers and clients, the same state machines as in production, under a simulated clock, network and disk; faults;
//! checkers.

pub mod check;
mod agenda;
pub mod history;
pub mod limits;
mod streams;
mod trace;
pub mod workload;
