//! With all rules followed, nothing that can happen within the bounds breaks a promise; every test says how much that was.
//!
//! Two of the largest explorations run with `ZEROHOP_BOUNDS=all`, as in `cargo xtask soak`. Otherwise they have an epoch less.

use stateright::{Checker, Model as _};
use suite_model::bounds::Bounds;
use suite_model::model::Model;

/// Goes through everything, and through as many states as it says (a model in which less happens would find nothing).
#[expect(
    clippy::print_stdout,
    reason = "the number of states is what a reader of the test's output looks for"
)]
fn holds(bounds: Bounds, at_least: usize) {
    let checker = Model { bounds: bounds.clone() }.checker().spawn_bfs().join();
    checker.assert_properties();
    let (states, depth) = (checker.unique_state_count(), checker.max_depth());
    println!("{states} states, up to {depth} steps deep: {bounds:?}");
    assert!(checker.is_done() && states >= at_least, "only {states} states");
}

/// Goes through the large bounds with `ZEROHOP_BOUNDS=all`, otherwise through the same with an epoch less.
fn holds_with_an_epoch_less(bounds: Bounds, at_least: usize, at_least_less: usize) {
    if std::env::var("ZEROHOP_BOUNDS").is_ok_and(|value| value == "all") {
        return holds(bounds, at_least);
    }
    holds(Bounds { epochs: bounds.epochs - 1, ..bounds }, at_least_less);
}

#[test]
fn properties_hold_over_three_epochs_without_restarts() {
    holds(Bounds::new(3, 1), 100_000);
}

#[test]
fn three_in_sync_over_three_epochs() {
    holds(Bounds { min_in_sync: 3, plans: false, ..Bounds::new(3, 1) }.all_in_sync(), 100_000);
}

#[test]
fn requests_and_verdicts_over_four_epochs() {
    holds(Bounds::new(4, 1).unplanned(), 300_000);
}

#[test]
fn verdicts_and_plans_over_four_epochs() {
    holds_with_an_epoch_less(Bounds::new(4, 1).without_proposals(), 500_000, 10_000);
}

#[test]
fn properties_hold_with_restart_that_loses_unflushed_entries() {
    // With an epoch less, no restarted member could be in sync again.
    holds(Bounds::new(3, 1).restarting(1), 500_000);
}

#[test]
fn properties_hold_with_restarts_of_all_in_sync_replicas() {
    holds(
        Bounds { verdicts: false, ..Bounds::new(4, 1) }.without_proposals().unplanned().restarting(2),
        100_000,
    );
}

#[test]
fn properties_hold_with_sync_restart_with_or_without_disk() {
    let bounds = Bounds::new(3, 1).without_proposals().unplanned().restarting(1).synced();
    holds_with_an_epoch_less(bounds, 100_000, 30_000);
}

#[test]
fn properties_hold_with_sync_restarts_of_all_in_sync_replicas() {
    let bounds = Bounds { verdicts: false, ..Bounds::new(3, 1) }.without_proposals().unplanned();
    holds(Bounds { disks_lost: false, ..bounds.restarting(2).synced() }, 100_000);
}
