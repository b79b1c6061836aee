//! `scan`: the committed keys of a partition, page by page.
//!
//! The order is that of the partition's index, which does not change while a key exists, even if pages of the index split meanwhile.
//! A cursor behind the last key of a page therefore suffices for each key to come exactly once. Its bytes are the engine's
//! ([`Cursor`]).

use zerohop_engine::Cursor;
use zerohop_engine::disk::Disk;
use zerohop_wire::blob::{header_key, is_of_blob};
use zerohop_wire::ids::Timestamp;
use zerohop_wire::limits::PAGE_BYTES_MAX;
use zerohop_wire::messages::{
    OperationAnswer, Outcome as WireOutcome, RecordType, SCANNED_HEAD_BYTES, Scan, ScanRange, ScannedKey,
};
use zerohop_wire::{BadRequestReason, Elements, Failure, pack};

use super::EngineResultExt;
use crate::hash_range::HashRange;
use crate::limits::SCAN_INDEX_PAGES_MAX;
use crate::planted::{Bug, is_planted};
use crate::view::RecordView;

/// Bytes of a key on a page beside the key.
const ITEM_BYTES: usize = SCANNED_HEAD_BYTES;

/// Keys of a page of the index, in its order, and the cursor of the next page.
pub(crate) type IndexPage = (Vec<Vec<u8>>, Option<Cursor>);

/// The source of keys of a scan.
pub(crate) trait KeySource {
    /// The keys of a page of the index behind a cursor, in order, and where the next page starts.
    fn page(&mut self, from: &Cursor) -> Result<IndexPage, Failure<'static>>;

    /// The cursor behind a key.
    fn cursor_behind(&mut self, key: &[u8]) -> Result<Cursor, Failure<'static>>;

    /// The type and version of a key's record; `None`: the scan leaves it out.
    fn record_meta(&mut self, key: &[u8]) -> Result<Option<(RecordType, Timestamp)>, Failure<'static>>;
}

/// The present keys.
struct CurrentKeys<'p, 'v, D> {
    view: &'p mut RecordView<'v, D>,
    now_ms: u64,
}

impl<D: Disk> KeySource for CurrentKeys<'_, '_, D> {
    fn page(&mut self, from: &Cursor) -> Result<IndexPage, Failure<'static>> {
        self.view.engine.scan(self.view.handle, from).or_fail()
    }

    fn cursor_behind(&mut self, key: &[u8]) -> Result<Cursor, Failure<'static>> {
        self.view.engine.cursor_behind(self.view.handle, key).or_fail()
    }

    fn record_meta(&mut self, key: &[u8]) -> Result<Option<(RecordType, Timestamp)>, Failure<'static>> {
        if self.view.deadlines.get(key).is_some_and(|deadline| deadline <= self.now_ms) {
            return Ok(None);
        }
        Ok(self.view.shape(key).or_fail()?.map(|shape| (shape.record, shape.version)))
    }
}

/// Answers with a page. If the partition may have records of siblings, the page has only keys of its own hash range. `out` and
/// `next` are empty, and store the contents that the answer borrows.
pub(crate) fn answer<'o, D: Disk>(
    view: &mut RecordView<'_, D>,
    scan: &Scan<'_>,
    (now_ms, foreign): (u64, Option<&HashRange>),
    out: (&'o mut Vec<u8>, &'o mut Vec<u8>),
) -> OperationAnswer<'o> {
    keys(&mut CurrentKeys { view, now_ms }, scan, foreign, out)
}

/// The same for any source of keys.
pub(crate) fn keys<'o>(
    all: &mut impl KeySource,
    scan: &Scan<'_>,
    foreign: Option<&HashRange>,
    (out, next): (&'o mut Vec<u8>, &'o mut Vec<u8>),
) -> OperationAnswer<'o> {
    check_range(scan)?;
    let mut at = Cursor::from_bytes(scan.cursor).map_err(|_| BadRequestReason::Cursor)?;
    let mut count = 0;
    'pages: for _ in 0..SCAN_INDEX_PAGES_MAX {
        let (keys, next_page) = all.page(&at)?;
        for (before, key) in keys.iter().enumerate() {
            let is_full =
                count == scan.keys_max || count > 0 && out.len() + key.len() + ITEM_BYTES > PAGE_BYTES_MAX;
            if is_full {
                let mut passed = before + usize::from(is_planted(Bug::ScanSkipsKey));
                // A page of one key would be the same forever.
                if is_planted(Bug::ScanRepeatsKey) && passed > 1 {
                    passed -= 1;
                }
                if let Some(last) = passed.checked_sub(1) {
                    at = all.cursor_behind(&keys[last])?;
                }
                break 'pages;
            }
            if key.starts_with(scan.prefix)
                && !is_of_blob(key)
                && foreign.is_none_or(|hash_range| hash_range.owns(key))
                && let Some((record, version)) = all.record_meta(key)?
            {
                pack(&ScannedKey { key, record, version, value: None }, out)?;
                count += 1;
            }
        }
        match next_page {
            Some(next_page) => at = next_page,
            None => {
                next.clear();
                return Ok(WireOutcome::Page { next, keys: Elements::packed(count, out)? });
            }
        }
    }
    next.clear();
    next.extend_from_slice(at.as_bytes());
    Ok(WireOutcome::Page { next, keys: Elements::packed(count, out)? })
}

