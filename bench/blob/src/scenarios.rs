//! The scenarios: contenders and targets.

use bench_common::failure::Failure;
use bench_common::reading::{Bound, Target};

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
    /// Large reads and writes on one node, by clients on as many connections.
    Bulk,
    /// The rate of the loopback.
    Iperf,
    /// The rate of the disk through the page cache.
    Fio,
    /// Large and small objects on one node, at the depth of `rados bench`.
    Objects { in_memory: bool },
    /// The same by `rados bench` on one OSD.
    Rados { in_memory: bool },
    /// Small reads of one chunk each, one at a time.
    OneChunk { nodes: usize },
    /// Small reads of keys, one at a time.
    Key,
    /// Small reads of several chunks at once, confirmed, one at a time.
    ManyChunks,
}

/// All scenarios, in the order of the report.
pub(crate) const REGISTRY: &[Scenario] = &[
    Scenario {
        name: "bulk",
        about: "4 MiB at a time on 4 connections, one operation under way on each. Zerohop: one node of one instance, one copy, \
                interval durability, chunks of 4 MiB; what is read is in memory. iperf3: as many streams from server to client. \
                fio: buffered sequential writes of 1 MiB into the same folder.",
        contenders: &[
            Contender { label: "zerohop", work: Work::Bulk },
            Contender { label: "iperf3", work: Work::Iperf },
            Contender { label: "fio", work: Work::Fio },
        ],
        targets: || {
            vec![
                target("read MB/s", "zerohop", &["iperf3"], Bound::AtLeast(0.8)),
                target("write MB/s", "zerohop", &["fio"], Bound::AtLeast(0.6)),
            ]
        },
    },
    Scenario {
        name: "rados",
        about: "Objects of 4 MiB whole, and 4 KiB of them, 16 operations under way on one connection; and 4 KiB one at a time. \
                Zerohop: one node of one instance, one copy, chunks of 4 MiB, in a keyspace of interval durability, or of memory \
                durability. RADOS: one monitor and one OSD, a pool of one copy, by `rados bench`; its store on disk (BlueStore), \
                or in memory.",
        contenders: &[
            Contender { label: "zerohop", work: Work::Objects { in_memory: false } },
            Contender { label: "rados", work: Work::Rados { in_memory: false } },
            Contender { label: "zerohop, memory", work: Work::Objects { in_memory: true } },
            Contender { label: "rados, memory", work: Work::Rados { in_memory: true } },
        ],
        targets: || {
            // Comparisons of the same kind: both on the same disk, or both in memory.
            let mut targets = Vec::new();
            for (of, over) in [("zerohop", &["rados"]), ("zerohop, memory", &["rados, memory"])] {
                targets.extend(RADOS_BOUNDS.map(|(figure, bound)| target(figure, of, over, bound)));
            }
            // The cost of a disk: compared with a store in memory.
            let across = |(figure, _)| target(figure, "zerohop", &["rados, memory"], Bound::None);
            targets.extend(RADOS_BOUNDS.map(across));
            targets
        },
    },
    Scenario {
        name: "chunk",
        about: "Reads of 4 KiB of a chunk of 1 MiB, one at a time, beside lookups of records of 4 KiB; one node of one instance.",
        contenders: &[
            Contender { label: "chunk", work: Work::OneChunk { nodes: 1 } },
            Contender { label: "key", work: Work::Key },
        ],
        targets: || vec![target("p50 us", "chunk", &["key"], Bound::AtMost(1.3))],
    },
    Scenario {
        name: "chunks",
        about: "Reads of 4 KiB of each of eight chunks on three nodes, as of one moment, one such read at a time, beside reads of \
                4 KiB of one chunk there.",
        contenders: &[
            Contender { label: "eight", work: Work::ManyChunks },
            Contender { label: "one", work: Work::OneChunk { nodes: 3 } },
        ],
        targets: || vec![target("p50 us", "eight", &["one"], Bound::AtMost(2.5))],
    },
];

/// The targets of one node, relative to one OSD.
const RADOS_BOUNDS: [(&str, Bound); 6] = [
    ("read MB/s", Bound::AtLeast(1.5)),
    ("write MB/s", Bound::AtLeast(1.5)),
    ("small read K op/s", Bound::AtLeast(8.0)),
    ("small write K op/s", Bound::AtLeast(8.0)),
    ("one read ms", Bound::AtMost(0.25)),
    ("one write ms", Bound::AtMost(0.25)),
];

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
