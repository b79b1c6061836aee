//! Marks and footers behind the last durable entry of a segment, which a crash may tear.

use zerohop_engine::disk::Disk;
use zerohop_engine::disk::simulated::SimulatedDisk;
use zerohop_engine::{Durability, Engine, EngineOptions, EntryKind, Handle, PartitionId, PartitionOptions};

use crate::support::TestEngine as Store;

fn open(disk: &SimulatedDisk, what: &str) -> (Store, Handle) {
    let options = EngineOptions { segment_bytes: 4 << 10, disk_reserve_bytes: 0, ..EngineOptions::default() };
    let (mut engine, report) = Engine::open(disk.clone(), options).expect("opens");
    assert_eq!(report.damage().map(ToString::to_string).next(), None, "{what}");
    engine.commit_all().expect("commits");
    let options = PartitionOptions { durability: Durability::Interval { ms: 10 }, index_seed: 7 };
    let p = engine.partition(PartitionId(1), options).expect("opens");
    (engine, p)
}

fn put(engine: &mut Store, p: Handle) -> u64 {
    engine.write(p, EntryKind::Put, 0, 1, b"key", &[7; 100]).expect("is accepted")
}

fn has_checkpoint(disk: &SimulatedDisk) -> bool {
    let names = disk.clone().list("p-0000000000000001").expect("lists");
    names.iter().any(|name| name.name.ends_with(".ckp"))
}

/// A mark behind the last entry says that the entry is synced; the mark itself is not synced.
#[test]
fn torn_mark_at_end_of_checkpointed_log_is_truncated() {
    let mut met = 0;
    for seed in 0..400 {
        let disk = SimulatedDisk::new(seed);
        let (mut engine, p) = open(&disk, "new");
        for _ in 0..5 {
            put(&mut engine, p);
        }
        let mut now = 100;
        while engine.durable_index(p).expect("is open") < 5 {
            now += 10;
            engine.maintain(now).expect("goes well");
        }
        engine.checkpoint_begin(p, b"").expect("begins");
        // No time passes, so that no interval causes a sync.
        for step in 0..40 {
            engine.maintain(now).expect("goes well");
            if step == seed % 8 {
                put(&mut engine, p);
            }
        }
        drop(engine);
        disk.crash();
        met += u64::from(has_checkpoint(&disk));
        let (mut engine, p) = open(&disk, "after the crash");
        for _ in 0..5 {
            put(&mut engine, p);
        }
        let (_, last) = engine.partition_stats(p).expect("is open").last;
        engine.close().expect("closes");
        let mut disk = disk;
        for name in disk.list("p-0000000000000001").expect("lists") {
            if name.name.ends_with(".ckp") {
                disk.remove(&format!("p-0000000000000001/{}", name.name)).expect("is there");
            }
        }
        let (mut engine, p) = open(&disk, &format!("seed {seed}, without checkpoints"));
        assert_eq!(engine.partition_stats(p).expect("is open").last.1, last, "seed {seed}");
    }
    assert!(met > 0);
}

/// The process dies while the end of a sealed segment is only in the system's cache: the segment's
/// last entry is durable, but not necessarily all of the segment.
#[test]
fn recovered_entries_stay_durable_behind_torn_sealed_segment() {
    for seed in 0..200 {
        let disk = SimulatedDisk::new(seed);
        let (mut engine, p) = open(&disk, "new");
        put(&mut engine, p);
        let mut now = 100;
        while engine.durable_index(p).expect("is open") < 1 {
            now += 10;
            engine.maintain(now).expect("goes well");
        }
        for _ in 0..2 {
            engine.write(p, EntryKind::Put, 0, 1, b"key", &[7; 4000]).expect("is accepted");
        }
        // Writes the buffered bytes, and begins to sync them.
        engine.maintain(now + 10).expect("goes well");
        drop(engine);
        let (mut engine, p) = open(&disk, "after the process died");
        let durable = engine.durable_index(p).expect("is open");
        drop(engine);
        disk.crash();
        let (mut engine, p) = open(&disk, "after the crash");
        let (_, last) = engine.partition_stats(p).expect("is open").last;
        assert!(last >= durable, "seed {seed}: {last} entries of {durable} that were durable");
    }
}
