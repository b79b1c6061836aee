//! Runs jobs (each test is one process; a suite of another language is one) in parallel, and
//! reports the cost of each.
//!
//! ```text
//! programs    builds the test programs and lists their tests
//! job         a command, its weight, its result
//! pool        runs jobs in parallel, the longest first, within the machine's capacity
//! cost        processor time of a process and of its children
//! leftovers   processes that outlive the job that started them
//! ```
//!
//! One process per test isolates tests: a panic, a leaked thread or a remaining process belongs to
//! one name.

pub mod cost;
pub mod job;
pub mod leftovers;
pub mod pool;
pub mod programs;
