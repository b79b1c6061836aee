//! Commits over partitions: their bytes, their ends, and both under a small simulation.
#![allow(missing_docs, unreachable_pub, clippy::print_stdout, clippy::unwrap_used, reason = "a test")]

mod bytes;
mod ending;
mod over;
mod simulation;
