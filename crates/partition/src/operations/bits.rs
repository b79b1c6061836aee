//! Bits of a bytes record. The first is the most significant bit of byte 0. Bits behind the record's end are 0.

use zerohop_engine::disk::Disk;
use zerohop_wire::Failure;
use zerohop_wire::messages::{OperationAnswer, Outcome as WireOutcome, Range, RecordType};

use super::EngineResultExt;
use crate::overlay::Shape;
use crate::view::RecordView;

/// `get_bit`.
pub(super) fn get<'o, D: Disk>(
    view: &mut RecordView<'_, D>,
    key: &[u8],
    shape: Option<&Shape>,
    offset: u64,
    out: &mut Vec<u8>,
) -> OperationAnswer<'o> {
    let byte = offset / 8;
    load(view, key, shape, |length| byte.min(length)..(byte + 1).min(length), out)?;
    let is_on = out.first().is_some_and(|byte| byte & (0x80 >> (offset % 8)) != 0);
    Ok(done(shape, u64::from(is_on)))
}

/// `count_bits`.
pub(super) fn count<'o, D: Disk>(
    view: &mut RecordView<'_, D>,
    key: &[u8],
    shape: Option<&Shape>,
    range: Range,
    out: &mut Vec<u8>,
) -> OperationAnswer<'o> {
    load(view, key, shape, |length| range.clip(length), out)?;
    Ok(done(shape, out.iter().map(|byte| u64::from(byte.count_ones())).sum()))
}

fn load<D: Disk>(
    view: &mut RecordView<'_, D>,
    key: &[u8],
    shape: Option<&Shape>,
    range: impl FnOnce(u64) -> std::ops::Range<u64>,
    out: &mut Vec<u8>,
) -> Result<(), Failure<'static>> {
    match shape {
        None => Ok(()),
        Some(Shape { record: RecordType::List, .. }) => Err(Failure::WrongType { found: RecordType::List }),
        Some(shape) => view.bytes(key, shape, range(shape.length()), out).or_fail(),
    }
}

fn done<'o>(shape: Option<&Shape>, number: u64) -> WireOutcome<'o> {
    WireOutcome::Done { version: shape.map(|shape| shape.version).unwrap_or_default(), number }
}

#[cfg(test)]
mod tests {
    use zerohop_wire::Failure;
    use zerohop_wire::messages::{Query, Range, RecordType, SetBit, WriteChange};

    use crate::testing::{PartitionBench, append, insert};

    #[test]
    fn set_bit_grows_record_and_returns_old_bit() {
        let mut bench = PartitionBench::new();
        let set = |offset, on| WriteChange::SetBit(SetBit { offset, on });
        assert_eq!(bench.write(b"k", set(10, true)).number(), Ok(0));
        assert_eq!(bench.bytes(b"k"), Some(vec![0, 0x20]));
        let version = bench.write(b"k", set(10, true)).version();
        assert_eq!(bench.write(b"k", set(10, true)).number(), Ok(1));
        assert_eq!(bench.write(b"k", set(0, false)).version(), version, "nothing has changed");
        assert_eq!(bench.write(b"k", set(10, false)).number(), Ok(1));
        assert_eq!(bench.write(b"new", set(3, false)).number(), Ok(0));
        assert_eq!(bench.bytes(b"new"), Some(vec![0]));
    }

    #[test]
    fn bits_are_read_and_counted_and_those_beyond_the_end_are_zero() {
        let mut bench = PartitionBench::new();
        assert_eq!(bench.read(b"k", Query::GetBit { offset: 5 }).number(), Ok(0));
        assert_eq!(bench.read(b"k", Query::CountBits { range: Range::ALL }).number(), Ok(0));
        bench.write(b"k", insert(&[0x81, 0xFF, 0x01])).number().expect("is done");
        let bits: Vec<u64> = [0, 1, 7, 23, 24, 1 << 20]
            .map(|offset| bench.read(b"k", Query::GetBit { offset }).number().expect("is done"))
            .into();
        assert_eq!(bits, [1, 0, 1, 1, 0, 0]);
        assert_eq!(bench.read(b"k", Query::CountBits { range: Range::ALL }).number(), Ok(11));
        let range = Range { start: 1, stop: -1 };
        assert_eq!(bench.read(b"k", Query::CountBits { range }).number(), Ok(8));
    }

    #[test]
    fn a_list_has_no_bits() {
        let mut bench = PartitionBench::new();
        bench.write(b"k", append(&[b"a"])).number().expect("is done");
        let wrong = Err(Failure::WrongType { found: RecordType::List });
        assert_eq!(bench.read(b"k", Query::GetBit { offset: 5 }).number(), wrong);
        assert_eq!(bench.write(b"k", WriteChange::SetBit(SetBit { offset: 1, on: true })).number(), wrong);
    }
}
