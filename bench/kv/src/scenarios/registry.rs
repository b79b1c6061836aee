//! All scenarios, in the order of the report.

use bench_common::reading::{Bound, Target};

use super::{Contender, Scenario};
use crate::subjects::Subject;
use crate::work::client::ClientUse;
use crate::work::{OPERATIONS, Work};

/// In memory, like memcached and redis without snapshots; 256 is a keyspace's default partition
/// count.
const MEMORY: Subject = Subject::Zerohop { durability: "memory", partitions: 256 };
const REDIS: Subject = Subject::Redis { syncs: false };

/// All scenarios, in the order of the report.
pub(crate) const REGISTRY: &[Scenario] = &[
    Scenario {
        name: "loop-1",
        about: "Closed loop: one connection with one request outstanding.",
        contenders: &beside(1, 1, 4_000),
        targets: || loop_targets(1.0),
    },
    Scenario {
        name: "loop-8",
        about: "Closed loop: eight connections with one request outstanding each.",
        contenders: &beside(8, 1, 12_000),
        targets: || loop_targets(1.1),
    },
    Scenario {
        name: "loop-32",
        about: "Closed loop: 32 connections with one request outstanding each.",
        contenders: &beside(32, 1, 12_000),
        targets: || loop_targets(1.1),
    },
    Scenario {
        name: "deep",
        about: "32 connections with 32 requests outstanding each.",
        contenders: &beside(32, 32, 100_000),
        targets: deep_targets,
    },
    Scenario {
        name: "sync",
        about: "Every write on disk before it is answered; 32 connections with one request outstanding each. \
                Zerohop: a sync keyspace of 256 partitions; redis: appendfsync always.",
        contenders: &[
            Contender {
                label: "zerohop",
                subject: Subject::Zerohop { durability: "sync", partitions: 256 },
                work: SYNC,
            },
            Contender { label: "redis", subject: Subject::Redis { syncs: true }, work: SYNC },
        ],
        targets: || {
            let over = |op: &&str| at_least(format!("{op} K op/s"), "zerohop", &["redis"], 1.5);
            ["insert", "remove"].iter().map(over).collect()
        },
    },
    Scenario {
        name: "interval",
        about: "What writing to disk behind the answers costs: 32 connections with 32 requests outstanding each, a \
                keyspace that is flushed every 100 ms beside one that never is.",
        contenders: &[
            Contender { label: "memory", subject: MEMORY, work: DEEP },
            Contender {
                label: "interval",
                subject: Subject::Zerohop { durability: "interval:100ms", partitions: 256 },
                work: DEEP,
            },
        ],
        targets: || {
            let bound = Bound::AtMost(1.1);
            vec![Target { figure: "server CPU us/op".into(), of: "interval", over: &["memory"], bound }]
        },
    },
    Scenario {
        name: "partitions",
        about: "Closed loop, one connection: a keyspace of one partition beside one of 1024.",
        contenders: &[
            Contender {
                label: "1",
                subject: Subject::Zerohop { durability: "memory", partitions: 1 },
                work: LOOP,
            },
            Contender {
                label: "1024",
                subject: Subject::Zerohop { durability: "memory", partitions: 1024 },
                work: LOOP,
            },
        ],
        targets: || {
            let bound = Bound::AtMost(1.06);
            let over =
                |op: &&str| Target { figure: format!("{op} mean us"), of: "1024", over: &["1"], bound };
            OPERATIONS.iter().map(|(_, name)| over(name)).collect()
        },
    },
    Scenario {
        name: "batching",
        about: "The Rust client, inserts: one at a time, 1024 at a time each in a frame of its own, and 1024 at a time \
                collected for up to 1 ms; on a node and on the bare store.",
        contenders: &[
            Contender { label: "one", subject: MEMORY, work: Work::Client(ClientUse::OneByOne) },
            Contender { label: "many", subject: MEMORY, work: Work::Client(ClientUse::Many) },
            Contender { label: "1 ms", subject: MEMORY, work: Work::Client(ClientUse::Collected) },
            Contender { label: "bare, one", subject: Subject::Bare, work: Work::Client(ClientUse::OneByOne) },
            Contender { label: "bare, many", subject: Subject::Bare, work: Work::Client(ClientUse::Many) },
            Contender {
                label: "bare, 1 ms",
                subject: Subject::Bare,
                work: Work::Client(ClientUse::Collected),
            },
        ],
        targets: || vec![at_least("insert K op/s".into(), "1 ms", &["one"], 5.0)],
    },
    Scenario {
        name: "idle",
        about: "A server without load: from its start to its first answer, its resident memory a second later, its \
                program (what of its file is loaded, and the file with what a debugger needs), and its processor time \
                when idle.",
        contenders: &[
            Contender { label: "zerohop", subject: MEMORY, work: Work::Idle },
            Contender { label: "bare", subject: Subject::Bare, work: Work::Idle },
            Contender { label: "redis", subject: REDIS, work: Work::Idle },
            Contender { label: "memcached", subject: Subject::Memcached, work: Work::Idle },
        ],
        targets: || {
            let at_most = |(figure, bound): &(&str, f64)| Target {
                figure: (*figure).into(),
                of: "zerohop",
                over: &[],
                bound: Bound::AtMost(*bound),
            };
            [("ready after ms", 100.0), ("resident MiB", 16.0), ("program MiB", 20.0)]
                .iter()
                .map(at_most)
                .collect()
        },
    },
];

const LOOP: Work = Work::Load { connections: 1, depth: 1, chunk: 4_000 };
const DEEP: Work = Work::Load { connections: 32, depth: 32, chunk: 100_000 };
const SYNC: Work = Work::Load { connections: 32, depth: 1, chunk: 8_000 };

const fn beside(connections: usize, depth: usize, chunk: usize) -> [Contender; 4] {
    let work = Work::Load { connections, depth, chunk };
    [
        Contender { label: "zerohop", subject: MEMORY, work },
        Contender { label: "bare", subject: Subject::Bare, work },
        Contender { label: "redis", subject: REDIS, work },
        Contender { label: "memcached", subject: Subject::Memcached, work },
    ]
}

fn loop_targets(over_peers: f64) -> Vec<Target> {
    let of_operation = |(_, op): &(_, &str)| {
        let figure = format!("{op} K op/s");
        [
            at_least(figure.clone(), "zerohop", &["redis", "memcached"], over_peers),
            at_least(figure, "zerohop", &["bare"], 0.9),
        ]
    };
    OPERATIONS.iter().flat_map(of_operation).collect()
}

fn deep_targets() -> Vec<Target> {
    let mut targets = vec![
        at_least("insert K op/s".into(), "zerohop", &["redis"], 2.5),
        at_least("lookup K op/s".into(), "zerohop", &["redis"], 2.0),
    ];
    for (_, op) in OPERATIONS {
        targets.push(at_least(format!("{op} K op/s"), "zerohop", &["bare"], 0.7));
        let (figure, bound) = (format!("{op} server CPU us/op"), Bound::AtMost(0.75));
        targets.push(Target { figure, of: "zerohop", over: &[], bound });
    }
    targets
}

fn at_least(figure: String, of: &'static str, over: &'static [&'static str], bound: f64) -> Target {
    Target { figure, of, over, bound: Bound::AtLeast(bound) }
}
