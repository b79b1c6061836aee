//! Under interval durability an admitted member may soon be the only copy, so it must have flushed the entries that the others
//! have.

use super::*;

fn holds_of(matched: u64, durable: u64) -> Call<'static> {
    let (matched, durable) = (LogIndex(matched), LogIndex(durable));
    Call::ReplicateAck(FollowerReport::Holds { matched, durable, applied: LogIndex(0) })
}

/// A, alone, with one write. A move starts, and the follower is reachable.
fn primary_alone_that_is_to_admit() -> (TestNode, u64) {
    let mut a = TestNode::new(1);
    a.tell(ReplicaEvent::Group(view(1, 1, &[], &[2])));
    a.now_us += LEASE_WAIT_US;
    a.leases.synced(CEILING);
    a.tell(ReplicaEvent::Tick);
    a.write(1, b"key", b"value");
    a.tell(ReplicaEvent::Asked(member(2)));
    a.granted_by(2);
    let last = a.replica.log_end().last.index.0;
    (a, last)
}

#[test]
fn a_follower_is_admitted_once_it_has_flushed_what_the_log_had_when_it_had_caught_up() {
    let (mut a, last) = primary_alone_that_is_to_admit();
    a.hear(2, 1, &holds_of(last, 0));
    a.tell(ReplicaEvent::Tick);
    assert!(a.out.asked.is_empty(), "it would lose all that was flushed here long ago");
    // The follower need not have flushed later entries: its own interval counts from their arrival.
    a.write(2, b"key", b"other");
    a.tell(ReplicaEvent::Tick);
    a.hear(2, 1, &holds_of(last + 1, last));
    a.tell(ReplicaEvent::Tick);
    assert_eq!(a.out.asked, [GroupChange::Admit(member(2))]);
}

#[test]
fn a_follower_that_fell_behind_meanwhile_must_flush_again() {
    let (mut a, last) = primary_alone_that_is_to_admit();
    a.hear(2, 1, &holds_of(last, 0));
    a.write(2, b"key", b"other");
    for _ in 0..10 {
        a.now_us += KEEPS_UP_US / 4;
        a.granted_by(2);
        a.tell(ReplicaEvent::Tick);
    }
    a.hear(2, 1, &holds_of(last + 1, last));
    a.tell(ReplicaEvent::Tick);
    assert!(a.out.asked.is_empty(), "what came late is older than its interval tells");
    a.hear(2, 1, &holds_of(last + 1, last + 1));
    a.tell(ReplicaEvent::Tick);
    assert_eq!(a.out.asked, [GroupChange::Admit(member(2))]);
}

#[test]
fn a_follower_says_when_it_has_flushed_what_it_was_sent() {
    let mut b = TestNode::new(2);
    b.tell(ReplicaEvent::Group(view(1, 1, &[], &[2])));
    b.entries(1, 1, (name(0, 0), 2), &[entry(1, 1), entry(1, 2)]);
    let told = |durable| {
        let (matched, durable, applied) = (LogIndex(2), LogIndex(durable), LogIndex(2));
        format!("{:?}", FollowerReport::Holds { matched, durable, applied })
    };
    assert_eq!(b.said(), [told(0)]);
    b.tell(ReplicaEvent::Tick);
    assert!(b.said().is_empty(), "nothing is flushed yet");
    for ms in (0..20).map(|at| at * 20) {
        b.engine.maintain(ms).expect("goes on");
    }
    let mut context = Context {
        engine: &mut b.engine,
        now: Now::at_ms(5_000),
        now_us: b.now_us,
        leases: &b.leases,
        map: MapView::NONE,
    };
    assert!(b.replica.next_wake_us(&mut context) < u64::MAX, "it wakes for it by itself");
    b.tell(ReplicaEvent::Tick);
    assert_eq!(b.said(), [told(2)]);
    b.tell(ReplicaEvent::Tick);
    assert!(b.said().is_empty(), "once");
}

#[test]
fn a_follower_whose_word_that_it_has_flushed_was_lost_is_asked_again() {
    let (mut a, last) = primary_alone_that_is_to_admit();
    let holds_all = |durable| {
        let (matched, durable, applied) = (LogIndex(last), LogIndex(durable), LogIndex(last));
        Call::ReplicateAck(FollowerReport::Holds { matched, durable, applied })
    };
    let beats = |a: &mut TestNode| {
        a.out.sent.clear();
        for _ in 0..8 {
            a.now_us += IDLE_US / 4;
            a.granted_by(2);
            a.tell(ReplicaEvent::Tick);
        }
        a.said().into_iter().filter(|said| said.ends_with(": 0")).count()
    };
    a.hear(2, 1, &holds_all(0));
    a.tell(ReplicaEvent::Tick);
    assert!((1..=3).contains(&beats(&mut a)), "its answer tells what it has flushed");
    a.hear(2, 1, &holds_all(last));
    a.tell(ReplicaEvent::Tick);
    assert_eq!(a.out.asked, [GroupChange::Admit(member(2))]);
    assert_eq!(beats(&mut a), 0, "an idle partition costs nothing");
}

#[test]
fn nobody_asks_for_a_follower_whose_node_is_down_though_it_answers() {
    let (mut a, last) = primary_alone_that_is_to_admit();
    a.tell(ReplicaEvent::Group(GroupView { min_in_sync: 2, ..view(2, 1, &[], &[2, 3]) }));
    a.leases.set_absent([InstanceId(2)]);
    for other in [2, 3] {
        a.granted_by(other);
    }
    a.hear(2, 2, &holds_of(last, last));
    a.tell(ReplicaEvent::Tick);
    assert!(a.out.asked.is_empty(), "it ends in order, and the control group would refuse it");
    a.hear(3, 2, &holds_of(last, last));
    a.tell(ReplicaEvent::Tick);
    assert_eq!(a.out.asked, [GroupChange::Admit(member(3))]);
}
