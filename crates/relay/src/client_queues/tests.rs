//! Tests of the rules of queues.

use zerohop_placement::{
    Address, ClusterMap, KeyspaceConfig, MapChange, MapDelta, Node, NodeState, ReplicaGroup,
};
use zerohop_wire::ids::{Incarnation, InstanceId, NodeId, PartitionEpoch};

use super::*;

const CLIENT: ConnectionId = ConnectionId { slot: 3, generation: 1 };
const NEAR: UnitTarget = UnitTarget::Sibling(1);
const FAR: UnitTarget = UnitTarget::Wire(ConnectionId { slot: 9, generation: 1 });

/// How long units wait in these tests.
const TIME_OUT_MS: u64 = 700;
const TIME_OUT: Duration = Duration::from_millis(TIME_OUT_MS);

fn queue_key(partition: u32) -> QueueId {
    queue_of_hashes(4, partition)
}

/// The queue of a partition of a keyspace with `1 << bits` partitions.
fn queue_of_hashes(bits: u32, partition: u32) -> QueueId {
    let to = PartitionPlace { keyspace: KeyspaceId(1), partition: PartitionId(partition) };
    let first = u64::from(partition) << (64 - bits);
    QueueId::of(CLIENT, to, PartitionPoints::new(&(first..=first | u64::MAX >> bits)))
}

/// A unit for a partition that no rule of queues looks at.
fn routed(unit: Vec<u8>, may_write: bool) -> RoutedUnit {
    RoutedUnit { partition: PartitionId(0), unit, may_write }
}

/// Queues so many units of one queue; the named ones write.
fn queued_units(units: u64, writes: &[u64]) -> ClientQueues {
    let mut queues = ClientQueues::new(TIME_OUT);
    for number in 1..=units {
        let unit = routed(vec![number as u8], writes.contains(&number));
        assert!(queues.push(queue_key(0), Ticket { number, part: 0 }, unit, 0));
    }
    queues
}

/// Sends all units that may go to a target: each unit, its number and that of the unit before it.
fn send(queues: &mut ClientQueues, target: UnitTarget, now_ms: u64) -> Vec<(u8, u64, u64)> {
    let mut sent = Vec::new();
    while let Some(queue_id) = queues.take_due(now_ms) {
        while queues.next(queue_id, Some(target)).is_some() {
            let (number, behind) = queues.send(queue_id, target).unwrap();
            sent.push((queues.unit_of(number).unwrap()[0], number, behind));
        }
    }
    sent
}

fn sent_units(sent: &[(u8, u64, u64)]) -> Vec<u8> {
    sent.iter().map(|(unit, ..)| *unit).collect()
}

fn tickets(over: &[FailedUnit]) -> Vec<(u64, UnitFailure)> {
    over.iter().map(|(_, ticket, ended)| (ticket.number, *ended)).collect()
}

#[test]
fn units_are_sent_in_order() {
    let mut queues = queued_units(3, &[1, 2, 3]);
    let sent = send(&mut queues, FAR, 0);
    assert_eq!(sent_units(&sent), [1, 2, 3]);
    assert_eq!((sent[0].2, sent[1].2, sent[2].2), (0, sent[0].1, sent[1].1));
    for (_, number, _) in sent {
        assert_eq!(queues.target_of(number), Some(FAR));
        assert!(queues.take_unit(number, 1).is_some() && queues.take_unit(number, 1).is_none());
    }
    assert!(queues.is_free(queue_key(0)) && queues.next_ms().is_none() && queues.bytes == 0);
}

#[test]
fn sending_resumes_from_returned_unit() {
    let mut queues = queued_units(3, &[1, 2, 3]);
    let sent = send(&mut queues, FAR, 0);
    queues.take_unit(sent[0].1, 5);
    queues.not_run(sent[1].1, 5);
    assert!(queues.push(queue_key(0), Ticket { number: 4, part: 0 }, routed(vec![4], true), 5));
    assert_eq!(send(&mut queues, NEAR, 5 + RETRY_MS), []);
    queues.not_run(sent[2].1, 6);
    let again = send(&mut queues, NEAR, 6 + RETRY_MS);
    assert_eq!(sent_units(&again), [2, 3, 4]);
    assert!(again.iter().all(|(_, number, _)| *number > sent[2].1));
    // A report on the first attempt matches nothing now.
    assert!(queues.target_of(sent[1].1).is_none());
}

