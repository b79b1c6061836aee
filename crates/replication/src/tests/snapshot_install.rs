//! A snapshot install for a member that the log cannot bring up to date.

use zerohop_engine::{EntryKind, EntryMeta};
use zerohop_placement::ChangeHistory;

use super::*;
use crate::limits::COALESCE_US;
use zerohop_partition::FILLER;

/// Adds fillers up to a log index, as members before the first release did for entries that a snapshot lacked.
fn append_fillers(node: &mut TestNode, through: u64) {
    let mut payload = Vec::new();
    payload.extend_from_slice(FILLER);
    for index in node.replica.last() + 1..=through {
        let meta = EntryMeta { kind: EntryKind::Mark, flags: 0, epoch: 1, index, timestamp: 0 };
        node.replica.partition.receive(&mut node.engine, &meta, &[], &payload).expect("is accepted");
    }
}

/// A installed a snapshot from B, with fillers for entries that B no longer had. C comes with an empty log. The fillers in A's
/// log contain no entries, so C would lack the sessions and deadlines of those entries.
#[test]
fn fillers_are_never_sent_as_real_entries() {
    let mut node = TestNode::new(1);
    append_fillers(&mut node, 3);
    node.handle_event(ReplicaEvent::Group(view(2, 1, &[], &[3])));
    node.granted_by(3);
    node.handle_event(ReplicaEvent::Tick);
    node.sent_messages();
    node.receive(3, 2, &PeerBody::ReplicateAck(FollowerReport::Differs { at: name(0, 0) }));
    node.now_us += COALESCE_US;
    node.handle_event(ReplicaEvent::Tick);
    node.handle_event(ReplicaEvent::Tick);
    let sent = node.sent_messages();
    assert!(sent.iter().any(|one| one.starts_with("StatePart")), "{sent:?}");
    assert!(!sent.iter().any(|one| one.starts_with("after 0")), "{sent:?}");
}

/// A, alone, with a log of several segments, and B, which has no data and has reported that.
fn primary_and_newcomer() -> (TestNode, TestNode) {
    primary_with_records(300)
}

/// The same with this many records of 1,000 bytes.
fn primary_with_records(records: u64) -> (TestNode, TestNode) {
    primary_with_history(records, ChangeHistory::NONE)
}

/// The same in a keyspace with this history.
fn primary_with_history(records: u64, history: ChangeHistory) -> (TestNode, TestNode) {
    let mut a = TestNode::new(1);
    a.replica.begin_history(history);
    a.handle_event(ReplicaEvent::Group(view(1, 1, &[], &[2])));
    a.now_us += LEASE_WAIT_US;
    a.leases.synced(TIMESTAMP_BOUND);
    a.handle_event(ReplicaEvent::Tick);
    for number in 0..records {
        a.write(number, format!("key {number}").as_bytes(), &[number as u8; 1000]);
    }
    a.granted_by(2);
    a.handle_event(ReplicaEvent::Tick);
    a.out.sent.clear();
    let mut b = TestNode::new(2);
    b.replica.begin_history(history);
    b.handle_event(ReplicaEvent::Group(view(1, 1, &[], &[2])));
    a.receive(2, 1, &PeerBody::ReplicateAck(FollowerReport::Differs { at: name(0, 0) }));
    a.handle_event(ReplicaEvent::Tick);
    (a, b)
}

/// The messages that a node has sent since the last check.
fn frames(node: &mut TestNode) -> Vec<Vec<u8>> {
    std::mem::take(&mut node.out.sent).into_iter().map(|(_, _, frame)| frame).collect()
}

fn deliver(frame: &[u8], from: u32, to: &mut TestNode) {
    let decoder = Decoder::with_version(zerohop_wire::GREETING_VERSION, Features::default());
    let DecodeResult::Frame { frame, .. } = decoder.decode(frame) else { panic!("a frame") };
    let mut scratch = Vec::new();
    let Ok(Message::Peer(PeerMessage { body, .. })) = frame.message(&mut scratch) else {
        panic!("of a peer")
    };
    to.receive(from, 1, &body);
}

/// Those messages of a node that are parts of a snapshot.
fn parts(node: &mut TestNode) -> Vec<Vec<u8>> {
    let decoder = Decoder::with_version(zerohop_wire::GREETING_VERSION, Features::default());
    let is_part = |frame: &Vec<u8>| {
        let DecodeResult::Frame { frame, .. } = decoder.decode(frame) else { panic!("a frame") };
        let mut scratch = Vec::new();
        let message = frame.message(&mut scratch);
        matches!(message, Ok(Message::Peer(PeerMessage { body: PeerBody::StatePart { .. }, .. })))
    };
    frames(node).into_iter().filter(is_part).collect()
}

/// Delivers all messages both ways until B has all of A's log.
fn deliver_until_complete(a: &mut TestNode, b: &mut TestNode) {
    for round in 0..200 {
        frames(a).iter().for_each(|frame| deliver(frame, 1, b));
        for ms in 0..20 {
            b.engine.maintain(round * 20 + ms).expect("goes on");
        }
        b.now_us += 20_000;
        b.handle_event(ReplicaEvent::Tick);
        frames(b).iter().for_each(|frame| deliver(frame, 2, a));
        a.now_us += 20_000;
        a.granted_by(2);
        a.handle_event(ReplicaEvent::Tick);
        if b.replica.log_end() == a.replica.log_end() {
            return;
        }
    }
    panic!("{:?} of {:?}", b.replica.log_end(), a.replica.log_end());
}

