//! Keyspaces are created, changed and dropped while an instance serves.

use zerohop_engine::disk::Disk;
use zerohop_engine::disk::simulated::SimulatedDisk;
use zerohop_placement::{ClusterMap, Durability, MapChange, MapDelta, PartitionCount, ReplicaGroup};
use zerohop_wire::Failure;
use zerohop_wire::ids::{InstanceId, KeyspaceId, PartitionEpoch, PartitionId};
use zerohop_wire::messages::{Expiry, Query};

use super::bench::{DEFAULT, InstanceBench, create, first_map, next};
use crate::ClockReading;

/// A delta that raises the epoch of one partition.
pub(super) fn raise(map: &ClusterMap, keyspace: u32, partition: u32) -> MapDelta {
    let (keyspace, partition) = (KeyspaceId(keyspace), PartitionId(partition));
    let group = map.keyspace(keyspace).and_then(|found| found.group(partition)).expect("is there");
    let group = ReplicaGroup { epoch: PartitionEpoch(group.epoch.0 + 1), ..group.to_group() };
    next(map, vec![MapChange::SetGroup { keyspace, partition, group }])
}

fn alter(map: &ClusterMap, id: u32, durability: Durability) -> MapDelta {
    let id = KeyspaceId(id);
    let config = map.keyspace(id).expect("is there").config().clone();
    let config = zerohop_placement::KeyspaceConfig { durability, ..config };
    next(map, vec![MapChange::AlterKeyspace { id, config }])
}

fn folders(disk: &mut SimulatedDisk) -> Vec<String> {
    let names = disk.list("").expect("lists");
    names.into_iter().map(|entry| entry.name).filter(|name| name.starts_with("p-")).collect()
}

#[test]
fn keyspace_is_served_until_its_drop_and_leaves_no_file() {
    let mut bench = InstanceBench::new();
    let before = folders(&mut bench.disk);
    let delta = create(bench.instance.map(), 2, "papers", Durability::Sync);
    bench.apply(&delta);
    bench.store(2, "a", "1");
    let wait = bench.wait(2, "never", 60_000);
    let stale = bench.envelope(2, "a");
    let drop = next(bench.instance.map(), vec![MapChange::DropKeyspace(KeyspaceId(2))]);
    bench.apply(&drop);
    let gone = Failure::UnknownKeyspace { keyspace: KeyspaceId(2) };
    assert_eq!(bench.answer(wait), Some(Err(gone.clone())), "a waiting request is answered");
    let late = bench.read_at(stale, "a", Query::Lookup);
    assert_eq!(bench.answer(late), Some(Err(gone)), "also for a client with an older map");
    assert_eq!(folders(&mut bench.disk), before);
}

#[test]
fn changed_durability_applies_from_the_change() {
    let mut bench = InstanceBench::new();
    let delta = create(bench.instance.map(), 2, "papers", Durability::Interval { ms: 100 });
    bench.apply(&delta);
    bench.store(2, "a", "1");
    let delta = alter(bench.instance.map(), 2, Durability::Sync);
    bench.apply(&delta);
    bench.store(2, "b", "2");
    let (mut bench, _) = bench.crash();
    assert_eq!(bench.value(2, "b"), Ok("2".to_owned()), "was acknowledged under sync");
    assert_eq!(bench.value(2, "a"), Ok("1".to_owned()), "came before it in time");
}

#[test]
fn memory_keyspace_survives_crash_after_durability_change() {
    let mut bench = InstanceBench::new();
    let delta = create(bench.instance.map(), 2, "scratch", Durability::Memory);
    bench.apply(&delta);
    let until_ms = bench.now.unix_ms + 60_000;
    let expiring = bench.put_with(2, "short-lived", "x", Expiry::AtMs(until_ms));
    bench.end();
    assert_eq!(bench.answer(expiring), Some(Ok("done".to_owned())));
    // So much is overwritten that the log is compacted, while it is in memory only.
    let filler = "f".repeat(4096);
    for round in 0..20 {
        for key in 0..200 {
            bench.store(2, &format!("key {key}"), &format!("{round} {filler}"));
        }
        (0..50).for_each(|_| bench.advance_ms(10));
    }
    let delta = alter(bench.instance.map(), 2, Durability::Sync);
    bench.apply(&delta);
    let (mut bench, opened) = bench.crash();
    assert!(opened.lost_states.is_empty(), "{opened:?}");
    for key in 0..200 {
        assert_eq!(bench.value(2, &format!("key {key}")), Ok(format!("19 {filler}")));
    }
    bench.store(2, "later", "1");
    assert_eq!(bench.value(2, "short-lived"), Ok("x".to_owned()));
    bench.now.unix_ms = until_ms;
    bench.end();
    assert_eq!(bench.value(2, "short-lived"), Err(Failure::NotFound), "it has kept its deadline");
    let (mut bench, _) = bench.crash();
    assert_eq!(bench.value(2, "later"), Ok("1".to_owned()));
}

