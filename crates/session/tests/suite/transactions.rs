//! Transactions and reads of several records, as a client sees them: the requests, and their
//! results.

#![expect(clippy::unwrap_used, reason = "a test; the lint spares only functions marked as such")]

use zerohop_session::{CompositeItem, InvalidTransaction, Reply, SessionError, SessionRequest};
use zerohop_wire::ids::Timestamp;
use zerohop_wire::limits::TRANSACTION_ITEMS_MAX;
use zerohop_wire::messages::{
    Append, Condition, Expiry, Insert, Query, RecordOperation, RecordRead, RecordWrite, Remove, Wait,
    WaitUntil, WriteChange,
};
use zerohop_wire::{AbortReason, Failure, FrameKind};

use crate::support;
use crate::support::server::ServerRecord;
use crate::support::{KEYSPACE, LIMIT_US, SessionWorld, count, insert, keys_of, kinds, world};

fn item(key: &str, condition: Condition, change: WriteChange<'_>, seen: Option<Timestamp>) -> CompositeItem {
    let operation = RecordOperation::Write(RecordWrite { key: key.as_bytes(), condition, change });
    CompositeItem::new(KEYSPACE, &operation, seen).unwrap()
}

fn put(key: &str, value: &[u8]) -> CompositeItem {
    item(key, Condition::Always, WriteChange::Insert(Insert { value, expiry: Expiry::Never }), None)
}

fn read_item(key: &str) -> CompositeItem {
    CompositeItem::new(
        KEYSPACE,
        &RecordOperation::Read(RecordRead { key: key.as_bytes(), query: Query::Lookup }),
        None,
    )
    .unwrap()
}

fn transaction(items: Vec<CompositeItem>) -> SessionRequest {
    SessionRequest::transaction(items, LIMIT_US).unwrap()
}

fn read_many(keys: &[&str]) -> SessionRequest {
    SessionRequest::read_many(keys.iter().map(|key| read_item(key)).collect(), LIMIT_US).unwrap()
}

/// A key of each of these partitions, in their order.
fn spread(world: &SessionWorld, partitions: &[u32]) -> Vec<String> {
    partitions.iter().map(|partition| keys_of(world, *partition, 1).remove(0)).collect()
}

fn values(reply: &Result<Reply, SessionError>) -> Vec<Option<Vec<u8>>> {
    let answers = match reply {
        Ok(Reply::Many(answers) | Reply::Transacted { answers, .. }) => answers,
        other => panic!("{other:?}"),
    };
    let value = |answer: &Result<Reply, Failure<'static>>| match answer {
        Ok(Reply::Value { bytes, .. }) => Some(bytes.to_vec()),
        Ok(Reply::Done { .. }) => Some(b"done".to_vec()),
        Err(Failure::NotFound) => None,
        other => panic!("{other:?}"),
    };
    answers.iter().map(value).collect()
}

fn version(world: &mut SessionWorld, key: &str, value: &[u8]) -> Timestamp {
    let token = world.submit(insert(key, value));
    world.run_until_idle();
    world.result(token).as_ref().unwrap().version()
}

#[test]
fn one_frame_to_coordinator_returns_answers_in_order() {
    let mut world = world(3);
    let keys = spread(&world, &[6, 1, 4]);
    version(&mut world, &keys[1], b"was");
    world.sent = Some(Vec::new());
    let items = vec![put(&keys[0], b"six"), read_item(&keys[1]), put(&keys[2], b"four"), read_item(&keys[0])];
    let token = world.submit(transaction(items));
    world.run_until_idle();
    let answers = values(world.result(token));
    let expected: [&[u8]; 4] = [b"done", b"was", b"done", b"six"];
    assert_eq!(answers, expected.map(|value| Some(value.to_vec())));
    let Ok(Reply::Transacted { version, answers }) = world.result(token) else { panic!() };
    // The records that it changed have its version.
    assert_eq!(answers[0].as_ref().unwrap().version(), *version);
    assert!(answers[1].as_ref().unwrap().version() < *version);
    let transacts: Vec<_> =
        kinds(&world).into_iter().filter(|(kind, _)| *kind == FrameKind::Transact).collect();
    // Partition 6 of 8 is on the first of three instances.
    assert_eq!(transacts, [(FrameKind::Transact, "i0:7401".to_owned())]);
    assert_eq!(world.cluster.transacted_parts, [3]);
}

