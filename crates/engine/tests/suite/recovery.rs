//! The results of a recovery from the files after a crash, corruption or a compaction.

use std::collections::BTreeMap;

use zerohop_base::random::Random;
use zerohop_engine::disk::Disk;
use zerohop_engine::disk::simulated::SimulatedDisk;
use zerohop_engine::{
    Durability, Engine, EngineError, EngineOptions, EntryKind, FLAG_LIST, Handle, PartitionId,
    PartitionOptions,
};

use crate::support::TestEngine as Store;

fn options(segment_bytes: u64) -> EngineOptions {
    EngineOptions { segment_bytes, disk_reserve_bytes: 0, ..EngineOptions::default() }
}

fn open(disk: &SimulatedDisk, segment_bytes: u64) -> (Store, Handle) {
    let (mut engine, report) = Engine::open(disk.clone(), options(segment_bytes)).expect("opens");
    assert_eq!(report.damage().map(ToString::to_string).next(), None);
    engine.commit_all().expect("commits");
    let partition_options = PartitionOptions { durability: Durability::Interval { ms: 10 }, index_seed: 7 };
    let p = engine.partition(PartitionId(1), partition_options).expect("opens");
    (engine, p)
}

fn put(engine: &mut Store, p: Handle, key: &[u8], value: &[u8]) -> u64 {
    engine.write(p, EntryKind::Put, 0, 1, key, value).expect("is accepted")
}

fn get(engine: &mut Store, p: Handle, key: &[u8]) -> Option<Vec<u8>> {
    engine.lookup_assembled(p, key).expect("can be read")
}

fn names(disk: &SimulatedDisk, ending: &str) -> Vec<String> {
    let listed = disk.clone().list("p-0000000000000001").expect("lists");
    let names = listed.into_iter().map(|entry| format!("p-0000000000000001/{}", entry.name));
    names.filter(|name| name.ends_with(ending)).collect()
}

#[test]
fn a_crash_over_many_unsynced_segments_leaves_a_prefix() {
    for seed in 0..400 {
        let disk = SimulatedDisk::new(seed);
        let mut random = Random::new(seed);
        let mut floor = 0;
        for round in 0..3u8 {
            let (mut engine, p) = open(&disk, 4 << 10);
            let (_, last) = engine.partition_stats(p).expect("is open").last;
            assert!(last >= floor, "seed {seed}: {last} of {floor}");
            for index in 1..=last {
                assert_eq!(
                    engine.read_entry(p, index).expect("is there").head.meta.index,
                    index,
                    "seed {seed}"
                );
            }
            for n in 0..40 {
                let value = vec![7; random.below(1500) as usize];
                put(&mut engine, p, &[round, n], &value);
                if random.chance(1, 20) {
                    engine.sync().expect("syncs");
                }
                engine.maintain(0).expect("goes well");
            }
            floor = engine.durable_index(p).expect("is open");
            drop(engine);
            disk.crash();
        }
    }
}

/// A checkpoint between a compaction's copy and its end has a removal only as an absent record.
#[test]
fn record_removed_during_segment_compaction_stays_removed() {
    for steps in 0..80 {
        let disk = SimulatedDisk::new(steps);
        let (mut engine, p) = open(&disk, 32 << 10);
        put(&mut engine, p, b"removed", b"value");
        for n in 0..60u32 {
            put(&mut engine, p, &(n % 7).to_le_bytes(), &[n as u8; 4000]);
        }
        engine.sync().expect("syncs");
        for now in 0..steps {
            engine.maintain(100_000 + now).expect("goes well");
        }
        engine.write(p, EntryKind::Remove, 0, 1, b"removed", b"").expect("is accepted");
        engine.checkpoint_begin(p, b"").expect("begins");
        for now in 0..100 {
            engine.maintain(200_000 + now).expect("goes well");
        }
        engine.sync().expect("syncs");
        drop(engine);
        disk.crash();
        let (mut engine, p) = open(&disk, 32 << 10);
        assert_eq!(get(&mut engine, p, b"removed"), None, "after {steps} steps");
    }
}