#[test]
fn units_for_new_target_wait_for_the_old_one() {
    let mut queues = queued_units(1, &[1]);
    let sent = send(&mut queues, FAR, 0);
    assert!(queues.push(queue_key(0), Ticket { number: 2, part: 0 }, routed(vec![2], true), 1));
    assert_eq!(send(&mut queues, NEAR, 1), []);
    assert!(queues.next(queue_key(0), None).is_none());
    queues.take_unit(sent[0].1, 2);
    assert_eq!(sent_units(&send(&mut queues, NEAR, 2)), [2]);
}

#[test]
fn lost_writes_have_unknown_outcome_and_lost_reads_are_retried() {
    // 1 and 3 only read.
    let mut queues = queued_units(4, &[2]);
    send(&mut queues, FAR, 0);
    let mut over = Vec::new();
    queues.fail_target(NEAR, 1, &mut over);
    assert_eq!(over, []);
    queues.fail_target(FAR, 1, &mut over);
    assert_eq!(tickets(&over), [(1, UnitFailure::NotDone), (2, UnitFailure::OutcomeUnknown)]);
    assert_eq!(sent_units(&send(&mut queues, NEAR, 1 + RETRY_MS)), [3, 4]);
}

#[test]
fn returned_read_fails_after_later_write_of_its_client() {
    let mut queues = queued_units(2, &[2]);
    let sent = send(&mut queues, FAR, 0);
    queues.not_run(sent[0].1, 1);
    let written = queues.take_unit(sent[1].1, 1).unwrap();
    let mut over = Vec::new();
    queues.written(written.queue, written.ticket, 1, &mut over);
    assert_eq!(tickets(&over), [(1, UnitFailure::NotDone)]);
    assert!(queues.is_free(queue_key(0)));
}

#[test]
fn new_primary_gets_reads_at_once_and_writes_after_a_wait() {
    let mut reads = queued_units(2, &[]);
    let mut writes = queued_units(2, &[1]);
    for (queues, expected) in [(&mut reads, vec![1, 2]), (&mut writes, vec![])] {
        send(queues, FAR, 0);
        let mut over = Vec::new();
        queues.map_changed(10, |_| Some(NEAR), |_| false, &mut over);
        assert_eq!((over, sent_units(&send(queues, NEAR, 10 + RETRY_MS))), (Vec::new(), expected));
    }
    let mut over = Vec::new();
    writes.overdue(10 + DEPOSED_MS, &mut over);
    assert_eq!(tickets(&over), [(1, UnitFailure::OutcomeUnknown), (2, UnitFailure::NotDone)]);
}

#[test]
fn stopping_target_is_waited_for_briefly() {
    let mut queues = queued_units(2, &[1]);
    let sent = send(&mut queues, FAR, 0);
    let mut over = Vec::new();
    queues.map_changed(10, |_| Some(FAR), |_| true, &mut over);
    assert_eq!(over, [], "it is the primary still");
    queues.map_changed(10, |_| Some(NEAR), |_| true, &mut over);
    assert_eq!(over, []);
    let mut turned_back = queues;
    for number in [sent[0].1, sent[1].1] {
        turned_back.not_run(number, 11);
    }
    assert_eq!(sent_units(&send(&mut turned_back, NEAR, 11 + RETRY_MS)), [1, 2]);
}

#[test]
fn down_target_reports_no_more_outcomes() {
    let mut queues = queued_units(2, &[1]);
    send(&mut queues, FAR, 0);
    let mut over = Vec::new();
    queues.map_changed(10, |_| Some(NEAR), |_| true, &mut over);
    queues.overdue(10 + LEFT_MS, &mut over);
    assert_eq!(tickets(&over), [(1, UnitFailure::OutcomeUnknown), (2, UnitFailure::NotDone)]);
}

