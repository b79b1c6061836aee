//! Every bound of a run, with its reason.

use std::time::Duration;

/// More rounds than this prove nothing more, and a slip of the keyboard should not take a day.
pub(crate) const ROUNDS_MAX: usize = 1000;

/// Rounds unless told otherwise: medians over seven settle.
pub(crate) const ROUNDS: usize = 7;

/// Measured time of each operation in each round unless told otherwise: long beside the switches between operations.
pub(crate) const SECONDS: f64 = 1.0;

/// Longest measured time of one operation.
pub(crate) const SECONDS_MAX: f64 = 600.0;

/// Records unless told otherwise: 15 MB, more than the second-level cache holds.
pub(crate) const RECORDS: u32 = 100_000;

/// Most records: their numbers and versions are held by the generator.
pub(crate) const RECORDS_MAX: u32 = 10_000_000;

/// Outstanding requests of the preload, whose time does not count.
pub(crate) const PRELOAD_DEPTH: usize = 32;

/// How long a server may take until it answers its first request.
pub(crate) const START: Duration = Duration::from_secs(20);

/// How often a server that does not answer yet is asked again. It bounds the error of the time to ready.
pub(crate) const START_POLL: Duration = Duration::from_micros(500);

/// How long an administrator's command may take.
pub(crate) const COMMAND: Duration = Duration::from_secs(20);

/// How often a command is repeated that a server has refused right after its start.
pub(crate) const COMMAND_POLL: Duration = Duration::from_millis(50);

/// How long a node rests before its idle memory is read: what it does at its start is over by then.
pub(crate) const IDLE_REST: Duration = Duration::from_secs(1);

/// A run is ended after this much and [`RUN_FACTOR`] times its measured time: starting, loading, stopping.
pub(crate) const RUN_BASE: Duration = Duration::from_secs(90);

/// Three operations in turn, on a machine with other work.
pub(crate) const RUN_FACTOR: f64 = 12.0;

/// Connections that the bare store takes.
pub(crate) const CONNECTIONS_MAX: usize = 1024;