#[test]
fn changed_read_dependency_aborts_and_is_named() {
    let mut world = world(3);
    let keys = spread(&world, &[5, 2]);
    let seen = version(&mut world, &keys[0], b"old");
    version(&mut world, &keys[0], b"new");
    let change = || WriteChange::Insert(Insert { value: b"mine", expiry: Expiry::Never });
    let items = vec![put(&keys[1], b"v"), item(&keys[0], Condition::Always, change(), Some(seen))];
    let token = world.submit(transaction(items));
    world.run_until_idle();
    let expected = SessionError::Aborted { reason: AbortReason::ReadChanged, item: Some(1) };
    assert_eq!(world.result(token), &Err(expected));
    assert_eq!(world.cluster.record(&keys[1]), None);
    let items = vec![item(&keys[1], Condition::Always, change(), Some(Timestamp::ZERO))];
    let token = world.submit(transaction(items));
    world.run_until_idle();
    assert!(world.result(token).is_ok(), "an absence that was seen is still one");
    let token = world
        .submit(transaction(vec![read_item(&keys[0]), item(&keys[1], Condition::IfAbsent, change(), None)]));
    world.run_until_idle();
    let expected = SessionError::Aborted { reason: AbortReason::ConditionFailed, item: Some(1) };
    assert_eq!(world.result(token), &Err(expected));
}

#[test]
fn empty_and_oversized_transactions_are_refused_with_reason() {
    let refused = |items| SessionRequest::transaction(items, LIMIT_US).unwrap_err();
    assert_eq!(refused(Vec::new()), InvalidTransaction::Empty);
    let limit = TRANSACTION_ITEMS_MAX as usize;
    let many = vec![read_item("k"); limit + 1];
    let invalid = InvalidTransaction::Items { count: limit + 1, limit };
    assert_eq!(refused(many.clone()), invalid);
    assert_eq!(SessionRequest::read_many(many, LIMIT_US).unwrap_err(), invalid);
    assert!(invalid.to_string().contains("16385 operations in one transaction, 16384 are allowed"));
    assert_eq!(
        SessionRequest::read_many(vec![put("k", b"v")], LIMIT_US).unwrap_err(),
        InvalidTransaction::Writes
    );
    let wait = RecordOperation::Read(RecordRead {
        key: b"k",
        query: Query::Wait(Wait { until: WaitUntil::Present }),
    });
    assert_eq!(CompositeItem::new(KEYSPACE, &wait, None).unwrap_err(), InvalidTransaction::Waits);
    let value = vec![0; 16 << 20];
    let change = WriteChange::Insert(Insert { value: &value, expiry: Expiry::Never });
    let long = RecordOperation::Write(RecordWrite { key: b"k", condition: Condition::Always, change });
    let message = CompositeItem::new(KEYSPACE, &long, None).unwrap_err().to_string();
    assert!(message.contains("16777216 are allowed"), "{message}");
}

#[test]
fn long_operations_are_staged_where_they_belong_before_they_are_referred_to() {
    let mut world = world(3);
    let keys = spread(&world, &[6, 1, 4]);
    let large = vec![7; 200_000];
    let items = vec![put(&keys[0], &large), put(&keys[1], &large), put(&keys[2], b"small")];
    let token = world.submit(transaction(items));
    world.run_until_idle();
    assert!(world.result(token).is_ok(), "{:?}", world.result(token));
    assert_eq!(world.cluster.record(&keys[1]), Some(ServerRecord::Bytes(large.clone())));
    assert_eq!((count(&world, FrameKind::Stage), count(&world, FrameKind::Transact)), (2, 1));
    let sent = world.sent.as_ref().unwrap();
    let longest = sent.iter().map(|frame| frame.bytes.len()).filter(|bytes| *bytes < 200_000).max();
    assert!(longest < Some(1000), "the transaction refers to what was staged");
    let staged: Vec<usize> = world.cluster.partitions.iter().map(|one| one.staged.len()).collect();
    assert_eq!(staged, [0, 1, 0, 0, 0, 0, 1, 0]);
}

