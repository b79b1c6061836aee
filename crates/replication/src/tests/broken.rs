//! A replica with a broken invariant, as a release build handles it.

use zerohop_partition::planted::{Bug, plant};

use super::*;
use crate::limits::{COMMIT_US, PROPOSAL_REPEAT_US, REPORT_US};

const RULE: &str = "the epoch marker is in the log";

/// The rule that is broken after this change of a primary with one in-sync replica.
fn broken_by(change: impl FnOnce(&mut Replica)) -> Option<&'static str> {
    let mut a = started_primary();
    assert_eq!(a.replica.check(), Ok(()));
    change(&mut a.replica);
    a.replica.check().err().map(|broken| broken.rule)
}

/// A, primary of a group with B in sync and C as a follower, which answers.
fn started_primary() -> TestNode {
    let mut a = TestNode::new(1);
    a.handle_event(ReplicaEvent::Group(view(1, 1, &[2], &[3])));
    a.granted_by(2);
    a.handle_event(ReplicaEvent::Tick);
    a.receive(2, 1, &acknowledge_call(0));
    a.receive(2, 1, &acknowledge_call(1));
    a.now_us += COMMIT_US;
    a.granted_by(2);
    a.handle_event(ReplicaEvent::Tick);
    a.sent_messages();
    a
}

/// Breaks an invariant with this event, which may be of any kind.
fn break_with(node: &mut TestNode, act: impl FnOnce(&mut TestNode)) {
    plant(Some(Bug::InvariantBroken));
    act(node);
    plant(None);
}

#[test]
fn each_broken_invariant_is_reported_by_name() {
    let found = broken_by(|one| one.lead.streams.clear());
    assert_eq!(found, Some("a primary has a stream for each other member"));
    assert_eq!(broken_by(|one| one.lead.epoch_marker = 99), Some(RULE));
    assert_eq!(broken_by(|one| one.role = Role::Follower), Some("only a primary sends its log"));
    let found = broken_by(|one| one.lead.streams[0].matched = 99);
    assert_eq!(found, Some("no member has entries that were not sent, or that the primary does not have"));
    assert_eq!(broken_by(|one| one.is_lone = true), Some("a lone replica is primary and has no streams"));
    let found = broken_by(|one| {
        one.is_lone = true;
        one.lead.streams.clear();
    });
    assert_eq!(found, Some("the group of a lone replica has one member"));
    let found = broken_by(|one| {
        one.role = Role::InSync;
        one.lead.streams.clear();
        one.follow.matched = Some(99);
    });
    assert_eq!(found, Some("a member has the entries that match those of its primary"));
}

#[test]
fn broken_primary_stops_and_asks_to_be_replaced() {
    let mut a = started_primary();
    // This write waits for B.
    a.write(1, b"key", b"value");
    a.handle_event(ReplicaEvent::Tick);
    assert!(a.out.answered.is_empty());
    let last = a.replica.log_end().last;
    break_with(&mut a, |a| a.handle_event(ReplicaEvent::Tick));
    assert_eq!(a.out.broken, [RULE]);
    assert_eq!(a.replica.broken().map(|broken| broken.rule), Some(RULE));
    assert_eq!(a.out.answered, [(1, false)], "it is not known to be safe");
    assert_eq!(a.out.proposals, [GroupChange::Remove(member(1))]);
    // B has the write after all, and nothing is acknowledged any more.
    a.sent_messages();
    a.receive(2, 1, &acknowledge_call(2));
    a.read(2);
    a.write(3, b"key", b"value");
    assert_eq!(a.out.answered, [(1, false), (2, false), (3, false)]);
    assert_eq!(a.replica.log_end().last, last, "its log gets no entry");
    let meta = zerohop_engine::EntryMeta {
        kind: zerohop_engine::EntryKind::Put,
        flags: 0,
        epoch: last.epoch,
        index: last.index.0 + 1,
        timestamp: 9_999,
    };
    assert!(a.engine.append(a.replica.handle(), &meta, b"key", b"value").is_err(), "an append fails");
    assert_eq!(a.sent_messages(), Vec::<String>::new());
    // The request is repeated until the group changes.
    assert_eq!(a.tick_due_us(), a.now_us + PROPOSAL_REPEAT_US);
    a.now_us += PROPOSAL_REPEAT_US;
    a.handle_event(ReplicaEvent::Tick);
    assert_eq!(a.out.proposals.len(), 2);
    // B takes over. This member neither acknowledges nor says that its log is complete.
    a.handle_event(ReplicaEvent::Group(view(2, 2, &[], &[3, 1])));
    assert_eq!(a.tick_due_us(), u64::MAX);
    a.entries(2, 2, (name(1, 2), 2), &[entry(2, 3)]);
    a.handle_event(ReplicaEvent::Flushed);
    a.handle_event(ReplicaEvent::Tick);
    assert_eq!(a.sent_messages(), Vec::<String>::new());
    a.read(4);
    assert_eq!(a.out.wrong_owner, 1);
    assert!(!a.replica.log_end().is_complete && a.replica.log_end().last == last);
    assert_eq!(a.out.broken.len(), 1, "it is reported once");
}

#[test]
fn broken_replica_leaves_the_in_sync_set() {
    let mut a = started_primary();
    break_with(&mut a, |a| a.handle_event(ReplicaEvent::Tick));
    a.sent_messages();
    // By another change of the group it is in sync, and not primary.
    a.handle_event(ReplicaEvent::Group(view(2, 2, &[1], &[3])));
    let report = format!("{:?}", FollowerReport::NeedsState);
    assert_eq!(a.sent_messages(), [report.as_str()]);
    a.entries(2, 2, (name(1, 1), 1), &[entry(2, 2)]);
    assert_eq!(a.sent_messages(), Vec::<String>::new(), "not again at once");
    a.now_us += REPORT_US;
    a.handle_event(ReplicaEvent::Tick);
    assert_eq!(a.sent_messages(), [report.as_str()]);
    // The primary requests the removal of such a member.
    let mut b = TestNode::new(2);
    b.handle_event(ReplicaEvent::Group(view(2, 2, &[1], &[3])));
    b.granted_by(1);
    b.handle_event(ReplicaEvent::Tick);
    b.receive(1, 2, &PeerBody::ReplicateAck(FollowerReport::NeedsState));
    b.handle_event(ReplicaEvent::Tick);
    assert_eq!(b.out.proposals, [GroupChange::Remove(member(1))]);
}

#[test]
fn broken_log_stops_its_replica() {
    let mut a = started_primary();
    let broken = zerohop_base::invariant::BrokenInvariant { owner: "a log", rule: "it is in order" };
    let TestNode { engine, replica, leases, out, now_us, now_ms, .. } = &mut a;
    let now = ClockSample { ms: *now_ms, elapsed_ms: *now_us / 1_000 };
    let mut context = Context { engine, now, now_us: *now_us, leases, map: MapView::NONE };
    replica.stop_broken(&mut context, broken, out);
    assert_eq!((a.out.broken.clone(), a.replica.broken()), (vec![broken.rule], Some(broken)));
    a.write(1, b"key", b"value");
    assert_eq!(a.out.answered, [(1, false)]);
}
