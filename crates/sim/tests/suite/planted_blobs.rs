//! Clusters from a few seeds show mutants in the code below blobs and snapshots, and the same seeds
//! show nothing without them. `ZEROHOP_BUG=Name,Name` selects some mutants; `ZEROHOP_SEEDS=n` runs
//! at most so many seeds.
#![cfg(debug_assertions)]
#![expect(clippy::print_stdout, reason = "tells which seed found what")]

use zerohop_partition::planted::{Bug, plant};
use zerohop_sim::cluster::Limits;
use zerohop_sim::{LineRetention, run_cluster};

/// Seeds from 0 on within which each mutant is found.
const SEEDS: u64 = 20;

/// The mutants that are run, with the canary first. A follower without versions for snapshots is
/// not among them: when it is promoted it reports that snapshots have expired, which is allowed.
/// The partition's own tests find it (`planted_bugs_of_snapshots_are_seen`).
const MUTANTS: [Bug; 7] = [
    Bug::SnapshotReadBeforeCommit,
    Bug::VersionsDroppedEarly,
    Bug::SnapshotLeasesNeverExpire,
    Bug::UnknownSnapshotsKept,
    Bug::OldGenerationAccepted,
    Bug::TransformAppliedTwice,
    Bug::BlobIdFromEvaluationTime,
];

fn seeds() -> u64 {
    std::env::var("ZEROHOP_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(SEEDS)
}

/// The first violation of a seed.
fn first_violation(seed: u64) -> Option<String> {
    let violations = run_cluster(seed, Limits::default(), LineRetention::Nothing).violations;
    violations.first().map(ToString::to_string)
}

#[test]
fn blob_and_snapshot_mutants_are_found_by_otherwise_clean_seeds() {
    // A panic is a finding as well; its location is not printed.
    std::panic::set_hook(Box::new(|_| {}));
    let expected = std::env::var("ZEROHOP_BUG").ok();
    let is_wanted = |bug: &Bug| {
        let name = format!("{bug:?}");
        let is_played = crate::runs_all() || *bug == MUTANTS[0];
        expected.as_ref().map_or(is_played, |expected| expected.split(',').any(|one| one == name))
    };
    let mut missed = Vec::new();
    for bug in MUTANTS.into_iter().filter(is_wanted) {
        let found = (0..seeds()).find_map(|seed| {
            plant(Some(bug));
            let found = first_violation(seed);
            plant(None);
            found.filter(|_| first_violation(seed).is_none()).map(|what| (seed, what))
        });
        match found {
            Some((seed, what)) => println!("{bug:?}: seed {seed}: {:.200}", what.replace('\n', " ")),
            None => missed.push(bug),
        }
    }
    assert!(missed.is_empty(), "not found within {} seeds: {missed:?}", seeds());
}
