//! The simulation of nodes finds each mutant of the agents within a stated number of seeds.
#![cfg(debug_assertions)]

use zerohop_control::planted::{Bug, plant};

use crate::support::node_play::run_seed;

/// Seeds within which each mutant must be found. The rarest, a bootstrap member that asks no other,
/// is first found in seed 99.
const SEEDS: u64 = 160;

fn found(bug: Bug) -> Option<(u64, String)> {
    plant(Some(bug));
    let found = (0..SEEDS).find_map(|seed| {
        // A mutant may trip an assertion before a checker finds it.
        let played = std::panic::catch_unwind(|| run_seed(seed).checker.violations);
        let violations = played.unwrap_or_else(|_| vec!["an assertion broke".to_owned()]);
        violations.into_iter().next().map(|what| (seed, what))
    });
    plant(None);
    found
}

#[test]
fn every_bug_planted_in_agents_is_found() {
    let found: Vec<_> = Bug::OF_AGENTS.into_iter().map(|bug| (bug, found(bug))).collect();
    let missed: Vec<Bug> = found.iter().filter(|(_, found)| found.is_none()).map(|(bug, _)| *bug).collect();
    assert!(missed.is_empty(), "not found within {SEEDS} seeds: {missed:?}");
}