/// Answers with a page of these names of blobs, which are in order and behind the cursor. Its cost is that of its result. `look`
/// returns the header of a name, if there is one.
pub(crate) fn names<'o, 'n>(
    names: impl Iterator<Item = &'n [u8]>,
    scan: &Scan<'_>,
    foreign: Option<&HashRange>,
    mut look: impl FnMut(&[u8]) -> Result<Option<(RecordType, Timestamp)>, Failure<'static>>,
    (out, next): (&'o mut Vec<u8>, &'o mut Vec<u8>),
) -> OperationAnswer<'o> {
    check_range(scan)?;
    let mut count = 0;
    for name in names {
        let is_full = count == scan.keys_max || out.len() + name.len() + ITEM_BYTES > PAGE_BYTES_MAX;
        if is_full && count > 0 {
            return Ok(WireOutcome::Page { next, keys: Elements::packed(count, out)? });
        }
        next.clear();
        next.extend_from_slice(name);
        if foreign.is_none_or(|hash_range| hash_range.owns(&header_key(name).unwrap_or_default()))
            && let Some((record, version)) = look(name)?
        {
            pack(&ScannedKey { key: name, record, version, value: None }, out)?;
            count += 1;
        }
    }
    next.clear();
    Ok(WireOutcome::Page { next, keys: Elements::packed(count, out)? })
}

/// Keys in the order of a hash, and names of blobs, are scanned without bounds, direction and values.
fn check_range(scan: &Scan<'_>) -> Result<(), Failure<'static>> {
    if scan.range == ScanRange::default() { Ok(()) } else { Err(BadRequestReason::NotOrdered.into()) }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use zerohop_wire::messages::{Expiry, Insert, Scan, ScanRange, WriteChange};
    use zerohop_wire::{BadRequestReason, Failure, Message};

    use zerohop_wire::limits::CURSOR_BYTES_MAX;

    use crate::testing::{PartitionBench, append, insert};

    #[test]
    fn scan_returns_stable_key_exactly_once() {
        let mut bench = PartitionBench::new();
        let key = |n: u32| format!("key-{n}").into_bytes();
        for n in 0..3_000 {
            bench.write(&key(n), insert(b"v")).number().expect("is done");
        }
        let (mut cursor, mut seen, mut pages) = (Vec::new(), Vec::new(), 0);
        loop {
            let (keys, next) = bench.scan(&cursor, b"", 37);
            assert!(keys.len() <= 37);
            seen.extend(keys);
            // There are enough keys for pages of the index to split during the scan.
            let come = 3_000 + pages * 25..3_000 + (pages + 1) * 25;
            come.for_each(|n| drop(bench.write(&key(n), insert(b"v"))));
            pages += 1;
            if next.is_empty() {
                break;
            }
            cursor = next;
            assert!(pages < 1_000, "the scan ends");
        }
        let distinct: BTreeSet<&Vec<u8>> = seen.iter().collect();
        assert_eq!(distinct.len(), seen.len(), "none came twice");
        assert!((0..3_000).all(|n| distinct.contains(&key(n))), "all came");
    }

    #[test]
    fn scan_returns_only_unexpired_keys_with_prefix() {
        let mut bench = PartitionBench::new();
        for n in 0..50u8 {
            bench.write(&[b'a', n], insert(b"v")).number().expect("is done");
            bench.write(&[b'b', n], append(&[b"v"])).number().expect("is done");
        }
        let change = WriteChange::Insert(Insert { value: b"v", expiry: Expiry::AfterMs(5) });
        bench.write(b"b-soon-gone", change).number().expect("is done");
        bench.skip_ms(5);
        let (keys, next) = bench.scan(b"", b"b", 4096);
        assert_eq!((keys.len(), next.len()), (50, 0));
        assert!(keys.iter().all(|key| key[0] == b'b'));
    }

    #[test]
    fn bounds_and_directions_are_refused_in_hashed_keyspaces() {
        let mut bench = PartitionBench::new();
        bench.write(b"k", insert(b"v")).number().expect("is done");
        let all = Scan { keys_max: 9, ..Scan::default() };
        assert_eq!(bench.answer_of(&Message::Scan(all)).page().0.len(), 1);
        let ranges = [
            ScanRange { from: b"a", ..ScanRange::default() },
            ScanRange { to: b"z", ..ScanRange::default() },
            ScanRange { reverse: true, ..ScanRange::default() },
            ScanRange { bytes_max: 1, ..ScanRange::default() },
            ScanRange { values: true, ..ScanRange::default() },
        ];
        for (range, blobs) in ranges.into_iter().flat_map(|range| [(range, false), (range, true)]) {
            let refused = bench.answer_of(&Message::Scan(Scan { range, blobs, ..all }));
            let expected = Failure::BadRequest { reason: BadRequestReason::NotOrdered };
            assert_eq!(refused.number(), Err(expected), "{range:?}");
        }
    }

    #[test]
    fn cursor_of_another_index_is_refused() {
        let mut bench = PartitionBench::new();
        for n in 0..9u8 {
            bench.write(&[b'k', n], insert(b"v")).number().expect("is done");
        }
        let (_, next) = bench.scan(b"", b"", 1);
        let of_another_seed = [&next[..1], &[next[1] ^ 1], &next[2..]].concat();
        for cursor in [b"abc", &of_another_seed[..], &[0xFF; 40], &vec![1; CURSOR_BYTES_MAX]] {
            let refused = bench.scan_answer(cursor, b"", 1);
            assert_eq!(refused.number(), Err(Failure::BadRequest { reason: BadRequestReason::Cursor }));
        }
    }
}
