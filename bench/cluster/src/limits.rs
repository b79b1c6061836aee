//! Every limit of a run, with its reason.

use std::time::Duration;

/// Nodes of every cluster, and members of etcd.
pub(crate) const NODES: usize = 3;

/// Clients, each with one request outstanding.
pub(crate) const CLIENTS: usize = 32;

/// Numbers of clients that use the same records at the same time.
pub(crate) const CONTENDED: [usize; 5] = [8, 16, 32, 64, 128];

/// The exponent of the Zipf distribution of contended records.
pub(crate) const ZIPF: f64 = 0.99;

/// Keys of a transaction over many partitions: of 256, they hit about 57.
pub(crate) const MANY_KEYS: usize = 64;

/// Most rounds: more add no information.
pub(crate) const ROUNDS_MAX: usize = 100;

/// Default number of rounds: enough for stable medians.
pub(crate) const ROUNDS: usize = 7;

/// Default measured time of each operation, and of the load before and after a fault.
pub(crate) const SECONDS: f64 = 3.0;

/// Longest measured time.
pub(crate) const SECONDS_MAX: f64 = 600.0;

/// Default number of records: etcd needs two seconds to store them, one at a time on each
/// connection.
pub(crate) const RECORDS: u32 = 10_000;

/// Most records.
pub(crate) const RECORDS_MAX: u32 = 1_000_000;

/// Warm-up before the measured time, as a fraction of it.
pub(crate) const WARM_UP: f64 = 0.2;

/// Default number of passes over all nodes of a rolling restart.
pub(crate) const TURNS: usize = 10;

/// Most passes.
pub(crate) const TURNS_MAX: usize = 1000;

/// Time limit until a cluster serves, or until all copies are in sync again.
pub(crate) const WHOLE: Duration = Duration::from_secs(60);

/// Polling interval at start; it bounds the error of the time to ready.
pub(crate) const START_POLL: Duration = Duration::from_millis(2);

/// Polling interval of the map after a node was killed; it bounds the error of the time to new
/// primaries.
pub(crate) const MAP_POLL: Duration = Duration::from_millis(5);

/// Polling interval until all copies are in sync.
pub(crate) const STATUS_POLL: Duration = Duration::from_millis(100);

/// Time limit of an administrator's command.
pub(crate) const COMMAND: Duration = Duration::from_secs(20);

/// Time limit of one client operation, over all attempts. No fault here lasts so long, so no
/// operation fails by its time-out alone.
pub(crate) const OPERATION: Duration = Duration::from_secs(30);

/// Time limit of a node's clean shutdown.
pub(crate) const END: Duration = Duration::from_secs(30);

/// Time limit of a run: this plus [`RUN_FACTOR`] times its measured time, for start, load,
/// verification and stop.
pub(crate) const RUN_BASE: Duration = Duration::from_secs(150);

/// Warm-up, inserts, lookups, before and after a fault, on a machine with other work.
pub(crate) const RUN_FACTOR: f64 = 10.0;

/// The addition for each restart of one node.
pub(crate) const RESTART: Duration = Duration::from_secs(15);

/// Fewest records: more than the outstanding requests of all clients at any one server.
pub(crate) const RECORDS_MIN: u32 = 1000;

/// Default size of the moved partition: a gibibyte.
pub(crate) const MEBIBYTES: u32 = 1024;

/// Largest moved partition: two copies of it fit most disks.
pub(crate) const MEBIBYTES_MAX: u32 = 64 << 10;

/// Default bytes of each of its records.
pub(crate) const VALUE_BYTES: u32 = 16 << 10;

/// Longest of its records.
pub(crate) const VALUE_BYTES_MAX: u32 = 4 << 20;

/// Default operations per second during the move.
pub(crate) const RATE: u32 = 10_000;

/// Most operations per second.
pub(crate) const RATE_MAX: u32 = 1_000_000;

/// How often a paced load checks what is due.
pub(crate) const PACE: Duration = Duration::from_millis(1);

/// Most pending operations of a paced load. Further ones are left out, and count as failed.
pub(crate) const PACED_MAX: usize = 16_384;

/// Concurrent writes or reads when a partition is filled or verified.
pub(crate) const FILLERS: usize = 32;

/// Pause between filling and the load, for checkpoints and compaction to end.
pub(crate) const SETTLE: Duration = Duration::from_secs(3);

/// Copies of the files; their median counts.
pub(crate) const COPIES: usize = 3;

/// The interval before and after a swap of primaries that counts as its effect.
pub(crate) const AROUND_SWAP: Duration = Duration::from_millis(500);

/// Time limit of a move.
pub(crate) const MOVE: Duration = Duration::from_secs(120);
