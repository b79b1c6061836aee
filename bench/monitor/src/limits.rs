//! Every limit of a run, with its reason.

use std::time::Duration;

/// Most rounds: more add no information.
pub(crate) const ROUNDS_MAX: usize = 100;

/// Default number of rounds: all of it takes less than six minutes.
pub(crate) const ROUNDS: usize = 3;

/// Default measured time of each figure.
pub(crate) const SECONDS: f64 = 2.0;

/// Longest measured time.
pub(crate) const SECONDS_MAX: f64 = 600.0;

/// Warm-up before the measured time, as a fraction of it.
pub(crate) const WARM_UP: f64 = 0.2;

/// Default number of clients, each with one event or read under way.
pub(crate) const CLIENTS: usize = 128;

/// Fewest clients: of 20, one is 5 %.
pub(crate) const CLIENTS_MIN: usize = 20;

/// Most clients: with RADOS each is a thread.
pub(crate) const CLIENTS_MAX: usize = 1024;

/// The interval between two operations of a paced client: 128 of them request 2,560 per second,
/// which leaves processors idle.
pub(crate) const PACE: Duration = Duration::from_millis(50);

/// Time limit of one operation, over all attempts.
pub(crate) const OPERATION: Duration = Duration::from_secs(30);

/// Seconds to wait for a lock.
pub(crate) const LOCK_SECONDS: u64 = 30;

/// Time limit of a run: this plus [`RUN_FACTOR`] times its measured time, for start, filling,
/// checks and stop.
pub(crate) const RUN_BASE: Duration = Duration::from_secs(180);

/// Most measured phases of a run, with their warm-up.
pub(crate) const RUN_FACTOR: f64 = 4.0;
