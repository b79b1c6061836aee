//! Real disks in killed processes, and beyond limits of the operating system.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "tests, which have children that talk to them by stdout"
)]

mod append_fails;
mod kill;
