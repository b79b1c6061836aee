//! `take` over a partition.

use zerohop_wire::Failure;
use zerohop_wire::limits::TAKE_BYTES_MAX;
use zerohop_wire::messages::{Query, Take, WriteChange};

use crate::testing::{PartitionBench, append, insert};

const TAKE: WriteChange<'static> = WriteChange::Take(Take);

#[test]
fn take_returns_a_record_only_once() {
    let mut bench = PartitionBench::new();
    let version = bench.write(b"k", insert(b"value")).version();
    let taken = bench.write(b"k", TAKE);
    assert_eq!((taken.version(), taken.bytes()), (version, Some(b"value".to_vec())));
    assert_eq!(bench.write(b"k", TAKE).number(), Err(Failure::NotFound));
    assert_eq!(bench.read(b"k", Query::Lookup).number(), Err(Failure::NotFound));
    bench.write(b"list", append(&[b"a", b""])).number().expect("is done");
    bench.write(b"list", append(&[b"c"])).number().expect("is done");
    let values = vec![b"a".to_vec(), b"".to_vec(), b"c".to_vec()];
    assert_eq!(bench.write(b"list", TAKE).list(), Some(values));
    assert_eq!(bench.list(b"list"), None);
}

#[test]
fn take_keeps_too_long_record() {
    let mut bench = PartitionBench::new();
    let limit = TAKE_BYTES_MAX as u32;
    let long = vec![7; TAKE_BYTES_MAX + 1];
    bench.write(b"k", insert(&long)).number().expect("is done");
    let length = long.len() as u64;
    assert_eq!(bench.write(b"k", TAKE).number(), Err(Failure::ValueTooLong { length, limit }));
    assert_eq!(bench.bytes(b"k"), Some(long));
    bench.write(b"k", insert(&[7; TAKE_BYTES_MAX])).number().expect("is done");
    assert_eq!(bench.write(b"k", TAKE).bytes().map(|bytes| bytes.len()), Some(TAKE_BYTES_MAX));
    let value = vec![7; TAKE_BYTES_MAX / 2];
    bench.write(b"list", append(&[&value, &value])).number().expect("is done");
    assert_eq!(bench.write(b"list", TAKE).number(), Err(Failure::ValueTooLong { length, limit }));
    assert_eq!(bench.list(b"list").map(|list| list.len()), Some(2));
}
