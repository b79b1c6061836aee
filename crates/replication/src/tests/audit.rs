//! Members that compare their contents.

use super::*;

/// Delivers the messages of both members until neither sends any.
pub(super) fn exchange(a: &mut TestNode, b: &mut TestNode) {
    let decoder = Decoder::with_version(zerohop_wire::GREETING_VERSION, Features::default());
    for _ in 0..20 {
        (a.now_us, b.now_us) = (a.now_us + 3_000, b.now_us + 3_000);
        a.granted_by(2);
        for from in [1, 2] {
            let (sender, taker) = if from == 1 { (&mut *a, &mut *b) } else { (&mut *b, &mut *a) };
            sender.handle_event(ReplicaEvent::Tick);
            for (to, epoch, bytes) in std::mem::take(&mut sender.out.sent) {
                let DecodeResult::Frame { frame, .. } = decoder.decode(&bytes) else { panic!("no frame") };
                if let Ok(Message::Peer(PeerMessage { body, .. })) = frame.message(&mut Vec::new())
                    && to == taker.replica.this_member
                {
                    taker.receive(from, epoch.0, &body);
                }
            }
        }
    }
}

pub(super) fn pair() -> (TestNode, TestNode) {
    let (mut a, mut b) = (TestNode::new(1), TestNode::new(2));
    for node in [&mut a, &mut b] {
        node.handle_event(ReplicaEvent::Group(view(1, 1, &[2], &[])));
        node.now_us += LEASE_WAIT_US;
    }
    a.granted_by(2);
    a.handle_event(ReplicaEvent::Tick);
    exchange(&mut a, &mut b);
    for n in 0..40u64 {
        a.write(n, format!("key{n}").as_bytes(), &[n as u8; 20]);
    }
    exchange(&mut a, &mut b);
    assert_eq!(a.out.answered.len(), 40);
    (a, b)
}

#[test]
pub(super) fn equal_members_compare_equal_during_writes() {
    let (mut a, mut b) = pair();
    for n in 100..120u64 {
        // The range is of an uncommitted entry, and more entries follow before its commit.
        a.write(n, format!("key{}", n % 10).as_bytes(), &[n as u8; 30]);
        a.handle_event(ReplicaEvent::Scrub { bytes: 0 });
        a.write(n + 100, format!("key{}", n % 10).as_bytes(), &[n as u8; 40]);
        exchange(&mut a, &mut b);
    }
    assert_eq!((a.replica.counts().audits, a.replica.counts().differed), (20, 0));
    assert_eq!((b.replica.counts().differed, a.out.differing.len()), (0, 0));
}

#[test]
fn differing_member_is_removed_and_reinstalled() {
    let (mut a, mut b) = pair();
    // One record differs there although the log is equal, as after a bug.
    let handle = b.replica.partition.handle();
    let last = b.replica.log_end().last;
    let other = LogEntry { name: name(1, last.index.0 + 1), key: b"key7", ..entry(1, 1) };
    b.entries(1, 1, (last, last.index.0 + 1), &[other]);
    a.write(500, b"elsewhere", b"value");
    a.out.sent.clear();
    b.engine.commit(handle, u64::MAX).expect("commits");
    a.receive(2, 1, &acknowledge_call(last.index.0 + 1));
    for _ in 0..6 {
        a.handle_event(ReplicaEvent::Scrub { bytes: 0 });
        exchange(&mut a, &mut b);
    }
    assert_eq!(a.out.differing.first(), Some(&member(2)));
    assert_eq!(a.out.proposals.last(), Some(&GroupChange::Remove(member(2))));
    assert_eq!(b.replica.counts().snapshots_installed, 0, "what it has may be needed yet");
    for node in [&mut a, &mut b] {
        node.handle_event(ReplicaEvent::Group(view(2, 1, &[], &[2])));
    }
    for ms in 0..200 {
        a.now_us += 20_000;
        b.now_us += 20_000;
        b.engine.maintain(ms * 20).expect("goes on");
        exchange(&mut a, &mut b);
    }
    assert_eq!(b.replica.counts().snapshots_installed, 1);
    assert_eq!(a.replica.digest(&mut a.engine), b.replica.digest(&mut b.engine));
}
