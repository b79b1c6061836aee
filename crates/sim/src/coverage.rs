//! The coverage of runs: a simulator whose faults no longer occur would find nothing, without a
//! visible sign.

use std::collections::BTreeMap;
use std::fmt;

use crate::engine_cases;
use crate::history::{ClientCall, OperationEnd};
use crate::kinds::{CAN_BREAK_INVARIANTS, FaultKind};
use crate::workload::operation::RecordCall;

/// So many seeds of clusters must cover what occurs in most of them.
const BATCH_SEEDS_MIN: u64 = 20;

/// So many must cover everything else: the rarest case occurs in one of ten.
pub(crate) const BATCH_SEEDS: u64 = 60;

/// Cases that need a coincidence are required from so many seeds on.
const BATCH_SEEDS_LATE: u64 = 140;

/// Cases that even most of these do not show are required from so many on.
const BATCH_SEEDS_RARE: u64 = 300;

/// The operations of clients.
const OPERATIONS: [&str; 17] = [
    "Insert",
    "Remove",
    "Append",
    "Extend",
    "CompareSwap",
    "Increment",
    "SetBit",
    "Transform",
    "Expire",
    "Trim",
    "Take",
    "Lookup",
    "LookupRange",
    "Inspect",
    "GetBit",
    "CountBits",
    "Wait",
];

/// Cases of transactions, as far as messages between instances show them, and of reads of several
/// records.
pub const COMMITS: [&str; 22] = [
    "answers that something is in the way",
    "chains",
    "prepares repeated",
    "prepares refused",
    "questions asked",
    "questions answered: decided",
    "questions answered: superseded",
    "questions answered: over",
    "questions answered: unknown",
    "unknown transactions that come after all",
    "decisions not known",
    "coordinators failed: side by side",
    "coordinators failed: in a chain",
    "coordinators failed: all prepared",
    "coordinators failed: notifying",
    "decisions heard late",
    "reads locked",
    "reads confirmed",
    "reads read again",
    "reads turned into transactions",
    "staged pieces expired",
    "keyspaces dropped during transactions",
];

/// Cases of blobs, snapshots, comparisons of copies, and scans.
pub const BLOBS: [&str; 74] = [
    "blobs: puts of new blobs",
    "blobs: puts that replace",
    "blobs: bytes pushed",
    "blobs: puts discarded",
    "blobs: puts abandoned",
    "blobs: writes of all chunks",
    "blobs: replacements",
    "blobs: writes of one chunk",
    "blobs: extensions",
    "blobs: cuts",
    "blobs: deletions",
    "blobs: shares moved",
    "blobs: marks of one chunk",
    "blobs: marks of both chunks",
    "blobs: fillings begun",
    "blobs: fillings published",
    "blobs: writes of what has not changed",
    "blobs: cuts in the midst",
    "blobs: writes of what has changed refused",
    "blobs: calls that others were faster than",
    "blobs: generations refused",
    "blobs: reads locked",
    "blobs: reads to confirm",
    "blobs: reads",
    "blobs: streams",
    "blobs: reads in transactions",
    "blobs: listings",
    "blobs: found unfinished",
    "blobs: found absent",
    "plain blobs: creations",
    "plain blobs: creations refused",
    "plain blobs: attributes set",
    "plain blobs: attributes read",
    "plain blobs: truncations",
    "plain blobs: truncations in steps",
    "plain blobs: truncations cut short",
    "plain blobs: writes",
    "plain blobs: reads",
    "plain blobs: removals",
    "plain blobs: removals in steps",
    "plain blobs: removals cut short",
    "plain blobs: found absent",
    "plain blobs: calls that failed",
    "snapshots opened",
    "snapshots: reads",
    "snapshots: reads of blobs",
    "snapshots: reads again",
    "snapshots: reads again at another primary",
    "snapshots opened over splits",
    "snapshots: scans",
    "snapshots: listings of blobs",
    "snapshots closed",
    "snapshots dropped",
    "snapshots expired",
    "snapshots not opened",
    "snapshots: horizons moved",
    "comparisons of several copies",
    "changes that watches returned",
    "watches that ended",
    "watches that fell behind",
    "watches that failed",
    "watches that did not begin",
    "watches of keyspaces that lost data",
    "comparisons of one copy",
    "comparisons that failed",
    "scans to the end",
    "scans of ranges to the end",
    "scans of ranges over regions",
    "scans of ranges over splits of regions",
    "regions split",
    "large regions split",
    "scans that went on at another primary",
    "scans that went on in children",
    "scans that failed",
];

