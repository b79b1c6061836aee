//! The simulator finds what is planted, and nothing where nothing is planted.
#![cfg(feature = "planted-bugs")]

use std::fmt;

use zerohop_engine::planted as engine;
use zerohop_partition::planted as partition;
use zerohop_session::planted as session;
use zerohop_sim::{Keep, run};

/// Seeds within which every planted bug is found.
const SEEDS: u64 = 100;

fn first_found() -> Option<u64> {
    (0..SEEDS).find(|seed| !run(*seed, Keep::Nothing).violations.is_empty())
}

fn each_is_found<B: Copy + fmt::Debug>(bugs: &[B], plant: fn(Option<B>)) {
    for bug in bugs {
        plant(Some(*bug));
        let found = first_found();
        plant(None);
        assert!(found.is_some(), "{bug:?} was not found within {SEEDS} seeds");
    }
}

#[test]
fn bugs_planted_in_partitions_are_found() {
    each_is_found(&partition::Bug::ALL, partition::plant);
}

/// That sisters' records are counted shows in counts only, which no simulated client asks for.
#[test]
fn bugs_planted_in_splits_are_found() {
    each_is_found(&[partition::Bug::SessionsNotSplit], partition::plant);
}

#[test]
fn bugs_planted_in_sessions_are_found() {
    each_is_found(&session::Bug::ALL, session::plant);
}

/// The third of the engine's, a checksum that is not looked at, needs disks that rot.
#[test]
fn bugs_planted_in_engines_are_found() {
    each_is_found(&[engine::Bug::MissingFlush, engine::Bug::TailCutTooFar], engine::plant);
}

#[test]
fn nothing_is_found_where_nothing_is_planted() {
    assert_eq!(first_found(), None);
}
