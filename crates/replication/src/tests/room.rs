//! Full disks: which primary hands over, which member is removed from the in-sync set, and which stays because no member has more
//! room.

use super::*;
use crate::limits::{NO_ROOM_AGAIN_US, NO_ROOM_SURE_US, NO_ROOM_US};

const NO_ROOM: Call<'static> = Call::ReplicateAck(FollowerReport::NoRoom);

fn two_of_three(epoch: u64, primary: u32, in_sync: &[u32], followers: &[u32]) -> ReplicaEvent<'static> {
    ReplicaEvent::Group(GroupView { min_in_sync: 2, ..view(epoch, primary, in_sync, followers) })
}

impl TestNode {
    fn fill(&mut self) {
        self.disk.set_capacity(1);
        self.engine.look_at_room();
        assert!(!self.engine.has_room());
    }

    fn free(&mut self) {
        self.disk.set_capacity(None);
        self.engine.look_at_room();
        assert!(self.engine.has_room());
    }

    /// Lets this time pass, with all leases granted.
    fn later(&mut self, us: u64) {
        self.now_us += us;
        [2, 3].into_iter().for_each(|other| self.granted_by(other));
        self.tell(ReplicaEvent::Tick);
    }

    fn wakes_within(&mut self, us: u64) -> bool {
        let TestNode { engine, replica, leases, now_us, .. } = self;
        let mut context =
            Context { engine, now: Now::at_ms(5_000), now_us: *now_us, leases, map: MapView::NONE };
        replica.next_wake_us(&mut context) <= *now_us + us
    }

    fn remove(&mut self, request: u64, key: &[u8]) {
        let change = zerohop_wire::messages::WriteChange::Remove;
        let write = RecordWrite { key, condition: Condition::Always, change };
        self.ask(request, &Message::Write { stamp: Stamp::default(), write });
    }
}

/// A, primary with B in sync and C following, that answers.
fn primary() -> TestNode {
    let mut a = TestNode::new(1);
    a.tell(two_of_three(1, 1, &[2], &[3]));
    a.leases.synced(CEILING);
    a.later(LEASE_WAIT_US);
    let last = a.replica.log_end().last.index.0;
    [2, 3].into_iter().for_each(|other| a.hear(other, 1, &holds(last)));
    a.later(1_000);
    assert_eq!(a.out.asked, []);
    a
}

#[test]
fn a_primary_whose_disk_is_full_hands_over_to_a_replica_that_has_room() {
    let mut a = primary();
    a.fill();
    a.later(1_000);
    assert_eq!(a.out.asked, [], "others may report full disks too");
    assert!(a.wakes_within(NO_ROOM_SURE_US), "it wakes for it by itself");
    a.later(NO_ROOM_SURE_US);
    assert_eq!(a.out.asked, [GroupChange::Remove(member(1))]);
}

#[test]
fn a_primary_that_has_room_again_takes_its_word_back() {
    let mut a = primary();
    a.fill();
    a.later(1_000);
    a.later(NO_ROOM_SURE_US);
    a.free();
    a.later(1_000);
    assert_eq!(
        a.out.asked.last(),
        Some(&GroupChange::Keep),
        "it may have been decided: only another epoch settles it"
    );
}

#[test]
fn a_replica_whose_disk_is_full_says_so_at_once_and_again_until_there_is_room() {
    let mut b = TestNode::new(2);
    b.tell(two_of_three(1, 1, &[2], &[3]));
    b.said();
    b.fill();
    let said = |b: &mut TestNode| {
        b.said().iter().filter(|one| **one == format!("{:?}", FollowerReport::NoRoom)).count()
    };
    b.tell(ReplicaEvent::Tick);
    assert_eq!(said(&mut b), 1);
    b.tell(ReplicaEvent::Tick);
    assert_eq!(said(&mut b), 0);
    assert!(b.wakes_within(NO_ROOM_AGAIN_US));
    b.later(NO_ROOM_AGAIN_US);
    assert_eq!(said(&mut b), 1);
    // A new primary has not received the report.
    b.tell(two_of_three(2, 3, &[2], &[1]));
    b.tell(ReplicaEvent::Tick);
    assert_eq!(said(&mut b), 1);
    b.free();
    b.later(NO_ROOM_AGAIN_US);
    assert_eq!(said(&mut b), 0);
}