#[test]
fn too_long_list_is_staged() {
    let mut world = world(3);
    let value = vec![3; 50_000];
    let keys: Vec<String> = (0..60).map(|at| format!("key-{at}")).collect();
    let items = keys.iter().map(|key| put(key, &value)).collect();
    let token = world.submit(transaction(items));
    world.run_until_idle();
    assert!(world.result(token).is_ok(), "{:?}", world.result(token));
    assert!(keys.iter().all(|key| world.cluster.record(key) == Some(ServerRecord::Bytes(value.clone()))));
    let staged = count(&world, FrameKind::Stage);
    assert!((1..8).contains(&staged), "some lists, and not every operation: {staged}");
}

#[test]
fn expired_staged_data_is_staged_again() {
    let mut world = world(3);
    world.cluster.commits.abort.push_back(AbortReason::StagedGone);
    let large = vec![7; 200_000];
    let token = world.submit(transaction(vec![put("k", &large)]));
    world.run_until_idle();
    assert!(world.result(token).is_ok(), "{:?}", world.result(token));
    // Two pieces, and a request that releases the first.
    assert_eq!((count(&world, FrameKind::Stage), count(&world, FrameKind::Transact)), (3, 2));
}

fn staged_pieces(world: &SessionWorld) -> usize {
    world.cluster.partitions.iter().map(|one| one.staged.len()).sum()
}

/// Until they expire, they would occupy the servers' disks.
#[test]
fn pieces_of_a_failed_transaction_are_released() {
    let large = vec![7; 200_000];
    let long = |keys: &[String]| keys.iter().map(|key| put(key, &large)).collect();
    // One of six pieces is refused, in any order of the answers.
    for skip in 0..6 {
        let mut world = world(3);
        let keys: Vec<String> = (0..6).map(|at| format!("key-{at}")).collect();
        world.cluster.commits.refuse_stage = Some(skip);
        let token = world.submit(transaction(long(&keys)));
        world.run_until_idle();
        let result = world.result(token);
        assert!(matches!(result, Err(SessionError::Answer { failure: Failure::DiskFull })), "{result:?}");
        assert_eq!((staged_pieces(&world), world.cluster.commits.released), (0, 5));
        assert_eq!(count(&world, FrameKind::Transact), 0);
    }
    let mut world = world(3);
    let keys: Vec<String> = (0..6).map(|at| format!("key-{at}")).collect();
    world.cluster.commits.abort.push_back(AbortReason::ReadChanged);
    let token = world.submit(transaction(long(&keys)));
    world.run_until_idle();
    assert!(matches!(world.result(token), Err(SessionError::Aborted { .. })), "{:?}", world.result(token));
    assert_eq!((staged_pieces(&world), world.cluster.commits.released), (0, 6));
    // The pieces of a given-up plan too, and not those of the plan that is committed.
    world.cluster.commits.abort.push_back(AbortReason::Misplaced);
    let token = world.submit(transaction(long(&keys)));
    world.run_until_idle();
    assert!(world.result(token).is_ok(), "{:?}", world.result(token));
    assert_eq!(world.cluster.commits.released, 12);
}

#[test]
fn transaction_is_planned_again_after_split() {
    let mut world = world(3);
    // The upper half of partition 1 becomes partition 3.
    let keys = keys_of(&world, 1, 40);
    version(&mut world, &keys[0], b"v");
    world.cluster.split();
    // The client receives the missing map changes; the partition number means another hash range
    // now.
    let token = world.submit(transaction(keys.iter().map(|key| put(key, b"w")).collect()));
    world.run_until_idle();
    assert!(world.result(token).is_ok(), "{:?}", world.result(token));
    assert!(keys.iter().all(|key| world.cluster.record(key) == Some(ServerRecord::Bytes(b"w".to_vec()))));
    assert_eq!(world.cluster.transacted_parts.last(), Some(&2));
    world.cluster.commits.abort.extend([AbortReason::Misplaced; 20]);
    let token = world.submit(transaction(vec![put(&keys[0], b"x")]));
    world.run_until_idle();
    let expected = SessionError::Aborted { reason: AbortReason::Misplaced, item: None };
    assert_eq!(world.result(token), &Err(expected));
}

