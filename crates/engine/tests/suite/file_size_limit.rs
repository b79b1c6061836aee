//! A limit of file sizes (`ulimit -f`): an entry that no file can hold is refused before it is accepted, and every accepted
//! one reaches the disk.

use std::collections::BTreeMap;

use zerohop_engine::disk::simulated::SimulatedDisk;
use zerohop_engine::disk::{Disk, OpenMode};
use zerohop_engine::limits::{FILE_BYTES_MIN, SEGMENT_FRAME_BYTES};
use zerohop_engine::{
    Durability, Engine, EngineError, EngineOptions, EntryKind, Handle, NewEntry, PartitionId,
    PartitionOptions,
};

use crate::support::TestEngine as Store;

const INTERVAL: Durability = Durability::Interval { ms: 10 };

type Contents = BTreeMap<u64, (u8, usize)>;

fn open(disk: &SimulatedDisk, durability: Durability) -> (Store, Handle) {
    let options = EngineOptions { disk_reserve_bytes: 0, ..EngineOptions::default() };
    let (mut engine, report) = Engine::open(disk.clone(), options).expect("opens");
    assert_eq!(report.damage().next(), None);
    engine.commit_all().expect("commits");
    let handle = engine.partition(PartitionId(1), PartitionOptions { durability, index_seed: 7 });
    (engine, handle.expect("opens"))
}

fn key(n: u64) -> Vec<u8> {
    format!("key {n}").into_bytes()
}

/// Writes a value; returns whether it was accepted.
fn put(engine: &mut Store, p: Handle, n: u64, bytes: usize, contents: &mut Contents) -> bool {
    match engine.write(p, EntryKind::Put, 0, n + 1, &key(n), &vec![n as u8; bytes]) {
        Ok(_) => {
            contents.insert(n, (n as u8, bytes));
            true
        }
        Err(EngineError::FileSizeLimit { limit_bytes }) => {
            assert!(bytes as u64 + SEGMENT_FRAME_BYTES > limit_bytes - 100, "{bytes} of {limit_bytes}");
            false
        }
        Err(other) => panic!("write {n} of {bytes} bytes: {other}"),
    }
}

fn check(disk: &SimulatedDisk, durability: Durability, contents: &Contents) {
    let (mut engine, p) = open(disk, durability);
    for (&n, &(byte, bytes)) in contents {
        let found = engine.lookup_assembled(p, &key(n)).expect("reads");
        assert!(found == Some(vec![byte; bytes]), "{durability:?}: value {n} of {bytes} bytes");
    }
}

#[test]
fn every_accepted_entry_is_found_after_a_clean_stop() {
    for durability in [INTERVAL, Durability::Sync] {
        for limit in [FILE_BYTES_MIN, 3 << 20] {
            let disk = SimulatedDisk::new(limit);
            disk.set_file_bytes_max(limit);
            let mut contents = Contents::new();
            let (mut engine, p) = open(&disk, durability);
            let mut refused = 0;
            // From the shortest to values above the limit, those that fill a file exactly included.
            let longest = limit - SEGMENT_FRAME_BYTES - 80;
            let sizes = [10, 1000, 60 << 10, 70 << 10, 400 << 10, 900 << 10, longest, limit, 2 * limit];
            for n in 0..400 {
                let bytes = sizes[(n * 7 % 90 / 10) as usize] as usize;
                refused += usize::from(!put(&mut engine, p, n, bytes, &mut contents));
                if n % 9 == 0 {
                    engine.flush().expect("flushes");
                }
                engine.maintain(n).expect("maintains");
                assert!(engine.has_disk_space(), "{durability:?}, {limit}: no file has become too long");
            }
            assert!(refused > 40 && contents.len() > 300, "{refused} {}", contents.len());
            engine.close().expect("closes");
            disk.power_off_clean();
            check(&disk, durability, &contents);
            disk.power_off_clean();
            disk.set_file_bytes_max(None);
            check(&disk, durability, &contents);
        }
    }
}

/// Without a flush in between, the batch is longer than a file may be.
#[test]
fn long_batch_is_spread_over_journal_files() {
    let disk = SimulatedDisk::new(1);
    disk.set_file_bytes_max(FILE_BYTES_MIN);
    let mut contents = Contents::new();
    let (mut engine, p) = open(&disk, Durability::Sync);
    for n in 0..100 {
        assert!(put(&mut engine, p, n, 50 << 10, &mut contents));
    }
    let batch: Vec<(Vec<u8>, Vec<u8>)> = (100..140).map(|n| (key(n), vec![n as u8; 50 << 10])).collect();
    let entries = batch.iter().map(|(key, payload)| NewEntry {
        kind: EntryKind::Put,
        flags: 0,
        timestamp: 1000,
        key,
        payload,
        hint: None,
    });
    engine.write_batch(p, entries).expect("is accepted");
    contents.extend((100..140).map(|n| (n, (n as u8, 50 << 10))));
    engine.flush().expect("flushes");
    drop(engine);
    disk.crash();
    check(&disk, Durability::Sync, &contents);
}

/// The last segment is longer than the new limit, and so are others.
#[test]
fn segments_from_before_a_limit_stay_readable_and_writes_continue() {
    for durability in [INTERVAL, Durability::Sync] {
        let disk = SimulatedDisk::new(1);
        let mut contents = Contents::new();
        let (mut engine, p) = open(&disk, durability);
        for n in 0..90 {
            assert!(put(&mut engine, p, n, 300 << 10, &mut contents));
        }
        engine.close().expect("closes");
        disk.power_off_clean();
        disk.set_file_bytes_max(FILE_BYTES_MIN);
        let (mut engine, p) = open(&disk, durability);
        // Half of the old values die: their segments are worth a compaction, whose copy no file could hold.
        for n in (0..90).step_by(2).chain(100..300) {
            assert!(put(&mut engine, p, n, 30 << 10, &mut contents));
            engine.flush().expect("flushes");
            engine.maintain(200 * n).expect("maintains");
            assert!(engine.has_disk_space(), "{durability:?}: no file has become too long");
        }
        engine.close().expect("closes");
        disk.power_off_clean();
        disk.set_file_bytes_max(None);
        check(&disk, durability, &contents);
        disk.crash();
        disk.set_file_bytes_max(FILE_BYTES_MIN);
        check(&disk, durability, &contents);
    }
}

#[test]
fn store_is_not_opened_under_a_limit_below_the_least() {
    let disk = SimulatedDisk::new(1);
    disk.set_file_bytes_max(FILE_BYTES_MIN - 1);
    let refusal = Engine::open(disk, EngineOptions::default()).map(drop).expect_err("is refused");
    let EngineError::FileSizeLimit { limit_bytes } = refusal else { panic!("{refusal}") };
    assert_eq!(limit_bytes, FILE_BYTES_MIN - 1);
    assert!(refusal.to_string().contains("ulimit -f"), "{refusal}");
}

#[test]
fn ballast_is_no_longer_than_a_file_may_be() {
    let disk = SimulatedDisk::new(4);
    disk.set_file_bytes_max(FILE_BYTES_MIN);
    let (mut engine, _) = open(&disk, INTERVAL);
    engine.keep_ballast(4 * FILE_BYTES_MIN);
    for n in 0..10_000 {
        engine.maintain(n).expect("maintains");
    }
    engine.close().expect("closes");
    let mut reading = disk;
    let file = reading.open("reserve", OpenMode::Existing).expect("the ballast is there");
    assert_eq!(reading.bytes(file), Ok(FILE_BYTES_MIN));
}
