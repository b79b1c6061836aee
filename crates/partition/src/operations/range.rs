//! `scan` of an ordered partition: keys in byte order, in either direction, page by page, with their values if requested.
//!
//! A cursor is a position between keys ([`before_key`]), so it is valid whatever changes meanwhile, and in every partition.

use std::ops::Bound;

use zerohop_engine::disk::Disk;
use zerohop_engine::index::cursor::{before_key, key_behind};
use zerohop_engine::{Cursor, KeyRange, KeysOfRange};
use zerohop_record::state::ReadableRecord;
use zerohop_wire::blob::is_of_blob;
use zerohop_wire::ids::Timestamp;
use zerohop_wire::limits::PAGE_BYTES_MAX;
use zerohop_wire::messages::{
    OperationAnswer, Outcome as WireOutcome, RecordType, SCANNED_HEAD_BYTES, Scan, ScannedKey,
};
use zerohop_wire::{BadRequestReason, Elements, Failure, pack};

use super::{EngineResultExt, RecordInput};
use crate::hash_range::HashRange;
use crate::limits::{RANGE_KEYS_VISITED_MAX, RANGE_READ_KEYS, RANGE_VALUE_BYTES_MAX};
use crate::planted::{Bug, is_planted};
use crate::view::RecordView;

/// A record of a range. Its value, if requested and short enough, was written to a buffer.
pub(crate) struct RecordInRange {
    record: RecordType,
    version: Timestamp,
    has_value: bool,
}

/// The source of keys in byte order, and of their records.
pub(crate) trait OrderedKeys {
    /// At most so many keys of a range.
    fn keys(&mut self, range: KeyRange<'_>, most: usize) -> Result<KeysOfRange, Failure<'static>>;

    /// The record of a key, with its value in `value` if that is given, and empty. `None`: the key has none, or it has expired.
    fn record(
        &mut self,
        key: &[u8],
        value: Option<&mut Vec<u8>>,
    ) -> Result<Option<RecordInRange>, Failure<'static>>;
}

/// The present records.
pub(crate) struct PresentRecords<'p, 'v, D> {
    pub(crate) view: &'p mut RecordView<'v, D>,
    pub(crate) now_ms: u64,
}

impl<D: Disk> OrderedKeys for PresentRecords<'_, '_, D> {
    fn keys(&mut self, range: KeyRange<'_>, most: usize) -> Result<KeysOfRange, Failure<'static>> {
        let order = self.view.engine.key_order(self.view.handle).or_fail()?;
        order.keys(range, most, None).or_fail()
    }

    fn record(
        &mut self,
        key: &[u8],
        value: Option<&mut Vec<u8>>,
    ) -> Result<Option<RecordInRange>, Failure<'static>> {
        let RecordView { engine, handle, overlay, deadlines } = &mut *self.view;
        let view = RecordView { engine, handle: *handle, overlay: *overlay, deadlines };
        describe(&mut RecordInput::find(view, key)?, self.now_ms, value)
    }
}

/// What a range lists of a record, unless it has expired.
pub(crate) fn describe(
    found: &mut impl ReadableRecord,
    now_ms: u64,
    value: Option<&mut Vec<u8>>,
) -> Result<Option<RecordInRange>, Failure<'static>> {
    let Some(record) = found.record_type() else { return Ok(None) };
    if found.deadline().is_some_and(|deadline| deadline <= now_ms) {
        return Ok(None);
    }
    let length = found.length();
    let is_short = record == RecordType::Bytes && length <= RANGE_VALUE_BYTES_MAX as u64;
    let value = value.filter(|_| is_short);
    let has_value = value.is_some();
    if let Some(value) = value {
        found.read_bytes(0..length, value)?;
    }
    Ok(Some(RecordInRange { record, version: found.version(), has_value }))
}

/// The bounds of a page: what the scan requests, as far as its cursor has not passed it.
struct PageBounds {
    from: Vec<u8>,
    /// `None`: the end of the keys.
    to: Option<Vec<u8>>,
    is_reverse: bool,
}

