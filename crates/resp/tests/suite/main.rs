//! Connections as Redis clients see them: recorded exchanges, random pipelines, remote partitions.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod bounds;
mod connection;
mod dropped;
mod http;
mod long_replies;
mod pipelines;
mod recorded;
mod shares;
mod steps;
