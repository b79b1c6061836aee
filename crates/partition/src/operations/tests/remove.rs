//! `remove` over a partition.

use zerohop_wire::Failure;
use zerohop_wire::ids::Timestamp;
use zerohop_wire::messages::{Condition, Remove, WriteChange};

use crate::testing::{PartitionBench, append, insert};

#[test]
fn remove_returns_whether_record_existed() {
    let mut bench = PartitionBench::new();
    assert_eq!(bench.write(b"k", WriteChange::Remove(Remove)).number(), Ok(0));
    bench.write(b"k", insert(b"v")).number().expect("is done");
    let removed = bench.write(b"k", WriteChange::Remove(Remove));
    assert_eq!((removed.number(), removed.version()), (Ok(1), Timestamp::ZERO));
    assert_eq!(bench.bytes(b"k"), None);
    bench.write(b"k", append(&[b"a"])).number().expect("is done");
    assert_eq!(bench.write(b"k", WriteChange::Remove(Remove)).number(), Ok(1));
    let gone = Err(Failure::ConditionFailed { version: Timestamp::ZERO, found: None });
    assert_eq!(bench.write_if(b"k", Condition::IfPresent, WriteChange::Remove(Remove)).number(), gone);
}
