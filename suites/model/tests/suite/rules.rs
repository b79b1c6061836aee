//! Each rule, left out, leads to something that must not happen: the model would notice.

use stateright::{Checker, HasDiscoveries, Model as _};
use suite_model::bounds::Bounds;
use suite_model::model::Model;
use suite_model::rules::Rule;

const LOST: &str = "I1: whoever answers has everything that was acknowledged";
const TWO: &str = "I4: at most one member answers";
const LOGS: &str = "logs with the same entry are the same up to it";
const COMMITS: &str = "what two members have committed is the same";
const CUT: &str = "nothing committed is cut";
const THIN: &str = "acknowledged is what enough members hold";
const GIVEN_UP: &str = "what a member has is not given up";

/// Leaves a rule out and looks until this property is seen broken.
#[expect(clippy::print_stdout, reason = "the schedule is what a reader of the test's output looks for")]
fn breaks(rule: Rule, property: &'static str, bounds: Bounds) {
    let bounds = Bounds { without: Some(rule), ..bounds };
    let until = HasDiscoveries::AnyOf([property].into());
    let checker = Model { bounds }.checker().finish_when(until).spawn_bfs().join();
    let found = checker.discovery(property);
    let path = found.unwrap_or_else(|| panic!("without {rule:?} `{property}` still holds"));
    println!("without {rule:?}, `{property}` is broken by {:?}", path.into_actions());
}

fn four() -> Bounds {
    Bounds::new(4, 1)
}

fn three() -> Bounds {
    Bounds::new(3, 1)
}

#[test]
fn of_copies() {
    breaks(Rule::AllInSyncAcknowledge, LOST, three());
    breaks(Rule::UndecidedAdmissionCounts, TWO, four().unplanned());
    breaks(Rule::UndecidedRemovalWaits, TWO, three());
    breaks(Rule::CaughtUpBeforeAdmission, LOST, four().unplanned());
    breaks(Rule::CopiesBeforeWrites, THIN, three());
    breaks(Rule::FollowersStay, TWO, three());
    breaks(Rule::CompareAndSet, TWO, Bounds { in_sync: 0, ..Bounds::new(5, 1) }.unplanned());
}

#[test]
fn of_logs() {
    breaks(Rule::OlderEpochsRefused, CUT, three());
    breaks(Rule::PrecedingMatched, LOGS, three());
    breaks(Rule::ConflictsCut, COMMITS, three());
    breaks(Rule::CommitNeedsMatch, COMMITS, three());
    breaks(Rule::HeldInThisEpoch, THIN, three().all_in_sync().unasked());
    breaks(Rule::MarkFirst, LOST, three());
    breaks(Rule::AnswersWait, LOST, three());
}

#[test]
fn of_grants() {
    breaks(Rule::LeaseBeforeAnswers, TWO, three());
    breaks(Rule::GrantsCountFromAsking, TWO, three());
    breaks(Rule::NewerGrantsWait, TWO, three());
    breaks(Rule::GrantsWaitedOut, TWO, three());
    breaks(Rule::YieldNamesEpoch, TWO, Bounds { writes: 0, ..four() }.unasked());
    breaks(Rule::UnseenEpochsStartAnew, TWO, Bounds { writes: 0, ..four() }.unasked());
    breaks(Rule::WaitsOutliveDeposition, TWO, Bounds { writes: 0, ..four() }.unasked().all_in_sync());
}

#[test]
fn of_restarts() {
    let restart = || three().unasked().unplanned().restarting(1);
    breaks(Rule::StartIsAGrant, TWO, restart().synced());
    breaks(Rule::UnseenEpochsWaitedOut, TWO, restart().synced());
    breaks(Rule::RestartedIsNobody, COMMITS, restart());
    breaks(Rule::LostDiskIsNotIntact, CUT, restart().synced());
    breaks(Rule::DurableBeforeAcknowledged, CUT, restart().synced());
    let restarts = || Bounds { verdicts: false, ..four() }.unasked().unplanned().restarting(2);
    breaks(Rule::AllTellAfterRestart, GIVEN_UP, restarts());
    breaks(Rule::RecoveringServesNobody, CUT, restarts());
}
