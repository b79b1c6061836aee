//! Every limit of a run, with its reason.

use std::time::Duration;

/// Most rounds: more add no information, and a typing error should not take a day.
pub(crate) const ROUNDS_MAX: usize = 1000;

/// Default number of rounds: enough for stable medians.
pub(crate) const ROUNDS: usize = 7;

/// Default measured time of each operation in each round: long compared with the switches between
/// them.
pub(crate) const SECONDS: f64 = 1.0;

/// Longest measured time of one operation.
pub(crate) const SECONDS_MAX: f64 = 600.0;

/// Default number of records: 15 MB, more than the second-level cache.
pub(crate) const RECORDS: u32 = 100_000;

/// Most records: the generator keeps their numbers and versions in memory.
pub(crate) const RECORDS_MAX: u32 = 10_000_000;

/// Outstanding requests of the preload, whose time does not count.
pub(crate) const PRELOAD_DEPTH: usize = 32;

/// Time limit until a server answers its first request.
pub(crate) const START: Duration = Duration::from_secs(20);

/// Polling interval at start; it bounds the error of the time to ready.
pub(crate) const START_POLL: Duration = Duration::from_micros(500);

/// Time limit of an administrator's command.
pub(crate) const COMMAND: Duration = Duration::from_secs(20);

/// Pause before a command is repeated that a server has refused right after its start.
pub(crate) const COMMAND_POLL: Duration = Duration::from_millis(50);

/// Pause before the idle memory of a node is read: the work of its start is over by then.
pub(crate) const IDLE_REST: Duration = Duration::from_secs(1);

/// Time limit of a run: this plus [`RUN_FACTOR`] times its measured time, for start, load and stop.
pub(crate) const RUN_BASE: Duration = Duration::from_secs(90);

/// Three operations in turn, on a machine with other work.
pub(crate) const RUN_FACTOR: f64 = 12.0;

/// Most connections of the bare store.
pub(crate) const CONNECTIONS_MAX: usize = 1024;
