//! The permitted effects of a failing or full disk on the engine.

use zerohop_engine::disk::Disk;
use zerohop_engine::disk::simulated::{DiskOperation, SimulatedDisk};
use zerohop_engine::{
    Durability, Engine, EngineError, EngineOptions, EntryKind, EntryMeta, Handle, PartitionId,
    PartitionOptions,
};

use crate::support::TestEngine as Store;

fn open(disk: &SimulatedDisk) -> Store {
    let options = EngineOptions {
        segment_bytes: 1 << 20,
        journal_file_bytes: 4 << 10,
        disk_reserve_bytes: 0,
        ..EngineOptions::default()
    };
    let (engine, report) = Engine::open(disk.clone(), options).expect("opens");
    assert_eq!(report.damage().next(), None);
    engine
}

fn partition(engine: &mut Store, number: u64, durability: Durability) -> Handle {
    engine.partition(PartitionId(number), PartitionOptions { durability, index_seed: 7 }).expect("opens")
}

fn put(engine: &mut Store, p: Handle, at: u64, key: &[u8], value: &[u8]) -> Result<u64, EngineError> {
    engine.write(p, EntryKind::Put, 0, at, key, value)
}

fn append(engine: &mut Store, p: Handle, epoch: u32, index: u64, key: &[u8], value: &[u8]) {
    let meta = EntryMeta { kind: EntryKind::Put, flags: 0, epoch, index, timestamp: index };
    engine.append(p, &meta, key, value).expect("is accepted");
}

#[test]
fn later_sync_does_not_clear_failed_sync() {
    let disk = SimulatedDisk::new(1);
    let mut engine = open(&disk);
    let p = partition(&mut engine, 1, Durability::DEFAULT);
    let other = partition(&mut engine, 2, Durability::DEFAULT);
    put(&mut engine, p, 1, b"k", b"v").expect("is accepted");
    put(&mut engine, other, 1, b"k", b"v").expect("is accepted");
    disk.fail_nth(DiskOperation::Sync, 1);
    assert!(matches!(engine.sync(), Err(EngineError::Disk(_))));
    assert!(matches!(engine.sync(), Err(EngineError::Stopped { .. })), "what was lost stays lost");
    assert!(matches!(engine.compact(p), Err(EngineError::Stopped { .. })));
    assert_eq!(engine.durable_index(p).expect("is open"), 0);
    assert_eq!(engine.durable_index(other).expect("is open"), 1, "others go on");
    assert!(put(&mut engine, p, 2, b"k", b"w").is_err());
    put(&mut engine, other, 2, b"k", b"w").expect("others go on");
}

#[test]
fn failed_partition_does_not_stop_maintenance_of_others() {
    let disk = SimulatedDisk::new(2);
    let mut engine = open(&disk);
    let handles: Vec<Handle> = (1..4).map(|n| partition(&mut engine, n, Durability::Sync)).collect();
    for n in 0..3 {
        for &p in &handles {
            put(&mut engine, p, n, b"k", &[7; 5000]).expect("is accepted");
        }
        engine.flush().expect("flushes");
    }
    // To free journal files, the segments are synced, and the first partition's sync fails.
    disk.fail_nth(DiskOperation::SyncBegin, 1);
    engine.checkpoint_begin(handles[1], b"").expect("begins");
    let failed = (0..400).map(|n| engine.maintain(n * 10)).filter(Result::is_err).count();
    assert_eq!(failed, 1);
    let checkpoint = |p| engine.partition_stats(p).expect("is open").checkpoint_bytes > 0;
    assert_eq!(handles.iter().copied().map(checkpoint).collect::<Vec<_>>(), [false, true, false]);
    put(&mut engine, handles[2], 9, b"k", b"w").expect("others go on");
}

#[test]
fn memory_partition_never_reaches_the_disk() {
    let disk = SimulatedDisk::new(3);
    let mut engine = open(&disk);
    let p = partition(&mut engine, 1, Durability::Memory);
    for n in 0..100 {
        put(&mut engine, p, n, b"k", &[7; 900]).expect("is accepted");
    }
    engine.compact(p).expect("does nothing");
    engine.checkpoint_begin(p, b"").expect("does nothing");
    engine.sync().expect("has nothing to do");
    (0..100).for_each(|n| assert!(!engine.maintain(n * 50).expect("goes well")));
    engine.close().expect("closes");
    let names = disk.clone().list("").expect("lists");
    assert!(names.iter().all(|n| !n.name.starts_with("p-")), "{names:?}");
}

#[test]
fn truncated_log_counts_as_durable_and_checkpoint_ends() {
    let disk = SimulatedDisk::new(4);
    let mut engine = open(&disk);
    let p = partition(&mut engine, 1, Durability::DEFAULT);
    append(&mut engine, p, 1, 1, b"k", b"first");
    engine.sync().expect("syncs");
    // More than a block, so that some of it is written and not synced.
    for index in 2..=4 {
        append(&mut engine, p, 1, index, b"k", &[index as u8; 30_000]);
    }
    engine.commit(p, 2).expect("commits");
    engine.truncate_after(p, 2).expect("cuts");
    engine.sync().expect("syncs");
    assert_eq!(engine.durable_index(p).expect("is open"), 2);
    engine.close().expect("closes");
    let mut engine = open(&disk);
    let p = partition(&mut engine, 1, Durability::DEFAULT);
    assert_eq!(engine.partition_stats(p).expect("is open").last, (1, 2));
}

