//! `scan`: the committed keys of a partition, page by page.
//!
//! The order is by the part of the key's hash that the index uses, then by the key itself. Neither changes while a key exists,
//! even if pages of the index split meanwhile. A cursor that names the last key of a page therefore suffices for each key to come
//! exactly once. A cursor is the fragment (4) and the key.

use zerohop_engine::disk::Disk;
use zerohop_wire::blob::{header_key, is_of_blob};
use zerohop_wire::ids::Timestamp;
use zerohop_wire::limits::PAGE_BYTES_MAX;
use zerohop_wire::messages::{OperationAnswer, Outcome as WireOutcome, RecordType, Scan, ScannedKey};
use zerohop_wire::{BadRequestReason, Elements, Failure, pack};

use super::EngineResultExt;
use crate::hash_range::HashRange;
use crate::limits::SCAN_INDEX_PAGES_MAX;
use crate::planted::{Bug, is_planted};
use crate::view::RecordView;

/// Bytes of a key on a page beside the key.
const ITEM_BYTES: usize = 16;

/// Fragments and keys of a page of the index, and the first fragment of the next page.
pub(crate) type IndexPage = (Vec<(u32, Vec<u8>)>, Option<u32>);

/// The source of keys of a scan.
pub(crate) trait KeySource {
    /// Keys of the index page of a fragment, in any order, and where the next page starts.
    fn page(&mut self, from: u32) -> Result<IndexPage, Failure<'static>>;

    /// The type and version of a key's record; `None`: the scan leaves it out.
    fn record_meta(&mut self, key: &[u8]) -> Result<Option<(RecordType, Timestamp)>, Failure<'static>>;
}

/// The present keys.
struct CurrentKeys<'p, 'v, D> {
    view: &'p mut RecordView<'v, D>,
    now_ms: u64,
}

impl<D: Disk> KeySource for CurrentKeys<'_, '_, D> {
    fn page(&mut self, from: u32) -> Result<IndexPage, Failure<'static>> {
        let (keys, next) = self.view.engine.scan(self.view.handle, from).or_fail()?;
        let mut found = Vec::with_capacity(keys.len());
        for key in keys {
            found.push((self.view.engine.fragment_of(self.view.handle, &key).or_fail()?, key));
        }
        Ok((found, next))
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
    (now_ms, foreign): (u64, Option<HashRange>),
    out: (&'o mut Vec<u8>, &'o mut Vec<u8>),
) -> OperationAnswer<'o> {
    keys(&mut CurrentKeys { view, now_ms }, scan, foreign, out)
}

/// The same for any source of keys.
pub(crate) fn keys<'o>(
    all: &mut impl KeySource,
    scan: &Scan<'_>,
    foreign: Option<HashRange>,
    (out, next): (&'o mut Vec<u8>, &'o mut Vec<u8>),
) -> OperationAnswer<'o> {
    let (mut from, mut after) = match scan.cursor.split_first_chunk::<4>() {
        Some((fragment, key)) => (u32::from_le_bytes(*fragment), Some(key)),
        None if scan.cursor.is_empty() => (0, None),
        None => return Err(BadRequestReason::Lengths.into()),
    };
    let mut count = 0;
    'pages: for _ in 0..SCAN_INDEX_PAGES_MAX {
        let (mut keys, next_page) = all.page(from)?;
        keys.sort_unstable();
        // A page of one key would be the same forever.
        let goes_back = is_planted(Bug::ScanRepeatsKey) && scan.keys_max > 1;
        keys.retain(|(fragment, key)| {
            let place = (*fragment, Some(&key[..]));
            place > (from, after) || goes_back && place == (from, after)
        });
        for (fragment, key) in keys {
            let is_full =
                count == scan.keys_max || count > 0 && out.len() + key.len() + ITEM_BYTES > PAGE_BYTES_MAX;
            if is_full {
                if is_planted(Bug::ScanSkipsKey) {
                    set_cursor(next, fragment, &key);
                }
                break 'pages;
            }
            if key.starts_with(scan.prefix)
                && !is_of_blob(&key)
                && foreign.is_none_or(|hash_range| hash_range.owns(&key))
                && let Some((record, version)) = all.record_meta(&key)?
            {
                pack(&ScannedKey { key: &key, record, version }, out)?;
                count += 1;
            }
            set_cursor(next, fragment, &key);
        }
        match next_page {
            Some(fragment) => {
                (from, after) = (fragment, None);
                set_cursor(next, fragment, b"");
            }
            None => {
                next.clear();
                break;
            }
        }
    }
    Ok(WireOutcome::Page { next, keys: Elements::packed(count, out)? })
}

/// Answers with a page of these names of blobs, which are in order and behind the cursor. Its cost is that of its result. `look`
/// returns the header of a name, if there is one.
pub(crate) fn names<'o, 'n>(
    names: impl Iterator<Item = &'n [u8]>,
    scan: &Scan<'_>,
    foreign: Option<HashRange>,
    mut look: impl FnMut(&[u8]) -> Result<Option<(RecordType, Timestamp)>, Failure<'static>>,
    (out, next): (&'o mut Vec<u8>, &'o mut Vec<u8>),
) -> OperationAnswer<'o> {
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
            pack(&ScannedKey { key: name, record, version }, out)?;
            count += 1;
        }
    }
    next.clear();
    Ok(WireOutcome::Page { next, keys: Elements::packed(count, out)? })
}

fn set_cursor(next: &mut Vec<u8>, fragment: u32, key: &[u8]) {
    next.clear();
    next.extend_from_slice(&fragment.to_le_bytes());
    next.extend_from_slice(key);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use zerohop_wire::messages::{Expiry, Insert, WriteChange};
    use zerohop_wire::{BadRequestReason, Failure};

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
    fn invalid_cursor_is_refused_or_used_as_position() {
        let mut bench = PartitionBench::new();
        bench.write(b"k", insert(b"v")).number().expect("is done");
        let refused = bench.scan_answer(b"abc", b"", 1);
        assert_eq!(refused.number(), Err(Failure::BadRequest { reason: BadRequestReason::Lengths }));
        assert_eq!(bench.scan(&[0xFF; 40], b"", 1).1, b"");
    }
}
