//! The random histories find each mutant, and nothing without a mutant.
//!
//! Each mutant has seeds that have shown it. They run first, with the mutant and without: so a mutant costs two histories. Once a
//! change of the engine has made them stale, seeds from 0 on run. With `ZEROHOP_PLANTS=all`, as in `cargo xtask soak`, only seeds
//! from 0 on run, and `ZEROHOP_EVERY=1` prints the seeds that show a mutant, to renew the list.
#![cfg(debug_assertions)]
#![expect(clippy::print_stdout, reason = "tells which seed found what")]

use std::panic::{AssertUnwindSafe, catch_unwind};

use zerohop_engine::planted::{Bug, plant};

use crate::support;

/// Histories within which every mutant is found.
const SEEDS: u64 = 150;
/// The same, over one log of all partitions.
const SEEDS_SHARED: u64 = 2500;

/// A mutant, and seeds that have shown it.
type MutantRow = (Bug, &'static [u64]);

/// Seeds of [`Bug::ALL`].
const KNOWN: [MutantRow; 15] = [
    (Bug::EndedKeyNotOrdered, &[115, 141]),
    (Bug::AppendedKeyNotOrdered, &[4, 5]),
    (Bug::JournalNotSynced, &[3, 4]),
    (Bug::ChecksumNotChecked, &[34, 50]),
    (Bug::ValidEntryTruncated, &[3, 4]),
    (Bug::CompactedSegmentRenamedEarly, &[5, 13]),
    (Bug::NeededEntriesCompacted, &[12, 18]),
    (Bug::TombstoneDropped, &[5, 13]),
    (Bug::CachedDataCountedDurable, &[55, 78]),
    (Bug::PartialBatchKept, &[13, 19]),
    (Bug::ParentRemovedBeforeChildSync, &[2, 11]),
    (Bug::UncommittedTailInOneChild, &[2, 9]),
    (Bug::ReplayCountsTwice, &[7, 8]),
    (Bug::CutRemovalCounted, &[2, 3]),
    (Bug::PartPlaceNotMoved, &[2, 4]),
];

/// Seeds of [`Bug::OF_STORES_OVER_SHARED_LOGS`], with several of the mutants that few seeds show.
const KNOWN_SHARED: [MutantRow; 20] = [
    (Bug::NewestCopyCounts, &[811]),
    (Bug::ReplacedContentsCopied, &[894]),
    (Bug::CommitsNotMarked, &[22]),
    (Bug::RemovalCountedDead, &[0]),
    (Bug::KeptCountedDead, &[14]),
    (Bug::RecoveredNotCounted, &[0]),
    (Bug::PartPlaceNotMoved, &[0]),
    (Bug::UncoveredEntryCompacted, &[0]),
    (Bug::VictimFreedEarly, &[0]),
    (Bug::RemovalLeftOut, &[5]),
    (Bug::LiveBytesNotMoved, &[0]),
    (Bug::CheckpointStateLeftOut, &[6]),
    (Bug::CheckpointForgetsTrim, &[0]),
    (Bug::DroppedEntriesReplayed, &[4]),
    (Bug::UnfinishedRoundUsed, &[13]),
    (Bug::EntryAboveSectionDropped, &[0]),
    (Bug::CachedRoundCountedDurable, &[1389]),
    (Bug::UncommittedTailInOneChild, &[2]),
    (Bug::SplitNotSynced, &[582]),
    (Bug::RepairedEntryNotNamed, &[0]),
];

fn shows(bug: Option<Bug>, seed: u64, is_shared: bool) -> bool {
    plant(bug);
    // A mutant may also trip an assertion of the engine.
    let is_found =
        catch_unwind(AssertUnwindSafe(|| support::run_seed(seed, is_shared).is_err())).unwrap_or(true);
    plant(None);
    is_found
}

/// Fails unless each mutant is found by a seed that shows nothing without it.
fn each_is_found(bugs: &[Bug], known: &[MutantRow], seeds: u64, is_shared: bool) {
    let runs_all = std::env::var("ZEROHOP_PLANTS").is_ok_and(|value| value == "all");
    let expected = if std::env::var_os("ZEROHOP_EVERY").is_some() { usize::MAX } else { 1 };
    let mut missed = Vec::new();
    for &bug in bugs {
        let known = known.iter().find(|(one, _)| *one == bug).map_or(&[][..], |(_, seeds)| *seeds);
        let known = if runs_all { &[] } else { known };
        let found = known.iter().copied().chain(0..seeds);
        let found = found.filter(|&seed| shows(Some(bug), seed, is_shared) && !shows(None, seed, is_shared));
        let found: Vec<u64> = found.take(expected).collect();
        println!("{bug:?} is found by {found:?}");
        missed.extend(found.is_empty().then_some(bug));
    }
    assert!(missed.is_empty(), "{missed:?} were not found within {seeds} histories");
}

#[test]
fn test_finds_every_mutant_and_no_false_positive() {
    each_is_found(&Bug::ALL, &KNOWN, SEEDS, false);
}

#[test]
fn histories_of_a_shared_log_find_its_mutants() {
    each_is_found(&Bug::OF_STORES_OVER_SHARED_LOGS, &KNOWN_SHARED, SEEDS_SHARED, true);
}
