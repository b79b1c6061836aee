//! Few files can still be created, although bytes are free: writes are refused before data is accepted that finds no file.

use zerohop_engine::disk::simulated::SimulatedDisk;
use zerohop_engine::{Durability, Engine, EngineError, EntryKind, Handle};

use crate::full_disk::{INTERVAL, key, maintain_for, options, partition, value};
use crate::support::TestEngine as Store;

const RESERVE: u64 = 200 << 10;

fn write(engine: &mut Store, p: Handle, kind: EntryKind, n: u64) -> Result<(), EngineError> {
    let value = if kind == EntryKind::Put { value(n) } else { Vec::new() };
    engine.write(p, kind, 0, 1, &key(n), &value)?;
    engine.flush()
}

#[test]
fn writes_are_refused_and_removals_accepted_until_files_can_be_created() {
    for durability in [INTERVAL, Durability::Sync] {
        let disk = SimulatedDisk::new(3);
        disk.set_capacity(64 << 20);
        let (mut engine, _) = Engine::open(disk.clone(), options(RESERVE)).expect("opens");
        let p = partition(&mut engine, durability);
        for n in 0..20 {
            write(&mut engine, p, EntryKind::Put, n).expect("there is room");
        }
        disk.set_lacks_files(true);
        engine.check_disk_space();
        assert!(!engine.has_disk_space(), "{durability:?}");
        maintain_for(&mut engine, p, 100..200);
        for n in 0..10 {
            let refused = write(&mut engine, p, EntryKind::Put, 100 + n);
            assert!(matches!(refused, Err(EngineError::DiskFull { .. })), "{durability:?}: {refused:?}");
            write(&mut engine, p, EntryKind::Remove, n).expect("a removal is accepted");
        }
        disk.set_lacks_files(false);
        engine.check_disk_space();
        assert!(engine.has_disk_space(), "{durability:?}");
        write(&mut engine, p, EntryKind::Put, 200).expect("there are files again");
        assert_eq!(engine.records(p).expect("is open"), 11);
    }
}
