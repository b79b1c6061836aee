//! The entries that the journal must restore after a crash, and those that it must not.

use zerohop_engine::disk::simulated::{DiskOperation, SimulatedDisk};
use zerohop_engine::{
    Durability, Engine, EngineOptions, EntryKind, EntryMeta, Handle, PartitionId, PartitionOptions,
};

use crate::support::TestEngine as Store;

const LARGE: usize = 70_000;

fn open(disk: &SimulatedDisk) -> Store {
    let options = EngineOptions { segment_bytes: 4 << 10, disk_reserve_bytes: 0, ..EngineOptions::default() };
    let (engine, report) = Engine::open(disk.clone(), options).expect("opens");
    assert_eq!(report.damage().map(ToString::to_string).next(), None);
    engine
}

fn partition(engine: &mut Store, number: u64) -> Handle {
    let options = PartitionOptions { durability: Durability::Sync, index_seed: 7 };
    engine.partition(PartitionId(number), options).expect("opens")
}

fn append(engine: &mut Store, p: Handle, epoch: u32, index: u64, bytes: usize) {
    let meta = EntryMeta { kind: EntryKind::Put, flags: 0, epoch, index, timestamp: index };
    engine.append(p, &meta, b"k", &vec![epoch as u8; bytes]).expect("is accepted");
}

fn crash(disk: &SimulatedDisk, engine: Store) -> Store {
    drop(engine);
    disk.crash();
    open(disk)
}

/// Epochs of the entries of a log.
fn epochs(engine: &mut Store, p: Handle) -> Vec<u32> {
    let (_, last) = engine.partition_stats(p).expect("is open").last;
    (1..=last).map(|index| engine.read_entry(p, index).expect("reads").head.meta.epoch).collect()
}

#[test]
fn hash_seed_survives_when_only_the_journal_is_left() {
    for (seed, durability) in
        (0..20).flat_map(|n| [(n, Durability::Sync), (n, Durability::Interval { ms: 50 })])
    {
        let disk = SimulatedDisk::new(seed);
        let mut engine = open(&disk);
        let handles: Vec<Handle> = (1..40)
            .map(|number| {
                let options = PartitionOptions { durability, index_seed: 900 + number };
                engine.partition(PartitionId(number), options).expect("opens")
            })
            .collect();
        for index in 1..4 {
            handles.iter().for_each(|p| append(&mut engine, *p, 1, index, 10));
            engine.flush().expect("flushes");
            for ms in 0..3 {
                engine.maintain(1_000 * index + 100 * ms).expect("goes on");
            }
        }
        // Entries that only the journal has are restored into logs that are not open at the replay.
        let mut engine = crash(&disk, engine);
        for number in 1..40 {
            let options = PartitionOptions { durability, index_seed: 900 + number };
            let p = engine.partition(PartitionId(number), options).expect("opens");
            engine.commit(p, u64::MAX).expect("commits");
            assert_eq!(engine.index_seed(p), Ok(900 + number), "of partition {number}, seed {seed}");
            let (_, last) = engine.partition_stats(p).expect("is open").last;
            assert!(last == 3 || durability != Durability::Sync, "{last}");
            assert_eq!(engine.lookup_assembled(p, b"k").expect("reads").is_some(), last > 0);
        }
    }
}

#[test]
fn large_entry_after_truncate_survives() {
    for seed in 0..20 {
        let disk = SimulatedDisk::new(seed);
        let mut engine = open(&disk);
        let p = partition(&mut engine, 1);
        (1..=10).for_each(|index| append(&mut engine, p, 1, index, 10));
        engine.flush().expect("flushes");
        engine.truncate_after(p, 5).expect("cuts");
        append(&mut engine, p, 2, 6, LARGE);
        append(&mut engine, p, 2, 7, 10);
        engine.flush().expect("flushes");
        let mut engine = crash(&disk, engine);
        let p = partition(&mut engine, 1);
        assert_eq!(epochs(&mut engine, p), [1, 1, 1, 1, 1, 2, 2], "seed {seed}");
    }
}

