//! What runs have seen: a simulator whose faults have stopped happening finds nothing, and says so by finding nothing.

use std::collections::BTreeMap;
use std::fmt;

use crate::history::{Call, End};
use crate::workload::operation::Operation;

/// Counts of one run, or of many.
#[derive(Clone, Debug, Default)]
pub struct Coverage {
    /// Lines of the trace.
    pub events: u64,
    /// Calls by what they asked.
    pub calls: BTreeMap<String, u64>,
    /// Calls by how they ended.
    pub ends: BTreeMap<&'static str, u64>,
    /// Processes that ended without warning, and in order.
    pub crashes: u64,
    /// See above.
    pub stops: u64,
    /// Starts during which the power went.
    pub failed_starts: u64,
    /// Pauses of the node.
    pub pauses: u64,
    /// Times during which sessions were forgotten because nobody used them.
    pub sleeps: u64,
    /// Times of trouble with a disk.
    pub disk_troubles: u64,
    /// Changes of a keyspace's durability.
    pub alterations: u64,
    /// Splits of a keyspace.
    pub splits: u64,
    /// Copies of frames that came over a connection of their own.
    pub repeats: u64,
    /// Requests answered that their session is forgotten.
    pub expired: u64,
    /// Requests let go because their client had said that it has the answer.
    pub let_go: u64,
    /// Records whose calls were looked at, between two losses.
    pub sections: u64,
    /// Those for which the search for an order was given up.
    pub undecided: u64,
}

impl Coverage {
    pub(crate) fn ended(&mut self, in_order: bool) {
        match in_order {
            true => self.stops += 1,
            false => self.crashes += 1,
        }
    }

    pub(crate) fn called(&mut self, operation: &Operation) {
        let act = format!("{:?}", operation.act);
        let name: String = act.chars().take_while(|c| c.is_alphanumeric()).collect();
        *self.calls.entry(name).or_default() += 1;
    }

    pub(crate) fn ended_call(&mut self, call: &Call) {
        let how = match call.end {
            End::Open => "open",
            End::Done(_) => "done",
            End::Failed(_) => "refused by the record",
            End::Unknown => "unknown",
            End::NotDone(_) => "not done",
        };
        *self.ends.entry(how).or_default() += 1;
    }

    /// Adds those of another run.
    pub fn add(&mut self, other: &Coverage) {
        for (name, count) in &other.calls {
            *self.calls.entry(name.clone()).or_default() += count;
        }
        for (name, count) in &other.ends {
            *self.ends.entry(name).or_default() += count;
        }
        for (mine, theirs) in [
            (&mut self.events, other.events),
            (&mut self.crashes, other.crashes),
            (&mut self.stops, other.stops),
            (&mut self.failed_starts, other.failed_starts),
            (&mut self.pauses, other.pauses),
            (&mut self.sleeps, other.sleeps),
            (&mut self.disk_troubles, other.disk_troubles),
            (&mut self.alterations, other.alterations),
            (&mut self.splits, other.splits),
            (&mut self.repeats, other.repeats),
            (&mut self.expired, other.expired),
            (&mut self.let_go, other.let_go),
            (&mut self.sections, other.sections),
            (&mut self.undecided, other.undecided),
        ] {
            *mine += theirs;
        }
    }

    /// What there was none of.
    #[must_use]
    pub fn missing(&self) -> Vec<&'static str> {
        const OPERATIONS: [&str; 15] = [
            "Insert",
            "Remove",
            "Append",
            "Extend",
            "CompareSwap",
            "Increment",
            "SetBit",
            "Expire",
            "Trim",
            "Lookup",
            "LookupRange",
            "Inspect",
            "GetBit",
            "CountBits",
            "Wait",
        ];
        let counts = [
            ("crashes", self.crashes),
            ("stops in order", self.stops),
            ("failed starts", self.failed_starts),
            ("pauses", self.pauses),
            ("sleeps", self.sleeps),
            ("troubles with disks", self.disk_troubles),
            ("alterations", self.alterations),
            ("splits", self.splits),
            ("repeated frames", self.repeats),
            ("forgotten sessions", self.expired),
            ("requests let go", self.let_go),
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
            self.sleeps,
            self.disk_troubles,
            self.alterations,
            self.splits,
            self.repeats,
            self.expired,
            self.let_go,
            self.sections,
            self.undecided
        )
    }
}
