//! Transactions over partitions: their encodings, their ends, and a small simulation of them.
#![allow(missing_docs, unreachable_pub, clippy::print_stdout, clippy::unwrap_used, reason = "a test")]

mod bytes;
mod documented;
mod ending;
mod mismatched_decisions;
mod simulation;
