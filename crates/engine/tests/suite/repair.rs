//! Corruption is found without reads, repaired with another replica's entry, and gone once the
//! segment is rewritten.

use std::ops::Bound;

use zerohop_engine::disk::Disk;
use zerohop_engine::disk::simulated::SimulatedDisk;
use zerohop_engine::{
    CorruptEntry, Durability, Engine, EngineError, EngineOptions, EntryKind, EntryMeta, FLAG_JOINED, Handle,
    KeyRange, PartitionId, PartitionOptions, ScrubPosition,
};

use crate::support::TestEngine as Store;

const VALUE: [u8; 300] = [0xA5; 300];

fn open(disk: &SimulatedDisk) -> (Store, Handle) {
    opened(disk, true)
}

/// A partition with the state of an upper layer in its log; only [`checkpoint`] takes a checkpoint.
fn open_with_state(disk: &SimulatedDisk) -> (Store, Handle) {
    let (mut engine, p) = opened(disk, false);
    engine.declare_state_in_log(p).expect("is open");
    (engine, p)
}

fn opened(disk: &SimulatedDisk, checkpoints_begin_alone: bool) -> (Store, Handle) {
    let options = EngineOptions {
        segment_bytes: 64 << 10,
        disk_reserve_bytes: 0,
        starts_checkpoints: checkpoints_begin_alone,
        ..EngineOptions::default()
    };
    let (mut engine, _) = Engine::open(disk.clone(), options).expect("opens");
    engine.commit_all().expect("commits");
    let partition_options = PartitionOptions { durability: Durability::Interval { ms: 10 }, index_seed: 7 };
    let p = engine.partition(PartitionId(1), partition_options).expect("opens");
    (engine, p)
}

fn filled_disk(disk: &SimulatedDisk) {
    let (mut engine, p) = open(disk);
    for n in 0..600u32 {
        engine.write(p, EntryKind::Put, 0, u64::from(n) + 1, &n.to_le_bytes(), &VALUE).expect("is accepted");
    }
    // Closing writes a checkpoint, which shows what was synced.
    engine.close().expect("closes");
}

/// Flips a byte of one key's value on the disk. Returns its log index.
fn corruption(disk: &SimulatedDisk, n: u32) -> u64 {
    flip_byte(disk, n, 100)
}

/// Flips a byte at an offset in one key and its value on the disk. Returns its log index.
fn flip_byte(disk: &SimulatedDisk, n: u32, offset: u64) -> u64 {
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
            disk.corrupt_at(&path, at as u64 + offset, 0x40).expect("is there");
            return u64::from(n) + 1;
        }
    }
    panic!("{n} is in no file");
}

fn maintain(engine: &mut Store) {
    for ms in 0..20_000 {
        engine.maintain(ms).expect("goes on");
    }
}

fn checkpoint(engine: &mut Store, p: Handle) {
    engine.sync().expect("syncs");
    engine.checkpoint_begin(p, b"state").expect("begins");
    maintain(engine);
}

/// All entries of the log, with their payloads.
fn entries(engine: &mut Store, p: Handle) -> Vec<(EntryMeta, Vec<u8>, Vec<u8>)> {
    let mut all = Vec::new();
    engine
        .entries_after(p, 0, |entry, is_good| {
            assert!(is_good, "{:?}", entry.head.meta);
            all.push((entry.head.meta, entry.key.to_vec(), entry.payload.to_vec()));
        })
        .expect("can be read");
    all
}

fn scrub_all(engine: &mut Store, p: Handle) -> (Vec<CorruptEntry>, bool) {
    let (mut corrupt, mut is_unreadable, mut at) = (Vec::new(), false, Some(ScrubPosition::default()));
    while let Some(from) = at {
        let scrubbed = engine.scrub(p, from, 4 << 10).expect("reads");
        corrupt.extend(scrubbed.corrupt);
        is_unreadable |= scrubbed.is_unreadable;
        at = scrubbed.next;
    }
    (corrupt, is_unreadable)
}

