//! The journal leaves a small or full disk its room.

use zerohop_engine::disk::simulated::SimulatedDisk;
use zerohop_engine::limits::{JOURNAL_FILE_BYTES_MIN, JOURNAL_OF_FREE};
use zerohop_engine::{Durability, Engine, EngineError, EngineOptions, EntryKind, Handle, PartitionId};

use crate::full_disk::{key, partition};
use crate::support::TestEngine as Store;

const MIB: u64 = 1 << 20;

fn options() -> EngineOptions {
    EngineOptions { disk_reserve_bytes: 2 * MIB, memory_bytes: MIB, ..EngineOptions::default() }
}

fn put(engine: &mut Store, p: Handle, n: u64) -> Result<(), EngineError> {
    engine.write(p, EntryKind::Put, 0, n, &key(n % 100), &[7; 50_000])?;
    engine.flush()
}

/// An instance on a disk of 64 MiB would otherwise close its first file at 64 MiB.
#[test]
fn files_of_a_small_disk_are_small() {
    let disk = SimulatedDisk::new(1);
    disk.set_capacity(64 * MIB);
    let (mut engine, _) = Engine::open(disk.clone(), options()).expect("opens");
    let p = partition(&mut engine, Durability::Sync);
    let most = 3 * (64 * MIB / JOURNAL_OF_FREE);
    for n in 0..400 {
        put(&mut engine, p, n).expect("is accepted");
        (0..20).for_each(|step| {
            engine.maintain(20 * n + step).expect("goes on");
        });
        assert!(engine.stats().journal_bytes <= most, "{} after {n}", engine.stats().journal_bytes);
    }
}

/// Another program fills the disk. Nothing is written any more that would close the file.
#[test]
fn file_that_is_written_is_removed_from_a_full_disk() {
    let disk = SimulatedDisk::new(1);
    let (mut engine, _) = Engine::open(disk.clone(), options()).expect("opens");
    let p = partition(&mut engine, Durability::Sync);
    for n in 0..100 {
        put(&mut engine, p, n).expect("is accepted");
        engine.maintain(n).expect("goes on");
    }
    let journal_bytes = engine.stats().journal_bytes;
    assert!(journal_bytes > 4 * MIB, "{journal_bytes}");
    disk.set_capacity(11 * MIB);
    assert!(matches!(put(&mut engine, p, 100), Err(EngineError::DiskFull { .. })));
    for now in 1_000..2_000 {
        engine.maintain(now).expect("goes on");
        engine.check_disk_space();
    }
    assert!(engine.stats().journal_bytes < JOURNAL_FILE_BYTES_MIN, "{}", engine.stats().journal_bytes);
    put(&mut engine, p, 100).expect("there is room again");
    drop(engine);
    disk.crash();
    let (mut engine, report) = Engine::open(disk, options()).expect("opens");
    assert_eq!(report.damage().next(), None);
    engine.commit_all().expect("commits");
    let p = engine.partition(PartitionId(1), Default::default()).expect("opens");
    for n in 0..100 {
        assert!(engine.lookup_assembled(p, &key(n)).expect("reads").is_some(), "{n}");
    }
}
