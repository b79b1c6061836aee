//! Two instances that share partitions.

use std::collections::BTreeSet;

use zerohop_base::invariant::BrokenInvariant;
use zerohop_engine::disk::Disk;
use zerohop_engine::disk::simulated::SimulatedDisk;
use zerohop_placement::{ClusterMap, Durability, GroupState, MapChange, MapDelta, Node, ReplicaGroup};
use zerohop_wire::ids::{Incarnation, InstanceId, KeyspaceId, PartitionEpoch, PartitionId, RequestId};
use zerohop_wire::{DecodeResult, Decoder, Failure, Features, FrameKind};

use super::super::ClockReading;
use super::bench::{InstanceBench, create, create_of, first_map, next, node};
use zerohop_partition::{Program, Token, Unit};

/// Time passes, batches end, and the messages between the two instances arrive. Returns the messages other than lease messages.
pub(super) fn run_batches(benches: &mut [InstanceBench; 2], ms: u64) -> Vec<(PartitionId, FrameKind)> {
    let decoder = Decoder::with_version(zerohop_wire::GREETING_VERSION, Features::default());
    let mut sent = Vec::new();
    for _ in 0..ms / 5 {
        for at in 0..2 {
            let bench = &mut benches[at];
            bench.now.unix_ms += 5;
            bench.now.elapsed_ms += 5;
            bench.end();
            for timestamp_bound in std::mem::take(&mut bench.sent.timestamp_bounds) {
                bench.instance.timestamp_bound_synced(timestamp_bound);
            }
            for bytes in std::mem::take(&mut bench.sent.to_peers) {
                let other = &mut benches[1 - at];
                let DecodeResult::Frame { frame, .. } = decoder.decode(&bytes) else { panic!("no frame") };
                let mut scratch = Vec::new();
                let message = frame.message(&mut scratch).expect("was encoded so");
                if !matches!(message.kind(), FrameKind::LeaseQuery | FrameKind::LeaseGrant) {
                    sent.push((frame.envelope.partition, message.kind()));
                }
                let to = Token { connection: 9, request: RequestId(0) };
                other.instance.request(other.now, to, &frame.envelope, &message, &mut other.sent);
                other.end();
            }
        }
    }
    sent
}

pub(super) fn apply(benches: &mut [InstanceBench; 2], changes: Vec<MapChange>) {
    let delta = next(benches[0].instance.map(), changes);
    benches.iter_mut().for_each(|bench| bench.apply(&delta));
}

#[test]
fn a_partition_gets_company_is_written_by_both_and_handed_over() {
    let now = ClockReading { unix_ms: 1_000_000, elapsed_ms: 10_000 };
    let one =
        |instance| InstanceBench::of(instance, SimulatedDisk::new(u64::from(instance)), first_map(2), now).0;
    let mut benches = [one(1), one(2)];
    let delta = create(benches[0].instance.map(), 9, "shared", Durability::Sync);
    benches.iter_mut().for_each(|bench| bench.apply(&delta));
    let partition = benches[0].envelope(9, "k").partition;
    let group = |epoch, primary: u32| {
        let (primary, other) = (InstanceId(primary), InstanceId(3 - primary));
        let group =
            ReplicaGroup { in_sync: vec![other], ..ReplicaGroup::of_one(PartitionEpoch(epoch), primary) };
        vec![MapChange::SetGroup { keyspace: KeyspaceId(9), partition, group }]
    };
    // Its only member so far, whichever that is, with a record.
    let first = benches[0].instance.map().route(KeyspaceId(9), b"k").expect("is there").instance;
    let first = if first == InstanceId(1) { 0 } else { 1 };
    benches[first].store(9, "k", "alone");
    apply(&mut benches, group(2, first as u32 + 1));
    run_batches(&mut benches, 1_500);
    let request = benches[first].put(9, "k", "together");
    benches[first].end();
    assert_eq!(benches[first].sent.to_peers.len(), 1, "the other flushes meanwhile");
    assert_eq!(benches[first].answer(request), None, "the other must have it");
    run_batches(&mut benches, 200);
    assert_eq!(benches[first].answer(request), Some(Ok("done".to_owned())));
    // The other instance takes over. The first yields, and redirects clients.
    apply(&mut benches, group(3, 2 - first as u32));
    let second = 1 - first;
    let request = benches[second].get(9, "k");
    run_batches(&mut benches, 1_500);
    assert_eq!(benches[second].answer(request), Some(Ok("together".to_owned())));
    let request = benches[first].get(9, "k");
    benches[first].end();
    assert!(matches!(benches[first].answer(request), Some(Err(Failure::WrongOwner { .. }))));
}

