//! What a child of a split inherits about members that may still believe to be primary.

use super::*;
use crate::InheritedState;

/// A member of two successive groups of three. It has granted the first group's primary, and is the second group's primary.
fn promoted() -> TestNode {
    let mut node = settled_member();
    grant(&mut node, 1);
    node.handle_event(ReplicaEvent::Group(view(2, 2, &[3], &[])));
    node
}

/// A member in sync with a primary that has waited for all older primaries.
fn settled_member() -> TestNode {
    let mut node = TestNode::new(2);
    node.handle_event(ReplicaEvent::Group(view(1, 1, &[2, 3], &[])));
    node.replica.primary_has_started();
    node
}

fn grant(node: &mut TestNode, holder: u32) {
    let (map_epoch, timestamp_bound) = (node.leases.map_epoch(), TIMESTAMP_BOUND);
    let body = PeerBody::LeaseQuery { sent_us: node.now_us, map_epoch, timestamp_bound };
    node.leases.handle_message(node.now_us, member(holder), &body).expect("is granted");
}

fn split_parent(node: &mut TestNode, born_in: u64) -> InheritedState {
    let mut context = Context {
        engine: &mut node.engine,
        now: ClockSample::at_ms(5_000),
        now_us: node.now_us,
        leases: &node.leases,
        map: MapView::NONE,
    };
    let failure = zerohop_wire::Failure::Unavailable { retry_after_ms: 1 };
    let mut inherited = node.replica.end_by_split(&mut context, &failure, &mut node.out);
    inherited.follows_at_once(PartitionEpoch(born_in));
    inherited
}

/// The child takes the place of its parent, and gets its group.
fn begin(node: &mut TestNode, inherited: &InheritedState, view: GroupView) {
    let options = MemberOptions {
        durability: Durability::Interval { ms: 50 },
        index_seed: 7,
        is_ordered: false,
        epoch: PartitionEpoch(1),
    };
    let opened = Replica::open(&mut node.engine, member(2), PartitionId(2), options);
    node.replica = opened.expect("opens");
    node.replica.inherit(inherited, view.epoch, node.now_us);
    node.handle_event(ReplicaEvent::Group(view));
}

/// A, cut off, is primary of epoch 1, with a lease of B. B is promoted in epoch 2, and would have to wait for that lease. Before
/// it has waited, the keyspace is split, and B is primary of the children.
#[test]
fn child_waits_for_leases_its_parent_waited_for() {
    let mut node = promoted();
    let inherited = split_parent(&mut node, 3);
    begin(&mut node, &inherited, view(3, 2, &[3], &[]));
    assert!(!node.replica.has_waited(node.now_us));
    assert!(node.replica.has_waited(node.now_us + LEASE_WAIT_US));
}

#[test]
fn child_of_primary_that_has_waited_does_not_wait() {
    let mut node = promoted();
    node.now_us += LEASE_WAIT_US;
    node.granted_by(3);
    node.handle_event(ReplicaEvent::Tick);
    node.receive(3, 2, &acknowledge_call(1));
    let inherited = split_parent(&mut node, 3);
    grant(&mut node, 1);
    begin(&mut node, &inherited, view(3, 2, &[3], &[]));
    assert!(node.replica.has_waited(node.now_us));
}

/// B is slow. While it copies its parent, C is primary of the child in epoch 3, with a lease of B. Then B is primary in epoch 4.
/// B has never heard of C, so it waits for all instances that it has granted a lease.
#[test]
fn child_opened_late_waits_for_all_leases_it_granted() {
    let mut node = settled_member();
    let inherited = split_parent(&mut node, 2);
    node.leases.set_map(MapEpoch(3));
    grant(&mut node, 3);
    begin(&mut node, &inherited, view(4, 2, &[1], &[]));
    assert!(!node.replica.has_waited(node.now_us));
    assert!(node.replica.has_waited(node.now_us + LEASE_WAIT_US));
}
