//! Data that compaction must keep.

use zerohop_engine::disk::Disk;
use zerohop_engine::disk::crash_point::CrashPoint;
use zerohop_engine::disk::simulated::{DiskOperation, SimulatedDisk};
use zerohop_engine::{
    Durability, Engine, EngineOptions, EntryKind, EntryMeta, FLAG_LIST, Handle, PartitionId, PartitionOptions,
};

use crate::support::TestEngine as Store;

fn open(disk: &SimulatedDisk) -> (Store, Handle) {
    let options = EngineOptions { segment_bytes: 4 << 10, disk_reserve_bytes: 0, ..EngineOptions::default() };
    let (mut engine, report) = Engine::open(disk.clone(), options).expect("opens");
    assert_eq!(report.damage().map(ToString::to_string).next(), None);
    engine.commit_all().expect("commits");
    let options = PartitionOptions { durability: Durability::DEFAULT, index_seed: 7 };
    let p = engine.partition(PartitionId(1), options).expect("opens");
    (engine, p)
}

fn write(engine: &mut Store, p: Handle, kind: EntryKind, flags: u8, key: &[u8], payload: &[u8]) -> u64 {
    engine.write(p, kind, flags, 1, key, payload).expect("is accepted")
}

/// A segment's worth of entries, of which all but the last are dead.
fn fill_segment(engine: &mut Store, p: Handle) {
    for _ in 0..5 {
        write(engine, p, EntryKind::Put, 0, b"other", &[7; 1000]);
    }
}

/// Compaction may be interrupted after any run, so that any of the entries may be gone while the
/// others remain.
#[test]
fn appends_of_changing_kinds_recover_as_last_record() {
    for operations in 0..200 {
        let disk = SimulatedDisk::new(operations);
        let (mut engine, p) = open(&disk);
        write(&mut engine, p, EntryKind::Append, FLAG_LIST, b"k", b"\x01\0\0\0first");
        // The segment with the first entry has the least dead space: it is rewritten last.
        write(&mut engine, p, EntryKind::Put, 0, b"alive", &[7; 3900]);
        fill_segment(&mut engine, p);
        write(&mut engine, p, EntryKind::Append, 0, b"k", b"bytes");
        assert_eq!(engine.lookup_assembled(p, b"k").expect("reads").as_deref(), Some(&b"bytes"[..]));
        fill_segment(&mut engine, p);
        write(&mut engine, p, EntryKind::Append, FLAG_LIST, b"k", b"\x03\0\0\0second");
        fill_segment(&mut engine, p);
        if operations % 2 == 0 {
            let to = engine.trim_point(p, b"k", 2).expect("reads").expect("some are left");
            write(&mut engine, p, EntryKind::Trim, FLAG_LIST, b"k", &to.encode());
        }
        fill_segment(&mut engine, p);
        engine.sync().expect("syncs");
        disk.cut_power_after(operations);
        drop(engine.compact(p));
        drop(engine);
        disk.crash();
        let (mut engine, p) = open(&disk);
        let record = engine.inspect(p, b"k").expect("reads").expect("is there");
        assert_eq!((record.is_list, record.units), (true, 1 + 2 * (operations % 2)), "{operations}");
        assert_eq!(engine.lookup_assembled(p, b"k").expect("reads").as_deref(), Some(&b"second"[..]));
    }
}

