//! The project's own commands: `cargo xtask test`, `fuzz`, `bench`.
//!
//! ```text
//! main ── test ──┬── tidy     rules of the house, as pure functions over the text of the tree
//!                ├── redis    clients of Redis that nobody here wrote, against a node
//!                ├── slurm    nodes inside jobs of a Slurm
//!                └── fuzz     libFuzzer targets, built with coverage on a stable toolchain
//!         bench              one side-by-side benchmark, its peers installed first
//!         workshop           where the tree and the target folder are; how a command is run
//! ```
//!
//! A step that fails says what to do. Every rule that a human could forget is a step here, so that the same command
//! gives the same answer on a laptop and in CI.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a command line tool for developers: it prints, reads files and measures its own steps"
)]

pub mod bench;
pub mod fuzz;
pub mod python;
pub mod redis;
pub mod slurm;
pub mod test;
pub mod tidy;
pub mod workshop;
