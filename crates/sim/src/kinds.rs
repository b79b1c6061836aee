//! The kinds of fault and disturbance, by name. Each seed has a random subset, a scenario allows
//! some, and shrinking removes some.

use std::fmt;

/// Whether [`FaultKind::BrokenInvariants`] is possible: replicas have the switch only in builds with debug assertions.
pub(crate) const CAN_BREAK_INVARIANTS: bool = cfg!(debug_assertions);

/// A kind of fault, or another disturbance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
#[expect(missing_docs, reason = "each has its words in `FrameKind::name`")]
pub enum FaultKind {
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
    DisksCorrupt,
    Stalls,
    Elections,
    Bursts,
    RedisClients,
    CrashPoints,
    BrokenInvariants,
}

impl FaultKind {
    /// All kinds, in the order of their declaration.
    pub const ALL: [FaultKind; 41] = [
        FaultKind::Loss,
        FaultKind::Repeats,
        FaultKind::Reordering,
        FaultKind::Delays,
        FaultKind::Cuts,
        FaultKind::OneWayCuts,
        FaultKind::ClientCuts,
        FaultKind::BrokenConnections,
        FaultKind::RepeatedRequests,
        FaultKind::PowerLosses,
        FaultKind::Kills,
        FaultKind::Stops,
        FaultKind::Restarts,
        FaultKind::DisksLost,
        FaultKind::DisksFail,
        FaultKind::DisksFull,
        FaultKind::DisksSlow,
        FaultKind::ClockRates,
        FaultKind::ClockJumps,
        FaultKind::NodePauses,
        FaultKind::ClientPauses,
        FaultKind::ClientDeaths,
        FaultKind::Joins,
        FaultKind::Drains,
        FaultKind::Removals,
        FaultKind::Splits,
        FaultKind::Drops,
        FaultKind::ManagerLosses,
        FaultKind::QuorumLosses,
        FaultKind::TotalRestarts,
        FaultKind::Sleeps,
        FaultKind::AgentPauses,
        FaultKind::Moves,
        FaultKind::LogsLost,
        FaultKind::DisksCorrupt,
        FaultKind::Stalls,
        FaultKind::Elections,
        FaultKind::Bursts,
        FaultKind::RedisClients,
        FaultKind::CrashPoints,
        FaultKind::BrokenInvariants,
    ];

    /// The name for display.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            FaultKind::Loss => "messages lost",
            FaultKind::Repeats => "messages repeated",
            FaultKind::Reordering => "messages overtaken",
            FaultKind::Delays => "messages late",
            FaultKind::Cuts => "nodes cut off",
            FaultKind::OneWayCuts => "nodes cut off one way",
            FaultKind::ClientCuts => "clients cut off",
            FaultKind::BrokenConnections => "connections broken",
            FaultKind::RepeatedRequests => "requests repeated",
            FaultKind::PowerLosses => "power losses",
            FaultKind::Kills => "kills",
            FaultKind::Stops => "shuts down cleanly",
            FaultKind::Restarts => "restarts just after a promotion",
            FaultKind::DisksLost => "disks lost",
            FaultKind::DisksFail => "disks failing",
            FaultKind::DisksFull => "disks full",
            FaultKind::DisksSlow => "disks slow",
            FaultKind::ClockRates => "clocks of other rates",
            FaultKind::ClockJumps => "clocks set",
            FaultKind::NodePauses => "pauses of nodes",
            FaultKind::ClientPauses => "pauses of clients",
            FaultKind::ClientDeaths => "deaths of clients",
            FaultKind::Joins => "joins",
            FaultKind::Drains => "drains",
            FaultKind::Removals => "removals of nodes",
            FaultKind::Splits => "splits asked for",
            FaultKind::Drops => "keyspaces dropped",
            FaultKind::ManagerLosses => "losses of the leading manager",
            FaultKind::QuorumLosses => "losses of the control quorum",
            FaultKind::TotalRestarts => "restarts of all",
            FaultKind::Sleeps => "clients idle for longer than sessions are remembered",
            FaultKind::AgentPauses => "pauses of agents while their instances go on",
            FaultKind::Moves => "moves asked for",
            FaultKind::LogsLost => "logs of managers lost",
            FaultKind::DisksCorrupt => "disks corrupt",
            FaultKind::Stalls => "connections between nodes that stand still",
            FaultKind::Elections => "fights over the control group",
            FaultKind::Bursts => "bursts of faults in one group",
            FaultKind::RedisClients => "Redis clients",
            FaultKind::CrashPoints => "crashes at points of an engine's work",
            FaultKind::BrokenInvariants => "invariants broken",
        }
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A set of kinds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kinds(u64);

impl Kinds {
    /// All kinds.
    pub const ALL: Kinds = Kinds((1 << FaultKind::ALL.len()) - 1);
    /// No kinds.
    pub const NONE: Kinds = Kinds(0);

    /// The set of these kinds.
    #[must_use]
    pub const fn of(kinds: &[FaultKind]) -> Kinds {
        let mut bits = 0;
        let mut at = 0;
        while at < kinds.len() {
            bits |= 1 << kinds[at] as u8;
            at += 1;
        }
        Kinds(bits)
    }

