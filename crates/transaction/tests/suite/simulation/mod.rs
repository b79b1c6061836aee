//! Whole transactions in a small world. The committed part of a partition's log survives. Primaries
//! are replaced and moved at any moment, and deposed ones do not know it yet. The network loses,
//! repeats, delays and reorders messages. Clients retry and vanish. Checks of each seed: an order
//! explains all reads, account sums are right, snapshots have past states, and in the end nothing
//! is left of any transaction.

mod check;
mod client;
#[path = "../../../../sim/src/cycles.rs"]
mod cycles;
mod group;
#[cfg(debug_assertions)]
mod planted;
mod random;
mod serve;
mod staging;
mod store;
mod world;

use std::collections::BTreeMap;

use world::TransactionWorld;

/// Runs one seed. Returns the violations, and the events that occurred.
pub fn run_seed(seed: u64, traced: bool) -> (Vec<String>, BTreeMap<&'static str, u64>, TransactionWorld) {
    let mut world = TransactionWorld::new(seed, traced);
    world.run_to_end();
    (check::check(&mut world), world.seen.counts.clone(), world)
}

fn seeds() -> std::ops::Range<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let from = number("ZEROHOP_SEED").unwrap_or(1);
    from..from + number("ZEROHOP_SEEDS").unwrap_or(150)
}

#[test]
fn transactions_are_strictly_serializable_and_end() {
    let mut totals: BTreeMap<&'static str, u64> = BTreeMap::new();
    let is_traced = std::env::var("ZEROHOP_TRACE").is_ok();
    for seed in seeds() {
        let (wrong, counts, world) = run_seed(seed, is_traced);
        if is_traced {
            world.trace.iter().flatten().for_each(|line| println!("{line}"));
        }
        assert!(wrong.is_empty(), "seed {seed}: {wrong:#?}");
        counts.into_iter().for_each(|(what, count)| *totals.entry(what).or_default() += count);
    }
    println!("{totals:#?}");
    if std::env::var("ZEROHOP_SEED").is_err() {
        let missing: Vec<_> =
            SEEN.iter().filter(|what| totals.get(*what).is_none_or(|count| *count == 0)).collect();
        assert!(missing.is_empty(), "never seen in any seed: {missing:?}");
    }
}

/// Events that must occur: a simulation without them would find nothing, and pass silently.
const SEEN: [&str; 25] = [
    "Prepare",
    "Release",
    "Commit",
    "Drop",
    "Prepared",
    "Busy",
    "Refused",
    "Released",
    "Applied",
    "NotPrepared",
    "Ask",
    "committed",
    "aborted: read changed",
    "aborted: unknown",
    "reads confirmed",
    "reads as transactions",
    "snapshots",
    "reads of one",
    "failovers",
    "splits",
    "splits of what is prepared or untold",
    "aborted: misplaced",
    "clients vanished",
    "sessions forgotten",
    "clients whose session is forgotten",
];
