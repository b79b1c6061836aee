//! Rot is found where nobody reads, mended with what another replica has, and gone once the segment is rewritten.

use zerohop_engine::disk::Disk;
use zerohop_engine::disk::simulated::SimulatedDisk;
use zerohop_engine::{
    Durability, Engine, EngineError, EngineOptions, Handle, Kind, PartitionId, PartitionOptions, Rotten,
    ScrubFrom,
};

type Store = Engine<SimulatedDisk>;

const VALUE: [u8; 300] = [0xA5; 300];

fn open(disk: &SimulatedDisk) -> (Store, Handle) {
    let options =
        EngineOptions { segment_bytes: 64 << 10, disk_reserve_bytes: 0, ..EngineOptions::default() };
    let (mut engine, _) = Engine::open(disk.clone(), options).expect("opens");
    engine.commit_all().expect("commits");
    let partition_options = PartitionOptions { durability: Durability::Interval { ms: 10 }, index_seed: 7 };
    let p = engine.partition(PartitionId(1), partition_options).expect("opens");
    (engine, p)
}

fn filled(disk: &SimulatedDisk) {
    let (mut engine, p) = open(disk);
    for n in 0..600u32 {
        engine.write(p, Kind::Put, 0, u64::from(n) + 1, &n.to_le_bytes(), &VALUE).expect("is accepted");
    }
    // With a checkpoint, which vouches for what was synced.
    engine.close().expect("closes");
}

/// Flips a byte of the value of one key, wherever it stands. Its log index.
fn rot(disk: &SimulatedDisk, n: u32) -> u64 {
    let mut reader = disk.clone();
    for name in reader.list("p-0000000000000001").expect("lists") {
        let path = format!("p-0000000000000001/{}", name.name);
        if !path.ends_with(".seg") {
            continue;
        }
        let file = reader.open(&path, zerohop_engine::disk::OpenMode::Existing).expect("opens");
        let mut bytes = vec![0; name.bytes as usize];
        reader.read_at(file, 0, &mut bytes).expect("reads");
        reader.close(file);
        let wanted = [&n.to_le_bytes()[..], &VALUE].concat();
        if let Some(at) = bytes.windows(wanted.len()).position(|window| *window == *wanted) {
            disk.rot_at(&path, at as u64 + 100, 0x40).expect("is there");
            return u64::from(n) + 1;
        }
    }
    panic!("{n} is in no file");
}

fn scrub_all(engine: &mut Store, p: Handle) -> (Vec<Rotten>, bool) {
    let (mut rotten, mut is_unreadable, mut at) = (Vec::new(), false, Some(ScrubFrom::default()));
    while let Some(from) = at {
        let scrubbed = engine.scrub(p, from, 4 << 10).expect("reads");
        rotten.extend(scrubbed.rotten);
        is_unreadable |= scrubbed.is_unreadable;
        at = scrubbed.next;
    }
    (rotten, is_unreadable)
}

#[test]
fn a_rotten_entry_is_told_mended_and_rewritten() {
    let disk = SimulatedDisk::new(1);
    filled(&disk);
    let index = rot(&disk, 77);
    let (mut engine, p) = open(&disk);
    let key = 77u32.to_le_bytes();
    assert!(matches!(engine.lookup_whole(p, &key), Err(EngineError::Rotten { .. })));
    assert_eq!(engine.rotten_of(p, &key), Ok(vec![Rotten { epoch: 1, index }]));
    assert_eq!(scrub_all(&mut engine, p), (vec![Rotten { epoch: 1, index }], false));
    assert_eq!(engine.damage(p).expect("is open").len(), 1);
    // Nothing else goes in its place.
    let mut other = VALUE;
    other[5] = 1;
    assert_eq!(engine.mend(p, (1, index, index), &key, &other), Ok(false));
    assert_eq!(engine.mend(p, (2, index, index), &key, &VALUE), Ok(false));
    assert_eq!(engine.mend(p, (1, index, index), b"another", &VALUE), Ok(false));
    assert!(matches!(engine.lookup_whole(p, &key), Err(EngineError::Rotten { .. })));
    assert_eq!(engine.mend(p, (1, index, index), &key, &VALUE), Ok(true));
    assert_eq!(engine.lookup_whole(p, &key), Ok(Some(VALUE.to_vec())));
    assert_eq!(engine.read_entry(p, index).expect("can be read").payload, VALUE);
    assert!(engine.damage(p).expect("is open").is_empty());
    // By itself, though hardly anything is dead.
    for ms in 0..20_000 {
        engine.maintain(ms).expect("goes on");
    }
    assert_eq!(scrub_all(&mut engine, p), (Vec::new(), false));
    drop(engine);
    disk.crash();
    let (mut engine, p) = open(&disk);
    assert!(engine.damage(p).expect("is open").is_empty(), "{:?}", engine.damage(p));
    for n in 0..600u32 {
        assert_eq!(engine.lookup_whole(p, &n.to_le_bytes()), Ok(Some(VALUE.to_vec())), "{n}");
    }
}

#[test]
fn a_file_that_rots_under_what_memory_has_is_rewritten_from_that() {
    let disk = SimulatedDisk::new(2);
    let (mut engine, p) = open(&disk);
    for n in 0..600u32 {
        engine.write(p, Kind::Put, 0, u64::from(n) + 1, &n.to_le_bytes(), &VALUE).expect("is accepted");
    }
    engine.sync().expect("syncs");
    rot(&disk, 33);
    assert_eq!(scrub_all(&mut engine, p), (Vec::new(), false), "nothing that others must help with");
    for ms in 0..20_000 {
        engine.maintain(ms).expect("goes on");
    }
    drop(engine);
    disk.crash();
    let (mut engine, p) = open(&disk);
    assert!(engine.damage(p).expect("is open").is_empty(), "{:?}", engine.damage(p));
}

#[test]
fn while_a_log_is_held_nothing_of_it_goes() {
    let disk = SimulatedDisk::new(3);
    filled(&disk);
    let (mut engine, p) = open(&disk);
    engine.hold_compaction(p, true).expect("is open");
    for n in 0..600u32 {
        engine.write(p, Kind::Put, 0, 1_000, &n.to_le_bytes(), b"short").expect("is accepted");
    }
    let run = |engine: &mut Store| {
        for ms in 0..20_000 {
            engine.maintain(ms).expect("goes on");
        }
    };
    run(&mut engine);
    assert!((1..=1_200).all(|index| engine.holds_entry(p, index) == Ok(true)));
    engine.hold_compaction(p, false).expect("is open");
    for n in 0..600u32 {
        engine.write(p, Kind::Put, 0, 2_000, &n.to_le_bytes(), b"short").expect("is accepted");
    }
    run(&mut engine);
    assert!(!(1..=1_200).all(|index| engine.holds_entry(p, index) == Ok(true)));
}
