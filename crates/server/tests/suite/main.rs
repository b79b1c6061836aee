//! Whole nodes in this process over real sockets and files, parts of nodes, and killed processes.
//!
//! No test asserts how long something takes, because machines may be slow. Tests wait for a state
//! (`support::waiting`), and give up after minutes.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "tests, which play clients, and have children that talk to them by stdout"
)]

mod redis;
mod server;
mod support;
