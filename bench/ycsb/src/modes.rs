//! What is measured: a scenario for each durability and workload, and the systems that run in turn in it.

use bench_common::reading::{Bound, Target};
use zerohop_ycsb::{YcsbOperation, YcsbWorkload};

/// When a write counts as stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Mode {
    /// Behind its acknowledgement, within about a second.
    Interval,
    /// Before its acknowledgement.
    Sync,
}

/// A system that runs the workloads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum System {
    Zerohop,
    Redis,
    Etcd,
    Postgresql,
}

/// The workloads in the order of YCSB: A, B, C and F leave the number of records, D inserts, and E has a store of its own.
pub(crate) const WORKLOADS: [YcsbWorkload; 6] =
    [YcsbWorkload::A, YcsbWorkload::B, YcsbWorkload::C, YcsbWorkload::F, YcsbWorkload::D, YcsbWorkload::E];

/// Names and descriptions of scenarios, in the order of [`WORKLOADS`].
type Scenarios = [(&'static str, &'static str); 6];

macro_rules! scenarios {
    ($mode:literal, $about:literal) => {
        [
            (concat!($mode, "-a"), concat!("50 % reads, 50 % updates; ", $about)),
            (concat!($mode, "-b"), concat!("95 % reads, 5 % updates; ", $about)),
            (concat!($mode, "-c"), concat!("reads only; ", $about)),
            (concat!($mode, "-f"), concat!("50 % reads, 50 % reads with an update behind each; ", $about)),
            (concat!($mode, "-d"), concat!("95 % reads of mostly the newest records, 5 % inserts; ", $about)),
            (concat!($mode, "-e"), concat!("95 % scans of 1 to 100 records, 5 % inserts; ", $about)),
        ]
    };
}

const INTERVAL: Scenarios = scenarios!(
    "interval",
    "a write is acknowledged before it is stored, except by etcd, which stores it first and runs scans alone"
);

const SYNC: Scenarios = scenarios!("sync", "a write is acknowledged when it is stored");

/// All operations that have ended.
pub(crate) const RATE: &str = "operations/s";
/// CPU time of all processes of a server.
pub(crate) const SERVERS_CPU: &str = "servers' CPU us/operation";
/// CPU time of the clients, which are one thread.
pub(crate) const CLIENTS_CPU: &str = "clients' CPU us/operation";

/// Scans of zerohop beside those of etcd.
const SCANS_OVER_ETCD: Bound = Bound::AtLeast(3.0);

impl Mode {
    /// In the order in which they run.
    pub(crate) const ALL: [Mode; 2] = [Mode::Interval, Mode::Sync];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Mode::Interval => "interval",
            Mode::Sync => "sync",
        }
    }

    /// The name and the description of a scenario.
    pub(crate) fn scenario(self, workload: YcsbWorkload) -> (&'static str, &'static str) {
        let scenarios = match self {
            Mode::Interval => INTERVAL,
            Mode::Sync => SYNC,
        };
        let at = WORKLOADS.iter().position(|one| *one == workload).unwrap_or_default();
        scenarios[at]
    }
}

impl System {
    /// In the order in which they run.
    pub(crate) const ALL: [System; 4] = [System::Zerohop, System::Redis, System::Etcd, System::Postgresql];

    pub(crate) fn label(self) -> &'static str {
        match self {
            System::Zerohop => "zerohop",
            System::Redis => "redis",
            System::Etcd => "etcd",
            System::Postgresql => "postgresql",
        }
    }

    /// Those of these workloads that it runs. etcd stores each write before it acknowledges it, so that elsewhere only its scans compare.
    pub(crate) fn workloads(self, mode: Mode, requested: &[YcsbWorkload]) -> Vec<YcsbWorkload> {
        let compares =
            |workload: &YcsbWorkload| self != System::Etcd || mode == Mode::Sync || workload.scans();
        WORKLOADS.into_iter().filter(|one| requested.contains(one)).filter(compares).collect()
    }

    /// A list of this system alone.
    fn alone(self) -> &'static [&'static str] {
        match self {
            System::Zerohop => &["zerohop"],
            System::Redis => &["redis"],
            System::Etcd => &["etcd"],
            System::Postgresql => &["postgresql"],
        }
    }
}

/// The name of the figure of a latency.
pub(crate) fn latency(operation: YcsbOperation, percentile: &str) -> String {
    format!("{} {percentile} us", operation.name())
}

/// Ratios of zerohop to each other system that runs the workload.
pub(crate) fn targets(mode: Mode, workload: YcsbWorkload, systems: &[System]) -> Vec<Target> {
    let runs = |system: &&System| !system.workloads(mode, &[workload]).is_empty();
    if !systems.contains(&System::Zerohop) {
        return Vec::new();
    }
    let peers = systems.iter().filter(|system| **system != System::Zerohop).filter(runs);
    peers
        .flat_map(|peer| {
            let is_target = workload.scans() && *peer == System::Etcd;
            [(RATE, if is_target { SCANS_OVER_ETCD } else { Bound::None }), (SERVERS_CPU, Bound::None)].map(
                |(figure, bound)| Target {
                    figure: figure.to_owned(),
                    of: System::Zerohop.label(),
                    over: peer.alone(),
                    bound,
                },
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scenarios_are_named_by_durability_and_workload() {
        for mode in Mode::ALL {
            for workload in WORKLOADS {
                let expected = format!("{}-{}", mode.name(), format!("{workload:?}").to_lowercase());
                assert_eq!(mode.scenario(workload).0, expected);
            }
        }
        let labels = System::ALL.map(System::alone);
        assert!(System::ALL.iter().zip(labels).all(|(system, alone)| alone == [system.label()]));
    }

    #[test]
    fn etcd_runs_all_workloads_only_when_writes_are_stored_first() {
        use YcsbWorkload::{A, D, E};
        assert_eq!(System::Etcd.workloads(Mode::Interval, &[E, A]), [E]);
        assert_eq!(System::Etcd.workloads(Mode::Sync, &[E, A]), [A, E]);
        assert_eq!(System::Redis.workloads(Mode::Interval, &[E, D, A]), [A, D, E]);
    }

    #[test]
    fn ratios_are_only_of_systems_that_run() {
        let bounds = |mode, workload, systems: &[System]| -> Vec<(&str, Bound)> {
            targets(mode, workload, systems).iter().map(|target| (target.over[0], target.bound)).collect()
        };
        assert_eq!(bounds(Mode::Interval, YcsbWorkload::A, &System::ALL).len(), 4);
        assert_eq!(bounds(Mode::Sync, YcsbWorkload::A, &System::ALL).len(), 6);
        let scans = bounds(Mode::Interval, YcsbWorkload::E, &[System::Zerohop, System::Etcd]);
        assert_eq!(scans, [("etcd", SCANS_OVER_ETCD), ("etcd", Bound::None)]);
        assert_eq!(bounds(Mode::Sync, YcsbWorkload::E, &[System::Etcd]), []);
    }
}
