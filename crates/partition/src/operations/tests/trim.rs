//! `trim` over a partition.

use zerohop_wire::Failure;
use zerohop_wire::ids::Timestamp;
use zerohop_wire::messages::{Range, RecordType, Trim, WriteChange};

use crate::testing::{PartitionBench, append, insert};

fn keep(start: i64, stop: i64) -> WriteChange<'static> {
    WriteChange::Trim(Trim { keep: Range { start, stop } })
}

fn letters(bench: &mut PartitionBench) -> Option<String> {
    let list = bench.list(b"k")?;
    Some(list.into_iter().map(|value| String::from_utf8_lossy(&value).into_owned()).collect())
}

#[test]
fn trim_removes_head_and_tail_and_empty_list() {
    let mut bench = PartitionBench::new();
    assert_eq!(bench.write(b"k", keep(0, 1)).number(), Err(Failure::NotFound));
    for pair in [[b"a", b"b"], [b"c", b"d"], [b"e", b"f"]] {
        bench.write(b"k", append(&[pair[0], pair[1]])).number().expect("is done");
    }
    assert_eq!(bench.write(b"k", keep(0, i64::MAX)).number(), Ok(6));
    assert_eq!(bench.write(b"k", keep(1, i64::MAX)).number(), Ok(5));
    assert_eq!(letters(&mut bench).as_deref(), Some("bcdef"));
    assert_eq!(bench.write(b"k", keep(2, 4)).number(), Ok(2));
    assert_eq!(letters(&mut bench).as_deref(), Some("de"));
    bench.write(b"k", append(&[b"g"])).number().expect("is done");
    assert_eq!(bench.write(b"k", keep(-2, i64::MAX)).number(), Ok(2));
    assert_eq!(letters(&mut bench).as_deref(), Some("eg"));
    let removed = bench.write(b"k", keep(2, 9));
    assert_eq!((removed.number(), removed.version()), (Ok(0), Timestamp::ZERO));
    assert_eq!(letters(&mut bench), None);
}

#[test]
fn bytes_cannot_be_trimmed() {
    let mut bench = PartitionBench::new();
    bench.write(b"k", insert(b"v")).number().expect("is done");
    let wrong = Err(Failure::WrongType { found: RecordType::Bytes });
    assert_eq!(bench.write(b"k", keep(0, 1)).number(), wrong);
}

#[test]
fn tail_trim_larger_than_one_entry_is_refused() {
    let mut bench = PartitionBench::new();
    let large = vec![0; 6 << 20];
    for _ in 0..4 {
        bench.write(b"k", append(&[&large])).number().expect("is done");
    }
    let refused = bench.write(b"k", keep(0, 3)).number();
    assert!(matches!(refused, Err(Failure::ValueTooLong { .. })), "{refused:?}");
    assert_eq!(bench.write(b"k", keep(1, i64::MAX)).number(), Ok(3));
    assert_eq!(bench.write(b"k", keep(0, 2)).number(), Ok(2));
}
