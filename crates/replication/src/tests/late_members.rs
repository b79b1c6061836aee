//! A primary reports members that are late, and not members that seem late because the primary was away itself.

use super::*;
use crate::limits::{LAG_SURE_US, LEASE_RENEW_US, LEASE_US};

/// How often an instance checks its leases while nothing happens.
const CHECK_US: u64 = 25_000;

/// A, primary with B and C in sync, which checks its leases. C never fails.
struct Pair {
    a: TestNode,
    grants: bool,
    acknowledges: bool,
}

impl Pair {
    fn new() -> Pair {
        let mut a = TestNode::new(1);
        a.handle_event(ReplicaEvent::Group(view(1, 1, &[2, 3], &[])));
        a.leases.synced(TIMESTAMP_BOUND);
        let mut pair = Pair { a, grants: true, acknowledges: true };
        pair.advance_us(LAG_US + LEASE_US);
        assert_eq!(pair.a.out.proposals, [], "all is well");
        pair
    }

    fn check_leases(&mut self) {
        let now_us = self.a.now_us;
        for (other, _) in self.a.leases.lease_requests(now_us, Timestamp::ZERO, [member(2), member(3)]) {
            if self.grants || other == member(3) {
                self.a.granted_by(other.instance.get());
            }
        }
        let last = self.a.replica.log_end().last.index.0;
        for other in [2, 3] {
            if self.acknowledges || other == 3 {
                self.a.receive(other, 1, &acknowledge_call(last));
            }
        }
        self.a.handle_event(ReplicaEvent::Tick);
    }

    /// A is on time for so long.
    fn advance_us(&mut self, us: u64) {
        for _ in 0..us.div_ceil(CHECK_US) {
            self.a.now_us += CHECK_US;
            self.check_leases();
        }
    }

    /// The time until A requests the removal of B, if that is at most `us`.
    fn blames_within(&mut self, us: u64) -> Option<u64> {
        let from_us = self.a.now_us;
        while self.a.out.proposals.is_empty() && self.a.now_us < from_us + us {
            self.advance_us(CHECK_US);
        }
        self.a
            .out
            .proposals
            .first()
            .inspect(|change| assert_eq!(**change, GroupChange::Remove(member(2))))?;
        Some(self.a.now_us - from_us)
    }

    fn tick_due_us(&mut self) -> u64 {
        let TestNode { engine, replica, leases, now_us, .. } = &mut self.a;
        replica.next_tick_us(&mut Context {
            engine,
            now: ClockSample::at_ms(5_000),
            now_us: *now_us,
            leases,
            map: MapView::NONE,
        })
    }
}

#[test]
fn member_refusing_leases_is_reported_after_a_second() {
    let mut pair = Pair::new();
    pair.grants = false;
    let after_us = pair.blames_within(2 * LAG_US).expect("it grants nothing any more");
    assert!((LAG_US - LEASE_RENEW_US..=LAG_US + CHECK_US).contains(&after_us), "after {after_us} us");
}

#[test]
fn member_that_never_granted_is_reported_after_a_second() {
    let mut a = TestNode::new(1);
    a.handle_event(ReplicaEvent::Group(view(1, 1, &[2, 3], &[])));
    let mut pair = Pair { a, grants: false, acknowledges: true };
    let after_us = pair.blames_within(2 * LAG_US).expect("it is not there");
    assert!((LAG_US..=LAG_US + 2 * CHECK_US).contains(&after_us), "after {after_us} us");
}

#[test]
fn member_without_sent_entries_is_reported_after_a_second() {
    let mut pair = Pair::new();
    pair.acknowledges = false;
    pair.a.write(1, b"key", b"value");
    let after_us = pair.blames_within(2 * LAG_US).expect("it lags");
    assert!((LAG_US - CHECK_US..=LAG_US + 2 * CHECK_US).contains(&after_us), "after {after_us} us");
}

#[test]
fn paused_primary_reports_no_member() {
    for acknowledges in [true, false] {
        let mut pair = Pair::new();
        pair.acknowledges = acknowledges;
        pair.a.write(1, b"key", b"value");
        pair.a.handle_event(ReplicaEvent::Tick);
        pair.a.now_us += 5 * LAG_US;
        // The first event after the pause is a tick, and not one of the waiting messages.
        pair.a.handle_event(ReplicaEvent::Tick);
        assert_eq!(pair.a.out.proposals, [], "it was away");
        pair.grants = false;
        pair.advance_us(LAG_US / 2);
        assert_eq!(pair.a.out.proposals, [], "it is back for half a second");
        // The waiting messages arrive late.
        (pair.grants, pair.acknowledges) = (true, true);
        assert_eq!(pair.blames_within(3 * LAG_US), None);
    }
}

#[test]
fn slow_primary_reports_hanging_member_later() {
    let mut pair = Pair::new();
    pair.grants = false;
    let from_us = pair.a.now_us;
    while pair.a.out.proposals.is_empty() && pair.a.now_us < from_us + 2 * LAG_SURE_US {
        pair.advance_us(LAG_US / 2);
        pair.a.now_us += LAG_US / 4;
    }
    assert_eq!(pair.a.out.proposals.first(), Some(&GroupChange::Remove(member(2))));
    assert!(pair.a.now_us - from_us >= LAG_SURE_US - LAG_US, "it was late itself");
}

#[test]
fn primary_ticks_when_a_report_is_due() {
    let mut pair = Pair::new();
    pair.grants = false;
    pair.advance_us(LAG_US / 2);
    let wake_us = pair.tick_due_us();
    assert!(wake_us > pair.a.now_us && wake_us <= pair.a.now_us + LAG_US / 2 + CHECK_US, "{wake_us}");
    // A is away for longer than that. It has nothing to do at once on its return.
    pair.a.now_us += 3 * LAG_US;
    pair.check_leases();
    assert_eq!(pair.a.out.proposals, []);
    let wake_us = pair.tick_due_us();
    assert!(wake_us > pair.a.now_us && wake_us <= pair.a.now_us + LAG_US, "{wake_us}");
    pair.advance_us(LAG_US);
    assert_eq!(pair.a.out.proposals.first(), Some(&GroupChange::Remove(member(2))));
}
