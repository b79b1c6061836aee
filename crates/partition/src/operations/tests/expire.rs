//! `expire` over a partition.

use zerohop_wire::Failure;
use zerohop_wire::messages::{Expire, Expiry, Extend, Insert, WriteChange};

use crate::testing::{PartitionBench, append, insert};

fn expire(expiry: Expiry) -> WriteChange<'static> {
    WriteChange::Expire(Expire { expiry })
}

#[test]
fn expiry_is_set_cleared_and_applied() {
    let mut bench = PartitionBench::new();
    assert_eq!(bench.write(b"k", expire(Expiry::AfterMs(10))).number(), Err(Failure::NotFound));
    let version = bench.write(b"k", insert(b"v")).version();
    assert_eq!(bench.write(b"k", expire(Expiry::AfterMs(10))).version(), version);
    assert_eq!(bench.expires_at(b"k"), Some(bench.now_ms() + 10));
    bench.write(b"k", expire(Expiry::Unchanged)).number().expect("is done");
    assert_eq!(bench.expires_at(b"k"), Some(bench.now_ms() + 10));
    bench.write(b"k", expire(Expiry::Never)).number().expect("is done");
    assert_eq!(bench.expires_at(b"k"), None);
    bench.advance_ms(20);
    let at = bench.now_ms() + 5;
    bench.write(b"k", expire(Expiry::AtMs(at))).number().expect("is done");
    bench.advance_ms(5);
    assert_eq!(bench.bytes(b"k"), None);
    assert_eq!(bench.write(b"k", insert(b"w")).number(), Ok(0));
    bench.advance_ms(500);
    assert!(bench.bytes(b"k").is_some(), "the new record has no expiry");
}

#[test]
fn append_and_extend_keep_expiry() {
    let mut bench = PartitionBench::new();
    for (key, change) in
        [(&b"list"[..], append(&[b"a"])), (b"bytes", WriteChange::Extend(Extend { bytes: b"a" }))]
    {
        bench.write(key, change).number().expect("is done");
        bench.write(key, expire(Expiry::AfterMs(10))).number().expect("is done");
        bench.write(key, change).number().expect("is done");
        assert_eq!(bench.expires_at(key), Some(bench.now_ms() + 10));
    }
}

#[test]
fn expired_records_are_removed_without_requests() {
    let mut bench = PartitionBench::new();
    for n in 0..1_000u32 {
        let change =
            WriteChange::Insert(Insert { value: b"v", expiry: Expiry::AfterMs(10 + u64::from(n % 7)) });
        bench.write(&n.to_le_bytes(), change).number().expect("is done");
    }
    bench.advance_ms(20);
    for _ in 0..5 {
        bench.tick();
    }
    assert_eq!(bench.records(), 0);
}
