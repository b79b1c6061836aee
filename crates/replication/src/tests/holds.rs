//! A record that a primary has read-locked is not changed by another primary.

use super::*;
use crate::limits::LEASE_US;
use zerohop_partition::limits::{HOLD_MS, HOLD_QUIET_MS};

/// A primary of two members that has its lease, with a record that was not changed recently.
fn primary() -> TestNode {
    let mut node = TestNode::new(1);
    node.replica.set_slice(zerohop_partition::Slice::whole());
    node.tell(ReplicaEvent::Group(view(1, 1, &[2], &[])));
    node.now_us += LEASE_WAIT_US;
    node.granted_by(2);
    node.tell(ReplicaEvent::Tick);
    node.hear(2, 1, &holds(1));
    node.write(1, b"key", b"value");
    node.hear(2, 1, &holds(2));
    assert_eq!(node.out.answered, [(1, true)]);
    node.now_ms += HOLD_QUIET_MS;
    node
}

fn hold(node: &mut TestNode) -> u32 {
    let read = RecordRead { key: b"key", query: Query::Lookup };
    let message = Message::Read { seen: Timestamp::ZERO, read };
    node.leases.synced(CEILING);
    let (token, envelope) = (Token::default(), Envelope { hold: true, ..Envelope::default() });
    node.out.held_us = 0;
    node.tell(ReplicaEvent::Request(RecordRequest { token, envelope, message: &message }));
    node.out.held_us
}

#[test]
fn nothing_is_held_beyond_the_lease() {
    let mut node = primary();
    let until_us = node.now_us + LEASE_US;
    assert!(hold(&mut node) > 0);
    node.now_us = until_us - HOLD_MS * 1_000 - 1;
    assert!(hold(&mut node) > 0);
    node.now_us = until_us - HOLD_MS * 1_000;
    assert_eq!(hold(&mut node), 0);
    assert_eq!(node.out.answered.last(), Some(&(0, true)), "it is read all the same");
}

#[test]
pub(super) fn who_is_deposed_yields_once_what_it_has_held_may_be_changed() {
    let mut node = primary();
    assert!(hold(&mut node) > 0);
    node.out.sent.clear();
    node.tell(ReplicaEvent::Group(view(2, 2, &[1], &[])));
    node.tell(ReplicaEvent::Tick);
    assert_eq!(node.said(), [""; 0]);
    let wake_us = node.wake_us();
    assert!(wake_us <= node.now_us + HOLD_MS * 1_000 + 1_000, "nothing else would wake it");
    node.now_us = wake_us;
    node.tell(ReplicaEvent::Tick);
    assert_eq!(node.said(), ["Yield"]);
    node.tell(ReplicaEvent::Tick);
    assert_eq!(node.said(), [""; 0], "once");

    // A primary that has granted no read lock yields at once.
    let mut node = primary();
    node.out.sent.clear();
    node.tell(ReplicaEvent::Group(view(2, 2, &[1], &[])));
    assert_eq!(node.said(), ["Yield"]);
}

#[test]
fn who_is_primary_again_before_its_holds_have_lapsed_changes_nothing() {
    let mut node = primary();
    assert!(hold(&mut node) > 0);
    node.tell(ReplicaEvent::Group(view(2, 2, &[1], &[])));
    node.hear(2, 3, &Call::Yield);
    node.tell(ReplicaEvent::Group(view(3, 1, &[2], &[])));
    // Beyond the timestamp bound at which it starts.
    let (ceiling, map_epoch) = (Timestamp::from_millis(1 << 41), node.leases.map_epoch());
    node.now_us += 1_000;
    node.leases.synced(ceiling);
    let grant = Call::LeaseGrant { sent_us: node.now_us, map_epoch, ceiling };
    node.leases.take(node.now_us, member(2), &grant);
    node.tell(ReplicaEvent::Tick);
    node.hear(2, 3, &holds(3));
    node.out.answered.clear();
    node.write(2, b"key", b"other");
    assert_eq!(node.out.answered, [(2, false)], "the client must retry");
    node.now_us += HOLD_MS * 1_000;
    node.granted_by(2);
    node.write(3, b"key", b"other");
    node.hear(2, 3, &holds(4));
    assert_eq!(node.out.answered, [(2, false), (3, true)]);
}
