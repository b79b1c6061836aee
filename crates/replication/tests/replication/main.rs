//! A small simulation of a partition's replication: instances with real engines on simulated disks, a control group that changes
//! groups by compare-and-set, clients, and faults. `ZEROHOP_SEED=N` plays one seed and prints its events.
#![allow(
    missing_docs,
    unreachable_pub,
    clippy::print_stdout,
    reason = "a test, which tells what it has seen"
)]

mod check;
mod client;
mod control;
mod host;
#[cfg(debug_assertions)]
mod planted;
mod totals;
mod world;

use control::ControlBug;
use totals::Totals;
use world::{ReplicationScenario, ReplicationWorld};

const FAULTS_US: u64 = 12_000_000;
const HEAL_US: u64 = 20_000_000;

/// The result of a run.
pub struct RunResult {
    pub violations: Vec<String>,
    pub totals: Totals,
    pub trace: u64,
}

/// Plays one seed to its end.
pub fn run_seed(seed: u64, control_bug: Option<ControlBug>) -> RunResult {
    let mut world = ReplicationWorld::new(ReplicationScenario { seed, faults_us: FAULTS_US, control_bug });
    world.run_until(FAULTS_US, |_| false);
    world.heal();
    world.run_until(FAULTS_US + 4_000_000, |_| false);
    for client in &mut world.clients {
        client.is_stopping = true;
    }
    let end = FAULTS_US + HEAL_US;
    world.run_until(end, |world| world.clients.iter().all(client::SimulatedClient::is_idle));
    let stuck = world.clients.iter().find(|client| !client.is_idle());
    if let Some(client) = stuck.filter(|_| world.check.violations.is_empty()) {
        world.check.violations.push(format!("no progress: {client:?}"));
    }
    let mut is_converged = false;
    while world.check.violations.is_empty() && !is_converged && world.now < end + HEAL_US {
        let next = world.now + 200_000;
        world.run_until(next, |_| false);
        is_converged = world.is_converged();
    }
    if !is_converged && world.check.violations.is_empty() {
        world.check.violations.push(format!("I6: not converged: {:?}", world.control.map.groups));
    }
    let violations = world.check.violations.clone();
    let totals = world.sum();
    RunResult { violations, totals, trace: world.trace }
}

fn seeds() -> std::ops::Range<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    match number("ZEROHOP_SEED") {
        Some(seed) => seed..seed + 1,
        None => 1..1 + number("ZEROHOP_SEEDS").unwrap_or(60),
    }
}

#[test]
fn acknowledged_writes_survive_and_only_one_primary_answers() {
    let mut totals = Totals::default();
    let seeds = seeds();
    let count = seeds.end - seeds.start;
    for seed in seeds {
        let ended = run_seed(seed, None);
        assert!(
            ended.violations.is_empty(),
            "ZEROHOP_SEED={seed} cargo test -p zerohop-partition --test replication\n{:#?}",
            ended.violations
        );
        totals.add(&ended.totals);
    }
    println!("{count} seeds: {totals:?}");
    if count >= 60 {
        let Totals { promotions, truncations, states, lease_expiries: lapses, admissions, removals, .. } =
            totals;
        let Totals { readmissions, restarts_of_all, moves, operations, .. } = totals;
        let Totals { corruption_found, repaired, disk_failures, audits, .. } = totals;
        for (name, seen) in [
            ("operations", operations / 10_000),
            ("promotions", promotions),
            ("truncations", truncations),
            ("snapshots installed", states),
            ("lapses of leases", lapses),
            ("admissions", admissions),
            ("removals", removals),
            ("readmissions", readmissions),
            ("restarts of all", restarts_of_all),
            ("moves", moves),
            ("corruption found", corruption_found),
            ("ranges compared", audits),
            ("entries repaired", repaired),
            ("disks that failed", disk_failures),
        ] {
            assert!(seen > 0, "no {name} in {count} seeds: {totals:?}");
        }
    }
}

#[test]
fn same_seed_gives_the_same_run() {
    for seed in [3, 4] {
        let (first, second) = (run_seed(seed, None), run_seed(seed, None));
        assert_eq!((first.trace, first.totals), (second.trace, second.totals));
    }
}