#[test]
fn record_of_other_kind_than_in_checkpoint_survives_compaction() {
    let disk = SimulatedDisk::new(1);
    let (mut engine, p) = open(&disk, 4 << 10);
    for _ in 0..2 {
        engine.write(p, EntryKind::Append, FLAG_LIST, 1, b"k", b"\x01\0\0\0value").expect("is accepted");
    }
    engine.close().expect("writes a checkpoint");
    let (mut engine, p) = open(&disk, 4 << 10);
    engine.write(p, EntryKind::Remove, 0, 1, b"k", b"").expect("is accepted");
    for _ in 0..10 {
        put(&mut engine, p, b"other", &[7; 1000]);
    }
    engine.compact(p).expect("drops the list and its removal");
    engine.write(p, EntryKind::Append, 0, 1, b"k", b"bytes").expect("is accepted");
    // Later entries show that it was committed, so that recovery applies it.
    for _ in 0..2 {
        engine.sync().expect("syncs");
        put(&mut engine, p, b"other", b"");
    }
    drop(engine);
    disk.crash();
    let (mut engine, p) = open(&disk, 4 << 10);
    assert_eq!(get(&mut engine, p, b"k").as_deref(), Some(&b"bytes"[..]));
}

#[test]
fn corruption_beside_the_end_of_the_log_is_not_returned_after_a_checkpoint() {
    let disk = SimulatedDisk::new(1);
    let (mut engine, p) = open(&disk, 1 << 20);
    put(&mut engine, p, b"k", &[7; 1000]);
    put(&mut engine, p, b"other", b"value");
    engine.close().expect("closes");
    disk.corrupt_at(&names(&disk, ".seg")[0], 700, 1).expect("is there");
    let (mut engine, p) = open(&disk, 1 << 20);
    assert!(matches!(engine.lookup_assembled(p, b"k"), Err(EngineError::Corrupt { .. })));
    assert_eq!(get(&mut engine, p, b"other").as_deref(), Some(&b"value"[..]));
}

#[test]
fn append_to_corrupt_record_keeps_its_error() {
    for flags in [0, FLAG_LIST] {
        let disk = SimulatedDisk::new(1);
        let (mut engine, p) = open(&disk, 4 << 10);
        engine.write(p, EntryKind::Append, flags, 1, b"k", b"\x01\0\0\0corrupt").expect("is accepted");
        engine.close().expect("writes a checkpoint");
        // The offset is behind the header, a mark, and the entry's head.
        disk.corrupt_at(&names(&disk, ".seg")[0], 80 + 124 + 28, 1).expect("is there");
        let (mut engine, p) = open(&disk, 4 << 10);
        engine.write(p, EntryKind::Append, flags, 1, b"k", b"\x01\0\0\0good").expect("is accepted");
        assert!(matches!(engine.lookup_assembled(p, b"k"), Err(EngineError::Corrupt { .. })), "{flags}");
        assert!(matches!(engine.inspect(p, b"k"), Err(EngineError::Corrupt { .. })), "{flags}");
        put(&mut engine, p, b"k", b"new");
        assert_eq!(get(&mut engine, p, b"k").as_deref(), Some(&b"new"[..]));
    }
}

#[test]
fn every_corrupt_byte_is_detected_or_harmless() {
    let disk = SimulatedDisk::new(1);
    let (mut engine, p) = open(&disk, 4 << 10);
    let mut model = BTreeMap::new();
    for n in 0..40u8 {
        let (key, value) = (vec![n % 9], vec![n; 6 * usize::from(n)]);
        if n % 7 == 3 {
            engine.write(p, EntryKind::Remove, 0, 1, &key, b"").expect("is accepted");
            model.insert(key, None);
        } else {
            put(&mut engine, p, &key, &value);
            model.insert(key, Some(value));
        }
        if n == 20 {
            engine.sync().expect("syncs");
        }
    }
    engine.close().expect("closes");
    let files = [names(&disk, ".seg"), names(&disk, ".ckp")].concat();
    for path in files {
        let folder = disk.clone().list("p-0000000000000001").expect("lists");
        let bytes = folder.iter().find(|entry| path.ends_with(&entry.name)).expect("is there").bytes;
        for offset in 0..bytes {
            let twin = disk.duplicate();
            twin.corrupt_at(&path, offset, 0x10).expect("is there");
            let (mut engine, report) = match Engine::open(twin, options(4 << 10)) {
                Ok(opened) => opened,
                Err(EngineError::Format { .. }) => continue,
                Err(error) => panic!("{path}+{offset}: {error}"),
            };
            let Some((_, p)) = engine.partitions().next() else { panic!("{path}+{offset}: no partition") };
            engine.commit(p, u64::MAX).expect("commits");
            for (key, value) in &model {
                match engine.lookup_assembled(p, key) {
                    Ok(got) => assert!(
                        got == *value || report.damage().count() > 0,
                        "{path}+{offset}: silently wrong"
                    ),
                    Err(EngineError::Corrupt { .. }) => {}
                    Err(error) => panic!("{path}+{offset}: {error}"),
                }
            }
        }
    }
}

