//! Every answer waits until the entries that it depends on are committed, at the keyspace's durability.

use zerohop_engine::Durability;
use zerohop_engine::disk::simulated::DiskOperation;
use zerohop_wire::ids::{PartitionEpoch, Timestamp};
use zerohop_wire::messages::{
    Condition, Expire, Expiry, Extend, Increment, Query, RecordRead, RecordWrite, Remove, SetBit, Stamp,
    Trim, Wait, WaitUntil, WriteChange,
};
use zerohop_wire::{BadRequestReason, Envelope, Failure, Message};

use crate::testing::{PartitionRig, append, insert, token};
use crate::{PartitionEvent, RecordRequest};

fn read(rig: &mut PartitionRig, request: u64, key: &[u8], query: Query<'_>) {
    rig.send(token(request), 0, &Message::Read { seen: Timestamp::ZERO, read: RecordRead { key, query } });
}

fn write(rig: &mut PartitionRig, request: u64, key: &[u8], change: WriteChange<'_>) {
    rig.write(token(request), Stamp::default(), key, change);
}

#[test]
fn sync_write_is_answered_after_flush_and_others_at_once() {
    for durability in [Durability::Memory, Durability::DEFAULT] {
        let mut rig = PartitionRig::new(durability);
        write(&mut rig, 1, b"k", insert(b"v"));
        assert!(rig.answer(token(1)).is_some() && !rig.out.needs_flush);
    }
    let mut rig = PartitionRig::new(Durability::Sync);
    write(&mut rig, 1, b"k", insert(b"v"));
    assert!(rig.answer(token(1)).is_none() && rig.out.needs_flush);
    rig.step(PartitionEvent::Flushed);
    assert!(rig.answer(token(1)).is_none(), "nothing was flushed");
    rig.flush();
    assert!(rig.answer(token(1)).is_some());
}

#[test]
fn read_waits_only_for_commit_of_writes_it_has_seen() {
    let mut rig = PartitionRig::new(Durability::Sync);
    write(&mut rig, 1, b"old", insert(b"o"));
    rig.flush();
    write(&mut rig, 2, b"k", insert(b"one"));
    write(&mut rig, 3, b"k", WriteChange::Extend(Extend { bytes: b"+two" }));
    read(&mut rig, 4, b"k", Query::Lookup);
    read(&mut rig, 5, b"old", Query::Lookup);
    read(&mut rig, 6, b"none", Query::Inspect);
    assert!(rig.answer(token(4)).is_none());
    assert_eq!(rig.answer(token(5)).and_then(|a| a.bytes()), Some(b"o".to_vec()));
    assert!(rig.answer(token(6)).is_some());
    rig.flush();
    assert_eq!(rig.answer(token(4)).and_then(|a| a.bytes()), Some(b"one+two".to_vec()));
}

#[test]
fn a_failed_condition_and_an_absence_wait_too() {
    let mut rig = PartitionRig::new(Durability::Sync);
    write(&mut rig, 1, b"k", insert(b"v"));
    rig.flush();
    write(&mut rig, 2, b"k", WriteChange::Remove(Remove));
    let write_if = RecordWrite { key: b"k", condition: Condition::IfPresent, change: insert(b"w") };
    rig.send(token(3), 0, &Message::Write { stamp: Stamp::default(), write: write_if });
    read(&mut rig, 4, b"k", Query::Lookup);
    read(&mut rig, 5, b"k", Query::Wait(Wait { until: WaitUntil::Absent }));
    rig.answer(token(1));
    assert!(rig.out.answers.is_empty());
    rig.flush();
    let none = Failure::ConditionFailed { version: Timestamp::ZERO, found: None };
    assert_eq!(rig.answer(token(3)).map(|a| a.number()), Some(Err(none)));
    assert_eq!(rig.answer(token(4)).map(|a| a.number()), Some(Err(Failure::NotFound)));
    assert_eq!(rig.answer(token(5)).map(|a| a.number()), Some(Err(Failure::NotFound)));
}

