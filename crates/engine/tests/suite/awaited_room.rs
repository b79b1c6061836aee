//! Entries that find no room on a full disk come again while dead space is given back.

use zerohop_engine::disk::Disk;
use zerohop_engine::disk::simulated::SimulatedDisk;
use zerohop_engine::{Engine, EngineError, EngineOptions, EntryKind, Handle};

use crate::full_disk::{
    CAPACITY, INTERVAL, fill_disk, key, maintain_for, maintain_with_state, options, partition, value,
};
use crate::support::TestEngine as Store;

/// A full disk of which half of the records were removed.
fn half_dead(disk: &SimulatedDisk) -> (Store, Handle) {
    disk.set_capacity(CAPACITY);
    let options = EngineOptions { starts_checkpoints: false, ..options(200 << 10) };
    let (mut engine, _) = Engine::open(disk.clone(), options).expect("opens");
    let p = partition(&mut engine, INTERVAL);
    engine.declare_state_in_log(p).expect("is open");
    let kept = fill_disk(&mut engine, p, INTERVAL);
    maintain_for(&mut engine, p, 300_000..302_000);
    let refused = engine.write(p, EntryKind::Put, 0, 3000, &key(9_000), &value(1));
    assert!(matches!(refused, Err(EngineError::DiskFull { .. })), "nothing is dead: {refused:?}");
    for &n in kept.iter().filter(|n| *n % 2 == 0) {
        engine.write(p, EntryKind::Remove, 0, 3000, &key(n), b"").expect("a removal is let through");
    }
    (engine, p)
}

#[test]
fn entries_without_room_come_again_while_dead_space_is_given_back() {
    let disk = SimulatedDisk::new(1);
    let (mut engine, p) = half_dead(&disk);
    let (mut waits, mut accepted) = (0, 0);
    for now in 400_000..404_000 {
        maintain_with_state(&mut engine, p, now);
        match engine.write(p, EntryKind::Put, 0, 9_000, &key(9_000 + accepted % 10), &value(1)) {
            Ok(_) => accepted += 1,
            Err(EngineError::Scarce { .. }) => waits += 1,
            Err(other) => panic!("after {accepted} accepted and {waits} waits: {other}"),
        }
    }
    assert!(waits > 0 && accepted > 1000, "{accepted} accepted, {waits} waits");
}

/// No checkpoint is made, without which the dead space stays.
#[test]
fn entries_are_refused_once_nothing_was_given_back_for_long() {
    let disk = SimulatedDisk::new(1);
    let (mut engine, p) = half_dead(&disk);
    let mut put = |now: u64| {
        engine.maintain(now).expect("goes well");
        engine.write(p, EntryKind::Put, 0, 9_000, &key(9_000), &value(1)).map(drop)
    };
    let first = put(400_000);
    assert!(matches!(first, Err(EngineError::Scarce { .. })), "{first:?}");
    let last = (400_000..408_000).map(put).last().expect("some");
    assert!(matches!(last, Err(EngineError::DiskFull { .. })), "{last:?}");
}

/// A disk with dead space, and with room for short entries only.
fn little_dead(disk: &SimulatedDisk) -> (Store, Handle) {
    let options = EngineOptions { starts_checkpoints: false, ..options(200 << 10) };
    disk.set_capacity(64 << 20);
    let (mut engine, _) = Engine::open(disk.clone(), options).expect("opens");
    let p = partition(&mut engine, INTERVAL);
    engine.declare_state_in_log(p).expect("is open");
    for n in 0..160 {
        engine.write(p, EntryKind::Put, 0, n, &key(n % 100), &value(n)).expect("there is room");
        engine.flush().expect("there is room");
    }
    maintain_for(&mut engine, p, 1_000..3_000);
    let used = (64 << 20) - disk.clone().free_bytes().expect("is known");
    disk.set_capacity(used + (200 << 10) + (80 << 10));
    maintain_for(&mut engine, p, 3_000..4_000);
    assert!(engine.has_disk_space());
    (engine, p)
}

/// What the disk has free is more than what is dead, until an entry needs more than that.
#[test]
fn first_entry_without_room_comes_again_if_there_is_dead_space() {
    let disk = SimulatedDisk::new(1);
    let (mut engine, p) = little_dead(&disk);
    let mut waits = 0;
    for now in 4_000..20_000 {
        match engine.write(p, EntryKind::Put, 0, 9_000, &key(9_000), &[1; 100 << 10]) {
            Ok(_) => break,
            Err(EngineError::Scarce { .. }) => waits += 1,
            Err(other) => panic!("after {waits} waits: {other}"),
        }
        maintain_with_state(&mut engine, p, now);
    }
    assert!(waits > 0 && waits < 10_000, "{waits}");
}

/// Its owner asks again every 100 ms, as clients do.
#[test]
fn entry_that_never_fits_is_refused_for_good() {
    let disk = SimulatedDisk::new(1);
    let (mut engine, p) = little_dead(&disk);
    let mut put = |round: u64| {
        maintain_for(&mut engine, p, 4_000 + 100 * round..4_100 + 100 * round);
        engine.write(p, EntryKind::Put, 0, 9_000, &key(9_000), &vec![1; 500 << 10]).map(drop)
    };
    let first = put(0);
    assert!(matches!(first, Err(EngineError::Scarce { .. })), "{first:?}");
    let refused = (1..100).find(|round| matches!(put(*round), Err(EngineError::DiskFull { .. })));
    assert!(refused.is_some(), "it waits for ever");
}
