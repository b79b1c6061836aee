//! The ordered index as the index of a store.

use std::ops::Bound;

use super::IndexSlot;
use super::contract::{Index, IndexKey, PagedKey};
use super::cursor::{Cursor, CursorFault, before_key, key_behind};
use super::location::Location;
use super::ordered::{OrderedIndex, RangeCursor};

/// Entries of a page at most.
const PAGE_ENTRIES_MAX: usize = 1024;

/// An index in the order of the keys.
#[derive(Debug, Default)]
pub struct KeyIndex {
    tree: OrderedIndex,
    changes: u64,
}

impl KeyIndex {
    /// An empty index. It allocates nothing until the first insert.
    pub fn new() -> KeyIndex {
        KeyIndex::default()
    }
}

fn ascending(from: &Cursor) -> Result<RangeCursor, CursorFault> {
    Ok(RangeCursor::ascending(Bound::Included(key_behind(from)?), Bound::Unbounded))
}

/// The lowest key above another.
fn successor(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}

impl Index for KeyIndex {
    fn len(&self) -> usize {
        self.tree.len()
    }

    fn bytes(&self) -> usize {
        self.tree.memory_bytes()
    }

    fn changes(&self) -> u64 {
        self.changes
    }

    fn find<E>(
        &self,
        key: IndexKey<'_>,
        mut accept: impl FnMut(Location) -> Result<bool, E>,
    ) -> Result<Option<(IndexSlot, Location)>, E> {
        let Some(location) = self.tree.get(key.key) else { return Ok(None) };
        Ok(accept(location)?.then_some((IndexSlot::OF_KEY, location)))
    }

    /// A prefetch would cost as much as the lookup.
    fn prefetch(&self, _: IndexKey<'_>) {}

    fn insert(&mut self, key: IndexKey<'_>, location: Location) {
        self.changes += 1;
        let previous = self.tree.insert(key.key, location).expect("a store admits no longer key");
        debug_assert!(previous.is_none(), "the key is not in the index");
    }

    fn replace(&mut self, key: IndexKey<'_>, _: IndexSlot, location: Location) {
        self.changes += 1;
        self.tree.replace(key.key, location);
    }

    fn remove(&mut self, key: IndexKey<'_>, _: IndexSlot) {
        self.changes += 1;
        self.tree.remove(key.key);
    }

    fn page(
        &self,
        _: u64,
        from: &Cursor,
        mut visit: impl FnMut(PagedKey<'_>, Location),
    ) -> Result<Option<Cursor>, CursorFault> {
        let mut last = Vec::new();
        let rest = self.tree.page(ascending(from)?, PAGE_ENTRIES_MAX, |key, location| {
            last.clear();
            last.extend_from_slice(key);
            visit(PagedKey::Key(key), location);
        });
        Ok(rest.map(|_| before_key(&successor(&last))))
    }

    fn range_end(
        &self,
        _: u64,
        from: &Cursor,
        (most, bytes): (usize, u64),
        bytes_of: impl Fn(Location) -> u64,
    ) -> Result<Option<Cursor>, CursorFault> {
        let mut walk = self.tree.walk(ascending(from)?);
        let (mut before, mut total_bytes) = (0, 0);
        while let Some((key, location)) = walk.next_record() {
            total_bytes += bytes_of(location);
            let most = most.clamp(1, PAGE_ENTRIES_MAX);
            if before >= most || before > 0 && total_bytes > bytes {
                return Ok(Some(before_key(key)));
            }
            before += 1;
        }
        Ok(None)
    }

    fn cursor_behind(&self, _: u64, key: IndexKey<'_>) -> Cursor {
        before_key(&successor(key.key))
    }

    fn is_before(&self, _: u64, key: IndexKey<'_>, cursor: &Cursor) -> Result<bool, CursorFault> {
        Ok(key.key < key_behind(cursor)?)
    }
}

/// Tests of what a store asks, with each index.
#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use zerohop_base::random::Random;

    use super::*;
    use crate::index::HashIndex;

    const SEED: u64 = 0x5EED;
    type Model = BTreeMap<Vec<u8>, u64>;

    /// Few fragments: keys share them.
    fn index_key(key: &[u8]) -> IndexKey<'_> {
        IndexKey { fragment: xxhash_rust::xxh3::xxh3_64(key) as u32 & 0xFF00_FF00, key }
    }

    /// The keys that a walk from a cursor to another returns. The hash index has places only, which name the keys.
    fn walk(index: &impl Index, model: &Model, from: &Cursor, to: Option<&Cursor>) -> Vec<Vec<u8>> {
        let by_place: BTreeMap<u64, &Vec<u8>> = model.iter().map(|(key, place)| (*place, key)).collect();
        let (mut keys, mut at) = (Vec::new(), Some(from.clone()));
        while let Some(here) = at {
            let mut page = Vec::new();
            let next = index.page(SEED, &here, |_, location| page.push(by_place[&location.0].clone()));
            let is_before =
                |key: &[u8], cursor| index.is_before(SEED, index_key(key), cursor).expect("is its own");
            page.retain(|key| !is_before(key, &here) && to.is_none_or(|to| is_before(key, to)));
            keys.extend(page);
            at = next.expect("is its own");
        }
        keys.sort_unstable();
        keys
    }

    /// An index after random operations, and what it must have.
    fn after_operations<I: Index>(index: &mut I, seed: u64) -> Model {
        let mut random = Random::new(seed);
        let mut model = Model::new();
        for place in 1..6_000 {
            let key = format!("key-{}", random.below(3_000)).into_bytes();
            let known = index_key(&key);
            let found = model
                .get(&key)
                .map(|&old| index.find_slot(known, Location(old)).expect("what was inserted is found").0);
            match (found, random.below(4)) {
                (Some(found), 0) => {
                    index.remove(known, found);
                    model.remove(&key);
                }
                (Some(found), _) => {
                    index.replace(known, found, Location(place));
                    model.insert(key, place);
                }
                (None, _) => {
                    index.insert(known, Location(place));
                    model.insert(key, place);
                }
            }
        }
        model
    }

