//! Guarantees for an upper layer that has its own state in the log and in checkpoints.

use zerohop_engine::disk::simulated::SimulatedDisk;
use zerohop_engine::{
    Durability, Engine, EngineOptions, EntryKind, EntryMeta, FLAG_LIST, FLAG_TRAILER, Handle, PartitionId,
    PartitionOptions, TrimPoint, split_trailer,
};

use crate::support::TestEngine as Store;

fn open(disk: &SimulatedDisk) -> (Store, Handle) {
    let options = EngineOptions {
        segment_bytes: 8 << 10,
        disk_reserve_bytes: 0,
        starts_checkpoints: false,
        ..EngineOptions::default()
    };
    let (mut engine, report) = Engine::open(disk.clone(), options).expect("opens");
    assert_eq!(report.damage().next(), None);
    let options = PartitionOptions { durability: Durability::DEFAULT, index_seed: 3 };
    let p = engine.partition(PartitionId(1), options).expect("opens");
    engine.commit_all().expect("commits");
    (engine, p)
}

fn with_trailer(body: &[u8], trailer: &[u8]) -> Vec<u8> {
    [body, trailer, &[trailer.len() as u8 + 1]].concat()
}

fn list(values: &[&[u8]]) -> Vec<u8> {
    let mut out = (values.len() as u32).to_le_bytes().to_vec();
    values.iter().for_each(|v| out.extend_from_slice(v));
    out
}

/// Takes a checkpoint with this state and waits for it.
fn checkpoint(engine: &mut Store, p: Handle, extra: &[u8]) {
    engine.checkpoint_begin(p, extra).expect("begins");
    for ms in 0..1_000 {
        engine.maintain(ms).expect("goes on");
    }
    assert!(engine.partition_stats(p).expect("is open").checkpoint_bytes > 0);
}

fn indexes_after(engine: &mut Store, p: Handle, after: u64) -> Vec<u64> {
    let mut indexes = Vec::new();
    engine
        .entries_after(p, after, |entry, is_good| {
            assert!(is_good);
            indexes.push(entry.head.meta.index);
        })
        .expect("can be read");
    indexes
}

#[test]
fn trailers_stay_with_entries_and_outside_record_values() {
    let disk = SimulatedDisk::new(1);
    let (mut engine, p) = open(&disk);
    let put = |engine: &mut Store, kind, flags, at, key: &[u8], body: &[u8], trailer: &[u8]| {
        let payload = with_trailer(body, trailer);
        engine.write(p, kind, flags | FLAG_TRAILER, at, key, &payload).expect("is accepted")
    };
    put(&mut engine, EntryKind::Put, 0, 1, b"bytes", b"value", b"who wrote it");
    put(&mut engine, EntryKind::Append, 0, 2, b"bytes", b"+more", b"and who then");
    put(&mut engine, EntryKind::Put, 0, 3, b"whole", b"one", b"");
    put(&mut engine, EntryKind::Append, FLAG_LIST, 4, b"list", &list(&[b"a", b"b"]), b"x");
    put(&mut engine, EntryKind::Append, FLAG_LIST, 5, b"list", &list(&[b"c"]), b"yy");
    let to = engine.trim_point(p, b"list", 1).expect("is there").expect("two are left");
    let trim = put(&mut engine, EntryKind::Trim, 0, 6, b"list", &to.encode(), b"zzz");
    for round in 0..2 {
        let units = |engine: &mut Store, key| engine.inspect(p, key).expect("reads").map(|i| i.units);
        assert_eq!(engine.lookup_assembled(p, b"bytes").expect("reads").as_deref(), Some(&b"value+more"[..]));
        assert_eq!(engine.lookup_assembled(p, b"whole").expect("reads").as_deref(), Some(&b"one"[..]));
        assert_eq!(units(&mut engine, b"bytes"), Some(10), "round {round}");
        assert_eq!(units(&mut engine, b"whole"), Some(3));
        assert_eq!(units(&mut engine, b"list"), Some(2));
        assert_eq!(units(&mut engine, b"none"), None);
        assert_eq!(engine.inspect(p, b"list").expect("reads").map(|i| i.timestamp), Some(6));
        let entry = engine.read_entry(p, trim).expect("is there");
        let (body, trailer) = split_trailer(entry.head.meta.flags, entry.payload);
        assert_eq!((TrimPoint::decode(body), trailer), (Some(to), &b"zzz"[..]));
        engine.sync().expect("syncs");
        drop(engine);
        disk.crash();
        (engine, _) = open(&disk);
    }
}

#[test]
fn bytes_of_invalid_trailer_belong_to_record() {
    assert_eq!(split_trailer(FLAG_TRAILER, b""), (&b""[..], &b""[..]));
    assert_eq!(split_trailer(FLAG_TRAILER, &[7, 9]), (&[7, 9][..], &b""[..]));
    assert_eq!(split_trailer(FLAG_TRAILER, &[7, 0]), (&[7, 0][..], &b""[..]));
    assert_eq!(split_trailer(0, &[7, 1]), (&[7, 1][..], &b""[..]));
    assert_eq!(split_trailer(FLAG_TRAILER, &[7, 8, 2]), (&[7][..], &[8][..]));
}

