//! A full disk refuses writes and serves reads. Once space is free, writes succeed again, and no
//! accepted write is lost.

use std::collections::BTreeSet;
use std::ops::Range;

use zerohop_engine::disk::simulated::SimulatedDisk;
use zerohop_engine::{
    Durability, Engine, EngineError, EngineOptions, EntryKind, Handle, PartitionId, PartitionOptions,
    ReserveShare,
};

pub(crate) const INTERVAL: Durability = Durability::Interval { ms: 10 };

use crate::support::TestEngine as Store;

pub(crate) const CAPACITY: u64 = 600 << 10;

pub(crate) fn options(disk_reserve_bytes: u64) -> EngineOptions {
    EngineOptions {
        segment_bytes: 32 << 10,
        journal_file_bytes: 16 << 10,
        memory_bytes: 64 << 10,
        disk_reserve_bytes,
        ..EngineOptions::default()
    }
}

pub(crate) fn partition(engine: &mut Store, durability: Durability) -> Handle {
    engine.partition(PartitionId(1), PartitionOptions { durability, index_seed: 7 }).expect("opens")
}

pub(crate) fn key(n: u64) -> Vec<u8> {
    format!("key {n}").into_bytes()
}

pub(crate) fn value(n: u64) -> Vec<u8> {
    vec![n as u8; 1000]
}

/// Writes until the disk refuses, also after maintenance has shortened the journal. Returns the
/// acknowledged writes.
pub(crate) fn fill_disk(engine: &mut Store, p: Handle, durability: Durability) -> BTreeSet<u64> {
    let mut kept = BTreeSet::new();
    loop {
        let (before, from) = (kept.len(), kept.last().map_or(0, |last| last + 1));
        fill_disk_once(engine, p, durability, from, &mut kept);
        if kept.len() == before {
            return kept;
        }
        maintain(engine, 100 * from);
    }
}

fn fill_disk_once(
    engine: &mut Store,
    p: Handle,
    durability: Durability,
    from: u64,
    kept: &mut BTreeSet<u64>,
) {
    for n in from..from + 2000 {
        let written = engine.write(p, EntryKind::Put, 0, n, &key(n), &value(n)).map(drop);
        let flushed = written.and_then(|()| engine.flush());
        match flushed {
            Ok(()) => assert!(kept.insert(n)),
            Err(EngineError::DiskFull { .. }) => return,
            Err(other) => panic!("{durability:?}, write {n}: {other}"),
        }
        if let Err(error) = engine.maintain(100 * from + n) {
            panic!("{durability:?}, maintenance: {error}");
        }
    }
    panic!("the disk was never full");
}

fn check(engine: &mut Store, p: Handle, kept: &BTreeSet<u64>) {
    for &n in kept {
        assert_eq!(engine.lookup_assembled(p, &key(n)).expect("reads"), Some(value(n)), "{n}");
    }
}

fn maintain(engine: &mut Store, from: u64) {
    (from..from + 2000).step_by(5).for_each(|now| assert!(engine.maintain(now).is_ok()));
}

#[test]
fn full_disk_refuses_writes_until_space_is_freed() {
    for (seed, durability, reserve) in [
        (1, INTERVAL, 0),
        (2, Durability::Sync, 0),
        (3, INTERVAL, 200 << 10),
        (4, Durability::Sync, 200 << 10),
    ] {
        let disk = SimulatedDisk::new(seed);
        disk.set_capacity(CAPACITY);
        let (mut engine, _) = Engine::open(disk.clone(), options(reserve)).expect("opens");
        let p = partition(&mut engine, durability);
        let mut kept = fill_disk(&mut engine, p, durability);
        assert!(kept.len() > 100, "{durability:?}: {}", kept.len());
        check(&mut engine, p, &kept);
        maintain(&mut engine, 300_000);
        for n in 5000..5010 {
            let refused =
                engine.write(p, EntryKind::Put, 0, 6000, &key(n), &value(n)).and_then(|_| engine.flush());
            assert!(matches!(refused, Err(EngineError::DiskFull { .. })), "{durability:?}: {refused:?}");
        }
        check(&mut engine, p, &kept);

        disk.set_capacity(2 * CAPACITY);
        maintain(&mut engine, 600_000);
        for n in 5000..5100 {
            engine.write(p, EntryKind::Put, 0, 6000, &key(n), &value(n)).expect("there is room");
            kept.insert(n);
        }
        engine.sync().expect("there is room");
        drop(engine);
        disk.crash();
        let (mut engine, report) = Engine::open(disk.clone(), options(reserve)).expect("opens");
        assert_eq!(report.damage().next(), None);
        engine.commit_all().expect("commits");
        let p = partition(&mut engine, durability);
        check(&mut engine, p, &kept);
    }
}

