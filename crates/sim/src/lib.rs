//! Deterministic simulation: servers and clients, the same state machines as in production, in one
//! thread under a simulated clock, network and disk; their faults; and checkers of the clients'
//! results. Everything is drawn from one seed, so that a run can be repeated to the byte.
//! `docs/testing.md` says how to use it and how to extend it.
//!
//! ```text
//!   streams ──> scenario ──> world ──────────────────────────────────────────────> history ──> check
//!   a stream    what this    events   what happens next                            calls,      what must
//!   for each    seed plays   client   session: the client's state machine          outages     hold of it
//!   concern                  network  bytes: cut, late, lost, repeated
//!                            node     instances on simulated disks, the map, the clock
//!                            trace    every event and every byte, as a digest
//! ```

pub mod check;
mod client;
pub mod cluster;
pub mod command;
pub mod coverage;
pub mod cycles;
pub mod engine_cases;
mod event_queue;
pub mod history;
pub mod kinds;
pub mod limits;
mod network;
mod node;
pub mod plain_blobs;
mod procedures;
pub mod programs;
pub mod redis;
mod run;
mod scenario;
pub mod snapshots;
mod streams;
mod trace;
pub mod transaction_results;
pub mod workload;
mod world;

pub use run::{RunReport, run, run_cluster, run_programs, run_twice};
pub use trace::LineRetention;