/// As above, for a trim that removed values of a part which a later trim removed whole: once both that part and the later trim are gone from the
/// log, the earlier trim is about no part that there is.
#[test]
fn trim_of_a_part_that_is_gone_takes_nothing_from_the_next() {
    for operations in 0..300 {
        let disk = SimulatedDisk::new(operations);
        let (mut engine, p) = open(&disk);
        let trim = |engine: &mut Store, units| {
            let to = engine.trim_point(p, b"k", units).expect("reads").expect("some are left");
            write(engine, p, EntryKind::Trim, FLAG_LIST, b"k", &to.encode());
        };
        write(&mut engine, p, EntryKind::Append, FLAG_LIST, b"k", b"\x03\0\0\0abc");
        write(&mut engine, p, EntryKind::Put, 0, b"alive", &[7; 3900]);
        write(&mut engine, p, EntryKind::Append, FLAG_LIST, b"k", b"\x02\0\0\0de");
        write(&mut engine, p, EntryKind::Append, FLAG_LIST, b"k", b"\x01\0\0\0f");
        fill_segment(&mut engine, p);
        // The segment with the earlier trim has no dead entry: it keeps the trim for longest.
        trim(&mut engine, 2);
        write(&mut engine, p, EntryKind::Put, 0, b"alive too", &[7; 3900]);
        trim(&mut engine, 1);
        fill_segment(&mut engine, p);
        write(&mut engine, p, EntryKind::Append, FLAG_LIST, b"k", b"\x01\0\0\0g");
        fill_segment(&mut engine, p);
        engine.sync().expect("syncs");
        disk.cut_power_after(operations);
        drop(engine.compact(p));
        drop(engine);
        disk.crash();
        let (mut engine, p) = open(&disk);
        let record = engine.inspect(p, b"k").expect("reads").expect("is there");
        assert_eq!((record.is_list, record.units), (true, 4), "{operations}");
        assert_eq!(engine.lookup_assembled(p, b"k").expect("reads").as_deref(), Some(&b"defg"[..]));
    }
}

fn append(engine: &mut Store, p: Handle, epoch: u32, index: u64, kind: EntryKind, payload: &[u8]) {
    let meta = EntryMeta { kind, flags: 0, epoch, index, timestamp: 1 };
    engine.append(p, &meta, b"k", payload).expect("is accepted");
}

#[test]
fn epoch_of_committed_entry_is_known_after_compaction() {
    let disk = SimulatedDisk::new(1);
    let (mut engine, p) = open(&disk);
    (1..4).for_each(|index| append(&mut engine, p, 1, index, EntryKind::Put, &[7; 1000]));
    append(&mut engine, p, 1, 4, EntryKind::Remove, b"");
    append(&mut engine, p, 3, 5, EntryKind::Put, &[7; 3000]);
    engine.commit(p, 4).expect("commits");
    engine.compact(p).expect("drops all that is committed");
    assert!(engine.read_entry(p, 4).is_err());
    assert_eq!(engine.epoch_at(p, 4), Ok(Some(1)));
    engine.checkpoint_begin(p, b"").expect("begins");
    (0..40).for_each(|now| assert!(engine.maintain(now).is_ok()));
    engine.truncate_after(p, 4).expect("cuts");
    drop(engine);
    disk.crash();
    let (mut engine, p) = open(&disk);
    assert_eq!(engine.partition_stats(p).expect("is open").last, (1, 4));
}

fn open_files(disk: &SimulatedDisk) -> u64 {
    disk.counts().of(DiskOperation::Open) - disk.counts().of(DiskOperation::Close)
}

#[test]
fn partition_dropped_during_maintenance_leaves_no_files_or_memory() {
    for steps in 0..60 {
        let disk = SimulatedDisk::new(steps);
        let (mut engine, p) = open(&disk);
        for _ in 0..6 {
            fill_segment(&mut engine, p);
        }
        engine.sync().expect("syncs");
        let before = open_files(&disk);
        engine.checkpoint_begin(p, b"").expect("begins");
        assert_eq!(open_files(&disk), before + 1);
        (0..steps).for_each(|now| assert!(engine.maintain(now).is_ok()));
        engine.drop_partition(PartitionId(1)).expect("is removed");
        // Maintenance makes the next file of the journal ahead.
        let of_journal = disk.clone().list("journal").map_or(0, |names| names.len() as u64);
        assert_eq!(of_journal, u64::from(steps > 0), "after {steps} steps");
        assert_eq!(open_files(&disk), of_journal, "after {steps} steps");
        assert_eq!(engine.stats().resident_bytes, 0, "after {steps} steps");
    }
}

