//! Clusters from a few seeds show mutants in any part of them, and the same seeds show nothing
//! without a mutant. `ZEROHOP_BUG=Name,Name` selects some, listed here or not (`transactions`:
//! those of transactions, `relays`: those of Redis clients, `restarts`: those of engines that restarts
//! show), and `ZEROHOP_BUG=all` selects all. `ZEROHOP_SEEDS=n` runs at most so
//! many seeds. `ZEROHOP_EVERY=1` goes on after the first seed that shows a mutant, and lists all
//! that do. With `ZEROHOP_CHECKER=name` only violations of that checker count.
#![cfg(debug_assertions)]
#![expect(clippy::print_stdout, reason = "tells which seed found what")]

use std::collections::BTreeMap;
use std::sync::Mutex;

use zerohop_control::planted as control;
use zerohop_engine::planted as engine;
use zerohop_partition::planted as partition;
use zerohop_placement::planted as placement;
use zerohop_relay::planted as relay;
use zerohop_session::planted as session;
use zerohop_sim::cluster::{Limits, scenario_draws};
use zerohop_sim::kinds::FaultKind;
use zerohop_sim::{LineRetention, run_cluster};
use zerohop_transaction::planted as transaction;

/// A mutant is switched on per thread: so many are run at a time.
const THREADS: usize = 2;

/// Each mutant is found within so many seeds from 0 on that can show it. Seeds that show a
/// violation without a mutant do not count.
const SEEDS: u64 = 60;

/// The crate of a mutant.
#[derive(Clone, Copy, Debug)]
enum BugPlace {
    Partition(partition::Bug),
    Control(control::Bug),
    Engine(engine::Bug),
    Session(session::Bug),
    Relay(relay::Bug),
    Transaction(transaction::Bug),
    Placement(placement::Bug),
}

