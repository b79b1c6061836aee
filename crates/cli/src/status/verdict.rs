//! The verdict of a status: whether the cluster serves everything and is complete.

use serde::Serialize;
use zerohop_wire::admin::{NodeStatus, Status};
use zerohop_wire::plurals::{by_number, counted};

use crate::common::disk::NodeDisk;
use crate::common::quantity::format_bytes;

/// The greatest age of a view that the verdict does not name. A node outside the control group is told about every second.
const AGE_MS_MAX: u64 = 2_000;

/// The verdict, from the best to the worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum StatusVerdict {
    /// Everything is served and complete.
    Ok,
    /// Everything is served, but a node or copies are missing, or nodes report troubles.
    Warning,
    /// Something is not served.
    Problem,
}

/// A state for which `--wait` waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum AwaitedState {
    /// every partition is served
    Served,
    /// every partition has all its copies, on nodes that are up
    Whole,
    /// the same, and no copy is on the move
    Settled,
}

impl AwaitedState {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Served => "served",
            Self::Whole => "whole",
            Self::Settled => "settled",
        }
    }

    /// Whether the cluster is in this state.
    pub(super) fn is_reached(self, status: &Status) -> bool {
        let (groups, view) = (status.groups.unwrap_or_default(), status.view.clone().unwrap_or_default());
        let is_served = view.quorum && view.waits_for.is_empty() && view.unserved(&groups) == 0;
        let is_missing = |node: &NodeStatus| misses_copies(node) || has_not_answered(node);
        let is_whole = is_served && groups.rebuilding == 0 && !status.nodes.iter().any(is_missing);
        match self {
            Self::Served => is_served,
            Self::Whole => is_whole,
            Self::Settled => is_whole && groups.moving == 0,
        }
    }
}

fn is_up(node: &NodeStatus) -> bool {
    node.state != "down" && node.state != "silent"
}

/// Whether a node that counts as up has not answered: it may have stopped a moment ago.
fn has_not_answered(node: &NodeStatus) -> bool {
    is_up(node) && node.pid == 0
}

/// Whether copies are on a node that does not run.
fn misses_copies(node: &NodeStatus) -> bool {
    !is_up(node) && node.primaries + node.in_sync + node.following > 0
}

/// The verdict, and the sentence about it. `warnings` are all warnings of the report.
pub(super) fn judge(status: &Status, warnings: usize) -> (StatusVerdict, String) {
    let (groups, view) = (status.groups.unwrap_or_default(), status.view.clone().unwrap_or_default());
    let unserved = view.unserved(&groups);
    let (up, all) = (status.nodes.iter().filter(|node| is_up(node)).count(), status.nodes.len());
    let troubles: usize = status.nodes.iter().map(|node| node.troubles.len()).sum();
    let damaged: usize = status.nodes.iter().map(|node| node.damaged.len()).sum();
    let unanswered = status.nodes.iter().filter(|node| has_not_answered(node)).count();
    // A node of an older program does not report a view.
    let has_view = status.view.is_some();
    let is_unserved = unserved > 0 || damaged > 0 || (has_view && !view.quorum) || !view.waits_for.is_empty();
    let verdict = if is_unserved || 2 * unanswered > all {
        StatusVerdict::Problem
    } else if up < all || unanswered > 0 || groups.rebuilding > 0 || troubles + warnings > 0 {
        StatusVerdict::Warning
    } else {
        StatusVerdict::Ok
    };
    let mut parts = vec![format!("{up} of {} {} up", counted(all, "node"), by_number(all, "is", "are"))];
    if unanswered > 0 {
        parts.push(format!("{unanswered} of them did not answer"));
    }
    let partitions = counted(groups.groups, "partition");
    parts.push(match unserved {
        0 => format!("{partitions} served"),
        some => format!("{some} of {partitions} {} not served", by_number(some, "is", "are")),
    });
    if view.log_failed > 0 {
        parts.push(format!("the log of {} has failed", view.log_failed));
    }
    if view.not_split > 0 {
        parts.push(format!("{} {} for a split", view.not_split, by_number(view.not_split, "waits", "wait")));
    }
    for (count, what) in [(groups.rebuilding, "being rebuilt"), (groups.moving, "on the move")] {
        if count > 0 {
            parts.push(format!("{count} {what}"));
        }
    }
    for (count, what) in [(troubles, "trouble"), (warnings, "warning")] {
        if count > 0 {
            parts.push(counted(count, what));
        }
    }
    let word = match verdict {
        StatusVerdict::Ok => "OK",
        StatusVerdict::Warning => "WARNING",
        StatusVerdict::Problem => "PROBLEM",
    };
    let age = match view.age_ms > AGE_MS_MAX && view.waits_for.is_empty() {
        true => format!("; this view is {:.1} s old", view.age_ms as f64 / 1_000.0),
        false => String::new(),
    };
    (verdict, format!("{word}: {}{age}", parts.join(", ")))
}

