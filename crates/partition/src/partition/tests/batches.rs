//! Batches: operations run in order and independently, and are answered together.

use zerohop_engine::Durability;
use zerohop_wire::ids::Timestamp;
use zerohop_wire::messages::{
    Condition, Extend, Increment, OperationBatch, Query, RecordOperation, RecordRead, RecordWrite, Stamp,
    Wait, WaitUntil, WriteChange,
};
use zerohop_wire::{Elements, Failure, Message};

use super::stamp;
use crate::PartitionEvent;
use crate::testing::{OwnedAnswer, PartitionRig, append, insert, token};

fn write<'a>(key: &'a [u8], change: WriteChange<'a>) -> RecordOperation<'a> {
    RecordOperation::Write(RecordWrite { key, condition: Condition::Always, change })
}

fn read<'a>(key: &'a [u8], query: Query<'a>) -> RecordOperation<'a> {
    RecordOperation::Read(RecordRead { key, query })
}

fn send(
    rig: &mut PartitionRig,
    request: u64,
    stamp: Stamp,
    operations: &[RecordOperation<'_>],
) -> Option<Vec<OwnedAnswer>> {
    let batch = OperationBatch { stamp, operations: Elements::from_slice(operations) };
    rig.send(token(request), 100, &Message::Batch(batch));
    rig.out.batches.remove(&token(request))
}

#[test]
fn batch_operations_see_earlier_ones_and_fail_alone() {
    for durability in [Durability::DEFAULT, Durability::Sync] {
        let mut rig = PartitionRig::new(durability);
        let operations = [
            read(b"k", Query::Lookup),
            write(b"k", insert(b"v")),
            read(b"k", Query::Lookup),
            write(b"k", append(&[b"x"])),
            write(b"k", WriteChange::Extend(Extend { bytes: b"w" })),
            read(b"k", Query::Inspect),
        ];
        let at_once = send(&mut rig, 1, Stamp::default(), &operations);
        assert_eq!(at_once.is_some(), durability != Durability::Sync);
        rig.flush();
        let answers = at_once.or_else(|| rig.out.batches.remove(&token(1))).expect("is answered");
        assert_eq!(answers[0].number(), Err(Failure::NotFound));
        assert_eq!(answers[2].bytes(), Some(b"v".to_vec()));
        assert!(matches!(answers[3].number(), Err(Failure::WrongType { .. })));
        assert_eq!((answers[4].number(), answers[5].length()), (Ok(2), 2));
    }
}

#[test]
fn a_repeated_batch_is_done_once_write_by_write() {
    for durability in [Durability::DEFAULT, Durability::Sync] {
        let mut rig = PartitionRig::new(durability);
        let add = write(b"n", WriteChange::Increment(Increment { delta: 1 }));
        let operations = [add, read(b"n", Query::Lookup), add, add];
        send(&mut rig, 1, stamp(1, 1), &operations[..3]);
        rig.flush();
        send(&mut rig, 2, stamp(1, 1), &operations);
        rig.flush();
        let answers =
            rig.out.batches.remove(&token(2)).or_else(|| send(&mut rig, 3, stamp(1, 1), &operations));
        let answers = answers.expect("is answered");
        let counters: Vec<i64> = [0, 2, 3].map(|at: usize| answers[at].counter().expect("is done")).into();
        assert_eq!(counters, [1, 2, 3]);
    }
}

#[test]
fn empty_batch_gets_an_empty_answer() {
    let mut rig = PartitionRig::new(Durability::DEFAULT);
    assert_eq!(send(&mut rig, 1, Stamp::default(), &[]), Some(Vec::new()));
}

#[test]
fn a_batch_with_waits_is_answered_once_the_last_of_them_is() {
    let mut rig = PartitionRig::new(Durability::DEFAULT);
    let wait = |until| Query::Wait(Wait { until });
    let operations = [
        read(b"a", wait(WaitUntil::Present)),
        write(b"x", insert(b"v")),
        read(b"b", wait(WaitUntil::Present)),
        read(b"x", Query::Lookup),
    ];
    assert_eq!(send(&mut rig, 1, Stamp::default(), &operations), None);
    rig.write(token(2), Stamp::default(), b"b", insert(b"bee"));
    assert!(!rig.out.batches.contains_key(&token(1)));
    rig.now.ms += 100;
    rig.step(PartitionEvent::Tick);
    let answers = rig.out.batches.remove(&token(1)).expect("is answered");
    assert_eq!(answers[0].number(), Err(Failure::TimedOut { version: Timestamp::ZERO }));
    assert_eq!(answers[1].number(), Ok(0));
    assert_eq!(answers[2].bytes(), Some(b"bee".to_vec()));
    assert_eq!(answers[3].bytes(), Some(b"v".to_vec()));
}

#[test]
fn write_in_a_batch_answers_wait_in_the_same_batch() {
    for durability in [Durability::DEFAULT, Durability::Sync] {
        let mut rig = PartitionRig::new(durability);
        let operations =
            [read(b"k", Query::Wait(Wait { until: WaitUntil::Present })), write(b"k", insert(b"v"))];
        let at_once = send(&mut rig, 1, Stamp::default(), &operations);
        rig.flush();
        let answers = at_once.or_else(|| rig.out.batches.remove(&token(1))).expect("is answered");
        assert_eq!((answers[0].bytes(), answers[1].number()), (Some(b"v".to_vec()), Ok(0)));
    }
}

#[test]
fn closed_connection_drops_its_batches() {
    let mut rig = PartitionRig::new(Durability::DEFAULT);
    let operations = [
        read(b"a", Query::Wait(Wait { until: WaitUntil::Present })),
        read(b"b", Query::Wait(Wait { until: WaitUntil::Present })),
    ];
    send(&mut rig, 1, Stamp::default(), &operations);
    rig.step(PartitionEvent::Disconnected { connection: 1 });
    rig.write(token(2), Stamp::default(), b"a", insert(b"v"));
    rig.write(token(3), Stamp::default(), b"b", insert(b"v"));
    assert!(rig.out.batches.is_empty() && rig.partition.stats().waits == 0);
}
