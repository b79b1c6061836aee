//! A read-locked record is not changed for a moment by any request, and an often written record is not read-locked.

use zerohop_placement::{Durability, MapDelta};

use super::*;
use zerohop_partition::limits::{READ_LOCK_MS, READ_LOCK_QUIET_MS, READ_LOCK_US};
use zerohop_wire::messages::{Expire, Increment, Insert, Remove};

/// One instance whose owner reads the clock for everything that arrives, with a record in each partition that was not changed for
/// long enough.
fn quiet() -> (InstanceNetwork, Vec<String>) {
    let mut world = InstanceNetwork::new(1, Durability::Interval { ms: 100 });
    let keys = world.keys();
    for key in &keys {
        world.benches[0].store(KEYSPACE, key, "1");
    }
    advance_ms(&mut world, READ_LOCK_QUIET_MS);
    assert_eq!(read_with_lock(&mut world, &keys[0]), 0, "the time may be from before it was asked");
    advance_ms(&mut world, 1);
    (world, keys)
}

fn advance_ms(world: &mut InstanceNetwork, ms: u64) {
    for _ in 0..ms {
        world.benches[0].advance_ms(1);
    }
}

/// Reads a record with a read lock. Returns for how long it is locked.
fn read_with_lock(world: &mut InstanceNetwork, key: &str) -> u32 {
    let bench = &mut world.benches[0];
    let envelope = Envelope { read_lock: true, ..bench.envelope(KEYSPACE, key) };
    let request = bench.read_at(envelope, key, Query::Lookup);
    let (place, _) = bench.sent.answers.remove(&request).expect("is answered at once");
    place.read_lock_us
}

fn write(world: &mut InstanceNetwork, key: &str, change: WriteChange<'_>) -> u64 {
    let bench = &mut world.benches[0];
    let envelope = bench.envelope(KEYSPACE, key);
    let write = RecordWrite { key: key.as_bytes(), condition: Condition::Always, change };
    bench.send_request(envelope, &Message::Write { stamp: Stamp::default(), write })
}

/// The request is not executed before the read lock has expired, and then at once.
fn waits_for_it(world: &mut InstanceNetwork, request: u64) {
    for _ in 0..READ_LOCK_MS {
        world.benches[0].end();
        assert_eq!(world.benches[0].answer(request), None, "it waits");
        let bench = &mut world.benches[0];
        assert!(
            bench.instance.next_tick_ms() <= bench.now.elapsed_ms + READ_LOCK_MS,
            "no other timer wakes it"
        );
        advance_ms(world, 1);
    }
    let answer = world.benches[0].answer(request).expect("is answered");
    assert!(answer.is_ok(), "{answer:?}");
}

#[test]
pub(super) fn write_waits_for_read_lock_expiry() {
    let changes = [
        WriteChange::Insert(Insert { value: b"2", expiry: Expiry::Never }),
        WriteChange::Increment(Increment { delta: 1 }),
        WriteChange::Expire(Expire { expiry: Expiry::AfterMs(1) }),
        WriteChange::Remove(Remove),
    ];
    for change in changes {
        let (mut world, keys) = quiet();
        assert!(read_with_lock(&mut world, &keys[0]) > 0);
        // Another record is written at once.
        let beside = write(&mut world, &keys[1], change);
        let request = write(&mut world, &keys[0], change);
        assert_eq!(read_with_lock(&mut world, &keys[0]), 0, "a change waits for it");
        world.benches[0].end();
        assert!(world.benches[0].answer(beside).is_some());
        waits_for_it(&mut world, request);
        assert_eq!(
            read_with_lock(&mut world, &keys[0]),
            0,
            "it has just been changed, or is gone, or will be"
        );
    }
}

#[test]
fn units_batches_and_transactions_wait_for_read_locks() {
    let (mut world, keys) = quiet();
    assert_eq!(read_with_lock(&mut world, &keys[0]), READ_LOCK_US);
    assert_eq!(world.run(&keys[0]), Err(Failure::Busy { retry_after_ms: 10 }), "a unit comes again");
    advance_ms(&mut world, READ_LOCK_MS);
    assert!(world.run(&keys[0]).is_ok());

    for changed in [vec![1], vec![1, 2], vec![2, 1], vec![3, 1, 2]] {
        let (mut world, keys) = quiet();
        assert_eq!(read_with_lock(&mut world, &keys[1]), READ_LOCK_US);
        let changes: Vec<_> = changed.iter().map(|at| add(&keys[*at as usize], 5)).collect();
        let parts = world.parts(PartDurability::Interval, &changes);
        let (_, request) = world.transact(1, &parts);
        waits_for_it(&mut world, request);
        for at in changed {
            assert_eq!(world.benches[0].value(KEYSPACE, &keys[at as usize]), Ok("6".to_owned()));
        }
    }
}