/// Adds to a record.
pub(super) struct Append<'a>(pub(super) &'a str);

impl Program for Append<'_> {
    fn run<D: Disk>(
        &mut self,
        unit: &mut Unit<'_, D>,
        reply: &mut Vec<u8>,
    ) -> Result<bool, Failure<'static>> {
        unit.extend(self.0.as_bytes(), b"+")?;
        reply.extend_from_slice(b"appended");
        Ok(true)
    }
}

/// The primary has logged an atomic batch that the other member does not have yet. The children inherit the log, so they know the
/// outcome. With `delivers`, the other member has the entry before it hears of the split.
#[test]
fn atomic_batch_in_flight_at_a_split_gets_its_outcome_from_the_children() {
    for delivers in [false, true] {
        let now = ClockReading { unix_ms: 1_000_000, elapsed_ms: 10_000 };
        let one = |instance| {
            InstanceBench::of(instance, SimulatedDisk::new(u64::from(instance)), first_map(2), now).0
        };
        let mut benches = [one(1), one(2)];
        let delta = create(benches[0].instance.map(), 9, "shared", Durability::Sync);
        benches.iter_mut().for_each(|bench| bench.apply(&delta));
        let partition = benches[0].envelope(9, "k").partition;
        let first = benches[0].instance.map().route(KeyspaceId(9), b"k").expect("is there").instance;
        let group = ReplicaGroup {
            in_sync: vec![InstanceId(3 - first.0)],
            ..ReplicaGroup::of_one(PartitionEpoch(2), first)
        };
        let first = first.0 as usize - 1;
        benches[first].store(9, "k", "v");
        apply(&mut benches, vec![MapChange::SetGroup { keyspace: KeyspaceId(9), partition, group }]);
        run_batches(&mut benches, 1_500);
        let request = 1 << 40;
        let to = Token { connection: 7, request: RequestId(request) };
        let bench = &mut benches[first];
        let ran = bench.instance.run(
            bench.now,
            to,
            (KeyspaceId(9), partition),
            (&mut Append("k"), &mut Vec::new()),
            &mut bench.sent,
        );
        assert_eq!(ran, Ok(zerohop_partition::ProgramResult::Later));
        bench.end();
        if !delivers {
            bench.sent.to_peers.clear();
        }
        apply(&mut benches, vec![MapChange::SplitKeyspace(KeyspaceId(9))]);
        assert_eq!(benches[first].answer(request), None, "the outcome is not known yet");
        run_batches(&mut benches, 1_500);
        assert_eq!(benches[first].answer(request), Some(Ok("appended".to_owned())), "{delivers}");
        let request = benches[first].get(9, "k");
        run_batches(&mut benches, 200);
        assert_eq!(benches[first].answer(request), Some(Ok("v+".to_owned())));
    }
}

/// The primary has logged an atomic batch that the other member does not have, hands over, and leaves the group. The other member is
/// the only one then, and the batch is lost.
#[test]
fn batch_of_former_primary_that_leaves_its_group_is_answered_as_in_doubt() {
    let now = ClockReading { unix_ms: 1_000_000, elapsed_ms: 10_000 };
    let one =
        |instance| InstanceBench::of(instance, SimulatedDisk::new(u64::from(instance)), first_map(2), now).0;
    let mut benches = [one(1), one(2)];
    let delta = create(benches[0].instance.map(), 9, "shared", Durability::Sync);
    benches.iter_mut().for_each(|bench| bench.apply(&delta));
    let partition = benches[0].envelope(9, "k").partition;
    let first = benches[0].instance.map().route(KeyspaceId(9), b"k").expect("is there").instance;
    let other = InstanceId(3 - first.0);
    let group = |epoch, primary, in_sync: &[InstanceId], followers: &[InstanceId]| {
        let alone = ReplicaGroup::of_one(PartitionEpoch(epoch), primary);
        let group = ReplicaGroup { in_sync: in_sync.into(), followers: followers.into(), ..alone };
        vec![MapChange::SetGroup { keyspace: KeyspaceId(9), partition, group }]
    };
    let place = first.0 as usize - 1;
    apply(&mut benches, group(2, first, &[other], &[]));
    run_batches(&mut benches, 1_500);
    let request = 1 << 40;
    let to = Token { connection: 7, request: RequestId(request) };
    let bench = &mut benches[place];
    let program = (&mut Append("k"), &mut Vec::new());
    let ran = bench.instance.run(bench.now, to, (KeyspaceId(9), partition), program, &mut bench.sent);
    assert_eq!(ran, Ok(zerohop_partition::ProgramResult::Later));
    bench.end();
    bench.sent.to_peers.clear();
    apply(&mut benches, group(3, other, &[], &[first]));
    assert_eq!(benches[place].answer(request), None, "the new primary decides");
    apply(&mut benches, group(4, other, &[], &[]));
    let answer = benches[place].answer(request);
    assert!(matches!(answer, Some(Err(Failure::TimedOut { .. }))), "{answer:?}");
}

