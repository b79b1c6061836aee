//! The snapshot install of a log that is sent segment by segment.

use zerohop_engine::disk::simulated::SimulatedDisk;
use zerohop_engine::{
    Cursor, Durability, Engine, EngineError, EngineOptions, EntryKind, FLAG_LIST, Handle, LogRun,
    PartitionId, PartitionOptions, RunPlace,
};

use crate::support::TestEngine as Store;

const P: PartitionId = PartitionId(1);

fn open_as(disk: &SimulatedDisk, durability: Durability, index_seed: u64) -> (Store, Handle) {
    let options = EngineOptions { segment_bytes: 4 << 10, disk_reserve_bytes: 0, ..EngineOptions::default() };
    let (mut engine, report) = Engine::open(disk.clone(), options).expect("opens");
    assert_eq!(report.damage().map(ToString::to_string).next(), None);
    engine.commit_all().expect("commits");
    let p = engine.partition(P, PartitionOptions { durability, index_seed }).expect("opens");
    (engine, p)
}

fn open(disk: &SimulatedDisk) -> (Store, Handle) {
    open_as(disk, Durability::DEFAULT, 7)
}

/// Records of every type over several segments, some overwritten, removed or compacted away, and an
/// open segment.
fn filled_store(seed: u64, durability: Durability) -> (Store, Handle) {
    let (mut engine, p) = open_as(&SimulatedDisk::new(seed), durability, 7);
    let mut write = |kind, flags, key: &[u8], payload: &[u8]| {
        engine.write(p, kind, flags, 1, key, payload).expect("is accepted");
    };
    for round in 0..3 {
        for number in 0..40_u8 {
            write(EntryKind::Put, 0, &[number], &vec![number + round; 100 + 7 * usize::from(number)]);
        }
        write(EntryKind::Append, FLAG_LIST, b"list", b"\x01\0\0\0one");
        write(EntryKind::Append, 0, b"bytes", b"more");
    }
    for number in 0..10 {
        write(EntryKind::Remove, 0, &[number], b"");
    }
    engine.sync().expect("syncs");
    engine.compact(p).expect("compacts");
    engine.write(p, EntryKind::Put, 0, 1, b"last", &[7; 300]).expect("is accepted");
    (engine, p)
}

/// Installs at most this many runs. Returns whether the log is complete.
fn install_runs(from: (&mut Store, Handle), to: (&mut Store, Handle), (bytes, most): (usize, usize)) -> bool {
    let last = from.0.partition_stats(from.1).expect("is open").last;
    let (mut place, mut run) = (RunPlace::default(), Vec::new());
    for _ in 0..most {
        match from.0.read_run(from.1, &mut place, (last.1, bytes), &mut run).expect("is read") {
            LogRun::Bytes { begins } => drop(to.0.install_run(to.1, begins, &run).expect("is installed")),
            LogRun::End => {
                to.0.finish_install(to.1, last).expect("is all");
                return true;
            }
            other => panic!("{other:?}"),
        }
    }
    false
}

fn records(engine: &mut Store, p: Handle) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
    let (mut found, mut cursor) = (Vec::new(), Some(Cursor::START));
    while let Some(from) = cursor {
        let (keys, next) = engine.scan(p, &from).expect("scans");
        for key in keys {
            let value = engine.lookup_assembled(p, &key).expect("reads");
            found.push((key, value));
        }
        cursor = next;
    }
    found.sort();
    found.dedup();
    found
}

fn checkpoint(engine: &mut Store, p: Handle) {
    engine.checkpoint_begin(p, b"state").expect("begins");
    for ms in 0..1_000 {
        engine.maintain(ms).expect("goes on");
    }
    assert!(engine.partition_stats(p).expect("is open").checkpoint_bytes > 0);
}