#[test]
fn removals_and_compaction_free_a_full_disk() {
    for (seed, durability) in [(1, INTERVAL), (2, Durability::Sync)] {
        let disk = SimulatedDisk::new(seed);
        disk.set_capacity(CAPACITY);
        let (mut engine, _) = Engine::open(disk.clone(), options(200 << 10)).expect("opens");
        let p = partition(&mut engine, durability);
        let mut kept = fill_disk(&mut engine, p, durability);
        let gone: Vec<u64> = kept.iter().copied().filter(|n| n % 3 > 0).collect();
        for &n in &gone {
            engine.write(p, EntryKind::Remove, 0, 3000, &key(n), b"").expect("a removal is let through");
            engine.flush().expect("a removal is made durable");
            kept.remove(&n);
        }
        maintain(&mut engine, 400_000);
        engine.compact(p).expect("the reserve is there for this");
        maintain(&mut engine, 800_000);
        for n in 5000..5050 {
            engine.write(p, EntryKind::Put, 0, 6000, &key(n), &value(n)).expect("there is room again");
            engine.flush().expect("there is room again");
            kept.insert(n);
        }
        engine.sync().expect("there is room again");
        check(&mut engine, p, &kept);
        drop(engine);
        disk.crash();
        let (mut engine, report) = Engine::open(disk.clone(), options(200 << 10)).expect("opens");
        assert_eq!(report.damage().next(), None);
        engine.commit_all().expect("commits");
        let p = partition(&mut engine, durability);
        check(&mut engine, p, &kept);
        for &n in &gone {
            assert_eq!(engine.lookup_assembled(p, &key(n)).expect("reads"), None, "{n}");
        }
    }
}

/// One millisecond of maintenance with an upper layer that has state of its own.
pub(crate) fn maintain_with_state(engine: &mut Store, p: Handle, now: u64) {
    engine.maintain(now).expect("goes well");
    if engine.needs_entry(p).expect("is open") {
        engine.write(p, EntryKind::Mark, 0, now, b"", b"nothing").expect("a mark is accepted");
        engine.flush().expect("a mark is made durable");
    }
    if engine.checkpoint_is_due(p).expect("is open") {
        engine.checkpoint_begin(p, b"state").expect("begins");
    }
}

pub(crate) fn maintain_for(engine: &mut Store, p: Handle, milliseconds: Range<u64>) {
    milliseconds.for_each(|now| maintain_with_state(engine, p, now));
}

/// Segments stay until two checkpoints cover them, and no write comes that would cause checkpoints.
#[test]
fn removals_free_a_full_disk_without_other_writes() {
    for (seed, durability) in [(1, INTERVAL), (2, Durability::Sync)] {
        let disk = SimulatedDisk::new(seed);
        disk.set_capacity(CAPACITY);
        let options = EngineOptions { starts_checkpoints: false, ..options(200 << 10) };
        let (mut engine, _) = Engine::open(disk.clone(), options).expect("opens");
        let p = partition(&mut engine, durability);
        engine.declare_state_in_log(p).expect("is open");
        let kept = fill_disk(&mut engine, p, durability);
        maintain_for(&mut engine, p, 300_000..302_000);
        for &n in &kept {
            engine.write(p, EntryKind::Remove, 0, 3000, &key(n), b"").expect("a removal is let through");
            engine.flush().expect("a removal is made durable");
        }
        assert!(!engine.has_disk_space(), "{durability:?}: nothing was refused");
        maintain_for(&mut engine, p, 400_000..408_000);
        assert!(engine.has_disk_space(), "{durability:?}: the disk is full of what is dead");
        let stats = engine.partition_stats(p).expect("is open");
        assert!(stats.log.bytes < 40 << 10, "{durability:?}: {} bytes of log", stats.log.bytes);
        engine.write(p, EntryKind::Put, 0, 9_000, &key(1), &value(1)).expect("there is room again");
    }
}