#[test]
fn only_the_move_target_is_proposed_for_admission() {
    use zerohop_replication::GroupChange as RequestedChange;
    let now = ClockReading { unix_ms: 1_000_000, elapsed_ms: 10_000 };
    let one =
        |instance| InstanceBench::of(instance, SimulatedDisk::new(u64::from(instance)), first_map(2), now).0;
    let mut benches = [one(1), one(2)];
    let delta = create(benches[0].instance.map(), 9, "shared", Durability::Sync);
    benches.iter_mut().for_each(|bench| bench.apply(&delta));
    let partition = benches[0].envelope(9, "k").partition;
    let first = benches[0].instance.map().route(KeyspaceId(9), b"k").expect("is there").instance;
    let follower = InstanceId(3 - first.get());
    // One copy is enough, so a follower is admitted only for a move.
    let group = |epoch, state| {
        let group =
            ReplicaGroup { followers: vec![follower], ..ReplicaGroup::of_one(PartitionEpoch(epoch), first) };
        vec![MapChange::SetGroup {
            keyspace: KeyspaceId(9),
            partition,
            group: ReplicaGroup { state, ..group },
        }]
    };
    let proposals_within = |benches: &mut [InstanceBench; 2], ms| {
        benches[first.get() as usize - 1].sent.proposals.clear();
        run_batches(benches, ms);
        let mut proposals = benches[first.get() as usize - 1].sent.proposals.clone();
        proposals.dedup();
        proposals.into_iter().map(|(place, change)| (place.epoch.get(), change)).collect::<Vec<_>>()
    };
    apply(&mut benches, group(2, GroupState::Stable));
    assert_eq!(proposals_within(&mut benches, 1_500), []);
    apply(&mut benches, group(3, GroupState::Admitting));
    let proposals = proposals_within(&mut benches, 900);
    assert!(proposals.len() == 1 && proposals[0].0 == 3, "{proposals:?}");
    assert!(
        matches!(proposals[0].1, RequestedChange::Admit(member) if member.instance == follower),
        "{proposals:?}"
    );
    apply(&mut benches, group(4, GroupState::Stable));
    assert_eq!(proposals_within(&mut benches, 1_500), []);
}

/// Removal takes a little room as well. A member that was removed without room is removed all the same. A member that returns
/// starts again once there is room, without another map.
#[test]
fn full_disk_does_not_block_leaving_or_rejoining_a_group() {
    let now = ClockReading { unix_ms: 1_000_000, elapsed_ms: 10_000 };
    let one =
        |instance| InstanceBench::of(instance, SimulatedDisk::new(u64::from(instance)), first_map(2), now).0;
    let mut benches = [one(1), one(2)];
    let delta = create_of(benches[0].instance.map(), (9, "shared"), Durability::Sync, 1);
    benches.iter_mut().for_each(|bench| bench.apply(&delta));
    let primary = benches[0].instance.map().route(KeyspaceId(9), b"k").expect("is there").instance;
    let other = InstanceId(3 - primary.get());
    let (first, second) = (primary.get() as usize - 1, other.get() as usize - 1);
    let group = |epoch, in_sync: &[InstanceId], followers: &[InstanceId]| {
        let alone = ReplicaGroup::of_one(PartitionEpoch(epoch), primary);
        let group = ReplicaGroup { in_sync: in_sync.into(), followers: followers.into(), ..alone };
        vec![MapChange::SetGroup { keyspace: KeyspaceId(9), partition: PartitionId(0), group }]
    };
    let holds = |benches: &[InstanceBench; 2]| {
        benches[second].instance.replicas().filter(|(_, _, replica)| !replica.is_lone()).count()
    };
    apply(&mut benches, group(2, &[other], &[]));
    run_batches(&mut benches, 1_500);
    benches[first].put(9, "k", "both");
    run_batches(&mut benches, 200);
    benches[second].disk.set_capacity(Some(0));
    apply(&mut benches, group(3, &[], &[]));
    assert_eq!(holds(&benches), 0);
    apply(&mut benches, group(4, &[], &[other]));
    run_batches(&mut benches, 1_500);
    assert_eq!(holds(&benches), 0, "there is no room");
    benches[second].disk.set_capacity(None);
    run_batches(&mut benches, 1_500);
    assert_eq!(holds(&benches), 1);
}

