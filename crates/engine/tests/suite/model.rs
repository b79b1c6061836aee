//! Thousands of random histories with crashes and faults, each compared with a plain model (see
//! `support`).
//!
//! `ZEROHOP_SEEDS=from..to` selects other seeds, as `cargo xtask soak` does, and `ZEROHOP_TRACE=1`
//! prints the operations of a failing one.

use crate::support;

/// Seeds of a usual run: a bounded time in an unoptimised build.
const SEEDS: u64 = 1000;
/// The same, over one log of all partitions.
const SEEDS_SHARED: u64 = 350;

fn run_seeds(usual: u64, is_shared: bool) {
    let mut wrong = Vec::new();
    for seed in support::seeds(usual) {
        if let Err(failure) = support::run_seed(seed, is_shared) {
            wrong.push(format!(
                "{failure}\n  again: ZEROHOP_SEEDS={seed}..{} cargo test -p zerohop-engine --test suite model",
                seed + 1
            ));
            if wrong.len() == 20 {
                break;
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn recovery_restores_exactly_the_synced_entries() {
    run_seeds(SEEDS, false);
}

#[test]
fn recovery_of_a_shared_log_restores_exactly_the_synced_entries() {
    run_seeds(SEEDS_SHARED, true);
}
