//! Keyspaces that are dropped or split while transactions between them and others are in progress.

use zerohop_placement::PendingSplit;

use super::*;

const OTHER: u32 = KEYSPACE + 1;

impl InstanceNetwork {
    fn create_other(&mut self, id: u32) {
        let delta = create(self.map(), id, "other", Durability::Sync);
        self.benches.iter_mut().for_each(|bench| bench.apply(&delta));
    }

    fn begin_drop_keyspace(&mut self, id: u32) {
        let delta = next(self.map(), vec![MapChange::BeginDropKeyspace(KeyspaceId(id))]);
        self.benches.iter_mut().for_each(|bench| bench.apply(&delta));
    }

    /// Whether all instances have reported for the present map that nothing is in progress in a keyspace.
    fn is_drained(&mut self, id: u32) -> bool {
        let epoch = self.map().epoch();
        self.benches.iter_mut().all(|bench| bench.sent.drained.contains(&(KeyspaceId(id), epoch)))
    }

    fn drop_keyspace(&mut self, id: u32) {
        let delta = next(self.map(), vec![MapChange::DropKeyspace(KeyspaceId(id))]);
        self.benches.iter_mut().for_each(|bench| bench.apply(&delta));
    }

    /// A transaction over the first partition of one keyspace, and the last of another, which is the coordinator.
    fn transact_over_both(&mut self, sequence: u64, other: u32) -> (usize, u64) {
        let keys = self.keys();
        let mut parts = self.parts(PartDurability::Sync, &[insert(&keys[0], "new"), insert(&keys[3], "new")]);
        parts[1].routing_key.keyspace = KeyspaceId(other);
        let stamp = Stamp {
            session: SESSION,
            sequence: Sequence(sequence),
            lowest_unanswered: Sequence(1),
            seen: Timestamp::ZERO,
        };
        // Keyspaces of one seed hash alike, and have the same placement.
        let holder = self.holder(&keys[3]);
        let envelope = self.benches[holder].envelope(other, &keys[3]);
        let message = Message::Transact(Transact { stamp, parts: &encode_parts(&parts) });
        (holder, self.benches[holder].send_request(envelope, &message))
    }

    fn begin_split(&mut self, id: u32) {
        let change = MapChange::BeginSplit { keyspace: KeyspaceId(id), split: PendingSplit::Keyspace };
        let delta = next(self.map(), vec![change]);
        self.benches.iter_mut().for_each(|bench| bench.apply(&delta));
    }

    /// Whether an instance has reported for the present map that it is ready to split a keyspace.
    fn is_ready_to_split(&self, bench: usize, id: u32) -> bool {
        self.benches[bench].sent.drained.contains(&(KeyspaceId(id), self.map().epoch()))
    }

    fn is_idle(&self) -> bool {
        self.benches.iter().all(|bench| bench.instance.transactions_are_idle())
    }
}

#[test]
fn prepared_part_of_dropped_keyspace_is_released() {
    let mut world = InstanceNetwork::new(2, Durability::Sync);
    world.create_other(OTHER);
    let keys = world.keys();
    assert_eq!((world.holder(&keys[0]), world.holder(&keys[3])), (0, 1));
    world.loses = Box::new(|from, _| from == 0);
    let request = world.transact_over_both(1, OTHER);
    world.run_batches(100);
    assert_eq!(world.answer(request), None);
    world.drop_keyspace(OTHER);
    world.loses = Box::new(|_, _| false);
    world.run_batches(100);
    let failure = world.answer(request).expect("is answered").expect_err("its coordinator is gone");
    assert!(matches!(failure, Failure::TimedOut { .. } | Failure::WrongOwner { .. }), "{failure:?}");
    let read = world.read(&keys[0]);
    world.run_batches(1_000);
    assert_eq!(world.answer(read), None, "it may yet be decided, for all that is known");
    world.run_batches(10_000);
    assert!(world.answer(read).expect("is answered").is_err(), "it has waited too long");
    assert_eq!(world.value(&keys[0]), Some(Err(Failure::NotFound)));
    world.run_batches(1_000);
    assert!(world.is_idle(), "nothing is left");
    world.create_other(OTHER + 1);
    let request = world.transact_over_both(1, OTHER + 1);
    world.run_batches(100);
    assert!(world.answer(request).expect("is answered").expect("is done").starts_with("transacted 2"));
    world.value_is(&keys[0], "new");
}