#[test]
fn recovering_group_and_unlisted_process_do_not_serve() {
    let mut bench = InstanceBench::new();
    let delta = create(bench.instance.map(), 2, "papers", Durability::Sync);
    bench.apply(&delta);
    bench.store(2, "a", "1");
    let partition = bench.envelope(2, "a").partition;
    let map = ClusterMap::clone(bench.instance.map());
    // The control group has decided that another start of this process is running, and that its groups recover.
    for (incarnation, state) in [(11, GroupState::Recovering), (10, GroupState::Stable)] {
        let map = map.apply(&restarted(&map, incarnation, state)).expect("follows");
        let InstanceBench { disk, instance, now, .. } = bench;
        drop(instance);
        disk.crash();
        let (mut other, _) = InstanceBench::on(disk, map, now);
        let request = other.get(2, "a");
        other.end();
        assert!(matches!(other.answer(request), Some(Err(Failure::WrongOwner { .. }))));
        // The instance can report the end of the log, and serves it once it is chosen.
        let ends = other.instance.log_ends(&[(KeyspaceId(2), partition), (KeyspaceId(999), partition)]);
        assert!(ends.len() == 1 && ends[0].1.last.index.0 > 0, "{ends:?}");
        other.apply(&restarted(other.instance.map(), 11, GroupState::Stable));
        for _ in 0..200 {
            other.advance_ms(5);
            for timestamp_bound in std::mem::take(&mut other.sent.timestamp_bounds) {
                other.instance.timestamp_bound_synced(timestamp_bound);
            }
        }
        assert_eq!(other.value(2, "a"), Ok("1".to_owned()));
        bench = other;
    }
}

/// The node has another incarnation, and all its groups have another epoch.
fn restarted(map: &ClusterMap, incarnation: u64, state: GroupState) -> MapDelta {
    let groups = map.partitions_of(InstanceId(1)).map(|(keyspace, partition, group)| {
        let group = ReplicaGroup { epoch: group.epoch.next(), state, ..group.to_group() };
        MapChange::SetGroup { keyspace, partition, group }
    });
    let named = MapChange::PutNode(Node { incarnation: Incarnation(incarnation), ..node(1) });
    next(map, std::iter::once(named).chain(groups).collect())
}