#[test]
fn repeated_transaction_returns_first_outcome() {
    let mut world = world(3);
    world.cluster.script.push_back((true, Failure::TimedOut { version: Timestamp(0) }));
    let mut items = vec![put("a", b"v")];
    let values: [&[u8]; 1] = [b"once"];
    let change = WriteChange::Append(Append { values: zerohop_wire::Elements::from_slice(&values) });
    items.push(item("list", Condition::Always, change, None));
    let token = world.submit(transaction(items));
    world.run_until_idle();
    assert!(world.result(token).is_ok(), "{:?}", world.result(token));
    assert_eq!(world.cluster.count("list", "once"), 1);
    assert_eq!(count(&world, FrameKind::Transact), 2);
}

#[test]
fn transaction_in_doubt_is_not_planned_again() {
    let mut world = world(3);
    let (reason, none) = (AbortReason::Misplaced, AbortReason::NONE);
    let misplaced = Failure::Aborted { reason, part: none, item: none };
    // The first frame takes effect, and its answer is a time-out; the second frame is refused
    // because of its old map.
    world.cluster.script.push_back((true, Failure::TimedOut { version: Timestamp(0) }));
    world.cluster.script.push_back((false, misplaced));
    let values: [&[u8]; 1] = [b"once"];
    let change = WriteChange::Append(Append { values: zerohop_wire::Elements::from_slice(&values) });
    let token = world.submit(transaction(vec![item("list", Condition::Always, change, None)]));
    world.run_until_idle();
    assert!(matches!(world.result(token), Err(SessionError::Unknown { .. })), "{:?}", world.result(token));
    assert_eq!(world.cluster.count("list", "once"), 1);
}

#[test]
fn transaction_that_a_split_has_interrupted_is_planned_again() {
    let mut world = world(3);
    // The parent ends with a time-out, as at a split. Its child names an item that belongs to the
    // other child, so it knows that the transaction was not done.
    world.cluster.script.push_back((false, Failure::TimedOut { version: Timestamp(0) }));
    let misplaced = Failure::Aborted { reason: AbortReason::Misplaced, part: 0, item: 0 };
    world.cluster.script.push_back((false, misplaced));
    let values: [&[u8]; 1] = [b"once"];
    let change = WriteChange::Append(Append { values: zerohop_wire::Elements::from_slice(&values) });
    let token = world.submit(transaction(vec![item("list", Condition::Always, change, None)]));
    world.run_until_idle();
    assert!(world.result(token).is_ok(), "{:?}", world.result(token));
    assert_eq!(world.cluster.count("list", "once"), 1);
    assert_eq!(count(&world, FrameKind::Transact), 3);
}

#[test]
fn only_the_deadline_limits_how_many_splits_a_transaction_follows() {
    let mut world = world(3);
    const SPLITS: usize = 10;
    world.cluster.commits.abort.extend([AbortReason::Misplaced; SPLITS]);
    let token = world.submit(transaction(vec![put("k", b"v")]));
    let mut left = SPLITS;
    while left > 0 {
        assert!(world.step(), "the transaction is outstanding, and nothing is to happen");
        if world.cluster.commits.abort.len() < left {
            left = world.cluster.commits.abort.len();
            world.cluster.split();
        }
    }
    world.run_until_idle();
    assert!(world.result(token).is_ok(), "{:?}", world.result(token));
}

#[test]
fn missing_keyspace_and_unreachable_cluster_are_reported() {
    let mut world = world(3);
    let write = RecordWrite { key: b"k", condition: Condition::Always, change: WriteChange::Remove(Remove) };
    let elsewhere = CompositeItem::new(99.into(), &RecordOperation::Write(write), None).unwrap();
    let token = world.submit(transaction(vec![elsewhere]));
    world.run_until_idle();
    let failure = Failure::UnknownKeyspace { keyspace: 99.into() };
    assert_eq!(world.result(token), &Err(SessionError::Answer { failure }));
    let mut world = support::world(1);
    world.cluster.down = vec!["m0:7400".to_owned(), "i0:7401".to_owned()];
    let token = world.submit(transaction(vec![put("k", b"v")]));
    world.run_until_idle();
    assert!(matches!(world.result(token), Err(SessionError::Deadline { .. })), "{:?}", world.result(token));
    let token = world.submit(transaction(vec![put("k", b"v")]));
    world.session.shut_down(world.now);
    world.run_turn();
    assert_eq!(world.result(token), &Err(SessionError::Closed));
}

