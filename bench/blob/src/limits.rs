//! Every limit of a run, with its reason.

use std::time::Duration;

/// Most rounds: more add no information.
pub(crate) const ROUNDS_MAX: usize = 100;

/// Default number of rounds: enough for stable medians.
pub(crate) const ROUNDS: usize = 7;

/// Default measured time of each operation.
pub(crate) const SECONDS: f64 = 3.0;

/// Longest measured time.
pub(crate) const SECONDS_MAX: f64 = 600.0;

/// Warm-up before the measured time, as a fraction of it.
pub(crate) const WARM_UP: f64 = 0.2;

/// Connections of bulk transfers, and streams of iperf3.
pub(crate) const CONNECTIONS: usize = 4;

/// Operations under way at once: the default of `rados bench`.
pub(crate) const DEPTH: usize = 16;

/// Bytes of a large object, which is one chunk.
pub(crate) const LARGE_BYTES: usize = 4 << 20;

/// Bytes of a small read or write.
pub(crate) const SMALL_BYTES: usize = 4 << 10;

/// Large objects: they fit the memory of a node, and of the OSD.
pub(crate) const OBJECTS: usize = 32;

/// Chunks of one confirmed read.
pub(crate) const CHUNKS: usize = 8;

/// Bytes that fio writes before it starts again at the beginning.
pub(crate) const FIO_BYTES: &str = "1G";

/// Time limit of one operation, over all attempts.
pub(crate) const OPERATION: Duration = Duration::from_secs(30);

/// Time limit of a run: this plus [`RUN_FACTOR`] times its measured time, for start, filling and
/// stop.
pub(crate) const RUN_BASE: Duration = Duration::from_secs(180);

/// Most measured steps of a run, with their warm-up.
pub(crate) const RUN_FACTOR: f64 = 12.0;