#[test]
fn writes_wait_for_freed_dead_space_and_are_not_refused() {
    let disk = SimulatedDisk::new(1);
    disk.set_capacity(CAPACITY);
    let options = EngineOptions { starts_checkpoints: false, ..options(200 << 10) };
    let (mut engine, _) = Engine::open(disk.clone(), options).expect("opens");
    let p = partition(&mut engine, INTERVAL);
    engine.declare_state_in_log(p).expect("is open");
    for n in 0..10_000 {
        engine
            .write(p, EntryKind::Put, 0, n, &key(n % 50), &value(n))
            .unwrap_or_else(|error| panic!("write {n}: {error}"));
        maintain_with_state(&mut engine, p, n);
    }
    for n in 9_950..10_000 {
        assert_eq!(engine.lookup_assembled(p, &key(n % 50)).expect("reads"), Some(value(n)));
    }
}

/// Without a shortage of space, a log of removed data must not stay without limit: a timer causes
/// the checkpoints.
#[test]
fn idle_partition_frees_its_dead_space() {
    let disk = SimulatedDisk::new(1);
    let options = EngineOptions { starts_checkpoints: false, ..options(0) };
    let (mut engine, _) = Engine::open(disk.clone(), options).expect("opens");
    let p = partition(&mut engine, INTERVAL);
    engine.declare_state_in_log(p).expect("is open");
    for n in 0..300 {
        engine.write(p, EntryKind::Put, 0, n, &key(n), &value(n)).expect("is accepted");
    }
    for n in 0..300 {
        engine.write(p, EntryKind::Remove, 0, 300 + n, &key(n), b"").expect("is accepted");
    }
    maintain_for(&mut engine, p, 0..150_000);
    let stats = engine.partition_stats(p).expect("is open");
    assert!(stats.log.bytes < 20 << 10, "{} bytes of log", stats.log.bytes);
    let marks = stats.last.1 - 600;
    assert!(marks <= 8, "{marks} entries without effect");
}

#[test]
fn compaction_without_space_ends_with_an_error() {
    let disk = SimulatedDisk::new(1);
    let (mut engine, _) = Engine::open(disk.clone(), options(0)).expect("opens");
    let p = partition(&mut engine, INTERVAL);
    for n in 0..200 {
        engine.write(p, EntryKind::Put, 0, n, &key(n % 120), &value(n)).expect("is accepted");
    }
    engine.sync().expect("syncs");
    disk.set_capacity(1000);
    assert!(matches!(engine.compact(p), Err(EngineError::DiskFull { .. })));
    disk.set_capacity(None);
    engine.compact(p).expect("compacts");
    for n in 120..200 {
        assert_eq!(engine.lookup_assembled(p, &key(n % 120)).expect("reads"), Some(value(n)));
    }
}

#[test]
fn compaction_does_not_wait_for_unwritable_log() {
    let disk = SimulatedDisk::new(1);
    let (mut engine, _) = Engine::open(disk.clone(), options(0)).expect("opens");
    let p = partition(&mut engine, INTERVAL);
    for n in 0..200 {
        engine.write(p, EntryKind::Put, 0, n, &key(n % 40), &value(n)).expect("is accepted");
    }
    for steps in 0..60 {
        engine.sync().expect("syncs");
        for _ in 0..steps {
            engine.maintain(0).expect("goes well");
        }
        engine.write(p, EntryKind::Put, 0, 300, &key(steps), &value(steps)).expect("is accepted");
        engine.checkpoint_begin(p, b"").expect("begins");
        disk.set_capacity(1000);
        assert!(matches!(engine.compact(p), Ok(()) | Err(EngineError::DiskFull { .. })));
        disk.set_capacity(None);
    }
}

