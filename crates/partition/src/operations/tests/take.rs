//! `take` over a partition.

use zerohop_wire::Failure;
use zerohop_wire::limits::{LIST_PAGE_VALUES_MAX, TAKE_BYTES_MAX};
use zerohop_wire::messages::{Query, Range, Take, Trim, WriteChange};

use crate::testing::{PartitionBench, append, insert};

const TAKE: WriteChange<'static> = WriteChange::Take(Take);

#[test]
fn take_returns_a_record_only_once() {
    let mut bench = PartitionBench::new();
    let version = bench.write(b"k", insert(b"value")).version();
    let removed = bench.write(b"k", TAKE);
    assert_eq!((removed.version(), removed.bytes()), (version, Some(b"value".to_vec())));
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
    bench.write(b"one", append(&[&vec![7; TAKE_BYTES_MAX]])).number().expect("is done");
    assert_eq!(
        bench.write(b"one", TAKE).number(),
        Err(Failure::ValueTooLong { length, limit }),
        "with its length before it"
    );
    assert_eq!(bench.list(b"one").map(|list| list.len()), Some(1));
}

#[test]
fn list_of_more_values_than_an_answer_has_stays() {
    let mut bench = PartitionBench::new();
    let values: Vec<&[u8]> = vec![b"v"; LIST_PAGE_VALUES_MAX as usize];
    bench.write(b"list", append(&values)).number().expect("is done");
    bench.write(b"list", append(&[b"w"])).number().expect("is done");
    let (count, limit) = (u64::from(LIST_PAGE_VALUES_MAX) + 1, LIST_PAGE_VALUES_MAX);
    assert_eq!(bench.write(b"list", TAKE).number(), Err(Failure::TooMany { count, limit }));
    assert_eq!(bench.list(b"list").map(|list| list.len()), Some(values.len()), "the first page of it");
    let keep = Range { start: 1, stop: i64::MAX };
    bench.write(b"list", WriteChange::Trim(Trim { keep })).number().expect("is done");
    assert_eq!(bench.write(b"list", TAKE).list().map(|list| list.len()), Some(values.len()));
    assert_eq!(bench.read(b"list", Query::Lookup).number(), Err(Failure::NotFound));
}