#[test]
fn compaction_ends_when_trims_and_versions_keep_dead_entries() {
    let (mut engine, p) = open(&SimulatedDisk::new(1), 4 << 10);
    engine.write(p, EntryKind::Append, FLAG_LIST, 1, b"list", b"\x05\0\0\0value").expect("is accepted");
    let to = engine.trim_point(p, b"list", 2).expect("reads").expect("some are left");
    engine.write(p, EntryKind::Trim, FLAG_LIST, 2, b"list", &to.encode()).expect("is accepted");
    engine.set_horizon(p, Some(0)).expect("is open");
    put(&mut engine, p, b"k", b"v");
    engine.write(p, EntryKind::Remove, 0, 3, b"k", b"").expect("is accepted");
    for _ in 0..10 {
        put(&mut engine, p, b"other", &[7; 1000]);
    }
    engine.compact(p).expect("ends");
    engine.set_horizon(p, None).expect("is open");
    engine.compact(p).expect("ends");
    let record = engine.lookup(p, b"list").expect("reads").expect("is there");
    let zerohop_engine::RecordBody::Parts(parts) = record.body else { panic!("it was trimmed") };
    assert_eq!((parts.skipped, parts.units), (2, 3));
}

#[test]
fn segments_too_far_apart_in_epoch_or_time_are_not_merged() {
    let disk = SimulatedDisk::new(1);
    let (mut engine, p) = open(&disk, 4 << 10);
    let mut index = 0;
    for round in 0..12u64 {
        for n in 0..10u64 {
            index += 1;
            let meta = zerohop_engine::EntryMeta {
                kind: EntryKind::Put,
                flags: 0,
                epoch: 1 + 200 * round as u32,
                index,
                timestamp: round << 46,
            };
            engine.append(p, &meta, &[(n % 3) as u8, round as u8], &[7; 100]).expect("is accepted");
        }
    }
    engine.commit(p, index).expect("commits");
    engine.compact(p).expect("compacts");
    for (engine, p) in [(engine, p), open(&disk, 4 << 10)].iter_mut().map(|(engine, p)| (engine, *p)) {
        for round in 0..12u64 {
            let record = engine.lookup(p, &[0, round as u8]).expect("reads").expect("is there");
            assert_eq!((record.epoch, record.timestamp), (1 + 200 * round as u32, round << 46));
        }
    }
}

/// An entry that compaction leaves out is dead because of a newer entry, which must not be lost if
/// the older one is gone.
#[test]
fn durable_value_survives_overwrite_during_segment_compaction() {
    for steps in 0..80 {
        let disk = SimulatedDisk::new(steps);
        let (mut engine, p) = open(&disk, 32 << 10);
        for n in 0..60u32 {
            if n == 45 {
                put(&mut engine, p, b"k", b"old");
            }
            put(&mut engine, p, &(n % 7).to_le_bytes(), &[n as u8; 4000]);
        }
        engine.sync().expect("syncs");
        for _ in 0..steps {
            engine.maintain(100_000).expect("goes well");
        }
        put(&mut engine, p, b"k", b"new");
        // No time passes, so that no interval causes a sync.
        for _ in 0..60 {
            engine.maintain(100_000).expect("goes well");
        }
        drop(engine);
        disk.crash();
        let (mut engine, p) = open(&disk, 32 << 10);
        let value = get(&mut engine, p, b"k");
        assert!(
            [Some(&b"old"[..]), Some(&b"new"[..])].contains(&value.as_deref()),
            "after {steps} steps: {value:?}"
        );
    }
}

