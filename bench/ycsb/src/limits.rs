//! Limits of the benchmark, with their reasons.

use std::time::Duration;

/// Records: a node of the benchmarks has 1 GiB of memory for its data, and old versions need room too.
pub(crate) const RECORDS_MAX: u64 = 400_000;

/// Bytes of a value: the numbers of its record and of its write.
pub(crate) const VALUE_BYTES_MIN: i64 = 16;

/// A request to etcd fits into one frame of HTTP/2 and into the windows that a server opens.
pub(crate) const VALUE_BYTES_MAX: i64 = 8192;

/// Operations under way: each is a process of PostgreSQL.
pub(crate) const CONNECTIONS_MAX: u32 = 1000;

/// Connections of PostgreSQL beside those of the clients: the one that creates the table, and those of superusers.
pub(crate) const POSTGRESQL_CONNECTIONS: u32 = 10;

/// Most interleaved rounds.
pub(crate) const ROUNDS_MAX: u64 = 50;

/// Operations under way of a load, or more if the workloads have more: a system that flushes each write groups them.
pub(crate) const LOAD_OPERATIONS: u32 = 64;

/// Time limit of a load: a flush of 30 ms for each group of 64 records, with the most records.
pub(crate) const LOAD: Duration = Duration::from_secs(300);

/// Time limit of a part behind its measured time, and of each operation of zerohop: then a server counts as failed.
pub(crate) const OPERATION: Duration = Duration::from_secs(30);

/// Free room of a receive buffer: most pages of a scan arrive at once.
pub(crate) const RECEIVE_BYTES: usize = 128 << 10;

/// Received bytes of HTTP/2 after which the window is opened again: half of it.
pub(crate) const WINDOW_BYTES: u32 = 1 << 30;
