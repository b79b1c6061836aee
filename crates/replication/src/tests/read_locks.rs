//! A record that a primary has read-locked is not changed by another primary.

use super::*;
use crate::limits::LEASE_US;
use zerohop_partition::limits::{READ_LOCK_MS, READ_LOCK_QUIET_MS};

/// A primary of two members that has its lease, with a record that was not changed recently.
fn primary() -> TestNode {
    let mut node = TestNode::new(1);
    node.replica.set_hash_range(zerohop_partition::HashRange::whole());
    node.handle_event(ReplicaEvent::Group(view(1, 1, &[2], &[])));
    node.now_us += LEASE_WAIT_US;
    node.granted_by(2);
    node.handle_event(ReplicaEvent::Tick);
    node.receive(2, 1, &acknowledge_call(1));
    node.write(1, b"key", b"value");
    node.receive(2, 1, &acknowledge_call(2));
    assert_eq!(node.out.answered, [(1, true)]);
    node.now_ms += READ_LOCK_QUIET_MS;
    node
}

fn read_with_lock(node: &mut TestNode) -> u32 {
    let read = RecordRead { key: b"key", query: Query::Lookup };
    let message = Message::Read { seen: Timestamp::ZERO, read };
    node.leases.synced(TIMESTAMP_BOUND);
    let (token, envelope) = (Token::default(), Envelope { read_lock: true, ..Envelope::default() });
    node.out.read_lock_us = 0;
    node.handle_event(ReplicaEvent::Request(RecordRequest { token, envelope, message: &message }));
    node.out.read_lock_us
}

#[test]
fn read_lock_does_not_outlast_the_lease() {
    let mut node = primary();
    let until_us = node.now_us + LEASE_US;
    assert!(read_with_lock(&mut node) > 0);
    node.now_us = until_us - READ_LOCK_MS * 1_000 - 1;
    assert!(read_with_lock(&mut node) > 0);
    node.now_us = until_us - READ_LOCK_MS * 1_000;
    assert_eq!(read_with_lock(&mut node), 0);
    assert_eq!(node.out.answered.last(), Some(&(0, true)), "it is read all the same");
}

#[test]
pub(super) fn deposed_primary_yields_after_its_read_locks() {
    let mut node = primary();
    assert!(read_with_lock(&mut node) > 0);
    node.out.sent.clear();
    node.handle_event(ReplicaEvent::Group(view(2, 2, &[1], &[])));
    node.handle_event(ReplicaEvent::Tick);
    assert_eq!(node.sent_messages(), [""; 0]);
    let wake_us = node.tick_due_us();
    assert!(wake_us <= node.now_us + READ_LOCK_MS * 1_000 + 1_000, "nothing else would wake it");
    node.now_us = wake_us;
    node.handle_event(ReplicaEvent::Tick);
    assert_eq!(node.sent_messages(), ["Yield"]);
    node.handle_event(ReplicaEvent::Tick);
    assert_eq!(node.sent_messages(), [""; 0], "once");

    // A primary that has granted no read lock yields at once.
    let mut node = primary();
    node.out.sent.clear();
    node.handle_event(ReplicaEvent::Group(view(2, 2, &[1], &[])));
    assert_eq!(node.sent_messages(), ["Yield"]);
}

#[test]
fn repromoted_primary_respects_its_read_locks() {
    let mut node = primary();
    assert!(read_with_lock(&mut node) > 0);
    node.handle_event(ReplicaEvent::Group(view(2, 2, &[1], &[])));
    node.receive(2, 3, &PeerBody::Yield);
    node.handle_event(ReplicaEvent::Group(view(3, 1, &[2], &[])));
    // Beyond the timestamp bound at which it starts.
    let (timestamp_bound, map_epoch) = (Timestamp::from_millis(1 << 41), node.leases.map_epoch());
    node.now_us += 1_000;
    node.leases.synced(timestamp_bound);
    let grant = PeerBody::LeaseGrant { sent_us: node.now_us, map_epoch, timestamp_bound };
    node.leases.handle_message(node.now_us, member(2), &grant);
    node.handle_event(ReplicaEvent::Tick);
    node.receive(2, 3, &acknowledge_call(3));
    node.out.answered.clear();
    node.write(2, b"key", b"other");
    assert_eq!(node.out.answered, [(2, false)], "the client must retry");
    node.now_us += READ_LOCK_MS * 1_000;
    node.granted_by(2);
    node.write(3, b"key", b"other");
    node.receive(2, 3, &acknowledge_call(4));
    assert_eq!(node.out.answered, [(2, false), (3, true)]);
}
