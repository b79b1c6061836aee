//! A snapshot that is read from a log during compaction.

use super::*;
use zerohop_wire::messages::Remove;

/// Time passes in an engine; ticks start its checkpoints.
fn maintain(node: &mut TestNode, ms: &mut u64) {
    for _ in 0..600 {
        *ms += 20;
        node.handle_event(ReplicaEvent::Tick);
        node.engine.maintain(*ms).expect("goes on");
    }
}

#[test]
pub(super) fn what_is_removed_stays_removed_though_the_log_is_compacted_while_it_is_sent() {
    let mut a = TestNode::new(1);
    a.handle_event(ReplicaEvent::Group(view(1, 1, &[], &[])));
    a.now_us += LEASE_WAIT_US;
    a.write(1, b"victim", &[1; 50]);
    for round in 0..4_000u64 {
        a.write(round + 10, format!("key{}", round % 7).as_bytes(), &[round as u8; 200]);
        if round == 3_000 {
            let change = zerohop_wire::messages::WriteChange::Remove(Remove);
            let write = RecordWrite { key: b"victim", condition: Condition::Always, change };
            a.send_request(2, &Message::Write { stamp: Stamp::default(), write });
        }
    }
    // Only entries that two checkpoints cover may be removed.
    let handle = a.replica.partition.handle();
    for round in 0..2 {
        a.replica.partition.checkpoint(&mut a.engine).expect("begins");
        a.engine.finish_work(handle).expect("ends");
        a.write(10_000 + round, b"another", b"value");
    }
    let mut c = TestNode::new(3);
    for node in [&mut a, &mut c] {
        node.handle_event(ReplicaEvent::Group(view(2, 1, &[], &[3])));
    }
    c.replica.health.needs_state = true;
    let decoder = Decoder::with_version(zerohop_wire::GREETING_VERSION, Features::default());
    let mut ms = 0;
    for round in 0..100 {
        (a.now_us, c.now_us) = (a.now_us + 20_000, c.now_us + 20_000);
        for from in [1, 3] {
            let (sender, taker) = if from == 1 { (&mut a, &mut c) } else { (&mut c, &mut a) };
            sender.handle_event(ReplicaEvent::Tick);
            for (_, epoch, bytes) in std::mem::take(&mut sender.out.sent) {
                let DecodeResult::Frame { frame, .. } = decoder.decode(&bytes) else { panic!("no frame") };
                // All parts except the first are lost at first, and are read again later.
                let mut buffer = Vec::new();
                let Ok(Message::Peer(PeerMessage { body, .. })) = frame.message(&mut buffer) else {
                    continue;
                };
                let is_lost = matches!(body, PeerBody::StatePart { part: 1.., .. }) && round < 3;
                if !is_lost {
                    taker.receive(from, epoch.0, &body);
                }
            }
        }
        maintain(&mut a, &mut ms);
        maintain(&mut c, &mut ms);
    }
    assert_eq!(c.replica.counts().snapshots_installed, 1);
    assert_eq!(a.replica.digest(&mut a.engine), c.replica.digest(&mut c.engine));
    assert!(!a.engine.has_entry(handle, 9).expect("can be looked for"), "then it is compacted");
}
