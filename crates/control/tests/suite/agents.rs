//! Agents of managers and of other nodes form a cluster, and keep it through faults.

use std::collections::BTreeMap;

use zerohop_control::command::ControlCommand;
use zerohop_placement::{KeyspaceConfig, PartitionCount};

use crate::support::node_play::run_seed;
use crate::support::nodes::{Nodes, Setting, SimulatedNodeEvent};

const SECOND: u64 = 1_000_000;

const SEEDS: std::ops::Range<u64> = 0..12;

/// Events that a batch of seeds must contain: a simulation without faults would find nothing, and
/// pass silently.
const MUST_SEE: [&str; 9] = [
    "batches",
    "crashes",
    "cuts",
    "disks lost",
    "done",
    "logs chosen in doubt",
    "managers set",
    "refused by control",
    "restarts of all",
];

fn quiet(managers: usize, others: usize) -> Setting {
    Setting { managers, others, loss: 0, repeats: 0, late: 0, delay_max: 2_000, log_entries_max: 1024 }
}

fn started(seed: u64, setting: Setting) -> Nodes {
    let mut nodes = Nodes::new(seed, setting);
    for at in 0..nodes.machines.len() {
        nodes.at(at as u64 * 30_000, SimulatedNodeEvent::Start { at });
    }
    nodes
}

fn keyspace(name: &str, partitions: u32) -> ControlCommand {
    let partitions = PartitionCount::new(partitions).expect("is a power of two");
    ControlCommand::CreateKeyspace(KeyspaceConfig {
        partitions,
        ..KeyspaceConfig::new(name.parse().expect("is a name"), 7)
    })
}

/// All nodes have joined, and follow one map.
fn assert_formed(nodes: &Nodes) {
    assert_eq!(nodes.checker.violations, Vec::<String>::new());
    let leader = nodes.leader().expect("there is a leader");
    let newest = nodes.machines[leader].agent.as_ref().expect("runs").manager().expect("leads").map().clone();
    for (at, machine) in nodes.machines.iter().enumerate() {
        let agent = machine.agent.as_ref().expect("runs");
        assert!(agent.has_joined(), "node {at} has not joined");
        assert_eq!(agent.map(), &newest, "node {at}");
        assert_eq!(machine.map, newest, "instances of node {at}");
        let number = machine.number.expect("has a number");
        let node = newest.node(number).expect("is in the map");
        assert_eq!(node.incarnation(), machine.incarnation);
    }
}

#[test]
fn one_three_or_five_managers_form_a_cluster_with_other_nodes() {
    for (managers, others) in [(1, 0), (1, 3), (3, 0), (3, 4), (5, 2)] {
        let mut nodes = started(managers as u64, quiet(managers, others));
        nodes.run(4 * SECOND);
        assert_formed(&nodes);
        let token = nodes.operate(managers + others - 1, keyspace("papers", 16));
        nodes.run(6 * SECOND);
        assert_formed(&nodes);
        let outcome = nodes.checker.outcomes[&token].as_ref().expect("is answered");
        assert_eq!(outcome.result.as_ref().expect("is made").number, 1);
        let map = &nodes.machines[0].map;
        assert_eq!(map.nodes().len(), managers + others);
        assert!(map.keyspace_named("papers").is_some());
    }
}

#[test]
fn all_nodes_converge_to_one_map_after_any_faults() {
    let mut coverage: BTreeMap<&str, u64> = BTreeMap::new();
    let number = |name| std::env::var(name).ok().map(|number| number.parse::<u64>().expect("is a number"));
    let seeds = match (number("ZEROHOP_SEED"), number("ZEROHOP_SEEDS")) {
        (Some(seed), count) => seed..seed + count.unwrap_or(1),
        (None, Some(count)) => 0..count,
        (None, None) => SEEDS,
    };
    let count = seeds.end - seeds.start;
    for seed in seeds {
        let nodes = run_seed(seed);
        assert!(nodes.checker.violations.is_empty(), "seed {seed}: {:#?}", nodes.checker.violations);
        for (what, count) in &nodes.checker.coverage {
            *coverage.entry(what).or_default() += count;
        }
    }
    for what in MUST_SEE.iter().filter(|_| count >= SEEDS.end) {
        assert!(coverage.contains_key(what), "no seed has seen {what}: {coverage:?}");
    }
}

#[test]
fn a_seed_of_agents_replays_to_the_byte() {
    for seed in 0..4 {
        assert_eq!(run_seed(seed).digest, run_seed(seed).digest, "seed {seed}");
    }
}
