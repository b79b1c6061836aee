//! Clusters from a few seeds show what is planted in any part of them, and the same seeds nothing where nothing is planted.
//! `ZEROHOP_BUG=Name,Name` looks for some alone (`transactions`: for those of transactions), whether they are listed here or not, `ZEROHOP_BUG=all` for all;
//! `ZEROHOP_SEEDS=n` plays so many at most; with `ZEROHOP_CHECKER=name` only what that checker says counts.
#![cfg(debug_assertions)]
#![expect(clippy::print_stdout, reason = "tells which seed found what")]

use std::collections::BTreeMap;
use std::sync::Mutex;

use zerohop_control::planted as control;
use zerohop_engine::planted as engine;
use zerohop_partition::planted as partition;
use zerohop_session::planted as session;
use zerohop_sim::cluster::Limits;
use zerohop_sim::{Keep, run_cluster};
use zerohop_transaction::planted as transaction;

/// Bugs are planted for one thread: so many are looked for at a time.
const THREADS: usize = 2;

/// Seeds from 0 on within which each bug is found. Those that show something though nothing is planted do not count.
const SEEDS: u64 = 60;

/// Where a bug is.
#[derive(Clone, Copy, Debug)]
enum In {
    Partition(partition::Bug),
    Control(control::Bug),
    Engine(engine::Bug),
    Session(session::Bug),
    Transaction(transaction::Bug),
}

/// One of each kind (copies, leases, control, commits, intents, drops, misrouting, sessions, scans, engines), with the seed that showed it last,
/// which is played first: then it costs one seed, or two.
const CANARIES: [(In, u64); 10] = [
    (In::Partition(partition::Bug::AcknowledgedAlone), 0),
    (In::Partition(partition::Bug::GrantNotWaitedOut), 4),
    (In::Control(control::Bug::PromotesFollower), 1),
    (In::Transaction(transaction::Bug::FreedBeforeDecision), 1),
    (In::Partition(partition::Bug::ConfirmIgnoresIntents), 3),
    (In::Partition(partition::Bug::DroppedAtOnce), 17),
    (In::Partition(partition::Bug::SliceNotChecked), 7),
    (In::Session(session::Bug::ReadsUnconfirmed), 1),
    (In::Partition(partition::Bug::ScanPassesOver), 0),
    (In::Engine(engine::Bug::SeedUnheard), 1),
];

/// The others that are found. What is in neither list was not found within the seeds that were played, or cannot be:
/// docs/reliability.md.
const OTHERS: [(In, u64); 26] = [
    (In::Partition(partition::Bug::LeaseNotChecked), 0),
    (In::Partition(partition::Bug::NewerGrantUsed), 4),
    (In::Partition(partition::Bug::PrecedingNotMatched), 0),
    (In::Control(control::Bug::RestartedStaysInSync), 0),
    (In::Partition(partition::Bug::OlderEpochAccepted), 0),
    (In::Partition(partition::Bug::TruncationSkipped), 1),
    (In::Partition(partition::Bug::SessionsForgottenAtPromotion), 0),
    (In::Partition(partition::Bug::ReadsUncommitted), 18),
    (In::Partition(partition::Bug::MinInSyncIgnored), 0),
    (In::Partition(partition::Bug::AdmittedBeforeCaughtUp), 3),
    (In::Partition(partition::Bug::CommitNotMatched), 1),
    (In::Partition(partition::Bug::MarkNotAwaited), 3),
    (In::Partition(partition::Bug::UndecidedIgnored), 1),
    (In::Transaction(transaction::Bug::ReadsUnchecked), 2),
    (In::Transaction(transaction::Bug::TimestampTooEarly), 3),
    (In::Transaction(transaction::Bug::ForgottenBeforeFinished), 3),
    (In::Transaction(transaction::Bug::EarlierAttemptCounts), 7),
    (In::Transaction(transaction::Bug::ReadsWaitForNothing), 5),
    (In::Transaction(transaction::Bug::RepeatedPrepareApplied), 23),
    (In::Transaction(transaction::Bug::UnknownNotLogged), 9),
    (In::Partition(partition::Bug::TransactionTwice), 1),
    (In::Partition(partition::Bug::HoldIgnored), 7),
    (In::Session(session::Bug::AnswersByPart), 0),
    (In::Session(session::Bug::ChangesUnread), 3),
    (In::Session(session::Bug::HeldTooLong), 5),
    (In::Partition(partition::Bug::ScanGoesBack), 0),
];

impl In {
    fn plant(self) {
        match self {
            In::Partition(bug) => partition::plant(Some(bug)),
            In::Control(bug) => control::plant(Some(bug)),
            In::Engine(bug) => engine::plant(Some(bug)),
            In::Session(bug) => session::plant(Some(bug)),
            In::Transaction(bug) => transaction::plant(Some(bug)),
        }
    }

