//! The simulator finds what is planted, and nothing where nothing is planted.
#![cfg(feature = "planted-bugs")]

use zerohop_engine::planted as engine;
use zerohop_partition::planted as partition;
use zerohop_session::planted as session;
use zerohop_sim::{Keep, run};

/// Seeds within which every planted bug is found.
const SEEDS: u64 = 100;

fn first_found() -> Option<u64> {
    (0..SEEDS).find(|seed| !run(*seed, Keep::Nothing).violations.is_empty())
}

#[test]
fn bugs_planted_in_partitions_are_found() {
    for bug in partition::Bug::ALL {
        partition::plant(Some(bug));
        let found = first_found();
        partition::plant(None);
        assert!(found.is_some(), "{bug:?} was not found within {SEEDS} seeds");
        println!("{bug:?} was found by seed {}", found.unwrap_or_default());
    }
}

#[test]
fn bugs_planted_in_sessions_are_found() {
    for bug in session::Bug::ALL {
        session::plant(Some(bug));
        let found = first_found();
        session::plant(None);
        assert!(found.is_some(), "{bug:?} was not found within {SEEDS} seeds");
        println!("{bug:?} was found by seed {}", found.unwrap_or_default());
    }
}

#[test]
fn a_flush_that_is_left_out_is_found() {
    engine::plant(Some(engine::Bug::MissingFlush));
    let found = first_found();
    engine::plant(None);
    assert!(found.is_some(), "a missing flush was not found within {SEEDS} seeds");
    println!("a missing flush was found by seed {}", found.unwrap_or_default());
}

#[test]
fn nothing_is_found_where_nothing_is_planted() {
    assert_eq!(first_found(), None);
}
