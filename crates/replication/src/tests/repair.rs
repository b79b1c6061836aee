//! Repair of corrupt entries.

use zerohop_engine::disk::{Disk, OpenMode};

use super::*;

pub(super) const VALUE: [u8; 200] = [0xA5; 200];

/// An entry of another member.
struct PeerEntry {
    meta: zerohop_engine::EntryMeta,
    key: Vec<u8>,
    payload: Vec<u8>,
}

impl PeerEntry {
    fn of(node: &mut TestNode, index: u64) -> PeerEntry {
        let handle = node.replica.partition.handle();
        let entry = node.engine.read_entry(handle, index).expect("can be read");
        PeerEntry { meta: entry.head.meta, key: entry.key.to_vec(), payload: entry.payload.to_vec() }
    }

    fn as_sent(&self) -> LogEntry<'_> {
        LogEntry {
            name: name(self.meta.epoch, self.meta.index),
            timestamp: Timestamp(self.meta.timestamp),
            kind: self.meta.kind as u8,
            flags: self.meta.flags,
            key: &self.key,
            payload: &self.payload,
        }
    }
}

/// A primary with an in-sync replica that has everything. The primary's first record is only on disk, and is corrupt there.
fn corrupt_primary() -> (TestNode, PeerEntry) {
    let mut a = TestNode::with(1, SimulatedDisk::new(1), 128 << 10);
    a.handle_event(ReplicaEvent::Group(view(1, 1, &[2], &[])));
    a.now_us += LEASE_WAIT_US;
    a.granted_by(2);
    a.handle_event(ReplicaEvent::Tick);
    a.receive(2, 1, &acknowledge_call(1));
    a.write(1, b"key", &VALUE);
    let mut ms = 0;
    for round in 2..2_000u64 {
        a.granted_by(2);
        a.write(round, format!("other{round}").as_bytes(), &[7; 200]);
        if round % 50 == 0 {
            ms += 60;
            let last = a.replica.log_end().last.index.0;
            a.receive(2, 1, &acknowledge_call(last));
            a.engine.maintain(ms).expect("goes on");
        }
    }
    a.engine.sync().expect("syncs");
    let last = a.replica.log_end().last.index.0;
    a.receive(2, 1, &acknowledge_call(last));
    let kept = PeerEntry::of(&mut a, 2);
    corruption(&mut a.disk.clone());
    a.out = MemberOutput::default();
    (a, kept)
}

/// Flips a byte of the first value.
pub(super) fn corruption(disk: &mut SimulatedDisk) {
    for name in disk.list("p-0000000000000001").expect("lists") {
        let path = format!("p-0000000000000001/{}", name.name);
        let file = disk.open(&path, OpenMode::Existing).expect("opens");
        let mut bytes = vec![0; name.bytes as usize];
        disk.read_at(file, 0, &mut bytes).expect("reads");
        disk.close(file);
        if let Some(at) = bytes.windows(VALUE.len()).position(|window| *window == VALUE) {
            return disk.corrupt_at(&path, at as u64 + 100, 0x40).expect("is durable");
        }
    }
    panic!("the value is in no file");
}

#[test]
pub(super) fn a_read_waits_until_another_member_has_sent_what_is_corrupt() {
    let (mut a, kept) = corrupt_primary();
    a.granted_by(2);
    a.read(5_000);
    a.handle_event(ReplicaEvent::Tick);
    assert!(a.out.answered.is_empty(), "{:?}", a.out.answered);
    let request = format!("{:?}", PeerBody::EntryGet(name(1, 2)));
    assert_eq!(a.sent_messages().iter().filter(|sent| **sent == request).count(), 1);
    // A different entry is not accepted, and the right one is requested again.
    let wrong = LogEntry { payload: &[0xA6; 200], ..kept.as_sent() };
    a.receive(2, 1, &PeerBody::EntryGot(wrong));
    a.handle_event(ReplicaEvent::Tick);
    assert!(a.out.answered.is_empty());
    assert!(a.sent_messages().contains(&request));
    a.receive(2, 1, &PeerBody::EntryGot(kept.as_sent()));
    assert_eq!(a.out.answered, [(5_000, true)]);
    assert_eq!(a.replica.counts().repaired, 1);
}

/// The other member that has the entry may be gone at the next start. A primary alone that finds it corrupt then could bring up
/// no other member, and no other member could become primary.
#[test]
fn repaired_entry_survives_kill_without_further_writes() {
    let (mut a, kept) = corrupt_primary();
    a.granted_by(2);
    a.read(5_000);
    a.receive(2, 1, &PeerBody::EntryGot(kept.as_sent()));
    assert_eq!(a.replica.counts().repaired, 1);
    for ms in 10_000..20_000 {
        a.engine.maintain(ms).expect("goes on");
    }
    let TestNode { disk, engine, replica, .. } = a;
    drop((engine, replica));
    disk.crash();
    let mut a = TestNode::with(1, disk, 128 << 10);
    let handle = a.replica.partition.handle();
    assert!(a.engine.damage(handle).expect("is open").is_empty(), "{:?}", a.engine.damage(handle));
    assert_eq!(PeerEntry::of(&mut a, 2).payload, kept.payload);
}

