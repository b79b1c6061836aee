//! Full disks: which primary hands over, which member is removed from the in-sync set, and which stays because no member has more
//! room.

use super::*;
use crate::limits::{DISK_FULL_HANDOVER_US, DISK_FULL_REPORT_US, DISK_FULL_VALID_US};
use zerohop_wire::messages::Remove;

const DISK_FULL: PeerBody<'static> = PeerBody::ReplicateAck(FollowerReport::DiskFull);

fn two_of_three(epoch: u64, primary: u32, in_sync: &[u32], followers: &[u32]) -> ReplicaEvent<'static> {
    ReplicaEvent::Group(GroupView { min_in_sync: 2, ..view(epoch, primary, in_sync, followers) })
}

impl TestNode {
    fn fill_disk(&mut self) {
        self.disk.set_capacity(1);
        self.engine.check_disk_space();
        assert!(!self.engine.has_disk_space());
    }

    /// Another program fills the disk.
    fn take_all_space(&mut self) {
        self.disk.set_capacity(0_u64);
        self.engine.check_disk_space();
        assert!(!self.engine.has_disk_space());
    }

    fn free(&mut self) {
        self.disk.set_capacity(None);
        self.engine.check_disk_space();
        assert!(self.engine.has_disk_space());
    }

    /// Lets this time pass, with all leases granted.
    fn later(&mut self, us: u64) {
        self.now_us += us;
        [2, 3].into_iter().for_each(|other| self.granted_by(other));
        self.handle_event(ReplicaEvent::Tick);
    }

    fn ticks_within(&mut self, us: u64) -> bool {
        let TestNode { engine, replica, leases, now_us, .. } = self;
        let mut context =
            Context { engine, now: ClockSample::at_ms(5_000), now_us: *now_us, leases, map: MapView::NONE };
        replica.next_tick_us(&mut context) <= *now_us + us
    }

    fn remove(&mut self, request: u64, key: &[u8]) {
        let change = zerohop_wire::messages::WriteChange::Remove(Remove);
        let write = RecordWrite { key, condition: Condition::Always, change };
        self.send_request(request, &Message::Write { stamp: Stamp::default(), write });
    }
}

/// A, primary with B in sync and C following, that answers.
fn primary() -> TestNode {
    let mut a = TestNode::new(1);
    a.handle_event(two_of_three(1, 1, &[2], &[3]));
    a.leases.synced(TIMESTAMP_BOUND);
    a.later(LEASE_WAIT_US);
    let last = a.replica.log_end().last.index.0;
    [2, 3].into_iter().for_each(|other| a.receive(other, 1, &acknowledge_call(last)));
    a.later(1_000);
    assert_eq!(a.out.proposals, []);
    a
}

#[test]
fn primary_with_full_disk_hands_over() {
    let mut a = primary();
    a.fill_disk();
    a.later(1_000);
    assert_eq!(a.out.proposals, [], "others may report full disks too");
    assert!(a.ticks_within(DISK_FULL_HANDOVER_US), "it wakes for it by itself");
    a.later(DISK_FULL_HANDOVER_US);
    assert_eq!(a.out.proposals, [GroupChange::Remove(member(1))]);
}

#[test]
fn primary_with_free_space_withdraws_handover() {
    let mut a = primary();
    a.fill_disk();
    a.later(1_000);
    a.later(DISK_FULL_HANDOVER_US);
    a.free();
    a.later(1_000);
    assert_eq!(
        a.out.proposals.last(),
        Some(&GroupChange::RaiseEpoch),
        "it may have been decided: only another epoch settles it"
    );
}

#[test]
fn replica_with_full_disk_reports_repeatedly() {
    let mut b = TestNode::new(2);
    b.handle_event(two_of_three(1, 1, &[2], &[3]));
    b.sent_messages();
    b.fill_disk();
    let report_count = |b: &mut TestNode| {
        b.sent_messages().iter().filter(|one| **one == format!("{:?}", FollowerReport::DiskFull)).count()
    };
    b.handle_event(ReplicaEvent::Tick);
    assert_eq!(report_count(&mut b), 1);
    b.handle_event(ReplicaEvent::Tick);
    assert_eq!(report_count(&mut b), 0);
    assert!(b.ticks_within(DISK_FULL_REPORT_US));
    b.later(DISK_FULL_REPORT_US);
    assert_eq!(report_count(&mut b), 1);
    // A new primary has not received the report.
    b.handle_event(two_of_three(2, 3, &[2], &[1]));
    b.handle_event(ReplicaEvent::Tick);
    assert_eq!(report_count(&mut b), 1);
    b.free();
    b.later(DISK_FULL_REPORT_US);
    assert_eq!(report_count(&mut b), 0);
}