#[test]
fn corrupt_entry_is_reported_repaired_and_rewritten() {
    let disk = SimulatedDisk::new(1);
    filled_disk(&disk);
    let index = corruption(&disk, 77);
    let (mut engine, p) = open(&disk);
    let key = 77u32.to_le_bytes();
    assert!(matches!(engine.lookup_assembled(p, &key), Err(EngineError::Corrupt { .. })));
    assert_eq!(engine.corrupt_of(p, &key), Ok(vec![CorruptEntry { epoch: 1, index }]));
    assert_eq!(scrub_all(&mut engine, p), (vec![CorruptEntry { epoch: 1, index }], false));
    assert_eq!(engine.damage(p).expect("is open").len(), 1);
    // No other entry is accepted in its place.
    let mut other = VALUE;
    other[5] = 1;
    assert_eq!(engine.repair(p, (1, index, index), &key, &other), Ok(false));
    assert_eq!(engine.repair(p, (2, index, index), &key, &VALUE), Ok(false));
    assert_eq!(engine.repair(p, (1, index, index), b"another", &VALUE), Ok(false));
    assert!(matches!(engine.lookup_assembled(p, &key), Err(EngineError::Corrupt { .. })));
    assert_eq!(engine.repair(p, (1, index, index), &key, &VALUE), Ok(true));
    assert_eq!(engine.lookup_assembled(p, &key), Ok(Some(VALUE.to_vec())));
    assert_eq!(engine.read_entry(p, index).expect("can be read").payload, VALUE);
    assert!(engine.damage(p).expect("is open").is_empty());
    // The segment is rewritten by itself, though hardly anything in it is dead.
    for ms in 0..20_000 {
        engine.maintain(ms).expect("goes on");
    }
    assert_eq!(scrub_all(&mut engine, p), (Vec::new(), false));
    drop(engine);
    disk.crash();
    let (mut engine, p) = open(&disk);
    assert!(engine.damage(p).expect("is open").is_empty(), "{:?}", engine.damage(p));
    for n in 0..600u32 {
        assert_eq!(engine.lookup_assembled(p, &n.to_le_bytes()), Ok(Some(VALUE.to_vec())), "{n}");
    }
}

#[test]
fn corrupt_file_is_rewritten_from_memory() {
    let disk = SimulatedDisk::new(2);
    let (mut engine, p) = open(&disk);
    for n in 0..600u32 {
        engine.write(p, EntryKind::Put, 0, u64::from(n) + 1, &n.to_le_bytes(), &VALUE).expect("is accepted");
    }
    engine.sync().expect("syncs");
    corruption(&disk, 33);
    assert_eq!(scrub_all(&mut engine, p), (Vec::new(), false), "no repair by other members is needed");
    for ms in 0..20_000 {
        engine.maintain(ms).expect("goes on");
    }
    drop(engine);
    disk.crash();
    let (mut engine, p) = open(&disk);
    assert!(engine.damage(p).expect("is open").is_empty(), "{:?}", engine.damage(p));
}

/// Normally two checkpoints must cover a rewritten segment; but no entries may come that would
/// cause another checkpoint.
#[test]
fn repaired_segment_is_rewritten_before_checkpoint() {
    let disk = SimulatedDisk::new(4);
    let (mut engine, p) = open_with_state(&disk);
    let put = |engine: &mut Store, n: u32, value: &[u8]| {
        engine.write(p, EntryKind::Put, 0, 1, &n.to_le_bytes(), value).expect("is accepted");
    };
    for n in 0..600u32 {
        put(&mut engine, n, &VALUE);
    }
    // The log also has an atomic batch and dead entries, all of which an upper layer reads again.
    let (epoch, index, _) =
        entries(&mut engine, p).last().map(|(m, ..)| (m.epoch, m.index, ())).expect("many");
    let mark = EntryMeta { kind: EntryKind::Mark, flags: FLAG_JOINED, epoch, index: index + 1, timestamp: 1 };
    engine.append(p, &mark, b"", b"a mark").expect("is accepted");
    let one = EntryMeta { kind: EntryKind::Put, flags: 0, epoch, index: index + 2, timestamp: 1 };
    engine.append(p, &one, &600u32.to_le_bytes(), &VALUE).expect("is accepted");
    engine.commit_all().expect("commits");
    (0..600).step_by(3).for_each(|n| put(&mut engine, n, b"another"));
    engine.write(p, EntryKind::Remove, 0, 1, &1u32.to_le_bytes(), b"").expect("is accepted");
    engine.sync().expect("syncs");
    maintain(&mut engine);
    let before = entries(&mut engine, p);
    let corrupt = [corruption(&disk, 77), corruption(&disk, 600) + 1];
    drop(engine);
    let (mut engine, p) = open_with_state(&disk);
    assert_eq!(engine.damage(p).expect("is open").len(), 2);
    for index in corrupt {
        let (meta, key, payload) = &before[index as usize - 1];
        assert_eq!(meta.index, index);
        assert_eq!(engine.repair(p, (meta.epoch, index, meta.timestamp), key, payload), Ok(true));
    }
    maintain(&mut engine);
    for _ in 0..2 {
        drop(engine);
        disk.crash();
        (engine, _) = open_with_state(&disk);
        assert!(engine.damage(p).expect("is open").is_empty(), "{:?}", engine.damage(p));
        assert!(entries(&mut engine, p) == before, "all is there, as it was");
        for n in 0..=600u32 {
            let expected = match n {
                1 => None,
                n if n < 600 && n % 3 == 0 => Some(b"another".to_vec()),
                _ => Some(VALUE.to_vec()),
            };
            assert_eq!(engine.lookup_assembled(p, &n.to_le_bytes()), Ok(expected), "{n}");
        }
        checkpoint(&mut engine, p);
    }
}

