//! Reads of several records: what a second round is needed for, and what it would take to do without.

use stateright::{Checker, HasDiscoveries, Model as _};
use suite_model::reads::{ONE_MOMENT, ReadMethod};

/// Goes through everything.
#[expect(
    clippy::print_stdout,
    reason = "the number of states is what a reader of the test's output looks for"
)]
fn holds(way: ReadMethod, at_least: usize) {
    let checker = way.checker().spawn_bfs().join();
    checker.assert_properties();
    let states = checker.unique_state_count();
    println!("{states} states: {way:?}");
    assert!(checker.is_done() && states >= at_least, "only {states} states");
}

/// The shortest schedule after which a read has shown what never was.
#[expect(clippy::print_stdout, reason = "the schedule is what a reader of the test's output looks for")]
fn breaks(way: ReadMethod) {
    let until = HasDiscoveries::AnyOf([ONE_MOMENT].into());
    let checker = way.checker().finish_when(until).spawn_bfs().join();
    let path = checker.discovery(ONE_MOMENT).unwrap_or_else(|| panic!("{way:?} holds"));
    println!("{way:?} is broken by {:?}", path.into_actions());
}

#[test]
fn confirmed_reads_are_consistent_with_any_clocks() {
    holds(ReadMethod::Confirmed, 1000);
}

#[test]
fn promised_timestamps_are_consistent_only_if_clocks_agree() {
    holds(ReadMethod::Promised { clocks_agree: true }, 100);
    breaks(ReadMethod::Promised { clocks_agree: false });
}

#[test]
fn read_locks_are_consistent_only_if_none_ends_early() {
    holds(ReadMethod::ReadLocked { rates_agree: true }, 1000);
    breaks(ReadMethod::ReadLocked { rates_agree: false });
}
