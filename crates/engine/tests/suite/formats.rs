//! The bytes on disk: the present writer produces the files in `corpus/v4`, and the present reader
//! reads these and the older ones.
//!
//! A change of format adds `corpus/v5` and keeps reading the others. To write the files of a new
//! version, run this test with `ZEROHOP_WRITE_CORPUS=1`.
#![expect(clippy::disallowed_methods, reason = "reads and writes the pinned files of this folder")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use zerohop_engine::disk::simulated::SimulatedDisk;
use zerohop_engine::disk::{Disk, OpenMode};
use zerohop_engine::{
    ChunkHead, Durability, Engine, EngineOptions, EntryKind, EntryMeta, FLAG_CHUNK, FLAG_JOINED, FLAG_LIST,
    Handle, PartitionId, PartitionOptions, RecoveryReport,
};

type Files = BTreeMap<String, Vec<u8>>;

fn corpus(version: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus").join(version)
}

fn options() -> EngineOptions {
    EngineOptions {
        segment_bytes: 4 << 10,
        disk_reserve_bytes: 0,
        starts_checkpoints: false,
        ..EngineOptions::default()
    }
}

fn partition(engine: &mut Engine<SimulatedDisk>, id: u64, durability: Durability) -> Handle {
    engine.partition(PartitionId(id), PartitionOptions { durability, index_seed: 7 }).expect("opens")
}

fn list_of(values: &[&[u8]]) -> Vec<u8> {
    let mut payload = (values.len() as u32).to_le_bytes().to_vec();
    values.iter().for_each(|v| payload.extend_from_slice(v));
    payload
}

/// The first part covers all, one of the others is zeros without bytes, the last overlaps them.
fn part_of_chunk(n: u32) -> Vec<u8> {
    let (offset, length) = [(0, 500), (100, 50), (400, 200), (120, 20)][n as usize];
    let head = ChunkHead { offset, length, stamp: [n as u8; 16] };
    let bytes = if n == 2 { Vec::new() } else { vec![0xC0 + n as u8; length as usize] };
    [&head.encode()[..], &bytes].concat()
}

/// A fixed history that produces every kind of file, block, entry and record.
fn write_everything() -> Files {
    let disk = SimulatedDisk::new(1);
    let (mut engine, _) = Engine::open(disk.clone(), options()).expect("opens");
    let p = partition(&mut engine, 1, Durability::DEFAULT);
    let mut at = 0;
    let mut write = |engine: &mut Engine<SimulatedDisk>, kind, flags, key: &[u8], payload: &[u8]| {
        at += 1;
        engine.write(p, kind, flags, at, key, payload).expect("is accepted");
    };
    for round in 0..3u8 {
        for n in 0..40u8 {
            write(&mut engine, EntryKind::Put, 0, &[b'k', n], &[round; 60]);
            write(&mut engine, EntryKind::Append, FLAG_LIST, b"list", &list_of(&[&[round, n], b"x"]));
        }
    }
    for n in 0..10u8 {
        write(&mut engine, EntryKind::Remove, 0, &[b'k', n], b"");
        write(&mut engine, EntryKind::Append, 0x40, b"bytes", &[n; 3]);
    }
    for n in 0..4u32 {
        let kind = if n == 0 { EntryKind::Put } else { EntryKind::Append };
        write(&mut engine, kind, FLAG_CHUNK, b"chunk", &part_of_chunk(n));
    }
    let to = engine.trim_point(p, b"list", 31).expect("reads").expect("some are left");
    write(&mut engine, EntryKind::Trim, FLAG_LIST, b"list", &to.encode());
    write(&mut engine, EntryKind::Mark, 0, b"", b"an upper layer's");
    engine.sync().expect("syncs");
    engine.compact(p).expect("compacts");
    engine.checkpoint_begin(p, b"an upper layer's state").expect("begins");
    while engine.maintain(0).expect("is kept up") {}
    for n in 100..110u8 {
        write(&mut engine, EntryKind::Put, 0, &[b'k', n], b"after the checkpoint");
    }
    engine.sync().expect("syncs");

    let q = partition(&mut engine, 0x0000_0002_0000_0003, Durability::Sync);
    let append = |engine: &mut Engine<SimulatedDisk>, epoch, index, key: &[u8], payload: &[u8]| {
        let flags = if key.starts_with(b"joined") { FLAG_JOINED } else { 0 };
        let meta = EntryMeta { kind: EntryKind::Put, flags, epoch, index, timestamp: index };
        engine.append(q, &meta, key, payload).expect("is accepted");
    };
    append(&mut engine, 1, 1, b"small", b"one");
    append(&mut engine, 1, 2, b"large", &[9; 66_000]);
    append(&mut engine, 1, 3, b"cut off", b"never committed");
    engine.flush().expect("flushes");
    engine.commit(q, 2).expect("commits");
    engine.truncate_after(q, 2).expect("cuts");
    append(&mut engine, 2, 3, b"small", b"two");
    append(&mut engine, 2, 4, b"joined, whole", b"first");
    append(&mut engine, 2, 5, b"other", b"second");
    append(&mut engine, 2, 6, b"joined, without its end", b"first");
    engine.flush().expect("flushes");
    let r = partition(&mut engine, 3, Durability::Sync);
    let meta = EntryMeta { kind: EntryKind::Put, flags: 0, epoch: 1, index: 1, timestamp: 1 };
    engine.append(r, &meta, b"journaled", b"alone").expect("is accepted");
    engine.flush().expect("flushes");
    drop(engine);
    disk.power_off_clean();
    all_files(disk, "")
}

