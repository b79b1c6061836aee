//! A process that has no descriptor left refuses writes for as long as that lasts. Nothing that was acknowledged is lost, no partition is damaged, and
//! writes succeed again once there are descriptors.

use std::collections::BTreeSet;

use zerohop_engine::disk::simulated::{SimulatedDisk, SimulatedFaults};
use zerohop_engine::{
    Durability, Engine, EngineError, EngineOptions, EntryKind, Handle, PartitionId, PartitionOptions,
};

use crate::support::TestEngine as Store;

fn options() -> EngineOptions {
    EngineOptions {
        segment_bytes: 32 << 10,
        journal_file_bytes: 16 << 10,
        memory_bytes: 64 << 10,
        ..EngineOptions::default()
    }
}

fn partition(engine: &mut Store, durability: Durability) -> Handle {
    engine.partition(PartitionId(1), PartitionOptions { durability, index_seed: 7 }).expect("opens")
}

fn key(n: u64) -> Vec<u8> {
    format!("key {n}").into_bytes()
}

fn value(n: u64) -> Vec<u8> {
    vec![n as u8; 1000]
}

/// Writes these records, with maintenance at each. Returns those that are acknowledged; `None` of the result: an operation was refused.
fn write_all(engine: &mut Store, p: Handle, numbers: std::ops::Range<u64>) -> (BTreeSet<u64>, u64) {
    let (mut acknowledged, mut refused) = (BTreeSet::new(), 0);
    let mut check = |what: &str, result: Result<(), EngineError>| match result {
        Ok(()) => true,
        Err(EngineError::Scarce { .. }) => {
            refused += 1;
            false
        }
        Err(other) => panic!("{what}: {other}"),
    };
    for n in numbers {
        let written = engine.write(p, EntryKind::Put, 0, n, &key(n), &value(n)).map(drop);
        if check("a write", written.and_then(|()| engine.flush())) {
            acknowledged.insert(n);
        }
        check("maintenance", engine.maintain(10 * n).map(drop));
        if n % 64 == 0 && engine.checkpoint_is_due(p).expect("is open") {
            check("a checkpoint", engine.checkpoint_begin(p, b"state").map(drop));
        }
    }
    (acknowledged, refused)
}

#[test]
fn process_without_descriptors_loses_nothing_and_goes_on_later() {
    for seed in 0..12 {
        let durability = match seed % 2 {
            0 => Durability::Sync,
            _ => Durability::Interval { ms: 10 },
        };
        let disk = SimulatedDisk::new(seed);
        let (mut engine, _) = Engine::open(disk.clone(), options()).expect("opens");
        let p = partition(&mut engine, durability);
        let (mut kept, _) = write_all(&mut engine, p, 0..300);
        assert_eq!(kept.len(), 300);
        // From few refusals to nothing but refusals.
        let mut refusals = 0;
        for (round, (numerator, denominator)) in [(1, 50), (1, 4), (1, 1)].into_iter().enumerate() {
            disk.set_faults(SimulatedFaults::default().scarce(numerator, denominator));
            let from = 300 + 300 * round as u64;
            let (acknowledged, refused) = write_all(&mut engine, p, from..from + 300);
            kept.extend(acknowledged);
            refusals += refused;
        }
        // Writes of an interval are accepted in memory, and made durable later.
        assert!(refusals > 0 || durability != Durability::Sync, "seed {seed}");
        disk.set_faults(SimulatedFaults::default());
        let (again, refused) = write_all(&mut engine, p, 2000..2300);
        assert_eq!((again.len(), refused), (300, 0), "seed {seed}");
        kept.extend(again);
        engine.sync().expect("there are descriptors");
        for crashes in [false, true] {
            for &n in &kept {
                let found = engine.lookup_assembled(p, &key(n)).expect("reads");
                assert_eq!(found, Some(value(n)), "seed {seed}: record {n}, after a crash: {crashes}");
            }
            if !crashes {
                drop(engine);
                disk.crash();
                let (opened, report) = Engine::open(disk.clone(), options()).expect("opens");
                assert_eq!(report.damage().next(), None);
                engine = opened;
                engine.commit_all().expect("commits");
                assert_eq!(partition(&mut engine, durability), p);
            }
        }
    }
}
