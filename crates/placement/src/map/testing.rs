//! Random, valid sequences of deltas for tests.

use proptest::prelude::*;
use zerohop_wire::ids::{Incarnation, InstanceId, KeyspaceId, MapEpoch, NodeId, PartitionEpoch};

use super::{
    Address, ClusterMap, Grant, GroupState, Groups, Keyspace, MapChange, MapDelta, Node, NodeState,
    PendingSplit, Permissions, ReplicaGroup, Ring, TokenEntry,
};
use crate::hash::HashKind;
use crate::keyspace::{Durability, KeyOrder, KeyspaceConfig};
use crate::limits::PLACED_PARTITIONS_MIN;
use crate::partitions::PartitionCount;
use crate::separators::Separators;

/// A node with addresses of the usual form.
pub(crate) fn node(id: u32, first_instance: u32, instances: u16) -> Node {
    let address = |port: u16| Address::new(&format!("10.0.{}.{}:{port}", id / 256, id % 256)).unwrap();
    Node {
        id: NodeId(id),
        state: NodeState::Up,
        incarnation: Incarnation(u64::from(id) + 1_000_000),
        manager: address(7400),
        first_instance: InstanceId(first_instance),
        instances: (0..instances).map(|n| address(7401 + n)).collect(),
    }
}

/// The next change; numbers are taken modulo the number of objects.
#[derive(Clone, Debug)]
pub(crate) enum TestStep {
    Join { instances: u16 },
    Restart { node: usize },
    State { node: usize, state: usize },
    Leave { node: usize },
    Create { bits: u32, hash: usize, seed: u64, durability: u32 },
    Alter { keyspace: usize, replicas: u8 },
    Drop { keyspace: usize },
    Close { keyspace: usize },
    Regroup { keyspace: usize, partition: u32, members: Vec<u32>, in_sync: usize, state: usize },
    Split { keyspace: usize },
    BeginSplit { keyspace: usize },
    CancelSplit { keyspace: usize },
    Token { keyspace: usize, bits: u8, until: Option<u64> },
    Expire,
    Revoke,
    CreatePlaced { ring: bool, step: u32, turn: u32, members: (u8, u8) },
}

pub(crate) fn steps() -> impl Strategy<Value = Vec<TestStep>> {
    let step = prop_oneof![
        2 => (1u16..5).prop_map(|instances| TestStep::Join { instances }),
        1 => any::<usize>().prop_map(|node| TestStep::Restart { node }),
        1 => (any::<usize>(), 0usize..3).prop_map(|(node, state)| TestStep::State { node, state }),
        1 => any::<usize>().prop_map(|node| TestStep::Leave { node }),
        2 => (0u32..6, 0usize..=HashKind::ALL.len(), any::<u64>(), 0u32..100)
            .prop_map(|(bits, hash, seed, durability)| TestStep::Create { bits, hash, seed, durability }),
        1 => (any::<usize>(), 1u8..=8).prop_map(|(keyspace, replicas)| TestStep::Alter { keyspace, replicas }),
        1 => any::<usize>().prop_map(|keyspace| TestStep::Drop { keyspace }),
        1 => any::<usize>().prop_map(|keyspace| TestStep::Close { keyspace }),
        8 => (any::<usize>(), any::<u32>(), prop::collection::vec(any::<u32>(), 1..6), any::<usize>(), 0usize..6)
            .prop_map(|(keyspace, partition, members, in_sync, state)| {
                TestStep::Regroup { keyspace, partition, members, in_sync, state }
            }),
        1 => any::<usize>().prop_map(|keyspace| TestStep::Split { keyspace }),
        1 => any::<usize>().prop_map(|keyspace| TestStep::BeginSplit { keyspace }),
        1 => any::<usize>().prop_map(|keyspace| TestStep::CancelSplit { keyspace }),
        1 => (any::<usize>(), 1u8..8, any::<Option<u64>>())
            .prop_map(|(keyspace, bits, until)| TestStep::Token { keyspace, bits, until }),
        1 => Just(TestStep::Expire),
        1 => Just(TestStep::Revoke),
        1 => (any::<bool>(), 1u32..5, 0u32..5, (0u8..3, 0u8..3))
            .prop_map(|(ring, step, turn, members)| TestStep::CreatePlaced { ring, step, turn, members }),
    ];
    prop::collection::vec(step, 0..30)
}

