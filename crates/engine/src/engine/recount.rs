//! Tests: the counters of dead bytes and removals equal an exact count, whatever happens meanwhile.

use super::{Engine, Handle};
use crate::disk::simulated::SimulatedDisk;
use crate::store::MaintenanceStep;
use crate::store::compaction_policy::Policy;
use crate::store::recount::SegmentRecount;
use crate::{
    ChunkHead, Durability, EngineOptions, EntryKind, EntryMeta, FLAG_CHUNK, FLAG_LIST, PartitionId,
    PartitionOptions, RecordBody,
};

type CountedEngine = Engine<SimulatedDisk>;

const SEGMENT_BYTES: u64 = 64 << 10;
/// Records of the tests, and the bytes of each.
const KEYS: u64 = 1_000;
const VALUE: [u8; 500] = [7; 500];

fn open(disk: &SimulatedDisk) -> (CountedEngine, Handle) {
    let options = EngineOptions {
        segment_bytes: SEGMENT_BYTES,
        disk_reserve_bytes: 0,
        starts_checkpoints: false,
        // A partition is compacted for its dead share only.
        collect_every_ms: u64::MAX,
        ..EngineOptions::default()
    };
    let (mut engine, report) = Engine::open(disk.clone(), options).expect("opens");
    assert_eq!(report.damage().next(), None);
    engine.commit_all().expect("commits");
    let options = PartitionOptions { durability: Durability::DEFAULT, index_seed: 7 };
    let p = engine.partition(PartitionId(1), options).expect("opens");
    (engine, p)
}

fn write(engine: &mut CountedEngine, p: Handle, kind: EntryKind, flags: u8, key: &str, payload: &[u8]) {
    engine.write(p, kind, flags, 1, key.as_bytes(), payload).expect("is accepted");
}

fn put(engine: &mut CountedEngine, p: Handle, keys: impl IntoIterator<Item = u64>) {
    keys.into_iter().for_each(|n| write(engine, p, EntryKind::Put, 0, &format!("key {n}"), &VALUE));
}

fn append(engine: &mut CountedEngine, p: Handle, values: u64) {
    let value = [&1u32.to_le_bytes()[..], &[7; 60]].concat();
    (0..values).for_each(|_| write(engine, p, EntryKind::Append, FLAG_LIST, "list", &value));
}

fn trim(engine: &mut CountedEngine, p: Handle, units: u64) {
    let to = engine.trim_point(p, b"list", units).expect("reads").expect("some are left");
    write(engine, p, EntryKind::Trim, FLAG_LIST, "list", &to.encode());
}

/// One of each change that makes entries dead.
fn change(engine: &mut CountedEngine, p: Handle, round: u64) {
    put(engine, p, (round..KEYS).step_by(10));
    put(engine, p, [KEYS + round, KEYS + round]);
    write(engine, p, EntryKind::Remove, 0, &format!("key {}", round + 5), b"");
    append(engine, p, 3);
    trim(engine, p, 4);
}

fn crash(disk: &SimulatedDisk, mut engine: CountedEngine) -> (CountedEngine, Handle) {
    engine.sync().expect("syncs");
    drop(engine);
    disk.crash();
    open(disk)
}

/// The segments, whose counters are right; and the dead bytes of all.
#[track_caller]
fn recounted(engine: &mut CountedEngine, p: Handle) -> (Vec<SegmentRecount>, u64) {
    let counts = engine.recount(p).expect("reads");
    assert!(!counts.is_empty(), "it can be counted");
    for count in &counts {
        assert!(count.is_right() && count.dead_bytes <= count.bytes, "{count:?}");
    }
    let dead_bytes = counts.iter().map(|count| count.dead_bytes).sum();
    (counts, dead_bytes)
}

fn checkpoint_step(engine: &mut CountedEngine, p: Handle) -> MaintenanceStep {
    let (io, store) = engine.store(p).expect("is open");
    store.checkpoint_step(io, true).expect("goes on")
}

