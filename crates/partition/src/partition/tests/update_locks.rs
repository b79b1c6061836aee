//! Update locks: requests for the lock of a record are answered one after another.

use zerohop_engine::Durability;
use zerohop_wire::Message;
use zerohop_wire::ids::{RequestId, Timestamp};
use zerohop_wire::messages::{OperationBatch, Query, RecordOperation, RecordRead, Stamp, UpdateLock};

use crate::limits::{UPDATE_LOCK_MS, UPDATE_LOCK_WAIT_MS};
use crate::testing::{PartitionRig, insert, token};
use crate::{PartitionEvent, Token};

/// A request over a connection of its own.
fn over(connection: u64) -> Token {
    Token { connection, request: RequestId(connection) }
}

fn lock(rig: &mut PartitionRig, connection: u64, lock: UpdateLock) {
    let read = RecordRead { key: b"k", query: Query::UpdateLock(lock) };
    rig.send(over(connection), 0, &Message::Read { seen: Timestamp::ZERO, read });
}

fn take(rig: &mut PartitionRig, connection: u64) {
    lock(rig, connection, UpdateLock::Take(connection));
}

fn write(rig: &mut PartitionRig, request: u64, value: &[u8]) {
    rig.write(token(request), Stamp::default(), b"k", insert(value));
    rig.answer(token(request));
}

fn answer(rig: &mut PartitionRig, connection: u64) -> Option<Vec<u8>> {
    rig.answer(over(connection)).and_then(|answer| answer.bytes())
}

/// A record with a client that has its lock and two that wait for it.
fn waiting() -> PartitionRig {
    let mut rig = PartitionRig::new(Durability::Memory);
    write(&mut rig, 1, b"old");
    (11..=13).for_each(|connection| take(&mut rig, connection));
    assert_eq!(answer(&mut rig, 11), Some(b"old".to_vec()));
    rig
}

#[test]
fn each_change_gives_the_lock_to_the_next_request() {
    let mut rig = waiting();
    for (connection, value) in [(12, b"one"), (13, b"two")] {
        assert!(answer(&mut rig, connection).is_none(), "another one has the lock");
        write(&mut rig, 2, value);
        assert_eq!(answer(&mut rig, connection), Some(value.to_vec()));
    }
    write(&mut rig, 2, b"three");
    take(&mut rig, 14);
    assert_eq!(answer(&mut rig, 14), Some(b"three".to_vec()), "no client has it");
}

#[test]
fn nothing_else_waits_for_the_lock() {
    let mut rig = waiting();
    rig.send(
        token(5),
        0,
        &Message::Read { seen: Timestamp::ZERO, read: RecordRead { key: b"k", query: Query::Lookup } },
    );
    assert_eq!(rig.answer(token(5)).and_then(|answer| answer.bytes()), Some(b"old".to_vec()));
    rig.write(token(6), Stamp::default(), b"other", insert(b"v"));
    assert!(rig.answer(token(6)).is_some() && answer(&mut rig, 12).is_none());
}

#[test]
fn only_its_holder_releases_the_lock() {
    let mut rig = waiting();
    lock(&mut rig, 14, UpdateLock::Release(11));
    lock(&mut rig, 11, UpdateLock::Release(7));
    assert_eq!(answer(&mut rig, 14), Some(b"old".to_vec()));
    assert_eq!(answer(&mut rig, 11), Some(b"old".to_vec()));
    assert!(answer(&mut rig, 12).is_none(), "another connection, and another lock");
    lock(&mut rig, 11, UpdateLock::Release(11));
    assert_eq!(answer(&mut rig, 12), Some(b"old".to_vec()));
    assert!(answer(&mut rig, 13).is_none());
}

#[test]
fn a_lost_connection_gives_its_locks_and_requests_up() {
    let mut rig = waiting();
    assert!(rig.partition.has_waits());
    rig.step(PartitionEvent::Disconnected { connection: 12 });
    rig.step(PartitionEvent::Disconnected { connection: 11 });
    assert!(answer(&mut rig, 13).is_none(), "the member may not be primary any more");
    assert_eq!(rig.partition.next_tick_ms(), Some(rig.now.ms));
    rig.step(PartitionEvent::Tick);
    assert_eq!(answer(&mut rig, 13), Some(b"old".to_vec()));
    assert!(answer(&mut rig, 12).is_none());
    rig.step(PartitionEvent::Disconnected { connection: 13 });
    rig.step(PartitionEvent::Tick);
    assert!(!rig.partition.has_waits());
}

#[test]
fn a_lock_ends_by_itself_and_a_wait_ends_without_one() {
    let mut rig = waiting();
    let tick_at = |rig: &mut PartitionRig, ms: u64| {
        rig.now.ms += ms;
        rig.step(PartitionEvent::Tick);
    };
    assert_eq!(rig.partition.next_tick_ms(), Some(rig.now.ms + UPDATE_LOCK_MS));
    tick_at(&mut rig, UPDATE_LOCK_MS - 1);
    assert!(answer(&mut rig, 12).is_none());
    tick_at(&mut rig, 1);
    assert_eq!(answer(&mut rig, 12), Some(b"old".to_vec()));
    // A client with a short time does not wait for longer.
    let mut rig = waiting();
    let number = UPDATE_LOCK_WAIT_MS / UPDATE_LOCK_MS + 3;
    (20..20 + number).for_each(|connection| take(&mut rig, connection));
    for _ in 0..UPDATE_LOCK_WAIT_MS / UPDATE_LOCK_MS {
        assert!(answer(&mut rig, 19 + number).is_none());
        tick_at(&mut rig, UPDATE_LOCK_MS);
    }
    assert_eq!(answer(&mut rig, 19 + number), Some(b"old".to_vec()), "all have waited long enough");
}

#[test]
fn the_last_operation_of_a_batch_may_wait_for_the_lock() {
    let mut rig = waiting();
    let operations = [
        RecordOperation::Read(RecordRead { key: b"k", query: Query::Lookup }),
        RecordOperation::Read(RecordRead { key: b"k", query: Query::UpdateLock(UpdateLock::Take(1)) }),
    ];
    let operations = zerohop_wire::Elements::from_slice(&operations);
    rig.send(over(14), 0, &Message::Batch(OperationBatch { stamp: Stamp::default(), operations }));
    for number in 0..3u8 {
        assert!(rig.out.batches.is_empty());
        write(&mut rig, 2, &[number]);
    }
    let answers = rig.out.batches.remove(&over(14)).expect("was answered");
    assert_eq!(
        answers.iter().map(|answer| answer.bytes()).collect::<Vec<_>>(),
        [Some(b"old".to_vec()), Some(vec![2])]
    );
}

#[test]
fn locks_do_not_survive_the_primary() {
    let mut rig = waiting();
    let failure = zerohop_wire::Failure::Unavailable { retry_after_ms: 1 };
    rig.partition.release(&failure, &mut rig.out);
    assert_eq!(rig.answer(over(12)).map(|answer| answer.number()), Some(Err(failure)));
    assert!(!rig.partition.has_waits());
}

#[cfg(debug_assertions)]
#[test]
fn test_finds_lock_that_is_not_passed() {
    use crate::planted::{Bug, plant};
    plant(Some(Bug::UpdateLockNotPassed));
    let mut rig = waiting();
    write(&mut rig, 2, b"one");
    let next = answer(&mut rig, 12);
    plant(None);
    assert!(next.is_none());
}