/// Opening writes to the disk: torn tails are cut, footers are written again, and journal entries
/// go to their segments.
#[test]
fn store_opens_on_a_full_disk() {
    for seed in 0..60 {
        let durability = if seed % 2 == 0 { Durability::Sync } else { INTERVAL };
        let disk = SimulatedDisk::new(seed);
        let (mut engine, _) = Engine::open(disk.clone(), options(0)).expect("opens");
        let p = partition(&mut engine, durability);
        let mut kept = 0;
        for n in 0..40 + seed % 10 {
            engine.write(p, EntryKind::Put, 0, n, &key(n), &value(n)).expect("is accepted");
            engine.flush().expect("flushes");
            engine.maintain(n).expect("goes well");
            kept = engine.durable_index(p).expect("is open");
        }
        drop(engine);
        disk.crash();
        disk.set_capacity(1);
        for round in 0..3 {
            let (mut engine, report) = Engine::open(disk.clone(), options(0)).expect("opens");
            assert_eq!(report.damage().map(ToString::to_string).next(), None, "seed {seed}");
            engine.commit_all().expect("commits");
            let p = partition(&mut engine, durability);
            assert!(engine.partition_stats(p).expect("is open").last.1 >= kept, "seed {seed}, round {round}");
            for n in 0..kept {
                assert_eq!(
                    engine.lookup_assembled(p, &key(n)).expect("reads"),
                    Some(value(n)),
                    "seed {seed}"
                );
            }
            let refused = engine.write(p, EntryKind::Put, 0, 99, &key(99), &value(99));
            if round == 0 {
                assert!(matches!(refused, Err(EngineError::DiskFull { .. })), "{refused:?}");
                maintain(&mut engine, 1000);
            } else if round == 1 {
                disk.set_capacity(None);
                maintain(&mut engine, 2000);
                engine.write(p, EntryKind::Put, 0, 99, &key(99), &value(99)).expect("there is room");
                engine.sync().expect("syncs");
                kept = engine.durable_index(p).expect("is open").min(kept);
            }
            drop(engine);
            disk.crash();
        }
    }
}

/// A partition that is dropped on a full disk is closed. The journal must record the drop before
/// new entries under its name, so that they cannot be mixed up.
#[test]
fn drop_on_full_disk_removes_files_later() {
    let disk = SimulatedDisk::new(3);
    let (mut engine, _) = Engine::open(disk.clone(), options(0)).expect("opens");
    let old = partition(&mut engine, Durability::Sync);
    engine.write(old, EntryKind::Put, 0, 1, b"k", b"old").expect("is written");
    engine.flush().expect("is flushed");
    disk.set_capacity(Some(0));
    assert!(matches!(engine.drop_partition(PartitionId(1)), Err(EngineError::DiskFull { .. })));
    assert_eq!(engine.partitions().count(), 0);
    let again =
        engine.partition(PartitionId(1), PartitionOptions { durability: Durability::Sync, index_seed: 7 });
    assert!(
        matches!(again, Err(EngineError::DiskFull { .. })),
        "nothing may be written before the drop is recorded"
    );
    engine.maintain(5_000).expect("goes on");
    disk.set_capacity(None);
    engine.maintain(5_500).expect("goes on");
    engine.maintain(6_500).expect("goes on");
    let folders = |disk: &SimulatedDisk| {
        use zerohop_engine::disk::Disk;
        disk.clone().list("").expect("lists").iter().filter(|name| name.name.starts_with("p-")).count()
    };
    assert_eq!(folders(&disk), 0, "removed without being asked again");
    let new = partition(&mut engine, Durability::Sync);
    engine.write(new, EntryKind::Put, 0, 2, b"k", b"new").expect("is written");
    engine.flush().expect("is flushed");
    disk.crash();
    drop(engine);
    let (mut engine, _) = Engine::open(disk.clone(), options(0)).expect("opens");
    engine.commit_all().expect("commits");
    let new = partition(&mut engine, Durability::Sync);
    assert_eq!(engine.lookup_assembled(new, b"k").expect("reads"), Some(b"new".to_vec()));
}

