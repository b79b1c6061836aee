//! Keyspaces are split while transactions run over them. A transaction prepared over both halves of a partition is applied in
//! both, or in neither.

use super::*;

/// Two keys of one partition that a split separates, the lower first, and one key of a later partition on another instance.
fn torn(world: &InstanceNetwork) -> [String; 3] {
    let bit = |key: &str| world.hash(key) >> 61 & 1;
    let keys: Vec<String> = (0..200).map(|n| format!("torn-{n}")).collect();
    let mut of_first = keys.iter().filter(|key| world.partition(key) == PartitionId(0));
    let lower = of_first.clone().find(|key| bit(key) == 0).expect("is one");
    let upper = of_first.find(|key| bit(key) == 1).expect("is one");
    let is_elsewhere = |key: &&String| world.holder(key) != world.holder(lower);
    let mut others = keys.iter().filter(|key| world.partition(key) != PartitionId(0));
    let other = others.find(is_elsewhere).expect("is one");
    [lower.clone(), upper.clone(), other.clone()]
}

fn of_three(epoch: u64, primary: u32) -> ReplicaGroup {
    let in_sync = (1..=3).filter(|one| *one != primary).map(InstanceId).collect();
    ReplicaGroup { in_sync, ..ReplicaGroup::of_one(PartitionEpoch(epoch), InstanceId(primary)) }
}

/// All groups have three members.
fn world_of_three() -> InstanceNetwork {
    let mut world = InstanceNetwork::new(3, Durability::Sync);
    for (partition, key) in world.keys().iter().enumerate() {
        let primary = world.holder(key) as u32 + 1;
        world.set_group(PartitionId(partition as u32), of_three(2, primary));
    }
    world.run_batches(1_500);
    world
}

impl InstanceNetwork {
    /// All stored records of the keyspace, visible or not.
    fn records(&mut self) -> u64 {
        let of = |bench: &mut InstanceBench| -> u64 {
            let engine = &mut bench.instance.engine;
            let is_of_keyspace = |(id, _): &(zerohop_engine::PartitionId, _)| {
                super::super::super::engine_name::named(*id).0 == KeyspaceId(KEYSPACE)
            };
            let handles: Vec<_> =
                engine.partitions().filter(is_of_keyspace).map(|(_, handle)| handle).collect();
            handles.into_iter().map(|handle| engine.records(handle).expect("is open")).sum()
        };
        self.benches.iter_mut().map(of).sum()
    }
}

#[test]
fn transaction_prepared_before_split_applies_in_both_children() {
    for is_of_three in [false, true] {
        let mut world =
            if is_of_three { world_of_three() } else { InstanceNetwork::new(2, Durability::Sync) };
        let [lower, upper, other] = torn(&world);
        let (participant, coordinator) = (world.holder(&lower), world.holder(&other));
        assert_ne!(participant, coordinator);
        let parts = world.parts(PartDurability::Sync, &[add(&lower, 7), add(&upper, 8), add(&other, 9)]);
        // The decision is answered, but does not reach the participant.
        let mut lost = 0;
        world.loses = Box::new(move |from, to| {
            lost += usize::from((from, to) == (coordinator, participant));
            (from, to) == (coordinator, participant) && lost > 1
        });
        let request = world.transact(1, &parts);
        world.run_batches(100);
        let answer = world.answer(request).expect("is answered").expect("is done");
        assert!(answer.starts_with("transacted 3"), "{answer}");
        world.split();
        // Long enough for each child to have removed the other's records.
        world.run_batches(1_500);
        let reads = [world.read(&lower), world.read(&upper)];
        world.run_batches(50);
        assert_eq!(reads.map(|read| world.answer(read)), [None, None], "the intents stand in both halves");
        world.loses = Box::new(|_, _| false);
        world.run_batches(3_000);
        assert_eq!(world.value(&lower), Some(Ok("7".to_owned())));
        assert_eq!(world.value(&upper), Some(Ok("8".to_owned())));
        assert_eq!(world.value(&other), Some(Ok("9".to_owned())));
        if !is_of_three {
            assert_eq!(world.records(), 3, "each half is done where it belongs, and there alone");
        }
        world.run_batches(CLEANED_UP_MS + 10_000);
        for bench in &world.benches {
            assert!(bench.instance.transactions_are_idle(), "something is left");
        }
    }
}