#[test]
fn keyspace_altered_to_memory_serves_on_and_is_empty_after_restart() {
    let mut bench = InstanceBench::new();
    let delta = create(bench.instance.map(), 2, "papers", Durability::Sync);
    bench.apply(&delta);
    let before = folders(&mut bench.disk);
    bench.store(2, "a", "1");
    let delta = alter(bench.instance.map(), 2, Durability::Memory);
    bench.apply(&delta);
    assert_eq!(bench.value(2, "a"), Ok("1".to_owned()));
    bench.store(2, "b", "2");
    let delta = alter(bench.instance.map(), 2, Durability::Sync);
    bench.apply(&delta);
    let (mut bench, _) = bench.crash();
    assert_eq!(bench.value(2, "b"), Ok("2".to_owned()), "it was altered back in time");
    let delta = alter(bench.instance.map(), 2, Durability::Memory);
    bench.apply(&delta);
    let (mut bench, opened) = bench.crash();
    assert!(opened.removed > 0);
    assert_eq!(bench.value(2, "a"), Err(Failure::NotFound));
    assert_eq!(folders(&mut bench.disk), before);
}

#[test]
fn replies_awaiting_flush_are_sent_on_map_change() {
    let mut bench = InstanceBench::new();
    let delta = create(bench.instance.map(), 2, "papers", Durability::Sync);
    bench.apply(&delta);
    let put = bench.put(2, "a", "1");
    let drop = next(bench.instance.map(), vec![MapChange::DropKeyspace(KeyspaceId(2))]);
    bench.apply(&drop);
    assert_eq!(bench.answer(put), Some(Ok("done".to_owned())));
}

#[test]
fn partition_keeps_its_data_when_its_epoch_rises() {
    let mut bench = InstanceBench::new();
    bench.store(DEFAULT, "a", "1");
    let partition = bench.envelope(DEFAULT, "a").partition.0;
    let delta = raise(bench.instance.map(), DEFAULT, partition);
    bench.apply(&delta);
    assert_eq!(bench.value(DEFAULT, "a"), Ok("1".to_owned()));
    bench.store(DEFAULT, "a", "2");
    bench.advance_ms(3_000);
    // The simulated disk needs some polls for a sync.
    (0..20).for_each(|_| bench.advance_ms(10));
    let (mut bench, _) = bench.crash();
    assert_eq!(bench.value(DEFAULT, "a"), Ok("2".to_owned()));
}

#[test]
fn partition_of_other_instance_is_refused() {
    let disk = SimulatedDisk::new(1);
    let (mut bench, opened) =
        InstanceBench::on(disk, first_map(2), ClockReading { unix_ms: 1_000_000, elapsed_ms: 0 });
    assert_eq!(opened.partitions, 128);
    let mut others = 0;
    for n in 0..20 {
        let key = format!("k{n}");
        let is_ours = {
            let route = bench.instance.map().route(KeyspaceId(DEFAULT), key.as_bytes());
            route.expect("is there").instance == InstanceId(1)
        };
        let put = bench.put(DEFAULT, &key, "v");
        bench.end();
        match bench.answer(put).expect("is answered") {
            Ok(_) => assert!(is_ours),
            Err(Failure::WrongOwner { .. }) => {
                assert!(!is_ours);
                others += 1;
            }
            Err(other) => panic!("{other}"),
        }
    }
    assert!(others > 0);
}

#[test]
fn start_removes_files_of_dropped_keyspace() {
    let mut bench = InstanceBench::new();
    let map = ClusterMap::clone(bench.instance.map());
    let delta = create(&map, 2, "papers", Durability::Sync);
    bench.apply(&delta);
    bench.store(2, "a", "1");
    let InstanceBench { disk, instance, now, .. } = bench;
    drop(instance);
    disk.crash();
    // The map was changed and stored. Then the process died before its instance received it.
    let dropped = map.apply(&delta).expect("follows");
    let dropped =
        dropped.apply(&next(&dropped, vec![MapChange::DropKeyspace(KeyspaceId(2))])).expect("follows");
    let (_, opened) = InstanceBench::on(disk, dropped, now);
    assert_eq!((opened.removed, opened.partitions), (1, 256));
}

#[test]
fn map_update_out_of_sequence_is_refused_without_effect() {
    let mut bench = InstanceBench::new();
    let delta = create(bench.instance.map(), 2, "papers", Durability::Sync);
    bench.apply(&delta);
    let refused = bench.instance.apply_map(bench.now, &delta, &mut bench.sent);
    assert!(refused.is_err());
    bench.store(2, "a", "1");
    let count = PartitionCount::new(4).expect("is one").get();
    assert_eq!(bench.instance.stats().partitions, u64::from(256 + count));
}