#[test]
fn decision_ends_if_participant_keyspace_is_dropped() {
    let mut world = InstanceNetwork::new(2, Durability::Sync);
    world.create_other(OTHER);
    world.lose_decisions();
    let request = world.transact_over_both(1, OTHER);
    while world.benches[1].sent.answers.is_empty() {
        world.run_batches(5);
    }
    assert!(world.answer(request).expect("is there").expect("is done").starts_with("transacted 2"));
    world.drop_keyspace(KEYSPACE);
    world.loses = Box::new(|_, _| false);
    world.run_batches(5_000);
    assert!(!world.is_idle(), "an old map may not have it yet");
    world.run_batches(8_000);
    assert!(world.is_idle(), "nothing is left");
}

/// Whether a keyspace counts as drained although its participant has not heard of a decision that was acknowledged.
#[cfg(debug_assertions)]
fn is_drained_before_its_decisions_end() -> bool {
    let mut world = InstanceNetwork::new(2, Durability::Sync);
    world.create_other(OTHER);
    world.lose_decisions();
    let request = world.transact_over_both(1, OTHER);
    while world.benches[1].sent.answers.is_empty() {
        world.run_batches(5);
    }
    assert!(world.answer(request).expect("is there").expect("is done").starts_with("transacted 2"));
    world.begin_drop_keyspace(OTHER);
    world.run_batches(1_000);
    world.is_drained(OTHER)
}

#[cfg(debug_assertions)]
#[test]
fn keyspace_that_counts_as_drained_early_is_found() {
    use zerohop_partition::planted::{Bug, plant};
    assert!(!is_drained_before_its_decisions_end());
    plant(Some(Bug::KeyspaceNotDrained));
    let is_early = is_drained_before_its_decisions_end();
    plant(None);
    assert!(is_early);
}

#[test]
fn dropping_keyspace_drains_after_its_decisions() {
    let mut world = InstanceNetwork::new(2, Durability::Sync);
    world.create_other(OTHER);
    let keys = world.keys();
    world.lose_decisions();
    let request = world.transact_over_both(1, OTHER);
    while world.benches[1].sent.answers.is_empty() {
        world.run_batches(5);
    }
    assert!(world.answer(request).expect("is there").expect("is done").starts_with("transacted 2"));
    world.begin_drop_keyspace(OTHER);
    world.run_batches(3_000);
    assert!(!world.is_drained(OTHER), "the participant has not heard what was acknowledged");
    let gone = Some(Err(Failure::UnknownKeyspace { keyspace: KeyspaceId(OTHER) }));
    let holder = world.holder(&keys[3]);
    let put = (holder, world.benches[holder].put(OTHER, &keys[3], "later"));
    let again = world.transact_over_both(2, OTHER);
    // A client that repeats a completed transaction gets its outcome.
    let repeated = world.transact_over_both(1, OTHER);
    world.run_batches(100);
    assert_eq!(world.answer(put), gone);
    let refused = world.answer(again).expect("is answered").expect_err("nothing begins");
    assert!(matches!(refused, Failure::Aborted { reason: AbortReason::Misplaced, .. }), "{refused:?}");
    assert!(world.answer(repeated).expect("is there").expect("is done").starts_with("transacted 2"));
    world.loses = Box::new(|_, _| false);
    world.run_batches(1_500);
    assert!(world.is_drained(OTHER));
    world.drop_keyspace(OTHER);
    world.value_is(&keys[0], "new");
    world.run_batches(15_000);
    world.value_is(&keys[0], "new");
    assert!(world.is_idle(), "nothing is left");
}