/// Cases of Redis clients.
pub const REDIS: [&str; 21] = [
    "redis: commands done",
    "redis: watched transactions done",
    "redis: watched transactions aborted",
    "redis: commands refused",
    "redis: commands in doubt",
    "redis: units to instances of the node",
    "redis: units to other nodes",
    "redis: units sent back",
    "redis: waits for a record",
    "redis: waits elsewhere",
    "redis: connections between nodes lost",
    "redis: units queued over a split",
    "redis: units over several partitions",
    "redis: long replies that wait for their client",
    "redis: nodes stopped after all replies",
    "redis: keys listed",
    "redis: keys counted",
    "redis: scan pages",
    "redis: scans to the end",
    "redis: listings refused",
    "redis: long lists read",
];

/// The counts of one or more runs.
#[derive(Clone, Debug, Default)]
pub struct Coverage {
    /// Lines of the trace.
    pub events: u64,
    /// Calls by operation.
    pub calls: BTreeMap<String, u64>,
    /// Calls by result.
    pub ends: BTreeMap<&'static str, u64>,
    /// Processes that ended without warning.
    pub crashes: u64,
    /// Processes that shut down cleanly.
    pub stops: u64,
    /// Starts during which power was lost.
    pub failed_starts: u64,
    /// Pauses of the node.
    pub pauses: u64,
    /// Times in which unused sessions expired.
    pub client_pauses_long: u64,
    /// Periods of disk trouble.
    pub disk_faults: u64,
    /// Changes of a keyspace's durability.
    pub alterations: u64,
    /// Splits of a keyspace.
    pub splits: u64,
    /// In a cluster: partitions that an instance has split.
    pub splits_completed: u64,
    /// In a cluster: partitions that an instance was splitting when its process ended.
    pub splits_cut_short: u64,
    /// Splits that the control group refused, as a partition was moving or recovering.
    pub splits_refused: u64,
    /// Copies of frames that arrived over a connection of their own.
    pub repeats: u64,
    /// In clusters: reads by extra readers, at an old primary and at the next one.
    pub readers: u64,
    /// Requests that were refused because their session had expired.
    pub expired: u64,
    /// Requests that were released because their client had confirmed an answer.
    pub dropped_requests: u64,
    /// In clusters: retried writes that were answered with their first outcome, from the session
    /// table.
    pub answered_again: u64,
    /// In a cluster: faults by kind.
    pub faults: BTreeMap<FaultKind, u64>,
    /// Simulated microseconds.
    pub simulated_us: u64,
    /// Calls with an outcome that their client knows.
    pub operations: u64,
    /// Runs of clusters with too few of these calls.
    pub short_runs: u64,
    /// Groups in which another member became primary.
    pub promotions: u64,
    /// Truncations of entries that a new primary did not have.
    pub truncations: u64,
    /// Snapshot installs.
    pub snapshots_installed: u64,
    /// Times that a primary stopped answering because a lease had expired.
    pub lease_expiries: u64,
    /// Primaries with a full disk that asked another member to take over.
    pub handover_requests: u64,
    /// Times that members reported a full disk to their primary.
    pub disk_full_reports: u64,
    /// Requests in the wait queue of a group.
    pub queued_requests: u64,
    /// Followers that were admitted to the in-sync set.
    pub admissions: u64,
    /// In-sync replicas that were excluded.
    pub exclusions: u64,
    /// Restarted processes that were admitted again in their former place.
    pub readmissions: u64,
    /// Groups that went on after all in-sync replicas were gone.
    pub total_restarts: u64,
    /// Among these, groups with a log whose end may be missing.
    pub losses: u64,
    /// Moves that were completed.
    pub moves_completed: u64,
    /// Moves that were abandoned.
    pub moves_abandoned: u64,
    /// Nodes that joined for the first time.
    pub joins: u64,
    /// Nodes that left permanently.
    pub removals: u64,
    /// Cases of transactions, by [`COMMITS`].
    pub commits: BTreeMap<&'static str, u64>,
    /// Cases of blobs, snapshots, Redis clients and engines, by [`BLOBS`], [`REDIS`] and [`engine_cases`].
    pub blobs: BTreeMap<&'static str, u64>,
    /// Transactions, and single operations on their records.
    pub transactions: u64,
    /// Sections that were checked: the calls on a record between two losses.
    pub sections: u64,
    /// Sections whose search was abandoned.
    pub undecided: u64,
}

