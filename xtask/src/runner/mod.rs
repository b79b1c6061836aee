//! Runs jobs (each test is one process; a suite of another language is one) several at once, and says what each cost.
//!
//! ```text
//! programs    builds the test programs and lists their tests
//! job         what is run, what it weighs, how it ended
//! pool        runs jobs side by side, the longest first, within what the machine has
//! cost        processor time of a process and of its children
//! leftovers   processes that outlive the job that started them
//! ```
//!
//! One process per test keeps tests apart: a panic, a leaked thread or a process left behind belongs to one name.

pub mod cost;
pub mod job;
pub mod leftovers;
pub mod pool;
pub mod programs;