#[test]
fn only_parts_with_requested_elements_are_returned() {
    let (mut engine, p) = open(&SimulatedDisk::new(1));
    for at in 1..=5 {
        engine.write(p, EntryKind::Append, FLAG_LIST, at, b"k", &list(&[b"x", b"y"])).expect("is accepted");
    }
    let of = |engine: &mut Store, units| {
        let found = engine.parts_of(p, b"k", units).expect("reads");
        (found.parts.iter().map(|part| part.index).collect::<Vec<_>>(), found.skip)
    };
    assert_eq!(of(&mut engine, 0..10), (vec![1, 2, 3, 4, 5], 0));
    assert_eq!(of(&mut engine, 3..5), (vec![2, 3], 1));
    assert_eq!(of(&mut engine, 9..99), (vec![5], 1));
    let to = engine.trim_point(p, b"k", 3).expect("is there").expect("some are left");
    engine.write(p, EntryKind::Trim, 0, 6, b"k", &to.encode()).expect("is accepted");
    assert_eq!(of(&mut engine, 0..1), (vec![2], 1));
    assert_eq!(of(&mut engine, 1..2), (vec![3], 0));
    engine.write(p, EntryKind::Put, FLAG_LIST, 7, b"k", &list(&[b"x", b"y"])).expect("is accepted");
    assert_eq!(of(&mut engine, 1..2), (vec![7], 1));
}

#[test]
fn recovery_finds_checkpoint_payload_and_later_entries() {
    let disk = SimulatedDisk::new(1);
    let (mut engine, p) = open(&disk);
    engine.declare_state_in_log(p).expect("is open");
    for at in 1..=100u64 {
        engine.write(p, EntryKind::Put, 0, at, b"k", &[0; 300]).expect("is accepted");
    }
    engine.sync().expect("syncs");
    checkpoint(&mut engine, p, b"as of 100");
    for at in 101..=150u64 {
        engine.write(p, EntryKind::Put, 0, at, b"k", &[0; 300]).expect("is accepted");
    }
    let next = EntryMeta { kind: EntryKind::Mark, flags: 0, epoch: 1, index: 151, timestamp: 151 };
    engine.append(p, &next, b"", b"not committed").expect("is accepted");
    assert_eq!(indexes_after(&mut engine, p, 148), [149, 150, 151]);
    engine.sync().expect("syncs");
    drop(engine);
    disk.crash();
    let (mut engine, p) = open(&disk);
    assert_eq!(engine.recovered_extra(p), Ok(Some((100, b"as of 100".to_vec()))));
    assert_eq!(engine.recovered_extra(p), Ok(None), "it is returned once");
    assert_eq!(indexes_after(&mut engine, p, 100), (101..=151).collect::<Vec<_>>());
    assert_eq!(indexes_after(&mut engine, p, 151), [0u64; 0]);
}

#[test]
fn older_checkpoint_is_used_if_newest_is_corrupt() {
    let disk = SimulatedDisk::new(1);
    let (mut engine, p) = open(&disk);
    engine.declare_state_in_log(p).expect("is open");
    for round in 1..=2u64 {
        for at in 0..50 {
            engine.write(p, EntryKind::Put, 0, 50 * round + at, b"k", &[0; 300]).expect("is accepted");
        }
        engine.sync().expect("syncs");
        checkpoint(&mut engine, p, format!("round {round}").as_bytes());
    }
    engine.compact(p).expect("compacts");
    drop(engine);
    disk.corrupt_at(&format!("p-{:016x}/{:016x}.ckp", 1, 100), 90, 0xFF).expect("is there");
    let options = EngineOptions { starts_checkpoints: false, ..EngineOptions::default() };
    let (mut engine, _) = Engine::open(disk.clone(), options).expect("opens");
    assert_eq!(engine.recovered_extra(p), Ok(Some((50, b"round 1".to_vec()))));
    assert_eq!(indexes_after(&mut engine, p, 50), (51..=100).collect::<Vec<_>>());
}

#[test]
fn dead_entry_with_state_stays_until_checkpoints_cover_it() {
    let disk = SimulatedDisk::new(1);
    let (mut engine, p) = open(&disk);
    engine.declare_state_in_log(p).expect("is open");
    let overwrite = |engine: &mut Store, from: u64| {
        for at in from..from + 200 {
            engine.write(p, EntryKind::Put, 0, at, b"k", &[0; 300]).expect("is accepted");
        }
        engine.sync().expect("syncs");
    };
    overwrite(&mut engine, 1);
    engine.compact(p).expect("compacts");
    assert_eq!(indexes_after(&mut engine, p, 0).len(), 200, "no checkpoint covers them");
    checkpoint(&mut engine, p, b"1");
    engine.compact(p).expect("compacts");
    assert_eq!(indexes_after(&mut engine, p, 0).len(), 200, "one checkpoint may become corrupt");
    overwrite(&mut engine, 201);
    checkpoint(&mut engine, p, b"2");
    engine.compact(p).expect("compacts");
    assert_eq!(
        indexes_after(&mut engine, p, 200).len(),
        200,
        "what the older one does not cover is all there"
    );
    assert!(indexes_after(&mut engine, p, 0).len() < 300, "what both cover has been compacted");
}

