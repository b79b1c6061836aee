//! Splits on a disk without room: the parent stays whole, the split is repeated later, and most of the reserve stays free.

use zerohop_engine::disk::simulated::SimulatedDisk;
use zerohop_engine::disk::{Disk, DiskError};
use zerohop_engine::{
    Durability, Engine, EngineError, EngineOptions, EntryKind, Handle, PartitionId, PartitionOptions,
};

use crate::full_disk::{INTERVAL, key, options, partition, value};
use crate::support::TestEngine as Store;

const PARENT: PartitionId = PartitionId(1);
const CHILDREN: [PartitionId; 2] = [PartitionId(2), PartitionId(3)];
const RECORDS: u64 = 60;

fn filled(disk: &SimulatedDisk, durability: Durability, options: EngineOptions) -> (Store, Handle) {
    let (mut engine, _) = Engine::open(disk.clone(), options).expect("opens");
    let p = partition(&mut engine, durability);
    for n in 0..RECORDS {
        engine.write(p, EntryKind::Put, 0, 1, &key(n), &value(n)).expect("there is room");
        engine.flush().expect("there is room");
    }
    (engine, p)
}

fn check_children(engine: &mut Store, durability: Durability) {
    for child in CHILDREN {
        let p = engine.partition(child, PartitionOptions { durability, index_seed: 7 }).expect("opens");
        for n in 0..RECORDS {
            let found = engine.lookup_assembled(p, &key(n)).expect("reads");
            assert_eq!(found, Some(value(n)), "{durability:?}: record {n} of {child}");
        }
    }
}

#[test]
fn split_that_the_disk_refuses_at_any_call_is_repeated() {
    for durability in [INTERVAL, Durability::Sync] {
        let mut refused = 0;
        for before in 0.. {
            let disk = SimulatedDisk::new(before);
            let (mut engine, _) = filled(&disk, durability, options(0));
            disk.refuse(DiskError::Full, before, 1);
            let first = engine.split_partition(PARENT, &CHILDREN, None);
            if disk.refusals_left() > 0 {
                assert_eq!(first.expect("nothing was refused"), None);
                check_children(&mut engine, durability);
                break;
            }
            refused += 1;
            if first.is_err() {
                engine.split_partition(PARENT, &CHILDREN, None).expect("there is room now");
            }
            check_children(&mut engine, durability);
            engine.close().expect("closes");
            disk.power_off_clean();
            let (mut engine, _) = Engine::open(disk, options(0)).expect("opens");
            engine.commit_all().expect("commits");
            check_children(&mut engine, durability);
        }
        assert!(refused > 10, "{durability:?}: {refused}");
    }
}

#[test]
fn split_leaves_most_of_the_reserve() {
    const RESERVE: u64 = 200 << 10;
    for durability in [INTERVAL, Durability::Sync] {
        let disk = SimulatedDisk::new(1);
        disk.set_capacity(64 << 20);
        let (mut engine, p) = filled(&disk, durability, options(RESERVE));
        let used = (64 << 20) - disk.clone().free_bytes().expect("is known");
        disk.set_capacity(used + RESERVE);
        for _ in 0..3 {
            let ahead = engine.split_ahead(PARENT, &CHILDREN);
            let split = ahead.and_then(|_| engine.split_partition(PARENT, &CHILDREN, None));
            assert!(matches!(split, Err(EngineError::DiskFull { .. })), "{durability:?}: {split:?}");
            let free = disk.clone().free_bytes().expect("is known");
            assert!(free >= RESERVE / 4 * 3, "{durability:?}: {free}");
        }
        assert_eq!(engine.records(p).expect("is open"), RECORDS);
        disk.set_capacity(64 << 20);
        engine.split_partition(PARENT, &CHILDREN, None).expect("there is room");
        check_children(&mut engine, durability);
    }
}