/// An invariant of one partition's primary is broken. Its copy stops, the other copy takes over, and other partitions go on.
#[cfg(debug_assertions)]
#[test]
fn broken_primary_is_replaced_and_other_partitions_go_on() {
    use zerohop_partition::planted::{Bug, plant};
    use zerohop_replication::GroupChange as RequestedChange;
    let now = ClockReading { unix_ms: 1_000_000, elapsed_ms: 10_000 };
    let one =
        |instance| InstanceBench::of(instance, SimulatedDisk::new(u64::from(instance)), first_map(2), now).0;
    let mut benches = [one(1), one(2)];
    let shared = create_of(benches[0].instance.map(), (9, "shared"), Durability::Sync, 1);
    benches.iter_mut().for_each(|bench| bench.apply(&shared));
    let alone = create_of(benches[0].instance.map(), (10, "alone"), Durability::Sync, 1);
    benches.iter_mut().for_each(|bench| bench.apply(&alone));
    let primary = |benches: &[InstanceBench; 2], keyspace: u32| {
        benches[0].instance.map().route(KeyspaceId(keyspace), b"k").expect("is there").instance
    };
    let broken = primary(&benches, 9);
    let other = InstanceId(3 - broken.get());
    let (first, second) = (broken.get() as usize - 1, other.get() as usize - 1);
    let group = |epoch, primary, in_sync: &[InstanceId], followers: &[InstanceId]| {
        let alone = ReplicaGroup::of_one(PartitionEpoch(epoch), primary);
        let group = ReplicaGroup { in_sync: in_sync.into(), followers: followers.into(), ..alone };
        vec![MapChange::SetGroup { keyspace: KeyspaceId(9), partition: PartitionId(0), group }]
    };
    apply(&mut benches, group(2, broken, &[other], &[]));
    run_batches(&mut benches, 1_500);
    let request = benches[first].put(9, "k", "before");
    run_batches(&mut benches, 200);
    assert_eq!(benches[first].answer(request), Some(Ok("done".to_owned())));

    plant(Some(Bug::InvariantBroken));
    let request = benches[first].put(9, "k", "lost");
    plant(None);
    assert_eq!(benches[first].sent.broken, [(PartitionId(0), "the epoch marker is in the log")]);
    let answer = benches[first].answer(request);
    assert!(matches!(answer, Some(Err(Failure::TimedOut { .. }))), "its outcome is not known");
    let stats = benches[first].instance.stats();
    let named = |(keyspace, partition, broken): &(KeyspaceId, PartitionId, BrokenInvariant)| {
        (keyspace.0, partition.0, broken.rule)
    };
    let found: Vec<_> = stats.broken_invariants.iter().map(named).collect();
    assert_eq!(found, [(9, 0, "the epoch marker is in the log")]);
    let errors = stats.errors.iter().filter(|text| text.contains("the epoch marker is in the log"));
    assert_eq!(errors.count(), 1, "{:?}", stats.errors);
    // It acknowledges nothing, however long it takes until another member is primary, and asks for that.
    let last = |bench: &InstanceBench| {
        bench.instance.replicas().find(|(_, _, one)| !one.is_lone()).expect("is shared").2.log_end().last
    };
    let before = last(&benches[first]);
    run_batches(&mut benches, 1_000);
    let (write, read) = (benches[first].put(9, "k", "refused"), benches[first].get(9, "k"));
    run_batches(&mut benches, 1_000);
    for request in [write, read] {
        assert!(matches!(benches[first].answer(request), Some(Err(Failure::Unavailable { .. }))));
    }
    assert_eq!(last(&benches[first]), before, "its log gets no entry");
    let proposals = &benches[first].sent.proposals;
    let leaves = |change: &RequestedChange| matches!(change, RequestedChange::Remove(member) if member.instance == broken);
    assert!(
        proposals.iter().any(|(place, change)| place.epoch.get() == 2 && leaves(change)),
        "{proposals:?}"
    );

    // The control group does so.
    apply(&mut benches, group(3, other, &[], &[broken]));
    run_batches(&mut benches, 2_000);
    let value = benches[second].get(9, "k");
    run_batches(&mut benches, 200);
    let value = benches[second].answer(value).expect("is answered");
    assert!(matches!(value.as_deref(), Ok("before" | "lost")), "{value:?}");
    let request = benches[second].put(9, "k", "after");
    run_batches(&mut benches, 200);
    assert_eq!(benches[second].answer(request), Some(Ok("done".to_owned())));
    let request = benches[first].get(9, "k");
    run_batches(&mut benches, 200);
    assert!(matches!(benches[first].answer(request), Some(Err(Failure::WrongOwner { .. }))));
    assert!(
        !benches[second].sent.proposals.iter().any(|(_, change)| matches!(change, RequestedChange::Admit(_)))
    );
    // Other partitions go on, on this instance too, and its folder closes in order.
    let place = primary(&benches, 10).get() as usize - 1;
    benches[place].store(10, "k", "value");
    assert_eq!(benches[place].value(10, "k"), Ok("value".to_owned()));
    let [one, two] = benches;
    one.instance.close().expect("closes");
    two.instance.close().expect("closes");
}

/// The only copy of a partition stops as well, and is served again after the next start.
#[cfg(debug_assertions)]
#[test]
fn broken_sole_copy_stops_until_the_next_start() {
    use zerohop_partition::planted::{Bug, plant};
    let mut bench = InstanceBench::new();
    for (id, name) in [(2, "papers"), (3, "others")] {
        let delta = create_of(bench.instance.map(), (id, name), Durability::Sync, 1);
        bench.apply(&delta);
        bench.store(id, "a", "1");
    }
    plant(Some(Bug::InvariantBroken));
    let write = bench.put(2, "a", "2");
    plant(None);
    bench.end();
    assert!(matches!(bench.answer(write), Some(Err(Failure::TimedOut { .. }))), "its outcome is not known");
    assert_eq!(bench.sent.broken, [(PartitionId(0), "the epoch marker is in the log")]);
    for _ in 0..20 {
        bench.advance_ms(100);
    }
    assert!(matches!(bench.value(2, "a"), Err(Failure::Unavailable { .. })));
    bench.store(3, "a", "2");
    assert_eq!(bench.value(3, "a"), Ok("2".to_owned()));
    assert_eq!(bench.instance.stats().broken_invariants.len(), 1);
    let (mut bench, _) = bench.crash();
    let value = bench.value(2, "a");
    assert!(matches!(value.as_deref(), Ok("1" | "2")), "{value:?}");
    bench.store(2, "a", "3");
    assert_eq!(bench.value(3, "a"), Ok("2".to_owned()));
}