#[test]
fn several_reads_take_two_rounds_and_one_takes_one() {
    let mut world = world(3);
    let keys = spread(&world, &[6, 1, 4]);
    for key in &keys {
        version(&mut world, key, key.as_bytes());
    }
    world.sent = Some(Vec::new());
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let token = world.submit(read_many(&keys));
    world.run_until_idle();
    let expected: Vec<_> = keys.iter().map(|key| Some(key.as_bytes().to_vec())).collect();
    assert_eq!(values(world.result(token)), expected);
    assert_eq!((count(&world, FrameKind::Lookup), count(&world, FrameKind::Confirm)), (3, 3));
    world.sent = Some(Vec::new());
    world.submit(read_many(&keys[..1]));
    world.submit(read_many(&[]));
    world.run_until_idle();
    assert_eq!((count(&world, FrameKind::Lookup), count(&world, FrameKind::Confirm)), (1, 0));
}

/// A world whose servers grant read locks, with records in three partitions on three instances.
fn holding() -> (SessionWorld, Vec<String>) {
    let mut world = world(3);
    // Without coalesced frames, so that each frame shows its request.
    world.cluster.features = zerohop_wire::Features::READ_LOCKS;
    world.cluster.read_lock_settings = 1000;
    let keys = spread(&world, &[6, 1, 5]);
    for key in &keys {
        version(&mut world, key, key.as_bytes());
    }
    world.sent = Some(Vec::new());
    (world, keys)
}

/// The number of rounds that reads of all keys take, and their values.
fn rounds(world: &mut SessionWorld, keys: &[String]) -> (usize, Vec<Option<Vec<u8>>>) {
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    world.sent = Some(Vec::new());
    let token = world.submit(read_many(&keys));
    world.run_until_idle();
    let confirms = count(world, FrameKind::Confirm);
    assert!(confirms == 0 || confirms == keys.len(), "all are confirmed, or none");
    (1 + usize::from(confirms > 0), values(world.result(token)))
}

#[test]
fn read_locked_reads_take_one_round() {
    let (mut world, keys) = holding();
    let expected: Vec<_> = keys.iter().map(|key| Some(key.as_bytes().to_vec())).collect();
    assert_eq!(rounds(&mut world, &keys), (1, expected.clone()));
    assert_eq!(world.session.reads().read_locked, 1);
    // Some read locks are not granted.
    world.cluster.read_lock_settings = 700;
    let mut both = [0, 0];
    for _ in 0..20 {
        let (rounds, found) = rounds(&mut world, &keys);
        both[rounds - 1] += 1;
        assert_eq!(found, expected);
    }
    assert!(both[0] > 0 && both[1] > 0, "{both:?}");
    // Several records of one partition are requested and locked together.
    world.cluster.read_lock_settings = 1000;
    let near = keys_of(&world, 2, 3);
    for key in &near {
        version(&mut world, key, b"near");
    }
    assert_eq!(rounds(&mut world, &near).0, 1);
    assert_eq!((count(&world, FrameKind::Batch), count(&world, FrameKind::Lookup)), (1, 0));
    // The absence of a record cannot be locked.
    let read_locked = world.session.reads().read_locked;
    let token = world.submit(read_many(&[&keys[0], "absent"]));
    world.run_until_idle();
    assert_eq!(values(world.result(token)), [Some(keys[0].as_bytes().to_vec()), None]);
    assert_eq!(world.session.reads().read_locked, read_locked);
}

#[test]
fn reads_take_one_frame_and_socket_write_per_instance_and_round() {
    let mut world = world(3);
    world.cluster.features = support::FEATURES;
    let keys = spread(&world, &[0, 1, 2, 3, 4, 5, 6, 7]);
    for key in &keys {
        version(&mut world, key, key.as_bytes());
    }
    for (read_lock_settings, rounds) in [(1000, 1), (0, 2)] {
        world.cluster.read_lock_settings = read_lock_settings;
        world.sent = Some(Vec::new());
        let before = world.writes;
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        let token = world.submit(read_many(&keys));
        world.run_until_idle();
        assert_eq!(values(world.result(token)).len(), 8);
        assert_eq!((world.writes - before, count(&world, FrameKind::Gather)), (3 * rounds, 3 * rounds));
    }
}

