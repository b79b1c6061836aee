//! The random histories find each mutant, and nothing without a mutant.
#![cfg(debug_assertions)]

use std::panic::{AssertUnwindSafe, catch_unwind};

use zerohop_engine::planted::{Bug, plant};

use crate::support;

/// Histories within which every mutant is found.
const SEEDS: u64 = 150;

fn finds(seed: u64) -> bool {
    // A mutant may also trip an assertion of the engine.
    catch_unwind(AssertUnwindSafe(|| support::run_seed(seed).is_err())).unwrap_or(true)
}

#[test]
fn test_finds_every_mutant_and_no_false_positive() {
    for bug in Bug::ALL {
        plant(Some(bug));
        let found = (0..SEEDS).find(|&seed| finds(seed));
        plant(None);
        assert!(found.is_some(), "{bug:?} was not found within {SEEDS} histories");
    }
    assert_eq!((0..SEEDS).find(|&seed| finds(seed)), None, "found where nothing was planted");
}