impl Coverage {
    pub(crate) fn fault(&mut self, kind: FaultKind) {
        *self.faults.entry(kind).or_default() += 1;
    }

    /// Counts a case of [`COMMITS`].
    pub(crate) fn commit(&mut self, what: &'static str) {
        self.commits_seen(what, 1);
    }

    /// Counts a case so many times.
    pub(crate) fn commits_seen(&mut self, what: &'static str, count: u64) {
        debug_assert!(COMMITS.contains(&what), "{what} is not in the list");
        *self.commits.entry(what).or_default() += count;
    }

    /// Counts a case of [`BLOBS`].
    pub(crate) fn blob(&mut self, what: &'static str) {
        self.blobs_seen(what, 1);
    }

    /// Counts a case so many times.
    pub(crate) fn blobs_seen(&mut self, what: &'static str, count: u64) {
        debug_assert!(
            BLOBS.into_iter().chain(REDIS).chain(engine_cases::all()).any(|known| known == what),
            "{what} is not in the list"
        );
        *self.blobs.entry(what).or_default() += count;
    }

    pub(crate) fn ended(&mut self, in_order: bool) {
        match in_order {
            true => self.stops += 1,
            false => self.crashes += 1,
        }
    }

    pub(crate) fn called(&mut self, operation: &RecordCall) {
        let act = format!("{:?}", operation.act);
        let name: String = act.chars().take_while(|c| c.is_alphanumeric()).collect();
        *self.calls.entry(name).or_default() += 1;
    }

    pub(crate) fn ended_call(&mut self, call: &ClientCall) {
        let how = match call.end {
            OperationEnd::Open => "open",
            OperationEnd::Done(_) => "done",
            OperationEnd::Failed(_) => "refused by the record",
            OperationEnd::Unknown => "unknown",
            OperationEnd::NotDone(_) => "not done",
        };
        *self.ends.entry(how).or_default() += 1;
    }

    /// Adds the counts of another run.
    pub fn add(&mut self, other: &Coverage) {
        for (name, count) in &other.calls {
            *self.calls.entry(name.clone()).or_default() += count;
        }
        for (name, count) in &other.ends {
            *self.ends.entry(name).or_default() += count;
        }
        for (kind, count) in &other.faults {
            *self.faults.entry(*kind).or_default() += count;
        }
        for (what, count) in &other.commits {
            self.commits_seen(what, *count);
        }
        for (what, count) in &other.blobs {
            self.blobs_seen(what, *count);
        }
        for (mine, theirs) in [
            (&mut self.simulated_us, other.simulated_us),
            (&mut self.operations, other.operations),
            (&mut self.short_runs, other.short_runs),
            (&mut self.promotions, other.promotions),
            (&mut self.truncations, other.truncations),
            (&mut self.snapshots_installed, other.snapshots_installed),
            (&mut self.lease_expiries, other.lease_expiries),
            (&mut self.handover_requests, other.handover_requests),
            (&mut self.disk_full_reports, other.disk_full_reports),
            (&mut self.queued_requests, other.queued_requests),
            (&mut self.admissions, other.admissions),
            (&mut self.exclusions, other.exclusions),
            (&mut self.readmissions, other.readmissions),
            (&mut self.total_restarts, other.total_restarts),
            (&mut self.losses, other.losses),
            (&mut self.moves_completed, other.moves_completed),
            (&mut self.moves_abandoned, other.moves_abandoned),
            (&mut self.joins, other.joins),
            (&mut self.removals, other.removals),
            (&mut self.events, other.events),
            (&mut self.crashes, other.crashes),
            (&mut self.stops, other.stops),
            (&mut self.failed_starts, other.failed_starts),
            (&mut self.pauses, other.pauses),
            (&mut self.client_pauses_long, other.client_pauses_long),
            (&mut self.disk_faults, other.disk_faults),
            (&mut self.alterations, other.alterations),
            (&mut self.splits, other.splits),
            (&mut self.splits_completed, other.splits_completed),
            (&mut self.splits_cut_short, other.splits_cut_short),
            (&mut self.splits_refused, other.splits_refused),
            (&mut self.repeats, other.repeats),
            (&mut self.readers, other.readers),
            (&mut self.expired, other.expired),
            (&mut self.dropped_requests, other.dropped_requests),
            (&mut self.answered_again, other.answered_again),
            (&mut self.transactions, other.transactions),
            (&mut self.sections, other.sections),
            (&mut self.undecided, other.undecided),
        ] {
            *mine += theirs;
        }
    }

