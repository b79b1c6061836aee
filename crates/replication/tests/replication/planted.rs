//! Every mutant is found within a stated number of seeds. Without a mutant the same seeds are clean.

use zerohop_partition::planted::{Bug, plant};

use super::control::ControlBug;
use super::run_seed;

/// The bugs that the simulation must find. Each of the others has its own test beside the code.
const FOUND: [Bug; 13] = [
    Bug::AnswersBeforeReplication,
    Bug::LeaseNotChecked,
    Bug::PromotedBeforeLeaseExpiry,
    Bug::NewerMapLeaseUsed,
    Bug::PrecedingEntryNotChecked,
    Bug::TimestampBoundIgnored,
    Bug::TruncationSkipped,
    Bug::SessionTableEmptyAtPromotion,
    Bug::ReadsUncommitted,
    Bug::MinInSyncIgnored,
    Bug::AdmittedBeforeCaughtUp,
    Bug::UndecidedChangeIgnored,
    Bug::DigestIndexNotChecked,
];

/// The number of seeds within which each bug is found.
const SEEDS: u64 = 80;

/// The first seed that finds the bug.
fn found(bug: Option<Bug>, control: Option<ControlBug>, seeds: u64) -> Option<(u64, String)> {
    plant(bug);
    // A panic counts as found; its place is not printed.
    std::panic::set_hook(Box::new(|_| {}));
    let found = (1..=seeds).find_map(|seed| {
        let run = std::panic::catch_unwind(|| run_seed(seed, control));
        match run {
            Ok(ended) => ended.violations.into_iter().next().map(|what| (seed, what)),
            Err(_) => Some((seed, "an assertion".to_owned())),
        }
    });
    plant(None);
    found
}

#[test]
fn planted_bugs_are_found() {
    let expected = std::env::var("ZEROHOP_BUG").ok();
    let seeds = std::env::var("ZEROHOP_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(SEEDS);
    let mut missed = Vec::new();
    for bug in FOUND {
        if expected.as_ref().is_some_and(|expected| *expected != format!("{bug:?}")) {
            continue;
        }
        match found(Some(bug), None, seeds) {
            Some((seed, what)) => println!("{bug:?}: seed {seed}: {:.150}", what),
            None => missed.push(format!("{bug:?}")),
        }
    }
    for bug in [ControlBug::ReadmitsRestarted, ControlBug::PromotesFollowers] {
        if expected.as_ref().is_some_and(|expected| *expected != format!("{bug:?}")) {
            continue;
        }
        match found(None, Some(bug), seeds) {
            Some((seed, what)) => println!("{bug:?}: seed {seed}: {:.150}", what),
            None => missed.push(format!("{bug:?}")),
        }
    }
    assert!(missed.is_empty(), "not found within {seeds} seeds: {missed:?}");
}