#[test]
fn replica_reports_full_disk_on_failed_append() {
    let mut b = TestNode::new(2);
    b.handle_event(two_of_three(1, 1, &[2], &[3]));
    b.disk.set_capacity(1);
    b.entries(1, 1, (name(0, 0), 0), &[entry(1, 1)]);
    b.sent_messages();
    b.handle_event(ReplicaEvent::Tick);
    assert!(b.sent_messages().contains(&format!("{:?}", FollowerReport::DiskFull)));
}

/// Removals that make room may follow it in the log.
#[test]
fn full_replica_stores_an_entry_of_the_primary_in_its_reserve() {
    let mut b = TestNode::with_options(2, SimulatedDisk::new(2), EngineOptions::default());
    b.handle_event(two_of_three(1, 1, &[2], &[3]));
    // 4 MiB of the 64 MiB of the reserve are used.
    b.disk.set_capacity(60 << 20);
    b.engine.check_disk_space();
    assert!(!b.engine.has_disk_space());
    b.entries(1, 1, (name(0, 0), 0), &[entry(1, 1)]);
    assert_eq!(b.replica.log_end().last.index.0, 1);
}

#[test]
fn full_replica_is_removed_and_readmitted_later() {
    let mut a = primary();
    a.receive(2, 1, &DISK_FULL);
    a.later(1_000);
    assert_eq!(a.out.proposals, [GroupChange::Remove(member(2))]);
    // The primary alone with two followers: the follower with room is admitted. The other is sent no entries that it cannot
    // store.
    a.handle_event(two_of_three(2, 1, &[], &[2, 3]));
    let last = a.replica.log_end().last.index.0;
    a.out.proposals.clear();
    a.receive(2, 2, &DISK_FULL);
    a.receive(2, 2, &acknowledge_call(last));
    a.later(1_000);
    assert_eq!(a.out.proposals, [], "it has all, and could not keep the next entry");
    a.receive(3, 2, &acknowledge_call(last));
    a.later(1_000);
    assert_eq!(a.out.proposals, [GroupChange::Admit(member(3))]);
    a.handle_event(two_of_three(3, 1, &[3], &[2]));
    a.receive(2, 3, &DISK_FULL);
    [2, 3].into_iter().for_each(|other| a.receive(other, 3, &acknowledge_call(last)));
    a.later(1_000);
    a.out.sent.clear();
    a.write(1, b"key", b"value");
    a.handle_event(ReplicaEvent::Tick);
    let to: Vec<Member> = a.out.sent.iter().map(|(to, ..)| *to).collect();
    assert!(to.contains(&member(3)) && !to.contains(&member(2)), "{to:?}");
    a.out.sent.clear();
    a.later(DISK_FULL_VALID_US);
    assert!(a.out.sent.iter().any(|(to, ..)| *to == member(2)), "it has said nothing for long");
}

/// The members of three nodes on one disk find it full one after the other: the first was removed while the other seemed to have room.
#[test]
fn lone_primary_admits_a_full_follower_for_removals_if_no_other_has_room() {
    let mut a = primary();
    a.write(1, b"key", b"value");
    let last = a.replica.log_end().last.index.0;
    a.receive(2, 1, &acknowledge_call(last));
    a.handle_event(two_of_three(2, 1, &[], &[2, 3]));
    let last = a.replica.log_end().last.index.0;
    a.out.proposals.clear();
    for full in [2, 3] {
        a.receive(full, 2, &DISK_FULL);
        a.receive(full, 2, &acknowledge_call(last));
    }
    a.later(1_000);
    assert_eq!(a.out.proposals, [GroupChange::Admit(member(2))]);
    a.handle_event(two_of_three(3, 1, &[2], &[3]));
    let last = a.replica.log_end().last.index.0;
    for full in [2, 3] {
        a.receive(full, 3, &DISK_FULL);
        a.receive(full, 3, &acknowledge_call(last));
    }
    a.later(1_000);
    a.out.sent.clear();
    a.remove(2, b"key");
    a.handle_event(ReplicaEvent::Tick);
    assert!(a.replica.log_end().last.index.0 > last, "{:?} {:?}", a.out.answered, a.out.proposals);
    let last = a.replica.log_end().last.index.0;
    a.receive(2, 3, &acknowledge_call(last));
    assert_eq!(a.out.answered.last(), Some(&(2, true)));
}