    /// The counts of runs of clusters, by name.
    #[must_use]
    pub fn counts(&self) -> Vec<(&'static str, u64)> {
        let faults = FaultKind::ALL
            .into_iter()
            .map(|kind| (kind.name(), self.faults.get(&kind).copied().unwrap_or(0)));
        let others = [
            ("events", self.events),
            ("simulated seconds", self.simulated_us / 1_000_000),
            ("operations", self.operations),
            ("promotions", self.promotions),
            ("truncations", self.truncations),
            ("snapshots installed", self.snapshots_installed),
            ("lapses of leases", self.lease_expiries),
            ("primaries with full disks that handed over", self.handover_requests),
            ("members that said that their disk was full", self.disk_full_reports),
            ("requests queued", self.queued_requests),
            ("admissions", self.admissions),
            ("exclusions", self.exclusions),
            ("readmissions", self.readmissions),
            ("groups recovered", self.total_restarts),
            ("logs chosen in doubt", self.losses),
            ("moves completed", self.moves_completed),
            ("moves given up", self.moves_abandoned),
            ("keyspaces split", self.splits),
            ("partitions split", self.splits_completed),
            ("splits cut short by the end of a process", self.splits_cut_short),
            ("splits refused", self.splits_refused),
            ("nodes joined", self.joins),
            ("nodes removed", self.removals),
            ("reads around a change of primary", self.readers),
            ("repeated requests let go", self.dropped_requests),
            ("repeated requests answered as before", self.answered_again),
            ("sessions forgotten", self.expired),
            ("processes shut down cleanly", self.stops),
            ("transactions looked at", self.transactions),
            ("records looked at", self.sections),
            ("searches given up", self.undecided),
        ];
        let commits = COMMITS.into_iter().map(|what| (what, self.commits.get(what).copied().unwrap_or(0)));
        let blobs = BLOBS.into_iter().chain(REDIS).chain(engine_cases::all());
        let blobs = blobs.map(|what| (what, self.blobs.get(what).copied().unwrap_or(0)));
        others.into_iter().chain(commits).chain(blobs).chain(faults).collect()
    }

