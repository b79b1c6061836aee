//! Redis clients of whole nodes in this process, over real sockets, and of killed ones.
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
#[path = "../../../../server/tests/suite/support/mod.rs"]
mod support;