#[test]
fn draining_keyspace_refuses_new_parts_and_waits_for_prepared_ones() {
    let mut world = InstanceNetwork::new(2, Durability::Sync);
    world.create_other(OTHER);
    // The participant's answers are lost: it is prepared, and nothing is decided.
    world.loses = Box::new(|from, _| from == 0);
    let request = world.transact_over_both(1, OTHER);
    world.run_batches(100);
    assert_eq!(world.answer(request), None);
    world.begin_drop_keyspace(KEYSPACE);
    world.run_batches(200);
    assert!(!world.is_drained(KEYSPACE), "it is prepared there");
    let again = world.transact_over_both(2, OTHER);
    world.run_batches(100);
    let refused = world.answer(again).expect("is answered").expect_err("a part is in a closed keyspace");
    assert!(matches!(refused, Failure::Aborted { reason: AbortReason::Misplaced, .. }), "{refused:?}");
    world.loses = Box::new(|_, _| false);
    world.run_batches(1_500);
    assert!(
        world.answer(request).expect("is answered").expect("what runs is done").starts_with("transacted 2")
    );
    assert!(world.is_drained(KEYSPACE));
    world.drop_keyspace(KEYSPACE);
    world.run_batches(15_000);
    assert!(world.is_idle(), "nothing is left");
}

#[test]
fn participant_in_draining_keyspace_refuses_unaware_coordinator() {
    let mut world = InstanceNetwork::new(2, Durability::Sync);
    world.create_other(OTHER);
    let delta = next(world.map(), vec![MapChange::BeginDropKeyspace(KeyspaceId(KEYSPACE))]);
    world.benches[0].apply(&delta);
    world.run_batches(100);
    let request = world.transact_over_both(1, OTHER);
    world.run_batches(1_000);
    let refused = world.answer(request).expect("is answered").expect_err("nothing begins there");
    assert!(matches!(refused, Failure::Aborted { reason: AbortReason::Misplaced, .. }), "{refused:?}");
    let word = (KeyspaceId(KEYSPACE), delta.to);
    assert!(world.benches[0].sent.drained.contains(&word) && world.benches[1].sent.drained.is_empty());
    world.benches[1].apply(&delta);
    world.run_batches(100);
    assert!(world.benches[1].sent.drained.contains(&word));
}

#[test]
fn drained_report_is_repeated_with_backoff() {
    let mut world = InstanceNetwork::new(2, Durability::Sync);
    world.create_other(OTHER);
    world.begin_drop_keyspace(OTHER);
    let drained = |world: &mut InstanceNetwork| std::mem::take(&mut world.benches[0].sent.drained);
    world.run_batches(10_000);
    let epoch = world.map().epoch();
    assert_eq!(drained(&mut world), vec![(KeyspaceId(OTHER), epoch); 5], "at 0, 0.5, 1.5, 3.5 and 7.5 s");
    // Changes elsewhere invalidate no report.
    world.drop_keyspace(KEYSPACE);
    world.run_batches(1_000);
    assert_eq!(drained(&mut world), vec![]);
    world.begin_drop_keyspace(OTHER);
    world.run_batches(1_000);
    let epoch = world.map().epoch();
    assert_eq!(drained(&mut world), vec![(KeyspaceId(OTHER), epoch); 2]);
    let keyspaces = world.benches[0].instance.stats().keyspaces;
    let drained: Vec<KeyspaceId> =
        keyspaces.iter().filter(|(_, one)| one.is_drained).map(|(id, _)| *id).collect();
    assert_eq!(drained, [KeyspaceId(OTHER)]);
}