/// Some separators, or none.
fn separators(seed: u64, bits: u32) -> Separators {
    let key = |n: u32| [&n.to_be_bytes()[3..], &seed.to_le_bytes()[..n as usize % 8]].concat();
    Separators::new((1..1 << bits).map(key)).unwrap()
}

/// The maps after each of the steps, from one node on, and the deltas between them. Impossible steps are left out.
pub(crate) fn history(steps: &[TestStep]) -> (Vec<ClusterMap>, Vec<MapDelta>) {
    let mut maps = vec![ClusterMap::of_one_node(node(1, 10, 2), 5).unwrap()];
    let mut deltas = Vec::new();
    for (number, step) in (100u32..).zip(steps) {
        let map = maps.last().unwrap();
        let Some(changes) = changes(map, number, step) else { continue };
        let to = MapEpoch(map.epoch().get() + 1 + u64::from(number % 3));
        let delta = MapDelta { from: map.epoch(), to, changes };
        let next = map.apply(&delta).unwrap();
        maps.push(next);
        deltas.push(delta);
    }
    (maps, deltas)
}

/// A split of a hashed keyspace, or of the last region of an ordered one.
fn possible_split(keyspace: &Keyspace) -> Option<PendingSplit> {
    match keyspace.config().order {
        KeyOrder::Hashed => (keyspace.config().partitions.get() < 256).then_some(PendingSplit::Keyspace),
        KeyOrder::Ordered => {
            let (region, _) = keyspace.groups().last()?;
            let (begin, _) = keyspace.division().bounds(region)?;
            let separator: Box<[u8]> = [begin, b"~"].concat().into();
            (separator.len() <= 256).then_some(PendingSplit::Region { region, separator, share: 3 })
        }
    }
}

