//! `insert` over a partition.

use zerohop_wire::Failure;
use zerohop_wire::ids::Timestamp;
use zerohop_wire::messages::{Condition, Expiry, Insert, RecordType, WriteChange};

use crate::testing::{PartitionBench, append, insert};

#[test]
fn insert_replaces_any_record() {
    let mut bench = PartitionBench::new();
    assert_eq!(bench.write(b"k", insert(b"one")).number(), Ok(0));
    assert_eq!(bench.bytes(b"k").as_deref(), Some(&b"one"[..]));
    bench.write(b"list", append(&[b"a"])).number().expect("is done");
    bench.write(b"list", insert(b"")).number().expect("is done");
    assert_eq!(bench.bytes(b"list").as_deref(), Some(&b""[..]));
}

#[test]
fn failed_condition_leaves_record_unchanged() {
    let mut bench = PartitionBench::new();
    let mut when = |condition, value| bench.write_if(b"k", condition, insert(value));
    let none = Err(Failure::ConditionFailed { version: Timestamp::ZERO, found: None });
    assert_eq!(when(Condition::IfPresent, b"x").number(), none);
    assert_eq!(when(Condition::IfVersion(Timestamp::ZERO), b"x").number(), none);
    let first = when(Condition::IfAbsent, b"one").version();
    let found = Some(RecordType::Bytes);
    let failed = Err(Failure::ConditionFailed { version: first, found });
    assert_eq!(when(Condition::IfAbsent, b"x").number(), failed);
    assert_eq!(when(Condition::IfVersion(first.next()), b"x").number(), failed);
    let second = when(Condition::IfVersion(first), b"two").version();
    assert!(second > first);
    assert_eq!(when(Condition::IfPresent, b"three").number(), Ok(0));
    assert_eq!(bench.bytes(b"k").as_deref(), Some(&b"three"[..]));
}

#[test]
fn expiry_counts_from_evaluation_and_plain_insert_clears_it() {
    let mut bench = PartitionBench::new();
    let insert_with = |expiry| WriteChange::Insert(Insert { value: b"v", expiry });
    bench.write(b"k", insert_with(Expiry::AfterMs(50))).number().expect("is done");
    bench.write(b"k", insert_with(Expiry::Unchanged)).number().expect("is done");
    bench.advance_ms(49);
    assert!(bench.bytes(b"k").is_some());
    bench.advance_ms(1);
    assert_eq!(bench.bytes(b"k"), None);
    let at = bench.now_ms() + 10;
    bench.write(b"k", insert_with(Expiry::AtMs(at))).number().expect("is done");
    bench.write(b"k", insert_with(Expiry::Never)).number().expect("is done");
    bench.advance_ms(1_000);
    assert!(bench.bytes(b"k").is_some());
    bench.write(b"k", insert_with(Expiry::AtMs(0))).number().expect("is done");
    assert_eq!(bench.bytes(b"k"), None, "a deadline that has passed");
}
