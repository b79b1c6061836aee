//! The simulator finds mutants, and nothing without them.
#![cfg(debug_assertions)]

use std::fmt;

use zerohop_engine::planted as engine;
use zerohop_partition::planted as partition;
use zerohop_session::planted as session;
use zerohop_sim::{LineRetention, run};

/// Seeds within which every mutant is found.
const SEEDS: u64 = 400;

/// Seeds that show no violation without a mutant.
const CLEAN_SEEDS: u64 = 100;

fn first_found(seeds: u64) -> Option<u64> {
    (0..seeds).find(|seed| !run(*seed, LineRetention::Nothing).violations.is_empty())
}

/// The first is the canary.
fn each_is_found<B: Copy + fmt::Debug>(bugs: &[B], plant: fn(Option<B>)) {
    let played = if crate::runs_all() { bugs.len() } else { 1 };
    for bug in bugs.iter().take(played) {
        plant(Some(*bug));
        let found = first_found(SEEDS);
        plant(None);
        assert!(found.is_some(), "{bug:?} was not found within {SEEDS} seeds");
    }
}

/// A wait that is never woken ends at its time-out with the record's state at that time: late, but
/// correct. The partition's own tests find it (`test_finds_waits_not_woken_mutant`).
#[test]
fn bugs_planted_in_partitions_are_found() {
    let bugs = partition::Bug::ALL.into_iter().filter(|bug| *bug != partition::Bug::WaitsNotChecked);
    each_is_found(&bugs.collect::<Vec<_>>(), partition::plant);
}

/// Counting a sibling's records is visible in counts only, which no simulated client requests.
#[test]
fn bugs_planted_in_splits_are_found() {
    each_is_found(&[partition::Bug::SessionTableNotSplit], partition::plant);
}

#[test]
fn bugs_planted_in_sessions_are_found() {
    each_is_found(&session::Bug::ALL, session::plant);
}

/// The engine's other mutants are found by its own histories
/// (`crates/engine/tests/suite/planted.rs`). A checksum that is not verified needs corrupt disks,
/// and an additional entry removed behind a torn tail is seldom one that must survive.
#[test]
fn bugs_planted_in_engines_are_found() {
    each_is_found(&[engine::Bug::JournalNotSynced], engine::plant);
}

#[test]
fn no_violation_is_found_without_mutant() {
    assert_eq!(first_found(CLEAN_SEEDS), None);
}
