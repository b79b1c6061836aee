//! Retries: a repeated write gets its first outcome, whatever has happened since.

use zerohop_engine::Durability;
use zerohop_wire::ids::{SessionId, Timestamp};
use zerohop_wire::messages::{
    CompareSwap, Condition, Increment, Query, RecordRead, RecordWrite, Remove, Stamp, Take, Trim, WriteChange,
};
use zerohop_wire::{Failure, Message};

use super::{SESSION, stamp};
use crate::PartitionEvent;
use crate::limits::{SEEN_VALUE_BYTES_MAX, SESSION_IDLE_MS};
use crate::testing::{PartitionRig, append, insert, token};

const ADD: WriteChange<'static> = WriteChange::Increment(Increment { delta: 1 });

fn counter(rig: &mut PartitionRig, request: u64, stamp: Stamp) -> Option<Result<i64, Failure<'static>>> {
    rig.write(token(request), stamp, b"n", ADD);
    rig.flush();
    rig.answer(token(request)).map(|answer| answer.counter())
}

#[test]
fn a_repeated_write_is_done_once_and_answered_alike() {
    for durability in [Durability::DEFAULT, Durability::Sync] {
        let mut rig = PartitionRig::new(durability);
        let first = counter(&mut rig, 1, stamp(1, 1));
        assert_eq!(first, Some(Ok(1)));
        assert_eq!(counter(&mut rig, 2, stamp(1, 1)), first);
        assert_eq!(counter(&mut rig, 3, stamp(2, 1)), Some(Ok(2)));
        assert_eq!(counter(&mut rig, 4, stamp(1, 1)), first);
    }
}

/// The entry of each may still be committed by the next primary, also that of a write whose answer has contents.
#[test]
fn deposed_primary_leaves_pending_writes_in_doubt_and_reads_undone() {
    let mut rig = PartitionRig::new(Durability::Sync);
    rig.write(token(1), Stamp::default(), b"k", insert(b"v"));
    rig.flush();
    assert!(rig.answer(token(1)).expect("is answered").number().is_ok());
    rig.write(token(2), stamp(1, 1), b"k", WriteChange::Take(Take));
    rig.write(token(3), stamp(2, 1), b"j", insert(b"w"));
    let read = RecordRead { key: b"j", query: Query::Lookup };
    rig.send(token(4), 0, &Message::Read { seen: Timestamp::ZERO, read });
    let unavailable = Failure::Unavailable { retry_after_ms: 20 };
    rig.partition.step_down(&unavailable, &mut rig.out);
    let in_doubt = Failure::TimedOut { version: Timestamp::ZERO };
    for (request, failure) in [(2, &in_doubt), (3, &in_doubt), (4, &unavailable)] {
        let answer = rig.answer(token(request)).expect("is answered");
        assert_eq!(answer.number(), Err(failure.clone()), "request {request}");
    }
}

#[test]
fn retry_before_flush_waits_for_the_same_entry() {
    let mut rig = PartitionRig::new(Durability::Sync);
    for request in 1..=3 {
        rig.write(token(request), stamp(1, 1), b"n", ADD);
    }
    assert!(rig.out.answers.is_empty());
    rig.flush();
    for request in 1..=3 {
        assert_eq!(rig.answer(token(request)).map(|a| a.counter()), Some(Ok(1)));
    }
}

#[test]
fn failed_outcomes_are_first_outcomes_too() {
    for durability in [Durability::DEFAULT, Durability::Sync] {
        let mut rig = PartitionRig::new(durability);
        let expected = Some(&b"other"[..]);
        let changes = [
            WriteChange::Trim(Trim { keep: zerohop_wire::messages::Range::ALL }),
            WriteChange::CompareSwap(CompareSwap { expected, new: None }),
            WriteChange::Remove(Remove),
            append(&[]),
        ];
        let query = |rig: &mut PartitionRig, request: u64, sequence| {
            rig.write(token(request), stamp(sequence, 1), b"k", changes[sequence as usize - 1]);
            rig.flush();
            rig.answer(token(request)).expect("is answered")
        };
        let first: Vec<_> = (1..=4).map(|sequence| query(&mut rig, sequence, sequence)).collect();
        rig.write(token(9), Stamp::default(), b"k", insert(b"there now"));
        rig.flush();
        for (sequence, first) in (1..=4).zip(&first) {
            assert_eq!(&query(&mut rig, 10 + sequence, sequence), first);
        }
        rig = rig.crash(durability);
        if durability == Durability::Sync {
            for (sequence, first) in (1..=4).zip(&first) {
                assert_eq!(&query(&mut rig, 20 + sequence, sequence), first);
            }
        }
    }
}