#[test]
fn entries_of_lower_epoch_after_truncate_survive() {
    for seed in 0..20 {
        let disk = SimulatedDisk::new(seed);
        let mut engine = open(&disk);
        let p = partition(&mut engine, 1);
        append(&mut engine, p, 1, 1, 10);
        (2..=10).for_each(|index| append(&mut engine, p, 9, index, 10));
        engine.flush().expect("flushes");
        engine.truncate_after(p, 1).expect("cuts");
        // These entries come from a primary that had them before its election.
        append(&mut engine, p, 4, 2, 10);
        append(&mut engine, p, 4, 3, LARGE);
        append(&mut engine, p, 10, 4, 10);
        engine.flush().expect("flushes");
        let mut engine = crash(&disk, engine);
        let p = partition(&mut engine, 1);
        assert_eq!(epochs(&mut engine, p), [1, 4, 4, 10], "seed {seed}");
    }
}

#[test]
fn truncated_entries_stay_truncated_after_crash() {
    for seed in 0..20 {
        let disk = SimulatedDisk::new(seed);
        let mut engine = open(&disk);
        let p = partition(&mut engine, 1);
        (1..=10).for_each(|index| append(&mut engine, p, 1, index, 10));
        engine.flush().expect("flushes");
        engine.truncate_after(p, 5).expect("cuts");
        let mut engine = crash(&disk, engine);
        let p = partition(&mut engine, 1);
        assert_eq!(epochs(&mut engine, p), [1; 5], "seed {seed}");
    }
}

#[test]
fn unfinished_truncate_loses_no_entries_of_other_partitions() {
    for operations in 0..30 {
        let disk = SimulatedDisk::new(operations);
        let mut engine = open(&disk);
        let p = partition(&mut engine, 1);
        let other = partition(&mut engine, 2);
        append(&mut engine, p, 1, 1, 10);
        append(&mut engine, p, 1, 2, LARGE);
        append(&mut engine, other, 1, 1, 10);
        engine.flush().expect("flushes");
        disk.cut_power_after(operations);
        drop(engine.truncate_after(p, 1));
        let mut engine = crash(&disk, engine);
        let (p, other) = (partition(&mut engine, 1), partition(&mut engine, 2));
        assert!([vec![1], vec![1, 1]].contains(&epochs(&mut engine, p)), "{operations}");
        assert_eq!(epochs(&mut engine, other), [1], "{operations}");
    }
}

#[test]
fn large_entry_behind_unsynced_segments_survives() {
    for seed in 0..50 {
        let disk = SimulatedDisk::new(seed);
        let mut engine = open(&disk);
        let p = partition(&mut engine, 1);
        (1..=20).for_each(|index| append(&mut engine, p, 1, index, 1000));
        append(&mut engine, p, 1, 21, LARGE);
        engine.flush().expect("flushes");
        let mut engine = crash(&disk, engine);
        let p = partition(&mut engine, 1);
        assert_eq!(epochs(&mut engine, p).len(), 21, "seed {seed}");
    }
}

#[test]
fn truncated_large_entry_is_not_flushed() {
    let disk = SimulatedDisk::new(1);
    let mut engine = open(&disk);
    let p = partition(&mut engine, 1);
    append(&mut engine, p, 1, 1, 4000);
    append(&mut engine, p, 1, 2, LARGE);
    engine.truncate_after(p, 1).expect("cuts");
    engine.flush().expect("flushes");
    let mut engine = crash(&disk, engine);
    let p = partition(&mut engine, 1);
    assert_eq!(epochs(&mut engine, p), [1]);
}

