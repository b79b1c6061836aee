//! What is measured: modes of zerohop, each a scenario, and the systems that run in turn in each of them.

use bench_common::reading::{Bound, Target};

use crate::inputs::TransactionKind;

/// The copies and the durability of zerohop's keyspaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mode {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) copies: u16,
    pub(crate) durability: &'static str,
}

/// All of them.
pub(crate) const MODES: [Mode; 6] = [
    Mode {
        name: "copies-3-interval",
        about: "zerohop with three copies, two of which acknowledge a write before they store it; PostgreSQL without a copy stores it first",
        copies: 3,
        durability: "interval",
    },
    Mode {
        name: "copies-1-sync",
        about: "one copy: zerohop and PostgreSQL acknowledge a write when it is stored",
        copies: 1,
        durability: "sync",
    },
    Mode {
        name: "copies-3-sync",
        about: "zerohop with three copies, two of which store a write before they acknowledge it; PostgreSQL without a copy",
        copies: 3,
        durability: "sync",
    },
    Mode {
        name: "copies-1-interval",
        about: "one copy: zerohop acknowledges a write before it is stored, PostgreSQL behind that",
        copies: 1,
        durability: "interval",
    },
    Mode {
        name: "copies-3-memory",
        about: "zerohop with three copies in memory; PostgreSQL without a copy stores every write",
        copies: 3,
        durability: "memory",
    },
    Mode {
        name: "copies-1-memory",
        about: "zerohop with one copy in memory; PostgreSQL stores every write",
        copies: 1,
        durability: "memory",
    },
];

/// The modes that are measured if none is named.
const DEFAULT: usize = 2;

/// A system that runs the transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum System {
    Zerohop,
    /// With a node more than copies: regions of CUSTOMER are split and moved in the second third of the time.
    ZerohopMoving,
    Postgresql,
}

impl System {
    /// In the order in which they run.
    pub(crate) const ALL: [System; 3] = [System::Zerohop, System::ZerohopMoving, System::Postgresql];

    pub(crate) fn label(self) -> &'static str {
        match self {
            System::Zerohop => "zerohop",
            System::ZerohopMoving => "zerohop-moving",
            System::Postgresql => "postgresql",
        }
    }
}

/// The modes with these copies and this durability.
pub(crate) fn selected(copies: Option<u16>, durability: Option<&str>) -> Vec<Mode> {
    let all = if copies.is_none() && durability.is_none() { &MODES[..DEFAULT] } else { &MODES[..] };
    let is_it = |mode: &&Mode| {
        copies.is_none_or(|copies| mode.copies == copies)
            && durability.is_none_or(|durability| mode.durability == durability)
    };
    all.iter().filter(is_it).copied().collect()
}

/// New-Orders per minute, those that were rolled back included (clause 5.4.2).
pub(crate) const NEW_ORDERS: &str = "New-Orders/min";
/// All transactions.
pub(crate) const TRANSACTIONS: &str = "transactions/s";
/// CPU time of all servers.
pub(crate) const SERVERS_CPU: &str = "servers' CPU us/transaction";
/// Rates while regions are moved, and behind that, as parts of the rate before.
pub(crate) const WHILE_MOVED: &str = "transactions/s while moved of before";
pub(crate) const AFTER_MOVES: &str = "transactions/s after of before";

/// The name of the figure of a response time.
pub(crate) fn response(kind: TransactionKind, percentile: &str) -> String {
    format!("{} {percentile} ms", kind.name())
}

/// Ratios without a bound, of these systems.
pub(crate) fn targets(systems: &[System]) -> Vec<Target> {
    let (zerohop, over) = (System::Zerohop.label(), &["postgresql"][..]);
    let ratio = |figure: String| Target { figure, of: zerohop, over, bound: Bound::None };
    let moved = |figure: &str| Target {
        figure: figure.to_owned(),
        of: System::ZerohopMoving.label(),
        over: &[],
        bound: Bound::None,
    };
    let mut targets: Vec<Target> =
        [TRANSACTIONS, NEW_ORDERS, SERVERS_CPU].map(|name| ratio(name.to_owned())).into();
    targets.extend(TransactionKind::MIX.map(|(kind, _)| ratio(response(kind, "p90"))));
    targets.extend([WHILE_MOVED, AFTER_MOVES].map(moved));
    let is_there = |label: &&str| systems.iter().any(|system| system.label() == *label);
    targets.retain(|target| is_there(&target.of) && target.over.iter().all(is_there));
    targets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_only_of_systems_that_run() {
        assert_eq!(targets(&System::ALL).len(), 10);
        assert_eq!(targets(&[System::Zerohop, System::Postgresql]).len(), 8);
        assert_eq!(targets(&[System::ZerohopMoving]).len(), 2);
        assert_eq!(targets(&[System::Postgresql]).len(), 0);
    }

    #[test]
    fn two_modes_are_measured_if_none_is_named() {
        let names = |copies, durability| -> Vec<&str> {
            selected(copies, durability).iter().map(|mode| mode.name).collect()
        };
        assert_eq!(names(None, None), ["copies-3-interval", "copies-1-sync"]);
        assert_eq!(names(Some(1), None), ["copies-1-sync", "copies-1-interval", "copies-1-memory"]);
        assert_eq!(names(Some(3), Some("sync")), ["copies-3-sync"]);
        for mode in MODES {
            assert_eq!(mode.name, format!("copies-{}-{}", mode.copies, mode.durability));
        }
    }
}
