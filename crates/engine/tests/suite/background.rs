//! The effects of background maintenance after enough calls.

use zerohop_engine::disk::Disk;
use zerohop_engine::disk::simulated::SimulatedDisk;
use zerohop_engine::{Durability, Engine, EngineOptions, EntryKind, Handle, PartitionId, PartitionOptions};

use crate::support::TestEngine as Store;

fn open(disk: &SimulatedDisk) -> Store {
    let options = EngineOptions { segment_bytes: 8 << 10, disk_reserve_bytes: 0, ..EngineOptions::default() };
    let (engine, report) = Engine::open(disk.clone(), options).expect("opens");
    assert_eq!(report.damage().next(), None);
    engine
}

fn partition(engine: &mut Store, durability: Durability) -> Handle {
    engine.partition(PartitionId(1), PartitionOptions { durability, index_seed: 7 }).expect("opens")
}

fn put(engine: &mut Store, p: Handle, at: u64, key: &[u8], value: &[u8]) -> u64 {
    engine.write(p, EntryKind::Put, 0, at, key, value).expect("is accepted")
}

fn maintain_for(engine: &mut Store, from_ms: u64, ms: u64) {
    (from_ms..from_ms + ms).step_by(10).for_each(|now| assert!(engine.maintain(now).is_ok()));
}

fn names(disk: &SimulatedDisk) -> Vec<String> {
    let listed = disk.clone().list("p-0000000000000001").expect("lists");
    listed.into_iter().map(|entry| entry.name).collect()
}

#[test]
fn entries_are_durable_one_interval_after_change_from_sync() {
    let mut engine = open(&SimulatedDisk::new(1));
    let p = partition(&mut engine, Durability::Sync);
    put(&mut engine, p, 1, b"k", b"v");
    engine.set_durability(p, Durability::DEFAULT).expect("changes");
    maintain_for(&mut engine, 0, 400);
    assert_eq!(engine.durable_index(p).expect("is open"), 1);
}

#[test]
fn background_maintenance_writes_a_begun_checkpoint() {
    let disk = SimulatedDisk::new(2);
    let mut engine = open(&disk);
    let p = partition(&mut engine, Durability::DEFAULT);
    put(&mut engine, p, 1, b"k", b"v");
    engine.checkpoint_begin(p, b"state of an upper layer").expect("begins");
    maintain_for(&mut engine, 0, 400);
    assert_eq!(names(&disk), ["0000000000000001-00000000.seg", "0000000000000001.ckp"]);
}

/// Runs maintenance so often that entries due at a time are durable ten milliseconds later.
fn durable_at(engine: &mut Store, partitions: &[Handle], ms: u64) -> Vec<u64> {
    (ms..ms + 10).for_each(|now| assert!(engine.maintain(now).is_ok()));
    partitions.iter().map(|&p| engine.durable_index(p).expect("is open")).collect()
}

#[test]
fn each_partition_is_synced_after_its_own_interval() {
    let mut engine = open(&SimulatedDisk::new(3));
    let handles = [500, 20, 100].map(|ms| {
        let options = PartitionOptions { durability: Durability::Interval { ms }, index_seed: 7 };
        engine.partition(PartitionId(u64::from(ms)), options).expect("opens")
    });
    handles.iter().for_each(|&p| assert_eq!(put(&mut engine, p, 1, b"k", b"v"), 1));
    assert_eq!(durable_at(&mut engine, &handles, 10), [0, 0, 0]);
    assert_eq!(durable_at(&mut engine, &handles, 20), [0, 1, 0]);
    assert_eq!(durable_at(&mut engine, &handles, 90), [0, 1, 0]);
    assert_eq!(durable_at(&mut engine, &handles, 100), [0, 1, 1]);
    assert_eq!(durable_at(&mut engine, &handles, 490), [0, 1, 1]);
    assert_eq!(durable_at(&mut engine, &handles, 500), [1, 1, 1]);
}

#[test]
fn shorter_interval_applies_to_earlier_writes_from_its_change() {
    let mut engine = open(&SimulatedDisk::new(4));
    let p = partition(&mut engine, Durability::Interval { ms: 10_000 });
    put(&mut engine, p, 1, b"k", b"v");
    assert_eq!(durable_at(&mut engine, &[p], 990), [0]);
    engine.set_durability(p, Durability::Interval { ms: 50 }).expect("changes");
    assert_eq!(durable_at(&mut engine, &[p], 1030), [0]);
    assert_eq!(durable_at(&mut engine, &[p], 1050), [1]);
}
