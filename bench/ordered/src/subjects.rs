//! The maps: the engine's two indexes, and `BTreeMap` with keys of two kinds.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::ops::Bound;

use xxhash_rust::xxh3::xxh3_64;
use zerohop_engine::index::HashIndex;
use zerohop_engine::index::location::Location;
use zerohop_engine::index::ordered::{OrderedIndex, RangeCursor};

/// The key length of the ZHT papers.
pub(crate) const KEY_BYTES: usize = 15;
pub(crate) type Key = [u8; KEY_BYTES];

/// A map from keys to the number of the record, which is its place in `keys`.
pub(crate) trait MeasuredMap {
    fn insert(&mut self, key: &Key, number: u64);
    fn get(&self, key: &Key) -> Option<u64>;
    /// Changes the number of a key that is there. The hash index writes the same again: it reads the key at that place.
    fn overwrite(&mut self, key: &Key, number: u64);
    fn remove(&mut self, key: &Key) -> Option<u64>;
    /// Visits so many records from a key on; `None` if it has no order.
    fn scan(&self, from: &Key, most: usize) -> Option<u64>;
    /// Memory by its own account.
    fn memory_bytes(&self) -> Option<usize> {
        None
    }
    /// The share of the memory of its leaves that has content.
    fn fill(&self) -> Option<f64> {
        None
    }
}

pub(crate) const NAMES: [&str; 4] = ["ordered", "hash", "btree-array", "btree-box"];

/// The map of that name. `keys` stand for the log, where the hash index reads the key of a record.
pub(crate) fn open<'a>(name: &str, keys: &'a [Key]) -> Option<Box<dyn MeasuredMap + 'a>> {
    Some(match name {
        "ordered" => Box::new(OrderedMap(OrderedIndex::new())),
        "hash" => Box::new(HashedMap { index: HashIndex::new(), keys }),
        "btree-array" => Box::new(BTreeMap::<Key, u64>::new()),
        "btree-box" => Box::new(BTreeMap::<Box<[u8]>, u64>::new()),
        _ => return None,
    })
}

/// Mixes a visited record into the result of a scan, so that none can be left out.
fn visited(sum: u64, key: &[u8], number: u64) -> u64 {
    sum.wrapping_add(number).wrapping_add(u64::from(key[KEY_BYTES - 1]))
}

struct OrderedMap(OrderedIndex);

impl MeasuredMap for OrderedMap {
    fn insert(&mut self, key: &Key, number: u64) {
        self.0.insert(key, Location(number)).expect("the key is short");
    }

    fn get(&self, key: &Key) -> Option<u64> {
        self.0.get(key).map(|location| location.0)
    }

    fn overwrite(&mut self, key: &Key, number: u64) {
        self.0.replace(key, Location(number));
    }

    fn remove(&mut self, key: &Key) -> Option<u64> {
        self.0.remove(key).map(|location| location.0)
    }

    fn scan(&self, from: &Key, most: usize) -> Option<u64> {
        let mut walk = self.0.walk(RangeCursor::ascending(Bound::Included(from), Bound::Unbounded));
        let mut sum = 0;
        for _ in 0..most {
            let Some((key, location)) = walk.next_record() else { break };
            sum = visited(sum, key, location.0);
        }
        Some(sum)
    }

    fn memory_bytes(&self) -> Option<usize> {
        Some(self.0.memory_bytes())
    }

    fn fill(&self) -> Option<f64> {
        let shape = self.0.check().expect("its invariants are kept");
        Some(shape.leaf_bytes_used as f64 / shape.leaf_bytes.max(1) as f64)
    }
}

struct HashedMap<'a> {
    index: HashIndex,
    keys: &'a [Key],
}

impl HashedMap<'_> {
    fn find(&self, key: &Key) -> Option<(zerohop_engine::index::IndexSlot, Location)> {
        let same = |location: Location| Ok::<_, Infallible>(self.keys[location.0 as usize] == *key);
        self.index.find(fragment(key), same).unwrap_or_else(|never| match never {})
    }
}

fn fragment(key: &Key) -> u32 {
    xxh3_64(key) as u32
}

impl MeasuredMap for HashedMap<'_> {
    fn insert(&mut self, key: &Key, number: u64) {
        match self.find(key) {
            Some((slot, _)) => self.index.replace(slot, Location(number)),
            None => self.index.insert(fragment(key), Location(number)),
        }
    }

    fn get(&self, key: &Key) -> Option<u64> {
        self.find(key).map(|(_, location)| location.0)
    }

    fn overwrite(&mut self, key: &Key, _number: u64) {
        if let Some((slot, location)) = self.find(key) {
            self.index.replace(slot, location);
        }
    }

    fn remove(&mut self, key: &Key) -> Option<u64> {
        let (slot, location) = self.find(key)?;
        self.index.remove(slot);
        Some(location.0)
    }

    fn scan(&self, _from: &Key, _most: usize) -> Option<u64> {
        None
    }

    fn memory_bytes(&self) -> Option<usize> {
        Some(self.index.bytes())
    }
}

impl MeasuredMap for BTreeMap<Key, u64> {
    fn insert(&mut self, key: &Key, number: u64) {
        self.insert(*key, number);
    }

    fn get(&self, key: &Key) -> Option<u64> {
        self.get(key).copied()
    }

    fn overwrite(&mut self, key: &Key, number: u64) {
        if let Some(value) = self.get_mut(key) {
            *value = number;
        }
    }

    fn remove(&mut self, key: &Key) -> Option<u64> {
        self.remove(key)
    }

    fn scan(&self, from: &Key, most: usize) -> Option<u64> {
        Some(self.range(*from..).take(most).fold(0, |sum, (key, &number)| visited(sum, key, number)))
    }
}

impl MeasuredMap for BTreeMap<Box<[u8]>, u64> {
    fn insert(&mut self, key: &Key, number: u64) {
        self.insert(Box::from(key.as_slice()), number);
    }

    fn get(&self, key: &Key) -> Option<u64> {
        self.get(key.as_slice()).copied()
    }

    fn overwrite(&mut self, key: &Key, number: u64) {
        if let Some(value) = self.get_mut(key.as_slice()) {
            *value = number;
        }
    }

    fn remove(&mut self, key: &Key) -> Option<u64> {
        self.remove(key.as_slice())
    }

    fn scan(&self, from: &Key, most: usize) -> Option<u64> {
        let range = self.range::<[u8], _>((Bound::Included(from.as_slice()), Bound::Unbounded));
        Some(range.take(most).fold(0, |sum, (key, &number)| visited(sum, key, number)))
    }
}