/// A removal is in flight and is never committed. A client that waits for the record must not be answered that it is absent.
#[test]
fn wait_ends_with_committed_state_only() {
    let mut rig = PartitionRig::new(Durability::Sync);
    write(&mut rig, 1, b"k", insert(b"v"));
    rig.flush();
    write(&mut rig, 2, b"k", WriteChange::Remove(Remove));
    let wait = |until| {
        let read = RecordRead { key: b"k", query: Query::Wait(Wait { until }) };
        Message::Read { seen: Timestamp::ZERO, read }
    };
    rig.send(token(3), 10, &wait(WaitUntil::Equals(b"v")));
    rig.send(token(4), 10, &wait(WaitUntil::Equals(b"w")));
    rig.now.ms += 10;
    rig.step(PartitionEvent::Tick);
    assert_eq!(rig.answer(token(3)).and_then(|a| a.bytes()), Some(b"v".to_vec()));
    let answer = rig.answer(token(4)).map(|a| a.number());
    assert!(matches!(answer, Some(Err(Failure::TimedOut { version })) if version != Timestamp::ZERO));
}

#[test]
fn every_operation_sees_uncommitted_writes() {
    let mut rig = PartitionRig::new(Durability::Sync);
    write(&mut rig, 1, b"list", append(&[b"a", b"b"]));
    rig.flush();
    write(&mut rig, 2, b"list", append(&[b"c", b"d"]));
    let keep =
        |start| WriteChange::Trim(Trim { keep: zerohop_wire::messages::Range { start, stop: i64::MAX } });
    write(&mut rig, 3, b"list", keep(1));
    write(&mut rig, 4, b"list", keep(2));
    write(&mut rig, 5, b"list", append(&[b"e"]));
    read(&mut rig, 6, b"list", Query::Lookup);
    write(&mut rig, 7, b"n", WriteChange::Increment(Increment { delta: 3 }));
    write(&mut rig, 8, b"n", WriteChange::Increment(Increment { delta: 4 }));
    write(&mut rig, 9, b"n", WriteChange::Expire(Expire { expiry: Expiry::AfterMs(9) }));
    read(&mut rig, 10, b"n", Query::Inspect);
    write(&mut rig, 11, b"n", WriteChange::SetBit(SetBit { offset: 0, on: true }));
    rig.flush();
    assert_eq!(rig.answer(token(6)).and_then(|a| a.list()), Some(vec![b"d".to_vec(), b"e".to_vec()]));
    assert_eq!(rig.answer(token(8)).map(|a| a.counter()), Some(Ok(7)));
    let inspected = format!("{:?}", rig.answer(token(10)));
    assert!(inspected.contains("expires_at_ms: Some(1000009)"), "{inspected}");
    read(&mut rig, 12, b"list", Query::Lookup);
    assert_eq!(rig.answer(token(12)).and_then(|a| a.list()), Some(vec![b"d".to_vec(), b"e".to_vec()]));
    read(&mut rig, 13, b"n", Query::Lookup);
    assert_eq!(rig.answer(token(13)).and_then(|a| a.bytes()), Some(vec![b'7' | 0x80]));
}

#[test]
fn wait_sees_transient_state_within_one_flush() {
    let mut rig = PartitionRig::new(Durability::Sync);
    read(&mut rig, 1, b"k", Query::Wait(Wait { until: WaitUntil::Equals(b"one") }));
    write(&mut rig, 2, b"k", insert(b"one"));
    write(&mut rig, 3, b"k", insert(b"two"));
    assert!(rig.answer(token(1)).is_none());
    rig.flush();
    assert_eq!(rig.answer(token(1)).and_then(|a| a.bytes()), Some(b"one".to_vec()));
}

#[cfg(debug_assertions)]
#[test]
fn test_finds_waits_not_woken_mutant() {
    use crate::planted::{Bug, plant};
    let is_woken = || {
        let mut rig = PartitionRig::new(Durability::Memory);
        read(&mut rig, 1, b"k", Query::Wait(Wait { until: WaitUntil::Present }));
        write(&mut rig, 2, b"k", insert(b"one"));
        rig.answer(token(1)).is_some()
    };
    assert!(is_woken());
    plant(Some(Bug::WaitsNotChecked));
    let woken = is_woken();
    plant(None);
    assert!(!woken);
}

