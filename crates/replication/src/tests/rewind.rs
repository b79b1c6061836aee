//! Entries that arrive out of order cause one report each. The primary sends its window again once for all of them.

use super::*;
use crate::limits::{RESEND_US, REWIND_US, WINDOW_ENTRIES, WINDOW_ENTRIES_MIN};

/// A, which has started, with B in sync, and this many entries under way to B; B has the first one.
fn primary_with_entries(count: u64) -> TestNode {
    let mut a = TestNode::new(1);
    a.handle_event(ReplicaEvent::Group(view(1, 1, &[2], &[])));
    a.now_us = 1_000_000;
    a.granted_by(2);
    a.handle_event(ReplicaEvent::Tick);
    a.receive(2, 1, &acknowledge_call(1));
    for request in 0..count {
        a.write(request, b"key", b"value");
    }
    a.handle_event(ReplicaEvent::Tick);
    assert_eq!(sent_entries(&mut a), count as usize);
    a
}

/// The number of sent entries since the last check.
fn sent_entries(a: &mut TestNode) -> usize {
    let mut found = 0;
    a.each_sent(|body| {
        if let PeerBody::Replicate { entries, .. } = body {
            found += entries.len();
        }
    });
    a.out.sent.clear();
    found
}

fn differs(a: &mut TestNode, index: u64) -> usize {
    a.receive(2, 1, &PeerBody::ReplicateAck(FollowerReport::Differs { at: name(1, index) }));
    sent_entries(a)
}

#[test]
fn reports_of_one_position_cause_one_resend() {
    let mut a = primary_with_entries(10);
    assert_eq!(differs(&mut a, 3), 8);
    // Reports of the entries that were under way before arrive during the round trip.
    for _ in 0..10 {
        a.now_us += REWIND_US;
        assert_eq!(differs(&mut a, 3), 0);
    }
    // The entries that were sent again arrived in part only: a report of another position.
    assert_eq!(differs(&mut a, 5), 6);
    a.now_us += RESEND_US;
    assert_eq!(differs(&mut a, 5), 6, "the entries sent again were lost");
}

#[test]
fn entries_in_flight_become_fewer_with_each_step_back_and_more_with_each_acknowledgement() {
    crate::message_limit::set_message_entries(Some(1));
    let mut a = primary_with_entries(3_000);
    let mut sent = Vec::new();
    for index in 2..12 {
        a.now_us += REWIND_US;
        sent.push(differs(&mut a, index) as u64);
    }
    // Each report says that one more entry has arrived.
    assert_eq!(sent[..3], [2, 4, 8].map(|part| WINDOW_ENTRIES / part + 1));
    assert_eq!(sent.last(), Some(&(WINDOW_ENTRIES_MIN + 1)));
    a.receive(2, 1, &acknowledge_call(11 + WINDOW_ENTRIES_MIN));
    let more = sent_entries(&mut a) as u64;
    crate::message_limit::set_message_entries(None);
    assert_eq!(more, 2 * WINDOW_ENTRIES_MIN);
}

#[test]
fn late_report_does_not_step_back_behind_what_the_member_has_matched() {
    let mut a = primary_with_entries(10);
    a.receive(2, 1, &acknowledge_call(6));
    a.out.sent.clear();
    // B had entries of an epoch before, and reported them before it got the first six of this one.
    a.receive(2, 1, &PeerBody::ReplicateAck(FollowerReport::Differs { at: name(0, 8) }));
    let mut probes = Vec::new();
    a.each_sent(|body| {
        if let PeerBody::Replicate { preceding, .. } = body {
            probes.push(*preceding);
        }
    });
    assert_eq!(probes, [name(1, 6)]);
    a.replica.check().unwrap();
}