    /// The cases that a batch of so many clusters with all scenarios has not covered.
    #[must_use]
    pub fn missing_in_clusters(&self, seeds: u64) -> Vec<&'static str> {
        // `NotPrepared` answers a decision only after a participant has lost what it had prepared.
        const NOT_REQUIRED: [&str; 3] = ["searches given up", "splits refused", "decisions not known"];
        // Staged data expires when its client dies in between: in one of a dozen runs at most. A
        // split in the middle of a scanned partition occurs in one of twenty.
        const LATE: [&str; 4] = [
            "staged pieces expired",
            "scans that went on in children",
            "snapshots opened over splits",
            "watches that fell behind",
        ];
        // Sessions are remembered for ten minutes, and a copy that arrives later mostly names an
        // old epoch as well. Of 300 runs, one or two showed all cases. Only one of eight runs has watches.
        const RARE: [&str; 4] = [
            "sessions forgotten",
            "watches that failed",
            "watches that did not begin",
            "watches of keyspaces that lost data",
        ];
        const SOON: [&str; 28] = [
            "comparisons of several copies",
            "scans to the end",
            "scans of ranges to the end",
            "scans of ranges over regions",
            "regions split",
            "scans that went on at another primary",
            "reads locked",
            "blobs: reads locked",
            "blobs: generations refused",
            "blobs: reads to confirm",
            "blobs: streams",
            "snapshots: reads again at another primary",
            "snapshots expired",
            "snapshots: horizons moved",
            "chains",
            "questions asked",
            "questions answered: decided",
            "reads turned into transactions",
            "promotions",
            "truncations",
            "lapses of leases",
            "readmissions",
            "groups recovered",
            "moves completed",
            "moves given up",
            "partitions split",
            "repeated requests answered as before",
            "operations",
        ];
        // A build without debug assertions breaks no invariant, and its messages of replication are as long as in production.
        const OF_SHORT_MESSAGES: [&str; 2] = ["record batches sent", "batches that are sent in part"];
        let is_possible = |name: &str| {
            CAN_BREAK_INVARIANTS || !name.contains("invariant") && !OF_SHORT_MESSAGES.contains(&name)
        };
        let is_due = |name: &str| match seeds {
            0..BATCH_SEEDS_MIN => false,
            BATCH_SEEDS_MIN..BATCH_SEEDS => SOON.contains(&name),
            BATCH_SEEDS..BATCH_SEEDS_LATE if LATE.contains(&name) => false,
            BATCH_SEEDS..BATCH_SEEDS_RARE if RARE.contains(&name) => false,
            _ => !NOT_REQUIRED.contains(&name),
        };
        let absent = self
            .counts()
            .into_iter()
            .filter(|(name, count)| *count == 0 && is_due(name) && is_possible(name));
        let mut missing: Vec<&str> = absent.map(|(name, _)| name).collect();
        if self.short_runs > 0 {
            missing.push("operations enough in each");
        }
        if seeds >= BATCH_SEEDS_MIN {
            missing.extend(OPERATIONS.into_iter().filter(|name| !self.calls.contains_key(*name)));
        }
        missing
    }

    /// The cases that have not occurred.
    #[must_use]
    pub fn missing(&self) -> Vec<&'static str> {
        let counts = [
            ("crashes", self.crashes),
            ("shuts down cleanly", self.stops),
            ("failed starts", self.failed_starts),
            ("pauses", self.pauses),
            ("sleeps", self.client_pauses_long),
            ("troubles with disks", self.disk_faults),
            ("alterations", self.alterations),
            ("splits", self.splits),
            ("repeated frames", self.repeats),
            ("forgotten sessions", self.expired),
            ("requests let go", self.dropped_requests),
        ];
        let absent = OPERATIONS.into_iter().filter(|name| !self.calls.contains_key(*name));
        absent.chain(counts.into_iter().filter(|(_, count)| *count == 0).map(|(name, _)| name)).collect()
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let calls: u64 = self.calls.values().sum();
        write!(f, "{} events, {calls} calls (", self.events)?;
        for (at, (how, count)) in self.ends.iter().enumerate() {
            write!(f, "{}{count} {how}", if at == 0 { "" } else { ", " })?;
        }
        write!(
            f,
            "), {} crashes, {} stops, {} failed starts, {} pauses, {} sleeps, {} disk troubles, {} alterations, {} splits, {} repeats, {} expired, {} let go, {} sections, {} undecided",
            self.crashes,
            self.stops,
            self.failed_starts,
            self.pauses,
            self.client_pauses_long,
            self.disk_faults,
            self.alterations,
            self.splits,
            self.repeats,
            self.expired,
            self.dropped_requests,
            self.sections,
            self.undecided
        )?;
        if self.simulated_us > 0 {
            for (name, count) in self.counts() {
                write!(f, ", {count} {name}")?;
            }
        }
        Ok(())
    }
}
