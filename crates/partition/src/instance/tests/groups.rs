//! Two instances that hold partitions together.

use std::collections::BTreeSet;

use zerohop_engine::disk::simulated::SimulatedDisk;
use zerohop_placement::{Change, Durability, ReplicaGroup};
use zerohop_wire::ids::{InstanceId, KeyspaceId, PartitionEpoch, PartitionId, RequestId};
use zerohop_wire::{Decoded, Decoder, Features, Kind};

use super::super::Time;
use super::bench::{Bench, create, create_of, first_map, next};
use crate::event::Token;

/// Time goes on, batches end, and what the two say to each other arrives. Returns what was said beside leases.
fn play(benches: &mut [Bench; 2], ms: u64) -> Vec<(PartitionId, Kind)> {
    let decoder = Decoder::agreed(zerohop_wire::GREETING_VERSION, Features::default());
    let mut said = Vec::new();
    for _ in 0..ms / 5 {
        for at in 0..2 {
            let bench = &mut benches[at];
            bench.now.unix_ms += 5;
            bench.now.elapsed_ms += 5;
            bench.end();
            for ceiling in std::mem::take(&mut bench.sent.ceilings) {
                bench.instance.ceiling_synced(ceiling);
            }
            for bytes in std::mem::take(&mut bench.sent.to_peers) {
                let other = &mut benches[1 - at];
                let Decoded::Frame { frame, .. } = decoder.decode(&bytes) else { panic!("no frame") };
                let mut scratch = Vec::new();
                let message = frame.message(&mut scratch).expect("was encoded so");
                if !matches!(message.kind(), Kind::LeaseAsk | Kind::LeaseGrant) {
                    said.push((frame.envelope.partition, message.kind()));
                }
                let to = Token { connection: 9, request: RequestId(0) };
                other.instance.request(other.now, to, &frame.envelope, &message, &mut other.sent);
                other.end();
            }
        }
    }
    said
}

fn apply(benches: &mut [Bench; 2], changes: Vec<Change>) {
    let delta = next(benches[0].instance.map(), changes);
    benches.iter_mut().for_each(|bench| bench.apply(&delta));
}

#[test]
fn a_partition_gets_company_is_written_by_both_and_handed_over() {
    let now = Time { unix_ms: 1_000_000, elapsed_ms: 10_000 };
    let one = |instance| Bench::of(instance, SimulatedDisk::new(u64::from(instance)), first_map(2), now).0;
    let mut benches = [one(1), one(2)];
    let delta = create(benches[0].instance.map(), 9, "shared", Durability::Sync);
    benches.iter_mut().for_each(|bench| bench.apply(&delta));
    let partition = benches[0].envelope(9, "k").partition;
    let group = |epoch, primary: u32| {
        let (primary, other) = (InstanceId(primary), InstanceId(3 - primary));
        let group =
            ReplicaGroup { in_sync: vec![other], ..ReplicaGroup::of_one(PartitionEpoch(epoch), primary) };
        vec![Change::SetGroup { keyspace: KeyspaceId(9), partition, group }]
    };
    // Its only member until now, whichever that is, with a record.
    let first = benches[0].instance.map().route(KeyspaceId(9), b"k").expect("is there").instance;
    let first = if first == InstanceId(1) { 0 } else { 1 };
    benches[first].store(9, "k", "alone");
    apply(&mut benches, group(2, first as u32 + 1));
    play(&mut benches, 1_500);
    let request = benches[first].put(9, "k", "together");
    benches[first].end();
    assert_eq!(benches[first].answer(request), None, "the other must have it");
    play(&mut benches, 200);
    assert_eq!(benches[first].answer(request), Some(Ok("done".to_owned())));
    // The other takes over; the first yields, and sends clients on.
    apply(&mut benches, group(3, 2 - first as u32));
    let second = 1 - first;
    let request = benches[second].get(9, "k");
    play(&mut benches, 1_500);
    assert_eq!(benches[second].answer(request), Some(Ok("together".to_owned())));
    let request = benches[first].get(9, "k");
    benches[first].end();
    assert!(matches!(benches[first].answer(request), Some(Err(zerohop_wire::Failure::WrongOwner { .. }))));
}

#[test]
fn idle_shared_partitions_cost_no_step_and_no_message_and_a_write_steps_only_its_own() {
    const PARTITIONS: u32 = 1_024;
    let now = Time { unix_ms: 1_000_000, elapsed_ms: 10_000 };
    let one = |instance| Bench::of(instance, SimulatedDisk::new(u64::from(instance)), first_map(2), now).0;
    let mut benches = [one(1), one(2)];
    let delta =
        create_of(benches[0].instance.map(), (9, "shared"), Durability::Interval { ms: 50 }, PARTITIONS);
    benches.iter_mut().for_each(|bench| bench.apply(&delta));
    let shared = |n: u32| {
        let (primary, other) = (InstanceId(1 + n % 2), InstanceId(2 - n % 2));
        let group = ReplicaGroup { in_sync: vec![other], ..ReplicaGroup::of_one(PartitionEpoch(2), primary) };
        Change::SetGroup { keyspace: KeyspaceId(9), partition: PartitionId(n), group }
    };
    apply(&mut benches, (0..PARTITIONS).map(shared).collect());
    play(&mut benches, 2_000);
    let steps = |benches: &[Bench; 2]| {
        let of = |bench: &Bench| bench.instance.groups.steps();
        let (first, second) = (of(&benches[0]), of(&benches[1]));
        (first.ticks + first.others, second.ticks + second.others)
    };
    let before = steps(&benches);
    let said = play(&mut benches, 5_000);
    assert_eq!((said, steps(&benches)), (Vec::new(), before), "1,000 batches in which nothing happens");
    // One write: the partition's own members are stepped for it, some times each, and nobody else.
    let partition = benches[0].envelope(9, "k").partition;
    let first = (partition.0 % 2) as usize;
    let request = benches[first].put(9, "k", "v");
    let said = play(&mut benches, 5_000);
    assert_eq!(benches[first].answer(request), Some(Ok("done".to_owned())));
    assert!(said.iter().all(|(of, _)| *of == partition), "{said:?}");
    // The entry and its acknowledgement, the commit index and its acknowledgement.
    assert_eq!(said.len(), 4, "{said:?}");
    let after = steps(&benches);
    let spent = after.0 - before.0 + after.1 - before.1;
    assert!(spent <= 16, "{spent} steps for one write");
    // Whoever is not there any more is missed though nothing is asked of it.
    assert!(benches[0].sent.asked.is_empty());
    for _ in 0..200 {
        benches[0].pass_ms(5);
        benches[0].sent.to_peers.clear();
    }
    let asked: BTreeSet<PartitionId> =
        benches[0].sent.asked.iter().map(|(place, _)| place.partition).collect();
    assert_eq!(asked.len(), PARTITIONS as usize / 2, "the removal of the other, from each group led here");
}
