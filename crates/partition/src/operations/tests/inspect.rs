//! `inspect` over a partition.

use zerohop_wire::Failure;
use zerohop_wire::messages::{Query, RecordType};

use crate::testing::{PartitionBench, append, insert};

#[test]
fn inspect_returns_type_length_and_version() {
    let mut bench = PartitionBench::new();
    assert_eq!(bench.read(b"k", Query::Inspect).number(), Err(Failure::NotFound));
    let version = bench.write(b"k", insert(b"value")).version();
    let info = bench.read(b"k", Query::Inspect);
    assert_eq!((info.record(), info.length(), info.version()), (Some(RecordType::Bytes), 5, version));
    bench.write(b"list", append(&[b"a", b"b"])).number().expect("is done");
    let version = bench.write(b"list", append(&[b"c"])).version();
    let info = bench.read(b"list", Query::Inspect);
    assert_eq!((info.record(), info.length(), info.version()), (Some(RecordType::List), 3, version));
}