fn all_files(mut disk: SimulatedDisk, folder: &str) -> Files {
    let mut files = Files::new();
    for entry in disk.list(folder).expect("lists") {
        let path = if folder.is_empty() { entry.name } else { format!("{folder}/{}", entry.name) };
        if entry.is_dir {
            files.extend(all_files(disk.clone(), &path));
        } else {
            let file = disk.open(&path, OpenMode::Existing).expect("opens");
            let mut bytes = vec![0; entry.bytes as usize];
            disk.read_at(file, 0, &mut bytes).expect("reads");
            files.insert(path, bytes);
        }
    }
    files
}

fn pinned(folder: &Path, prefix: &str) -> Files {
    let mut files = Files::new();
    for entry in std::fs::read_dir(folder).expect("the corpus is there") {
        let entry = entry.expect("can be listed");
        let name = format!("{prefix}{}", entry.file_name().to_str().expect("plain names"));
        if entry.path().is_dir() {
            files.extend(pinned(&entry.path(), &format!("{name}/")));
        } else {
            files.insert(name, std::fs::read(entry.path()).expect("can be read"));
        }
    }
    files
}

#[test]
fn writer_output_equals_pinned_bytes() {
    let written = write_everything();
    if std::env::var_os("ZEROHOP_WRITE_CORPUS").is_some() {
        for (path, bytes) in &written {
            let path = corpus("v4").join(path);
            std::fs::create_dir_all(path.parent().expect("has a folder")).expect("is made");
            std::fs::write(path, bytes).expect("is written");
        }
    }
    let pinned = pinned(&corpus("v4"), "");
    assert_eq!(written.keys().collect::<Vec<_>>(), pinned.keys().collect::<Vec<_>>());
    for (path, bytes) in &pinned {
        let (contents, room) = written[path].split_at(bytes.len().min(written[path].len()));
        let is_room = path.ends_with(".jnl") || room.is_empty();
        assert!(is_room && room.iter().all(|&byte| byte == 0), "{path} has more behind it than it may have");
        assert!(contents == bytes, "{path} differs from what is pinned: a format has changed");
    }
}

#[test]
fn files_of_version_1_are_read() {
    // A journal file may have zeros behind its records; early versions wrote none.
    for room in [0, 1, 5_000] {
        drop(read_everything("v1", room));
    }
}

#[test]
fn version_2_files_are_read_and_incomplete_batch_truncated() {
    let (mut engine, report) = read_everything("v2", 0);
    assert_eq!(report.partitions.iter().map(|(_, found)| found.unfinished).sum::<u64>(), 1);
    let q = partition(&mut engine, 0x0000_0002_0000_0003, Durability::Sync);
    let whole = engine.lookup_assembled(q, b"joined, whole").expect("can be read");
    assert_eq!(whole.as_deref(), Some(&b"first"[..]));
    assert_eq!(engine.lookup_assembled(q, b"joined, without its end").expect("can be read"), None);
}

#[test]
fn files_of_version_3_are_read_with_their_chunks() {
    let (mut engine, _) = read_everything("v3", 0);
    let p = partition(&mut engine, 1, Durability::DEFAULT);
    let mut wanted = [vec![0xC0; 400], vec![0; 200]].concat();
    wanted[100..150].fill(0xC1);
    wanted[120..140].fill(0xC3);
    assert_eq!(engine.lookup_assembled(p, b"chunk").expect("can be read"), Some(wanted));
    let state = engine.chunk_state(p, b"chunk").expect("can be read").expect("is there");
    assert_eq!((state.parts, state.stamp), (4, [3; 16]));
}

