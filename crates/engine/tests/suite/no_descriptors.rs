//! A process that has no descriptor left refuses writes for as long as that lasts. Nothing that was acknowledged is lost, no partition is damaged, and
//! writes succeed again once there are descriptors.

use std::collections::BTreeSet;

use zerohop_engine::disk::DiskError;
use zerohop_engine::disk::simulated::{SimulatedDisk, SimulatedFaults};
use zerohop_engine::{
    Durability, Engine, EngineError, EngineOptions, EntryKind, Handle, PartitionId, PartitionOptions,
};

use crate::support::TestEngine as Store;
use crate::support::plan::LOG;

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

const NONE_LEFT: DiskError = DiskError::Scarce { what: "there is no descriptor" };

/// How often calls are refused one after the other.
const REFUSALS: [u64; 3] = [1, 2, 40];

/// A disk on which half of the records of a partition were replaced: compaction has work to do.
fn disk_to_compact(options: &EngineOptions) -> (SimulatedDisk, BTreeSet<u64>) {
    let disk = SimulatedDisk::new(11);
    let (mut engine, _) = Engine::open(disk.clone(), *options).expect("opens");
    let p = partition(&mut engine, Durability::Sync);
    for n in (0..120).chain((0..120).filter(|n| n % 2 == 0)) {
        engine.write(p, EntryKind::Put, 0, n, &key(n), &value(n)).expect("there is room");
        engine.flush().expect("there are descriptors");
    }
    engine.commit_all().expect("commits");
    engine.sync().expect("there are descriptors");
    drop(engine);
    disk.power_off_clean();
    (disk, (0..120).collect())
}

fn is_temporary(error: &EngineError) -> bool {
    matches!(error, EngineError::DiskFull { .. } | EngineError::Scarce { .. }) || error.is_out_of_space()
}

/// Opens a copy of the disk, refuses calls during the work, and then expects that writes, work and reads succeed, also after a crash.
/// Returns whether a call was refused.
fn refused_work_is_done_later(
    (from, kept): &(SimulatedDisk, BTreeSet<u64>),
    (options, error, before, times): (&EngineOptions, &DiskError, u64, u64),
    work: impl Fn(&mut Store, Handle) -> Result<(), EngineError>,
) -> bool {
    let at = format!("{error:?}, {before} calls pass, {times} are refused");
    let disk = from.duplicate();
    let (mut engine, _) = Engine::open(disk.clone(), *options).expect("opens");
    engine.commit_all().expect("commits");
    let p = partition(&mut engine, Durability::Sync);
    disk.refuse(error.clone(), before, times);
    if let Err(other) = work(&mut engine, p) {
        assert!(is_temporary(&other), "{at}: {other}");
    }
    let was_refused = disk.refusals_left() < times;
    disk.refuse(error.clone(), 0, 0);
    engine.flush().unwrap_or_else(|other| panic!("{at}, the flush later: {other}"));
    // A disk that was full is asked for its room again after a while.
    for round in 0..50 {
        engine.maintain(5_000 + 50 * round).unwrap_or_else(|other| panic!("{at}: {other}"));
    }
    let later = 1000;
    engine
        .write(p, EntryKind::Put, 0, later, &key(later), &value(later))
        .unwrap_or_else(|other| panic!("{at}: {other}"));
    engine.flush().unwrap_or_else(|other| panic!("{at}: {other}"));
    engine.commit_all().expect("commits");
    work(&mut engine, p).unwrap_or_else(|other| panic!("{at}, the work later: {other}"));
    for crashes in [false, true] {
        for &n in kept.iter().chain(&[later]) {
            let found = engine
                .lookup_assembled(p, &key(n))
                .unwrap_or_else(|other| panic!("{at}: record {n}: {other}"));
            assert_eq!(found, Some(value(n)), "{at}: record {n}, after a crash: {crashes}");
        }
        if !crashes {
            drop(engine);
            disk.crash();
            let (opened, report) = Engine::open(disk.clone(), *options).expect("opens");
            assert_eq!(report.damage().next(), None, "{at}");
            engine = opened;
            engine.commit_all().expect("commits");
            assert_eq!(partition(&mut engine, Durability::Sync), p);
        }
    }
    was_refused
}

/// Refuses calls from each call of the work on. Returns how many calls were tried.
fn at_each_call(
    options: &EngineOptions,
    work: impl Fn(&mut Store, Handle) -> Result<(), EngineError>,
) -> u64 {
    let from = disk_to_compact(options);
    let mut calls = 0;
    for error in [NONE_LEFT, DiskError::Full] {
        for times in REFUSALS {
            let is_refused =
                |&before: &u64| refused_work_is_done_later(&from, (options, &error, before, times), &work);
            calls += (0..).take_while(is_refused).count() as u64;
        }
    }
    calls
}

fn compact(engine: &mut Store, p: Handle) -> Result<(), EngineError> {
    engine.compact(p)
}

/// Steps that do not wait, as between requests.
fn maintain_for_long(engine: &mut Store, _: Handle) -> Result<(), EngineError> {
    (0..400).try_for_each(|round| engine.maintain(10_000 + 10 * round).map(drop))
}

fn checkpoint(engine: &mut Store, p: Handle) -> Result<(), EngineError> {
    engine.checkpoint_begin(p, b"state")?;
    engine.finish_work(p)
}

/// Writes, some of them over a journal file's end. Refused ones are repeated by the test.
fn write_more(engine: &mut Store, p: Handle) -> Result<(), EngineError> {
    (2000..2040).try_for_each(|n| {
        engine.write(p, EntryKind::Put, 0, n, &key(n), &value(n))?;
        engine.flush()
    })
}

#[test]
fn write_refused_at_any_call_is_done_later() {
    assert!(at_each_call(&options(), write_more) > 10);
    let options = EngineOptions { shared_log: Some(LOG), ..options() };
    assert!(at_each_call(&options, write_more) > 10);
}

#[test]
fn compaction_refused_at_any_call_is_done_later() {
    assert!(at_each_call(&options(), compact) > 20);
    assert!(at_each_call(&options(), maintain_for_long) > 20);
}

#[test]
fn checkpoint_refused_at_any_call_is_done_later() {
    assert!(at_each_call(&options(), checkpoint) > 10);
}

#[test]
fn work_over_a_shared_log_refused_at_any_call_is_done_later() {
    let options = EngineOptions { shared_log: Some(LOG), ..options() };
    assert!(at_each_call(&options, maintain_for_long) > 10);
    assert!(at_each_call(&options, checkpoint) > 10);
}
