//! Connections as clients of Redis see them: recorded exchanges, random pipelines, partitions that move or answer late.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod bounds;
mod connection;
mod long_replies;
mod pipelines;
mod recorded;
mod shares;
mod steps;