/// A mutant, and seeds that have shown it, which are run first. A mutant that few seeds show has
/// several. The first draws of a seed stay the same when a change shifts all later ones, so these
/// seeds show the mutant again more often than others.
type Row = (BugPlace, &'static [u64]);

/// One of each kind (copies, leases, control, commits, intents, misrouting, sessions, scans, ranges,
/// engines, Redis clients, procedures, restarts). If its first seed shows a mutant, it costs two runs of that seed, with the mutant and
/// without.
const CANARIES: [Row; 13] = [
    (BugPlace::Partition(partition::Bug::AnswersBeforeReplication), &[0]),
    (BugPlace::Partition(partition::Bug::PromotedBeforeLeaseExpiry), &[3]),
    (BugPlace::Control(control::Bug::FollowerPromoted), &[0]),
    (BugPlace::Transaction(transaction::Bug::IntentsFreedBeforeDecision), &[0]),
    (BugPlace::Partition(partition::Bug::ConfirmIgnoresIntents), &[3]),
    (BugPlace::Session(session::Bug::ConfirmingRoundSkipped), &[2]),
    (BugPlace::Partition(partition::Bug::ScanSkipsKey), &[0]),
    (BugPlace::Partition(partition::Bug::RangeSkipsKey), &[18]),
    (BugPlace::Engine(engine::Bug::KeyHashSeedIgnored), &[1]),
    (BugPlace::Relay(relay::Bug::OutcomesByOrder), &[8]),
    (BugPlace::Relay(relay::Bug::LostWritesSentAgain), &[10]),
    (BugPlace::Session(session::Bug::RereadReplaces), &[0]),
    (BugPlace::Engine(engine::Bug::LogBehindCheckpointIgnored), &[9]),
];

/// The other mutants that are found. Mutants in neither list were not found within the seeds that
/// were run, or cannot be: docs/reliability.md.
const OTHERS: [Row; 96] = [
    (BugPlace::Partition(partition::Bug::HashRangeNotChecked), &[]),
    (BugPlace::Partition(partition::Bug::KeyspaceNotDrained), &[96, 29, 19, 33, 92]),
    (BugPlace::Engine(engine::Bug::NeededEntriesCompacted), &[9]),
    (BugPlace::Engine(engine::Bug::TombstoneDropped), &[25]),
    (BugPlace::Engine(engine::Bug::CheckpointStateLeftOut), &[9]),
    (BugPlace::Engine(engine::Bug::CheckpointForgetsTrim), &[11]),
    (BugPlace::Engine(engine::Bug::PartDropped), &[9]),
    (BugPlace::Engine(engine::Bug::MostlyDeadSegmentFreed), &[9]),
    (BugPlace::Engine(engine::Bug::CopyNamedUnsynced), &[30]),
    (BugPlace::Engine(engine::Bug::ReplacedSegmentStays), &[9]),
    (BugPlace::Engine(engine::Bug::JournalRemovedEarly), &[9]),
    (BugPlace::Partition(partition::Bug::LeaseNotChecked), &[0]),
    (BugPlace::Partition(partition::Bug::OneLeaseEnough), &[46]),
    (BugPlace::Partition(partition::Bug::SessionTableNotInstalled), &[0]),
    (BugPlace::Partition(partition::Bug::BatchCommittedInPieces), &[27]),
    (BugPlace::Partition(partition::Bug::IncompleteBatchKept), &[61]),
    (BugPlace::Partition(partition::Bug::TimestampsTie), &[0]),
    (BugPlace::Partition(partition::Bug::SeenTieIgnored), &[116]),
    (BugPlace::Partition(partition::Bug::BatchAnsweredEarly), &[112]),
    (BugPlace::Partition(partition::Bug::BrokenServesOn), &[15, 17]),
    (BugPlace::Partition(partition::Bug::NewerMapLeaseUsed), &[4]),
    (BugPlace::Partition(partition::Bug::PrecedingEntryNotChecked), &[0]),
    (BugPlace::Control(control::Bug::RestartedReplicaStaysInSync), &[0]),
    (BugPlace::Control(control::Bug::SilentMemberPassed), &[0]),
    (BugPlace::Control(control::Bug::LowestLogChosen), &[1]),
    (BugPlace::Control(control::Bug::EarlierReportCounts), &[45, 52]),
    (BugPlace::Control(control::Bug::DeadMemberPassed), &[45, 52]),
    (BugPlace::Placement(placement::Bug::GroupLostInSplit), &[3]),
    (BugPlace::Placement(placement::Bug::DeltaBaseNotChecked), &[52]),
    (BugPlace::Partition(partition::Bug::OlderEpochAccepted), &[0]),
    (BugPlace::Partition(partition::Bug::TruncationSkipped), &[1]),
    (BugPlace::Partition(partition::Bug::SessionTableEmptyAtPromotion), &[0]),
    (BugPlace::Partition(partition::Bug::ReadsUncommitted), &[0]),
    (BugPlace::Partition(partition::Bug::MinInSyncIgnored), &[0]),
    (BugPlace::Partition(partition::Bug::AdmittedBeforeCaughtUp), &[1]),
    (BugPlace::Partition(partition::Bug::CommitIndexNotMatched), &[1]),
    (BugPlace::Partition(partition::Bug::EpochMarkerNotAwaited), &[12]),
    (BugPlace::Partition(partition::Bug::UndecidedChangeIgnored), &[1]),
    (BugPlace::Transaction(transaction::Bug::ReadVersionsNotChecked), &[2]),
    (BugPlace::Transaction(transaction::Bug::LastProposalIgnored), &[0]),
    (BugPlace::Transaction(transaction::Bug::DecisionForgottenEarly), &[3]),
    (BugPlace::Transaction(transaction::Bug::EarlierAttemptCounted), &[7]),
    (BugPlace::Transaction(transaction::Bug::ReadsIgnoreIntents), &[0]),
    (BugPlace::Transaction(transaction::Bug::RepeatedPrepareApplied), &[9]),
    (BugPlace::Transaction(transaction::Bug::UnknownAbortNotLogged), &[9]),
    (BugPlace::Partition(partition::Bug::TransactionAppliedTwice), &[0]),
    (BugPlace::Partition(partition::Bug::ReadLockIgnored), &[7]),
    (BugPlace::Session(session::Bug::ResultsInPartitionOrder), &[0]),
    (BugPlace::Session(session::Bug::ChangedRecordNotReread), &[5]),
    (BugPlace::Session(session::Bug::ExpiredReadLockUsed), &[5]),
    (BugPlace::Partition(partition::Bug::ScanRepeatsKey), &[0]),
    (BugPlace::Partition(partition::Bug::RangeRepeatsKey), &[18]),
    (BugPlace::Partition(partition::Bug::ReverseRangeEndsAtPage), &[18]),
    (BugPlace::Session(session::Bug::ScanSkipsChildren), &[35, 7]),
    (BugPlace::Session(session::Bug::ScanCursorLost), &[35, 21]),
    (BugPlace::Relay(relay::Bug::UnknownReportedAsFailed), &[8]),
    (BugPlace::Relay(relay::Bug::QueueOvertaken), &[11]),
    (BugPlace::Relay(relay::Bug::FollowerRuns), &[10]),
    (BugPlace::Relay(relay::Bug::UnknownUnitRunAgain), &[11]),
    (BugPlace::Relay(relay::Bug::FetchedRecordsUnchecked), &[8, 13]),
    (BugPlace::Relay(relay::Bug::PagesOfLaterMoments), &[8, 37]),
    (BugPlace::Relay(relay::Bug::WatchIgnored), &[8]),
    (BugPlace::Relay(relay::Bug::EndsUnanswered), &[10]),
    (BugPlace::Relay(relay::Bug::MovedPageEmpty), &[14]),
    (BugPlace::Session(session::Bug::SnapshotNotFixed), &[9]),
    (BugPlace::Session(session::Bug::SnapshotScanEndsEarly), &[6]),
    (BugPlace::Session(session::Bug::SnapshotOfTheMoment), &[2]),
    (BugPlace::Session(session::Bug::OnlyReadNotChecked), &[5]),
    (BugPlace::Session(session::Bug::WrittenNotChecked), &[0]),
    (BugPlace::Session(session::Bug::OwnWritesUnseen), &[2]),
    (BugPlace::Session(session::Bug::StagedLeftOut), &[83]),
    (BugPlace::Session(session::Bug::BlobReadUnconfirmed), &[21]),
    (BugPlace::Session(session::Bug::BlobPublishedEarly), &[22]),
    (BugPlace::Session(session::Bug::BlobChunksRemovedFirst), &[9]),
    (BugPlace::Session(session::Bug::BlobExtendKeepsOffset), &[9]),
    (BugPlace::Session(session::Bug::BlobContentsBoundTwice), &[3]),
    (BugPlace::Session(session::Bug::BlobTruncateKeepsBytes), &[1]),
    (BugPlace::Session(session::Bug::BlobCreationOverlooked), &[0]),
    (BugPlace::Session(session::Bug::BlobAttributesOfNothing), &[0]),
    (BugPlace::Session(session::Bug::BlobCutNotCompleted), &[23, 20, 26]),
    (BugPlace::Session(session::Bug::CallDeadlineRestarts), &[1]),
    (BugPlace::Session(session::Bug::RangeEndsAtRegion), &[24, 27]),
    (BugPlace::Session(session::Bug::ReverseLeavesRegionEarly), &[27, 32, 36]),
    (BugPlace::Session(session::Bug::SeparatorSkipped), &[27, 36]),
    (BugPlace::Partition(partition::Bug::RegionEndIgnored), &[18]),
    (BugPlace::Partition(partition::Bug::SplitRegionDropped), &[18]),
    (BugPlace::Session(session::Bug::RangeSkipsSibling), &[18]),
    (BugPlace::Session(session::Bug::RangeCursorLost), &[18]),
    (BugPlace::Partition(partition::Bug::MarkOvertakesTransactions), &[39]),
    (BugPlace::Session(session::Bug::MarkOfOnePartition), &[55]),
    (BugPlace::Session(session::Bug::WatchSkipsSibling), &[135]),
    (BugPlace::Session(session::Bug::ReadsNotConfirmed), &[2]),
    (BugPlace::Session(session::Bug::WatchPositionLost), &[135]),
    (BugPlace::Partition(partition::Bug::HistoryEndForgotten), &[119]),
    (BugPlace::Partition(partition::Bug::WatchesNotWoken), &[39]),
    (BugPlace::Partition(partition::Bug::MarkOvertakesPage), &[63]),
];

impl BugPlace {
    /// Whether a seed draws what the mutant requires to become visible: others are not run.
    fn can_show(self, seed: u64) -> bool {
        match self {
            BugPlace::Partition(partition::Bug::KeyspaceNotDrained) => {
                scenario_draws(seed).kinds.has(FaultKind::Drops)
            }
            BugPlace::Partition(partition::Bug::BrokenServesOn) => {
                scenario_draws(seed).kinds.has(FaultKind::BrokenInvariants)
            }
            BugPlace::Session(session::Bug::BlobCutNotCompleted) => scenario_draws(seed).truncates_in_steps,
            BugPlace::Session(bug) if session::Bug::OF_WATCHES.contains(&bug) => {
                scenario_draws(seed).keeps_history
            }
            BugPlace::Partition(bug) if partition::Bug::OF_WATCHES.contains(&bug) => {
                scenario_draws(seed).keeps_history
            }
            BugPlace::Session(bug) if session::Bug::OF_REGIONS.contains(&bug) => {
                scenario_draws(seed).has_regions
            }
            BugPlace::Partition(bug) if partition::Bug::OF_REGIONS.contains(&bug) => {
                scenario_draws(seed).splits_regions
            }
            BugPlace::Session(bug) if session::Bug::OF_REGION_SPLITS.contains(&bug) => {
                scenario_draws(seed).splits_regions
            }
            BugPlace::Partition(bug) if partition::Bug::OF_RANGES.contains(&bug) => {
                scenario_draws(seed).is_ordered
            }
            BugPlace::Partition(
                partition::Bug::BatchCommittedInPieces | partition::Bug::IncompleteBatchKept,
            ) => scenario_draws(seed).has_short_messages && scenario_draws(seed).kinds.has(FaultKind::Kills),
            BugPlace::Partition(partition::Bug::OneLeaseEnough) => {
                scenario_draws(seed).cuts_pairs && scenario_draws(seed).kinds.has(FaultKind::Cuts)
            }
            BugPlace::Partition(partition::Bug::HashRangeNotChecked) => scenario_draws(seed).names_no_epoch,
            BugPlace::Engine(bug) if engine::Bug::OF_RESTARTS.contains(&bug) => {
                scenario_draws(seed).kinds.has(FaultKind::CrashPoints)
            }
            BugPlace::Control(control::Bug::EarlierReportCounts | control::Bug::DeadMemberPassed) => {
                scenario_draws(seed).kills_twice
            }
            BugPlace::Partition(partition::Bug::SeenTieIgnored) => scenario_draws(seed).has_coarse_clocks,
            BugPlace::Partition(partition::Bug::BatchAnsweredEarly) => {
                scenario_draws(seed).sends_half && scenario_draws(seed).kinds.has(FaultKind::Kills)
            }
            BugPlace::Placement(_) => scenario_draws(seed).kinds.has(FaultKind::Splits),
            BugPlace::Relay(relay::Bug::MovedPageEmpty) => scenario_draws(seed).lists_keyspaces,
            BugPlace::Relay(_) => scenario_draws(seed).kinds.has(FaultKind::RedisClients),
            _ => true,
        }
    }

    fn plant(self) {
        match self {
            BugPlace::Partition(bug) => partition::plant(Some(bug)),
            BugPlace::Control(bug) => control::plant(Some(bug)),
            BugPlace::Engine(bug) => engine::plant(Some(bug)),
            BugPlace::Session(bug) => session::plant(Some(bug)),
            BugPlace::Relay(bug) => relay::plant(Some(bug)),
            BugPlace::Transaction(bug) => transaction::plant(Some(bug)),
            BugPlace::Placement(bug) => placement::plant(Some(bug)),
        }
    }

    fn name(self) -> String {
        match self {
            BugPlace::Partition(bug) => format!("{bug:?}"),
            BugPlace::Control(bug) => format!("Control{bug:?}"),
            BugPlace::Engine(bug) => format!("Engine{bug:?}"),
            BugPlace::Session(bug) => format!("Session{bug:?}"),
            BugPlace::Relay(bug) => format!("Relay{bug:?}"),
            BugPlace::Transaction(bug) => format!("Transaction{bug:?}"),
            BugPlace::Placement(bug) => format!("Placement{bug:?}"),
        }
    }

    fn all() -> Vec<BugPlace> {
        let partitions = partition::Bug::OF_GROUPS.into_iter().chain(partition::Bug::ALL);
        let partitions = partitions.chain(partition::Bug::OF_SCANS).chain(partition::Bug::OF_SPLITS);
        let partitions = partitions.chain(partition::Bug::OF_RANGES).chain(partition::Bug::OF_CLUSTERS);
        let controls = control::Bug::OF_MANAGERS.into_iter().chain(control::Bug::OF_AGENTS);
        let controls = controls.chain(control::Bug::OF_RECOVERIES);
        let partitions = partitions
            .chain(partition::Bug::OF_REGIONS)
            .chain(partition::Bug::OF_WATCHES)
            .chain([partition::Bug::BrokenServesOn]);
        let mut all: Vec<BugPlace> = partitions.map(BugPlace::Partition).collect();
        all.extend(controls.chain([control::Bug::VoteNotSynced]).map(BugPlace::Control));
        all.extend(engine::Bug::ALL.into_iter().chain(engine::Bug::OF_WALKS).map(BugPlace::Engine));
        let sessions = session::Bug::ALL.into_iter().chain(session::Bug::OF_REGIONS);
        let sessions = sessions.chain(session::Bug::OF_REGION_SPLITS).chain(session::Bug::OF_WATCHES);
        all.extend(sessions.chain(session::Bug::OF_PROCEDURES).map(BugPlace::Session));
        let is_new = |bug: &engine::Bug| !engine::Bug::ALL.contains(bug);
        all.extend(engine::Bug::OF_RESTARTS.into_iter().filter(is_new).map(BugPlace::Engine));
        all.extend(BugPlace::of_relays());
        all.extend(placement::Bug::ALL.into_iter().map(BugPlace::Placement));
        all.extend(BugPlace::of_transactions());
        all
    }

    /// The mutants of Redis clients, selected by `ZEROHOP_BUG=relays`.
    fn of_relays() -> Vec<BugPlace> {
        relay::Bug::ALL.into_iter().map(BugPlace::Relay).collect()
    }

    /// The mutants of engines that restarts show, selected by `ZEROHOP_BUG=restarts`.
    fn of_restarts() -> Vec<BugPlace> {
        engine::Bug::OF_RESTARTS.into_iter().map(BugPlace::Engine).collect()
    }

    /// The mutants of transactions, selected by `ZEROHOP_BUG=transactions`.
    fn of_transactions() -> Vec<BugPlace> {
        let commits = transaction::Bug::ALL.into_iter().map(BugPlace::Transaction);
        let partitions = partition::Bug::OF_TRANSACTIONS.into_iter().map(BugPlace::Partition);
        let sessions = session::Bug::OF_TRANSACTIONS.into_iter().map(BugPlace::Session);
        commits.chain(partitions).chain(sessions).collect()
    }

    fn uproot() {
        partition::plant(None);
        control::plant(None);
        engine::plant(None);
        session::plant(None);
        relay::plant(None);
        transaction::plant(None);
        placement::plant(None);
    }
}

fn seeds() -> u64 {
    std::env::var("ZEROHOP_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(SEEDS)
}

/// The first violation of a seed.
fn first_violation(seed: u64) -> Option<String> {
    let violations = run_cluster(seed, Limits::default(), LineRetention::Nothing).violations;
    let expected = std::env::var("ZEROHOP_CHECKER").ok();
    let counts = |checker| expected.as_deref().is_none_or(|expected| expected == checker);
    violations.iter().find(|one| counts(one.checker)).map(ToString::to_string)
}

/// Distributes work over the threads.
fn share<T: Send>(things: impl IntoIterator<Item = T, IntoIter: Send>, act: impl Fn(T) + Sync) {
    let queue = Mutex::new(things.into_iter());
    let next = || queue.lock().expect("no thread panics with it").next();
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                while let Some(thing) = next() {
                    act(thing);
                }
            });
        }
    });
}