#[test]
fn retried_take_returns_the_record_also_after_crash() {
    for durability in [Durability::DEFAULT, Durability::Sync] {
        let mut rig = PartitionRig::new(durability);
        rig.write(token(1), Stamp::default(), b"k", insert(b"value"));
        rig.write(token(2), Stamp::default(), b"list", append(&[b"a", b"bc"]));
        rig.flush();
        let query = |rig: &mut PartitionRig, request: u64, sequence, key: &[u8]| {
            rig.write(token(request), stamp(sequence, 1), key, WriteChange::Take(Take));
            rig.flush();
            rig.answer(token(request)).expect("is answered")
        };
        let first = [query(&mut rig, 3, 1, b"k"), query(&mut rig, 4, 2, b"list")];
        assert_eq!(first[0].bytes(), Some(b"value".to_vec()));
        assert_eq!(first[1].list(), Some(vec![b"a".to_vec(), b"bc".to_vec()]));
        rig.write(token(5), Stamp::default(), b"k", insert(b"another"));
        rig.flush();
        assert_eq!([query(&mut rig, 6, 1, b"k"), query(&mut rig, 7, 2, b"list")], first);
        rig = rig.crash(durability);
        if durability == Durability::Sync {
            assert_eq!([query(&mut rig, 8, 1, b"k"), query(&mut rig, 9, 2, b"list")], first);
            assert_eq!(query(&mut rig, 10, 3, b"k").bytes(), Some(b"another".to_vec()));
        }
    }
}

#[test]
fn a_failed_condition_on_a_version_stays_failed() {
    let mut rig = PartitionRig::new(Durability::DEFAULT);
    let condition = Condition::IfAbsent;
    rig.write(token(1), Stamp::default(), b"k", insert(b"v"));
    for request in [2, 3] {
        let write = RecordWrite { key: b"k", condition, change: insert(b"w") };
        rig.send(token(request), 0, &Message::Write { stamp: stamp(1, 1), write });
        rig.write(token(request + 10), Stamp::default(), b"k", WriteChange::Remove(Remove));
    }
    let first = rig.answer(token(2));
    assert!(matches!(first.as_ref().map(|a| a.number()), Some(Err(Failure::ConditionFailed { .. }))));
    assert_eq!(rig.answer(token(3)), first, "though there is no record now");
}

#[test]
fn retry_of_failed_swap_returns_seen_value_or_only_its_version() {
    let mut rig = PartitionRig::new(Durability::DEFAULT);
    let long = vec![7; SEEN_VALUE_BYTES_MAX + 1];
    for (sequence, value) in [(1, &b"short"[..]), (2, &long)] {
        rig.write(token(10 * sequence), Stamp::default(), b"k", insert(value));
        let version = rig.answer(token(10 * sequence)).map(|a| a.version()).unwrap_or_default();
        for retry in 1..=2 {
            let swap = WriteChange::CompareSwap(CompareSwap { expected: None, new: Some(b"x") });
            rig.write(token(10 * sequence + retry), stamp(sequence, 1), b"k", swap);
        }
        let mut failed = |retry| rig.answer(token(10 * sequence + retry)).map(|a| a.number());
        let seen = Some(value.to_vec().into());
        assert_eq!(failed(1), Some(Err(Failure::CompareFailed { version, seen: seen.clone() })));
        let again = match sequence {
            1 => Failure::CompareFailed { version, seen },
            _ => Failure::ConditionFailed { version, found: Some(zerohop_wire::messages::RecordType::Bytes) },
        };
        assert_eq!(failed(2), Some(Err(again)));
    }
}

#[test]
fn retry_of_confirmed_write_is_dropped() {
    let mut rig = PartitionRig::new(Durability::DEFAULT);
    assert_eq!(counter(&mut rig, 1, stamp(1, 1)), Some(Ok(1)));
    assert_eq!(counter(&mut rig, 2, stamp(2, 2)), Some(Ok(2)));
    assert_eq!(counter(&mut rig, 3, stamp(1, 1)), None);
    assert_eq!(rig.out.dropped, [token(3)]);
}