/// No copy of the coordinator's partition knows that the other keyspace is being dropped.
#[test]
fn drained_keyspace_refuses_transactions_of_unaware_coordinator_group() {
    for copies in [1u32, 2] {
        let mut world = InstanceNetwork::new(4, Durability::Sync);
        world.create_other(OTHER);
        let keys = world.keys();
        let (closed, decides) = (world.holder(&keys[0]) as u32 + 1, world.holder(&keys[3]) as u32 + 1);
        assert_ne!(closed, decides);
        let mut rest = (1..=4).filter(|one| *one != closed && *one != decides);
        let (closed_follower, coordinator_follower) = (rest.next().unwrap(), rest.next().unwrap());
        for keyspace in [KEYSPACE, OTHER].map(KeyspaceId) {
            for (partition, primary, follower) in
                [(0, closed, closed_follower), (3, decides, coordinator_follower)]
            {
                let in_sync = if copies == 2 { vec![InstanceId(follower)] } else { vec![] };
                let alone = ReplicaGroup::of_one(PartitionEpoch(2), InstanceId(primary));
                let (partition, group) = (PartitionId(partition), ReplicaGroup { in_sync, ..alone });
                let delta = next(world.map(), vec![MapChange::SetGroup { keyspace, partition, group }]);
                world.benches.iter_mut().for_each(|bench| bench.apply(&delta));
            }
        }
        world.run_batches(3_000);
        let delta = next(world.map(), vec![MapChange::BeginDropKeyspace(KeyspaceId(KEYSPACE))]);
        for knows in [closed, closed_follower] {
            world.benches[knows as usize - 1].apply(&delta);
        }
        world.run_batches(1_000);
        let word = (KeyspaceId(KEYSPACE), delta.to);
        assert!(world.benches[closed as usize - 1].sent.drained.contains(&word), "{copies} copies");
        let request = world.transact_over_both(1, OTHER);
        world.run_batches(2_000);
        let refused = world.answer(request).expect("is answered").expect_err("nothing begins there");
        let is_misplaced = matches!(refused, Failure::Aborted { reason: AbortReason::Misplaced, .. });
        assert!(is_misplaced, "{copies} copies: {refused:?}");
    }
}

#[test]
fn coordinator_is_ready_after_its_decisions_and_participant_before_them() {
    let mut world = InstanceNetwork::new(2, Durability::Sync);
    world.create_other(OTHER);
    let keys = world.keys();
    assert_eq!((world.holder(&keys[0]), world.holder(&keys[3])), (0, 1));
    // The participant's answers are lost: it is prepared, and nothing is decided.
    world.loses = Box::new(|from, _| from == 0);
    let request = world.transact_over_both(1, OTHER);
    world.run_batches(100);
    world.begin_split(KEYSPACE);
    world.run_batches(200);
    assert!(world.is_ready_to_split(0, KEYSPACE), "each child can complete its half of what is prepared");
    world.begin_split(OTHER);
    world.run_batches(200);
    assert!(!world.is_ready_to_split(1, OTHER), "its own part is not logged yet");
    let later = world.transact_over_both(2, OTHER);
    world.run_batches(100);
    let refused = world.answer(later).expect("is answered").expect_err("nothing begins");
    assert!(matches!(refused, Failure::Busy { .. }), "{refused:?}");
    world.loses = Box::new(|_, _| false);
    world.run_batches(1_500);
    assert!(
        world.answer(request).expect("is answered").expect("what runs is done").starts_with("transacted 2")
    );
    assert!(world.is_ready_to_split(1, OTHER));
    // A client that repeats a completed transaction gets its outcome.
    let repeated = world.transact_over_both(1, OTHER);
    world.run_batches(100);
    assert!(world.answer(repeated).expect("is there").expect("is done").starts_with("transacted 2"));
    let delta = next(world.map(), vec![MapChange::CancelSplit(KeyspaceId(OTHER))]);
    world.benches.iter_mut().for_each(|bench| bench.apply(&delta));
    let later = world.transact_over_both(3, OTHER);
    world.run_batches(100);
    assert!(world.answer(later).expect("is answered").expect("is done").starts_with("transacted 2"));
}
