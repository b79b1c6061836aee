//! Compaction of a shared log by cases: a crash at each disk operation, a full disk, corrupt bytes, its pace.

use zerohop_engine::disk::Disk;
use zerohop_engine::log::shared::compact::{LogCompaction, damaged_segments, figures};
use zerohop_engine::log::shared::format::LogStream;
use zerohop_engine::log::shared::live_bytes::EntryUse;

use crate::support::log_world::LogWorld;

/// A history whose segments are covered and mostly dead, and durable.
fn covered(seed: u64, is_short_only: bool, keys: u64) -> LogWorld {
    let mut world = LogWorld::new(seed);
    world.disk.set_preallocated_bytes(24 << 10);
    (world.history.keys, world.history.is_short_only) = (keys, is_short_only);
    world.history.is_without_compaction = true;
    let steps = if is_short_only { 1_200 } else { 300 };
    for _ in 0..steps {
        world.step().expect("the disk is sound");
    }
    world.log.seal(LogStream::Small).expect("seals");
    world.cover_all().expect("the disk is sound");
    world.history.is_without_compaction = false;
    world.end_holds();
    world
}

/// Compacts until nothing is left to do.
fn compact_all(world: &mut LogWorld) -> Result<(), zerohop_engine::EngineError> {
    loop {
        world.compaction.is_due(&world.log, &world.rounds, 0);
        let is_idle = world.compact_once()?;
        if world.compaction.wants_flush(&world.log) {
            world.flush()?;
            world.follow_moves();
        } else if is_idle {
            return Ok(());
        }
    }
}

#[test]
fn every_disk_operation_of_compaction_may_be_the_last() {
    let (mut cuts, mut freed) = (0, 0);
    for seed in 0..4 {
        for operations in 0.. {
            let mut world = covered(seed, false, 6);
            let before = world.counts.recycled;
            world.disk.cut_power_after(operations);
            let is_done = compact_all(&mut world).is_ok();
            freed += world.counts.recycled - before;
            if is_done {
                break;
            }
            cuts += 1;
            world.disk.crash();
            world.recover();
            // The rest is compacted after the crash.
            compact_all(&mut world).expect("the disk is sound");
            world.flush().expect("the disk is sound");
            world.disk.crash();
            world.recover();
        }
    }
    assert!(cuts > 40 && freed > 40, "{cuts} cuts, {freed} segments were freed");
}

#[test]
fn full_disk_is_compacted_with_the_reserve() {
    const ROOM: u64 = 1 << 40;
    let mut freed = 0;
    for seed in 0..20 {
        let mut world = covered(seed, true, 6);
        while world.log.fill_reserve(&mut world.disk).expect("the disk has room") {}
        world.disk.set_capacity(ROOM);
        let used = ROOM - world.disk.free_bytes().expect("is known");
        world.disk.set_capacity(used);
        let before = world.counts.recycled;
        compact_all(&mut world).expect("the reserve is enough");
        freed += world.counts.recycled - before;
        world.disk.set_capacity(None);
        world.flush().expect("the disk is sound");
        world.disk.crash();
        world.recover();
    }
    assert!(freed > 20, "{freed} segments were freed");
}

#[test]
fn victim_with_corrupt_bytes_stays_and_the_rest_of_it_is_moved() {
    let mut damaged = 0;
    for seed in 0..30 {
        let mut world = covered(seed, false, 6);
        world.log.evict();
        let live = world.partitions.values().flat_map(|partition| partition.uses.values());
        let live: Vec<_> = live.filter(|used| used.entry_use == EntryUse::Live).copied().collect();
        let Some(hit) = live.get(seed as usize % live.len().max(1)) else { continue };
        let hit = hit.place;
        let path = format!("log/{:016x}.log", hit.segment);
        world.disk.corrupt_at(&path, u64::from(hit.offset) + seed % 43, 1).expect("is there");
        compact_all(&mut world).expect("the disk is sound");
        let found = damaged_segments(&world.log);
        assert!(found.is_empty() || found == [hit.segment], "{found:?}");
        for partition in world.partitions.values() {
            let left = partition.uses.values().filter(|used| found.contains(&used.place.segment));
            assert!(left.clone().all(|used| used.place == hit), "only what is corrupt stays: {left:?}");
        }
        damaged += found.len();
        // A copy of another member has brought it.
        for segment in found {
            world
                .partitions
                .values_mut()
                .for_each(|p| p.uses.retain(|_, used| used.place.segment != segment));
            world.log.end_damage(segment);
            compact_all(&mut world).expect("the disk is sound");
            assert!(!world.log.segments().contains(&segment), "it is freed");
        }
    }
    assert!(damaged > 5, "{damaged} damaged segments");
}

#[test]
fn nothing_is_read_without_writes_unless_the_disk_is_short() {
    let mut shown = 0;
    for seed in 0..20 {
        let mut world = covered(seed, true, 60);
        world.log.evict();
        let read_while_due = |world: &mut LogWorld, free| {
            let before = world.disk.counts().bytes_read;
            while world.compaction.is_due(&world.log, &world.rounds, free) {
                let is_idle = world.compact_once().expect("the disk is sound");
                if world.compaction.wants_flush(&world.log) {
                    world.flush().expect("the disk is sound");
                } else if is_idle {
                    break;
                }
            }
            world.disk.counts().bytes_read - before
        };
        assert_eq!(read_while_due(&mut world, u64::MAX), 0, "what is empty goes without being read");
        let debt = figures(&world.log).debt;
        world.compaction = LogCompaction::default();
        if read_while_due(&mut world, 0) > 0 {
            shown += 1;
            assert!(figures(&world.log).debt < debt);
        }
    }
    assert!(shown > 2, "{shown} disks were short");
}
