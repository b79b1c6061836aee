//! A request that waits for the update lock of a record does not read it while a transaction is about to change it.

use zerohop_partition::limits::UPDATE_LOCK_MS;
use zerohop_placement::Durability;
use zerohop_wire::messages::UpdateLock;

use super::*;

fn take(world: &mut InstanceNetwork, key: &str, number: u64) -> (usize, u64) {
    let holder = world.holder(key);
    let envelope = world.benches[holder].envelope(KEYSPACE, key);
    let query = Query::UpdateLock(UpdateLock::Take(number));
    (holder, world.benches[holder].read_at(envelope, key, query))
}

#[test]
pub(super) fn next_holder_reads_what_a_prepared_transaction_writes() {
    let mut world = InstanceNetwork::new(2, Durability::Sync);
    let keys = world.keys();
    let other = keys.iter().find(|key| world.holder(key) != world.holder(&keys[3])).expect("is one").clone();
    world.benches[0].store(KEYSPACE, &other, "old");
    world.run_batches(20);
    let first = take(&mut world, &other, 1);
    let next = take(&mut world, &other, 2);
    world.run_batches(10);
    assert_eq!(world.answer(first), Some(Ok("old".to_owned())));
    // The transaction of the holder is prepared, and its participant does not learn of the decision.
    world.loses = Box::new(|from, _| from == 0);
    let request = world
        .transact(1, &world.parts(PartDurability::Sync, &[insert(&other, "new"), insert(&keys[3], "new")]));
    world.run_batches(2 * UPDATE_LOCK_MS);
    assert_eq!((world.answer(request), world.answer(next)), (None, None), "an intent stands");
    world.loses = Box::new(|_, _| false);
    world.run_batches(700);
    assert!(world.answer(request).expect("is answered").is_ok());
    assert_eq!(world.answer(next), Some(Ok("new".to_owned())));
}