#[test]
fn start_without_map_removes_no_partition() {
    let mut bench = InstanceBench::new();
    let delta = create(bench.instance.map(), 2, "papers", Durability::Sync);
    bench.apply(&delta);
    bench.store(2, "a", "1");
    let map = ClusterMap::clone(bench.instance.map());
    let InstanceBench { disk, instance, now, .. } = bench;
    drop(instance);
    disk.crash();
    let (mut bench, opened) = InstanceBench::on(disk, ClusterMap::default(), now);
    assert_eq!((opened.partitions, opened.removed), (0, 0));
    bench.apply(&map.to_delta());
    assert_eq!(bench.value(2, "a"), Ok("1".to_owned()));
}

#[test]
fn idle_replicated_partitions_take_no_steps_or_messages() {
    const PARTITIONS: u32 = 1_024;
    let now = ClockReading { unix_ms: 1_000_000, elapsed_ms: 10_000 };
    let one =
        |instance| InstanceBench::of(instance, SimulatedDisk::new(u64::from(instance)), first_map(2), now).0;
    let mut benches = [one(1), one(2)];
    // Scrubbing continues at its own pace, over one partition after the other.
    benches.iter_mut().for_each(|bench| bench.instance.set_scrub(0));
    let delta =
        create_of(benches[0].instance.map(), (9, "shared"), Durability::Interval { ms: 50 }, PARTITIONS);
    benches.iter_mut().for_each(|bench| bench.apply(&delta));
    let shared = |n: u32| {
        let (primary, other) = (InstanceId(1 + n % 2), InstanceId(2 - n % 2));
        let group = ReplicaGroup { in_sync: vec![other], ..ReplicaGroup::of_one(PartitionEpoch(2), primary) };
        MapChange::SetGroup { keyspace: KeyspaceId(9), partition: PartitionId(n), group }
    };
    apply(&mut benches, (0..PARTITIONS).map(shared).collect());
    run_batches(&mut benches, 2_000);
    let steps = |benches: &[InstanceBench; 2]| {
        let of = |bench: &InstanceBench| bench.instance.partitions.steps();
        let (first, second) = (of(&benches[0]), of(&benches[1]));
        (first.ticks + first.others, second.ticks + second.others)
    };
    let before = steps(&benches);
    let sent = run_batches(&mut benches, 5_000);
    assert_eq!((sent, steps(&benches)), (Vec::new(), before), "1,000 batches in which nothing happens");
    // For one write only the partition's own members are stepped, some times each.
    let partition = benches[0].envelope(9, "k").partition;
    let first = (partition.0 % 2) as usize;
    let request = benches[first].put(9, "k", "v");
    let sent = run_batches(&mut benches, 5_000);
    assert_eq!(benches[first].answer(request), Some(Ok("done".to_owned())));
    assert!(sent.iter().all(|(of, _)| *of == partition), "{sent:?}");
    // The entry and its acknowledgement, the commit index and its acknowledgement.
    assert_eq!(sent.len(), 4, "{sent:?}");
    let after = steps(&benches);
    let spent = after.0 - before.0 + after.1 - before.1;
    assert!(spent <= 16, "{spent} steps for one write");
    // An instance that stops no longer hears its members, and proposes no change.
    let InstanceBench { instance, sent, now, .. } = &mut benches[1];
    instance.stop(*now, sent);
    for _ in 0..200 {
        benches[1].advance_ms(5);
        benches[1].sent.to_peers.clear();
    }
    assert!(benches[1].sent.proposals.is_empty());
    // The loss of a member is noticed although no request needs it.
    assert!(benches[0].sent.proposals.is_empty());
    for _ in 0..200 {
        benches[0].advance_ms(5);
        benches[0].sent.to_peers.clear();
    }
    let proposed: BTreeSet<PartitionId> =
        benches[0].sent.proposals.iter().map(|(place, _)| place.partition).collect();
    assert_eq!(proposed.len(), PARTITIONS as usize / 2, "the removal of the other, from each group led here");
}
