//! What a member reports of its log when the group recovers.

use super::*;

/// B with three entries in memory, of which none is durable.
fn follower(in_sync: &[u32], followers: &[u32]) -> TestNode {
    let mut b = TestNode::new(2);
    b.handle_event(ReplicaEvent::Group(view(1, 1, in_sync, followers)));
    b.entries(1, 1, (name(0, 0), 0), &[entry(1, 1), entry(1, 2), entry(1, 3)]);
    assert_eq!(b.replica.log_end().last, name(1, 3));
    b
}

#[test]
pub(super) fn follower_reports_what_is_durable_and_member_in_sync_reports_all() {
    let mut b = follower(&[], &[2]);
    assert!(b.replica.is_report_volatile(&mut b.engine).unwrap());
    assert_eq!(b.replica.reported_log_end(&mut b.engine).last, name(0, 0));
    b.engine.sync_partition(b.replica.handle()).unwrap();
    assert!(!b.replica.is_report_volatile(&mut b.engine).unwrap());
    assert_eq!(b.replica.reported_log_end(&mut b.engine).last, name(1, 3));
    // Entries that follow do not count before they are durable too.
    b.entries(1, 1, (name(1, 3), 0), &[entry(1, 4)]);
    assert_eq!(b.replica.reported_log_end(&mut b.engine).last, name(1, 3));

    let mut b = follower(&[2], &[]);
    assert_eq!(b.replica.reported_log_end(&mut b.engine).last, name(1, 3));
}

#[test]
fn log_whose_durable_part_is_not_known_is_incomplete() {
    let mut b = follower(&[], &[2]);
    b.engine.drop_partition(PartitionId(1)).unwrap();
    let end = b.replica.reported_log_end(&mut b.engine);
    assert!(!end.is_complete && !end.is_intact && end.last == name(0, 0), "{end:?}");
}