impl PageBounds {
    fn of(scan: &Scan<'_>) -> Result<PageBounds, Failure<'static>> {
        let range = scan.range;
        if !range.to.is_empty() && range.from > range.to {
            return Err(BadRequestReason::Bounds.into());
        }
        let mut bounds = PageBounds {
            from: range.from.max(scan.prefix).to_vec(),
            to: (!range.to.is_empty()).then(|| range.to.to_vec()),
            is_reverse: range.reverse,
        };
        if let Some(end) = end_of_prefix(scan.prefix) {
            bounds.limit(end);
        }
        let cursor = Cursor::from_bytes(scan.cursor).map_err(|_| BadRequestReason::Cursor)?;
        if !cursor.is_start() {
            let key = key_behind(&cursor).map_err(|_| BadRequestReason::Cursor)?;
            match bounds.is_reverse {
                true => bounds.limit(key.to_vec()),
                false => bounds.from = bounds.from.max(key.to_vec()),
            }
        }
        Ok(bounds)
    }

    fn limit(&mut self, end: Vec<u8>) {
        let is_lower = self.to.as_ref().is_none_or(|to| end < *to);
        if is_lower {
            self.to = Some(end);
        }
    }

    fn range(&self) -> KeyRange<'_> {
        let to = self.to.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        KeyRange { from: Bound::Included(&self.from), to, is_reverse: self.is_reverse }
    }

    /// Nothing up to this key, with it, is read again.
    fn pass(&mut self, key: &[u8]) {
        match self.is_reverse {
            true => self.to = Some(key.to_vec()),
            false if is_planted(Bug::RangeRepeatsKey) && self.from != key => self.from = key.to_vec(),
            false => self.from = [key, &[0]].concat(),
        }
    }

    /// The cursor of what is left.
    fn cursor(&self) -> Cursor {
        match (&self.to, self.is_reverse) {
            (Some(to), true) => before_key(to),
            (_, false) => before_key(&self.from),
            // Nothing was passed.
            (None, true) => Cursor::START,
        }
    }
}

/// The lowest key above all that have a prefix, if there is one.
fn end_of_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != u8::MAX)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

