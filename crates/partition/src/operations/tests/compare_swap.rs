//! `compare_swap` over a partition.

use std::borrow::Cow;

use zerohop_wire::Failure;
use zerohop_wire::ids::Timestamp;
use zerohop_wire::messages::{CompareSwap, Expiry, Insert, RecordType, WriteChange};

use crate::testing::{PartitionBench, append};

fn swap<'a>(expected: Option<&'a [u8]>, new: Option<&'a [u8]>) -> WriteChange<'a> {
    WriteChange::CompareSwap(CompareSwap { expected, new })
}

#[test]
fn compare_swap_replaces_expected_value_or_returns_seen_one() {
    let mut bench = PartitionBench::new();
    let none = Err(Failure::CompareFailed { version: Timestamp::ZERO, seen: None });
    assert_eq!(bench.write(b"k", swap(Some(b"a"), Some(b"b"))).number(), none);
    let first = bench.write(b"k", swap(None, Some(b"a"))).version();
    let seen = Some(Cow::Borrowed(&b"a"[..]));
    let failed = Err(Failure::CompareFailed { version: first, seen });
    assert_eq!(bench.write(b"k", swap(None, Some(b"x"))).number(), failed);
    assert_eq!(bench.write(b"k", swap(Some(b"b"), None)).number(), failed);
    assert_eq!(bench.write(b"k", swap(Some(b"a"), Some(b""))).number(), Ok(0));
    assert_eq!(bench.bytes(b"k").as_deref(), Some(&b""[..]));
    let removed = bench.write(b"k", swap(Some(b""), None));
    assert_eq!((removed.number(), removed.version()), (Ok(0), Timestamp::ZERO));
    assert_eq!(bench.bytes(b"k"), None);
    assert_eq!(bench.write(b"k", swap(None, None)).number(), Ok(0));
}

#[test]
fn replaced_record_keeps_its_expiry() {
    let mut bench = PartitionBench::new();
    let insert = WriteChange::Insert(Insert { value: b"a", expiry: Expiry::AfterMs(20) });
    bench.write(b"k", insert).number().expect("is done");
    bench.write(b"k", swap(Some(b"a"), Some(b"b"))).number().expect("is done");
    bench.advance_ms(20);
    assert_eq!(bench.bytes(b"k"), None);
}

#[test]
fn compare_swap_refuses_a_list() {
    let mut bench = PartitionBench::new();
    bench.write(b"k", append(&[b"a"])).number().expect("is done");
    let wrong = Err(Failure::WrongType { found: RecordType::List });
    assert_eq!(bench.write(b"k", swap(None, Some(b"b"))).number(), wrong);
}