#[test]
fn value_replaced_by_list_stays_absent_after_trim() {
    for operations in 0..80 {
        let disk = SimulatedDisk::new(operations);
        let (mut engine, p) = open(&disk, 4 << 10);
        put(&mut engine, p, b"k", b"replaced");
        put(&mut engine, p, b"alive", &[7; 3900]);
        for _ in 0..5 {
            put(&mut engine, p, b"other", &[7; 1000]);
        }
        engine.write(p, EntryKind::Put, FLAG_LIST, 1, b"k", b"\x01\0\0\0first").expect("is accepted");
        engine.write(p, EntryKind::Append, FLAG_LIST, 1, b"k", b"\x02\0\0\0second").expect("is accepted");
        let to = engine.trim_point(p, b"k", 2).expect("reads").expect("some are left");
        engine.write(p, EntryKind::Trim, FLAG_LIST, 1, b"k", &to.encode()).expect("is accepted");
        for _ in 0..5 {
            put(&mut engine, p, b"other", &[7; 1000]);
        }
        engine.sync().expect("syncs");
        // Compaction may be interrupted after any run; the oldest segment, with the replaced entry,
        // has the least dead space.
        disk.cut_power_after(operations);
        drop(engine.compact(p));
        drop(engine);
        disk.crash();
        let (mut engine, p) = open(&disk, 4 << 10);
        assert_eq!(get(&mut engine, p, b"k").as_deref(), Some(&b"second"[..]), "{operations}");
    }
}

#[test]
fn entries_are_found_by_index_after_a_checkpoint_and_a_torn_tail() {
    for seed in 0..30 {
        let disk = SimulatedDisk::new(seed);
        let mut written = 0;
        for round in 0..3 {
            let (mut engine, p) = open(&disk, 1 << 20);
            let (_, last) = engine.partition_stats(p).expect("is open").last;
            for index in 1..=last {
                let meta = engine.read_entry(p, index).expect("is found").head.meta;
                assert_eq!(meta.index, index, "seed {seed}, round {round}");
            }
            for _ in 0..400 {
                written = put(&mut engine, p, b"k", b"value");
            }
            if round == 0 {
                engine.close().expect("closes");
            } else {
                engine.checkpoint_begin(p, b"").expect("begins");
                for now in 0..20 {
                    put(&mut engine, p, b"k", b"value");
                    engine.maintain(now).expect("goes well");
                }
                drop(engine);
                disk.crash();
            }
        }
        assert!(written > 800);
    }
}

#[test]
fn empty_segment_after_crash_does_not_block_appends() {
    let mut met = 0;
    for seed in 0..300 {
        let disk = SimulatedDisk::new(seed);
        let (mut engine, p) = open(&disk, 4 << 10);
        put(&mut engine, p, b"k", &[7; 5000]);
        put(&mut engine, p, b"k", &[7; 5000]);
        engine.maintain(0).expect("goes well");
        drop(engine);
        disk.crash();
        let (mut engine, p) = open(&disk, 4 << 10);
        let (_, last) = engine.partition_stats(p).expect("is open").last;
        met += u64::from(last == 0);
        // An epoch and a time that are too far from those of the first attempt for their encoding.
        for index in last + 1..last + 4 {
            let (epoch, timestamp) = (1000, 1 << 60);
            let meta = zerohop_engine::EntryMeta { kind: EntryKind::Put, flags: 0, epoch, index, timestamp };
            engine.append(p, &meta, b"k", b"value").expect("is accepted");
            engine.sync().expect("syncs");
        }
        drop(engine);
        disk.crash();
        let (mut engine, p) = open(&disk, 4 << 10);
        assert_eq!(engine.partition_stats(p).expect("is open").last, (1000, last + 3), "seed {seed}");
        assert_eq!(get(&mut engine, p, b"k").as_deref(), Some(&b"value"[..]));
    }
    assert!(met > 0);
}