#[test]
fn dropped_partition_stays_dropped_and_successor_survives() {
    for seed in 0..20 {
        let disk = SimulatedDisk::new(seed);
        let mut engine = open(&disk);
        let p = partition(&mut engine, 1);
        (1..=10).for_each(|index| append(&mut engine, p, 1, index, 10));
        engine.flush().expect("flushes");
        engine.sync().expect("syncs");
        append(&mut engine, p, 1, 11, 10);
        engine.flush().expect("flushes");
        engine.drop_partition(PartitionId(1)).expect("drops");
        let mut engine = crash(&disk, engine);
        assert_eq!(engine.partitions().count(), 0, "seed {seed}");
        let p = partition(&mut engine, 1);
        append(&mut engine, p, 1, 1, 10);
        engine.flush().expect("flushes");
        engine.drop_partition(PartitionId(1)).expect("drops");
        let p = partition(&mut engine, 1);
        append(&mut engine, p, 3, 1, 10);
        engine.flush().expect("flushes");
        let mut engine = crash(&disk, engine);
        let p = partition(&mut engine, 1);
        assert_eq!(epochs(&mut engine, p), [3], "seed {seed}");
    }
}

#[test]
fn corrupt_journal_header_is_reported_without_loss() {
    let disk = SimulatedDisk::new(1);
    let mut engine = open(&disk);
    let p = partition(&mut engine, 1);
    append(&mut engine, p, 1, 1, 10);
    engine.flush().expect("flushes");
    drop(engine);
    disk.crash();
    disk.corrupt_at("journal/0000000000000001.jnl", 13, 0x40).expect("is there");
    let (mut engine, report) = Engine::open(disk.clone(), EngineOptions::default()).expect("opens");
    assert_eq!(report.damage().count(), 1);
    let p = partition(&mut engine, 1);
    assert_eq!(epochs(&mut engine, p), [1]);
}

#[test]
fn truncation_missing_in_journal_is_no_loss() {
    let mut failed = 0;
    for (seed, nth) in (0..40).flat_map(|seed| (1..=4).map(move |nth| (seed, nth))) {
        let disk = SimulatedDisk::new(seed);
        let mut engine = open(&disk);
        let p = partition(&mut engine, 1);
        engine.set_durability(p, Durability::Interval { ms: 10 }).expect("changes");
        (1..=4).for_each(|index| append(&mut engine, p, 1, index, 10));
        engine.set_durability(p, Durability::Sync).expect("syncs the segment");
        // Only the journal has this entry.
        append(&mut engine, p, 1, 5, 10);
        engine.flush().expect("flushes");
        engine.set_durability(p, Durability::Interval { ms: 10 }).expect("changes");
        disk.fail_nth(DiskOperation::Sync, nth);
        failed += u32::from(engine.truncate_after(p, 2).is_err());
        // The new entries behind the truncation get a torn end in the crash.
        let meta = EntryMeta { kind: EntryKind::Put, flags: 0, epoch: 2, index: 3, timestamp: 3 };
        if engine.append(p, &meta, b"k", &[2; 3000]).is_ok() {
            engine.maintain(100).ok();
        }
        disk.fail_nth(DiskOperation::Sync, u64::MAX);
        let mut engine = crash(&disk, engine);
        let p = partition(&mut engine, 1);
        let left = epochs(&mut engine, p).len();
        assert!((2..=5).contains(&left), "seed {seed}, sync {nth} fails: {left}");
    }
    assert!(failed > 40, "{failed}");
}

#[test]
fn journaled_truncation_makes_no_entry_durable() {
    let disk = SimulatedDisk::new(1);
    let mut engine = open(&disk);
    let p = partition(&mut engine, 1);
    append(&mut engine, p, 1, 1, 10);
    engine.flush().expect("flushes");
    engine.set_durability(p, Durability::DEFAULT).expect("changes");
    (2..=10).for_each(|index| append(&mut engine, p, 1, index, 10));
    engine.truncate_after(p, 5).expect("cuts");
    assert_eq!(engine.durable_index(p).expect("is open"), 1);
}