#[test]
fn installed_log_equals_source_after_crash() {
    for bytes in [1, 100, 1000, 1 << 20] {
        let (mut from, p) = filled_store(1, Durability::DEFAULT);
        let disk = SimulatedDisk::new(2);
        let (mut to, q) = open_as(&disk, Durability::DEFAULT, 99);
        to.begin_install(q).expect("begins");
        assert!(install_runs((&mut from, p), (&mut to, q), (bytes, usize::MAX)));
        let expected = records(&mut from, p);
        assert_eq!(records(&mut to, q), expected, "pieces of {bytes}");
        let (of_from, of_to) =
            (from.partition_stats(p).expect("is open"), to.partition_stats(q).expect("is open"));
        assert_eq!(
            (of_to.last, of_to.commit, of_to.records),
            (of_from.last, of_from.commit, of_from.records)
        );
        assert_eq!(of_to.log.segments, of_from.log.segments);
        checkpoint(&mut to, q);
        to.end_install(q).expect("ends");
        // The installed log continues as any log does.
        to.write(q, EntryKind::Put, 0, 2, b"behind", b"it").expect("is accepted");
        to.sync().expect("syncs");
        drop(to);
        disk.crash();
        let (mut to, q) = open(&disk);
        let mut expected = expected;
        expected.push((b"behind".to_vec(), Some(b"it".to_vec())));
        expected.sort();
        assert_eq!(records(&mut to, q), expected, "pieces of {bytes}");
        to.compact(q).expect("compacts");
        assert_eq!(records(&mut to, q), expected, "pieces of {bytes}");
    }
}

/// Installs a log with a power cut after this many disk operations. Returns an error in the
/// remaining state, if there is one.
fn crashed_after(operations: u64) -> Option<&'static str> {
    let (mut from, p) = filled_store(1, Durability::DEFAULT);
    let disk = SimulatedDisk::new(operations);
    let (mut to, q) = open(&disk);
    disk.cut_power_after(operations);
    let mut ends = || -> Result<(), EngineError> {
        to.begin_install(q)?;
        let last = from.partition_stats(p)?.last;
        let (mut place, mut run) = (RunPlace::default(), Vec::new());
        while let LogRun::Bytes { begins } = from.read_run(p, &mut place, (last.1, 3000), &mut run)? {
            to.install_run(q, begins, &run)?;
            to.maintain(operations)?;
            to.sync()?;
        }
        to.finish_install(q, last)?;
        to.checkpoint_begin(q, b"state")?;
        for ms in 0..1_000 {
            to.maintain(operations + ms)?;
        }
        to.end_install(q)
    };
    let has_ended = ends().is_ok();
    drop(to);
    disk.crash();
    let (mut to, q) = open(&disk);
    let found = records(&mut to, q);
    if found.is_empty() && !has_ended && to.partition_stats(q).expect("is open").last == (0, 0) {
        // The install can be repeated.
        to.begin_install(q).expect("begins");
        assert!(install_runs((&mut from, p), (&mut to, q), (500, usize::MAX)));
        return None;
    }
    (found != records(&mut from, p)).then_some("a part of it is there")
}

#[test]
fn incomplete_install_is_removed_after_crash() {
    for operations in 0..120 {
        assert_eq!(crashed_after(operations), None, "{operations}");
    }
}

#[cfg(debug_assertions)]
#[test]
fn test_finds_every_snapshot_install_mutant() {
    use zerohop_engine::planted::{Bug, plant};
    for bug in Bug::OF_SNAPSHOT_INSTALL {
        plant(Some(bug));
        // The next opening may report the rest as damage instead.
        let found = (0..120).find(|&operations| {
            std::panic::catch_unwind(|| crashed_after(operations)).map_or(true, |wrong| wrong.is_some())
        });
        plant(None);
        assert!(found.is_some(), "{bug:?} was not found");
    }
}

#[test]
fn memory_logs_are_installed_too() {
    let (mut from, p) = filled_store(1, Durability::Memory);
    let (mut to, q) = open_as(&SimulatedDisk::new(2), Durability::Memory, 99);
    to.begin_install(q).expect("begins");
    assert!(install_runs((&mut from, p), (&mut to, q), (700, usize::MAX)));
    to.end_install(q).expect("ends");
    assert_eq!(records(&mut to, q), records(&mut from, p));
    to.write(q, EntryKind::Put, 0, 2, b"behind", b"it").expect("is accepted");
}

