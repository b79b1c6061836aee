//! Thousands of random histories with crashes and faults, each compared with a plain model (see
//! `support`).
//!
//! `ZEROHOP_SEEDS=from..to` selects other seeds, and `ZEROHOP_TRACE=1` prints the operations of a
//! failing one.

use crate::support;

/// Seeds of a usual run: a bounded time in an unoptimised build.
const SEEDS: u64 = 3000;

#[test]
fn recovery_restores_exactly_the_synced_entries() {
    let mut wrong = Vec::new();
    for seed in support::seeds(SEEDS) {
        if let Err(failure) = support::run_seed(seed) {
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
