//! Whole nodes in this process over real sockets and files, parts of nodes, and killed processes.
//!
//! No test asserts how long something takes, because machines may be slow. Tests wait for a state
//! (`support::waiting`), and give up after minutes.

#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests, which play clients")]

#[path = "../../../gateways/redis/tests/suite/redis/connection.rs"]
mod redis_connection;
mod server;
mod support;