#[test]
fn transaction_undecided_before_split_is_aborted() {
    let mut world = InstanceNetwork::new(2, Durability::Sync);
    let [lower, upper, other] = torn(&world);
    let participant = world.holder(&lower);
    let parts = world.parts(PartDurability::Sync, &[add(&lower, 7), add(&upper, 8), add(&other, 9)]);
    world.loses = Box::new(move |from, _| from == participant);
    let request = world.transact(1, &parts);
    world.run_batches(100);
    assert_eq!(world.answer(request), None, "the participant is not heard");
    world.split();
    world.run_batches(50);
    world.loses = Box::new(|_, _| false);
    world.run_batches(3_000);
    let again = world.transact(1, &parts);
    world.run_batches(1_000);
    let answer = world.answer(again).expect("is answered").expect_err("its part has been split");
    // By the client, or by a participant that queries the coordinator's child, which does not know the transaction, whichever
    // comes first.
    let Failure::Aborted { reason, .. } = answer else { panic!("{answer:?}") };
    assert!([AbortReason::Misplaced, AbortReason::Unknown].contains(&reason), "{reason:?}");
    for key in [&lower, &upper, &other] {
        assert_eq!(world.value(key), Some(Err(Failure::NotFound)), "of {key}");
    }
    world.run_batches(CLEANED_UP_MS + 10_000);
    for bench in &world.benches {
        assert!(bench.instance.transactions_are_idle(), "something is left");
    }
}

#[test]
fn decision_after_split_is_sent_by_the_owning_child() {
    let mut world = InstanceNetwork::new(2, Durability::Sync);
    let keys = world.keys();
    let (coordinator, participant) = (world.holder(&keys[3]), world.holder(&keys[0]));
    let parts = world.parts(PartDurability::Sync, &[add(&keys[0], 7), add(&keys[3], 7)]);
    let mut lost = 0;
    world.loses = Box::new(move |from, to| {
        lost += usize::from((from, to) == (coordinator, participant));
        (from, to) == (coordinator, participant) && lost > 1
    });
    let request = world.transact(1, &parts);
    world.run_batches(100);
    let answer = world.answer(request).expect("is answered").expect("is done");
    world.split();
    world.run_batches(300);
    world.loses = Box::new(|_, _| false);
    world.run_batches(3_000);
    world.value_is(&keys[0], "7");
    world.value_is(&keys[3], "7");
    let again = world.transact(1, &parts);
    world.run_batches(100);
    assert_eq!(world.answer(again), Some(Ok(answer)));
    world.run_batches(CLEANED_UP_MS + 10_000);
    for bench in &world.benches {
        assert!(bench.instance.transactions_are_idle(), "something is left");
    }
}

#[cfg(debug_assertions)]
#[test]
fn planted_bugs_of_splits_are_seen() {
    use zerohop_partition::planted::{Bug as PartitionBug, plant as plant_here};
    use zerohop_transaction::planted::{Bug, plant};
    let is_seen =
        || std::panic::catch_unwind(transaction_prepared_before_split_applies_in_both_children).is_err();
    plant(Some(Bug::SiblingsNotNotified));
    let seen = is_seen();
    plant(None);
    assert!(seen, "SiblingsNotNotified is not seen");
    plant_here(Some(PartitionBug::PreparedAppliedInBothChildren));
    let seen = is_seen();
    plant_here(None);
    assert!(seen, "PreparedAppliedInBothChildren is not seen");
}
