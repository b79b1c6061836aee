//! Every bound of a run, with its reason.

use std::time::Duration;

/// Nodes of every cluster, and members of etcd.
pub(crate) const NODES: usize = 3;

/// Clients, each with one request outstanding.
pub(crate) const CLIENTS: usize = 32;

/// Clients that all want the same records, one number after the other.
pub(crate) const CONTENDED: [usize; 5] = [8, 16, 32, 64, 128];

/// How much more the first records are wanted than the others: the exponent of Zipf's law.
pub(crate) const ZIPF: f64 = 0.99;

/// Keys of a transaction over many partitions: of 256, they hit about 57.
pub(crate) const MANY_KEYS: usize = 64;

/// More rounds than this prove nothing more.
pub(crate) const ROUNDS_MAX: usize = 100;

/// Rounds unless told otherwise: medians over seven settle.
pub(crate) const ROUNDS: usize = 7;

/// Measured time of each operation, or under load before and after a fault, unless told otherwise.
pub(crate) const SECONDS: f64 = 3.0;

/// Longest measured time.
pub(crate) const SECONDS_MAX: f64 = 600.0;

/// Records unless told otherwise: etcd takes two seconds to take so many, one at a time on each connection.
pub(crate) const RECORDS: u32 = 10_000;

/// Most records.
pub(crate) const RECORDS_MAX: u32 = 1_000_000;

/// Part of the measured time that is run before, and not counted.
pub(crate) const WARM_UP: f64 = 0.2;

/// Times around that all nodes are restarted, unless told otherwise.
pub(crate) const TURNS: usize = 10;

/// Most times around.
pub(crate) const TURNS_MAX: usize = 1000;

/// How long a cluster may take until it serves, or until all copies are in sync again.
pub(crate) const WHOLE: Duration = Duration::from_secs(60);

/// How often a cluster is asked whether it serves: bounds the error of the time to ready.
pub(crate) const START_POLL: Duration = Duration::from_millis(2);

/// How often a map is asked for after a node was killed: bounds the error of the time to new primaries.
pub(crate) const MAP_POLL: Duration = Duration::from_millis(5);

/// How often a cluster is asked whether all copies are in sync.
pub(crate) const STATUS_POLL: Duration = Duration::from_millis(100);

/// How long an administrator's command may take.
pub(crate) const COMMAND: Duration = Duration::from_secs(20);

/// How long one operation of a client is tried: longer than any fault here lasts, so that none fails for its time-out alone.
pub(crate) const OPERATION: Duration = Duration::from_secs(30);

/// How long a node may take to end when asked to.
pub(crate) const END: Duration = Duration::from_secs(30);

/// A run is ended after this much and [`RUN_FACTOR`] times its measured time: starting, loading, reading back, stopping.
pub(crate) const RUN_BASE: Duration = Duration::from_secs(150);

/// Warm-up, insertion, lookup, before and after a fault, on a machine with other work.
pub(crate) const RUN_FACTOR: f64 = 10.0;

/// What one restart of one node may add to that.
pub(crate) const RESTART: Duration = Duration::from_secs(15);

/// Fewest records: more than all clients have requests outstanding at any one server.
pub(crate) const RECORDS_MIN: u32 = 1000;

/// Size of the partition that is moved unless told otherwise: a gibibyte.
pub(crate) const MEBIBYTES: u32 = 1024;

/// Largest partition that is moved: what two copies of it take fits most disks.
pub(crate) const MEBIBYTES_MAX: u32 = 64 << 10;

/// Bytes of each record of it unless told otherwise.
pub(crate) const VALUE_BYTES: u32 = 16 << 10;

/// Longest records of it.
pub(crate) const VALUE_BYTES_MAX: u32 = 4 << 20;

/// Operations a second while it is moved, unless told otherwise.
pub(crate) const RATE: u32 = 10_000;

/// Most of them.
pub(crate) const RATE_MAX: u32 = 1_000_000;

/// How often a paced load looks at what is due.
pub(crate) const PACE: Duration = Duration::from_millis(1);

/// Operations of a paced load that are waited for at a time: what comes beyond that is left out, and counts as failed.
pub(crate) const PACED_MAX: usize = 16_384;

/// Records written or read at a time when a partition is filled or read back.
pub(crate) const FILLERS: usize = 32;

/// Pause between filling and the load: checkpoints and compaction come to an end.
pub(crate) const SETTLE: Duration = Duration::from_secs(3);

/// Copies of the files, of which the median counts.
pub(crate) const COPIES: usize = 3;

/// What belongs to a swap: so long before and after.
pub(crate) const AROUND_SWAP: Duration = Duration::from_millis(500);

/// How long a move may take.
pub(crate) const MOVE: Duration = Duration::from_secs(120);
