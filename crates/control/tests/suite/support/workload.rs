//! The commands of clients: all kinds, valid and invalid.

use zerohop_control::command::{
    ControlCommand, GroupStep, JoinNode, LogEnd, LogIndexReport, LogReport, Regroup, RegroupOrigin,
};
use zerohop_control::state::ControlState;
use zerohop_placement::{
    Address, Durability, GroupState, HashKind, KeyspaceConfig, KeyspaceName, NodeState, PartitionCount,
};
use zerohop_wire::ids::{Incarnation, InstanceId, KeyspaceId, LogIndex, NodeId, PartitionEpoch, PartitionId};

use super::random::Random;

const NODES: usize = 6;
const KEYSPACES: usize = 3;

/// Draws a command from a state that may be old.
pub(crate) fn draw(state: &ControlState, number: u64, random: &mut Random) -> ControlCommand {
    let map = state.map();
    let nodes: Vec<NodeId> = map.nodes().map(|node| node.id()).collect();
    if nodes.len() < 3 || (nodes.len() < NODES && random.chance(100)) {
        return ControlCommand::Join(join(None, Incarnation(0), number, random));
    }
    let keyspaces: Vec<KeyspaceId> = map.keyspaces().map(|(id, _)| id).collect();
    if keyspaces.is_empty() || (keyspaces.len() < KEYSPACES && random.chance(50)) {
        return ControlCommand::CreateKeyspace(config(number, random));
    }
    let node = map.node(*random.pick(&nodes)).expect("is in the map");
    let (id, incarnation) = (node.id(), node.incarnation());
    match random.below(100) {
        0..10 => ControlCommand::SetNodeState { node: id, incarnation, state: NodeState::Down },
        10..22 => ControlCommand::SetNodeState { node: id, incarnation, state: NodeState::Up },
        22..24 => ControlCommand::SetNodeState { node: id, incarnation, state: NodeState::Draining },
        24..34 => ControlCommand::Join(join(Some(id), incarnation, number, random)),
        34..36 => ControlCommand::SplitKeyspace(*random.pick(&keyspaces)),
        36..37 => ControlCommand::DropKeyspace(*random.pick(&keyspaces)),
        37..38 => ControlCommand::RemoveNode(id),
        38..55 if !state.recoveries().is_empty() => log_reports(state, id, incarnation, random),
        55..58 if !state.recoveries().is_empty() => {
            let (keyspace, partition) = *state.recoveries().keys().next().expect("is one");
            ControlCommand::Recover { keyspace, partition, damaged: None }
        }
        _ => regroup(state, *random.pick(&keyspaces), random),
    }
}

fn join(node: Option<NodeId>, replaces: Incarnation, number: u64, random: &mut Random) -> JoinNode {
    let address = |port: u64| Address::new(&format!("node-{number}:{port}")).expect("is an address");
    JoinNode {
        node,
        replaces,
        incarnation: Incarnation(random.next() | 1),
        manager: address(7400),
        instances: vec![address(7401), address(7402)],
        domain: random.below(3) as u32,
        capacity: 1 + random.below(3) as u32,
        intact: random.chance(700),
        closed: random.chance(300),
    }
}

fn config(number: u64, random: &mut Random) -> KeyspaceConfig {
    let name = KeyspaceName::new(&format!("keyspace-{number}")).expect("is a name");
    KeyspaceConfig {
        partitions: PartitionCount::new(1 << random.below(4)).expect("is a power of two"),
        hash: HashKind::Xxh3,
        durability: if random.chance(300) { Durability::Sync } else { Durability::Interval { ms: 100 } },
        ..KeyspaceConfig::new(name, random.next())
    }
}

/// A change of a group: mostly a valid one, sometimes from the wrong sender, for the wrong target,
/// or of an old epoch.
fn regroup(state: &ControlState, keyspace: KeyspaceId, random: &mut Random) -> ControlCommand {
    let map = state.map();
    let found = map.keyspace(keyspace).expect("is in the map");
    let partition = PartitionId(random.below(u64::from(found.config().partitions.get())) as u32);
    let group = found.group(partition).expect("is in the keyspace").to_group();
    let instances: Vec<InstanceId> =
        map.nodes().flat_map(|node| node.instances().map(|instance| instance.id)).collect();
    let instance = *random.pick(&instances);
    let one = |of: &[InstanceId], random: &mut Random| match of {
        [] => instance,
        of if random.chance(900) => *random.pick(of),
        _ => instance,
    };
    let (in_sync, follower) = (one(&group.in_sync, random), one(&group.followers, random));
    let step = match random.below(11) {
        0..2 => GroupStep::Admit(follower),
        2 => GroupStep::Exclude(in_sync),
        3 => GroupStep::AddFollower { instance, target: random.chance(500) },
        4 => GroupStep::RemoveFollower(follower),
        5 => GroupStep::Promote(in_sync),
        6 => GroupStep::Promote(follower),
        7 => GroupStep::Demote(in_sync),
        8 => GroupStep::Leave(in_sync),
        9 => GroupStep::Exclude(group.primary),
        _ => GroupStep::RaiseEpoch,
    };
    let primarys = matches!(step, GroupStep::Admit(_) | GroupStep::Exclude(_) | GroupStep::RaiseEpoch);
    let by = if primarys != random.chance(50) {
        let incarnation = map.instance(group.primary).expect("is in the map").incarnation;
        RegroupOrigin::Instance(group.primary, incarnation)
    } else {
        RegroupOrigin::Control
    };
    let epoch = if random.chance(100) { group.epoch.get().saturating_sub(1) } else { group.epoch.get() };
    ControlCommand::Regroup(Regroup { keyspace, partition, epoch: PartitionEpoch(epoch), by, step })
}

/// The log ends that a node would report.
fn log_reports(
    state: &ControlState,
    node: NodeId,
    incarnation: Incarnation,
    random: &mut Random,
) -> ControlCommand {
    let map = state.map();
    let own: Vec<InstanceId> =
        map.node(node).expect("is in the map").instances().map(|instance| instance.id).collect();
    let mut logs = Vec::new();
    for (keyspace, partition) in state.recoveries().keys().copied() {
        let Some(group) = map.keyspace(keyspace).and_then(|keyspace| keyspace.group(partition)) else {
            continue;
        };
        if group.state != GroupState::Recovering {
            continue;
        }
        for instance in group.members().filter(|member| own.contains(member)) {
            let end = LogEnd { epoch: 1, index: LogIndex(random.below(100)) };
            let intact = random.chance(800);
            logs.push(LogReport { keyspace, partition, epoch: group.epoch, instance, end, intact });
        }
    }
    ControlCommand::ReportLogs(LogIndexReport { node, incarnation, logs })
}
