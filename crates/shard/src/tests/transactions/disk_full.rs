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
        for bench in &mut self.benches {
            bench.end();
            bench.disk.set_capacity(PLENTY_BYTES);
            let used = PLENTY_BYTES - bench.disk.free_bytes().expect("is asked");
            bench.disk.set_capacity(used + left_bytes);
        }
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

        // The removal in the same transaction is refused with the write, however short.
        let mixed = [insert(&keys[0], "short"), (keys[7].clone(), WriteChange::Remove(Remove))];
        let parts = world.parts(part_durability, &mixed);
        let answer = world.transact(2, &parts);
        world.run_batches(200);
        let refused = world.answer(answer).expect("is answered").expect_err("has no room");
        assert!(matches!(refused, Failure::Aborted { reason: AbortReason::NoRoom, .. }), "{refused:?}");
        world.value_is(&keys[7], "old");

        let all: Vec<_> = keys.iter().map(|key| (key.clone(), WriteChange::Remove(Remove))).collect();
        let parts = world.parts(part_durability, &all);
        let answer = world.transact(3, &parts);
        world.run_batches(200);
        assert!(world.answer(answer).expect("is answered").is_ok());
        for key in &keys {
            assert_eq!(world.value(key), Some(Err(Failure::NotFound)));
        }

        world.free();
        world.run_batches(300);
        let parts = world.parts(part_durability, &[insert(&keys[0], "new"), insert(&keys[7], "new")]);
        let answer = world.transact(4, &parts);
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