#[test]
fn checkpoint_is_due_after_enough_log_unless_one_is_in_progress() {
    let (mut engine, p) = open(&SimulatedDisk::new(1));
    assert_eq!(engine.checkpoint_is_due(p), Ok(false));
    let large = vec![0; 1 << 20];
    for at in 1..=257 {
        engine.write(p, EntryKind::Put, 0, at, b"k", &large).expect("is accepted");
    }
    assert_eq!(engine.checkpoint_is_due(p), Ok(true));
    engine.checkpoint_begin(p, b"x").expect("begins");
    assert_eq!(engine.checkpoint_is_due(p), Ok(false));
    for ms in 0..1_000 {
        engine.maintain(ms).expect("goes on");
    }
    assert_eq!(engine.checkpoint_is_due(p), Ok(false));
}

#[test]
fn entries_before_torn_tail_survive_newer_checkpoint() {
    for steps in 0..12 {
        let disk = SimulatedDisk::new(steps);
        let (mut engine, p) = open(&disk);
        engine.write(p, EntryKind::Put, 0, 1, b"k", b"one").expect("is accepted");
        engine.write(p, EntryKind::Append, 0, 2, b"k", b"two").expect("is accepted");
        engine.sync().expect("syncs");
        engine.checkpoint_begin(p, b"").expect("begins");
        // This entry is appended during the checkpoint, not committed, and lost.
        for ms in 0..steps {
            engine.maintain(ms).expect("goes on");
        }
        let later = EntryMeta { kind: EntryKind::Mark, flags: 0, epoch: 1, index: 3, timestamp: 3 };
        engine.append(p, &later, b"", &[0; 300]).expect("is accepted");
        for _ in 0..30 {
            engine.maintain(steps).expect("goes on");
        }
        drop(engine);
        disk.crash();
        let (mut engine, p) = open(&disk);
        let whole = engine.lookup_assembled(p, b"k");
        assert_eq!(whole, Ok(Some(b"onetwo".to_vec())), "appended after {steps} steps");
    }
}

/// The first log index whose entry is not the one that was appended there, for a follower that reads all of them while entries
/// are appended and committed, and compaction moves them.
fn wrong_for_follower() -> Option<u64> {
    let (mut engine, p) = open(&SimulatedDisk::new(1));
    let is_right = |engine: &mut Store, index: u64| {
        let key = (index % 50).to_le_bytes();
        let entry = engine.read_entry(p, index).map(|entry| (entry.head.meta.index, entry.key == key));
        entry == Ok((index, true))
    };
    for index in 1..=4_000u64 {
        let meta = EntryMeta { kind: EntryKind::Put, flags: 0, epoch: 1, index, timestamp: index };
        engine.append(p, &meta, &(index % 50).to_le_bytes(), &[7; 30]).expect("is accepted");
        if index % 7 == 0 {
            engine.commit(p, index - 3).expect("commits");
        }
        // One follower is just behind the end, one is behind by up to all entries.
        for read in [index.saturating_sub(index % 20).max(1), index % 13 * index / 13 + 1] {
            if !is_right(&mut engine, read) {
                return Some(read);
            }
        }
    }
    (1..=4_000).find(|&index| !is_right(&mut engine, index))
}

#[test]
fn followers_however_far_behind_read_the_entries_that_they_request() {
    assert_eq!(wrong_for_follower(), None);
}

#[cfg(debug_assertions)]
#[test]
fn test_finds_every_mutant_of_followers() {
    use zerohop_engine::planted::{Bug, plant};
    for bug in Bug::OF_FOLLOWERS {
        plant(Some(bug));
        let found = wrong_for_follower();
        plant(None);
        assert!(found.is_some(), "{bug:?} was not found");
    }
}

#[test]
fn recent_entries_are_read_where_compaction_has_moved_them() {
    let (mut engine, p) = open(&SimulatedDisk::new(1));
    for index in 1..=1_000u64 {
        let meta = EntryMeta { kind: EntryKind::Put, flags: 0, epoch: 1, index, timestamp: index };
        let key = if index % 4 == 0 { index } else { index % 4 };
        engine.append(p, &meta, &key.to_le_bytes(), &[7; 30]).expect("is accepted");
        engine.commit(p, index).expect("commits");
    }
    engine.compact(p).expect("compacts");
    let stats = engine.partition_stats(p).expect("is open");
    assert!(stats.log.bytes < 60_000, "{} bytes are left", stats.log.bytes);
    for index in (4..=1_000).step_by(4) {
        let entry = engine.read_entry(p, index).expect("is there");
        assert_eq!((entry.head.meta.index, entry.key), (index, &index.to_le_bytes()[..]));
    }
}
