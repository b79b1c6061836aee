//! Transactions on a full disk. Those that only remove are executed, as a single removal is. Those that need room are refused,
//! and leave nothing behind.

use super::*;
use zerohop_wire::messages::Remove;

pub(super) const RESERVE_BYTES: u64 = 8 << 20;
const PLENTY_BYTES: u64 = 1 << 40;

/// Long enough for the mark of a removal to be longer than entries that are always admitted.
const KEY_BYTES: usize = 3000;

impl InstanceNetwork {
    /// Leaves this much room on every disk, and makes the engines notice it: they query the disk again once a certain amount was
    /// written.
    pub(super) fn leave_free_bytes(&mut self, left_bytes: u64) {
        self.benches.iter_mut().for_each(|bench| bench.end());
        self.leave_room(left_bytes);
        // A long write is refused while there is room for shorter ones.
        for bytes in [1 << 20, 32 << 10, 1 << 10] {
            let long = "v".repeat(bytes);
            for (number, key) in self.keys().into_iter().enumerate() {
                let holder = self.holder(&key);
                let bench = &mut self.benches[holder];
                let is_full = (0..40).any(|_| {
                    let request = bench.put(KEYSPACE, &key, &long);
                    bench.end();
                    bench.answer(request) == Some(Err(Failure::DiskFull))
                });
                assert!(is_full, "{number}: {bytes}");
            }
        }
    }

    fn leave_room(&mut self, left_bytes: u64) {
        for bench in &mut self.benches {
            bench.disk.set_capacity(PLENTY_BYTES);
            let used = PLENTY_BYTES - bench.disk.free_bytes().expect("is asked");
            bench.disk.set_capacity(used + left_bytes);
        }
    }

    fn free(&mut self) {
        self.benches.iter_mut().for_each(|bench| bench.disk.set_capacity(None));
    }

    /// Long keys, two of each partition.
    fn long_keys(&self) -> Vec<String> {
        let key = |partition: u32| {
            let long = |n: u32| format!("{}-{n}", "k".repeat(KEY_BYTES));
            let own = move |key: &String| self.partition(key) == PartitionId(partition);
            (0..).map(long).filter(own).take(2).collect::<Vec<String>>()
        };
        (0..4).flat_map(key).collect()
    }
}

#[test]
fn full_disk_accepts_removals_and_refuses_writes() {
    for (durability, part_durability) in [
        (Durability::Sync, PartDurability::Sync),
        (Durability::Interval { ms: 100 }, PartDurability::Interval),
    ] {
        let mut world = InstanceNetwork::reserving(RESERVE_BYTES, 2, durability);
        let keys = world.long_keys();
        for key in &keys {
            let holder = world.holder(key);
            world.benches[holder].store(KEYSPACE, key, "old");
        }
        world.run_batches(300);
        world.leave_free_bytes(RESERVE_BYTES + (1 << 20));

        let parts = world.parts(part_durability, &[insert(&keys[0], "new"), insert(&keys[7], "new")]);
        let answer = world.transact(1, &parts);
        world.run_batches(200);
        let refused = world.answer(answer).expect("is answered").expect_err("has no room");
        assert!(matches!(refused, Failure::Aborted { reason: AbortReason::NoRoom, .. }), "{refused:?}");
        for key in &keys {
            world.value_is(key, "old");
        }

        // The removal in the same transaction is refused with the write, however short. The journal has given space back meanwhile, of
        // which this leaves nothing.
        world.leave_room(RESERVE_BYTES * 3 / 4);
        world.run_batches(300);
        let mixed = [insert(&keys[0], "short"), (keys[7].clone(), WriteChange::Remove(Remove))];
        let parts = world.parts(part_durability, &mixed);
        let is_refused = (2..100).any(|sequence| {
            let answer = world.transact(sequence, &parts);
            world.run_batches(200);
            match world.answer(answer).expect("is answered").expect_err("has no room") {
                // Dead space may be given back.
                Failure::Aborted { reason: AbortReason::Overloaded, .. } => false,
                Failure::Aborted { reason: AbortReason::NoRoom, .. } => true,
                other => panic!("{other:?}"),
            }
        });
        assert!(is_refused, "it waits for ever");
        world.value_is(&keys[7], "old");

        let all: Vec<_> = keys.iter().map(|key| (key.clone(), WriteChange::Remove(Remove))).collect();
        let parts = world.parts(part_durability, &all);
        let answer = world.transact(103, &parts);
        world.run_batches(200);
        assert!(world.answer(answer).expect("is answered").is_ok());
        for key in &keys {
            assert_eq!(world.value(key), Some(Err(Failure::NotFound)));
        }

        world.free();
        world.run_batches(300);
        let parts = world.parts(part_durability, &[insert(&keys[0], "new"), insert(&keys[7], "new")]);
        let answer = world.transact(104, &parts);
        world.run_batches(200);
        assert!(world.answer(answer).expect("is answered").is_ok());
        world.value_is(&keys[0], "new");
    }
}