#[test]
fn failed_flush_answers_dependents_as_unknown() {
    let mut rig = PartitionRig::new(Durability::Sync);
    write(&mut rig, 1, b"old", insert(b"v"));
    rig.flush();
    write(&mut rig, 2, b"k", insert(b"v"));
    rig.disk.fail_nth(DiskOperation::Sync, 1);
    assert!(rig.engine.flush().is_err());
    rig.step(PartitionEvent::FlushFailed);
    let doubt = Some(Err(Failure::DiskFailed));
    assert_eq!(rig.answer(token(2)).map(|a| a.number()), doubt);
    read(&mut rig, 3, b"k", Query::Lookup);
    assert_eq!(rig.answer(token(3)).map(|a| a.number()), doubt);
    write(&mut rig, 4, b"other", insert(b"v"));
    assert_eq!(rig.answer(token(4)).map(|a| a.number()), doubt);
    read(&mut rig, 5, b"old", Query::Lookup);
    assert_eq!(rig.answer(token(5)).and_then(|a| a.bytes()), Some(b"v".to_vec()), "reads go on");
}

#[test]
fn change_to_weaker_durability_answers_waiting_writes() {
    let mut rig = PartitionRig::new(Durability::Sync);
    write(&mut rig, 1, b"k", insert(b"v"));
    rig.partition.set_durability(&mut rig.engine, Durability::DEFAULT, &mut rig.out).expect("changes");
    assert!(rig.answer(token(1)).is_some());
    write(&mut rig, 2, b"k", insert(b"w"));
    assert!(rig.answer(token(2)).is_some());
    rig.partition.set_durability(&mut rig.engine, Durability::Sync, &mut rig.out).expect("changes");
    write(&mut rig, 3, b"k", insert(b"x"));
    assert!(rig.answer(token(3)).is_none());
    rig.flush();
    assert!(rig.answer(token(3)).is_some());
}

#[test]
fn versions_exceed_session_timestamp_and_far_future_is_refused() {
    let mut rig = PartitionRig::new(Durability::DEFAULT);
    let seen = Timestamp::new(rig.now.ms + 300, 5);
    rig.write(token(1), Stamp { seen, ..Stamp::default() }, b"k", insert(b"v"));
    assert_eq!(rig.answer(token(1)).map(|a| a.version()), Some(seen.next()));
    let seen = Timestamp::from_millis(rig.now.ms + 501);
    rig.write(token(2), Stamp { seen, ..Stamp::default() }, b"k", insert(b"w"));
    let ahead = Err(Failure::ClockAhead { ahead_ms: 501 });
    assert_eq!(rig.answer(token(2)).map(|a| a.number()), Some(ahead));
}

#[test]
fn other_epoch_and_invalid_operation_are_refused() {
    let mut rig = PartitionRig::new(Durability::DEFAULT);
    let read = RecordRead { key: b"k", query: Query::Lookup };
    let message = Message::Read { seen: Timestamp::ZERO, read };
    for (request, epoch) in [(1, 1), (2, 2), (3, 0)] {
        let envelope = Envelope { partition_epoch: PartitionEpoch(epoch), ..Envelope::default() };
        rig.step(PartitionEvent::Request(RecordRequest {
            token: token(request),
            envelope,
            message: &message,
        }));
    }
    assert!(rig.answer(token(1)).is_some() && rig.answer(token(3)).is_some());
    assert_eq!(rig.out.wrong_owner, [token(2)]);
    rig.send(token(4), 0, &Message::SessionOpen(zerohop_wire::messages::SessionOpen));
    let refused = Err(Failure::BadRequest { reason: BadRequestReason::Unexpected });
    assert_eq!(rig.answer(token(4)).map(|a| a.number()), Some(refused));
    write(&mut rig, 5, b"", insert(b"v"));
    let refused = Err(Failure::KeyTooLong { length: 0, limit: 65_536 });
    assert_eq!(rig.answer(token(5)).map(|a| a.number()), Some(refused));
}