#[test]
fn overdue_units_end_with_their_known_outcome() {
    let mut queues = queued_units(2, &[1, 2]);
    let unsent = routed(vec![9], true);
    assert!(queues.push(queue_key(7), Ticket { number: 9, part: 0 }, unsent, 0));
    let first = queues.next(queue_key(0), Some(FAR)).and_then(|_| queues.send(queue_key(0), FAR)).unwrap();
    queues.waits(first.0, vec![1], 60_000);
    let mut over = Vec::new();
    queues.overdue(TIME_OUT_MS - 1, &mut over);
    assert_eq!(over, []);
    queues.overdue(TIME_OUT_MS, &mut over);
    assert_eq!(tickets(&over), [(2, UnitFailure::NotDone), (9, UnitFailure::NotDone)]);
    queues.overdue(60_000 + TIME_OUT_MS - 1, &mut over);
    assert_eq!(over.len(), 2);
    queues.overdue(60_000 + TIME_OUT_MS, &mut over);
    assert_eq!(tickets(&over[2..]), [(1, UnitFailure::OutcomeUnknown)]);
    assert!(queues.next_ms().is_none() && queues.by.is_empty() && queues.due.is_empty());
}

#[test]
fn attempts_do_not_make_the_wait_longer() {
    let mut queues = queued_units(1, &[1]);
    let first = send(&mut queues, FAR, 0)[0].1;
    queues.not_run(first, TIME_OUT_MS / 2);
    let again = send(&mut queues, NEAR, TIME_OUT_MS / 2 + RETRY_MS)[0].1;
    let queued = queues.take_unit(again, TIME_OUT_MS - 20).unwrap();
    queues.put_back(queued, TIME_OUT_MS - 20);
    let mut over = Vec::new();
    queues.overdue(TIME_OUT_MS, &mut over);
    assert_eq!(tickets(&over), [(1, UnitFailure::NotDone)]);
}

#[test]
fn removed_client_leaves_no_state() {
    let mut queues = queued_units(3, &[1]);
    let other = QueueId { connection: ConnectionId { slot: 4, generation: 1 }, ..queue_key(0) };
    assert!(queues.push(other, Ticket { number: 1, part: 0 }, routed(vec![1], false), 0));
    send(&mut queues, FAR, 0);
    queues.closed(CLIENT);
    assert!(queues.is_free(queue_key(0)) && !queues.is_free(other));
    assert_eq!((queues.units.len(), queues.by.len(), queues.bytes), (1, 1, 1));
}

#[test]
fn queued_units_are_bounded() {
    let mut queues = ClientQueues::new(TIME_OUT);
    let unit = || routed(vec![0; RELAYED_BYTES_MAX / 2 + 1], false);
    let ticket = Ticket { number: 1, part: 0 };
    assert!(queues.push(queue_key(0), ticket, unit(), 0));
    assert!(
        !queues.push(queue_key(0), ticket, unit(), 0) && !queues.push_first(queue_key(1), ticket, unit(), 0)
    );
}

#[test]
fn after_split_units_follow_those_of_the_parent() {
    let before = queue_key(5);
    let half = |partition| queue_of_hashes(5, partition);
    let mut queues = ClientQueues::new(TIME_OUT);
    assert_eq!(queues.queue_of(half(10)), half(10));
    assert!(queues.push(before, Ticket { number: 1, part: 0 }, routed(vec![1], true), 0));
    assert_eq!([10, 11].map(|n| queues.queue_of(half(n))), [before; 2]);
    assert_eq!([9, 12].map(|n| queues.queue_of(half(n))), [9, 12].map(half));
    let of_other = QueueId { connection: ConnectionId { slot: 4, generation: 1 }, ..half(10) };
    assert_eq!(queues.queue_of(of_other), of_other);
    assert!(queues.push(before, Ticket { number: 2, part: 0 }, routed(vec![2], true), 0));
    for unit in [1, 2] {
        let number = queues.first(before).unwrap();
        assert_eq!(queues.take_unit(number, 0).unwrap().unit, [unit]);
    }
    assert_eq!(queues.queue_of(half(10)), half(10));
}

