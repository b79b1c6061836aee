//! `transform` over a partition.

use zerohop_wire::Failure;
use zerohop_wire::messages::{Number, Operator, RecordType, ReturnedNumber, Transform, WriteChange};

use crate::testing::{PartitionBench, append, insert};

fn transform<N: Number>(
    operator: Operator,
    offset: u64,
    operand: N,
    returned: ReturnedNumber,
) -> WriteChange<'static> {
    let (number, operand) = (N::TYPE, operand.bits());
    WriteChange::Transform(Transform { operator, number, operand, offset, returns: returned })
}

fn result<N: Number>(operator: Operator, old: N, operand: N) -> N {
    N::from_bits(operator.applied(N::TYPE, old.bits(), operand.bits()))
}

#[test]
fn transform_changes_only_its_bytes() {
    let mut bench = PartitionBench::new();
    bench.write(b"k", insert(&[1, 2, 3, 4, 5, 6])).number().expect("is done");
    let add = transform(Operator::Add, 2, 0x0102_u16, ReturnedNumber::New);
    assert_eq!(bench.write(b"k", add).number(), Ok(0x0505));
    assert_eq!(bench.bytes(b"k"), Some(vec![1, 2, 5, 5, 5, 6]));
    let and = transform(Operator::And, 5, 0b0011_u8, ReturnedNumber::Old);
    assert_eq!(bench.write(b"k", and).number(), Ok(6));
    assert_eq!(bench.bytes(b"k"), Some(vec![1, 2, 5, 5, 5, 2]));
    let silent = transform(Operator::Xor, 0, 1_u8, ReturnedNumber::Nothing);
    assert_eq!(bench.write(b"k", silent).number(), Ok(0));
    assert_eq!(bench.bytes(b"k"), Some(vec![0, 2, 5, 5, 5, 2]));
}

#[test]
fn transform_reads_missing_bytes_as_zeros() {
    let mut bench = PartitionBench::new();
    let min = transform(Operator::Min, 3, -7_i32, ReturnedNumber::New);
    assert_eq!(bench.write(b"k", min).number(), Ok(Number::bits(-7_i32)));
    assert_eq!(bench.bytes(b"k"), Some(vec![0, 0, 0, 0xF9, 0xFF, 0xFF, 0xFF]));
    let across = transform(Operator::Max, 6, 0_u32, ReturnedNumber::Old);
    assert_eq!(bench.write(b"k", across).number(), Ok(0xFF));
    assert_eq!(bench.bytes(b"k").map(|bytes| bytes.len()), Some(10), "grown, though the number stays");
    let nothing = transform(Operator::Add, 0, 0_u8, ReturnedNumber::New);
    bench.write(b"empty", nothing).number().expect("is done");
    assert_eq!(bench.bytes(b"empty"), Some(vec![0]), "a record there was none of");
}

#[test]
fn transform_without_change_keeps_the_version() {
    let mut bench = PartitionBench::new();
    let version = bench.write(b"k", transform(Operator::Max, 0, 9_u64, ReturnedNumber::New)).version();
    let lower = bench.write(b"k", transform(Operator::Max, 0, 8_u64, ReturnedNumber::New));
    assert_eq!((lower.number(), lower.version()), (Ok(9), version));
}

#[test]
fn integers_wrap_and_keep_their_signs() {
    assert_eq!(result(Operator::Add, i8::MAX, 1), i8::MIN);
    assert_eq!(result(Operator::Add, 3_u16, 5_u16.wrapping_neg()), 65_534);
    assert_eq!(result(Operator::Multiply, i64::MIN, -1), i64::MIN);
    assert_eq!(result(Operator::Multiply, 70_000_u32, 70_000), 70_000_u32.wrapping_mul(70_000));
    assert_eq!(result(Operator::Min, 1_i16, -1), -1);
    assert_eq!(result(Operator::Max, 1_u8, 0xFF), 0xFF);
    assert_eq!(result(Operator::Or, 0x0F_i32, 0xF0), 0xFF);
    assert_eq!(result(Operator::Xor, u64::MAX, u64::MAX), 0);
}

#[test]
fn floats_are_those_of_the_standard_and_nan_loses() {
    assert_eq!(result(Operator::Add, 0.1_f64, 0.2), 0.1 + 0.2);
    assert_eq!(result(Operator::Multiply, f32::MAX, 2.0), f32::INFINITY);
    for operator in [Operator::Min, Operator::Max] {
        assert_eq!(result(operator, f64::NAN, 1.0), 1.0);
        assert_eq!(result(operator, 1.0, f64::NAN), 1.0);
        assert!(result(operator, f32::NAN, f32::NAN).is_nan());
    }
    assert_eq!(result(Operator::Min, 1.0_f32, -1.0), -1.0);
    assert_eq!(result(Operator::Max, 1.0_f32, -1.0), 1.0);
    assert!(result(Operator::Min, 0.0_f64, -0.0).is_sign_negative());
    assert!(result(Operator::Max, -0.0_f64, 0.0).is_sign_positive());
}

#[test]
fn a_list_has_no_numbers() {
    let mut bench = PartitionBench::new();
    bench.write(b"k", append(&[b"a"])).number().expect("is done");
    let wrong = Err(Failure::WrongType { found: RecordType::List });
    assert_eq!(bench.write(b"k", transform(Operator::Add, 0, 1_u8, ReturnedNumber::New)).number(), wrong);
}
