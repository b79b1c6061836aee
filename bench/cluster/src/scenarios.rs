//! The scenarios: contenders and targets.

use bench_common::failure::Failure;
use bench_common::reading::{Bound, Target};

use crate::servers::Setting;
use crate::work::{Log, Work};

/// Contenders with the same work, each in its own process with its own servers.
pub(crate) struct Scenario {
    /// Name on the command line.
    pub(crate) name: &'static str,
    /// Description, printed above the table.
    pub(crate) about: &'static str,
    pub(crate) contenders: &'static [Contender],
    /// The targets of the figures.
    pub(crate) targets: fn() -> Vec<Target>,
}

/// One column of a table.
pub(crate) struct Contender {
    pub(crate) label: &'static str,
    pub(crate) work: Work,
}

const fn load(durability: &'static str, replicas: u8, min_in_sync: u8) -> Work {
    Work::Load(Setting { durability, replicas, min_in_sync })
}

/// All scenarios, in the order of the report.
pub(crate) const REGISTRY: &[Scenario] = &[
    Scenario {
        name: "etcd",
        about: "32 connections with one request outstanding each, keys of 15 and values of 132 bytes, over records that are \
                there. Zerohop: three nodes of one instance each, 256 partitions, of three copies (two in sync) with interval \
                or sync durability, and of one copy. etcd: three members, asked all alike, or the leader alone; its lookups \
                are linearizable, as zerohop's are.",
        contenders: &[
            Contender { label: "interval", work: load("interval", 3, 2) },
            Contender { label: "etcd", work: Work::LoadEtcd { is_at_leader: false } },
            Contender { label: "sync", work: load("sync", 3, 2) },
            Contender { label: "etcd, leader", work: Work::LoadEtcd { is_at_leader: true } },
            Contender { label: "one copy", work: load("interval", 1, 1) },
        ],
        targets: || {
            let at_least = |figure: &str, of, over, bound| Target {
                figure: figure.into(),
                of,
                over,
                bound: Bound::AtLeast(bound),
            };
            vec![
                at_least("insert K op/s", "interval", &["etcd", "etcd, leader"], 12.0),
                at_least("insert K op/s", "sync", &["etcd", "etcd, leader"], 5.0),
                at_least("insert K op/s", "interval", &["one copy"], 0.45),
                at_least("lookup K op/s", "interval", &["one copy"], 0.9),
            ]
        },
    },
    Scenario {
        name: "failover",
        about: "32 Rust clients insert over and over, one at a time; a node is killed with SIGKILL, each round another. New \
                primaries: from the kill until a survivor's map has none that is dead. The longest gap is that between two \
                acknowledgements of any one client. Three copies, two in sync, interval durability.",
        contenders: &[Contender { label: "zerohop", work: Work::Failover }],
        targets: || {
            let bounds = [
                ("new primaries ms", 2000.0),
                ("longest gap ms", 3000.0),
                ("failed operations", 0.0),
                ("lost writes", 0.0),
            ];
            at_most(&bounds)
        },
    },
    Scenario {
        name: "rolling",
        about: "The same clients, while each node is stopped with SIGTERM and started again, one after the other, as many times \
                around as --turns says. The next follows once all copies are in sync.",
        contenders: &[Contender { label: "zerohop", work: Work::Rolling }],
        targets: || at_most(&[("failed operations", 0.0), ("lost writes", 0.0)]),
    },
    Scenario {
        name: "move",
        about: "A keyspace of one partition and one copy, interval durability, filled with --mebibytes in records of \
                --value-bytes, moved to another node while a client looks up and inserts small records of it --rate times a \
                second, however long they take. A move takes until a map names the new primary. The copy is of the same \
                files by a program that reads, sends over the loopback and writes, under the same load, nothing synced. \
                Whole log: everything ever written is in it. Compacted: half was written over, and is gone.",
        contenders: &[
            Contender { label: "whole log", work: Work::Move(Log::Whole) },
            Contender { label: "compacted", work: Work::Move(Log::Compacted) },
        ],
        targets: || {
            let bounds = [
                ("move of copy", Bound::AtLeast(0.8)),
                ("slowest at swap ms", Bound::AtMost(50.0)),
                ("failed operations", Bound::AtMost(0.0)),
                ("wrong records", Bound::AtMost(0.0)),
            ];
            let of =
                |of| bounds.map(|(figure, bound)| Target { figure: figure.into(), of, over: &[], bound });
            ["whole log", "compacted"].into_iter().flat_map(of).collect()
        },
    },
    Scenario {
        name: "start",
        about: "`zerohop up --nodes 3` on an empty folder, until it has taken a record of three copies.",
        contenders: &[Contender { label: "zerohop", work: Work::Start }],
        targets: || at_most(&[("serving after ms", 1000.0)]),
    },
    Scenario {
        name: "txn",
        about: "Transactions of two blind writes to records of 15 and 132 bytes drawn from all, over three nodes of one instance \
                each, 256 partitions, three copies (two in sync), interval durability, by Rust clients on one thread: one \
                alone, for latencies, and 32, for rates; beside single writes, and 64 keys over some 57 partitions. Contended: \
                by Zipf's law of exponent 0.99, 8 to 128 clients. etcd: three members, the same two keys as one Txn, one and \
                32 connections of the cheapest client.",
        contenders: &[
            Contender {
                label: "zerohop",
                work: Work::Transact(Setting { durability: "interval", replicas: 3, min_in_sync: 2 }),
            },
            Contender { label: "etcd", work: Work::TransactEtcd },
        ],
        targets: || {
            let target =
                |figure: &str, over, bound| Target { figure: figure.into(), of: "zerohop", over, bound };
            vec![
                target("latency of two / write", &[], Bound::AtMost(2.5)),
                target("rate of two / write", &[], Bound::AtLeast(0.35)),
                target("latency of 64 / two", &[], Bound::AtMost(2.0)),
                target("zipf least / peak", &[], Bound::AtLeast(0.5)),
                target("two-key K txn/s", &["etcd"], Bound::AtLeast(10.0)),
                target("failed transactions", &[], Bound::AtMost(0.0)),
            ]
        },
    },
];

fn at_most(bounds: &[(&str, f64)]) -> Vec<Target> {
    let target = |(figure, bound): &(&str, f64)| Target {
        figure: (*figure).into(),
        of: "zerohop",
        over: &[],
        bound: Bound::AtMost(*bound),
    };
    bounds.iter().map(target).collect()
}

/// The work of this contender in this scenario.
pub(crate) fn find(scenario: &str, label: &str) -> Result<Work, Failure> {
    let of_it = REGISTRY.iter().filter(|found| found.name == scenario).flat_map(|found| found.contenders);
    let found = of_it.into_iter().find(|contender| contender.label == label);
    found
        .map(|contender| contender.work)
        .ok_or_else(|| Failure::Usage(format!("scenario {scenario} has no contender {label}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_name_contenders_of_their_scenario() {
        for scenario in REGISTRY {
            for target in (scenario.targets)() {
                for label in target.over.iter().chain([&target.of]) {
                    assert!(find(scenario.name, label).is_ok(), "{}: {label}", scenario.name);
                }
            }
        }
    }
}
