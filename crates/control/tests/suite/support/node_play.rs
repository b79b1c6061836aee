//! Nodes under faults, from one seed: lost, repeated and late messages, partitioned networks,
//! crashes with and without loss of disks, restarts of all nodes; an operator at random nodes; and
//! a final time without faults, after which all nodes must be well.

use zerohop_control::command::ControlCommand;
use zerohop_placement::{Durability, GroupState, KeyspaceConfig, NodeState, PartitionCount};

use super::nodes::{Nodes, Setting, SimulatedNodeEvent};
use super::random::Random;

const FAULT: u64 = 1;
const OPERATE: u64 = 2;
const HEAL: u64 = 3;
const RECOVER: u64 = 4;

/// Microseconds.
const FAULTS_BEGIN: u64 = 2_500_000;
const FAULTS_END: u64 = 14_000_000;
/// The time at which the operator accepts the loss of nodes that will not return.
const RECOVERED: u64 = 22_000_000;
const QUIET_END: u64 = 32_000_000;
/// The longest time that a node may need to follow a new map.
const FOLLOW_MAX: u64 = 3_000_000;

/// The kinds of faults in a run.
struct NodeFaultKinds {
    crashes: u64,
    disks: bool,
    all: bool,
    partitions: bool,
    lost_disks: bool,
}

pub(crate) fn run_seed(seed: u64) -> Nodes {
    let root = Random::new(seed);
    let mut draw = root.fork(21);
    let setting = Setting {
        managers: *draw.pick(&[1, 3, 3, 3, 5]),
        others: draw.below(4) as usize,
        loss: *draw.pick(&[0, 0, 20, 100]),
        repeats: *draw.pick(&[0, 30]),
        late: *draw.pick(&[0, 10]),
        delay_max: *draw.pick(&[500, 2_000, 20_000]),
        log_entries_max: *draw.pick(&[16, 64, 1024]),
    };
    let mut faults = NodeFaultKinds {
        crashes: *draw.pick(&[0, 300, 700]),
        disks: draw.chance(400),
        all: draw.chance(400),
        partitions: draw.chance(600),
        lost_disks: false,
    };
    let mut work = root.fork(22);
    let mut nodes = Nodes::new(seed, setting);
    nodes.faults_end = FAULTS_END;
    for at in 0..nodes.machines.len() {
        let start = work.below(600_000);
        nodes.at(start, SimulatedNodeEvent::Start { at });
    }
    nodes.at(1_500_000, SimulatedNodeEvent::Other(OPERATE));
    nodes.at(FAULTS_BEGIN, SimulatedNodeEvent::Other(FAULT));
    nodes.at(FAULTS_END, SimulatedNodeEvent::Other(HEAL));
    nodes.at(RECOVERED, SimulatedNodeEvent::Other(RECOVER));
    while let Some(what) = nodes.run(QUIET_END) {
        match what {
            FAULT => fault(&mut nodes, &mut faults),
            OPERATE => operate(&mut nodes, &mut work),
            HEAL => {
                nodes.network_cuts.clear();
                for at in 0..nodes.machines.len() {
                    nodes.at(nodes.now + 1, SimulatedNodeEvent::Start { at });
                }
            }
            _ => recover(&mut nodes, &mut work),
        }
    }
    let until = nodes.now + FOLLOW_MAX;
    while nodes.now < until && nodes.checker.violations.is_empty() && finish(&nodes).is_some() {
        let next = nodes.now + 50_000;
        while nodes.run(next).is_some() {}
    }
    let managers = nodes.machines.iter().filter_map(|machine| machine.agent.as_ref()?.manager());
    if managers.map(|manager| manager.counters().batches).sum::<u64>() > 0 {
        nodes.checker.saw("batches");
    }
    if nodes.checker.violations.is_empty()
        && let Some(what) = finish(&nodes)
    {
        nodes.checker.violation(what);
    }
    nodes
}

fn fault(nodes: &mut Nodes, faults: &mut NodeFaultKinds) {
    let count = nodes.machines.len();
    let at = nodes.faults.below(count as u64) as usize;
    let next = nodes.now + nodes.faults.below(700_000);
    if next < FAULTS_END {
        nodes.at(next, SimulatedNodeEvent::Other(FAULT));
    }
    let down = 1 + nodes.faults.below(2_000_000);
    match nodes.faults.below(5) {
        0 | 1 if nodes.faults.chance(faults.crashes) => {
            nodes.checker.saw("crashes");
            // Sometimes it is the leader.
            let at = nodes.leader().filter(|_| down.is_multiple_of(3)).unwrap_or(at);
            nodes.crash(at, down);
        }
        2 if faults.disks && !faults.lost_disks && (nodes.setting.managers > 1 || at > 0) => {
            nodes.checker.saw("disks lost");
            faults.lost_disks = true;
            nodes.crash(at, down);
            nodes.lose_disks(at);
        }
        3 if faults.all && nodes.faults.chance(200) => {
            nodes.checker.saw("restarts of all");
            for at in 0..count {
                let down = 1 + nodes.faults.below(300_000);
                nodes.crash(at, down);
            }
        }
        4 if faults.partitions => {
            nodes.checker.saw("cuts");
            let until = nodes.now + nodes.faults.below(3_000_000);
            let one_way = nodes.faults.chance(300);
            for other in (0..count).filter(|other| *other != at) {
                if nodes.faults.chance(800) {
                    nodes.network_cuts.insert((at, other), until);
                    if !one_way {
                        nodes.network_cuts.insert((other, at), until);
                    }
                }
            }
        }
        _ => {}
    }
}

