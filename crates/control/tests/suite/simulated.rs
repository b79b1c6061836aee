//! A control group under faults, from a fixed set of seeds.

use std::collections::BTreeMap;

use crate::support::world::ManagerWorld;

const SEEDS: std::ops::Range<u64> = 0..40;

/// Events that a batch of seeds must contain: a simulation without faults would find nothing, and
/// pass silently.
const MUST_SEE: [&str; 22] = [
    "batches",
    "crashes",
    "cuts",
    "disks lost",
    "done",
    "kept over a clean shutdown",
    "keyspaces",
    "leaders replaced",
    "leaders stopped in a removal",
    "managers set",
    "members chosen",
    "moves abandoned",
    "moves begun",
    "pauses",
    "primaries replaced by what they admitted",
    "promotions",
    "recoveries begun",
    "recoveries ended",
    "refused",
    "snapshots taken",
    "splits",
    "targets admitted",
];

#[test]
fn each_term_has_one_leader_and_no_decided_command_is_lost() {
    let mut coverage: BTreeMap<&str, u64> = BTreeMap::new();
    let mut events = 0;
    let number = |name| std::env::var(name).ok().map(|number| number.parse::<u64>().expect("is a number"));
    let seeds = match (number("ZEROHOP_SEED"), number("ZEROHOP_SEEDS")) {
        (Some(seed), count) => seed..seed + count.unwrap_or(1),
        (None, Some(count)) => 0..count,
        (None, None) => SEEDS,
    };
    let is_whole = seeds.end - seeds.start >= SEEDS.end;
    for seed in seeds {
        let world = ManagerWorld::new(seed).run_to_end();
        assert!(world.checker.violations.is_empty(), "seed {seed}: {:#?}", world.checker.violations);
        events += world.events();
        for (what, count) in &world.checker.coverage {
            *coverage.entry(what).or_default() += count;
        }
    }
    for what in MUST_SEE.iter().filter(|_| is_whole) {
        assert!(coverage.contains_key(what), "no seed has seen {what}: {coverage:?}");
    }
    assert!(events > 10_000 || !is_whole, "{events} events");
}

#[test]
fn a_seed_replays_to_the_byte() {
    for seed in 0..8 {
        let (one, other) = (ManagerWorld::new(seed).run_to_end(), ManagerWorld::new(seed).run_to_end());
        assert_eq!((one.digest, one.events()), (other.digest, other.events()), "seed {seed}");
    }
}