/// Sums over all nodes that have answered.
#[derive(Debug, Serialize)]
pub(super) struct StatusTotals {
    /// The number of these nodes.
    nodes: usize,
    /// Records, each counted once.
    records: u64,
    /// Bytes of the logs of all copies.
    log_bytes: u64,
    /// Bytes of these logs in memory.
    resident_bytes: u64,
    connections: u64,
    /// The free bytes of the node that has the fewest; `None`: no node reports them.
    free_bytes: Option<u64>,
}

impl StatusTotals {
    pub(super) fn of(status: &Status) -> Self {
        let answered: Vec<&NodeStatus> = status.nodes.iter().filter(|node| node.pid != 0).collect();
        let instances = || answered.iter().flat_map(|node| &node.instances);
        StatusTotals {
            nodes: answered.len(),
            records: status.keyspaces.iter().map(|keyspace| keyspace.records).sum(),
            log_bytes: status.keyspaces.iter().map(|keyspace| keyspace.log_bytes).sum(),
            resident_bytes: instances().map(|one| one.resident_bytes).sum(),
            connections: instances().map(|one| u64::from(one.connections)).sum(),
            free_bytes: answered.iter().filter_map(|node| NodeDisk::of(node)).map(NodeDisk::free).min(),
        }
    }

    /// A line, in a cluster of this many nodes.
    pub(super) fn line(&self, nodes: usize) -> String {
        let StatusTotals { nodes: answered, records, log_bytes, resident_bytes, connections, free_bytes } =
            self;
        let mut line = format!(
            "{}, logs of all copies {} ({} in memory), {}",
            counted(*records, "record"),
            format_bytes(*log_bytes),
            format_bytes(*resident_bytes),
            counted(*connections, "connection")
        );
        if let Some(free) = free_bytes {
            let which = if nodes > 1 { " at the fullest disk" } else { "" };
            line.push_str(&format!(", {} free{which}", format_bytes(*free)));
        }
        if *answered < nodes {
            line.push_str(&format!("; only {answered} of {} answered", counted(nodes, "node")));
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use zerohop_wire::admin::{GroupsStatus, NodeView};

    use super::*;

    fn node(id: u32, state: &str, copies: u32) -> NodeStatus {
        NodeStatus { id, state: state.to_owned(), pid: 1, in_sync: copies, ..NodeStatus::default() }
    }

    fn status(states: [&str; 3], change: impl FnOnce(&mut GroupsStatus, &mut NodeView)) -> Status {
        let mut groups = GroupsStatus { groups: 256, ..GroupsStatus::default() };
        let mut view = NodeView { node: 1, quorum: true, managers: 3, answering: 3, ..NodeView::default() };
        change(&mut groups, &mut view);
        let nodes = [1, 2, 3].iter().zip(states).map(|(id, state)| node(*id, state, 85)).collect();
        Status { nodes, groups: Some(groups), view: Some(view), ..Status::default() }
    }

    #[test]
    fn verdict_is_a_problem_if_something_is_not_served_and_a_warning_if_something_is_missing() {
        let up = ["up"; 3];
        let judged = |status: &Status| judge(status, 0);
        let good = "OK: 3 of 3 nodes are up, 256 partitions served";
        assert_eq!(judged(&status(up, |_, _| {})), (StatusVerdict::Ok, good.to_owned()));
        let moving = judged(&status(["up", "draining", "up"], |groups, _| groups.moving = 4));
        assert_eq!(moving, (StatusVerdict::Ok, format!("{good}, 4 on the move")));
        let gone = judged(&status(["up", "down", "up"], |groups, _| groups.rebuilding = 9));
        let first_line = "WARNING: 2 of 3 nodes are up, 256 partitions served, 9 being rebuilt";
        assert_eq!(gone, (StatusVerdict::Warning, first_line.to_owned()));
        let lost = judged(&status(up, |groups, view| (groups.lost, view.no_primary) = (2, 3)));
        let first_line = "PROBLEM: 3 of 3 nodes are up, 3 of 256 partitions are not served";
        assert_eq!(lost, (StatusVerdict::Problem, first_line.to_owned()));
        let failed = judged(&status(up, |_, view| view.log_failed = 7));
        let first_line =
            "PROBLEM: 3 of 3 nodes are up, 7 of 256 partitions are not served, the log of 7 has failed";
        assert_eq!(failed, (StatusVerdict::Problem, first_line.to_owned()));
        let not_split = judged(&status(up, |_, view| view.not_split = 9));
        let first_line =
            "PROBLEM: 3 of 3 nodes are up, 9 of 256 partitions are not served, 9 wait for a split";
        assert_eq!(not_split, (StatusVerdict::Problem, first_line.to_owned()));
        assert_eq!(judged(&status(up, |_, view| view.quorum = false)).0, StatusVerdict::Problem);
        // The loss of the quorum is not decided yet.
        let old = judged(&status(up, |_, view| view.age_ms = 3_140));
        assert_eq!(old, (StatusVerdict::Ok, format!("{good}; this view is 3.1 s old")));
        assert_eq!(judged(&status(up, |_, view| view.age_ms = 1_900)).1, good);
        // They count as up until the failure detector has decided.
        let mut silent = status(up, |_, _| {});
        silent.nodes[1].pid = 0;
        let first_line =
            "WARNING: 3 of 3 nodes are up, 1 of them did not answer, 256 partitions served".to_owned();
        assert_eq!(judged(&silent), (StatusVerdict::Warning, first_line));
        silent.nodes[2].pid = 0;
        assert_eq!(judged(&silent).0, StatusVerdict::Problem);
        let warned = judge(&status(up, |_, _| {}), 1);
        assert_eq!(warned, (StatusVerdict::Warning, "WARNING".to_owned() + &good[2..] + ", 1 warning"));
    }

    #[test]
    fn awaited_states_differ_in_missing_copies_and_moves() {
        use AwaitedState::{Served, Settled, Whole};
        let reached = |status: Status| [Served, Whole, Settled].map(|state| state.is_reached(&status));
        assert_eq!(reached(status(["up"; 3], |_, _| {})), [true; 3]);
        assert_eq!(reached(status(["up"; 3], |groups, _| groups.moving = 1)), [true, true, false]);
        assert_eq!(reached(status(["up"; 3], |groups, _| groups.rebuilding = 1)), [true, false, false]);
        assert_eq!(reached(status(["up"; 3], |groups, _| groups.below_min_in_sync = 1)), [false; 3]);
        assert_eq!(reached(status(["up"; 3], |_, view| view.quorum = false)), [false; 3]);
        assert_eq!(reached(status(["up"; 3], |_, view| view.log_failed = 1)), [false; 3]);
        assert_eq!(reached(status(["up", "down", "up"], |_, _| {})), [true, false, false]);
        // A node that is gone and has no copies any more is not waited for.
        let mut silent = status(["up"; 3], |_, _| {});
        silent.nodes[0].pid = 0;
        assert_eq!(reached(silent), [true, false, false]);
        let mut gone = status(["up", "down", "up"], |_, _| {});
        gone.nodes[1].in_sync = 0;
        assert_eq!(reached(gone), [true; 3]);
    }
}