#[test]
fn transaction_without_disk_space_for_its_refusal_is_not_started() {
    let mut world = InstanceNetwork::reserving(RESERVE_BYTES, 2, Durability::Sync);
    let keys = world.long_keys();
    for key in &keys {
        let holder = world.holder(key);
        world.benches[holder].store(KEYSPACE, key, "old");
    }
    world.leave_free_bytes(RESERVE_BYTES / 4);
    let removals: Vec<_> = keys.iter().map(|key| (key.clone(), WriteChange::Remove(Remove))).collect();
    let parts = world.parts(PartDurability::Sync, &removals);
    let answer = world.transact(1, &parts);
    world.run_batches(200);
    assert_eq!(world.answer(answer), Some(Err(Failure::DiskFull)));
    for key in &keys {
        world.value_is(key, "old");
    }
    // There is room again, so the same request may be repeated.
    world.free();
    let answer = world.transact(1, &parts);
    world.run_batches(200);
    assert!(world.answer(answer).expect("is answered").is_ok());
    for key in &keys {
        assert_eq!(world.value(key), Some(Err(Failure::NotFound)));
    }
}

/// A write without room is sent again while compaction gives space back, and so is a transaction.
#[test]
fn transaction_without_room_comes_again_while_dead_space_is_given_back() {
    let mut world = InstanceNetwork::reserving(RESERVE_BYTES, 2, Durability::Interval { ms: 100 });
    let keys = world.keys();
    let long = "v".repeat(256 << 10);
    for _ in 0..20 {
        for key in &keys {
            let holder = world.holder(key);
            world.benches[holder].put(KEYSPACE, key, &long);
            world.benches[holder].end();
        }
    }
    // Nothing is compacted before the disk is short of space.
    world.leave_room(RESERVE_BYTES + (64 << 10));
    world.run_batches(10);
    let value: &'static str = Box::leak("w".repeat(1 << 20).into_boxed_str());
    let changes = [insert(&keys[0], value), insert(&keys[3], value)];
    let parts = world.parts(PartDurability::Interval, &changes);
    let (mut waits, mut writes_wait) = (0, 0);
    for sequence in 1..2_000 {
        let holder = world.holder(&keys[0]);
        let single = world.benches[holder].put(KEYSPACE, &keys[0], value);
        let answer = world.transact(sequence, &parts);
        world.run_batches(10);
        let is_busy = matches!(world.benches[holder].answer(single), Some(Err(Failure::Busy { .. })));
        writes_wait += usize::from(is_busy);
        match world.answer(answer) {
            Some(Ok(_)) => break,
            Some(Err(Failure::Aborted { reason: AbortReason::NoRoom, .. })) => {
                panic!("refused after {waits} waits of transactions and {writes_wait} of writes")
            }
            Some(Err(Failure::Aborted { .. } | Failure::Busy { .. })) => waits += 1,
            other => panic!("{other:?} after {waits} waits"),
        }
    }
    assert!(waits > 0 && writes_wait > 0, "{waits} {writes_wait}");
}