/// Which seeds show no violation without a mutant, as far as this was run.
#[derive(Default)]
struct CleanSeeds(Mutex<BTreeMap<u64, bool>>);

impl CleanSeeds {
    /// Whether a seed shows none; called without a mutant.
    fn is(&self, seed: u64) -> bool {
        let known = || self.0.lock().expect("no thread panics with it");
        if let Some(is_clean) = known().get(&seed) {
            return *is_clean;
        }
        let found = first_violation(seed);
        if let Some(what) = &found {
            println!("seed {seed} shows without any bug: {what:.160}");
        }
        known().insert(seed, found.is_none());
        found.is_none()
    }
}

/// Seeds that show a mutant, and no violation without it, with the violation: first known seeds,
/// then all others.
fn find<'a>((bug, first): Row, clean: &'a CleanSeeds) -> impl Iterator<Item = (u64, String)> + 'a {
    let others = (0..).filter(move |seed| bug.can_show(*seed)).take(seeds() as usize);
    let others = others.filter(|seed| !first.contains(seed));
    first.iter().copied().chain(others).filter_map(move |seed| {
        bug.plant();
        let found = first_violation(seed);
        BugPlace::uproot();
        found.filter(|_| clean.is(seed)).map(|what| (seed, what))
    })
}

#[test]
fn cluster_mutants_are_found_by_otherwise_clean_seeds() {
    // A panic is a finding as well; its location is not printed.
    std::panic::set_hook(Box::new(|_| {}));
    let from_the_first = |bugs: Vec<BugPlace>| bugs.into_iter().map(|bug| (bug, &[][..])).collect();
    let bugs: Vec<Row> = match std::env::var("ZEROHOP_BUG") {
        Ok(expected) if expected == "relays" => from_the_first(BugPlace::of_relays()),
        Ok(expected) if expected == "restarts" => from_the_first(BugPlace::of_restarts()),
        Ok(expected) if expected == "transactions" => from_the_first(BugPlace::of_transactions()),
        Ok(expected) => {
            let is_wanted =
                |bug: &BugPlace| expected == "all" || expected.split(',').any(|one| one == bug.name());
            from_the_first(BugPlace::all().into_iter().filter(is_wanted).collect())
        }
        Err(_) if crate::runs_all() => [&CANARIES[..], &OTHERS[..]].concat(),
        Err(_) => CANARIES.to_vec(),
    };
    assert!(!bugs.is_empty(), "ZEROHOP_BUG names no mutant");
    let (clean, missed) = (CleanSeeds::default(), Mutex::new(Vec::new()));
    let expected = if std::env::var_os("ZEROHOP_EVERY").is_some() { usize::MAX } else { 1 };
    share(bugs, |row| {
        let name = row.0.name();
        let found = find(row, &clean).take(expected).inspect(|(seed, what)| {
            println!("{name}: seed {seed}: {:.160}", what.lines().next().unwrap_or(""));
        });
        if found.count() == 0 {
            println!("{name} is not found");
            missed.lock().expect("no thread panics with it").push(name);
        }
    });
    let missed = missed.into_inner().expect("no thread panics with it");
    assert!(missed.is_empty(), "not found within {} seeds: {missed:?}", seeds());
}