#[test]
fn idle_sessions_expire_and_newer_ones_stay() {
    for durability in [Durability::DEFAULT, Durability::Sync] {
        let mut rig = PartitionRig::new(durability);
        assert_eq!(counter(&mut rig, 1, stamp(1, 1)), Some(Ok(1)));
        rig.now.ms += SESSION_IDLE_MS + 1;
        let newer = SessionId { issued: Timestamp::from_millis(rig.now.ms), nonce: 2 };
        let of_newer = |sequence| Stamp { session: newer, ..stamp(sequence, 1) };
        assert_eq!(counter(&mut rig, 2, of_newer(1)), Some(Ok(2)));
        rig.step(PartitionEvent::Tick);
        let mark = SESSION.issued.next();
        let expired = Some(Err(Failure::SessionExpired { mark }));
        assert_eq!(counter(&mut rig, 3, stamp(1, 1)), expired);
        rig.flush();
        rig.engine.sync().expect("syncs");
        for request in [4, 8] {
            assert_eq!(counter(&mut rig, request, stamp(1, 1)), expired);
            assert_eq!(counter(&mut rig, request + 1, stamp(2, 1)), expired);
            assert_eq!(counter(&mut rig, request + 2, of_newer(1)), Some(Ok(2)));
            let older = SessionId { issued: Timestamp::from_millis(400), nonce: 9 };
            let never_seen = Stamp { session: older, ..stamp(1, 1) };
            assert_eq!(counter(&mut rig, request + 3, never_seen), expired);
            rig = rig.crash(durability);
        }
        assert_eq!(rig.partition.stats().sessions, 1);
    }
}

#[test]
fn active_session_does_not_expire() {
    let mut rig = PartitionRig::new(Durability::DEFAULT);
    for sequence in 1..20u64 {
        assert_eq!(counter(&mut rig, sequence, stamp(sequence, sequence)), Some(Ok(sequence as i64)));
        rig.now.ms += SESSION_IDLE_MS / 2;
        rig.step(PartitionEvent::Tick);
    }
    let stats = rig.partition.stats();
    assert_eq!(stats.sessions, 1);
    assert!(stats.session_bytes < 300, "one outcome is kept: {} bytes", stats.session_bytes);
}

#[test]
fn full_session_table_refuses_writes_that_free_no_outcome() {
    let mut rig = PartitionRig::new(Durability::DEFAULT);
    let mut request = 0;
    let mut query = |rig: &mut PartitionRig, nonce, sequence, lowest| {
        request += 1;
        let session = SessionId { nonce, ..SESSION };
        rig.write(
            token(request),
            Stamp { session, ..stamp(sequence, lowest) },
            b"k",
            WriteChange::Remove(Remove),
        );
        rig.answer(token(request)).map(|answer| answer.number())
    };
    let busy =
        |answer: &Option<Result<u64, Failure<'static>>>| matches!(answer, Some(Err(Failure::Busy { .. })));
    'fill: for nonce in 1.. {
        for sequence in 1..=16_000 {
            if busy(&query(&mut rig, nonce, sequence, 1)) {
                break 'fill;
            }
        }
    }
    assert!(rig.partition.stats().session_bytes <= crate::limits::SESSION_BYTES_MAX + 1_000);
    assert!(busy(&query(&mut rig, 999_999, 1, 1)), "a new session");
    assert!(busy(&query(&mut rig, 1, 16_001, 1)), "a request that frees nothing");
    assert_eq!(query(&mut rig, 1, 1, 1), Some(Ok(0)), "a retry");
    assert_eq!(query(&mut rig, 1, 16_002, 16_000), Some(Ok(0)), "a request that frees outcomes");
    assert_eq!(query(&mut rig, 999_999, 1, 1), Some(Ok(0)), "now there is room");
}

#[test]
fn requests_without_session_leave_no_session_state() {
    let mut rig = PartitionRig::new(Durability::DEFAULT);
    rig.write(token(1), Stamp::default(), b"k", insert(b"v"));
    let read = RecordRead { key: b"k", query: Query::Lookup };
    rig.send(token(2), 0, &Message::Read { seen: Timestamp::ZERO, read });
    assert_eq!((rig.partition.stats().sessions, rig.partition.stats().last), (0, 1));
}