#[test]
fn too_few_free_disks_refuse_writes_but_not_removals() {
    let mut a = primary();
    a.write(1, b"key", b"value");
    let last = a.replica.log_end().last.index.0;
    a.receive(2, 1, &acknowledge_call(last));
    assert_eq!(a.out.answered.last(), Some(&(1, true)));
    for full in [2, 3] {
        a.receive(full, 1, &DISK_FULL);
    }
    a.later(1_000);
    assert_eq!(a.out.proposals, [], "it alone has room, and a write needs two");
    a.write(2, b"other", b"value");
    assert_eq!(a.out.answered.last(), Some(&(2, false)), "at once, though it could write it itself");
    a.remove(3, b"key");
    let last = a.replica.log_end().last.index.0;
    a.receive(2, 1, &acknowledge_call(last));
    assert_eq!(a.out.answered.last(), Some(&(3, true)));
    // The same if the primary's disk is full too.
    a.fill_disk();
    a.later(DISK_FULL_HANDOVER_US);
    a.later(DISK_FULL_HANDOVER_US);
    assert_eq!(a.out.proposals, []);
    a.free();
    a.later(DISK_FULL_VALID_US);
    a.write(4, b"other", b"value");
    let last = a.replica.log_end().last.index.0;
    a.receive(2, 1, &acknowledge_call(last));
    assert_eq!(a.out.answered.last(), Some(&(4, true)));
}

/// The former primary was killed while another program has filled the disk to the last byte.
#[test]
fn new_primary_starts_its_epoch_without_a_free_byte() {
    let mut b = TestNode::with_options(2, SimulatedDisk::new(2), EngineOptions::default());
    b.handle_event(two_of_three(1, 1, &[2], &[3]));
    b.entries(1, 1, (name(0, 0), 1), &[entry(1, 1)]);
    b.take_all_space();
    b.handle_event(two_of_three(2, 2, &[3], &[1]));
    b.leases.synced(TIMESTAMP_BOUND);
    let marker = b.replica.log_end().last;
    assert_eq!(marker, name(2, 2));
    b.later(2 * LEASE_WAIT_US);
    b.receive(3, 2, &acknowledge_call(marker.index.0));
    b.read(1);
    assert_eq!(b.out.answered.last(), Some(&(1, true)));
    b.write(2, b"key", b"other");
    assert_eq!(b.out.answered.last(), Some(&(2, false)));
    // Half of the reserve is free: removals use it.
    b.disk.set_capacity(40 << 20);
    b.engine.check_disk_space();
    assert!(!b.engine.has_disk_space());
    b.later(1_000);
    b.remove(3, b"key");
    let last = b.replica.log_end().last.index.0;
    assert_eq!(last, marker.index.0 + 1);
    b.receive(3, 2, &acknowledge_call(last));
    assert_eq!(b.out.answered.last(), Some(&(3, true)));
}

#[test]
fn replica_stores_the_marker_of_an_epoch_without_a_free_byte() {
    let mut b = TestNode::new(2);
    b.handle_event(two_of_three(2, 2, &[3], &[1]));
    b.receive(3, 2, &acknowledge_call(0));
    let mut marker = None;
    b.each_sent(|body| {
        if let PeerBody::Replicate { entries, .. } = body {
            marker = marker.take().or(entries.iter().next().map(|one| (one.timestamp, one.payload.to_vec())));
        }
    });
    let (timestamp, payload) = marker.expect("it was sent");
    let mut c = TestNode::new(3);
    c.handle_event(two_of_three(2, 2, &[3], &[1]));
    c.fill_disk();
    let kind = zerohop_engine::EntryKind::Mark as u8;
    let entry = LogEntry { name: name(2, 1), timestamp, kind, flags: 0, key: b"", payload: &payload };
    c.entries(2, 2, (name(0, 0), 0), &[entry]);
    assert_eq!(c.replica.log_end().last, name(2, 1));
}
