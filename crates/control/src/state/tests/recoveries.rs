//! Groups that recover while a member of theirs dies again.

use super::*;

/// A group that recovers: its only in-sync replica has restarted. Also this replica, and one that is up and was never in
/// sync.
fn recovering() -> (StateBench, InstanceId, InstanceId) {
    let mut bench = StateBench::new(3, INTERVAL);
    let before = bench.group();
    bench.set(before.in_sync[0], NodeState::Down);
    bench.restart(before.primary, true);
    assert_eq!(bench.group().state, GroupState::Recovering);
    (bench, before.primary, before.followers[0])
}

/// Whether a recovery waits for the next report of a member that has reported and died again.
fn waits_for_next_report() -> bool {
    let (mut bench, first, third) = recovering();
    bench.report_log(first, 7, true);
    bench.restart(first, true);
    bench.report_log(third, 3, true);
    bench.group().state == GroupState::Recovering
}

/// Whether a recovery waits for an in-sync replica that is down.
fn waits_for_dead_member() -> bool {
    let (mut bench, first, third) = recovering();
    bench.set(first, NodeState::Down);
    bench.report_log(third, 3, true);
    bench.group().state == GroupState::Recovering
}

#[test]
fn recovery_counts_only_reports_since_the_last_death() {
    let (mut bench, first, third) = recovering();
    bench.report_log(first, 7, true);
    bench.restart(first, true);
    bench.report_log(third, 3, true);
    assert_eq!(bench.group().state, GroupState::Recovering);
    bench.report_log(first, 2, true);
    assert_eq!((bench.group().primary, bench.group().state), (third, GroupState::Stable));
    assert!(waits_for_next_report() && waits_for_dead_member());
}

#[cfg(debug_assertions)]
#[test]
fn bugs_planted_in_recoveries_are_found() {
    use crate::planted::{Bug, plant};
    plant(Some(Bug::EarlierReportCounts));
    let waits_for_report = waits_for_next_report();
    plant(Some(Bug::DeadMemberPassed));
    let waits_for_dead = waits_for_dead_member();
    plant(None);
    assert!(!waits_for_report && !waits_for_dead);
}