/// The journal's entries survive although no other file can be written; an entry that is nowhere
/// yet is not reported as durable. (On real disks the journal has preallocated space, which the
/// last entries use too: `command_line`, `full_disk`.)
#[test]
fn close_on_full_disk_keeps_all_or_errors() {
    for (seed, durability, is_journaled) in
        [(1, INTERVAL, true), (2, Durability::Sync, true), (3, INTERVAL, false)]
    {
        let disk = SimulatedDisk::new(seed);
        let options = EngineOptions { journal_from_due: 1, ..options(0) };
        let (mut engine, _) = Engine::open(disk.clone(), options).expect("opens");
        let p = partition(&mut engine, durability);
        let last = 8;
        for n in 0..last {
            engine.write(p, EntryKind::Put, 0, n, &key(n), &value(n)).expect("there is room");
        }
        if is_journaled {
            engine.flush().expect("there is room");
            (1..5).for_each(|tens| assert!(engine.maintain(10 * tens).is_ok()));
        }
        disk.set_capacity(1_u64);
        match (is_journaled, engine.close().map(drop)) {
            (true, Ok(())) | (false, Err(EngineError::DiskFull { free_bytes: 0 })) => {}
            (_, other) => panic!("{durability:?}: {other:?}"),
        }

        disk.crash();
        disk.set_capacity(None);
        let (mut engine, report) = Engine::open(disk.clone(), options).expect("opens");
        assert_eq!(report.damage().next(), None);
        engine.commit_all().expect("commits");
        let p = partition(&mut engine, durability);
        let there =
            (0..last).filter(|n| engine.lookup_assembled(p, &key(*n)).expect("reads").is_some()).count();
        assert_eq!(there as u64 == last, is_journaled, "{durability:?}: {there}");
    }
}

/// Where nothing was written to the journal yet, as with few partitions: then no file of it would have space.
fn open_with_little(disk: &SimulatedDisk, durability: Durability) -> (Store, Handle) {
    disk.set_capacity(CAPACITY);
    disk.set_preallocated_bytes(16 << 10);
    let (mut engine, _) = Engine::open(disk.clone(), options(200 << 10)).expect("opens");
    let p = partition(&mut engine, durability);
    engine.write(p, EntryKind::Put, 0, 0, &key(0), &value(0)).expect("there is room");
    engine.flush().expect("there is room");
    maintain(&mut engine, 1000);
    (engine, p)
}

/// Another program fills the disk.
fn take_all_space(disk: &SimulatedDisk) {
    let used = {
        use zerohop_engine::disk::Disk;
        CAPACITY - disk.clone().free_bytes().expect("is known")
    };
    disk.set_capacity(used);
}

#[test]
fn writes_are_refused_once_another_program_has_filled_the_disk() {
    for durability in [INTERVAL, Durability::Sync] {
        let disk = SimulatedDisk::new(5);
        let (mut engine, p) = open_with_little(&disk, durability);
        take_all_space(&disk);
        engine.check_disk_space();
        let refused = engine.write(p, EntryKind::Put, 0, 1, &key(1), &value(1));
        assert!(matches!(refused, Err(EngineError::DiskFull { .. })), "{durability:?}: {refused:?}");
        disk.set_capacity(CAPACITY);
        engine.check_disk_space();
        engine.write(p, EntryKind::Put, 0, 1, &key(1), &value(1)).expect("there is room again");
    }
}

/// The failing sync itself shows that the disk is full, whatever the disk says of its free space.
#[test]
fn writes_are_refused_while_accepted_entries_have_no_room() {
    let disk = SimulatedDisk::new(6);
    let (mut engine, p) = open_with_little(&disk, INTERVAL);
    take_all_space(&disk);
    engine.write(p, EntryKind::Put, 0, 1, &key(1), &value(1)).expect("nothing shows it yet");
    maintain(&mut engine, 4000);
    let refused = engine.write(p, EntryKind::Put, 0, 2, &key(2), &value(2));
    assert!(matches!(refused, Err(EngineError::DiskFull { .. })), "{refused:?}");
    disk.set_capacity(CAPACITY);
    maintain(&mut engine, 8000);
    engine.write(p, EntryKind::Put, 0, 2, &key(2), &value(2)).expect("there is room again");
}

