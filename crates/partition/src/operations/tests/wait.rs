//! `wait` over a partition.

use zerohop_wire::Failure;
use zerohop_wire::ids::Timestamp;
use zerohop_wire::messages::{Expiry, Insert, Query, Remove, Wait, WaitUntil, WriteChange};

use crate::testing::{PartitionBench, append, insert};

fn wait(until: WaitUntil<'_>) -> Query<'_> {
    Query::Wait(Wait { until })
}

#[test]
fn satisfied_wait_is_answered_at_once() {
    let mut bench = PartitionBench::new();
    assert_eq!(bench.read(b"k", wait(WaitUntil::Absent)).number(), Err(Failure::NotFound));
    assert_eq!(bench.read(b"k", wait(WaitUntil::Differs(b"v"))).number(), Err(Failure::NotFound));
    let version = bench.write(b"k", insert(b"v")).version();
    for until in [
        WaitUntil::Equals(b"v"),
        WaitUntil::Differs(b"w"),
        WaitUntil::Present,
        WaitUntil::Changed(Timestamp::ZERO),
        WaitUntil::Changed(version.next()),
    ] {
        assert_eq!(bench.read(b"k", wait(until)).bytes(), Some(b"v".to_vec()));
    }
    bench.write(b"list", append(&[b"v"])).number().expect("is done");
    assert!(bench.read(b"list", wait(WaitUntil::Differs(b"v"))).list().is_some());
}

#[test]
fn wait_is_answered_by_the_satisfying_write_only() {
    let mut bench = PartitionBench::new();
    let version = bench.write(b"k", insert(b"one")).version();
    let equals = bench.send_waiting_read(b"k", wait(WaitUntil::Equals(b"three")), 1_000);
    let differs = bench.send_waiting_read(b"k", wait(WaitUntil::Differs(b"one")), 1_000);
    let absent = bench.send_waiting_read(b"k", wait(WaitUntil::Absent), 1_000);
    let changed = bench.send_waiting_read(b"k", wait(WaitUntil::Changed(version)), 1_000);
    let other = bench.send_waiting_read(b"other", wait(WaitUntil::Present), 1_000);
    bench.write(b"k", insert(b"two")).number().expect("is done");
    assert_eq!(bench.answer(differs).and_then(|a| a.bytes()), Some(b"two".to_vec()));
    assert_eq!(bench.answer(changed).and_then(|a| a.bytes()), Some(b"two".to_vec()));
    assert!(bench.answer(equals).is_none() && bench.answer(absent).is_none());
    bench.write(b"k", WriteChange::Remove(Remove)).number().expect("is done");
    assert_eq!(bench.answer(absent).map(|a| a.number()), Some(Err(Failure::NotFound)));
    bench.write(b"k", insert(b"three")).number().expect("is done");
    assert_eq!(bench.answer(equals).and_then(|a| a.bytes()), Some(b"three".to_vec()));
    assert!(bench.answer(other).is_none());
    assert_eq!(bench.stats().waits, 1);
}

#[test]
fn wait_times_out_with_the_version_last_seen() {
    let mut bench = PartitionBench::new();
    let version = bench.write(b"k", insert(b"v")).version();
    let soon = bench.send_waiting_read(b"k", wait(WaitUntil::Absent), 10);
    let later = bench.send_waiting_read(b"none", wait(WaitUntil::Present), 20);
    assert_eq!(bench.next_tick_ms(), Some(bench.now_ms() + 10));
    bench.advance_ms(10);
    assert_eq!(bench.answer(soon).map(|a| a.number()), Some(Err(Failure::TimedOut { version })));
    assert!(bench.answer(later).is_none());
    bench.advance_ms(10);
    let version = Timestamp::ZERO;
    assert_eq!(bench.answer(later).map(|a| a.number()), Some(Err(Failure::TimedOut { version })));
    assert_eq!(bench.next_tick_ms(), None);
}

#[test]
fn expiry_answers_waits_for_absence() {
    let mut bench = PartitionBench::new();
    let change = WriteChange::Insert(Insert { value: b"v", expiry: Expiry::AfterMs(5) });
    bench.write(b"k", change).number().expect("is done");
    let absent = bench.send_waiting_read(b"k", wait(WaitUntil::Absent), 1_000);
    bench.advance_ms(5);
    assert_eq!(bench.answer(absent).map(|a| a.number()), Some(Err(Failure::NotFound)));
}

#[test]
fn closed_connection_leaves_no_wait() {
    let mut bench = PartitionBench::new();
    bench.send_waiting_read(b"k", wait(WaitUntil::Present), 1_000);
    bench.disconnect();
    assert_eq!((bench.stats().waits, bench.next_tick_ms()), (0, None));
    bench.write(b"k", insert(b"v")).number().expect("is done");
}
