//! Another program fills the disk to the last byte: the room that an engine holds lets removals in, and gives their space back.

use zerohop_engine::disk::Disk;
use zerohop_engine::disk::simulated::SimulatedDisk;
use zerohop_engine::{Durability, Engine, EngineError, EngineOptions, EntryKind, Handle};

use crate::full_disk::{INTERVAL, key, maintain_for, options, partition, value};
use crate::support::TestEngine as Store;

const PLENTY: u64 = 8 << 20;
const BALLAST: u64 = 128 << 10;
const RECORDS: u64 = 300;

fn free_bytes(disk: &SimulatedDisk) -> u64 {
    disk.clone().free_bytes().expect("is known")
}

/// A store with records on a disk that another program has filled.
fn on_filled_disk(disk: &SimulatedDisk, durability: Durability, ballast: Option<u64>) -> (Store, Handle) {
    disk.set_capacity(PLENTY);
    disk.set_preallocated_bytes(16 << 10);
    let options = EngineOptions { starts_checkpoints: false, ..options(200 << 10) };
    let (mut engine, _) = Engine::open(disk.clone(), options).expect("opens");
    ballast.into_iter().for_each(|bytes| engine.keep_ballast(bytes));
    let p = partition(&mut engine, durability);
    engine.declare_state_in_log(p).expect("is open");
    for n in 0..RECORDS {
        engine.write(p, EntryKind::Put, 0, n, &key(n), &value(n)).expect("there is room");
        engine.flush().expect("there is room");
    }
    maintain_for(&mut engine, p, 1_000..3_000);
    disk.set_capacity(PLENTY - free_bytes(disk));
    engine.check_disk_space();
    assert_eq!(free_bytes(disk), 0);
    (engine, p)
}

fn remove(engine: &mut Store, p: Handle, n: u64) -> Result<(), EngineError> {
    engine.write(p, EntryKind::Remove, 0, 5_000, &key(n), b"")?;
    engine.flush()
}

#[test]
fn removals_on_a_disk_without_a_free_byte_use_ballast_and_give_space_back() {
    for durability in [INTERVAL, Durability::Sync] {
        let disk = SimulatedDisk::new(1);
        let (mut engine, p) = on_filled_disk(&disk, durability, Some(BALLAST));
        let refused = engine.write(p, EntryKind::Put, 0, 4_000, b"new", &value(1));
        assert!(matches!(refused, Err(EngineError::DiskFull { .. })), "{refused:?}");
        assert_eq!(free_bytes(&disk), 0, "a write takes nothing of the ballast");
        for n in 1..RECORDS {
            remove(&mut engine, p, n).unwrap_or_else(|error| panic!("{durability:?}, removal {n}: {error}"));
            if n % 10 == 0 {
                maintain_for(&mut engine, p, 10_000 + 10 * n..10_010 + 10 * n);
            }
        }
        maintain_for(&mut engine, p, 20_000..28_000);
        assert!(free_bytes(&disk) > BALLAST + 100_000, "{durability:?}: {}", free_bytes(&disk));
        engine.close().expect("everything has its place");
        disk.power_off_clean();
        let (mut engine, _) = Engine::open(disk, options(200 << 10)).expect("opens");
        engine.commit_all().expect("commits");
        let p = partition(&mut engine, durability);
        assert_eq!(engine.lookup_assembled(p, &key(0)).expect("reads"), Some(value(0)));
        assert_eq!(engine.records(p).expect("is open"), 1, "{durability:?}");
    }
}

#[test]
fn removals_on_a_disk_without_a_free_byte_are_refused_without_ballast() {
    let disk = SimulatedDisk::new(1);
    let (mut engine, p) = on_filled_disk(&disk, INTERVAL, None);
    let refused = remove(&mut engine, p, 1);
    assert!(matches!(refused, Err(EngineError::DiskFull { .. })), "{refused:?}");
}

#[test]
fn ballast_is_bounded_and_filled_again_once_the_disk_has_room() {
    let disk = SimulatedDisk::new(1);
    let (mut engine, p) = on_filled_disk(&disk, INTERVAL, Some(BALLAST));
    // Nothing is compacted: no maintenance runs.
    let accepted = (0..100_000u64).take_while(|n| remove(&mut engine, p, n % RECORDS).is_ok()).count();
    assert!((RECORDS as usize..50_000).contains(&accepted), "{accepted}");
    assert!(free_bytes(&disk) > 0, "compaction keeps its part");
    disk.set_capacity(PLENTY);
    let before = free_bytes(&disk);
    maintain_for(&mut engine, p, 10_000..12_000);
    let file = disk.clone().list("").expect("is listed").into_iter().find(|entry| entry.name == "reserve");
    assert_eq!(file.map(|entry| entry.bytes), Some(BALLAST), "{before}");
}
