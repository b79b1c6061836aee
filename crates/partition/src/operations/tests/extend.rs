//! `extend` over a partition.

use zerohop_wire::Failure;
use zerohop_wire::limits::VALUE_BYTES_MAX;
use zerohop_wire::messages::{Extend, LookupRange, Query, Range, RecordType, WriteChange};

use crate::testing::{PartitionBench, append, insert};

fn extend(bytes: &[u8]) -> WriteChange<'_> {
    WriteChange::Extend(Extend { bytes })
}

#[test]
fn extend_creates_a_record_and_lengthens_it() {
    let mut bench = PartitionBench::new();
    assert_eq!(bench.write(b"k", extend(b"")).number(), Ok(0));
    assert_eq!(bench.bytes(b"k").as_deref(), Some(&b""[..]));
    assert_eq!(bench.write(b"k", extend(b"ab")).number(), Ok(2));
    assert_eq!(bench.write(b"k", extend(b"cde")).number(), Ok(5));
    assert_eq!(bench.bytes(b"k").as_deref(), Some(&b"abcde"[..]));
    let range = Range { start: 1, stop: -1 };
    let part = bench.read(b"k", Query::LookupRange(LookupRange { range }));
    assert_eq!((part.bytes(), part.length()), (Some(b"bcd".to_vec()), 5));
    assert_eq!(bench.write(b"k", insert(b"x")).number(), Ok(0));
    assert_eq!(bench.write(b"k", extend(b"y")).number(), Ok(2));
}

#[test]
fn extend_refuses_lists_and_too_long_values() {
    let mut bench = PartitionBench::new();
    let most = vec![7; VALUE_BYTES_MAX];
    bench.write(b"k", insert(&most)).number().expect("is done");
    let (length, limit) = (VALUE_BYTES_MAX as u64 + 1, VALUE_BYTES_MAX as u32);
    assert_eq!(bench.write(b"k", extend(b"x")).number(), Err(Failure::ValueTooLong { length, limit }));
    bench.write(b"list", append(&[b"a"])).number().expect("is done");
    let wrong = Err(Failure::WrongType { found: RecordType::List });
    assert_eq!(bench.write(b"list", extend(b"x")).number(), wrong);
}
