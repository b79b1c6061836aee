//! The engine's operations, one by one, on a simulated disk.

use zerohop_engine::disk::simulated::SimulatedDisk;
use zerohop_engine::{
    Cursor, Durability, Engine, EngineOptions, EntryKind, FLAG_LIST, Handle, PartitionId, PartitionOptions,
};

use crate::support::TestEngine as Store;

fn options() -> EngineOptions {
    EngineOptions { segment_bytes: 8 << 10, disk_reserve_bytes: 0, ..EngineOptions::default() }
}

fn open(disk: &SimulatedDisk) -> Store {
    let (mut engine, report) = Engine::open(disk.clone(), options()).expect("opens");
    assert_eq!(report.damage().next(), None);
    engine.commit_all().expect("commits");
    engine
}

fn partition(engine: &mut Store, durability: Durability) -> Handle {
    engine.partition(PartitionId(1), PartitionOptions { durability, index_seed: 7 }).expect("opens")
}

fn put(engine: &mut Store, p: Handle, at: u64, key: &[u8], value: &[u8]) -> u64 {
    engine.write(p, EntryKind::Put, 0, at, key, value).expect("is accepted")
}

fn get(engine: &mut Store, p: Handle, key: &[u8]) -> Option<Vec<u8>> {
    engine.lookup_assembled(p, key).expect("can be read")
}

fn list_payload(values: &[&str]) -> Vec<u8> {
    let mut out = (values.len() as u32).to_le_bytes().to_vec();
    values.iter().for_each(|v| out.extend_from_slice(v.as_bytes()));
    out
}

#[test]
fn lookup_finds_record_until_removal() {
    let mut engine = open(&SimulatedDisk::new(1));
    let p = partition(&mut engine, Durability::DEFAULT);
    assert_eq!(get(&mut engine, p, b"a"), None);
    put(&mut engine, p, 1, b"a", b"one");
    put(&mut engine, p, 2, b"b", b"two");
    put(&mut engine, p, 3, b"a", b"three");
    assert_eq!(get(&mut engine, p, b"a").as_deref(), Some(&b"three"[..]));
    engine.write(p, EntryKind::Remove, 0, 4, b"a", b"").expect("is accepted");
    assert_eq!(get(&mut engine, p, b"a"), None);
    assert_eq!(get(&mut engine, p, b"b").as_deref(), Some(&b"two"[..]));
}

#[test]
fn walk_pages_are_small_and_cover_each_key_once() {
    let mut engine = open(&SimulatedDisk::new(1));
    let p = partition(&mut engine, Durability::Memory);
    let key = |n: usize, length: usize| [format!("{n:04}").as_bytes(), &vec![b'k'; length]].concat();
    let mut all: Vec<Vec<u8>> = (0..200).map(|n| key(n, 60_000)).collect();
    all.extend((200..3_000).map(|n| key(n, 10)));
    for (at, key) in (1..).zip(&all) {
        put(&mut engine, p, at, key, b"v");
    }
    let (mut met, mut cursor) = (Vec::new(), Some(Cursor::START));
    while let Some(from) = cursor {
        let (keys, next) = engine.scan(p, &from).expect("scans");
        let bytes: usize = keys.iter().map(Vec::len).sum();
        assert!(bytes < 128 << 10, "{bytes} bytes of keys in one page");
        met.extend(keys);
        cursor = next;
    }
    met.sort();
    assert_eq!(met, all);
}

#[test]
fn an_idle_partition_costs_no_file_and_less_than_a_kibibyte() {
    let disk = SimulatedDisk::new(1);
    let mut engine = open(&disk);
    let p = partition(&mut engine, Durability::Sync);
    engine.sync().expect("syncs");
    let stats = engine.partition_stats(p).expect("is open");
    assert!(stats.overhead_bytes < 1024, "{}", stats.overhead_bytes);
    engine.close().expect("closes");
    let mut disk = disk;
    let names = zerohop_engine::disk::Disk::list(&mut disk, "").expect("lists");
    assert!(names.iter().all(|n| !n.name.starts_with("p-")), "{names:?}");
}

