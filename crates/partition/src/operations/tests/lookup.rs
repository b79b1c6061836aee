//! `lookup` and `lookup_range` over a partition.

use zerohop_wire::Failure;
use zerohop_wire::limits::LIST_PAGE_VALUES_MAX;
use zerohop_wire::messages::{LookupRange, Query, Range, Wait};

use crate::testing::{PartitionBench, append, insert};

#[test]
fn lookup_of_absent_record_returns_absent() {
    let mut bench = PartitionBench::new();
    assert_eq!(bench.read(b"k", Query::Lookup).number(), Err(Failure::NotFound));
    let range = Range::ALL;
    assert_eq!(bench.read(b"k", Query::LookupRange(LookupRange { range })).number(), Err(Failure::NotFound));
}

#[test]
fn byte_range_lookup_returns_total_length() {
    let mut bench = PartitionBench::new();
    bench.write(b"k", insert(b"0123456789")).number().expect("is done");
    for (start, stop, expected) in [(0, 3, &b"012"[..]), (-3, i64::MAX, b"789"), (5, 5, b""), (20, 30, b"")] {
        let range = Range { start, stop };
        let part = bench.read(b"k", Query::LookupRange(LookupRange { range }));
        assert_eq!((part.bytes().as_deref(), part.length()), (Some(expected), 10));
    }
}

#[test]
fn long_list_is_paged_by_count_and_by_bytes() {
    let mut bench = PartitionBench::new();
    for n in 0..6_000u32 {
        bench.write(b"k", append(&[&n.to_le_bytes()])).number().expect("is done");
    }
    let first = bench.read(b"k", Query::Lookup);
    let values = first.list().expect("is a list");
    assert_eq!((values.len(), first.length()), (LIST_PAGE_VALUES_MAX as usize, 6_000));
    let range = Range { start: values.len() as i64, stop: i64::MAX };
    let rest = bench.read(b"k", Query::LookupRange(LookupRange { range }));
    assert_eq!(rest.first(), u64::from(LIST_PAGE_VALUES_MAX));
    let all: Vec<Vec<u8>> = values.into_iter().chain(rest.list().expect("is a list")).collect();
    assert_eq!(all, (0..6_000u32).map(|n| n.to_le_bytes().to_vec()).collect::<Vec<_>>());
    let large = vec![1; 400 << 10];
    for _ in 0..4 {
        bench.write(b"large", append(&[&large, &large])).number().expect("is done");
    }
    assert_eq!(bench.read(b"large", Query::Lookup).list().map(|values| values.len()), Some(2));
    let huge = vec![2; 2 << 20];
    bench.write(b"huge", append(&[&huge])).number().expect("is done");
    assert_eq!(bench.read(b"huge", Query::Lookup).list().map(|values| values.len()), Some(1));
}

#[test]
fn empty_key_is_refused_by_reads_and_writes() {
    let mut bench = PartitionBench::new();
    let limit = zerohop_wire::limits::KEY_BYTES_MAX as u32;
    let empty = Failure::KeyTooLong { length: 0, limit };
    assert_eq!(bench.write(b"", insert(b"v")).number(), Err(empty.clone()));
    let wait = Query::Wait(Wait { until: zerohop_wire::messages::WaitUntil::Absent });
    let range = Query::LookupRange(LookupRange { range: zerohop_wire::messages::Range::ALL });
    for query in [Query::Lookup, Query::Inspect, range, wait] {
        assert_eq!(bench.read(b"", query).number(), Err(empty.clone()), "{query:?}");
    }
}
