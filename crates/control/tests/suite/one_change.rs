//! An event that concerns a node takes a few changes of the map, however many groups it concerns.

use zerohop_control::command::ControlCommand;
use zerohop_placement::{ClusterMap, GroupState, KeyspaceConfig, NodeState, PartitionCount};
use zerohop_wire::ids::InstanceId;

use crate::support::nodes::{Nodes, Setting, SimulatedNodeEvent};

const SECOND: u64 = 1_000_000;
const FOREVER: u64 = 1 << 50;
/// One of four nodes; not the leader, which another test covers.
const VICTIM: usize = 3;

fn node_state(map: &ClusterMap, instance: InstanceId) -> NodeState {
    let node = map.instance(instance).and_then(|one| map.node(one.node)).expect("is in the map");
    node.state()
}

/// Every group has a primary that is up, and as many in-sync copies that are up as its keyspace
/// requires.
fn all_are_served(map: &ClusterMap) -> bool {
    map.keyspaces().all(|(_, found)| {
        found.groups().all(|(_, group)| {
            let is_up = |one: &InstanceId| node_state(map, *one) != NodeState::Down;
            let in_sync = group.in_sync.iter().filter(|one| is_up(one)).count() + 1;
            group.state != GroupState::Recovering
                && is_up(&group.primary)
                && in_sync >= usize::from(found.config().min_in_sync)
        })
    })
}

fn map_of(nodes: &Nodes) -> &ClusterMap {
    &nodes.machines[nodes.leader().expect("there is a leader")].map
}

/// Four nodes with 320 groups of three copies.
fn four_nodes(seed: u64) -> Nodes {
    let setting = Setting {
        managers: 3,
        others: 1,
        loss: 0,
        repeats: 0,
        late: 0,
        delay_max: 2_000,
        log_entries_max: 1024,
    };
    let mut nodes = Nodes::new(seed, setting);
    for at in 0..4 {
        nodes.at(at as u64 * 30_000, SimulatedNodeEvent::Start { at });
    }
    nodes.run(4 * SECOND);
    for (name, partitions) in [("papers", 256), ("letters", 64)] {
        let name = name.parse().expect("is a name");
        let partitions = PartitionCount::new(partitions).expect("is a power of two");
        let config = KeyspaceConfig { partitions, ..KeyspaceConfig::new(name, seed) };
        nodes.operate(0, ControlCommand::CreateKeyspace(config));
    }
    nodes.run(20 * SECOND);
    assert!(all_are_served(map_of(&nodes)));
    nodes
}

/// Runs until the condition is true; returns the number of map changes until then.
fn changes_until(nodes: &mut Nodes, what: &str, is_so: impl Fn(&Nodes) -> bool) -> u64 {
    let (epoch, began) = (map_of(nodes).epoch().get(), nodes.now);
    while !is_so(nodes) {
        assert!(nodes.now - began < 60 * SECOND, "{what}: not after a minute");
        let next = nodes.now + SECOND / 20;
        nodes.run(next);
        assert_eq!(nodes.checker.violations, Vec::<String>::new());
    }
    map_of(nodes).epoch().get() - epoch
}

fn is_victim_in(nodes: &Nodes, state: NodeState) -> bool {
    let number = nodes.machines[VICTIM].number.expect("has joined");
    map_of(nodes).node(number).is_some_and(|node| node.state() == state)
}

#[test]
fn node_loss_causes_few_map_changes_for_320_groups() {
    for seed in 1..4 {
        let mut nodes = four_nodes(seed);
        assert_ne!(nodes.leader(), Some(VICTIM));
        let victim = nodes.machines[VICTIM].number.expect("has joined");
        let on_victim = |nodes: &Nodes| {
            let map = map_of(nodes);
            let own = map.node(victim).expect("is in the map").instances();
            own.map(|instance| map.partitions_of(instance.id).count()).sum::<usize>()
        };
        assert!(on_victim(&nodes) > 200, "it holds 3 of 4 groups");
        nodes.crash(VICTIM, FOREVER);
        let lost = changes_until(&mut nodes, "lost", |nodes| {
            is_victim_in(nodes, NodeState::Down) && all_are_served(map_of(nodes))
        });
        assert!(lost <= 8, "seed {seed}: {lost} changes of the map until all groups are served");
        // Its copies are replaced on other nodes: a few steps for each group, 16 groups at a time,
        // in one change of each plan.
        let copied = changes_until(&mut nodes, "made again", |nodes| on_victim(nodes) == 0);
        assert!(copied <= 80, "seed {seed}: {copied} changes of the map until its copies are made again");
    }
}

#[test]
fn returning_node_needs_few_map_changes_for_320_groups() {
    let mut nodes = four_nodes(5);
    nodes.crash(VICTIM, 2 * SECOND);
    changes_until(&mut nodes, "lost", |nodes| is_victim_in(nodes, NodeState::Down));
    let back = changes_until(&mut nodes, "back", |nodes| {
        is_victim_in(nodes, NodeState::Up) && all_are_served(map_of(nodes))
    });
    assert!(back <= 8, "{back} changes of the map");
}
