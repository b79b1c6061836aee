//! The log of an instance against a model: partitions that begin, are truncated, split and dropped, two streams, crashes at any
//! disk operation, failing writes, corrupt bytes, bytes that are unreadable once, checkpoint rounds, and compaction.

use zerohop_engine::EngineError;
use zerohop_engine::log::shared::format::LogId;
use zerohop_engine::log::shared::recover::recover;

use crate::support::log_world::LogWorld;

/// Returns how many entries failed files have moved, how many rounds were complete, and how many segments were recycled.
fn run_crashes(seed: u64, with_faults: bool) -> [usize; 3] {
    let mut world = LogWorld::new(seed);
    for _ in 0..4 {
        if with_faults {
            world.begin_faults();
        }
        world.disk.cut_power_after(world.random.below(150));
        let steps = world.random.below(120);
        for _ in 0..steps {
            if world.step().is_err() {
                break;
            }
        }
        if world.random.chance(1, 6) && !world.disk.is_power_off() {
            world.disk.power_off_clean();
        } else {
            world.disk.crash();
        }
        world.recover();
    }
    [world.counts.moves, world.counts.rounds_done, world.counts.recycled]
}

/// Bytes that are unreadable at one recovery, and readable at later ones.
fn run_unreadable(seed: u64) {
    let mut world = LogWorld::new(seed);
    for round in 0..6 {
        world.disk.cut_power_after(world.random.below(150));
        let steps = world.random.below(60);
        for _ in 0..steps {
            if world.step().is_err() {
                break;
            }
        }
        world.disk.crash();
        let mut hits = Vec::new();
        if round % 2 == 0 {
            for _ in 0..6 {
                hits.extend(world.corrupt_what_is_not_flushed());
            }
        }
        world.recover();
        for (path, at) in hits {
            // The file may be a spare by now.
            let _ = world.disk.corrupt_at(&path, at, 1);
        }
    }
}

/// All sections are corrupt: logs are rebuilt from what compaction has left. Returns how many, and how many segments it has freed.
fn run_rebuild(seed: u64) -> [usize; 2] {
    let mut world = LogWorld::new(seed);
    world.history.keys = 2 + seed % 4;
    for _ in 0..3 {
        for _ in 0..150 {
            world.step().expect("the disk is sound");
        }
        world.flush().expect("the disk is sound");
        world.follow_moves();
        world.disk.power_off_clean();
        world.corrupt_sections();
        world.recover_with(true);
    }
    [world.counts.rebuilt, world.counts.recycled]
}

fn run_corruption(seed: u64) {
    let mut world = LogWorld::new(seed);
    world.history.is_without_rounds = seed.is_multiple_of(2);
    for _ in 0..150 {
        world.step().expect("the disk is sound");
    }
    world.corrupt_and_recover();
}

#[test]
fn logs_recover_to_one_of_their_states() {
    let mut sum = [0; 3];
    for seed in 0..250 {
        run_crashes(seed, false).into_iter().zip(&mut sum).for_each(|(n, sum)| *sum += n);
    }
    assert!(sum[1] > 200 && sum[2] > 100, "{sum:?}: too few rounds, or recycled segments");
}

#[test]
fn entries_of_failed_files_are_written_again() {
    let moves: usize = (0..200).map(|seed| run_crashes(seed, true)[0]).sum();
    assert!(moves > 200, "{moves} entries were moved");
}

#[test]
fn entries_that_were_unreadable_once_stay_dead() {
    for seed in 0..300 {
        run_unreadable(seed);
    }
}

#[test]
fn corrupt_bytes_cost_only_what_they_hit() {
    for seed in 0..150 {
        run_corruption(seed);
    }
}

#[test]
fn logs_are_rebuilt_without_sections_from_what_compaction_has_left() {
    let mut sum = [0; 2];
    for seed in 0..100 {
        run_rebuild(seed).into_iter().zip(&mut sum).for_each(|(n, sum)| *sum += n);
    }
    assert!(sum[0] > 100 && sum[1] > 100, "{sum:?}: too few rebuilt logs, or recycled segments");
}

#[test]
fn segment_of_another_log_is_refused() {
    let mut world = LogWorld::new(1);
    world.flush().expect("the disk is sound");
    let refused = recover(&mut world.disk, "log", LogId([1; 16])).map(|_| ());
    assert!(matches!(refused, Err(EngineError::Format { .. })), "{refused:?}");
}

#[cfg(debug_assertions)]
#[test]
fn test_finds_every_shared_log_mutant() {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use zerohop_engine::planted::{Bug, plant};
    for bug in Bug::OF_SHARED_LOGS {
        plant(Some(bug));
        let finds = |seed| {
            catch_unwind(AssertUnwindSafe(|| {
                run_crashes(seed, seed % 2 == 1);
                run_unreadable(seed);
                run_corruption(seed);
                run_rebuild(seed);
            }))
            .is_err()
        };
        let found = (0..200).find(|&seed| finds(seed));
        plant(None);
        assert!(found.is_some(), "{bug:?} was not found");
    }
}