#[test]
fn deferred_drop_frees_memory_then_files() {
    let disk = SimulatedDisk::new(3);
    let (mut engine, p) = open(&disk);
    (0..6).for_each(|_| fill_segment(&mut engine, p));
    engine.sync().expect("syncs");
    let folder = || disk.clone().list("p-0000000000000001").expect("lists").len();
    let (resident, files) = (engine.stats().resident_bytes, folder());
    assert!(resident > 0 && files > 2);
    engine.drop_partition_later(PartitionId(1)).expect("is removed");
    assert!(engine.partitions().next().is_none());
    assert_eq!(open_files(&disk), 0, "they are not written any more");
    assert_eq!((engine.stats().resident_bytes, folder()), (resident, files), "nothing was done yet");
    let (mut now, mut before) = (0, resident);
    while engine.stats().resident_bytes > 0 {
        assert!(engine.maintain(now).expect("goes on"), "there is more to do");
        assert!(before - engine.stats().resident_bytes < resident / 2, "a bit at a time");
        assert_eq!(folder(), files);
        (now, before) = (now + 1, engine.stats().resident_bytes);
        assert!(now < 1_000);
    }
    while engine.maintain(now).expect("goes on") {
        now += 1;
        assert!(now < 1_000);
    }
    assert_eq!(folder(), 0);
}

#[test]
fn open_of_deferred_drop_gives_an_empty_partition() {
    let disk = SimulatedDisk::new(3);
    let (mut engine, p) = open(&disk);
    fill_segment(&mut engine, p);
    engine.sync().expect("syncs");
    engine.drop_partition_later(PartitionId(1)).expect("is removed");
    let p = engine.partition(PartitionId(1), PartitionOptions::default()).expect("opens");
    assert_eq!(engine.partition_stats(p).expect("is open").records, 0);
    // The new partition stays: no later removal deletes its files.
    fill_segment(&mut engine, p);
    let records = engine.partition_stats(p).expect("is open").records;
    (0..3_000).for_each(|now| assert!(engine.maintain(now).is_ok()));
    engine.close().expect("closes");
    let (mut engine, _) = Engine::open(disk, EngineOptions::default()).expect("opens");
    let p = engine.partitions().next().expect("is there").1;
    assert_eq!(engine.partition_stats(p).expect("is open").records, records);
}

#[test]
fn deferred_drops_finish_at_clean_close() {
    let disk = SimulatedDisk::new(3);
    let (mut engine, p) = open(&disk);
    fill_segment(&mut engine, p);
    engine.sync().expect("syncs");
    engine.drop_partition_later(PartitionId(1)).expect("is removed");
    engine.close().expect("closes");
    assert!(disk.clone().list("p-0000000000000001").expect("lists").is_empty());
}

#[test]
fn segments_replaced_while_pinned_are_removed_at_unpin() {
    let disk = SimulatedDisk::new(1);
    let (mut engine, p) = open(&disk);
    (0..6).for_each(|_| fill_segment(&mut engine, p));
    engine.sync().expect("syncs");
    let pinned = engine.pin_segments(p).expect("is open");
    engine.compact(p).expect("compacts");
    let is_there = |path: &str| {
        let (folder, name) = path.split_once('/').expect("is in a folder");
        disk.clone().list(folder).expect("lists").iter().any(|entry| entry.name == name)
    };
    assert!(pinned.iter().all(|file| is_there(&file.path)));
    engine.unpin(p, &pinned).expect("is open");
    assert!(!pinned.iter().any(|file| is_there(&file.path)));
}

/// What is left of the log must not be read as one that has lost entries: a rewritten segment confirms newer ones.
#[test]
fn crash_during_drop_leaves_nothing_that_looks_damaged() {
    let mut crashes = 0;
    for (seed, nth) in (0..8).flat_map(|seed| (1..8).map(move |nth| (seed, nth))) {
        let disk = SimulatedDisk::new(seed);
        let (mut engine, p) = open(&disk);
        for key in 0..8_u8 {
            write(&mut engine, p, EntryKind::Put, 0, &[key], &[7; 300]);
            fill_segment(&mut engine, p);
        }
        engine.compact(p).expect("compacts");
        engine.checkpoint_begin(p, b"").expect("begins");
        engine.finish_work(p).expect("is written");
        fill_segment(&mut engine, p);
        engine.sync().expect("syncs");
        disk.cut_power_at(&[CrashPoint::PartitionFileRemoved], nth, 1);
        let dropped = engine.drop_partition(PartitionId(1));
        crashes += u64::from(dropped.is_err());
        drop(engine);
        disk.crash();
        open(&disk);
    }
    assert!(crashes > 8, "{crashes} crashes were during a drop");
}