fn changes(map: &ClusterMap, number: u32, step: &TestStep) -> Option<Vec<MapChange>> {
    let some_node = |at: usize| map.nodes().nth(at % map.nodes().len()).map(|node| node.to_node());
    let some_keyspace = |at: usize| map.keyspaces().nth(at % map.keyspaces().len().max(1));
    let instances: Vec<InstanceId> =
        map.nodes().flat_map(|node| node.instances().map(|instance| instance.id)).collect();
    match step {
        TestStep::Token { keyspace, bits, until } => {
            let keyspace = some_keyspace(*keyspace).map_or(KeyspaceId::NONE, |(id, _)| id);
            let permissions = Permissions::from_bits(*bits)?;
            let name = format!("token-{number}").parse().unwrap();
            let put = TokenEntry::new(u64::from(number), name, vec![Grant { keyspace, permissions }])?;
            let put = until.map_or(put.clone(), |until| put.until(until));
            Some(vec![MapChange::PutToken(put)])
        }
        TestStep::Expire => Some(vec![MapChange::PutToken(map.tokens().next()?.clone().expired())]),
        TestStep::Revoke => Some(vec![MapChange::RemoveToken(map.tokens().next()?.id)]),
        TestStep::Join { instances } => Some(vec![MapChange::PutNode(node(number, number * 10, *instances))]),
        TestStep::Restart { node } => {
            let mut node = some_node(*node)?;
            node.incarnation = Incarnation(node.incarnation.get() + 1);
            let own: Vec<InstanceId> = map.node(node.id)?.instances().map(|instance| instance.id).collect();
            let regrouped = own.iter().flat_map(|instance| map.partitions_of(*instance)).map(
                |(keyspace, partition, group)| {
                    let mut group = group.to_group();
                    group.epoch = group.epoch.next();
                    MapChange::SetGroup { keyspace, partition, group }
                },
            );
            let mut changes = vec![MapChange::PutNode(node)];
            changes.extend(regrouped);
            // A group with two of the node's instances needs only one decision.
            let mut seen = std::collections::BTreeSet::new();
            changes.retain(|change| match change {
                MapChange::SetGroup { keyspace, partition, .. } => seen.insert((*keyspace, *partition)),
                _ => true,
            });
            Some(changes)
        }
        TestStep::State { node, state } => {
            let node = some_node(*node)?;
            Some(vec![MapChange::PutNode(Node { state: NodeState::ALL[*state], ..node })])
        }
        TestStep::Leave { node } => {
            let node = map.nodes().nth(node % map.nodes().len())?;
            let idle = node.instances().all(|instance| map.partitions_of(instance.id).next().is_none());
            (idle && map.nodes().len() > 1).then(|| vec![MapChange::RemoveNode(node.id())])
        }
        TestStep::Create { bits, hash, seed, durability } => {
            let name = format!("keyspace-{number}").parse().unwrap();
            let mut config = KeyspaceConfig::new(name, *seed);
            config.partitions = PartitionCount::new(1 << bits).unwrap();
            match HashKind::ALL.get(*hash) {
                Some(hash) => config.hash = *hash,
                None => config = config.divided_at(separators(*seed, *bits)),
            }
            config.durability = match durability {
                0 => Durability::Memory,
                1 => Durability::Sync,
                ms => Durability::Interval { ms: *ms },
            };
            let groups = ReplicaGroup::spread(&config, &some_node(number as usize)?);
            Some(vec![MapChange::CreateKeyspace { id: KeyspaceId(number), config, groups: groups.into() }])
        }
        TestStep::CreatePlaced { ring, step, turn, members: (in_sync, followers) } => {
            let mut config = KeyspaceConfig::new(format!("placed-{number}").parse().unwrap(), 7);
            config.partitions = PartitionCount::new(PLACED_PARTITIONS_MIN).unwrap();
            let node = some_node(number as usize)?;
            let (first, count) = (node.first_instance, node.instances.len() as u32);
            let of_ring = Ring { first, count, step: *step, first_position: *turn, splits: 0 };
            let mut groups = Groups::in_ring(of_ring, PLACED_PARTITIONS_MIN, *in_sync, *followers)?;
            if !ring {
                groups = groups.iter().collect();
            }
            Some(vec![MapChange::CreateKeyspace { id: KeyspaceId(number), config, groups }])
        }
        TestStep::Alter { keyspace, replicas } => {
            let (id, keyspace) = some_keyspace(*keyspace)?;
            let mut config =
                KeyspaceConfig { replicas: *replicas, min_in_sync: 1, ..keyspace.config().clone() };
            if config.order == KeyOrder::Ordered && replicas % 2 == 0 {
                config = config.ordered();
            }
            Some(vec![MapChange::AlterKeyspace { id, config }])
        }
        TestStep::Drop { keyspace } => Some(vec![MapChange::DropKeyspace(some_keyspace(*keyspace)?.0)]),
        TestStep::Close { keyspace } => Some(vec![MapChange::BeginDropKeyspace(some_keyspace(*keyspace)?.0)]),
        TestStep::Split { keyspace } => {
            let (id, keyspace) = some_keyspace(*keyspace)?;
            Some(vec![possible_split(keyspace)?.into_change(id)])
        }
        TestStep::BeginSplit { keyspace } => {
            let (keyspace, found) = some_keyspace(*keyspace)?;
            let is_free = found.pending_split().is_none() && !found.is_dropping();
            let split = possible_split(found).filter(|_| is_free)?;
            Some(vec![MapChange::BeginSplit { keyspace, split }])
        }
        TestStep::CancelSplit { keyspace } => {
            let (id, found) = some_keyspace(*keyspace)?;
            found.pending_split().map(|_| vec![MapChange::CancelSplit(id)])
        }
        TestStep::Regroup { keyspace, partition, members, in_sync, state } => {
            let (id, keyspace) = some_keyspace(*keyspace)?;
            let partition = keyspace.division().at(partition % keyspace.config().partitions.get());
            let mut chosen: Vec<InstanceId> = Vec::new();
            for member in members {
                let instance = instances[*member as usize % instances.len()];
                if !chosen.contains(&instance) {
                    chosen.push(instance);
                }
            }
            let others = chosen.split_off(1);
            let (in_sync, followers) = others.split_at(in_sync % (others.len() + 1));
            let group = ReplicaGroup {
                epoch: PartitionEpoch(keyspace.group(partition)?.epoch.get() + 1),
                primary: chosen[0],
                in_sync: in_sync.to_vec(),
                followers: followers.to_vec(),
                state: match state {
                    0 if !followers.is_empty() => GroupState::Admitting,
                    1 => GroupState::Recovering,
                    _ => GroupState::Stable,
                },
            };
            Some(vec![MapChange::SetGroup { keyspace: id, partition, group }])
        }
    }
}
