//! Clusters from a few seeds show what is planted in any part of them, and nothing where nothing is planted.
//! `ZEROHOP_BUG=name` looks for one alone, `ZEROHOP_SEEDS=n` so far.
#![cfg(feature = "planted-bugs")]
#![expect(clippy::print_stdout, reason = "tells which seed found what")]

use std::fmt;

use zerohop_control::planted as control;
use zerohop_partition::planted as partition;
use zerohop_sim::cluster::Limits;
use zerohop_sim::{Keep, run_cluster};

/// Seeds within which each is found.
const SEEDS: u64 = 10;

/// Of partitions and their groups: those that were seen to be found. The others of `OF_GROUPS` have not been measured yet.
const OF_PARTITIONS: [partition::Bug; 2] =
    [partition::Bug::AcknowledgedAlone, partition::Bug::SessionsForgottenAtPromotion];

/// Of the control group, the same.
const OF_CONTROL: [control::Bug; 1] = [control::Bug::RestartedStaysInSync];

fn first_found() -> Option<(u64, String)> {
    let seeds = std::env::var("ZEROHOP_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(SEEDS);
    // What panics is found as well; where, nobody needs to read.
    std::panic::set_hook(Box::new(|_| {}));
    (0..seeds).find_map(|seed| {
        let violations = run_cluster(seed, Limits::default(), Keep::Nothing).violations;
        violations.first().map(|first| (seed, first.to_string()))
    })
}

fn each_is_found<B: Copy + fmt::Debug>(bugs: &[B], plant: fn(Option<B>)) {
    let wanted = std::env::var("ZEROHOP_BUG").ok();
    let mut missed = Vec::new();
    for bug in bugs {
        if wanted.as_ref().is_some_and(|wanted| *wanted != format!("{bug:?}")) {
            continue;
        }
        plant(Some(*bug));
        let found = first_found();
        plant(None);
        match found {
            Some((seed, what)) => {
                println!("{bug:?}: seed {seed}: {:.160}", what.lines().next().unwrap_or(""))
            }
            None => missed.push(format!("{bug:?}")),
        }
    }
    assert!(missed.is_empty(), "not found within {SEEDS} seeds: {missed:?}");
}

#[test]
fn bugs_planted_in_groups_are_found() {
    each_is_found(&OF_PARTITIONS, partition::plant);
}

#[test]
fn bugs_planted_in_the_control_group_are_found() {
    each_is_found(&OF_CONTROL, control::plant);
}

#[test]
fn nothing_is_found_where_nothing_is_planted() {
    assert_eq!(first_found(), None);
}
