//! Every bound of the simulator, each with its reason.

/// Lines of the trace that are shown of a run that failed: enough to see the last restart and what led to it.
pub const TRACE_TAIL_LINES: usize = 400;

/// Places that the search for an order of one record's calls visits before it is given up. A history of a thousand
/// calls needs a few thousand unless it is wrong; a wrong one is nearly always found to be within a hundred thousand.
pub const SEARCH_PLACES_MAX: usize = 400_000;

/// Events that may wait in the agenda: a run that schedules more has run away.
pub const AGENDA_EVENTS_MAX: usize = 1 << 20;

/// How much later than its interval an acknowledged write may still be lost: the flush itself takes time, and begins when
/// the instance next wakes.
pub const INTERVAL_SLACK_US: u64 = 100_000;

/// How much later than its deadline a call may end: its client has to be woken, and counts in its own turns.
pub const DEADLINE_SLACK_US: u64 = 20_000;

/// How long after the end of all faults clients may still meet their traces: connections to find dead, rests to end,
/// maps to fetch.
pub const HEALING_US: u64 = 8_000_000;

/// When a run begins: not at zero, where mistakes hide.
pub const START: zerohop_base::time::Time = zerohop_base::time::Time(1_000_000);

/// For how long clients go on after all must be well again.
pub const QUIET_US: u64 = 2_000_000;

/// How long after a trouble its traces are still there: syncs to be made up for.
pub const TRACES_US: u64 = 1_000_000;

/// Keyspaces of one run, dropped ones too.
pub const KEYSPACES_MAX: usize = 7;

/// Calls of all clients in a simulated second: a few hundred on each record by the end, which is what a search for an
/// order is still quick for.
pub const CALLS_PER_SECOND_MAX: u64 = 300;

/// How fast a node's clock runs, in parts of a million of the true rate: beyond what any machine's does.
pub const CLOCK_RATE_MIN: u64 = 800_000;
/// As fast as time.
pub const CLOCK_RATE_TRUE: u64 = 1_000_000;
/// See [`CLOCK_RATE_MIN`].
pub const CLOCK_RATE_MAX: u64 = 1_200_000;

/// How often a keyspace of a run is split: each time its partitions hold fewer of the few keys.
pub const SPLITS_MAX: u8 = 2;

/// Calls of all clients of a cluster in a second of a storm.
pub const CLUSTER_CALLS_PER_SECOND: u64 = 100;

/// Operations of which the clients of a cluster know the outcome, at least, before a run ends.
pub const CLUSTER_OPERATIONS_MIN: u64 = 2_000;

/// Events of a run of a cluster: ten times as many as the busiest has. With more of them, somebody wants something again and again
/// in no time.
pub const CLUSTER_EVENTS_MAX: u64 = 5_000_000;

/// How long after the end of all faults they must have made them: with as many a second as in a storm it takes half a minute.
pub const CLUSTER_CALLS_US: u64 = 300_000_000;

/// How long after the end of all faults a run waits for calls that do not end, though each has a deadline, before it goes on
/// without them: the checkers name them.
pub const CLUSTER_CALLS_END_US: u64 = CLUSTER_CALLS_US + 60_000_000;

/// How long after the end of all faults clients of a cluster may still meet their traces: processes that start, dead ones
/// that are found to be so, groups that are settled, states that are copied.
pub const CLUSTER_HEALING_US: u64 = 20_000_000;

/// How long after that all groups must be whole, and their members alike.
pub const CLUSTER_WHOLE_US: u64 = 60_000_000;

/// How long after the last calls what is kept for snapshots must be gone: their leases are 8 s at most, 10 by the slowest clock, and
/// whoever keeps something looks at that now and then.
pub const SNAPSHOTS_OVER_US: u64 = 20_000_000;

/// How long after that nothing of any transaction must be left: what was staged goes after 60 s, which a primary that has come since
/// counts again.
pub const TRANSACTIONS_OVER_US: u64 = 70_000_000;

/// Starts of its process that an instance's disk remembers: more than happen between two maps.
pub const STARTS_REMEMBERED_MAX: usize = 64;

/// How far ahead of all clocks an instance's own may be: ceilings, and what its clients have seen elsewhere.
pub const CLOCK_AHEAD_MS: u64 = 1_500;