#[test]
fn a_replica_that_meets_a_full_disk_by_an_entry_says_so() {
    let mut b = TestNode::new(2);
    b.tell(two_of_three(1, 1, &[2], &[3]));
    b.disk.set_capacity(1);
    b.entries(1, 1, (name(0, 0), 0), &[entry(1, 1)]);
    b.said();
    b.tell(ReplicaEvent::Tick);
    assert!(b.said().contains(&format!("{:?}", FollowerReport::NoRoom)));
}

#[test]
fn a_replica_that_has_no_room_is_put_out_of_sync_at_once_and_admitted_when_it_says_so_no_more() {
    let mut a = primary();
    a.hear(2, 1, &NO_ROOM);
    a.later(1_000);
    assert_eq!(a.out.asked, [GroupChange::Remove(member(2))]);
    // The primary alone with two followers: the follower with room is admitted. The other is sent no entries that it cannot
    // store.
    a.tell(two_of_three(2, 1, &[], &[2, 3]));
    let last = a.replica.log_end().last.index.0;
    a.out.asked.clear();
    a.hear(2, 2, &NO_ROOM);
    a.hear(2, 2, &holds(last));
    a.later(1_000);
    assert_eq!(a.out.asked, [], "it has all, and could not keep the next entry");
    a.hear(3, 2, &holds(last));
    a.later(1_000);
    assert_eq!(a.out.asked, [GroupChange::Admit(member(3))]);
    a.tell(two_of_three(3, 1, &[3], &[2]));
    a.hear(2, 3, &NO_ROOM);
    [2, 3].into_iter().for_each(|other| a.hear(other, 3, &holds(last)));
    a.later(1_000);
    a.out.sent.clear();
    a.write(1, b"key", b"value");
    a.tell(ReplicaEvent::Tick);
    let to: Vec<Member> = a.out.sent.iter().map(|(to, ..)| *to).collect();
    assert!(to.contains(&member(3)) && !to.contains(&member(2)), "{to:?}");
    a.out.sent.clear();
    a.later(NO_ROOM_US);
    assert!(a.out.sent.iter().any(|(to, ..)| *to == member(2)), "it has said nothing for long");
}

#[test]
fn where_too_few_have_room_nobody_is_moved_and_writes_are_refused_but_not_what_makes_room() {
    let mut a = primary();
    a.write(1, b"key", b"value");
    let last = a.replica.log_end().last.index.0;
    a.hear(2, 1, &holds(last));
    assert_eq!(a.out.answered.last(), Some(&(1, true)));
    for full in [2, 3] {
        a.hear(full, 1, &NO_ROOM);
    }
    a.later(1_000);
    assert_eq!(a.out.asked, [], "it alone has room, and a write needs two");
    a.write(2, b"other", b"value");
    assert_eq!(a.out.answered.last(), Some(&(2, false)), "at once, though it could write it itself");
    a.remove(3, b"key");
    let last = a.replica.log_end().last.index.0;
    a.hear(2, 1, &holds(last));
    assert_eq!(a.out.answered.last(), Some(&(3, true)));
    // The same if the primary's disk is full too.
    a.fill();
    a.later(NO_ROOM_SURE_US);
    a.later(NO_ROOM_SURE_US);
    assert_eq!(a.out.asked, []);
    a.free();
    a.later(NO_ROOM_US);
    a.write(4, b"other", b"value");
    let last = a.replica.log_end().last.index.0;
    a.hear(2, 1, &holds(last));
    assert_eq!(a.out.answered.last(), Some(&(4, true)));
}
