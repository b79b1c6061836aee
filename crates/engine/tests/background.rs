//! What upkeep must have done once it was called often enough.

use zerohop_engine::disk::Disk;
use zerohop_engine::disk::simulated::SimulatedDisk;
use zerohop_engine::{Durability, Engine, EngineOptions, Handle, Kind, PartitionId, PartitionOptions};

type Store = Engine<SimulatedDisk>;

fn open(disk: &SimulatedDisk) -> Store {
    let options = EngineOptions {
        segment_bytes: 8 << 10,
        disk_reserve_bytes: 0,
        interval_ms: 100,
        ..EngineOptions::default()
    };
    let (engine, report) = Engine::open(disk.clone(), options).expect("opens");
    assert_eq!(report.damage().next(), None);
    engine
}

fn partition(engine: &mut Store, durability: Durability) -> Handle {
    engine.partition(PartitionId(1), PartitionOptions { durability, index_seed: 7 }).expect("opens")
}

fn put(engine: &mut Store, p: Handle, at: u64, key: &[u8], value: &[u8]) -> u64 {
    engine.write(p, Kind::Put, 0, at, key, value).expect("is accepted")
}

fn maintain_for(engine: &mut Store, from_ms: u64, ms: u64) {
    (from_ms..from_ms + ms).step_by(10).for_each(|now| assert!(engine.maintain(now).is_ok()));
}

fn names(disk: &SimulatedDisk) -> Vec<String> {
    let listed = disk.clone().list("p-0000000000000001").expect("lists");
    listed.into_iter().map(|entry| entry.name).collect()
}

#[test]
fn what_was_written_under_sync_is_durable_an_interval_after_the_change_to_interval() {
    let mut engine = open(&SimulatedDisk::new(1));
    let p = partition(&mut engine, Durability::Sync);
    put(&mut engine, p, 1, b"k", b"v");
    engine.set_durability(p, Durability::Interval).expect("changes");
    maintain_for(&mut engine, 0, 400);
    assert_eq!(engine.durable_index(p).expect("is open"), 1);
}

#[test]
fn a_checkpoint_that_its_owner_begins_is_written_by_upkeep() {
    let disk = SimulatedDisk::new(2);
    let mut engine = open(&disk);
    let p = partition(&mut engine, Durability::Interval);
    put(&mut engine, p, 1, b"k", b"v");
    engine.checkpoint_begin(p, b"state of an upper layer").expect("begins");
    maintain_for(&mut engine, 0, 400);
    assert_eq!(names(&disk), ["0000000000000001-00000000.seg", "0000000000000001.ckp"]);
}
