//! `wait`: whether a record is as somebody waits for it to be.

use zerohop_engine::disk::Disk;
use zerohop_wire::Failure;
use zerohop_wire::ids::Timestamp;
use zerohop_wire::messages::{RecordType, Until};

use super::OrFail;
use crate::overlay::Shape;
use crate::view::View;

/// Whether it is. `out` is empty, and is used.
pub(crate) fn holds<D: Disk>(
    view: &mut View<'_, D>,
    key: &[u8],
    shape: Option<&Shape>,
    until: &Until<'_>,
    out: &mut Vec<u8>,
) -> Result<bool, Failure<'static>> {
    Ok(match until {
        Until::Absent => shape.is_none(),
        Until::Present => shape.is_some(),
        Until::Changed(version) => shape.map_or(Timestamp::ZERO, |shape| shape.version) != *version,
        Until::Equals(value) => is(view, key, shape, value, out)?,
        Until::Differs(value) => !is(view, key, shape, value, out)?,
    })
}

fn is<D: Disk>(
    view: &mut View<'_, D>,
    key: &[u8],
    shape: Option<&Shape>,
    value: &[u8],
    out: &mut Vec<u8>,
) -> Result<bool, Failure<'static>> {
    let Some(shape) = shape else { return Ok(false) };
    if shape.record != RecordType::Bytes || shape.length() != value.len() as u64 {
        return Ok(false);
    }
    view.bytes(key, shape, 0..shape.length(), out).or_fail()?;
    let is_same = out == value;
    out.clear();
    Ok(is_same)
}

#[cfg(test)]
mod tests {
    use zerohop_wire::Failure;
    use zerohop_wire::ids::Timestamp;
    use zerohop_wire::messages::{Change, Expiry, Query, Until};

    use crate::testing::{Bench, append, insert};

    fn wait(until: Until<'_>) -> Query<'_> {
        Query::Wait { until }
    }

    #[test]
    fn what_holds_already_is_answered_at_once() {
        let mut bench = Bench::new();
        assert_eq!(bench.read(b"k", wait(Until::Absent)).number(), Err(Failure::NotFound));
        assert_eq!(bench.read(b"k", wait(Until::Differs(b"v"))).number(), Err(Failure::NotFound));
        let version = bench.write(b"k", insert(b"v")).version();
        for until in [
            Until::Equals(b"v"),
            Until::Differs(b"w"),
            Until::Present,
            Until::Changed(Timestamp::ZERO),
            Until::Changed(version.next()),
        ] {
            assert_eq!(bench.read(b"k", wait(until)).bytes(), Some(b"v".to_vec()));
        }
        bench.write(b"list", append(&[b"v"])).number().expect("is done");
        assert!(bench.read(b"list", wait(Until::Differs(b"v"))).list().is_some());
    }

    #[test]
    fn a_parked_wait_is_answered_by_the_write_that_makes_it_hold_and_by_no_other() {
        let mut bench = Bench::new();
        let version = bench.write(b"k", insert(b"one")).version();
        let equals = bench.ask(b"k", wait(Until::Equals(b"three")), 1_000);
        let differs = bench.ask(b"k", wait(Until::Differs(b"one")), 1_000);
        let absent = bench.ask(b"k", wait(Until::Absent), 1_000);
        let changed = bench.ask(b"k", wait(Until::Changed(version)), 1_000);
        let other = bench.ask(b"other", wait(Until::Present), 1_000);
        bench.write(b"k", insert(b"two")).number().expect("is done");
        assert_eq!(bench.answer(differs).and_then(|a| a.bytes()), Some(b"two".to_vec()));
        assert_eq!(bench.answer(changed).and_then(|a| a.bytes()), Some(b"two".to_vec()));
        assert!(bench.answer(equals).is_none() && bench.answer(absent).is_none());
        bench.write(b"k", Change::Remove).number().expect("is done");
        assert_eq!(bench.answer(absent).map(|a| a.number()), Some(Err(Failure::NotFound)));
        bench.write(b"k", insert(b"three")).number().expect("is done");
        assert_eq!(bench.answer(equals).and_then(|a| a.bytes()), Some(b"three".to_vec()));
        assert!(bench.answer(other).is_none());
        assert_eq!(bench.stats().waits, 1);
    }

    #[test]
    fn a_wait_ends_with_its_time_out_and_the_version_last_seen() {
        let mut bench = Bench::new();
        let version = bench.write(b"k", insert(b"v")).version();
        let soon = bench.ask(b"k", wait(Until::Absent), 10);
        let later = bench.ask(b"none", wait(Until::Present), 20);
        assert_eq!(bench.next_wake_ms(), Some(bench.now_ms() + 10));
        bench.pass_ms(10);
        assert_eq!(bench.answer(soon).map(|a| a.number()), Some(Err(Failure::TimedOut { version })));
        assert!(bench.answer(later).is_none());
        bench.pass_ms(10);
        let version = Timestamp::ZERO;
        assert_eq!(bench.answer(later).map(|a| a.number()), Some(Err(Failure::TimedOut { version })));
        assert_eq!(bench.next_wake_ms(), None);
    }

    #[test]
    fn expiry_wakes_whoever_waits_for_absence() {
        let mut bench = Bench::new();
        let change = Change::Insert { value: b"v", expiry: Expiry::AfterMs(5) };
        bench.write(b"k", change).number().expect("is done");
        let absent = bench.ask(b"k", wait(Until::Absent), 1_000);
        bench.pass_ms(5);
        assert_eq!(bench.answer(absent).map(|a| a.number()), Some(Err(Failure::NotFound)));
    }

    #[test]
    fn a_closed_connection_leaves_nothing_parked() {
        let mut bench = Bench::new();
        bench.ask(b"k", wait(Until::Present), 1_000);
        bench.disconnect();
        assert_eq!((bench.stats().waits, bench.next_wake_ms()), (0, None));
        bench.write(b"k", insert(b"v")).number().expect("is done");
    }
}