#[test]
fn expired_read_lock_needs_confirmation() {
    let (mut world, keys) = holding();
    // The round trip takes 100 us, and clock drift may take a ninth of the lock's time.
    for (read_lock_us, expected) in [(112, 2), (113, 2), (114, 1), (200, 1), (0, 2)] {
        world.cluster.read_lock_us = read_lock_us;
        assert_eq!(rounds(&mut world, &keys).0, expected, "{read_lock_us}");
    }
}

#[test]
fn server_without_read_locks_is_not_trusted() {
    let mut world = world(3);
    let keys = spread(&world, &[6, 1, 4]);
    for key in &keys {
        version(&mut world, key, key.as_bytes());
    }
    // The server claims read locks without the feature.
    world.cluster.claims_read_locks = true;
    assert_eq!(rounds(&mut world, &keys).0, 2);
}

#[test]
fn unconfirmed_read_takes_one_round_and_reports_consistency() {
    let (mut world, keys) = holding();
    for (read_lock_settings, expected) in [(1000, true), (0, false)] {
        world.cluster.read_lock_settings = read_lock_settings;
        world.sent = Some(Vec::new());
        let items = keys.iter().map(|key| read_item(key)).collect();
        let token = world.submit(SessionRequest::read_unconfirmed(items, LIMIT_US).unwrap());
        world.run_until_idle();
        let Ok(Reply::UnconfirmedReads { answers, is_one_moment }) = world.result(token) else { panic!() };
        assert_eq!((answers.len(), *is_one_moment), (3, expected));
        assert_eq!((count(&world, FrameKind::Lookup), count(&world, FrameKind::Confirm)), (3, 0));
    }
    // A single read is always of one moment, and absence is an answer too.
    let token = world.submit(SessionRequest::read_unconfirmed(vec![read_item("absent")], LIMIT_US).unwrap());
    world.run_until_idle();
    let answers = vec![Err(Failure::NotFound)];
    assert_eq!(world.result(token), &Ok(Reply::UnconfirmedReads { answers, is_one_moment: true }));
}

#[test]
fn read_of_absent_record_uses_transaction() {
    let mut world = world(3);
    let keys = spread(&world, &[6, 1]);
    version(&mut world, &keys[0], b"six");
    let token = world.submit(read_many(&[&keys[0], &keys[1]]));
    world.run_until_idle();
    assert_eq!(values(world.result(token)), [Some(b"six".to_vec()), None]);
    assert_eq!((count(&world, FrameKind::Confirm), count(&world, FrameKind::Transact)), (0, 1));
    // Long values are not part of a transaction: it only validates that they are unchanged.
    let large = vec![1; 600_000];
    version(&mut world, &keys[0], &large);
    world.sent = Some(Vec::new());
    let token = world.submit(read_many(&[&keys[0], &keys[1]]));
    world.run_until_idle();
    assert_eq!(values(world.result(token)), [Some(large), None]);
    assert_eq!((count(&world, FrameKind::Lookup), count(&world, FrameKind::Transact)), (2, 1));
}

#[test]
fn concurrently_changed_read_is_retried_and_then_uses_transaction() {
    let mut world = world(3);
    let keys = spread(&world, &[6, 1]);
    for key in &keys {
        version(&mut world, key, b"old");
    }
    world.sent = Some(Vec::new());
    let token = world.submit(read_many(&[&keys[0], &keys[1]]));
    // A concurrent write in every round, after each lookup.
    let mut writes = 0;
    while world.results[token].is_none() && writes < 200 {
        world.run_until(zerohop_base::time::Time(world.now.0 + 40));
        let partition = world.cluster.partition_of(&keys[0]).get() as usize;
        let records = &mut world.cluster.partitions[partition].records;
        let known = records.get_mut(keys[0].as_bytes()).unwrap();
        known.0 = known.0.next();
        known.1 = ServerRecord::Bytes(format!("new-{writes}").into_bytes());
        writes += 1;
    }
    world.run_until_idle();
    assert_eq!(values(world.result(token)).len(), 2);
    assert_eq!(count(&world, FrameKind::Transact), 1, "{:?}", kinds(&world));
    assert!(
        count(&world, FrameKind::Lookup) == 3,
        "only what has changed is read again: {:?}",
        kinds(&world)
    );
}
