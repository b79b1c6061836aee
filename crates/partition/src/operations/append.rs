//! `append`: values at the end of a list, in a log entry of their own. The earlier values are not touched.

use zerohop_engine::disk::Disk;
use zerohop_wire::messages::RecordType;

use super::{Cell, EntryContents, LogAction, PlanResult, WritePlan};
use crate::limits::LIST_ENTRY_BYTES_MAX;
use crate::outcome::WriteOutcome;

pub(crate) fn plan<'a, 'v, D: Disk>(
    cell: &mut Cell<'_, '_, D>,
    (count, values): (usize, impl Iterator<Item = &'v [u8]>),
) -> PlanResult<'a> {
    let length = match cell.of_type(RecordType::List) {
        Ok(shape) => shape.map_or(0, |shape| shape.length()),
        Err(wrong) => return Ok(WritePlan::leave(wrong)),
    };
    if count == 0 {
        // A list has at least one value, so an empty append creates none.
        return Ok(WritePlan::leave(cell.unchanged(length)));
    }
    // A part of a list: the number of values, then each with its length.
    cell.buffer.extend_from_slice(&(count as u32).to_le_bytes());
    for value in values {
        cell.buffer.extend_from_slice(&(value.len() as u32).to_le_bytes());
        cell.buffer.extend_from_slice(value);
    }
    if cell.buffer.len() > LIST_ENTRY_BYTES_MAX + 8 {
        let (length, limit) = (cell.buffer.len() as u64, LIST_ENTRY_BYTES_MAX as u32);
        return Ok(WritePlan::leave(WriteOutcome::ValueTooLong { length, limit }));
    }
    let units = count as u64;
    let action = LogAction::Append { record: RecordType::List, units, contents: EntryContents::Made };
    Ok(WritePlan { action, outcome: cell.done(length + units) })
}

#[cfg(test)]
mod tests {
    use zerohop_wire::Failure;
    use zerohop_wire::messages::RecordType;

    use crate::testing::{PartitionBench, append, insert};

    #[test]
    fn appending_makes_a_list_and_lengthens_it() {
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
    fn an_append_costs_its_own_bytes_however_long_the_list() {
        let mut bench = PartitionBench::new();
        let mut before = 0;
        for n in 0..2_000u64 {
            assert_eq!(bench.write(b"k", append(&[b"0123456789"])).number(), Ok(n + 1));
            let bytes = bench.log_bytes();
            assert!(n == 0 || bytes - before < 200, "append {n} cost {} bytes", bytes - before);
            before = bytes;
        }
    }
}