    fn agrees_with_model(mut index: impl Index) {
        let model = after_operations(&mut index, 1);
        assert_eq!(index.len(), model.len());
        assert!(index.changes() >= 5_999 && index.bytes() > 0);
        for (key, place) in &model {
            assert!(index.find_slot(index_key(key), Location(*place)).is_some());
            assert!(index.find_slot(index_key(key), Location(u64::MAX >> 2)).is_none());
        }
        assert_eq!(walk(&index, &model, &Cursor::START, None), model.keys().cloned().collect::<Vec<_>>());
    }

    /// Slices that begin where the last one ends have every key once, and at most as many keys as were asked for.
    fn slices_have_each_key_once(mut index: impl Index) {
        let model = after_operations(&mut index, 2);
        for (most, bytes) in [(1, u64::MAX), (7, u64::MAX), (500, u64::MAX), (usize::MAX, 100)] {
            let (mut keys, mut from) = (Vec::new(), Some(Cursor::START));
            while let Some(at) = from {
                let end = index.range_end(SEED, &at, (most, bytes), |_| 10).expect("is its own");
                let slice = walk(&index, &model, &at, end.as_ref());
                // A fragment is never divided, and some have a few keys.
                assert!(slice.len() <= most.min(bytes as usize / 10).saturating_add(8), "{}", slice.len());
                assert_ne!(end.as_ref(), Some(&at), "a slice has a key");
                keys.extend(slice);
                from = end;
            }
            keys.sort_unstable();
            assert_eq!(keys, model.keys().cloned().collect::<Vec<_>>(), "{most} keys, {bytes} bytes");
        }
    }

    /// A walk that goes on behind the last key of each page of a few keys returns every key that is there throughout once.
    fn walk_behind_keys_has_each_once(mut index: impl Index) {
        let mut model = after_operations(&mut index, 3);
        let stable: Vec<Vec<u8>> = model.keys().cloned().collect();
        let (mut seen, mut at) = (Vec::new(), Cursor::START);
        for place in 100_000.. {
            let mut left: Vec<Vec<u8>> = walk(&index, &model, &at, None);
            let before = |a: &Vec<u8>, b: &Vec<u8>| {
                let behind_b = index.cursor_behind(SEED, index_key(b));
                index.is_before(SEED, index_key(a), &behind_b).expect("is its own")
            };
            left.sort_by(|a, b| match (a == b, before(a, b)) {
                (true, _) => std::cmp::Ordering::Equal,
                (_, true) => std::cmp::Ordering::Less,
                (_, false) => std::cmp::Ordering::Greater,
            });
            let Some(last) = left.get(..left.len().min(97)).and_then(<[_]>::last) else { break };
            seen.extend(left[..left.len().min(97)].iter().cloned());
            at = index.cursor_behind(SEED, index_key(last));
            let come = format!("come-{place}").into_bytes();
            index.insert(index_key(&come), Location(place));
            model.insert(come, place);
        }
        let mut stable_seen: Vec<Vec<u8>> = seen.iter().filter(|key| stable.contains(key)).cloned().collect();
        stable_seen.sort_unstable();
        assert_eq!(stable_seen, stable);
    }

    #[test]
    fn hash_index_answers_a_store_as_a_map_does() {
        agrees_with_model(HashIndex::new());
        slices_have_each_key_once(HashIndex::new());
        walk_behind_keys_has_each_once(HashIndex::new());
    }

    #[test]
    fn ordered_index_answers_a_store_as_a_map_does() {
        agrees_with_model(KeyIndex::new());
        slices_have_each_key_once(KeyIndex::new());
        walk_behind_keys_has_each_once(KeyIndex::new());
    }

    #[test]
    fn ordered_index_pages_in_the_order_of_the_keys() {
        let mut index = KeyIndex::new();
        let model = after_operations(&mut index, 4);
        let (mut keys, mut at) = (Vec::new(), Some(Cursor::START));
        while let Some(here) = at {
            at = index
                .page(SEED, &here, |key, _| match key {
                    PagedKey::Key(key) => keys.push(key.to_vec()),
                    PagedKey::Fragment(_) => panic!("an ordered index has the keys"),
                })
                .expect("is its own");
        }
        assert_eq!(keys, model.into_keys().collect::<Vec<_>>());
    }

    #[test]
    fn cursor_of_the_other_index_is_refused() {
        let (hash, ordered) = (HashIndex::new(), KeyIndex::new());
        let of_hash = Index::cursor_behind(&hash, SEED, index_key(b"k"));
        let of_ordered = ordered.cursor_behind(SEED, index_key(b"k"));
        let none = |_: PagedKey<'_>, _: Location| {};
        assert_eq!(hash.page(SEED, &of_ordered, none), Err(CursorFault::OtherIndex));
        assert_eq!(ordered.page(SEED, &of_hash, none), Err(CursorFault::OtherIndex));
        assert_eq!(hash.page(SEED + 1, &of_hash, none), Err(CursorFault::OtherSeed));
        assert_eq!(hash.range_end(SEED + 1, &of_hash, (1, 1), |_| 1), Err(CursorFault::OtherSeed));
        assert_eq!(ordered.range_end(SEED, &of_hash, (1, 1), |_| 1), Err(CursorFault::OtherIndex));
    }
}