#[test]
fn unrepairable_entry_is_corrupt_and_moves_the_primary() {
    let (mut a, kept) = corrupt_primary();
    a.granted_by(2);
    a.read(5_000);
    for _ in 0..10 {
        a.now_us += 10_000;
        a.handle_event(ReplicaEvent::Tick);
        a.receive(2, 1, &PeerBody::EntryLost(kept.as_sent().name));
    }
    a.handle_event(ReplicaEvent::Tick);
    assert_eq!(a.out.proposals.last(), Some(&GroupChange::Remove(member(1))));
    a.granted_by(2);
    a.handle_event(ReplicaEvent::Tick);
    assert_eq!(a.out.answered, [(5_000, false)]);
}

/// No other member may be primary, so it continues to ask, but only slowly.
#[test]
fn corrupt_sole_copy_retries_repair_each_second() {
    let (mut a, kept) = corrupt_primary();
    a.handle_event(ReplicaEvent::Group(view(2, 1, &[], &[3])));
    a.receive(3, 2, &PeerBody::ReplicateAck(FollowerReport::Differs { at: name(1, 1) }));
    let request = format!("{:?}", PeerBody::EntryGet(kept.as_sent().name));
    let mut count = 0;
    for _ in 0..1_000 {
        a.now_us += 10_000;
        a.handle_event(ReplicaEvent::Tick);
        let queries = a.sent_messages().iter().filter(|sent| **sent == request).count();
        for _ in 0..queries {
            a.receive(3, 2, &PeerBody::EntryLost(kept.as_sent().name));
        }
        count += queries;
    }
    assert!((10..=15).contains(&count), "asked {count} times in ten seconds");
    assert!(a.replica.is_corrupt_sole_copy());
}

#[test]
pub(super) fn what_is_corrupt_is_not_left_out_of_what_is_sent() {
    let (mut a, kept) = corrupt_primary();
    a.handle_event(ReplicaEvent::Group(view(2, 1, &[2], &[3])));
    a.sent_messages();
    a.receive(3, 2, &PeerBody::ReplicateAck(FollowerReport::Differs { at: name(1, 1) }));
    a.handle_event(ReplicaEvent::Tick);
    let sent = a.sent_messages();
    assert!(
        sent.iter().all(|sent| !sent.starts_with("StatePart") && !sent.starts_with("after 1 ")),
        "{sent:?}"
    );
    assert!(sent.contains(&format!("{:?}", PeerBody::EntryGet(name(1, 2)))));
    a.receive(2, 2, &PeerBody::EntryGot(kept.as_sent()));
    a.handle_event(ReplicaEvent::Tick);
    assert!(a.sent_messages().iter().any(|sent| sent.starts_with("after 1 ")));
}

#[test]
fn scrub_finds_corruption_in_unread_data() {
    let (mut a, kept) = corrupt_primary();
    for _ in 0..200 {
        a.handle_event(ReplicaEvent::Scrub { bytes: 16 << 10 });
    }
    a.granted_by(2);
    a.handle_event(ReplicaEvent::Tick);
    assert_eq!(a.replica.counts().corruption_found, 1);
    a.receive(2, 1, &PeerBody::EntryGot(kept.as_sent()));
    a.read(5_000);
    assert_eq!(a.out.answered, [(5_000, true)]);
}

#[test]
fn entry_request_is_answered_or_refused_as_missing() {
    let mut b = TestNode::new(2);
    b.handle_event(ReplicaEvent::Group(view(1, 1, &[2], &[])));
    b.entries(1, 1, (name(0, 0), 0), &[entry(1, 1)]);
    b.sent_messages();
    b.receive(1, 1, &PeerBody::EntryGet(name(1, 1)));
    assert_eq!(b.sent_messages(), [format!("{:?}", PeerBody::EntryGot(entry(1, 1)))]);
    for other in [name(2, 1), name(1, 2)] {
        b.receive(1, 1, &PeerBody::EntryGet(other));
        assert_eq!(b.sent_messages(), [format!("{:?}", PeerBody::EntryLost(other))]);
    }
}

#[test]
pub(super) fn corrupt_follower_reports_nothing_until_repaired() {
    let disk = SimulatedDisk::new(2);
    let mut c = TestNode::with(3, disk.clone(), 1 << 20);
    c.handle_event(ReplicaEvent::Group(view(1, 1, &[2], &[3])));
    let value = LogEntry { payload: &VALUE, ..entry(1, 1) };
    c.entries(1, 1, (name(0, 0), 2), &[value, entry(1, 2)]);
    let kept = PeerEntry::of(&mut c, 1);
    c.replica.partition.checkpoint(&mut c.engine).expect("begins");
    for ms in 0..500 {
        c.engine.maintain(ms * 10).expect("goes on");
    }
    let TestNode { engine, .. } = c;
    drop(engine.close().expect("closes"));
    corruption(&mut disk.clone());
    let mut c = TestNode::with(3, disk, 1 << 20);
    for _ in 0..20 {
        c.handle_event(ReplicaEvent::Scrub { bytes: 16 << 10 });
    }
    c.handle_event(ReplicaEvent::Group(view(1, 1, &[2], &[3])));
    c.sent_messages();
    c.entries(1, 1, (name(1, 2), 2), &[entry(1, 3)]);
    assert!(c.sent_messages().is_empty(), "it does not count");
    c.handle_event(ReplicaEvent::Tick);
    assert_eq!(c.sent_messages(), [format!("{:?}", PeerBody::EntryGet(name(1, 1)))]);
    c.receive(2, 1, &PeerBody::EntryGot(kept.as_sent()));
    c.entries(1, 1, (name(1, 2), 2), &[entry(1, 3)]);
    assert_eq!(c.sent_messages().len(), 1);
    assert_eq!(c.replica.log_end().last, name(1, 3));
}
