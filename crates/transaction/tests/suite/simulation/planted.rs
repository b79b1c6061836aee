//! Every mutant is found within a stated number of seeds. Another test shows that nothing is found
//! without a mutant.

use zerohop_transaction::planted::{Bug, plant};

/// Seeds within which each mutant must be found.
const SEEDS: u64 = 1500;

/// The first seed that finds the mutant, and what it finds.
fn found(bug: Bug, seeds: u64) -> Option<(u64, String)> {
    plant(Some(bug));
    // A panic counts as found; its location is not printed.
    std::panic::set_hook(Box::new(|_| {}));
    let found = (1..=seeds).find_map(|seed| {
        let run = std::panic::catch_unwind(|| super::run_seed(seed, false).0);
        match run {
            Ok(wrong) => wrong.into_iter().next().map(|what| (seed, what)),
            Err(_) => Some((seed, "an assertion".to_owned())),
        }
    });
    let _ = std::panic::take_hook();
    plant(None);
    found
}

#[test]
fn planted_bugs_are_found() {
    let expected = std::env::var("ZEROHOP_BUG").ok();
    let seeds = std::env::var("ZEROHOP_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(SEEDS);
    let mut missed = Vec::new();
    for bug in Bug::ALL {
        if expected.as_ref().is_some_and(|expected| *expected != format!("{bug:?}")) {
            continue;
        }
        match found(bug, seeds) {
            Some((seed, what)) => println!("{bug:?}: seed {seed}: {what:.150}"),
            None => missed.push(format!("{bug:?}")),
        }
    }
    assert!(missed.is_empty(), "not found within {seeds} seeds: {missed:?}");
}
