//! A model of one transaction's commit over three partitions, with failovers: `docs/protocols/transactions.md`.
//!
//! Each partition is its committed log and at most one entry more, which is lost with the primary; that logs keep what is
//! committed is for the model of replica groups. Side by side and chain, releases, questions, repeated requests; readers of
//! one record and of two. Messages are lost, repeated, late and overtaken.

pub mod bounds;
pub mod model;
pub mod rules;
mod step;
pub mod world;

pub use step::CommitStep;
