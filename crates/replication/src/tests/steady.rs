//! A member of a healthy group is not ticked for every message, and is still looked after.

use super::*;
use crate::limits::DEFERRED_CHECK_US;
use crate::{PartitionKey, ReplicaTable, TableEffects};
use zerohop_partition::FlushNeed;

impl TableEffects for MemberOutput {
    fn of(&mut self, _key: PartitionKey, _epoch: PartitionEpoch) {}

    fn flush_need(&self) -> FlushNeed {
        FlushNeed::Nothing
    }
}

const KEY: PartitionKey = (zerohop_wire::ids::KeyspaceId(1), zerohop_wire::ids::PartitionId(1));

#[test]
fn acknowledged_entries_need_no_immediate_tick() {
    let mut b = TestNode::new(2);
    b.handle_event(ReplicaEvent::Group(view(1, 1, &[2], &[])));
    b.entries(1, 1, (name(0, 0), 1), &[entry(1, 1)]);
    let TestNode { mut engine, replica, leases, mut out, mut now_us, .. } = b;
    let mut members = ReplicaTable::default();
    members.insert(KEY, replica);
    let mut at = |members: &mut ReplicaTable, now_us, event: Option<&PeerBody<'_>>| {
        let mut context = Context {
            engine: &mut engine,
            now: ClockSample::at_ms(5_000),
            now_us,
            leases: &leases,
            map: MapView::NONE,
        };
        if let Some(body) = event {
            let event = ReplicaEvent::Peer { from: member(1), epoch: PartitionEpoch(1), body };
            members.step(KEY, &mut context, event, &mut out).expect("goes on");
        }
        let before = members.steps().ticks;
        let any = members.end_batch(&mut context, &mut out, |_, error| panic!("{error}"));
        (any, members.steps().ticks - before)
    };
    assert_eq!(at(&mut members, now_us, None), (true, 1), "it has come");
    for _ in 0..2 {
        now_us += DEFERRED_CHECK_US;
        at(&mut members, now_us, None);
    }
    assert_eq!(at(&mut members, now_us, None), (false, 0));
    let two = [entry(1, 2)];
    let body = PeerBody::Replicate {
        preceding: name(1, 1),
        commit: LogIndex(1),
        entries: Elements::from_slice(&two),
    };
    assert_eq!(at(&mut members, now_us, Some(&body)), (true, 0), "what it took is to be synced");
    assert!((now_us + 1..=now_us + DEFERRED_CHECK_US).contains(&members.next_tick_us()));
    assert_eq!(at(&mut members, now_us + DEFERRED_CHECK_US, None).1, 1, "whether a checkpoint is due");
    // A member that differs needs more than that.
    let body = PeerBody::Replicate {
        preceding: name(1, 9),
        commit: LogIndex(1),
        entries: Elements::from_slice(&[]),
    };
    members.remove(KEY).expect("is there");
    let mut c = TestNode::new(3);
    c.handle_event(ReplicaEvent::Group(view(1, 1, &[3], &[])));
    members.insert(KEY, c.replica);
    let mut context = Context {
        engine: &mut c.engine,
        now: ClockSample::at_ms(5_000),
        now_us,
        leases: &c.leases,
        map: MapView::NONE,
    };
    members.end_batch(&mut context, &mut c.out, |_, error| panic!("{error}"));
    let event = ReplicaEvent::Peer { from: member(1), epoch: PartitionEpoch(1), body: &body };
    members.step(KEY, &mut context, event, &mut c.out).expect("goes on");
    let before = members.steps().ticks;
    members.end_batch(&mut context, &mut c.out, |_, error| panic!("{error}"));
    assert_eq!(members.steps().ticks - before, 1);
}
