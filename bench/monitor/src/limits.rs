//! Every bound of a run, with its reason.

use std::time::Duration;

/// More rounds than this prove nothing more.
pub(crate) const ROUNDS_MAX: usize = 100;

/// Rounds unless told otherwise: all of it in less than six minutes.
pub(crate) const ROUNDS: usize = 3;

/// Measured time of each figure unless told otherwise.
pub(crate) const SECONDS: f64 = 2.0;

/// Longest measured time.
pub(crate) const SECONDS_MAX: f64 = 600.0;

/// Part of the measured time that is run before, and not counted.
pub(crate) const WARM_UP: f64 = 0.2;

/// Clients unless told otherwise, each with one event or read under way.
pub(crate) const CLIENTS: usize = 128;

/// Fewest clients: of 20, one is 5 %.
pub(crate) const CLIENTS_MIN: usize = 20;

/// Most clients: each of them is a thread beside RADOS.
pub(crate) const CLIENTS_MAX: usize = 1024;

/// From one operation of a paced client to its next: 128 of them ask for 2,560 a second, which leaves processors idle.
pub(crate) const PACE: Duration = Duration::from_millis(50);

/// How long one operation is tried, over all attempts.
pub(crate) const OPERATION: Duration = Duration::from_secs(30);

/// Seconds that a lock is waited for.
pub(crate) const LOCK_SECONDS: u64 = 30;

/// A run is ended after this much and [`RUN_FACTOR`] times its measured time: starting, filling, checking, stopping.
pub(crate) const RUN_BASE: Duration = Duration::from_secs(180);

/// Measured phases of a run at most, with their warm-up.
pub(crate) const RUN_FACTOR: f64 = 4.0;