    fn name(self) -> String {
        match self {
            In::Partition(bug) => format!("{bug:?}"),
            In::Control(bug) => format!("Control{bug:?}"),
            In::Engine(bug) => format!("Engine{bug:?}"),
            In::Session(bug) => format!("Session{bug:?}"),
            In::Transaction(bug) => format!("Transaction{bug:?}"),
        }
    }

    fn all() -> Vec<In> {
        let partitions = partition::Bug::OF_GROUPS.into_iter().chain(partition::Bug::ALL);
        let partitions = partitions.chain(partition::Bug::OF_SCANS).chain(partition::Bug::OF_SPLITS);
        let controls = control::Bug::OF_MANAGERS.into_iter().chain(control::Bug::OF_AGENTS);
        let mut all: Vec<In> = partitions.map(In::Partition).collect();
        all.extend(controls.chain([control::Bug::VotesTwice]).map(In::Control));
        all.extend(engine::Bug::ALL.into_iter().chain(engine::Bug::OF_WALKS).map(In::Engine));
        all.extend(session::Bug::ALL.into_iter().map(In::Session));
        all.extend(In::of_transactions());
        all
    }

    /// Those of transactions: `ZEROHOP_BUG=transactions` looks for them.
    fn of_transactions() -> Vec<In> {
        let commits = transaction::Bug::ALL.into_iter().map(In::Transaction);
        let partitions = partition::Bug::OF_TRANSACTIONS.into_iter().map(In::Partition);
        let sessions = session::Bug::OF_TRANSACTIONS.into_iter().map(In::Session);
        commits.chain(partitions).chain(sessions).collect()
    }

    fn uproot() {
        partition::plant(None);
        control::plant(None);
        engine::plant(None);
        session::plant(None);
        transaction::plant(None);
    }
}

fn seeds() -> u64 {
    std::env::var("ZEROHOP_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(SEEDS)
}

/// What a seed shows first.
fn shown(seed: u64) -> Option<String> {
    let violations = run_cluster(seed, Limits::default(), Keep::Nothing).violations;
    let wanted = std::env::var("ZEROHOP_CHECKER").ok();
    let counts = |checker| wanted.as_deref().is_none_or(|wanted| wanted == checker);
    violations.iter().find(|one| counts(one.checker)).map(ToString::to_string)
}

/// Has each thing done by whichever thread is free.
fn share<T: Send>(things: impl IntoIterator<Item = T, IntoIter: Send>, act: impl Fn(T) + Sync) {
    let queue = Mutex::new(things.into_iter());
    let next = || queue.lock().expect("nobody panics with it").next();
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

/// Which seeds show nothing where nothing is planted, as far as that was asked.
#[derive(Default)]
struct Clean(Mutex<BTreeMap<u64, bool>>);

impl Clean {
    /// Whether a seed does; to be asked where nothing is planted.
    fn is(&self, seed: u64) -> bool {
        let known = || self.0.lock().expect("nobody panics with it");
        if let Some(is_clean) = known().get(&seed) {
            return *is_clean;
        }
        let found = shown(seed);
        if let Some(what) = &found {
            println!("seed {seed} shows without any bug: {what:.160}");
        }
        known().insert(seed, found.is_none());
        found.is_none()
    }
}

/// A seed that shows a bug and nothing without it, and what it shows: of the one to play first, and all others, the first.
fn find((bug, first): (In, u64), clean: &Clean) -> Option<(u64, String)> {
    std::iter::once(first).chain((0..seeds()).filter(|seed| *seed != first)).find_map(|seed| {
        bug.plant();
        let found = shown(seed);
        In::uproot();
        found.filter(|_| clean.is(seed)).map(|what| (seed, what))
    })
}

#[test]
fn bugs_planted_in_clusters_are_found_by_seeds_that_show_nothing_else() {
    // What panics is found as well; where, nobody needs to read.
    std::panic::set_hook(Box::new(|_| {}));
    let from_the_first = |bugs: Vec<In>| bugs.into_iter().map(|bug| (bug, 0)).collect();
    let bugs: Vec<(In, u64)> = match std::env::var("ZEROHOP_BUG") {
        Ok(wanted) if wanted == "transactions" => from_the_first(In::of_transactions()),
        Ok(wanted) => {
            let is_wanted = |bug: &In| wanted == "all" || wanted.split(',').any(|one| one == bug.name());
            from_the_first(In::all().into_iter().filter(is_wanted).collect())
        }
        Err(_) if crate::plays_all() => [&CANARIES[..], &OTHERS[..]].concat(),
        Err(_) => CANARIES.to_vec(),
    };
    let (clean, missed) = (Clean::default(), Mutex::new(Vec::new()));
    share(bugs, |(bug, first)| match find((bug, first), &clean) {
        Some((seed, what)) => {
            println!("{}: seed {seed}: {:.160}", bug.name(), what.lines().next().unwrap_or(""));
        }
        None => {
            println!("{} is not found", bug.name());
            missed.lock().expect("nobody panics with it").push(bug.name());
        }
    });
    let missed = missed.into_inner().expect("nobody panics with it");
    assert!(missed.is_empty(), "not found within {} seeds: {missed:?}", seeds());
}