fn assert_same(a: &mut TestNode, b: &mut TestNode) {
    assert_eq!(b.replica.counts().snapshots_installed, 1);
    for number in [0_u64, 1, 150, 299] {
        let key = format!("key {number}");
        let of = |node: &mut TestNode| {
            let handle = node.replica.handle();
            node.engine.lookup_assembled(handle, key.as_bytes()).expect("reads")
        };
        assert!(of(a).is_some() && of(a) == of(b), "{key}");
    }
    let segments = |node: &mut TestNode| {
        let handle = node.replica.handle();
        node.engine.partition_stats(handle).expect("is open").log.segments
    };
    assert_eq!(segments(a), segments(b));
}

/// Readers that watch the keyspace continue at a moved copy.
#[test]
fn changes_for_readers_are_installed_with_the_snapshot() {
    let (mut a, mut b) = primary_with_history(300, ChangeHistory::of_ms(3_600_000));
    deliver_until_complete(&mut a, &mut b);
    assert_same(&mut a, &mut b);
    let history = a.replica.partition.encoded_history();
    assert!(history.len() > 300 * 1000, "several parts");
    assert!(history == b.replica.partition.encoded_history());
    // It goes on with the next change.
    a.write(300, b"later", b"value");
    deliver_until_complete(&mut a, &mut b);
    let longer = a.replica.partition.encoded_history();
    assert!(longer.len() > history.len() && longer == b.replica.partition.encoded_history());
}

#[test]
fn empty_member_is_sent_segments_in_parallel_parts() {
    let (mut a, mut b) = primary_and_newcomer();
    let sent = a.out.sent.len();
    assert!(sent > 3, "{sent} parts under way");
    let copying = a.replica.copies().next().expect("is sent");
    assert!(copying.to == member(2) && copying.done_bytes == 0 && copying.total_bytes > 300_000);
    deliver_until_complete(&mut a, &mut b);
    assert_same(&mut a, &mut b);
    assert!(a.replica.copies().next().is_none());
}

#[test]
fn lost_snapshot_parts_are_resent() {
    let (mut a, mut b) = primary_and_newcomer();
    let sent = frames(&mut a);
    for (number, frame) in sent.iter().enumerate() {
        if number != 1 {
            deliver(frame, 1, &mut b);
        }
    }
    deliver_until_complete(&mut a, &mut b);
    assert_same(&mut a, &mut b);
}

/// Of each window only the first part arrives in order. A window of all parts would send them again for each one that is accepted.
#[test]
fn reordered_snapshot_parts_are_not_all_resent_for_each_accepted_one() {
    let (mut a, mut b) = primary_with_records(1500);
    let (mut sent, mut needed) = (0, 0);
    for round in 0..400 {
        let parts = parts(&mut a);
        sent += parts.len();
        parts.iter().rev().for_each(|frame| deliver(frame, 1, &mut b));
        for ms in 0..20 {
            b.engine.maintain(round * 20 + ms).expect("goes on");
        }
        b.now_us += 20_000;
        b.handle_event(ReplicaEvent::Tick);
        let answers = frames(&mut b);
        needed += usize::from(!answers.is_empty());
        answers.iter().for_each(|frame| deliver(frame, 2, &mut a));
        a.now_us += 20_000;
        a.granted_by(2);
        a.handle_event(ReplicaEvent::Tick);
        if b.replica.counts().snapshots_installed == 1 {
            break;
        }
    }
    assert_eq!(b.replica.counts().snapshots_installed, 1);
    assert!(needed > 20, "{needed} parts");
    assert!(sent < 4 * needed, "{sent} parts were sent for {needed}");
}

/// A has given up and started again as of the same entry, and its log may have been compacted in between.
#[test]
fn parts_of_two_attempts_are_never_put_together() {
    let (mut a, mut b) = primary_and_newcomer();
    let first = parts(&mut a);
    deliver(&first[0], 1, &mut b);
    let answer = frames(&mut b);
    // B's answer is late: A does not receive it, and gives up.
    a.now_us += super::super::limits::SENDING_US;
    a.granted_by(2);
    a.handle_event(ReplicaEvent::Tick);
    a.receive(2, 1, &PeerBody::ReplicateAck(FollowerReport::NeedsState));
    a.handle_event(ReplicaEvent::Tick);
    let second = parts(&mut a);
    answer.iter().for_each(|frame| deliver(frame, 2, &mut a));
    let copying = a.replica.copies().next().expect("is sent");
    assert_eq!(copying.done_bytes, 0, "data of the first attempt does not count in the second");
    // Part 1 of the second attempt arrives before its part 0.
    deliver(&second[1], 1, &mut b);
    let sent = b.sent_messages();
    assert!(sent.is_empty(), "{sent:?}");
    deliver(&second[0], 1, &mut b);
    let sent = b.sent_messages();
    assert!(sent.len() == 1 && sent[0].contains("parts: 1"), "{sent:?}");
    // The rest of the first attempt arrives last.
    first.iter().for_each(|frame| deliver(frame, 1, &mut b));
    let sent = b.sent_messages();
    assert!(sent.is_empty(), "{sent:?}");
    deliver_until_complete(&mut a, &mut b);
    assert_eq!(b.replica.log_end(), a.replica.log_end());
}
