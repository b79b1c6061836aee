//! The random histories find each mutant, and nothing without a mutant.
#![cfg(debug_assertions)]

use std::panic::{AssertUnwindSafe, catch_unwind};

use zerohop_engine::planted::{Bug, plant};

use crate::support;

/// Histories within which every mutant is found.
const SEEDS: u64 = 150;
/// The same, over one log of all partitions.
const SEEDS_SHARED: u64 = 2500;

fn finds(seed: u64, is_shared: bool) -> bool {
    // A mutant may also trip an assertion of the engine.
    catch_unwind(AssertUnwindSafe(|| support::run_seed(seed, is_shared).is_err())).unwrap_or(true)
}

#[test]
fn test_finds_every_mutant_and_no_false_positive() {
    for bug in Bug::ALL {
        plant(Some(bug));
        let found = (0..SEEDS).find(|&seed| finds(seed, false));
        plant(None);
        assert!(found.is_some(), "{bug:?} was not found within {SEEDS} histories");
    }
    assert_eq!((0..SEEDS).find(|&seed| finds(seed, false)), None, "found where nothing was planted");
}

#[test]
fn histories_of_a_shared_log_find_its_mutants() {
    let mut missed = Vec::new();
    for bug in Bug::OF_STORES_OVER_SHARED_LOGS {
        plant(Some(bug));
        let found = (0..SEEDS_SHARED).find(|&seed| finds(seed, true));
        plant(None);
        missed.extend(found.is_none().then_some(bug));
    }
    assert!(missed.is_empty(), "{missed:?} were not found within {SEEDS_SHARED} histories");
}