/// Answers with a page. `out` and `next` are empty, and store the contents that the answer borrows.
pub(crate) fn page<'o>(
    all: &mut impl OrderedKeys,
    scan: &Scan<'_>,
    foreign: Option<&HashRange>,
    (out, next): (&'o mut Vec<u8>, &'o mut Vec<u8>),
) -> OperationAnswer<'o> {
    let mut bounds = PageBounds::of(scan)?;
    let bytes_max = match scan.range.bytes_max {
        0 => PAGE_BYTES_MAX,
        bytes => PAGE_BYTES_MAX.min(bytes as usize),
    };
    let (mut count, mut visited) = (0, 0);
    let mut value = Vec::new();
    let has_more = 'page: loop {
        let requested = (scan.keys_max - count) as usize + 1;
        let found = all.keys(bounds.range(), requested.min(RANGE_READ_KEYS))?;
        for key in &found.keys {
            if count == scan.keys_max || visited == RANGE_KEYS_VISITED_MAX {
                if is_planted(Bug::RangeSkipsKey) {
                    bounds.pass(key);
                }
                break 'page true;
            }
            visited += 1;
            let is_listed = !is_of_blob(key) && foreign.is_none_or(|hash_range| hash_range.owns(key));
            value.clear();
            let record = match is_listed {
                true => all.record(key, scan.range.values.then_some(&mut value))?,
                false => None,
            };
            if let Some(RecordInRange { record, version, has_value }) = record {
                if count > 0 && out.len() + key.len() + value.len() + SCANNED_HEAD_BYTES > bytes_max {
                    break 'page true;
                }
                let value = has_value.then_some(&*value);
                pack(&ScannedKey { key, record, version, value }, out)?;
                count += 1;
            }
            bounds.pass(key);
        }
        if !found.has_more {
            break false;
        }
    };
    next.clear();
    if has_more && !(is_planted(Bug::ReverseRangeEndsAtPage) && scan.range.reverse) {
        next.extend_from_slice(bounds.cursor().as_bytes());
    }
    Ok(WireOutcome::Page { next, keys: Elements::packed(count, out)? })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use zerohop_base::random::Random;
    use zerohop_wire::limits::KEY_BYTES_MAX;
    use zerohop_wire::messages::{Expiry, Insert, Remove, ScanRange, WriteChange};
    use zerohop_wire::{Failure, Message};

    use super::*;
    use crate::testing::{PartitionBench, append, insert};

    type Model = BTreeMap<Vec<u8>, Option<Vec<u8>>>;
    type Records = Vec<(Vec<u8>, Option<Vec<u8>>)>;

    fn page_of(bench: &mut PartitionBench, scan: Scan<'_>) -> (Records, Vec<u8>) {
        let answer = bench.answer_of(&Message::Scan(scan));
        (answer.records(), answer.page().1)
    }

    /// All pages of a scan.
    fn all_of(bench: &mut PartitionBench, scan: Scan<'_>) -> Records {
        let (mut all, mut cursor) = (Vec::new(), Vec::new());
        for _ in 0..10_000 {
            let (records, next) = page_of(bench, Scan { cursor: &cursor, ..scan });
            assert!(records.len() <= scan.keys_max as usize);
            all.extend(records);
            if next.is_empty() {
                return all;
            }
            cursor = next;
        }
        panic!("the scan ends");
    }

    fn expected(model: &Model, scan: &Scan<'_>) -> Records {
        let ScanRange { from, to, reverse, values, .. } = scan.range;
        let within = model.iter().filter(|(key, _)| {
            key.starts_with(scan.prefix) && &key[..] >= from && (to.is_empty() || &key[..] < to)
        });
        let records = within.map(|(key, value)| (key.clone(), value.clone().filter(|_| values)));
        if reverse { records.rev().collect() } else { records.collect() }
    }

    #[test]
    fn ranges_agree_with_model_in_pages_of_every_size() {
        let (mut bench, mut model) = (PartitionBench::ordered(), Model::new());
        let mut random = Random::new(1);
        for n in 0..600u32 {
            let key = format!("{}/{:03}", ["a", "b", "b\u{7f}", "c"][n as usize % 4], random.below(500))
                .into_bytes();
            match random.below(6) {
                0 => {
                    drop(bench.write(&key, WriteChange::Remove(Remove)));
                    model.remove(&key);
                }
                1 if !model.contains_key(&key) => {
                    bench.write(&key, append(&[b"one", b"two"])).number().expect("is done");
                    model.insert(key, None);
                }
                _ => {
                    let value = vec![n as u8; random.below(40) as usize];
                    bench.write(&key, insert(&value)).number().expect("is done");
                    model.insert(key, Some(value));
                }
            }
        }
        let bounds: [&[u8]; 6] = [b"", b"a", b"a/250", b"b/1", b"b0", b"zz"];
        for n in 0..400 {
            let (from, to) = (bounds[random.below(6) as usize], bounds[random.below(6) as usize]);
            if !to.is_empty() && from > to {
                continue;
            }
            let range = ScanRange {
                from,
                to,
                reverse: n % 2 == 0,
                values: n % 3 == 0,
                bytes_max: if n % 5 == 0 { 200 } else { 0 },
            };
            let prefix = [&b""[..], b"b", b"b/", b"a/2", b"\xff"][random.below(5) as usize];
            let scan = Scan { prefix, keys_max: 1 + random.below(300) as u32, range, ..Scan::default() };
            assert_eq!(all_of(&mut bench, scan), expected(&model, &scan), "{scan:?}");
        }
    }

    #[test]
    fn cursor_stays_valid_while_keys_come_and_go() {
        let mut bench = PartitionBench::ordered();
        let key = |n: u32| format!("{n:05}").into_bytes();
        for n in (0..1000).step_by(2) {
            bench.write(&key(n), insert(b"v")).number().expect("is done");
        }
        for reverse in [false, true] {
            let range = ScanRange { reverse, ..ScanRange::default() };
            let (mut seen, mut cursor, mut pages) = (Vec::new(), Vec::new(), 0);
            loop {
                let scan = Scan { cursor: &cursor, keys_max: 7, range, ..Scan::default() };
                let (records, next) = page_of(&mut bench, scan);
                // The last key of the page goes, and others come on both sides of it.
                if let Some((last, _)) = records.last().filter(|_| pages % 3 == 0) {
                    let at: u32 = String::from_utf8_lossy(last).parse().expect("a number");
                    if at % 2 == 1 {
                        bench.write(last, WriteChange::Remove(Remove)).number().expect("is done");
                    }
                    bench.write(&key(at + 1), insert(b"v")).number().expect("is done");
                    bench.write(&key(at.saturating_sub(1)), insert(b"v")).number().expect("is done");
                }
                seen.extend(records.into_iter().map(|(key, _)| key));
                pages += 1;
                if next.is_empty() {
                    break;
                }
                cursor = next;
            }
            assert!(seen.is_sorted_by(|a, b| if reverse { a > b } else { a < b }), "in order, each once");
            let stable = (0..1000).step_by(2).all(|n| seen.contains(&key(n)));
            assert!(stable, "every key that was there throughout");
        }
    }

    #[test]
    fn expired_records_are_left_out_and_long_values_come_without() {
        let mut bench = PartitionBench::ordered();
        bench.write(b"short", insert(b"v")).number().expect("is done");
        let long = vec![7; RANGE_VALUE_BYTES_MAX + 1];
        bench.write(b"long", insert(&long)).number().expect("is done");
        bench.write(b"just", insert(&long[1..])).number().expect("is done");
        let soon = WriteChange::Insert(Insert { value: b"v", expiry: Expiry::AfterMs(5) });
        bench.write(b"kurz", soon).number().expect("is done");
        bench.skip_ms(5);
        let range = ScanRange { values: true, ..ScanRange::default() };
        let all = all_of(&mut bench, Scan { keys_max: 9, range, ..Scan::default() });
        let lengths: Vec<_> =
            all.iter().map(|(key, value)| (&key[..], value.as_ref().map(Vec::len))).collect();
        assert_eq!(
            lengths,
            [(&b"just"[..], Some(RANGE_VALUE_BYTES_MAX)), (b"long", None), (b"short", Some(1))]
        );
    }

    #[test]
    fn wrong_bounds_and_cursors_are_refused() {
        let mut bench = PartitionBench::ordered();
        bench.write(b"k", insert(b"v")).number().expect("is done");
        let all = Scan { keys_max: 9, ..Scan::default() };
        let range = ScanRange { from: b"m", to: b"a", ..ScanRange::default() };
        let refused = bench.answer_of(&Message::Scan(Scan { range, ..all }));
        assert_eq!(refused.number(), Err(Failure::BadRequest { reason: BadRequestReason::Bounds }));
        let same = ScanRange { from: b"k", to: b"k", ..ScanRange::default() };
        assert_eq!(all_of(&mut bench, Scan { range: same, ..all }), []);
        let hashed = [&[1][..], &[0; 12]].concat();
        for cursor in [&b"abc"[..], &hashed, &[2; KEY_BYTES_MAX + 3]] {
            let refused = bench.answer_of(&Message::Scan(Scan { cursor, ..all }));
            assert_eq!(refused.number(), Err(Failure::BadRequest { reason: BadRequestReason::Cursor }));
        }
        let past_the_end = before_key(b"z");
        let (records, next) = page_of(&mut bench, Scan { cursor: past_the_end.as_bytes(), ..all });
        assert_eq!((records, next), (Vec::new(), Vec::new()));
    }
}