#[test]
fn read_only_transactions_skip_read_locks_and_intents_prevent_them() {
    let (mut world, keys) = quiet();
    assert_eq!(read_with_lock(&mut world, &keys[0]), READ_LOCK_US);
    let mut parts = Vec::new();
    let read = RecordOperation::Read(RecordRead { key: keys[0].as_bytes(), query: Query::Lookup });
    world.add_item(&mut parts, PartDurability::Interval, &keys[0], &read, None);
    let (_, request) = world.transact(1, &parts);
    world.benches[0].end();
    assert!(world.benches[0].answer(request).expect("is answered").is_ok());
    // The record is confirmed while it is read-locked.
    let envelope = world.benches[0].envelope(KEYSPACE, &keys[0]);
    let inspected = world.benches[0].read_at(envelope, &keys[0], Query::Lookup);
    assert!(world.benches[0].answer(inspected).is_some());

    let mut world = InstanceNetwork::new(2, Durability::Interval { ms: 100 });
    let keys = world.keys();
    for key in &keys {
        let holder = world.holder(key);
        world.benches[holder].store(KEYSPACE, key, "1");
    }
    world.run_batches(100);
    let holder = world.holder(&keys[0]);
    let queries = |world: &mut InstanceNetwork| {
        let bench = &mut world.benches[holder];
        let envelope = Envelope { read_lock: true, ..bench.envelope(KEYSPACE, &keys[0]) };
        bench.read_at(envelope, &keys[0], Query::Lookup)
    };
    queries(&mut world);
    world.run_batches(5);
    // The coordinator's decision is lost: the participant is prepared.
    let other = world.holder(&keys[3]);
    world.loses = Box::new(move |from, _| from == other);
    assert_ne!(holder, other);
    let parts = world.parts(PartDurability::Interval, &[add(&keys[0], 1), add(&keys[3], 1)]);
    let decides = world.transact(1, &parts);
    world.loses = Box::new(move |from, _| from == holder);
    world.run_batches(50);
    let request = queries(&mut world);
    assert!(!world.benches[holder].sent.answers.contains_key(&request), "it waits for the intent");
    world.loses = Box::new(|_, _| false);
    world.run_batches(1_000);
    assert!(world.answer(decides).is_some());
    let (_, value) = world.benches[holder].sent.answers.remove(&request).expect("is answered");
    assert_eq!(value, Ok("2".to_owned()));
}

#[test]
fn expiring_and_absent_records_are_not_read_locked() {
    let (mut world, keys) = quiet();
    assert_eq!(read_with_lock(&mut world, "absent"), 0);
    let bench = &mut world.benches[0];
    bench.put_with(KEYSPACE, &keys[2], "soon", Expiry::AfterMs(10_000));
    advance_ms(&mut world, READ_LOCK_QUIET_MS + 1);
    assert_eq!(
        (read_with_lock(&mut world, &keys[2]), read_with_lock(&mut world, &keys[1])),
        (0, READ_LOCK_US)
    );
    assert!(!world.benches[0].instance.transactions_are_idle());
    advance_ms(&mut world, 200);
    assert!(world.benches[0].instance.transactions_are_idle(), "nothing is left of it");
}

#[test]
fn children_and_restart_respect_unknown_read_locks() {
    let (mut world, keys) = quiet();
    assert_eq!(read_with_lock(&mut world, &keys[0]), READ_LOCK_US);
    let delta: MapDelta = next(world.map(), vec![MapChange::SplitKeyspace(KeyspaceId(KEYSPACE))]);
    world.benches[0].apply(&delta);
    while world.benches[0].instance.splits_pending() > 0 {
        world.benches[0].end();
    }
    let request = write(&mut world, &keys[0], WriteChange::Remove(Remove));
    world.benches[0].end();
    assert_eq!(world.benches[0].answer(request), Some(Err(Failure::Busy { retry_after_ms: 10 })));
    advance_ms(&mut world, READ_LOCK_MS);
    let request = write(&mut world, &keys[0], WriteChange::Remove(Remove));
    world.benches[0].end();
    assert_eq!(world.benches[0].answer(request), Some(Ok("done".to_owned())));

    advance_ms(&mut world, 200);
    let mut world = world.crash();
    let now = &mut world.benches[0].now;
    (now.unix_ms, now.elapsed_ms) = (now.unix_ms - READ_LOCK_MS, now.elapsed_ms - READ_LOCK_MS);
    assert_eq!(world.benches[0].value(KEYSPACE, &keys[1]), Ok("1".to_owned()), "it is read");
    let request = write(&mut world, &keys[1], WriteChange::Remove(Remove));
    world.benches[0].end();
    assert_eq!(world.benches[0].answer(request), Some(Err(Failure::Busy { retry_after_ms: 10 })));
    advance_ms(&mut world, READ_LOCK_MS);
    let request = write(&mut world, &keys[1], WriteChange::Remove(Remove));
    world.benches[0].end();
    assert_eq!(world.benches[0].answer(request), Some(Ok("done".to_owned())));
}
