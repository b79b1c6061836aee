//! The primary of a participant moves while transactions run: none waits for the repetition of a message, in whichever order the
//! instances learn of the new map.

use super::*;

/// Three instances, and a partition with a copy on each: the participant. The coordinator, partition 3, is not at its primary.
fn world_of_three() -> (InstanceNetwork, PartitionId, u32) {
    let mut world = InstanceNetwork::new(3, Durability::Sync);
    let keys = world.keys();
    let is_elsewhere = |at: &usize| world.holder(&keys[*at]) != world.holder(&keys[3]);
    let participant = (0..3).find(is_elsewhere).expect("is one");
    let (partition, primary) = (PartitionId(participant as u32), world.holder(&keys[participant]) as u32 + 1);
    world.set_group(partition, group(2, primary));
    world.run_batches(1_500);
    (world, partition, primary)
}

fn group(epoch: u64, primary: u32) -> ReplicaGroup {
    let in_sync = (1..=3).filter(|one| *one != primary).map(InstanceId).collect();
    ReplicaGroup { in_sync, ..ReplicaGroup::of_one(PartitionEpoch(epoch), InstanceId(primary)) }
}

#[test]
fn transactions_go_on_at_once_when_the_primary_of_a_participant_moves() {
    const RUNNING: u64 = 4;
    // Three instances in each order.
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        for pause_ms in [0, 5, 15] {
            let (mut world, partition, primary) = world_of_three();
            let keys = world.keys();
            let key = &keys[partition.0 as usize];
            let parts = world.parts(PartDurability::Sync, &[add(key, 7), add(&keys[3], 7)]);
            let change = MapChange::SetGroup {
                keyspace: KeyspaceId(KEYSPACE),
                partition,
                group: group(3, primary % 3 + 1),
            };
            let delta = next(world.map(), vec![change]);
            // Transactions begin before, between and after.
            let mut requests = Vec::new();
            let mut sequences = 1..=RUNNING;
            let mut begin = |world: &mut InstanceNetwork| {
                for sequence in sequences.by_ref().take(1) {
                    requests.push(world.transact(sequence, &parts));
                }
            };
            begin(&mut world);
            for instance in order {
                world.run_batches(pause_ms);
                world.benches[instance].apply(&delta);
                begin(&mut world);
            }
            world.run_batches(150);
            for request in requests {
                let answer = world.answer(request);
                assert!(
                    matches!(&answer, Some(Ok(text)) if text.starts_with("transacted 2")),
                    "order {order:?}, pauses of {pause_ms} ms: {answer:?}"
                );
            }
            world.value_is(key, &(7 * RUNNING).to_string());
        }
    }
}
