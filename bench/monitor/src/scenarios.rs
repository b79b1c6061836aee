//! The scenarios: contenders and targets.

use bench_common::failure::Failure;
use bench_common::reading::{Bound, Target};

use crate::zerohop::ChangeMethod;

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

/// The work of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    /// Events on zerohop.
    Zerohop { nodes: u16, how: ChangeMethod },
    /// Events on RADOS, under locks in Redis.
    Rados,
    /// Readers, while so many percent of the clients write.
    Readers { percent: usize },
}

/// All scenarios, in the order of the report.
pub(crate) const REGISTRY: &[Scenario] = &[
    Scenario {
        name: "one",
        about: "Each event of 16 bytes is appended for one of 1,024 sources and added to the averages of its machine, cluster, \
                site, region and the whole (all levels), or to that of the whole only (global). Transforms: one transaction in \
                place; separate: the same as single operations, all sent at once; closures: one transaction that reads the \
                averages and writes them, retried after a conflict. One node of one instance, one copy, interval \
                durability. RADOS: one monitor and one OSD, one copy, its store in memory; the averages are read and written \
                under a lock each in Redis, all held at once, by librados.",
        contenders: &[
            Contender {
                label: "transforms",
                work: Work::Zerohop { nodes: 1, how: ChangeMethod::Transforms },
            },
            Contender { label: "separate", work: Work::Zerohop { nodes: 1, how: ChangeMethod::Separate } },
            Contender { label: "closures", work: Work::Zerohop { nodes: 1, how: ChangeMethod::Closures } },
            Contender { label: "rados", work: Work::Rados },
        ],
        targets: || {
            let mut targets = transforms();
            targets.push(target("all levels K op/s", "closures", &["rados"], Bound::AtLeast(1.78)));
            targets
        },
    },
    Scenario {
        name: "three",
        about: "The same on three nodes of one instance each, three copies of which two are in sync, interval durability.",
        contenders: &[
            Contender {
                label: "transforms",
                work: Work::Zerohop { nodes: 3, how: ChangeMethod::Transforms },
            },
            Contender { label: "separate", work: Work::Zerohop { nodes: 3, how: ChangeMethod::Separate } },
            Contender { label: "closures", work: Work::Zerohop { nodes: 3, how: ChangeMethod::Closures } },
        ],
        targets: transforms,
    },
    Scenario {
        name: "readers",
        about: "Clients that read, 50 events of a source (800 bytes) or one average, chosen at random, both by Zipf's law, while 5 % \
                or 95 % of all clients write events of all levels in transactions of transforms; one node as above. First each \
                as fast as it can, so that all share two processors; then paced: an operation of each client every 50 ms, so \
                that processors are idle and what is left is the time that one client waits for another.",
        contenders: &[
            Contender { label: "95 % writers", work: Work::Readers { percent: 95 } },
            Contender { label: "5 % writers", work: Work::Readers { percent: 5 } },
        ],
        targets: || {
            let reads = ["reads/s of a reader", "paced: reads/s of a reader"];
            let target = |figure| target(figure, "95 % writers", &["5 % writers"], Bound::AtLeast(0.85));
            reads.map(target).into()
        },
    },
];

/// The targets of transforms, relative to closures.
fn transforms() -> Vec<Target> {
    vec![
        target("all levels K op/s", "transforms", &["closures"], Bound::AtLeast(1.33)),
        target("global K op/s", "transforms", &["closures"], Bound::AtLeast(3.0)),
    ]
}

fn target(figure: &str, of: &'static str, over: &'static [&'static str], bound: Bound) -> Target {
    Target { figure: figure.into(), of, over, bound }
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
