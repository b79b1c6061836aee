//! `increment` over a partition.

use zerohop_wire::Failure;
use zerohop_wire::messages::{Increment, RecordType, WriteChange};

use crate::testing::{PartitionBench, append, insert};

fn add(delta: i64) -> WriteChange<'static> {
    WriteChange::Increment(Increment { delta })
}

#[test]
fn a_counter_begins_at_zero_and_is_decimal_text() {
    let mut bench = PartitionBench::new();
    assert_eq!(bench.write(b"k", add(5)).counter(), Ok(5));
    assert_eq!(bench.write(b"k", add(-8)).counter(), Ok(-3));
    assert_eq!(bench.bytes(b"k").as_deref(), Some(&b"-3"[..]));
    bench.write(b"k", insert(b"9223372036854775806")).number().expect("is done");
    assert_eq!(bench.write(b"k", add(1)).counter(), Ok(i64::MAX));
    assert_eq!(bench.write(b"k", add(1)).counter(), Err(Failure::Overflow));
    assert_eq!(bench.write(b"k", add(i64::MIN)).counter(), Ok(-1));
}

#[test]
fn only_numbers_are_counted() {
    let mut bench = PartitionBench::new();
    for text in ["", "x", "1 ", "+1", "01", "-0", "-", "9223372036854775808", "123456789012345678901"] {
        bench.write(b"k", insert(text.as_bytes())).number().expect("is done");
        assert_eq!(bench.write(b"k", add(1)).counter(), Err(Failure::NotANumber), "{text}");
    }
    bench.write(b"k", insert(b"-9223372036854775808")).number().expect("is done");
    assert_eq!(bench.write(b"k", add(1)).counter(), Ok(i64::MIN + 1));
    bench.write(b"list", append(&[b"1"])).number().expect("is done");
    assert_eq!(bench.write(b"list", add(1)).counter(), Err(Failure::WrongType { found: RecordType::List }));
}
