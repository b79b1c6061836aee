//! `trim`: a part of a list stays.
//!
//! Dropping a list's head is a small entry. Dropping its tail writes what is kept anew, and so is refused where that
//! does not fit one entry.

use zerohop_engine::disk::Disk;
use zerohop_wire::ids::Timestamp;
use zerohop_wire::messages::{Range, RecordType};

use super::{Action, Cell, Contents, OrFail, Plan, Planned};
use crate::limits::LIST_ENTRY_BYTES_MAX;
use crate::outcome::Outcome;

pub(super) fn plan<'a, D: Disk>(cell: &mut Cell<'_, '_, D>, keep: Range) -> Planned<'a> {
    let shape = match cell.of_type(RecordType::List) {
        Ok(Some(shape)) => shape.clone(),
        Ok(None) => return Ok(Plan::leave(Outcome::NotFound)),
        Err(wrong) => return Ok(Plan::leave(wrong)),
    };
    let length = shape.length();
    let kept = keep.clip(length);
    let units = kept.end - kept.start;
    if units == length {
        return Ok(Plan::leave(cell.unchanged(length)));
    }
    if units == 0 {
        let outcome = Outcome::Done { version: Timestamp::ZERO, number: 0 };
        return Ok(Plan { action: Action::Remove, outcome });
    }
    if kept.end == length {
        let to = cell.view.trim_to(cell.key, &shape, kept.start).or_fail()?;
        return Ok(Plan { action: Action::Trim { to, units: kept.start }, outcome: cell.done(units) });
    }
    let Ok(count) = u32::try_from(units) else { return Ok(Plan::leave(too_long(u64::MAX))) };
    cell.buffer.extend_from_slice(&count.to_le_bytes());
    let bounds = (count, LIST_ENTRY_BYTES_MAX);
    let packed = cell.view.values(cell.key, &shape, kept, bounds, cell.buffer).or_fail()?;
    if packed.count < count {
        return Ok(Plan::leave(too_long(LIST_ENTRY_BYTES_MAX as u64 + 1)));
    }
    let (record, contents, deadline) = (RecordType::List, Contents::Made, cell.deadline());
    Ok(Plan { action: Action::Put { record, units, contents, deadline }, outcome: cell.done(units) })
}

fn too_long(length: u64) -> Outcome {
    Outcome::ValueTooLong { length, limit: LIST_ENTRY_BYTES_MAX as u32 }
}

#[cfg(test)]
mod tests {
    use zerohop_wire::Failure;
    use zerohop_wire::ids::Timestamp;
    use zerohop_wire::messages::{Change, Range, RecordType};

    use crate::testing::{Bench, append, insert};

    fn keep(start: i64, stop: i64) -> Change<'static> {
        Change::Trim { keep: Range { start, stop } }
    }

    fn letters(bench: &mut Bench) -> Option<String> {
        let list = bench.list(b"k")?;
        Some(list.into_iter().map(|value| String::from_utf8_lossy(&value).into_owned()).collect())
    }

    #[test]
    fn head_tail_or_both_go_and_what_keeps_nothing_removes_the_list() {
        let mut bench = Bench::new();
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
        let mut bench = Bench::new();
        bench.write(b"k", insert(b"v")).number().expect("is done");
        let wrong = Err(Failure::WrongType { found: RecordType::Bytes });
        assert_eq!(bench.write(b"k", keep(0, 1)).number(), wrong);
    }

    #[test]
    fn a_tail_cut_that_keeps_more_than_one_entry_holds_is_refused() {
        let mut bench = Bench::new();
        let large = vec![0; 6 << 20];
        for _ in 0..4 {
            bench.write(b"k", append(&[&large])).number().expect("is done");
        }
        let refused = bench.write(b"k", keep(0, 3)).number();
        assert!(matches!(refused, Err(Failure::ValueTooLong { .. })), "{refused:?}");
        assert_eq!(bench.write(b"k", keep(1, i64::MAX)).number(), Ok(3));
        assert_eq!(bench.write(b"k", keep(0, 2)).number(), Ok(2));
    }
}
