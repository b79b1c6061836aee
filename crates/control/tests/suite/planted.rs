//! The simulation finds each mutant within a stated number of seeds, and reports none without a
//! mutant.
#![cfg(debug_assertions)]

use zerohop_control::planted::{Bug, plant};

use crate::support::world::ManagerWorld;

/// Seeds within which each mutant must be found.
const SEEDS: u64 = 60;

fn found(bug: Bug) -> Option<(u64, String)> {
    plant(Some(bug));
    let found = (0..SEEDS).find_map(|seed| {
        // A mutant may trip an assertion before a checker finds it.
        let played = std::panic::catch_unwind(|| ManagerWorld::new(seed).run_to_end().checker.violations);
        let violations = played.unwrap_or_else(|_| vec!["an assertion broke".to_owned()]);
        violations.into_iter().next().map(|what| (seed, what))
    });
    plant(None);
    found
}

#[test]
fn every_planted_bug_is_found() {
    let missed: Vec<Bug> = Bug::OF_MANAGERS.into_iter().filter(|bug| found(*bug).is_none()).collect();
    assert!(missed.is_empty(), "not found within {SEEDS} seeds: {missed:?}");
}

#[test]
fn checkers_find_nothing_without_a_mutant() {
    for seed in 100..110 {
        let world = ManagerWorld::new(seed).run_to_end();
        assert!(world.checker.violations.is_empty(), "seed {seed}: {:?}", world.checker.violations);
    }
}
