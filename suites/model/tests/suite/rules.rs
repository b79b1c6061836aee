//! Each rule, left out, leads to something that must not happen: the model would notice.

use stateright::{Checker, HasDiscoveries, Model as _};
use suite_model::bounds::Bounds;
use suite_model::model::Model;
use suite_model::rules::ReplicationRule;

const LOST: &str = "I1: a member that answers has everything that was acknowledged";
const TWO: &str = "I4: at most one member answers";
const LOGS: &str = "logs with the same entry are the same up to it";
const COMMITS: &str = "what two members have committed is the same";
const CUT: &str = "nothing committed is cut";
const THIN: &str = "acknowledged is what enough members hold";
const GIVEN_UP: &str = "what a member has is not given up";

/// Leaves a rule out and looks until this property is seen broken.
#[expect(clippy::print_stdout, reason = "the schedule is what a reader of the test's output looks for")]
fn breaks(rule: ReplicationRule, property: &'static str, bounds: Bounds) {
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
    breaks(ReplicationRule::AllInSyncAcknowledge, LOST, three());
    breaks(ReplicationRule::UndecidedAdmissionCounts, TWO, four().unplanned());
    breaks(ReplicationRule::UndecidedRemovalWaits, TWO, three());
    breaks(ReplicationRule::CaughtUpBeforeAdmission, LOST, four().unplanned());
    breaks(ReplicationRule::CopiesBeforeWrites, THIN, three());
    breaks(ReplicationRule::FollowersStay, TWO, three());
    breaks(ReplicationRule::CompareAndSet, TWO, Bounds { in_sync: 0, ..Bounds::new(5, 1) }.unplanned());
}

#[test]
fn of_logs() {
    breaks(ReplicationRule::OlderEpochsRefused, CUT, three());
    breaks(ReplicationRule::PrecedingMatched, LOGS, three());
    breaks(ReplicationRule::ConflictsCut, COMMITS, three());
    breaks(ReplicationRule::CommitNeedsMatch, COMMITS, three());
    breaks(ReplicationRule::AcknowledgedInThisEpoch, THIN, three().all_in_sync().without_proposals());
    breaks(ReplicationRule::MarkFirst, LOST, three());
    breaks(ReplicationRule::AnswersWait, LOST, three());
}

#[test]
fn of_grants() {
    breaks(ReplicationRule::LeaseBeforeAnswers, TWO, three());
    breaks(ReplicationRule::GrantsCountFromRequest, TWO, three());
    breaks(ReplicationRule::NewerGrantsWait, TWO, three());
    breaks(ReplicationRule::GrantsWaitedOut, TWO, three());
    breaks(ReplicationRule::YieldNamesEpoch, TWO, Bounds { writes: 0, ..four() }.without_proposals());
    breaks(ReplicationRule::UnseenEpochsStartAgain, TWO, Bounds { writes: 0, ..four() }.without_proposals());
    breaks(
        ReplicationRule::WaitsOutliveDeposition,
        TWO,
        Bounds { writes: 0, ..four() }.without_proposals().all_in_sync(),
    );
}

#[test]
fn of_restarts() {
    let restart = || three().without_proposals().unplanned().restarting(1);
    breaks(ReplicationRule::StartIsAGrant, TWO, restart().synced());
    breaks(ReplicationRule::UnseenEpochsWaitedOut, TWO, restart().synced());
    breaks(ReplicationRule::RestartedIsNoMember, COMMITS, restart());
    breaks(ReplicationRule::LostDiskIsNotIntact, CUT, restart().synced());
    breaks(ReplicationRule::DurableBeforeAcknowledged, CUT, restart().synced());
    let restarts = || Bounds { verdicts: false, ..four() }.without_proposals().unplanned().restarting(2);
    breaks(ReplicationRule::AllReportAfterRestart, GIVEN_UP, restarts());
    breaks(ReplicationRule::RecoveringDoesNotServe, CUT, restarts());
}
