//! `confirm` over a partition.

use zerohop_wire::Failure;
use zerohop_wire::blob::chunk_key;
use zerohop_wire::ids::Timestamp;
use zerohop_wire::messages::{Confirm, Query, Remove, WriteChange};

use crate::testing::{PartitionBench, insert};

#[test]
fn confirm_accepts_only_the_current_version() {
    let mut bench = PartitionBench::new();
    let version = bench.write(b"k", insert(b"value")).version();
    assert_eq!(bench.read(b"k", Query::Confirm(Confirm { version })).number(), Ok(1));
    bench.write(b"k", insert(b"value")).number().expect("is done");
    assert_eq!(bench.read(b"k", Query::Confirm(Confirm { version })).number(), Ok(0));
}

#[test]
fn absence_cannot_be_confirmed() {
    let mut bench = PartitionBench::new();
    assert_eq!(bench.read(b"k", Query::Lookup).number(), Err(Failure::NotFound));
    bench.write(b"k", insert(b"value")).number().expect("is done");
    bench.write(b"k", WriteChange::Remove(Remove)).number().expect("is done");
    let absent = Query::Confirm(Confirm { version: Timestamp::ZERO });
    assert_eq!(bench.read(b"k", absent).number(), Ok(0));
    let chunk = chunk_key(b"name", 1).expect("is a key");
    assert_eq!(bench.read(&chunk, absent).number(), Ok(1), "its header's stamp says whether it was cut");
}