#[test]
fn version_4_files_name_the_journal_seed() {
    drop(read_everything("v4", 0));
    let mut files = pinned(&corpus("v4"), "");
    files.retain(|path, _| !path.starts_with("p-0000000000000003/"));
    let (mut engine, report) = Engine::open(disk_with(files, 0), options()).expect("opens");
    assert_eq!(report.damage().next(), None);
    engine.commit_all().expect("commits");
    let r = partition(&mut engine, 3, Durability::Sync);
    assert_eq!(engine.index_seed(r), Ok(7));
    assert_eq!(
        engine.lookup_assembled(r, b"journaled").expect("can be read").as_deref(),
        Some(&b"alone"[..])
    );
}

/// A disk with these files, and this many zeros behind those of the journal.
fn disk_with(files: Files, room: usize) -> SimulatedDisk {
    let disk = SimulatedDisk::new(2);
    for (path, mut bytes) in files {
        let mut disk = disk.clone();
        if path.ends_with(".jnl") {
            bytes.resize(bytes.len() + room, 0);
        }
        let file = disk.open(&path, OpenMode::Create).expect("is made");
        disk.append(file, &bytes).expect("is written");
    }
    disk.power_off_clean();
    disk
}

/// A list had parts 30 and 32 when its checkpoint was written. The list was replaced, and entry 51
/// removed its replacement. Compaction kept parts 30 and 32 as removals, and later dropped entry
/// 51, as nothing older needed it.
#[test]
fn checkpoint_does_not_restore_list_with_parts_kept_as_removals() {
    let disk = disk_with(pinned(&corpus("died-parts"), ""), 0);
    let (mut engine, report) = Engine::open(disk, options()).expect("opens");
    assert_eq!(report.damage().next(), None);
    engine.commit_all().expect("commits");
    let p = partition(&mut engine, 1, Durability::DEFAULT);
    let key = |name: &str, bytes: usize| format!("{name:x<bytes$}").into_bytes();
    assert!(engine.lookup(p, &key("k3", 113)).expect("reads").is_none());
    assert!(engine.lookup(p, &key("k2", 76)).expect("reads").is_some(), "another was put at last");
}

fn read_everything(version: &str, room: usize) -> (Engine<SimulatedDisk>, RecoveryReport) {
    let disk = disk_with(pinned(&corpus(version), ""), room);
    let (mut engine, report) = Engine::open(disk, options()).expect("opens");
    assert_eq!(report.damage().next(), None);
    let from_journal: u64 = report.partitions.iter().map(|(_, p)| p.from_journal).sum();
    let from_checkpoint: u64 = report.partitions.iter().map(|(_, p)| p.from_checkpoint).sum();
    assert!(from_journal > 0 && from_checkpoint > 0, "{report:?}");
    engine.commit_all().expect("commits");

    let p = partition(&mut engine, 1, Durability::DEFAULT);
    let get = |engine: &mut Engine<SimulatedDisk>, p, key: &[u8]| {
        engine.lookup_assembled(p, key).expect("can be read")
    };
    for n in 0..40u8 {
        let expected = (n >= 10).then(|| vec![2; 60]);
        assert_eq!(get(&mut engine, p, &[b'k', n]), expected, "key {n}");
    }
    for n in 100..110u8 {
        assert_eq!(get(&mut engine, p, &[b'k', n]).as_deref(), Some(&b"after the checkpoint"[..]));
    }
    let bytes: Vec<u8> = (0..10u8).flat_map(|n| [n; 3]).collect();
    assert_eq!(get(&mut engine, p, b"bytes"), Some(bytes));
    let record = engine.lookup(p, b"list").expect("reads").expect("is there");
    let zerohop_engine::RecordBody::Parts(parts) = record.body else { panic!("a list of many parts") };
    assert_eq!((parts.parts.len(), parts.skipped, parts.units), (105, 1, 209));
    let first = engine.read_entry(p, parts.parts[0].index).expect("reads").payload.to_vec();
    assert_eq!(first, list_of(&[&[0, 15], b"x"]));

    let q = partition(&mut engine, 0x0000_0002_0000_0003, Durability::Sync);
    assert_eq!(get(&mut engine, q, b"small").as_deref(), Some(&b"two"[..]));
    assert_eq!(get(&mut engine, q, b"large"), Some(vec![9; 66_000]));
    assert_eq!(get(&mut engine, q, b"cut off"), None);
    (engine, report)
}