#[test]
fn rewritten_dead_entry_does_not_reappear() {
    let disk = SimulatedDisk::new(5);
    let (mut engine, p) = open_with_state(&disk);
    let put = |engine: &mut Store, n: u32, value: &[u8]| {
        engine.write(p, EntryKind::Put, 0, 1, &n.to_le_bytes(), value).expect("is accepted");
    };
    // The entry is a small part of its segment, so that its death does not cause compaction.
    engine.write(p, EntryKind::Put, 0, 1, b"gone", b"value").expect("is accepted");
    (0..400).for_each(|n| put(&mut engine, n, &VALUE));
    engine.write(p, EntryKind::Remove, 0, 1, b"gone", b"").expect("is accepted");
    (400..800).for_each(|n| put(&mut engine, n, &VALUE));
    engine.sync().expect("syncs");
    maintain(&mut engine);
    let index = corruption(&disk, 7) + 1;
    drop(engine);
    let (mut engine, p) = open_with_state(&disk);
    assert_eq!(engine.repair(p, (1, index, 1), &7u32.to_le_bytes(), &VALUE), Ok(true));
    maintain(&mut engine);
    assert_eq!(
        engine.read_entry(p, 1).map(|entry| entry.payload.to_vec()),
        Ok(b"value".to_vec()),
        "it is kept"
    );
    // Now the entry may be dropped together with its removal, but not alone.
    for n in 800..802 {
        put(&mut engine, n, &VALUE);
        checkpoint(&mut engine, p);
    }
    engine.compact(p).expect("compacts");
    drop(engine);
    disk.crash();
    let mut names = disk.clone();
    for name in names.list("p-0000000000000001").expect("lists") {
        if name.name.ends_with(".ckp") {
            names.remove(&format!("p-0000000000000001/{}", name.name)).expect("is there");
        }
    }
    let (mut engine, p) = open_with_state(&disk);
    assert_eq!(engine.lookup_assembled(p, b"gone"), Ok(None));
}

#[test]
fn paused_compaction_removes_nothing() {
    let disk = SimulatedDisk::new(3);
    filled_disk(&disk);
    let (mut engine, p) = open(&disk);
    engine.pause_compaction(p, true).expect("is open");
    for n in 0..600u32 {
        engine.write(p, EntryKind::Put, 0, 1_000, &n.to_le_bytes(), b"short").expect("is accepted");
    }
    let run = |engine: &mut Store| {
        for ms in 0..20_000 {
            engine.maintain(ms).expect("goes on");
        }
    };
    run(&mut engine);
    assert!((1..=1_200).all(|index| engine.has_entry(p, index) == Ok(true)));
    engine.pause_compaction(p, false).expect("is open");
    for n in 0..600u32 {
        engine.write(p, EntryKind::Put, 0, 2_000, &n.to_le_bytes(), b"short").expect("is accepted");
    }
    run(&mut engine);
    assert!(!(1..=1_200).all(|index| engine.has_entry(p, index) == Ok(true)));
}

#[test]
fn order_of_keys_is_refused_while_a_key_is_unreadable_and_complete_afterwards() {
    let disk = SimulatedDisk::new(1);
    filled_disk(&disk);
    flip_byte(&disk, 7, 0);
    let (mut engine, p) = open(&disk);
    let all = KeyRange { from: Bound::Unbounded, to: Bound::Unbounded, is_reverse: false };
    let order = |engine: &mut Store| engine.key_order(p).expect("is open").keys(all, usize::MAX, None);
    assert_eq!(order(&mut engine), Err(EngineError::NotOrdered));
    let kept = engine.key_order(p).expect("is open").keep();
    assert!(matches!(kept, Err(EngineError::Corrupt { .. })), "{kept:?}");
    assert!(engine.key_order(p).expect("is open").is_kept(), "it is to be kept");
    assert!(matches!(order(&mut engine), Err(EngineError::Corrupt { .. })));
    engine.write(p, EntryKind::Put, 0, 1_000, &7u32.to_le_bytes(), b"again").expect("is accepted");
    let mut keys: Vec<Vec<u8>> = (0..600u32).map(|n| n.to_le_bytes().to_vec()).collect();
    keys.sort_unstable();
    assert_eq!(order(&mut engine).expect("is complete").keys, keys);
}
