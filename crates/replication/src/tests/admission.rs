//! Under interval durability an admitted member may soon be the only copy, so it must have flushed the entries that the others
//! have.

use super::*;

fn acknowledge_call(matched: u64, durable: u64) -> PeerBody<'static> {
    let (matched, durable) = (LogIndex(matched), LogIndex(durable));
    PeerBody::ReplicateAck(FollowerReport::Acknowledged { matched, durable, applied: LogIndex(0) })
}

/// A, alone, with one write. A move starts, and the follower is reachable.
fn lone_primary_to_admit() -> (TestNode, u64) {
    let mut a = TestNode::new(1);
    a.handle_event(ReplicaEvent::Group(view(1, 1, &[], &[2])));
    a.now_us += LEASE_WAIT_US;
    a.leases.synced(TIMESTAMP_BOUND);
    a.handle_event(ReplicaEvent::Tick);
    a.write(1, b"key", b"value");
    a.handle_event(ReplicaEvent::AdmissionRequested(member(2)));
    a.granted_by(2);
    let last = a.replica.log_end().last.index.0;
    (a, last)
}

#[test]
fn follower_is_admitted_after_flush_of_log_at_catch_up() {
    let (mut a, last) = lone_primary_to_admit();
    a.receive(2, 1, &acknowledge_call(last, 0));
    a.handle_event(ReplicaEvent::Tick);
    assert!(a.out.proposals.is_empty(), "it would lose all that was flushed here long ago");
    // The follower need not have flushed later entries: its own interval counts from their arrival.
    a.write(2, b"key", b"other");
    a.handle_event(ReplicaEvent::Tick);
    a.receive(2, 1, &acknowledge_call(last + 1, last));
    a.handle_event(ReplicaEvent::Tick);
    assert_eq!(a.out.proposals, [GroupChange::Admit(member(2))]);
}

#[test]
fn follower_that_fell_behind_must_flush_again() {
    let (mut a, last) = lone_primary_to_admit();
    a.receive(2, 1, &acknowledge_call(last, 0));
    a.write(2, b"key", b"other");
    for _ in 0..10 {
        a.now_us += KEEPING_UP_US / 4;
        a.granted_by(2);
        a.handle_event(ReplicaEvent::Tick);
    }
    a.receive(2, 1, &acknowledge_call(last + 1, last));
    a.handle_event(ReplicaEvent::Tick);
    assert!(a.out.proposals.is_empty(), "what came late is older than its interval tells");
    a.receive(2, 1, &acknowledge_call(last + 1, last + 1));
    a.handle_event(ReplicaEvent::Tick);
    assert_eq!(a.out.proposals, [GroupChange::Admit(member(2))]);
}

#[test]
fn follower_reports_flushed_entries() {
    let mut b = TestNode::new(2);
    b.handle_event(ReplicaEvent::Group(view(1, 1, &[], &[2])));
    b.entries(1, 1, (name(0, 0), 2), &[entry(1, 1), entry(1, 2)]);
    let report = |durable| {
        let (matched, durable, applied) = (LogIndex(2), LogIndex(durable), LogIndex(2));
        format!("{:?}", FollowerReport::Acknowledged { matched, durable, applied })
    };
    assert_eq!(b.sent_messages(), [report(0)]);
    b.handle_event(ReplicaEvent::Tick);
    assert!(b.sent_messages().is_empty(), "nothing is flushed yet");
    for ms in (0..20).map(|at| at * 20) {
        b.engine.maintain(ms).expect("goes on");
    }
    let mut context = Context {
        engine: &mut b.engine,
        now: ClockSample::at_ms(5_000),
        now_us: b.now_us,
        leases: &b.leases,
        map: MapView::NONE,
    };
    assert!(b.replica.next_tick_us(&mut context) < u64::MAX, "it wakes for it by itself");
    b.handle_event(ReplicaEvent::Tick);
    assert_eq!(b.sent_messages(), [report(2)]);
    b.handle_event(ReplicaEvent::Tick);
    assert!(b.sent_messages().is_empty(), "once");
}

#[test]
fn lost_flush_report_is_requested_again() {
    let (mut a, last) = lone_primary_to_admit();
    let holds_all = |durable| {
        let (matched, durable, applied) = (LogIndex(last), LogIndex(durable), LogIndex(last));
        PeerBody::ReplicateAck(FollowerReport::Acknowledged { matched, durable, applied })
    };
    let beats = |a: &mut TestNode| {
        a.out.sent.clear();
        for _ in 0..8 {
            a.now_us += IDLE_US / 4;
            a.granted_by(2);
            a.handle_event(ReplicaEvent::Tick);
        }
        a.sent_messages().into_iter().filter(|sent| sent.ends_with(": 0")).count()
    };
    a.receive(2, 1, &holds_all(0));
    a.handle_event(ReplicaEvent::Tick);
    assert!((1..=3).contains(&beats(&mut a)), "its answer tells what it has flushed");
    a.receive(2, 1, &holds_all(last));
    a.handle_event(ReplicaEvent::Tick);
    assert_eq!(a.out.proposals, [GroupChange::Admit(member(2))]);
    assert_eq!(beats(&mut a), 0, "an idle partition costs nothing");
}

#[test]
fn follower_on_a_down_node_is_not_proposed() {
    let (mut a, last) = lone_primary_to_admit();
    a.handle_event(ReplicaEvent::Group(GroupView { min_in_sync: 2, ..view(2, 1, &[], &[2, 3]) }));
    a.leases.set_absent([InstanceId(2)]);
    for other in [2, 3] {
        a.granted_by(other);
    }
    a.receive(2, 2, &acknowledge_call(last, last));
    a.handle_event(ReplicaEvent::Tick);
    assert!(a.out.proposals.is_empty(), "it ends in order, and the control group would refuse it");
    a.receive(3, 2, &acknowledge_call(last, last));
    a.handle_event(ReplicaEvent::Tick);
    assert_eq!(a.out.proposals, [GroupChange::Admit(member(3))]);
}
