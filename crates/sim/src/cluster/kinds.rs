//! What may go wrong in a run, by name: each seed has a random subset, a scenario allows some, and a shrink takes away.

use std::fmt;

/// A kind of fault, or of something else that disturbs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
#[expect(missing_docs, reason = "each has its words in `Kind::name`")]
pub enum Kind {
    Loss,
    Repeats,
    Reordering,
    Delays,
    Cuts,
    OneWayCuts,
    ClientCuts,
    BrokenConnections,
    RepeatedRequests,
    PowerLosses,
    Kills,
    Stops,
    Restarts,
    DisksLost,
    DisksFail,
    DisksFull,
    DisksSlow,
    ClockRates,
    ClockJumps,
    NodePauses,
    ClientPauses,
    ClientDeaths,
    Joins,
    Drains,
    Removals,
    Splits,
    Drops,
    ManagerLosses,
    QuorumLosses,
    TotalRestarts,
    Sleeps,
    AgentPauses,
    Moves,
    LogsLost,
    DisksRot,
    Stalls,
    Elections,
    Bursts,
}

impl Kind {
    /// All of them, in the order of their declaration.
    pub const ALL: [Kind; 38] = [
        Kind::Loss,
        Kind::Repeats,
        Kind::Reordering,
        Kind::Delays,
        Kind::Cuts,
        Kind::OneWayCuts,
        Kind::ClientCuts,
        Kind::BrokenConnections,
        Kind::RepeatedRequests,
        Kind::PowerLosses,
        Kind::Kills,
        Kind::Stops,
        Kind::Restarts,
        Kind::DisksLost,
        Kind::DisksFail,
        Kind::DisksFull,
        Kind::DisksSlow,
        Kind::ClockRates,
        Kind::ClockJumps,
        Kind::NodePauses,
        Kind::ClientPauses,
        Kind::ClientDeaths,
        Kind::Joins,
        Kind::Drains,
        Kind::Removals,
        Kind::Splits,
        Kind::Drops,
        Kind::ManagerLosses,
        Kind::QuorumLosses,
        Kind::TotalRestarts,
        Kind::Sleeps,
        Kind::AgentPauses,
        Kind::Moves,
        Kind::LogsLost,
        Kind::DisksRot,
        Kind::Stalls,
        Kind::Elections,
        Kind::Bursts,
    ];

    /// What a person reads.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Loss => "messages lost",
            Kind::Repeats => "messages repeated",
            Kind::Reordering => "messages overtaken",
            Kind::Delays => "messages late",
            Kind::Cuts => "nodes cut off",
            Kind::OneWayCuts => "nodes cut off one way",
            Kind::ClientCuts => "clients cut off",
            Kind::BrokenConnections => "connections broken",
            Kind::RepeatedRequests => "requests repeated",
            Kind::PowerLosses => "power losses",
            Kind::Kills => "kills",
            Kind::Stops => "stops in order",
            Kind::Restarts => "restarts just after a promotion",
            Kind::DisksLost => "disks lost",
            Kind::DisksFail => "disks failing",
            Kind::DisksFull => "disks full",
            Kind::DisksSlow => "disks slow",
            Kind::ClockRates => "clocks of other rates",
            Kind::ClockJumps => "clocks set",
            Kind::NodePauses => "pauses of nodes",
            Kind::ClientPauses => "pauses of clients",
            Kind::ClientDeaths => "deaths of clients",
            Kind::Joins => "joins",
            Kind::Drains => "drains",
            Kind::Removals => "removals of nodes",
            Kind::Splits => "splits asked for",
            Kind::Drops => "keyspaces dropped",
            Kind::ManagerLosses => "losses of the leading manager",
            Kind::QuorumLosses => "losses of the control quorum",
            Kind::TotalRestarts => "restarts of all",
            Kind::Sleeps => "clients idle for longer than sessions are remembered",
            Kind::AgentPauses => "pauses of agents while their instances go on",
            Kind::Moves => "moves asked for",
            Kind::LogsLost => "logs of managers lost",
            Kind::DisksRot => "disks rotten",
            Kind::Stalls => "connections between nodes that stand still",
            Kind::Elections => "fights over the control group",
            Kind::Bursts => "bursts of faults in one group",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Some kinds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kinds(u64);

impl Kinds {
    /// All.
    pub const ALL: Kinds = Kinds((1 << Kind::ALL.len()) - 1);
    /// None.
    pub const NONE: Kinds = Kinds(0);

