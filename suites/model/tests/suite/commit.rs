//! The commit of a transaction: with all rules followed nothing that can happen within the bounds breaks a promise; each rule,
//! left out, leads to something that must not happen.

use stateright::{Checker, HasDiscoveries, Model as _};
use suite_model::commit::bounds::Commit;
use suite_model::commit::model::{ATOMIC, CURRENT, ENDS, NOT_LOST, ONCE, WHOLE};
use suite_model::commit::rules::CommitRule;

const BOUNDS: Commit = Commit { attempts: 3, entries: 2, failovers: 1, reads: 0, without: None };

/// Goes through everything, and through as many states as it says.
#[expect(
    clippy::print_stdout,
    reason = "the number of states is what a reader of the test's output looks for"
)]
fn holds(model: Commit, at_least: usize) {
    let checker = model.checker().spawn_bfs().join();
    checker.assert_properties();
    let (states, depth) = (checker.unique_state_count(), checker.max_depth());
    println!("{states} states, up to {depth} steps deep: {model:?}");
    assert!(checker.is_done() && states >= at_least, "only {states} states");
}

/// Leaves a rule out and looks until this property is seen broken.
#[expect(clippy::print_stdout, reason = "the schedule is what a reader of the test's output looks for")]
fn breaks(rule: CommitRule, property: &'static str, model: Commit) {
    let model = Commit { without: Some(rule), ..model };
    let until = HasDiscoveries::AnyOf([property].into());
    let checker = model.checker().finish_when(until).spawn_bfs().join();
    let found = checker.discovery(property);
    let path = found.unwrap_or_else(|| panic!("without {rule:?} `{property}` still holds"));
    println!("without {rule:?}, `{property}` is broken by {:?}", path.into_actions());
}

#[test]
fn a_commit_with_a_failover() {
    holds(BOUNDS, 10_000);
}

#[test]
fn commit_is_atomic_with_concurrent_reads() {
    holds(Commit { attempts: 1, reads: 2, entries: 1, ..BOUNDS }, 10_000);
}

#[test]
fn of_logs() {
    breaks(CommitRule::PreparedOnceCommitted, ATOMIC, BOUNDS);
    breaks(CommitRule::NotifiedOnceCommitted, ATOMIC, BOUNDS);
    breaks(CommitRule::UnknownIsLogged, ATOMIC, BOUNDS);
    breaks(CommitRule::AbortIsFinal, ATOMIC, BOUNDS);
    breaks(CommitRule::KeptUntilFinished, ATOMIC, BOUNDS);
    breaks(CommitRule::LockedUntilDecided, ATOMIC, BOUNDS);
}

#[test]
fn of_attempts() {
    breaks(CommitRule::PresentAttemptCounts, ATOMIC, BOUNDS);
    breaks(CommitRule::LowerAttemptsIgnored, ATOMIC, BOUNDS);
    breaks(CommitRule::ReleaseNamesAttempt, ATOMIC, BOUNDS);
    breaks(CommitRule::CommitNamesEntry, ONCE, BOUNDS);
    breaks(CommitRule::AppliedRemembered, NOT_LOST, BOUNDS);
}

#[test]
fn of_reads() {
    let read = Commit { attempts: 1, entries: 1, failovers: 0, reads: 2, ..BOUNDS };
    breaks(CommitRule::ReadsWait, CURRENT, read);
    breaks(CommitRule::ConfirmChecksIntents, WHOLE, Commit { reads: 1, ..read });
}

#[test]
fn model_checks_each_required_property() {
    let names = [ATOMIC, ONCE, NOT_LOST, CURRENT, WHOLE, ENDS];
    let properties = BOUNDS.properties();
    assert!(names.iter().all(|name| properties.iter().any(|property| property.name == *name)));
}
