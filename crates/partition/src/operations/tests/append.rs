//! `append` over a partition.

use zerohop_wire::Failure;
use zerohop_wire::messages::RecordType;

use crate::testing::{PartitionBench, append, insert};

#[test]
fn append_creates_a_list_and_lengthens_it() {
    let mut bench = PartitionBench::new();
    assert_eq!(bench.write(b"k", append(&[])).number(), Ok(0));
    assert_eq!(bench.list(b"k"), None);
    assert_eq!(bench.write(b"k", append(&[b"a", b""])).number(), Ok(2));
    assert_eq!(bench.write(b"k", append(&[b"c"])).number(), Ok(3));
    assert_eq!(bench.write(b"k", append(&[])).number(), Ok(3));
    assert_eq!(bench.list(b"k"), Some(vec![b"a".to_vec(), b"".to_vec(), b"c".to_vec()]));
}

#[test]
fn appending_to_bytes_is_a_typed_error() {
    let mut bench = PartitionBench::new();
    bench.write(b"k", insert(b"v")).number().expect("is done");
    let wrong = Err(Failure::WrongType { found: RecordType::Bytes });
    assert_eq!(bench.write(b"k", append(&[b"a"])).number(), wrong);
}

#[test]
fn append_cost_does_not_depend_on_list_length() {
    let mut bench = PartitionBench::new();
    let mut before = 0;
    for n in 0..2_000u64 {
        assert_eq!(bench.write(b"k", append(&[b"0123456789"])).number(), Ok(n + 1));
        let bytes = bench.log_bytes();
        assert!(n == 0 || bytes - before < 200, "append {n} cost {} bytes", bytes - before);
        before = bytes;
    }
}