fn operate(nodes: &mut Nodes, work: &mut Random) {
    let next = nodes.now + 50_000 + work.below(800_000);
    if next < FAULTS_END + 4_000_000 {
        nodes.at(next, SimulatedNodeEvent::Other(OPERATE));
    }
    let at = work.below(nodes.machines.len() as u64) as usize;
    let Some(map) = nodes.machines[at].agent.as_ref().map(|agent| agent.map().clone()) else { return };
    let known: Vec<_> =
        nodes.machines[at].agent.as_ref().map(|one| one.managers().to_vec()).unwrap_or_default();
    let managers = nodes.managers();
    let command = if !known.is_empty() && known != managers && work.chance(700) {
        nodes.checker.saw("managers set");
        ControlCommand::SetManagers(managers)
    } else if map.keyspaces().len() < 3 && map.nodes().len() > 0 {
        let durability = if work.chance(300) { Durability::Sync } else { Durability::Interval { ms: 100 } };
        let name = format!("keyspace-{}", work.below(1 << 30)).parse().expect("is a name");
        let partitions = PartitionCount::new(1 << (2 + work.below(3))).expect("is a power of two");
        let config = KeyspaceConfig::new(name, work.next());
        ControlCommand::CreateKeyspace(
            KeyspaceConfig { partitions, durability, ..config }.fitted_to(map.nodes().len()),
        )
    } else {
        let Some(node) = map.nodes().nth(work.below(map.nodes().len().max(1) as u64) as usize) else {
            return;
        };
        let state = if work.chance(300) { NodeState::Draining } else { NodeState::Up };
        ControlCommand::SetNodeState { node: node.id(), incarnation: node.incarnation(), state }
    };
    nodes.operate(at, command);
}

/// For groups that still recover when all nodes that return are back, the operator accepts the
/// loss.
fn recover(nodes: &mut Nodes, work: &mut Random) {
    let Some(leader) = nodes.leader() else { return };
    let map = nodes.machines[leader].map.clone();
    for (keyspace, found) in map.keyspaces() {
        for (partition, group) in found.groups().filter(|(_, group)| group.state == GroupState::Recovering) {
            nodes.checker.saw("given up");
            let _ = group;
            let at = work.below(nodes.machines.len() as u64) as usize;
            nodes.operate(at, ControlCommand::Recover { keyspace, partition, damaged: None });
        }
    }
}

/// After a time without faults: the first problem that is left.
fn finish(nodes: &Nodes) -> Option<String> {
    let leader = nodes.leader().and_then(|at| nodes.machines[at].agent.as_ref()?.manager());
    let Some(leader) = leader else { return Some("there is no leader at the end".to_owned()) };
    let newest = leader.map();
    for (at, machine) in nodes.machines.iter().enumerate() {
        let Some(agent) = machine.agent.as_ref() else { return Some(format!("node {at} does not run")) };
        if !agent.has_joined() {
            return Some(format!("node {at} has not joined"));
        }
        if agent.map() != newest || machine.map != *newest {
            let (has, epoch) = (agent.map().epoch(), newest.epoch());
            return Some(format!("node {at} is at epoch {has}, and the leader at {epoch}"));
        }
        let number = machine.number.and_then(|number| newest.node(number));
        match number {
            Some(node) if node.incarnation() == machine.incarnation && node.state() != NodeState::Down => {}
            _ => return Some(format!("node {at} is not up in the map")),
        }
    }
    let is_here = |incarnation| nodes.machines.iter().any(|machine| machine.incarnation == incarnation);
    for node in newest.nodes().filter(|node| node.state() != NodeState::Down) {
        if !is_here(node.incarnation()) {
            return Some(format!("node {} is gone, and still up in the map", node.id()));
        }
    }
    for (keyspace, found) in newest.keyspaces() {
        for (partition, group) in found.groups().filter(|(_, group)| group.state == GroupState::Recovering) {
            let is_up = |instance| newest.instance(instance).is_some_and(|one| is_here(one.incarnation));
            if group.members().any(is_up) {
                return Some(format!("partition {partition} of {keyspace} recovers still: {group:?}"));
            }
        }
    }
    match nodes.checker.unanswered() {
        0 => None,
        waiting => Some(format!("{waiting} operators wait for an answer")),
    }
}
