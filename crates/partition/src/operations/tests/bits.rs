//! Bits of a bytes record.

use zerohop_wire::Failure;
use zerohop_wire::messages::{CountBits, GetBit, Query, Range, RecordType, SetBit, WriteChange};

use crate::testing::{PartitionBench, append, insert};

#[test]
fn set_bit_grows_record_and_returns_old_bit() {
    let mut bench = PartitionBench::new();
    let set = |offset, on| WriteChange::SetBit(SetBit { offset, on });
    assert_eq!(bench.write(b"k", set(10, true)).number(), Ok(0));
    assert_eq!(bench.bytes(b"k"), Some(vec![0, 0x20]));
    let version = bench.write(b"k", set(10, true)).version();
    assert_eq!(bench.write(b"k", set(10, true)).number(), Ok(1));
    assert_eq!(bench.write(b"k", set(0, false)).version(), version, "nothing has changed");
    assert_eq!(bench.write(b"k", set(10, false)).number(), Ok(1));
    assert_eq!(bench.write(b"new", set(3, false)).number(), Ok(0));
    assert_eq!(bench.bytes(b"new"), Some(vec![0]));
}

#[test]
fn bits_are_read_and_counted_and_those_beyond_the_end_are_zero() {
    let mut bench = PartitionBench::new();
    assert_eq!(bench.read(b"k", Query::GetBit(GetBit { offset: 5 })).number(), Ok(0));
    assert_eq!(bench.read(b"k", Query::CountBits(CountBits { range: Range::ALL })).number(), Ok(0));
    bench.write(b"k", insert(&[0x81, 0xFF, 0x01])).number().expect("is done");
    let bits: Vec<u64> = [0, 1, 7, 23, 24, 1 << 20]
        .map(|offset| bench.read(b"k", Query::GetBit(GetBit { offset })).number().expect("is done"))
        .into();
    assert_eq!(bits, [1, 0, 1, 1, 0, 0]);
    assert_eq!(bench.read(b"k", Query::CountBits(CountBits { range: Range::ALL })).number(), Ok(11));
    let range = Range { start: 1, stop: -1 };
    assert_eq!(bench.read(b"k", Query::CountBits(CountBits { range })).number(), Ok(8));
}

#[test]
fn a_list_has_no_bits() {
    let mut bench = PartitionBench::new();
    bench.write(b"k", append(&[b"a"])).number().expect("is done");
    let wrong = Err(Failure::WrongType { found: RecordType::List });
    assert_eq!(bench.read(b"k", Query::GetBit(GetBit { offset: 5 })).number(), wrong);
    assert_eq!(bench.write(b"k", WriteChange::SetBit(SetBit { offset: 1, on: true })).number(), wrong);
}