    /// Whether the set has this kind.
    #[must_use]
    pub const fn has(self, kind: FaultKind) -> bool {
        self.0 >> kind as u8 & 1 != 0
    }

    /// The intersection with another set.
    #[must_use]
    pub const fn and(self, others: Kinds) -> Kinds {
        Kinds(self.0 & others.0)
    }

    /// The set without one kind.
    #[must_use]
    pub const fn without(self, kind: FaultKind) -> Kinds {
        Kinds(self.0 & !(1 << kind as u8))
    }

    /// The set with one more kind.
    #[must_use]
    pub const fn with(self, kind: FaultKind) -> Kinds {
        Kinds(self.0 | 1 << kind as u8)
    }

    /// The set as a number, which command lines give in hexadecimal.
    #[must_use]
    pub fn bits(self) -> u64 {
        self.0
    }

    /// The set of such a number.
    #[must_use]
    pub fn from_bits(bits: u64) -> Kinds {
        Kinds(bits).and(Kinds::ALL)
    }

    /// The kinds of the set.
    pub fn iter(self) -> impl Iterator<Item = FaultKind> {
        FaultKind::ALL.into_iter().filter(move |kind| self.has(*kind))
    }
}

/// The named scenarios of a cluster, with the kinds that each allows.
pub const SCENARIOS: [(&str, Kinds); 9] = [
    ("all", Kinds::ALL),
    ("none", Kinds::NONE),
    (
        "replication",
        Kinds::of(&[
            FaultKind::Loss,
            FaultKind::Repeats,
            FaultKind::Reordering,
            FaultKind::Delays,
            FaultKind::PowerLosses,
            FaultKind::Kills,
            FaultKind::Restarts,
            FaultKind::TotalRestarts,
            FaultKind::RepeatedRequests,
            FaultKind::Stalls,
            FaultKind::Bursts,
            FaultKind::BrokenInvariants,
        ]),
    ),
    (
        "partitions",
        Kinds::of(&[
            FaultKind::Loss,
            FaultKind::Delays,
            FaultKind::Cuts,
            FaultKind::OneWayCuts,
            FaultKind::ClientCuts,
            FaultKind::BrokenConnections,
            FaultKind::NodePauses,
            FaultKind::AgentPauses,
            FaultKind::Stalls,
            FaultKind::Bursts,
        ]),
    ),
    (
        "disks",
        Kinds::of(&[
            FaultKind::PowerLosses,
            FaultKind::Kills,
            FaultKind::Stops,
            FaultKind::DisksLost,
            FaultKind::DisksFail,
            FaultKind::DisksFull,
            FaultKind::DisksSlow,
            FaultKind::DisksCorrupt,
            FaultKind::TotalRestarts,
            FaultKind::CrashPoints,
        ]),
    ),
    (
        "clocks",
        Kinds::of(&[
            FaultKind::ClockRates,
            FaultKind::ClockJumps,
            FaultKind::NodePauses,
            FaultKind::ClientPauses,
            FaultKind::Sleeps,
            FaultKind::Kills,
            FaultKind::Cuts,
        ]),
    ),
    (
        "moves",
        Kinds::of(&[
            FaultKind::Joins,
            FaultKind::Drains,
            FaultKind::Removals,
            FaultKind::Splits,
            FaultKind::Drops,
            FaultKind::Moves,
            FaultKind::Kills,
            FaultKind::Loss,
            FaultKind::Cuts,
        ]),
    ),
    (
        "control",
        Kinds::of(&[
            FaultKind::ManagerLosses,
            FaultKind::QuorumLosses,
            FaultKind::TotalRestarts,
            FaultKind::LogsLost,
            FaultKind::AgentPauses,
            FaultKind::Loss,
            FaultKind::Delays,
            FaultKind::OneWayCuts,
            FaultKind::PowerLosses,
            FaultKind::Kills,
            FaultKind::Elections,
        ]),
    ),
    (
        "redis",
        Kinds::of(&[
            FaultKind::RedisClients,
            FaultKind::Loss,
            FaultKind::Delays,
            FaultKind::Cuts,
            FaultKind::OneWayCuts,
            FaultKind::BrokenConnections,
            FaultKind::PowerLosses,
            FaultKind::Kills,
            FaultKind::Stops,
            FaultKind::Restarts,
            FaultKind::NodePauses,
            FaultKind::Joins,
            FaultKind::Drains,
            FaultKind::Splits,
            FaultKind::Drops,
            FaultKind::Moves,
        ]),
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fault_kind_has_its_own_bit() {
        for (at, kind) in FaultKind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, at);
            let one = Kinds::of(&[kind]);
            assert!(one.has(kind) && Kinds::ALL.has(kind) && !Kinds::ALL.without(kind).has(kind));
            assert_eq!(Kinds::from_bits(one.bits()).iter().collect::<Vec<_>>(), [kind]);
        }
    }
}
