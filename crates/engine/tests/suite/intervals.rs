//! Many `interval` partitions that are due together go through the journal.

use zerohop_engine::disk::simulated::{DiskOperation, SimulatedDisk};
use zerohop_engine::{Durability, Engine, EngineOptions, EntryKind, Handle, PartitionId, PartitionOptions};

use crate::support::TestEngine as Store;

const PARTITIONS: u64 = 64;
const INTERVAL_MS: u64 = 100;

fn open(disk: &SimulatedDisk) -> (Store, Vec<Handle>) {
    let options = EngineOptions { disk_reserve_bytes: 0, ..EngineOptions::default() };
    let (mut engine, report) = Engine::open(disk.clone(), options).expect("opens");
    assert_eq!(report.damage().map(ToString::to_string).next(), None);
    engine.commit_all().expect("commits");
    let options =
        PartitionOptions { durability: Durability::Interval { ms: INTERVAL_MS as u32 }, index_seed: 7 };
    let handles = (1..=PARTITIONS).map(|id| engine.partition(PartitionId(id), options).expect("opens"));
    let handles = handles.collect();
    (engine, handles)
}

fn put(engine: &mut Store, handle: Handle, key: &str, bytes: usize) {
    engine.write(handle, EntryKind::Put, 0, 1, key.as_bytes(), &vec![7; bytes]).expect("is accepted");
}

fn is_durable(engine: &mut Store, handle: Handle) -> bool {
    let last = engine.partition_stats(handle).expect("is open").last.1;
    engine.durable_index(handle).expect("is open") == last
}

/// Runs maintenance as an owner does, until everything is durable. Returns the time then.
fn until_durable(engine: &mut Store, handles: &[Handle], from_ms: u64) -> u64 {
    for now_ms in from_ms..from_ms + 10 * INTERVAL_MS {
        engine.maintain(now_ms).expect("goes well");
        if handles.iter().all(|&handle| is_durable(engine, handle)) {
            return now_ms;
        }
    }
    panic!("not durable after ten intervals")
}

fn syncs(disk: &SimulatedDisk) -> u64 {
    disk.counts().of(DiskOperation::Sync) + disk.counts().of(DiskOperation::SyncBegin)
}

#[test]
fn few_syncs_make_many_small_partitions_durable_in_time() {
    let disk = SimulatedDisk::new(1);
    let (mut engine, handles) = open(&disk);
    engine.maintain(1_000).expect("goes well");
    let before = syncs(&disk);
    for &handle in &handles {
        put(&mut engine, handle, "a", 100);
        put(&mut engine, handle, "b", 100);
    }
    let done_ms = until_durable(&mut engine, &handles, 1_000);
    assert!(done_ms <= 1_000 + 2 * INTERVAL_MS, "durable at {done_ms}");
    assert!(syncs(&disk) - before <= 4, "{} syncs", syncs(&disk) - before);
    drop(engine);
    disk.crash();
    let (mut engine, handles) = open(&disk);
    for &handle in &handles {
        for key in ["a", "b"] {
            assert!(engine.lookup(handle, key.as_bytes()).expect("reads").is_some());
        }
    }
}

#[test]
fn entries_are_durable_only_after_their_sync() {
    for seed in 0..50 {
        let disk = SimulatedDisk::new(seed);
        let (mut engine, handles) = open(&disk);
        for round in 0..40u64 {
            let handle = handles[(seed + round) as usize % handles.len()];
            put(&mut engine, handle, &format!("k{round}"), 50);
            if round % 2 == 0 {
                engine.maintain(round * 30).expect("goes well");
            }
        }
        let mut durable = Vec::new();
        for &handle in &handles {
            durable.push(engine.durable_index(handle).expect("is open"));
        }
        drop(engine);
        disk.crash();
        let (mut engine, handles) = open(&disk);
        for (&handle, durable) in handles.iter().zip(durable) {
            let last = engine.partition_stats(handle).expect("is open").last.1;
            assert!(last >= durable, "seed {seed}: {last} of {durable} came back");
        }
    }
}

#[test]
fn large_writes_of_one_partition_are_synced_in_its_own_log() {
    let disk = SimulatedDisk::new(1);
    let (mut engine, handles) = open(&disk);
    engine.maintain(1_000).expect("goes well");
    for &handle in &handles {
        put(&mut engine, handle, "a", 100);
    }
    for n in 0..40 {
        put(&mut engine, handles[0], &format!("k{n}"), 10_000);
    }
    let before = disk.counts().bytes_written;
    until_durable(&mut engine, &handles, 1_000);
    assert!(disk.counts().bytes_written - before < 500_000, "written once, not twice");
}

#[test]
fn partitions_sync_their_own_logs_after_failed_journal_flush() {
    let disk = SimulatedDisk::new(1);
    let (mut engine, handles) = open(&disk);
    engine.maintain(1_000).expect("goes well");
    for &handle in &handles {
        put(&mut engine, handle, "a", 100);
    }
    disk.fail_nth(DiskOperation::SyncDone, 1);
    let mut failures = 0;
    for now_ms in 1_000..3_000 {
        failures += u64::from(engine.maintain(now_ms).is_err());
    }
    assert!(failures > 0, "the owner hears of it");
    for &handle in &handles {
        assert!(is_durable(&mut engine, handle));
    }
    drop(engine);
    disk.crash();
    let (mut engine, handles) = open(&disk);
    for &handle in &handles {
        assert!(engine.lookup(handle, b"a").expect("reads").is_some());
    }
}

#[test]
fn temporarily_full_disk_loses_no_entries() {
    let disk = SimulatedDisk::new(1);
    let (mut engine, handles) = open(&disk);
    engine.maintain(1_000).expect("goes well");
    for &handle in &handles {
        put(&mut engine, handle, "a", 100);
    }
    disk.set_capacity(100);
    for now_ms in 1_000..2_000 {
        // It may report a full disk; nothing is lost by that.
        drop(engine.maintain(now_ms));
    }
    assert!(!handles.iter().all(|&handle| is_durable(&mut engine, handle)));
    disk.set_capacity(None);
    until_durable(&mut engine, &handles, 2_000);
}

#[test]
fn awaited_flush_covers_earlier_flushes() {
    let disk = SimulatedDisk::new(3);
    let (mut engine, handles) = open(&disk);
    let options = PartitionOptions { durability: Durability::Sync, index_seed: 7 };
    let waited = engine.partition(PartitionId(1_000), options).expect("opens");
    engine.maintain(1_000).expect("goes well");
    for &handle in &handles {
        put(&mut engine, handle, "a", 100);
    }
    put(&mut engine, waited, "sync", 100);
    // Maintenance includes the batch that the other partition waits for.
    for now_ms in 1_099..1_101 {
        engine.maintain(now_ms).expect("goes well");
    }
    engine.flush().expect("goes well");
    assert!(is_durable(&mut engine, waited));
    drop(engine);
    disk.crash();
    let (mut engine, _) = open(&disk);
    let waited = engine.partition(PartitionId(1_000), options).expect("opens");
    assert!(engine.lookup(waited, b"sync").expect("reads").is_some());
}