/// A `sync` partition, and an `interval` partition whose entries maintenance copies to the journal.
fn sync_beside_interval(disk: &SimulatedDisk) -> (Store, Handle, Handle) {
    let options = EngineOptions { journal_from_due: 1, disk_reserve_bytes: 0, ..EngineOptions::default() };
    let (mut engine, _) = Engine::open(disk.clone(), options).expect("opens");
    let p = partition(&mut engine, 1);
    let options = PartitionOptions { durability: Durability::Interval { ms: 10 }, index_seed: 7 };
    let other = engine.partition(PartitionId(2), options).expect("opens");
    (engine, p, other)
}

#[test]
fn flush_waits_for_flush_begun_by_maintenance() {
    for seed in 0..40 {
        let disk = SimulatedDisk::new(seed);
        let (mut engine, p, other) = sync_beside_interval(&disk);
        append(&mut engine, p, 1, 1, 100);
        append(&mut engine, other, 1, 1, 100);
        engine.maintain(100).expect("begins a flush of the journal");
        engine.flush().expect("flushes");
        let mut engine = crash(&disk, engine);
        let p = partition(&mut engine, 1);
        assert_eq!(epochs(&mut engine, p), [1], "seed {seed}");
    }
}

#[test]
fn maintenance_reports_no_entry_durable_that_journal_only_refers_to() {
    for seed in 0..40 {
        let disk = SimulatedDisk::new(seed);
        let (mut engine, p, other) = sync_beside_interval(&disk);
        append(&mut engine, p, 1, 1, LARGE);
        append(&mut engine, other, 1, 1, 100);
        (100..120).for_each(|now| assert!(engine.maintain(now).is_ok()));
        assert_eq!(engine.durable_index(other).expect("is open"), 1, "it is synced for itself");
        let durable = engine.durable_index(p).expect("is open");
        let mut engine = crash(&disk, engine);
        let p = partition(&mut engine, 1);
        assert!(epochs(&mut engine, p).len() as u64 >= durable, "seed {seed}");
    }
}

#[test]
fn finished_flush_covers_earlier_entries() {
    for seed in 0..20 {
        let disk = SimulatedDisk::new(seed);
        let mut engine = open(&disk);
        let p = partition(&mut engine, 1);
        assert_eq!(engine.flush_begin(), Ok(false), "there is nothing");
        (1..=3).for_each(|index| append(&mut engine, p, 1, index, 10));
        assert_eq!(engine.flush_begin(), Ok(true));
        append(&mut engine, p, 1, 4, 10);
        while !engine.flush_done().expect("goes on") {}
        assert_eq!(engine.durable_index(p), Ok(3), "what came later is of the next");
        assert_eq!(engine.flush_begin(), Ok(true));
        append(&mut engine, p, 1, 5, LARGE);
        // Only one flush runs at a time, and an entry that is too large for the journal is synced
        // in its segment: both are waited for.
        assert_eq!(engine.flush_begin(), Ok(false));
        assert_eq!((engine.flush_done(), engine.durable_index(p)), (Ok(true), Ok(5)));
        let mut engine = crash(&disk, engine);
        let p = partition(&mut engine, 1);
        assert_eq!(epochs(&mut engine, p), [1; 5], "seed {seed}");
    }
}

#[test]
fn failed_flush_is_reported_and_stops_writes() {
    for operation in [DiskOperation::SyncBegin, DiskOperation::SyncDone] {
        let disk = SimulatedDisk::new(1);
        let mut engine = open(&disk);
        let p = partition(&mut engine, 1);
        append(&mut engine, p, 1, 1, 10);
        engine.flush().expect("flushes");
        append(&mut engine, p, 1, 2, 10);
        disk.fail_nth(operation, 1);
        let begun = engine.flush_begin();
        if begun.is_ok() {
            let mut done = Ok(false);
            while done == Ok(false) {
                done = engine.flush_done();
            }
            assert!(done.is_err());
        }
        assert!(engine.flush_done().is_err() && engine.flush_begin().is_err(), "it stays so");
        assert_eq!(engine.durable_index(p), Ok(1));
        let meta = EntryMeta { kind: EntryKind::Put, flags: 0, epoch: 1, index: 3, timestamp: 3 };
        assert!(engine.append(p, &meta, b"k", b"v").is_err());
    }
}