#[test]
fn entries_are_found_by_index_however_often_the_tail_was_cut() {
    let mut engine = open(&SimulatedDisk::new(5));
    let p = partition(&mut engine, 1, Durability::DEFAULT);
    append(&mut engine, p, 1, 1, b"k", b"");
    let mut next = 2;
    for round in 0..400u32 {
        for index in next..next + 16 {
            append(&mut engine, p, round + 2, index, b"k", b"");
        }
        engine.truncate_after(p, next).expect("cuts");
        next += 1;
    }
    for index in 1..next {
        assert_eq!(engine.read_entry(p, index).expect("is found").head.meta.epoch, index as u32);
    }
}

#[test]
fn failed_file_removal_after_compaction_stops_only_its_partition() {
    for nth in 1..6 {
        let disk = SimulatedDisk::new(nth);
        let options =
            EngineOptions { segment_bytes: 4 << 10, disk_reserve_bytes: 0, ..EngineOptions::default() };
        let (mut engine, _) = Engine::open(disk.clone(), options).expect("opens");
        let p = partition(&mut engine, 1, Durability::DEFAULT);
        for n in 0..60 {
            put(&mut engine, p, n, &[n as u8 % 7], &[7; 500]).expect("is accepted");
        }
        disk.fail_nth(DiskOperation::Remove, nth);
        let compacted = engine.compact(p);
        assert!(matches!(compacted, Ok(()) | Err(EngineError::Disk(_))), "{compacted:?}");
        for key in 0..7 {
            assert_eq!(engine.lookup_assembled(p, &[key]).expect("reads"), Some(vec![7; 500]));
        }
        drop(engine);
        disk.crash();
        let mut engine = open(&disk);
        engine.commit_all().expect("commits");
        let p = partition(&mut engine, 1, Durability::DEFAULT);
        for key in 0..7 {
            assert_eq!(engine.lookup_assembled(p, &[key]).expect("reads"), Some(vec![7; 500]));
        }
    }
}

#[test]
fn checkpoint_ends_when_awaited_log_is_truncated() {
    let disk = SimulatedDisk::new(6);
    let mut engine = open(&disk);
    let p = partition(&mut engine, 1, Durability::DEFAULT);
    for index in 1..=9 {
        append(&mut engine, p, 1, index, b"k", b"value");
    }
    engine.commit(p, 3).expect("commits");
    engine.checkpoint_begin(p, b"").expect("begins");
    engine.maintain(0).expect("goes well");
    engine.truncate_after(p, 3).expect("cuts");
    engine.close().expect("ends");
}

#[test]
fn committed_records_are_readable_after_failed_truncate() {
    for operation in [DiskOperation::ReadAt, DiskOperation::Truncate, DiskOperation::Sync] {
        let disk = SimulatedDisk::new(7);
        // With this option, memory is freed whenever possible.
        let options = EngineOptions { memory_bytes: 0, disk_reserve_bytes: 0, ..EngineOptions::default() };
        let (mut engine, _) = Engine::open(disk.clone(), options).expect("opens");
        let p = partition(&mut engine, 1, Durability::DEFAULT);
        append(&mut engine, p, 1, 1, b"k", &[1; 30_000]);
        append(&mut engine, p, 1, 2, b"other", &[2; 30_000]);
        (3..=5).for_each(|index| append(&mut engine, p, 1, index, b"k", &[3; 30_000]));
        engine.commit(p, 2).expect("commits");
        disk.fail_nth(operation, if operation == DiskOperation::ReadAt { 2 } else { 1 });
        assert!(matches!(engine.truncate_after(p, 2), Err(EngineError::Disk(_))), "{operation:?}");
        assert_eq!(engine.lookup_assembled(p, b"k").expect("reads"), Some(vec![1; 30_000]));
        assert_eq!(engine.lookup_assembled(p, b"other").expect("reads"), Some(vec![2; 30_000]));
    }
}

#[test]
fn partition_is_not_created_over_files_of_failed_drop() {
    for nth in 1..4 {
        let disk = SimulatedDisk::new(nth);
        let mut engine = open(&disk);
        let p = partition(&mut engine, 1, Durability::Sync);
        for n in 0..3 {
            put(&mut engine, p, n, b"k", &[7; 700_000]).expect("is accepted");
        }
        engine.sync().expect("syncs");
        disk.fail_nth(DiskOperation::Remove, nth);
        assert!(matches!(engine.drop_partition(PartitionId(1)), Err(EngineError::Disk(_))));
        // Opening the partition again first removes the remaining files, or fails.
        disk.fail_nth(DiskOperation::Remove, 1);
        let options = PartitionOptions::default();
        assert!(matches!(engine.partition(PartitionId(1), options), Err(EngineError::Disk(_))));
        let p = partition(&mut engine, 1, Durability::Sync);
        put(&mut engine, p, 1, b"new", b"value").expect("is accepted");
        engine.flush().expect("flushes");
        drop(engine);
        disk.crash();
        let mut engine = open(&disk);
        engine.commit_all().expect("commits");
        let p = partition(&mut engine, 1, Durability::Sync);
        assert_eq!(engine.partition_stats(p).expect("is open").last, (1, 1), "{nth}");
        assert_eq!(engine.lookup_assembled(p, b"new").expect("reads").as_deref(), Some(&b"value"[..]));
    }
}
