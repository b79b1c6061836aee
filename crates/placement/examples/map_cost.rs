//! What a large cluster map costs: memory, the bytes that travel, and the time to apply a delta. It has a million nodes
//! and 1, 4 and 16 million partitions of three replicas. Their groups are given by a ring, or must be listed. `cargo
//! run --release -p zerohop-placement --example map_cost`
//!
//! The bounds of maps that travel (65,536 nodes, 16 MiB) are lifted for it.

#![allow(clippy::print_stdout, reason = "a program that prints figures")]
#![allow(clippy::disallowed_methods, reason = "it measures time")]

use std::time::Instant;

use zerohop_placement::limits::PARTITIONS_MAX;
use zerohop_placement::map::MapBounds;
use zerohop_placement::{
    Address, ClusterMap, Groups, KeyspaceConfig, MapChange, MapDelta, Node, NodeState, PartitionCount,
    ReplicaGroup, Ring,
};
use zerohop_wire::ids::{Incarnation, InstanceId, KeyspaceId, NodeId, PartitionEpoch, PartitionId};

type Failure = Box<dyn std::error::Error>;

const NODES: u32 = 1_000_000;
const REPLICAS: u32 = 3;
/// Makes a keyspace.
type Create = fn(u32) -> Result<MapChange, Failure>;
/// What happens, and the changes that it makes.
type Case = (&'static str, Vec<MapChange>);

const MEBI: f64 = (1 << 20) as f64;

fn main() -> Result<(), Failure> {
    let empty = next(&ClusterMap::default(), nodes()?)?.0;
    let (nodes, addresses, _) = empty.memory_bytes();
    println!(
        "nodes               {NODES}: {:.1} bytes each and {:.1} of addresses",
        nodes as f64 / f64::from(NODES),
        addresses as f64 / f64::from(NODES)
    );
    for (how, create) in [("in a ring", in_ring as Create), ("in rows", in_rows)] {
        measure(how, &empty, create)?;
    }
    Ok(())
}

/// Keyspaces with groups made in one way, up to 16 Mi partitions.
fn measure(how: &str, empty: &ClusterMap, create: Create) -> Result<(), Failure> {
    let (mut map, mut keyspaces) = (empty.clone(), 0);
    let of_nodes = empty.encode().len();
    for millions in [1_u64, 4, 16] {
        let until = ((millions << 20) / u64::from(PARTITIONS_MAX)) as u32;
        let changes = (keyspaces + 1..=until).map(create).collect::<Result<_, _>>()?;
        (map, keyspaces) = (next(&map, changes)?.0, until);
        let partitions = f64::from(keyspaces) * f64::from(PARTITIONS_MAX);
        let groups = map.memory_bytes().2;
        println!("\npartitions          {millions} Mi in {keyspaces} keyspaces, {how}");
        println!(
            "  memory            {:.2} MiB: {:.2} bytes a partition of {REPLICAS} replicas",
            groups as f64 / MEBI,
            groups as f64 / partitions
        );
        println!("  encoded           {:.3} MiB", (map.encode().len() - of_nodes) as f64 / MEBI);
        for (what, changes) in deltas(&map)? {
            let mut times: Vec<f64> = Vec::new();
            for _ in 0..3 {
                times.push(next(&map, changes.clone())?.1);
            }
            times.sort_by(f64::total_cmp);
            println!("  {what:<17} {:.2} ms [{:.2}-{:.2}]", times[1], times[0], times[2]);
        }
    }
    Ok(())
}

/// The next map, and how many milliseconds it took.
fn next(map: &ClusterMap, changes: Vec<MapChange>) -> Result<(ClusterMap, f64), Failure> {
    let delta = MapDelta { from: map.epoch(), to: map.epoch().next(), changes };
    let bounds = MapBounds { nodes: 1 << 20, changes: 1 << 20, bytes: usize::MAX };
    let start = Instant::now();
    let next = map.apply_within(&delta, bounds)?;
    let took = start.elapsed();
    Ok((next, took.as_secs_f64() * 1e3))
}

fn nodes() -> Result<Vec<MapChange>, Failure> {
    (0..NODES).map(|id| Ok(MapChange::PutNode(node(id)?))).collect()
}

fn node(id: u32) -> Result<Node, Failure> {
    let address = |port| Address::new(&format!("10.{}.{}.{}:{port}", id >> 16, id >> 8 & 255, id & 255));
    Ok(Node {
        id: NodeId(id),
        state: NodeState::Up,
        incarnation: Incarnation(u64::from(id) + 1),
        manager: address(7400)?,
        first_instance: InstanceId(id),
        instances: vec![address(7401)?],
    })
}

fn config(id: u32) -> Result<KeyspaceConfig, Failure> {
    let partitions = PartitionCount::new(PARTITIONS_MAX)?;
    Ok(KeyspaceConfig { partitions, ..KeyspaceConfig::new(format!("k{id}").parse()?, u64::from(id)) })
}

fn in_ring(id: u32) -> Result<MapChange, Failure> {
    let turn = id.wrapping_mul(2_654_435_761) % NODES;
    let ring = Ring { first: InstanceId(0), count: NODES, step: 257, first_position: turn, splits: 0 };
    let groups = Groups::in_ring(ring, PARTITIONS_MAX, 1, 1).ok_or("no such ring")?;
    Ok(MapChange::CreateKeyspace { id: KeyspaceId(id), config: config(id)?, groups })
}

fn in_rows(id: u32) -> Result<MapChange, Failure> {
    let groups = (0..PARTITIONS_MAX).map(|partition| group(id, partition, PartitionEpoch(1)));
    Ok(MapChange::CreateKeyspace { id: KeyspaceId(id), config: config(id)?, groups: groups.collect() })
}

fn group(keyspace: u32, partition: u32, epoch: PartitionEpoch) -> ReplicaGroup {
    let first = keyspace.wrapping_mul(2_654_435_761).wrapping_add(partition.wrapping_mul(15_485_863));
    let member = |at: u32| InstanceId((first % NODES + at) % NODES);
    ReplicaGroup {
        in_sync: vec![member(1)],
        followers: (2..REPLICAS).map(member).collect(),
        ..ReplicaGroup::of_one(epoch, member(0))
    }
}

/// What happens most: a promotion, a member more, and the death of a node with a change of each of its groups.
fn deltas(map: &ClusterMap) -> Result<Vec<Case>, Failure> {
    let set = |group| MapChange::SetGroup { keyspace: KeyspaceId(1), partition: PartitionId(77), group };
    let promoted = ReplicaGroup { epoch: PartitionEpoch(2), ..group(1, 77, PartitionEpoch(1)) };
    let mut larger = promoted.clone();
    larger.followers.push(InstanceId((larger.primary.get() + NODES / 2) % NODES));
    let dead = Node { state: NodeState::Down, ..node(NODES / 2)? };
    let mut died = vec![MapChange::PutNode(dead)];
    for (keyspace, partition, group) in map.partitions_of(InstanceId(NODES / 2)) {
        let group = ReplicaGroup { epoch: group.epoch.next(), ..group.to_group() };
        died.push(MapChange::SetGroup { keyspace, partition, group });
    }
    Ok(vec![
        ("promotion", vec![set(promoted)]),
        ("one more member", vec![set(larger)]),
        ("death of a node", died),
    ])
}
