//! `compare_swap`: replaces the record if it equals the expected one, and otherwise answers with the record.

use zerohop_engine::disk::Disk;
use zerohop_wire::ids::Timestamp;
use zerohop_wire::messages::RecordType;

use super::{Cell, EntryContents, LogAction, PlanResult, WritePlan};
use crate::outcome::WriteOutcome;

pub(super) fn plan<'a, D: Disk>(
    cell: &mut Cell<'_, '_, D>,
    expected: Option<&[u8]>,
    new: Option<&'a [u8]>,
) -> PlanResult<'a> {
    if let Err(wrong) = cell.of_type(RecordType::Bytes) {
        return Ok(WritePlan::leave(wrong));
    }
    let is_there = cell.shape.is_some();
    cell.load()?;
    let seen = is_there.then_some(&cell.buffer[..]);
    if seen != expected {
        let (version, seen) = (cell.version(), seen.map(Into::into));
        return Ok(WritePlan::leave(WriteOutcome::CompareFailed { version, seen }));
    }
    Ok(match new {
        Some(value) => {
            let (record, units, deadline) = (RecordType::Bytes, value.len() as u64, cell.deadline());
            let action =
                LogAction::Put { record, units, contents: EntryContents::AsReceived(value), deadline };
            WritePlan { action, outcome: cell.done(0) }
        }
        None => {
            let action = if is_there { LogAction::Remove } else { LogAction::Nothing };
            WritePlan { action, outcome: WriteOutcome::Done { version: Timestamp::ZERO, number: 0 } }
        }
    })
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use zerohop_wire::Failure;
    use zerohop_wire::ids::Timestamp;
    use zerohop_wire::messages::{Expiry, RecordType, WriteChange};

    use crate::testing::{PartitionBench, append};

    fn swap<'a>(expected: Option<&'a [u8]>, new: Option<&'a [u8]>) -> WriteChange<'a> {
        WriteChange::CompareSwap { expected, new }
    }

    #[test]
    fn it_swaps_what_is_expected_and_returns_what_is_not() {
        let mut bench = PartitionBench::new();
        let none = Err(Failure::CompareFailed { version: Timestamp::ZERO, seen: None });
        assert_eq!(bench.write(b"k", swap(Some(b"a"), Some(b"b"))).number(), none);
        let first = bench.write(b"k", swap(None, Some(b"a"))).version();
        let seen = Some(Cow::Borrowed(&b"a"[..]));
        let failed = Err(Failure::CompareFailed { version: first, seen });
        assert_eq!(bench.write(b"k", swap(None, Some(b"x"))).number(), failed);
        assert_eq!(bench.write(b"k", swap(Some(b"b"), None)).number(), failed);
        assert_eq!(bench.write(b"k", swap(Some(b"a"), Some(b""))).number(), Ok(0));
        assert_eq!(bench.bytes(b"k").as_deref(), Some(&b""[..]));
        let removed = bench.write(b"k", swap(Some(b""), None));
        assert_eq!((removed.number(), removed.version()), (Ok(0), Timestamp::ZERO));
        assert_eq!(bench.bytes(b"k"), None);
        assert_eq!(bench.write(b"k", swap(None, None)).number(), Ok(0));
    }

    #[test]
    fn a_replaced_record_keeps_its_expiry() {
        let mut bench = PartitionBench::new();
        let insert = WriteChange::Insert { value: b"a", expiry: Expiry::AfterMs(20) };
        bench.write(b"k", insert).number().expect("is done");
        bench.write(b"k", swap(Some(b"a"), Some(b"b"))).number().expect("is done");
        bench.advance_ms(20);
        assert_eq!(bench.bytes(b"k"), None);
    }

    #[test]
    fn a_list_is_never_what_is_expected() {
        let mut bench = PartitionBench::new();
        bench.write(b"k", append(&[b"a"])).number().expect("is done");
        let wrong = Err(Failure::WrongType { found: RecordType::List });
        assert_eq!(bench.write(b"k", swap(None, Some(b"b"))).number(), wrong);
    }
}