#[test]
fn install_on_full_disk_fails_and_can_be_retried() {
    let (mut from, p) = filled_store(1, Durability::DEFAULT);
    let disk = SimulatedDisk::new(2);
    let (mut to, q) = open(&disk);
    to.begin_install(q).expect("begins");
    disk.set_capacity(3000);
    let last = from.partition_stats(p).expect("is open").last;
    let (mut place, mut run) = (RunPlace::default(), Vec::new());
    let mut refused = 0;
    while let LogRun::Bytes { begins } =
        from.read_run(p, &mut place, (last.1, 1000), &mut run).expect("is read")
    {
        if let Err(error) = to.install_run(q, begins, &run) {
            assert!(matches!(error, EngineError::DiskFull { .. }), "{error}");
            refused += 1;
            disk.set_capacity(None);
            to.install_run(q, begins, &run).expect("is installed");
        }
    }
    assert_eq!(refused, 1);
    to.finish_install(q, last).expect("is all");
    assert_eq!(records(&mut to, q), records(&mut from, p));
}

#[test]
fn corrupt_entry_is_reported_and_not_read() {
    let disk = SimulatedDisk::new(3);
    let (mut engine, p) = open(&disk);
    for number in 0..20_u8 {
        engine.write(p, EntryKind::Put, 0, 1, &[number], &[number; 1000]).expect("is accepted");
    }
    // Entries that a checkpoint covers are not read into memory at the next start.
    checkpoint(&mut engine, p);
    drop(engine.close().expect("closes"));
    let (mut engine, p) = open(&disk);
    let file = engine.pin_segments(p).expect("is open")[0].path.clone();
    // The middle of the second entry's payload.
    disk.corrupt_at(&file, 80 + 1029 + 600, 1).expect("becomes corrupt");
    let (mut place, mut run) = (RunPlace::default(), Vec::new());
    let mut first = || engine.read_run(p, &mut place, (20, 100_000), &mut run).expect("is read");
    assert_eq!(first(), LogRun::Bytes { begins: true });
    assert_eq!(first(), LogRun::Corrupt { index: 2 });
    assert_eq!(first(), LogRun::Corrupt { index: 2 });
    drop(engine);
}

#[test]
fn segment_runs_out_of_order_are_refused() {
    let (mut from, p) = filled_store(1, Durability::DEFAULT);
    let (mut place, mut run) = (RunPlace::default(), Vec::new());
    let begins = from.read_run(p, &mut place, (u64::MAX, 1000), &mut run).expect("is read");
    assert_eq!(begins, LogRun::Bytes { begins: true });
    let (mut to, q) = open(&SimulatedDisk::new(2));
    to.begin_install(q).expect("begins");
    let is_refused = |to: &mut Store, begins, bytes: &[u8]| {
        matches!(to.install_run(q, begins, bytes), Err(EngineError::Format { .. }))
    };
    assert!(is_refused(&mut to, false, &run[80..]), "nothing was begun");
    assert!(is_refused(&mut to, true, &run[..50]), "half a header");
    to.install_run(q, true, &run).expect("is installed");
    assert!(is_refused(&mut to, true, &run), "the same again");
    let mut corrupt = Vec::new();
    from.read_run(p, &mut place, (u64::MAX, 1000), &mut corrupt).expect("is read");
    corrupt[40] ^= 1;
    assert!(is_refused(&mut to, false, &corrupt), "a bit is wrong");
    assert!(matches!(to.begin_install(q), Err(EngineError::NotNext { .. })));
}