    /// These.
    #[must_use]
    pub const fn of(kinds: &[Kind]) -> Kinds {
        let mut bits = 0;
        let mut at = 0;
        while at < kinds.len() {
            bits |= 1 << kinds[at] as u8;
            at += 1;
        }
        Kinds(bits)
    }

    /// Whether it is among them.
    #[must_use]
    pub const fn has(self, kind: Kind) -> bool {
        self.0 >> kind as u8 & 1 != 0
    }

    /// Those that are also among others.
    #[must_use]
    pub const fn and(self, others: Kinds) -> Kinds {
        Kinds(self.0 & others.0)
    }

    /// All but one.
    #[must_use]
    pub const fn without(self, kind: Kind) -> Kinds {
        Kinds(self.0 & !(1 << kind as u8))
    }

    /// One more.
    #[must_use]
    pub const fn with(self, kind: Kind) -> Kinds {
        Kinds(self.0 | 1 << kind as u8)
    }

    /// As a command line has them: a number in hexadecimal.
    #[must_use]
    pub fn bits(self) -> u64 {
        self.0
    }

    /// The same, read.
    #[must_use]
    pub fn from_bits(bits: u64) -> Kinds {
        Kinds(bits).and(Kinds::ALL)
    }

    /// Each of them.
    pub fn iter(self) -> impl Iterator<Item = Kind> {
        Kind::ALL.into_iter().filter(move |kind| self.has(*kind))
    }
}

/// The named scenarios of a cluster: which kinds each allows.
pub const SCENARIOS: [(&str, Kinds); 8] = [
    ("all", Kinds::ALL),
    ("calm", Kinds::NONE),
    (
        "replication",
        Kinds::of(&[
            Kind::Loss,
            Kind::Repeats,
            Kind::Reordering,
            Kind::Delays,
            Kind::PowerLosses,
            Kind::Kills,
            Kind::Restarts,
            Kind::TotalRestarts,
            Kind::RepeatedRequests,
            Kind::Stalls,
            Kind::Bursts,
        ]),
    ),
    (
        "partitions",
        Kinds::of(&[
            Kind::Loss,
            Kind::Delays,
            Kind::Cuts,
            Kind::OneWayCuts,
            Kind::ClientCuts,
            Kind::BrokenConnections,
            Kind::NodePauses,
            Kind::AgentPauses,
            Kind::Stalls,
            Kind::Bursts,
        ]),
    ),
    (
        "disks",
        Kinds::of(&[
            Kind::PowerLosses,
            Kind::Kills,
            Kind::Stops,
            Kind::DisksLost,
            Kind::DisksFail,
            Kind::DisksFull,
            Kind::DisksSlow,
            Kind::DisksRot,
            Kind::TotalRestarts,
        ]),
    ),
    (
        "clocks",
        Kinds::of(&[
            Kind::ClockRates,
            Kind::ClockJumps,
            Kind::NodePauses,
            Kind::ClientPauses,
            Kind::Sleeps,
            Kind::Kills,
            Kind::Cuts,
        ]),
    ),
    (
        "moves",
        Kinds::of(&[
            Kind::Joins,
            Kind::Drains,
            Kind::Removals,
            Kind::Splits,
            Kind::Drops,
            Kind::Moves,
            Kind::Kills,
            Kind::Loss,
            Kind::Cuts,
        ]),
    ),
    (
        "control",
        Kinds::of(&[
            Kind::ManagerLosses,
            Kind::QuorumLosses,
            Kind::TotalRestarts,
            Kind::LogsLost,
            Kind::AgentPauses,
            Kind::Loss,
            Kind::Delays,
            Kind::OneWayCuts,
            Kind::PowerLosses,
            Kind::Kills,
            Kind::Elections,
        ]),
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_its_own_bit_and_names_are_read_back() {
        for (at, kind) in Kind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, at);
            let one = Kinds::of(&[kind]);
            assert!(one.has(kind) && Kinds::ALL.has(kind) && !Kinds::ALL.without(kind).has(kind));
            assert_eq!(Kinds::from_bits(one.bits()).iter().collect::<Vec<_>>(), [kind]);
        }
    }
}