#[test]
fn entries_that_die_while_a_checkpoint_is_written_are_counted_once() {
    for horizon in [None, Some(0)] {
        let disk = SimulatedDisk::new(1);
        let (mut engine, p) = open(&disk);
        put(&mut engine, p, 0..KEYS);
        append(&mut engine, p, 100);
        engine.set_horizon(p, horizon).expect("is set");
        engine.checkpoint_begin(p, b"").expect("begins");
        // Before the first page of the index is written, between the other steps, and after the last one.
        change(&mut engine, p, 0);
        let mut rounds = 1;
        while checkpoint_step(&mut engine, p) != MaintenanceStep::Done {
            change(&mut engine, p, rounds);
            rounds += 1;
        }
        assert!(rounds > 3, "entries died in every stage of the checkpoint");
        engine.set_horizon(p, None).expect("is set");
        let (_, before) = recounted(&mut engine, p);
        let (mut engine, p) = crash(&disk, engine);
        assert_eq!(recounted(&mut engine, p).1, before, "with older versions: {}", horizon.is_some());
        change(&mut engine, p, rounds);
        recounted(&mut engine, p);
    }
}

#[test]
fn entries_that_die_while_locations_are_redirected_are_counted_once() {
    let disk = SimulatedDisk::new(1);
    let (mut engine, p) = open(&disk);
    append(&mut engine, p, 500);
    put(&mut engine, p, (0..KEYS).map(|n| n % 20));
    engine.sync().expect("syncs");
    let policy = Policy {
        dead_percent_max: 1,
        segment_bytes: SEGMENT_BYTES,
        file_bytes_max: u64::MAX,
        check_after_bytes: crate::limits::CHECK_AFTER_BYTES,
        has_reclaim_pressure: false,
    };
    let mut rounds = 0;
    let (io, store) = engine.store(p).expect("is open");
    assert!(store.compaction_begin(io, &policy).expect("begins"));
    loop {
        let (io, store) = engine.store(p).expect("is open");
        if store.compaction_step(io, true).expect("goes on") == MaintenanceStep::Done {
            break;
        }
        if engine.store(p).expect("is open").1.compaction.is_swapping() {
            rounds += 1;
            append(&mut engine, p, 1);
            trim(&mut engine, p, 30);
            put(&mut engine, p, [rounds]);
        }
    }
    assert!(rounds > 2, "{rounds} changes while locations were redirected");
    let (_, before) = recounted(&mut engine, p);
    let (mut engine, p) = crash(&disk, engine);
    assert_eq!(recounted(&mut engine, p).1, before);
}

#[test]
fn removals_count_once_and_not_when_they_are_truncated() {
    let disk = SimulatedDisk::new(1);
    let (mut engine, p) = open(&disk);
    put(&mut engine, p, 0..10);
    engine.checkpoint_begin(p, b"").expect("begins");
    write(&mut engine, p, EntryKind::Remove, 0, "key 1", b"");
    while checkpoint_step(&mut engine, p) != MaintenanceStep::Done {}
    let removed = recounted(&mut engine, p).0[0].removal_bytes;
    assert!(removed > 0);
    let (mut engine, p) = crash(&disk, engine);
    assert_eq!(recounted(&mut engine, p).0[0].removal_bytes, removed);
    for index in 12..15 {
        let meta = EntryMeta { kind: EntryKind::Remove, flags: 0, epoch: 1, index, timestamp: 1 };
        engine.append(p, &meta, b"key 2", b"").expect("is accepted");
    }
    assert_eq!(recounted(&mut engine, p).0[0].removal_bytes, 4 * removed);
    engine.truncate_after(p, 11).expect("truncates");
    assert_eq!(recounted(&mut engine, p).0[0].removal_bytes, removed);
}

fn maintain(engine: &mut CountedEngine) {
    (0..2_000).for_each(|now| assert!(engine.maintain(now).is_ok()));
}

fn log_bytes(engine: &mut CountedEngine, p: Handle) -> u64 {
    engine.partition_stats(p).expect("is open").log.bytes
}

#[test]
fn compaction_after_a_crash_rewrites_what_is_dead_and_nothing_else() {
    let disk = SimulatedDisk::new(1);
    let (mut engine, p) = open(&disk);
    put(&mut engine, p, 0..KEYS);
    engine.checkpoint_begin(p, b"").expect("begins");
    checkpoint_step(&mut engine, p);
    // A tenth is dead afterwards: less than the eighth that the first maintenance after a start collects, and more
    // than that if it counted twice.
    put(&mut engine, p, (0..KEYS).step_by(9));
    while checkpoint_step(&mut engine, p) != MaintenanceStep::Done {}
    let (mut engine, p) = crash(&disk, engine);
    let before = log_bytes(&mut engine, p);
    maintain(&mut engine);
    let (counts, dead_bytes) = recounted(&mut engine, p);
    assert!((9..12).contains(&(dead_bytes * 100 / before)), "{dead_bytes} of {before}");
    assert!(counts.iter().all(|count| count.generation == 0), "nothing is rewritten: {counts:?}");
    // More than half is dead.
    put(&mut engine, p, 0..KEYS);
    engine.sync().expect("syncs");
    maintain(&mut engine);
    let (counts, dead_bytes) = recounted(&mut engine, p);
    let after = log_bytes(&mut engine, p);
    assert!(counts.iter().any(|count| count.generation > 0), "{counts:?}");
    assert!(dead_bytes * 2 <= after && after < before, "{dead_bytes} of {after} are dead");
    let (mut engine, p) = crash(&disk, engine);
    assert_eq!(recounted(&mut engine, p).1, dead_bytes);
}