/// Pseudo-random bytes for payloads.
fn noise(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

/// A log with much dead space, in segments of many blocks, the last of them open.
fn written_over(seed: u64, entries: u64, segment_bytes: u64) -> (Store, Handle) {
    let options = EngineOptions { segment_bytes, disk_reserve_bytes: 0, ..EngineOptions::default() };
    let (mut engine, _) = Engine::open(SimulatedDisk::new(seed), options).expect("opens");
    let own = PartitionOptions { durability: Durability::DEFAULT, index_seed: 7 };
    let p = engine.partition(P, own).expect("opens");
    let mut state = seed;
    for _ in 0..entries {
        let (key, bytes) = (noise(&mut state) % 12, noise(&mut state) % 9_000);
        let payload = vec![bytes as u8; bytes as usize];
        match noise(&mut state) % 8 {
            0 => engine.write(p, EntryKind::Remove, 0, 1, &[key as u8], b"").expect("is accepted"),
            _ => engine.write(p, EntryKind::Put, 0, 1, &[key as u8], &payload).expect("is accepted"),
        };
    }
    (engine, p)
}

#[test]
fn maintenance_skips_a_log_during_install() {
    let (mut from, p) = written_over(1, 400, 8 << 20);
    let disk = SimulatedDisk::new(2);
    let options = EngineOptions { disk_reserve_bytes: 0, ..EngineOptions::default() };
    let (mut to, _) = Engine::open(disk, options).expect("opens");
    let own = PartitionOptions { durability: Durability::DEFAULT, index_seed: 9 };
    let q = to.partition(P, own).expect("opens");
    to.begin_install(q).expect("begins");
    let last = from.partition_stats(p).expect("is open").last;
    let (mut place, mut run) = (RunPlace::default(), Vec::new());
    let mut ms = 0;
    while let LogRun::Bytes { begins } =
        from.read_run(p, &mut place, (last.1, 50_000), &mut run).expect("is read")
    {
        to.install_run(q, begins, &run).expect("is installed");
        for _ in 0..40 {
            ms += 1_000;
            to.maintain(ms).expect("goes on");
        }
        to.checkpoint_begin(q, b"of a half").expect("does nothing");
        assert_eq!(to.partition_stats(q).expect("is open").checkpoint_bytes, 0);
        assert_eq!(to.compact(q), Ok(()));
    }
    to.finish_install(q, last).expect("is all");
    checkpoint(&mut to, q);
    to.end_install(q).expect("ends");
    assert_eq!(records(&mut to, q), records(&mut from, p));
    to.write(q, EntryKind::Put, 0, 2, b"behind", b"it").expect("is accepted");
    to.compact(q).expect("compacts");
    assert!(to.partition_stats(q).expect("is open").log.dead_bytes < 400 << 10, "now it may");
}

#[test]
fn no_append_or_truncation_during_install() {
    let (mut from, p) = filled_store(1, Durability::DEFAULT);
    let (mut to, q) = open(&SimulatedDisk::new(2));
    to.begin_install(q).expect("begins");
    let is_left_alone = |to: &mut Store| {
        let last = to.partition_stats(q).expect("is open").last;
        let written = to.write(q, EntryKind::Put, 0, 2, b"behind", b"it");
        assert_eq!(written, Err(EngineError::Incoming));
        let meta = zerohop_engine::EntryMeta {
            kind: EntryKind::Mark,
            flags: 0,
            epoch: 9,
            index: last.1 + 1,
            timestamp: 1,
        };
        assert_eq!(to.append(q, &meta, b"", b"mark"), Err(EngineError::Incoming));
        assert_eq!(to.truncate_after(q, 0), Err(EngineError::Incoming));
        assert_eq!(to.partition_stats(q).expect("is open").last, last);
    };
    is_left_alone(&mut to);
    assert!(!install_runs((&mut from, p), (&mut to, q), (1000, 5)));
    is_left_alone(&mut to);
    assert_eq!(to.end_install(q), Err(EngineError::Incoming), "not all is there");
    to.drop_partition(P).expect("goes");
    let q = to.partition(P, PartitionOptions::default()).expect("opens");
    to.begin_install(q).expect("begins");
    assert!(install_runs((&mut from, p), (&mut to, q), (1000, usize::MAX)));
    let (mut place, mut run) = (RunPlace::default(), Vec::new());
    from.read_run(p, &mut place, (u64::MAX, 1000), &mut run).expect("is read");
    assert!(matches!(to.install_run(q, true, &run), Err(EngineError::Format { .. })), "all was there");
    to.end_install(q).expect("ends");
    to.write(q, EntryKind::Put, 0, 2, b"behind", b"it").expect("is accepted");
}
