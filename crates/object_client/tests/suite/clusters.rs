//! Gateways of objects in simulated clusters, and planted bugs of the layer that these find.

use std::collections::{BTreeMap, BTreeSet};

use zerohop_layer_procedure::planted as shared;
use zerohop_objects::planted::{Bug, plant};
use zerohop_sim::programs::{BoxFuture, ClientPrograms, ProgramClient, ProgramRegions};
use zerohop_sim::{LineRetention, RunReport, run_programs};

use crate::gateway::Gateway;
use crate::history::SharedHistory;

/// Where the regions of names begin: nowhere, or between objects, their sets and their timers.
const AT_CREATION: [&[&[u8]]; 3] =
    [&[], &[b"oplain\0b", b"s"], &[b"d", b"l", b"oplain\0a/b", b"p", b"s\x80", b"t", b"u"]];

/// Where regions are split.
const SPLITS: [&[u8]; 10] = [
    b"c",
    b"l\x70",
    b"oplain\0a",
    b"oplain\0b/",
    b"oversioned",
    b"s\x40",
    b"s\xb0",
    b"t\0",
    b"uplain\0b",
    b"v",
];

/// Seeds of a survey.
const SEEDS: u64 = 12;

/// The gateways of a run.
#[derive(Debug, Default)]
struct Gateways(SharedHistory);

impl ClientPrograms for Gateways {
    fn regions(&self) -> ProgramRegions {
        ProgramRegions { at_creation: &AT_CREATION, splits: &SPLITS }
    }

    fn begin(&mut self, client: ProgramClient) -> BoxFuture {
        let history = self.0.clone();
        Box::pin(async move {
            if let Some(gateway) = Gateway::open(client, history).await {
                gateway.serve().await;
            }
        })
    }

    fn conclude(&mut self, client: ProgramClient) -> BoxFuture {
        let history = self.0.clone();
        Box::pin(async move {
            if let Some(gateway) = Gateway::open(client, history).await {
                gateway.conclude().await;
            }
        })
    }

    fn violations(&mut self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().wrong)
    }
}

/// Runs a seed. Result: the report, and the operations that ended well.
fn simulate(seed: u64, keep: LineRetention) -> (RunReport, BTreeMap<&'static str, u64>) {
    let history = SharedHistory::default();
    let report = run_programs(seed, Box::new(Gateways(history.clone())), keep);
    let mut history = history.lock();
    let undecided = history.undecided;
    history.successes.insert("undecided", undecided);
    (report, history.successes.clone())
}

fn first_violation(seed: u64) -> Option<String> {
    simulate(seed, LineRetention::Nothing).0.violations.first().map(ToString::to_string)
}

/// A bug that is planted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Planted {
    Objects(Bug),
    Shared(shared::Bug),
}

fn plant_one(bug: Option<Planted>) {
    plant(match bug {
        Some(Planted::Objects(bug)) => Some(bug),
        _ => None,
    });
    shared::plant(match bug {
        Some(Planted::Shared(bug)) => Some(bug),
        _ => None,
    });
}

/// The planted bugs, each with a seed that shows it.
const BUGS: [(Planted, u64); 12] = [
    (Planted::Objects(Bug::ReplacedNotReleased), 15),
    (Planted::Objects(Bug::CopyNotCounted), 15),
    (Planted::Objects(Bug::NoGrace), 15),
    (Planted::Objects(Bug::CopiedPartsNotReleased), 15),
    (Planted::Objects(Bug::NullVersionStays), 15),
    (Planted::Objects(Bug::RemovedVersionNotReleased), 15),
    (Planted::Shared(shared::Bug::OnlyWrittenChecked), 8),
    (Planted::Shared(shared::Bug::NothingChecked), 15),
    (Planted::Objects(Bug::ListingSkips), 15),
    (Planted::Objects(Bug::PromotedVersionStays), 8),
    (Planted::Objects(Bug::UnlistedPartsStay), 1),
    (Planted::Objects(Bug::PartsNotFrozen), 6),
];

#[test]
fn planted_bugs_are_found_by_otherwise_clean_seeds() {
    if ["ZEROHOP_SEED", "ZEROHOP_SEEDS"].into_iter().any(|name| number(name).is_some()) {
        return survey();
    }
    std::panic::set_hook(Box::new(|_| {}));
    let seeds: BTreeSet<u64> = BUGS.iter().map(|(_, seed)| *seed).collect();
    let mut digests = BTreeMap::new();
    for seed in seeds {
        let (report, successes) = simulate(seed, LineRetention::Nothing);
        assert_eq!(report.violations, [], "seed {seed}");
        digests.insert(seed, report.digest);
        let kinds = ["put", "get", "delete", "copy", "part", "part copy", "page", "sweep", "refusal"];
        for kind in kinds {
            assert!(
                successes.get(kind).is_some_and(|count| *count > 0),
                "seed {seed}, {kind}: {successes:?}"
            );
        }
        assert_eq!(successes.get("undecided"), Some(&0), "seed {seed}");
    }
    let again = simulate(BUGS[0].1, LineRetention::Nothing).0.digest;
    assert_eq!(digests.get(&BUGS[0].1), Some(&again), "a seed can be repeated");
    let mut missed = Vec::new();
    for (bug, seed) in BUGS {
        plant_one(Some(bug));
        let found = first_violation(seed);
        plant_one(None);
        match found {
            Some(what) => println!("{bug:?}: seed {seed}: {:.200}", what.replace('\n', " ")),
            None => missed.push((bug, seed)),
        }
    }
    assert!(missed.is_empty(), "not found: {missed:?}");
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// `ZEROHOP_SEED=n` shows the events of a seed, and `ZEROHOP_SEEDS=n` surveys seeds, with `ZEROHOP_BUG=name` or `all` for planted
/// bugs.
fn survey() {
    if let Some(seed) = number("ZEROHOP_SEED") {
        let (report, successes) = simulate(seed, LineRetention::All);
        report.lines.iter().for_each(|line| println!("{line}"));
        println!("{:?}\n{successes:?}", report.violations);
        return;
    }
    let (from, seeds) = (number("ZEROHOP_FROM").unwrap_or(0), number("ZEROHOP_SEEDS").unwrap_or(SEEDS));
    if let Ok(wanted) = std::env::var("ZEROHOP_BUG") {
        std::panic::set_hook(Box::new(|_| {}));
        for (bug, _) in BUGS.iter().filter(|(bug, _)| wanted == "all" || format!("{bug:?}").contains(&wanted))
        {
            plant_one(Some(*bug));
            let found = (from..from + seeds).find_map(|seed| Some((seed, first_violation(seed)?)));
            plant_one(None);
            println!("{bug:?}: {:.300}", format!("{found:?}"));
        }
        return;
    }
    for seed in from..from + seeds {
        let (report, successes) = simulate(seed, LineRetention::Nothing);
        let first = report.violations.first().map(ToString::to_string);
        let seconds = report.coverage.simulated_us / 1_000_000;
        println!("seed {seed}, {seconds} s: {:.2000} {successes:?}", first.unwrap_or_default());
    }
}
