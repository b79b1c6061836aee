//! The project's own commands: `cargo xtask test`, `again`, `soak`, `clients`, `fuzz`, `bench`.
//!
//! ```text
//! main ──┬── test ──┬── tidy           rules of the project, as pure functions over the tree
//!        │          ├── changed        the extent of a change
//!        │          ├── environment    external programs, installed once and reused
//!        │          └── runner         parallel jobs, one process per test
//!        ├── again                     repeats tests under load
//!        ├── soak                      the longer search
//!        ├── clients                   the wide set of foreign clients
//!        ├── first_hour                the guides of new users, typed on a terminal
//!        ├── redis s3 slurm python     suites, one command each, with the program of `built`
//!        ├── manylinux ── elf          a wheel for other distributions, and the symbols that it needs
//!        ├── fuzz                      libFuzzer targets, built with coverage on a stable toolchain
//!        └── bench                     one side-by-side benchmark, its peers installed first
//!        workspace                      where the tree and the target folder are; how a command is run
//! ```
//!
//! A step that fails says what to do. Every rule that a developer could forget is a step here, so
//! that the same command gives the same answer on a laptop and in CI.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a command line tool for developers: it prints, reads files and measures its own steps"
)]

pub mod bench;
pub mod built_artifacts;
pub mod changed_packages;
pub mod client_node;
pub mod clients;
pub mod completed_step;
pub mod elf;
pub mod environment;
pub mod first_hour;
pub mod fuzz;
pub mod interpreter;
pub mod manylinux;
pub mod python;
pub mod redis;
pub mod repeat_tests;
pub mod runner;
pub mod s3;
pub mod slurm;
pub mod soak;
pub mod test;
pub mod tidy;
pub mod workspace;
