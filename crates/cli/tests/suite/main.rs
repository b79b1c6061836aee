//! The `zerohop` program as its users run it: real processes, real files, clusters, and faults.
//!
//! No test asserts how long something takes, as a slow machine takes longer: tests wait for a state
//! (`support::wait_for`), and fail after minutes.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "tests, which run processes, make the files that they need, and tell what they saw"
)]

mod cluster;
mod command_line;
mod guides;
mod kill;
mod process;
mod support;