/// The log indexes of the list's parts, now and at that time. Each is read.
fn parts_read(engine: &mut CountedEngine, p: Handle, at: u64) -> [Vec<u64>; 2] {
    [u64::MAX, at].map(|timestamp| {
        let record = engine.lookup_at(p, b"list", timestamp).expect("reads").expect("is there");
        let parts: Vec<u64> = match record.body {
            RecordBody::Parts(parts) => parts.parts.iter().map(|part| part.index).collect(),
            RecordBody::SingleEntry(_) => vec![record.index],
        };
        for &index in &parts {
            let entry = engine.read_entry(p, index).expect("the entry of a part is there");
            assert_eq!((entry.head.meta.index, entry.key), (index, &b"list"[..]));
        }
        parts
    })
}

#[test]
fn places_of_parts_follow_compaction_and_end_with_their_last_reader() {
    let disk = SimulatedDisk::new(1);
    let (mut engine, p) = open(&disk);
    let chunk = |offset: u32, length: u32| {
        let head = ChunkHead { offset, length, stamp: [1; 16] };
        [&head.encode()[..], &vec![offset as u8; length as usize]].concat()
    };
    for n in 0..40 {
        write(&mut engine, p, EntryKind::Append, FLAG_CHUNK, "chunk", &chunk(n % 7 * 300, 500));
        append(&mut engine, p, 8);
        put(&mut engine, p, 0..20);
    }
    let mut written = Vec::new();
    engine.read_chunk(p, b"chunk", 0..2_300, &mut written).expect("reads");
    // The list as it is now stays readable, and has 20 parts less afterwards.
    engine.set_horizon(p, Some(0)).expect("is set");
    let to = engine.trim_point(p, b"list", 20).expect("reads").expect("some are left");
    engine.write(p, EntryKind::Trim, FLAG_LIST, 2, b"list", &to.encode()).expect("is accepted");
    let before = parts_read(&mut engine, p, 1);
    assert_eq!(before.each_ref().map(Vec::len), [300, 320]);
    engine.sync().expect("syncs");
    let policy = engine.policy(1);
    let (mut runs, mut steps) = (0, 0);
    loop {
        let (io, store) = engine.store(p).expect("is open");
        if !store.compaction_begin(io, &policy).expect("begins") {
            break;
        }
        runs += 1;
        loop {
            let (io, store) = engine.store(p).expect("is open");
            let step = store.compaction_step(io, true).expect("goes on");
            steps += 1;
            assert_eq!(parts_read(&mut engine, p, 1), before, "after step {steps}");
            let mut read = Vec::new();
            engine.read_chunk(p, b"chunk", 0..2_300, &mut read).expect("reads");
            assert!(read == written, "after step {steps}");
            if step == MaintenanceStep::Done {
                break;
            }
        }
    }
    assert!(runs > 0 && steps > 10, "{steps} steps of {runs} compactions");
    recounted(&mut engine, p);
    let rows = engine.store(p).expect("is open").1.places.len();
    engine.set_horizon(p, None).expect("is set");
    recounted(&mut engine, p);
    let left = engine.store(p).expect("is open").1.places.len();
    assert!(left >= 300 && left < rows, "{left} of {rows}: those of the older versions are gone");
    let (mut engine, p) = crash(&disk, engine);
    assert_eq!(parts_read(&mut engine, p, u64::MAX)[0], before[0]);
    recounted(&mut engine, p);
    write(&mut engine, p, EntryKind::Remove, 0, "list", b"");
    write(&mut engine, p, EntryKind::Remove, 0, "chunk", b"");
    recounted(&mut engine, p);
    assert_eq!(engine.store(p).expect("is open").1.places.len(), 0);
}
