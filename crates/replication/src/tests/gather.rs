//! Entries for a follower that no request waits for are sent together and late. For a follower that is to be admitted they are
//! sent at once.

use super::*;
use crate::limits::{COALESCE_ENTRIES_MAX, COALESCE_US};

/// A, which has started, with B in sync and C following; C has the complete log.
fn primary() -> TestNode {
    let mut a = TestNode::new(1);
    a.handle_event(ReplicaEvent::Group(view(1, 1, &[2], &[3])));
    // A time that all partitions of an instance share.
    a.now_us = 1_000 * COALESCE_US;
    [2, 3].into_iter().for_each(|other| a.granted_by(other));
    a.handle_event(ReplicaEvent::Tick);
    for other in [2, 3] {
        a.receive(other, 1, &acknowledge_call(0));
        a.receive(other, 1, &acknowledge_call(1));
    }
    a.now_us += COALESCE_US;
    a.handle_event(ReplicaEvent::Tick);
    a.receive(3, 1, &acknowledge_call(1));
    a.sent_messages();
    a
}

/// The number of entries in each message to this member since the last check.
fn entries_to(a: &mut TestNode, to: u32) -> Vec<usize> {
    let (of_it, others) =
        std::mem::take(&mut a.out.sent).into_iter().partition(|(one, ..)| *one == member(to));
    a.out.sent = of_it;
    let mut found = Vec::new();
    a.each_sent(|body| {
        if let PeerBody::Replicate { entries, .. } = body {
            found.push(entries.len());
        }
    });
    a.out.sent = others;
    found
}

fn tick_due_us(a: &mut TestNode) -> u64 {
    let mut context = Context {
        engine: &mut a.engine,
        now: ClockSample::at_ms(5_000),
        now_us: a.now_us,
        leases: &a.leases,
        map: MapView::NONE,
    };
    a.replica.next_tick_us(&mut context)
}

#[test]
fn follower_gets_entries_coalesced_and_in_sync_replica_at_once() {
    let mut a = primary();
    for (request, passed_us) in [(1, 1_000), (2, 4_000), (3, 9_000)] {
        a.now_us += passed_us;
        a.write(request, b"key", b"value");
        a.handle_event(ReplicaEvent::Tick);
    }
    assert_eq!(entries_to(&mut a, 2), [1, 1, 1]);
    assert_eq!(entries_to(&mut a, 3), [0; 0], "other partitions may have entries for it too");
    // At the next such time, whenever the first of the entries was appended.
    let due_us = 1_002 * COALESCE_US;
    assert_eq!(tick_due_us(&mut a), due_us, "it wakes for it by itself");
    a.now_us = due_us;
    a.handle_event(ReplicaEvent::Tick);
    assert_eq!(entries_to(&mut a, 3), [3]);
    a.now_us += COALESCE_US;
    a.handle_event(ReplicaEvent::Tick);
    assert_eq!(entries_to(&mut a, 3), [0; 0], "once");
}

#[test]
fn many_entries_are_sent_without_waiting_for_more() {
    let mut a = primary();
    for request in 0..=COALESCE_ENTRIES_MAX {
        a.write(request, b"key", b"value");
    }
    a.handle_event(ReplicaEvent::Tick);
    assert_eq!(entries_to(&mut a, 3), [COALESCE_ENTRIES_MAX as usize + 1]);
}

#[test]
fn follower_to_be_admitted_gets_entries_at_once() {
    // The target of a move.
    let mut a = primary();
    a.handle_event(ReplicaEvent::AdmissionRequested(member(3)));
    a.handle_event(ReplicaEvent::Tick);
    a.write(1, b"key", b"value");
    a.handle_event(ReplicaEvent::Tick);
    assert_eq!(entries_to(&mut a, 3), [1]);
    // A follower that can replace missing copies.
    let mut a = primary();
    a.write(1, b"key", b"value");
    a.handle_event(ReplicaEvent::Tick);
    assert_eq!(entries_to(&mut a, 3), [0; 0]);
    a.handle_event(ReplicaEvent::Group(GroupView { min_in_sync: 2, ..view(2, 1, &[], &[3]) }));
    a.sent_messages();
    a.receive(3, 2, &PeerBody::ReplicateAck(FollowerReport::Differs { at: name(1, 1) }));
    assert_eq!(entries_to(&mut a, 3), [1]);
}
