//! `increment`: adds to the decimal number in a bytes record.

use std::io::Write as _;

use zerohop_engine::disk::Disk;
use zerohop_wire::messages::RecordType;

use super::{Cell, EntryContents, LogAction, PlanResult, WritePlan};
use crate::outcome::WriteOutcome;

/// The longest number: a sign and nineteen digits.
const DIGITS_MAX: u64 = 20;

pub(super) fn plan<'a, D: Disk>(cell: &mut Cell<'_, '_, D>, delta: i64) -> PlanResult<'a> {
    let length = match cell.of_type(RecordType::Bytes) {
        Ok(shape) => shape.map(|shape| shape.length()),
        Err(wrong) => return Ok(WritePlan::leave(wrong)),
    };
    let before = match length {
        None => Some(0),
        Some(length) if length > DIGITS_MAX => None,
        Some(_) => {
            cell.load()?;
            number(cell.buffer)
        }
    };
    let Some(before) = before else { return Ok(WritePlan::leave(WriteOutcome::NotANumber)) };
    let Some(value) = before.checked_add(delta) else { return Ok(WritePlan::leave(WriteOutcome::Overflow)) };
    cell.buffer.clear();
    let written = write!(cell.buffer, "{value}");
    debug_assert!(written.is_ok(), "a vector takes what is written");
    let (record, units, deadline) = (RecordType::Bytes, cell.buffer.len() as u64, cell.deadline());
    let action = LogAction::Put { record, units, contents: EntryContents::Made, deadline };
    Ok(WritePlan { action, outcome: WriteOutcome::Counter { version: cell.at, value } })
}

/// The number that the bytes represent in canonical decimal form.
fn number(bytes: &[u8]) -> Option<i64> {
    let digits = bytes.strip_prefix(b"-").unwrap_or(bytes);
    let is_plain = match digits {
        [b'0'] => bytes.len() == 1,
        [b'1'..=b'9', rest @ ..] => rest.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    if is_plain { std::str::from_utf8(bytes).ok()?.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use zerohop_wire::Failure;
    use zerohop_wire::messages::{RecordType, WriteChange};

    use super::number;
    use crate::testing::{PartitionBench, append, insert};

    fn add(delta: i64) -> WriteChange<'static> {
        WriteChange::Increment { delta }
    }

    #[test]
    fn a_counter_begins_at_zero_and_is_decimal_text() {
        let mut bench = PartitionBench::new();
        assert_eq!(bench.write(b"k", add(5)).counter(), Ok(5));
        assert_eq!(bench.write(b"k", add(-8)).counter(), Ok(-3));
        assert_eq!(bench.bytes(b"k").as_deref(), Some(&b"-3"[..]));
        bench.write(b"k", insert(b"9223372036854775806")).number().expect("is done");
        assert_eq!(bench.write(b"k", add(1)).counter(), Ok(i64::MAX));
        assert_eq!(bench.write(b"k", add(1)).counter(), Err(Failure::Overflow));
        assert_eq!(bench.write(b"k", add(i64::MIN)).counter(), Ok(-1));
    }

    #[test]
    fn only_numbers_are_counted() {
        let mut bench = PartitionBench::new();
        for text in ["", "x", "1 ", "+1", "01", "-0", "-", "9223372036854775808", "123456789012345678901"] {
            bench.write(b"k", insert(text.as_bytes())).number().expect("is done");
            assert_eq!(bench.write(b"k", add(1)).counter(), Err(Failure::NotANumber), "{text}");
        }
        assert_eq!(number(b"-9223372036854775808"), Some(i64::MIN));
        bench.write(b"list", append(&[b"1"])).number().expect("is done");
        assert_eq!(
            bench.write(b"list", add(1)).counter(),
            Err(Failure::WrongType { found: RecordType::List })
        );
    }
}
