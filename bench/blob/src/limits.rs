//! Every bound of a run, with its reason.

use std::time::Duration;

/// More rounds than this prove nothing more.
pub(crate) const ROUNDS_MAX: usize = 100;

/// Rounds unless told otherwise: medians over seven settle.
pub(crate) const ROUNDS: usize = 7;

/// Measured time of each operation unless told otherwise.
pub(crate) const SECONDS: f64 = 3.0;

/// Longest measured time.
pub(crate) const SECONDS_MAX: f64 = 600.0;

/// Part of the measured time that is run before, and not counted.
pub(crate) const WARM_UP: f64 = 0.2;

/// Connections of bulk transfers, and streams of iperf3.
pub(crate) const CONNECTIONS: usize = 4;

/// Operations under way at once, as `rados bench` has them unless told otherwise.
pub(crate) const DEPTH: usize = 16;

/// Bytes of a large object, which is one chunk.
pub(crate) const LARGE_BYTES: usize = 4 << 20;

/// Bytes of a small read or write.
pub(crate) const SMALL_BYTES: usize = 4 << 10;

/// Large objects: they fit the memory of a node, and of the OSD.
pub(crate) const OBJECTS: usize = 32;

/// Chunks of one confirmed read.
pub(crate) const CHUNKS: usize = 8;

/// Bytes that fio writes before it begins again.
pub(crate) const FIO_BYTES: &str = "1G";

/// How long one operation is tried.
pub(crate) const OPERATION: Duration = Duration::from_secs(30);

/// A run is ended after this much and [`RUN_FACTOR`] times its measured time: starting, filling, stopping.
pub(crate) const RUN_BASE: Duration = Duration::from_secs(180);

/// Measured steps of a run at most, with their warm-up.
pub(crate) const RUN_FACTOR: f64 = 12.0;