/// The partitions of pages that wait in one queue: that of a partition which the map did not have yet covers all others.
fn partitions_of_pages_in_wider_queue() -> Vec<PartitionId> {
    let place = |partition| PartitionPlace { keyspace: KeyspaceId(1), partition: PartitionId(partition) };
    let wider = QueueId::of(CLIENT, place(30), PartitionPoints::default());
    let mut queues = ClientQueues::new(TIME_OUT);
    for (part, partition) in [(0, 30), (1, 9)] {
        let page = RoutedUnit { partition: PartitionId(partition), unit: vec![1], may_write: false };
        assert!(queues.push(wider, Ticket { number: 1, part }, page, 0));
        assert_eq!(queues.queue_of(queue_key(9)), wider);
    }
    let mut partitions = Vec::new();
    while let Some(number) = queues.first(wider) {
        partitions.extend(queues.place_of(number).map(|place| place.partition));
        queues.take_unit(number, 0);
    }
    partitions
}

#[test]
fn page_in_queue_of_wider_partition_keeps_its_partition() {
    assert_eq!(partitions_of_pages_in_wider_queue(), [PartitionId(30), PartitionId(9)]);
}

#[cfg(debug_assertions)]
#[test]
fn page_that_is_routed_by_its_queue_is_found() {
    crate::planted::plant(Some(Bug::PageRoutedByQueue));
    let partitions = partitions_of_pages_in_wider_queue();
    crate::planted::plant(None);
    assert_eq!(partitions, [PartitionId(30); 2]);
}

#[test]
fn queue_of_the_only_region_is_changed_by_its_split() {
    let address = || Address::new("127.0.0.1:1").unwrap();
    let (keyspace, region) = (KeyspaceId(7), PartitionId(0));
    let node = Node {
        id: NodeId(1),
        state: NodeState::Up,
        incarnation: Incarnation(1),
        manager: address(),
        first_instance: InstanceId(0),
        instances: vec![address()],
    };
    let config = KeyspaceConfig::new("ordered".parse().unwrap(), 7).fitted_to(1).ordered();
    let groups = [ReplicaGroup::of_one(PartitionEpoch(1), InstanceId(0))].into_iter().collect();
    let mut map = ClusterMap::of_one_node(node, 1).unwrap();
    let split = MapChange::SplitRegion { keyspace, region, separator: b"m"[..].into(), share: 128 };
    let mut queue = None;
    for change in [MapChange::CreateKeyspace { id: keyspace, config, groups }, split] {
        let delta = MapDelta { from: map.epoch(), to: map.epoch().next(), changes: vec![change] };
        map = map.apply(&delta).unwrap();
        let found = map.keyspace(keyspace).unwrap();
        let place = PartitionPlace { keyspace, partition: region };
        let id = *queue.get_or_insert_with(|| QueueId::of(CLIENT, place, PartitionPoints::of(found, region)));
        assert_eq!(id.is_unchanged(found), found.group(region).is_some(), "{:?}", map.epoch());
    }
}

#[test]
fn earlier_waiting_unit_ends_at_later_write_across_split() {
    for (waits, written) in [(4, 5), (5, 4)] {
        let of = |bits: u32| queue_of_hashes(bits, if bits == 5 { 10 } else { 5 });
        let mut queues = ClientQueues::new(TIME_OUT);
        assert!(queues.push_first(of(waits), Ticket { number: 1, part: 0 }, routed(vec![1], false), 0));
        let mut over = Vec::new();
        queues.written(queue_of_hashes(written, 3), Ticket { number: 2, part: 0 }, 1, &mut over);
        assert_eq!(tickets(&over), []);
        queues.written(of(written), Ticket { number: 2, part: 0 }, 1, &mut over);
        assert_eq!(tickets(&over), [(1, UnitFailure::NotDone)]);
    }
}
