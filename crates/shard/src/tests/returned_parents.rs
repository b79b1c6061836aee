//! A start finds a parent beside its children: the member left the parent, became a member of a child later, and a crash has brought
//! the parent back.

use std::collections::BTreeMap;

use zerohop_engine::{Engine, EngineOptions, EntryKind, EntryMeta, PartitionOptions};
use zerohop_placement::{ClusterMap, Durability, KeyOrder};
use zerohop_wire::ids::{InstanceId, KeyspaceId, PartitionId};

use super::super::engine_name::engine_id;
use super::super::splits::split_stored;
use super::bench::InstanceBench;
use super::splits::{filled_bench_of, split};

const KEYSPACE: KeyspaceId = KeyspaceId(2);

/// A start with the map of a split, where these children have an entry.
fn start_beside(stored: &[PartitionId]) {
    let bench = filled_bench_of(KeyOrder::Ordered, Durability::Sync);
    let map = ClusterMap::clone(bench.instance.map());
    let map = map.apply(&split(&map)).expect("follows");
    let InstanceBench { disk, instance, .. } = bench;
    drop(instance);
    disk.crash();
    let splits = map.keyspace(KEYSPACE).expect("is there").splits();
    let (mut engine, _) = Engine::open(disk, EngineOptions::default()).expect("opens");
    for child in stored {
        let options = PartitionOptions { durability: zerohop_engine::Durability::Sync, index_seed: 1 };
        let handle = engine.partition(engine_id(KEYSPACE, splits, *child), options).expect("is new");
        let meta = EntryMeta { kind: EntryKind::Mark, flags: 0, epoch: 9, index: 1, timestamp: 1 };
        engine.append(handle, &meta, b"", b"").expect("has room");
    }
    split_stored(&mut engine, &map, InstanceId(1)).expect("a start goes on");
    let found: BTreeMap<_, _> = engine.partitions().collect();
    let parent = engine_id(KEYSPACE, splits, PartitionId(0));
    assert!(!found.contains_key(&parent), "{found:?}");
    for child in [PartitionId(1), PartitionId(2)] {
        let handle = *found.get(&engine_id(KEYSPACE, splits, child)).expect("is there");
        let last = engine.partition_stats(handle).expect("is read").last.1;
        // A child that was not there continues with the log of the parent.
        assert_eq!(last == 1, stored.contains(&child), "{child:?} ends at {last}");
    }
}

#[test]
fn start_with_a_parent_beside_its_children_opens_them() {
    start_beside(&[PartitionId(2)]);
    start_beside(&[PartitionId(1)]);
    start_beside(&[PartitionId(1), PartitionId(2)]);
}