#[test]
fn lists_and_appended_bytes_survive_reopening_with_their_trims() {
    let disk = SimulatedDisk::new(3);
    let mut engine = open(&disk);
    let p = partition(&mut engine, Durability::DEFAULT);
    for n in 0..200u32 {
        let value = format!("{n:03}");
        engine
            .write(p, EntryKind::Append, FLAG_LIST, u64::from(n), b"list", &list_payload(&[&value, &value]))
            .expect("is accepted");
        engine.write(p, EntryKind::Append, 0, u64::from(n), b"bytes", value.as_bytes()).expect("is accepted");
    }
    let to = engine.trim_point(p, b"list", 301).expect("reads").expect("some are left");
    engine.write(p, EntryKind::Trim, FLAG_LIST, 500, b"list", &to.encode()).expect("is accepted");
    let to = engine.trim_point(p, b"bytes", 2).expect("reads").expect("some are left");
    engine.write(p, EntryKind::Trim, 0, 501, b"bytes", &to.encode()).expect("is accepted");
    for round in 0..3 {
        let record = engine.lookup(p, b"list").expect("reads").expect("is there");
        let zerohop_engine::RecordBody::Parts(parts) = record.body else { panic!("a list of many parts") };
        assert_eq!((parts.units, parts.skipped), (99, 1));
        let bytes = get(&mut engine, p, b"bytes").expect("is there");
        assert_eq!((bytes.len(), &bytes[..4]), (598, &b"0001"[..]), "round {round}");
        if round == 1 {
            engine.compact(p).expect("compacts");
        }
        engine.close().expect("closes");
        engine = open(&disk);
    }
}

#[test]
fn older_versions_are_found_until_the_horizon_passes_them() {
    let mut engine = open(&SimulatedDisk::new(4));
    let p = partition(&mut engine, Durability::DEFAULT);
    engine.set_horizon(p, Some(0)).expect("is open");
    let read_at = |engine: &mut Store, at| {
        let record = engine.lookup_at(p, b"k", at).expect("reads")?;
        Some(match record.body {
            zerohop_engine::RecordBody::SingleEntry(bytes) => bytes.to_vec(),
            zerohop_engine::RecordBody::Parts(parts) => format!("{} parts", parts.parts.len()).into_bytes(),
        })
    };
    put(&mut engine, p, 10, b"k", b"ten");
    put(&mut engine, p, 20, b"k", b"twenty");
    engine.write(p, EntryKind::Remove, 0, 30, b"k", b"").expect("is accepted");
    for at in 40..44 {
        engine.write(p, EntryKind::Append, 0, at, b"k", b"x").expect("is accepted");
    }
    assert_eq!(read_at(&mut engine, 9), None);
    assert_eq!(read_at(&mut engine, 15).as_deref(), Some(&b"ten"[..]));
    assert_eq!(read_at(&mut engine, 29).as_deref(), Some(&b"twenty"[..]));
    assert_eq!(read_at(&mut engine, 35), None);
    assert_eq!(read_at(&mut engine, 40).as_deref(), Some(&b"x"[..]));
    assert_eq!(read_at(&mut engine, 42).as_deref(), Some(&b"3 parts"[..]));
    assert_eq!(read_at(&mut engine, 99).as_deref(), Some(&b"4 parts"[..]));
    let dead = |engine: &mut Store| engine.partition_stats(p).expect("is open").log.dead_bytes;
    let before = dead(&mut engine);
    engine.set_horizon(p, Some(1000)).expect("is open");
    assert!(dead(&mut engine) > before, "unreadable versions are dead space");
    assert_eq!(read_at(&mut engine, 1000).as_deref(), Some(&b"4 parts"[..]));
}

#[test]
fn one_flush_makes_entries_of_many_partitions_durable() {
    let disk = SimulatedDisk::new(5);
    let mut engine = open(&disk);
    let handles: Vec<Handle> = (0..64)
        .map(|n| {
            let options = PartitionOptions { durability: Durability::Sync, index_seed: n };
            engine.partition(PartitionId(n), options).expect("opens")
        })
        .collect();
    for &p in &handles {
        put(&mut engine, p, 1, b"warm", b"up");
    }
    engine.flush().expect("flushes");
    let before = disk.counts().of(zerohop_engine::disk::simulated::DiskOperation::Sync);
    for &p in &handles {
        put(&mut engine, p, 2, b"k", b"v");
    }
    engine.flush().expect("flushes");
    assert_eq!(disk.counts().of(zerohop_engine::disk::simulated::DiskOperation::Sync) - before, 1);
    drop(engine);
    disk.crash();
    let mut engine = open(&disk);
    for n in 0..64 {
        let p = engine.partition(PartitionId(n), PartitionOptions::default()).expect("opens");
        assert_eq!(get(&mut engine, p, b"k").as_deref(), Some(&b"v"[..]));
    }
}
