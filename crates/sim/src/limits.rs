//! Every bound of the simulator, each with its reason.

/// Lines of the trace that are shown for a failed run: enough for the last restart and its causes.
pub const TRACE_TAIL_LINES: usize = 400;

/// Positions that the search for an order of one record's calls visits before it is abandoned. A
/// correct history of a thousand calls needs a few thousand; a wrong one is nearly always
/// recognised within a hundred thousand.
pub const SEARCH_POSITIONS_MAX: usize = 400_000;

/// Events that may wait in the event queue: more of them mean a runaway loop.
pub const QUEUED_EVENTS_MAX: usize = 1 << 20;

/// How much later than its interval an acknowledged write may still be lost, in microseconds: the
/// flush takes time, and begins when the instance next wakes.
pub const INTERVAL_MARGIN_US: u64 = 100_000;

/// How much later than its deadline a call may end, in microseconds: its client must be woken, and
/// acts in its own turns.
pub const DEADLINE_MARGIN_US: u64 = 20_000;

/// How long after the end of all faults clients may still meet their effects, in microseconds: dead
/// connections, rests, old maps.
pub const HEALING_US: u64 = 8_000_000;

/// The start time of a run: not zero, where mistakes stay hidden.
pub const START: zerohop_base::time::Time = zerohop_base::time::Time(1_000_000);

/// For how long clients continue after everything must work again, in microseconds.
pub const QUIET_US: u64 = 2_000_000;

/// How long after a disk trouble its effects last, in microseconds: syncs that are late.
pub const TRACES_US: u64 = 1_000_000;

/// Keyspaces of one run, including dropped ones.
pub const KEYSPACES_MAX: usize = 7;

/// Calls of all clients in a simulated second: a few hundred on each record by the end, for which
/// the search for an order is still fast.
pub const CALLS_PER_SECOND_MAX: u64 = 300;

/// The lowest rate of a node's clock, in parts of a million of the true rate: a deviation beyond
/// that of any real machine.
pub const CLOCK_RATE_MIN: u64 = 800_000;
/// The true rate.
pub const CLOCK_RATE_TRUE: u64 = 1_000_000;
/// See [`CLOCK_RATE_MIN`].
pub const CLOCK_RATE_MAX: u64 = 1_200_000;

/// How often a keyspace of a run is split: each time its partitions have fewer of the few keys.
pub const SPLITS_MAX: u8 = 2;

/// Calls of all clients of a cluster in a second of a fault window.
pub const CLUSTER_CALLS_PER_SECOND: u64 = 100;

/// Operations with an outcome that clients of a cluster know, before a run may end.
pub const CLUSTER_OPERATIONS_MIN: u64 = 2_000;

/// Events of a run of a cluster: ten times as many as the busiest has. More of them mean a loop
/// that takes no simulated time.
pub const CLUSTER_EVENTS_MAX: u64 = 5_000_000;

/// How long after the end of all faults clients may take to make them, in microseconds: at the rate
/// of a fault window it takes half a minute.
pub const CLUSTER_CALLS_US: u64 = 300_000_000;

/// How long after the end of all faults a run waits for calls that do not end in spite of their
/// deadline, in microseconds. Then it goes on without them, and the checkers name them.
pub const CLUSTER_CALLS_END_US: u64 = CLUSTER_CALLS_US + 60_000_000;

/// How long after the end of all faults clients of a cluster may still meet their effects, in
/// microseconds: process starts, detection of dead nodes, changes of groups, copies.
pub const CLUSTER_HEALING_US: u64 = 20_000_000;

/// How long after that all groups must be complete and their members equal, in microseconds.
pub const GROUPS_COMPLETE_US: u64 = 60_000_000;

/// How long after the last calls versions for snapshots must be gone, in microseconds. Leases last at most 8 s, 10 s by
/// the slowest clock, and instances check for expired ones periodically.
pub const SNAPSHOTS_OVER_US: u64 = 20_000_000;

/// How long after that no state of a transaction may be left, in microseconds: staged data expires
/// after 60 s, which a new primary counts from its start.
pub const TRANSACTIONS_OVER_US: u64 = 70_000_000;

/// Starts of its process that an instance's disk remembers: more than occur between two maps.
pub const STARTS_REMEMBERED_MAX: usize = 64;

/// How far an instance's clock may be ahead of all clocks, in milliseconds: by its timestamp bound,
/// and by timestamps that its clients have seen elsewhere.
pub const CLOCK_AHEAD_MS: u64 = 1_500;