/// Partitions that are due together share a journal flush. It does not write what had no room in a segment.
#[test]
fn writes_are_accepted_again_if_others_are_due_with_what_had_no_room() {
    for offset in 0..12 {
        let disk = SimulatedDisk::new(6);
        disk.set_capacity(CAPACITY);
        disk.set_preallocated_bytes(16 << 10);
        let options = EngineOptions { journal_from_due: 2, ..options(200 << 10) };
        let (mut engine, _) = Engine::open(disk.clone(), options).expect("opens");
        let p = partition(&mut engine, INTERVAL);
        let other = PartitionOptions { durability: INTERVAL, index_seed: 7 };
        let other = engine.partition(PartitionId(2), other).expect("opens");
        for p in [p, other] {
            engine.write(p, EntryKind::Put, 0, 0, &key(0), &value(0)).expect("there is room");
        }
        engine.flush().expect("there is room");
        maintain(&mut engine, 1000);
        take_all_space(&disk);
        engine.write(p, EntryKind::Put, 0, 1, &key(1), &value(1)).expect("nothing shows it yet");
        let until = 4100 + offset;
        (4000..until).for_each(|now| assert!(engine.maintain(now).is_ok()));
        let refused = engine.write(p, EntryKind::Put, 0, 2, &key(2), &value(2));
        assert!(matches!(refused, Err(EngineError::DiskFull { .. })), "{refused:?}");
        disk.set_capacity(CAPACITY);
        engine.write(other, EntryKind::Put, 0, 1, &key(1), &value(1)).expect("its segment has room");
        maintain(&mut engine, until);
        engine.write(p, EntryKind::Put, 0, 2, &key(2), &value(2)).expect("there is room again");
    }
}

#[test]
fn entries_accepted_just_before_the_disk_was_filled_survive() {
    for (seed, durability) in [(7, INTERVAL), (8, Durability::Sync)] {
        for is_in_order in [true, false] {
            let disk = SimulatedDisk::new(seed);
            let (mut engine, p) = open_with_little(&disk, durability);
            take_all_space(&disk);
            for n in 1..6 {
                engine.write(p, EntryKind::Put, 0, n, &key(n), &value(n)).expect("nothing shows it yet");
            }
            engine.flush().expect("the journal has space");
            if is_in_order {
                engine.close().expect("the journal has space");
            } else {
                // No more than the interval passes before the crash.
                maintain(&mut engine, 4000);
                assert_eq!(engine.durable_index(p), Ok(6), "{durability:?}");
                drop(engine);
            }
            disk.crash();
            for capacity in [None, Some(CAPACITY)] {
                disk.set_capacity(capacity);
                let (mut engine, report) = Engine::open(disk.clone(), options(0)).expect("opens");
                assert_eq!(report.damage().next(), None);
                engine.commit_all().expect("commits");
                let p = partition(&mut engine, durability);
                check(&mut engine, p, &(0..6).collect());
            }
        }
    }
}

#[test]
fn first_entries_of_an_instance_survive_on_a_disk_filled_before() {
    let disk = SimulatedDisk::new(9);
    disk.set_capacity(CAPACITY);
    disk.set_preallocated_bytes(16 << 10);
    let (mut engine, _) = Engine::open(disk.clone(), options(200 << 10)).expect("opens");
    let p = partition(&mut engine, INTERVAL);
    maintain(&mut engine, 1000);
    engine.check_disk_space();
    take_all_space(&disk);
    engine.write(p, EntryKind::Put, 0, 0, &key(0), &value(0)).expect("nothing shows it yet");
    engine.close().expect("the journal has space");
    disk.crash();
    let (mut engine, _) = Engine::open(disk.clone(), options(0)).expect("opens");
    engine.commit_all().expect("commits");
    let p = partition(&mut engine, INTERVAL);
    check(&mut engine, p, &[0].into());
}

#[test]
fn entries_of_other_members_use_a_quarter_of_the_reserve_and_leave_room_for_removals() {
    const RESERVE: u64 = 200 << 10;
    let disk = SimulatedDisk::new(11);
    disk.set_capacity(CAPACITY);
    let (mut engine, _) = Engine::open(disk, options(RESERVE)).expect("opens");
    let p = partition(&mut engine, INTERVAL);
    let kept = fill_disk(&mut engine, p, INTERVAL);
    let first = kept.last().expect("some were accepted") + 1;
    let put = |engine: &mut Store, n: u64| engine.write(p, EntryKind::Put, 0, n, &key(n), &value(n));
    engine.set_reserve_share(ReserveShare::Quarter);
    let next = (first..).find(|n| put(&mut engine, *n).is_err()).expect("it ends");
    engine.set_reserve_share(ReserveShare::Nothing);
    let used = (next - first) * 1000;
    // What compaction has given back meanwhile counts too.
    assert!((RESERVE / 8..=RESERVE * 3 / 8).contains(&used), "{used}");
    assert!(matches!(put(&mut engine, next), Err(EngineError::DiskFull { .. })));
    for n in 0..next {
        engine.write(p, EntryKind::Remove, 0, 3000, &key(n), b"").expect("a removal has a larger share");
    }
}
