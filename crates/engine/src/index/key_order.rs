//! The keys of an ordered partition in byte order, beside its hash index.
//!
//! ```text
//!   hash index     fragment -> location     lookups, writes, compaction, recovery: as in any partition
//!   order          keys                     ranges
//!   ended          keys without a record that a snapshot may still read, each with the end of its last version
//! ```
//!
//! Only a key that begins or ceases to exist changes the order: overwrites, appends and compaction do not. Nothing of it is on
//! the disk; it is made from the records when the partition is opened, and copied when the partition is split. A key whose entry has become unreadable may stay in
//! the order, so every key of a range is looked up before it is returned.

use std::collections::{BTreeMap, VecDeque};
use std::iter::Peekable;
use std::ops::Bound;

use super::location::Location;
use super::ordered::{OrderedIndex, RangeCursor, RangeWalk};
use crate::limits::SCAN_KEY_BYTES_MAX;
use crate::planted::{Bug, is_planted};

/// What the tree of keys has in place of a location.
const NO_LOCATION: Location = Location(0);

/// Memory of an entry of a list of ended keys beside the key, about.
const ENDED_OVERHEAD_BYTES: usize = 40;

/// A range of keys, and the end at which reading begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyRange<'a> {
    /// The lower bound.
    pub from: Bound<&'a [u8]>,
    /// The upper bound.
    pub to: Bound<&'a [u8]>,
    /// From the highest key down.
    pub is_reverse: bool,
}

impl KeyRange<'_> {
    /// Whether it has no key, because its bounds are the wrong way round.
    fn is_empty(&self) -> bool {
        match (self.from, self.to) {
            (Bound::Included(from), Bound::Included(to)) => from > to,
            (Bound::Included(from) | Bound::Excluded(from), Bound::Excluded(to))
            | (Bound::Excluded(from), Bound::Included(to)) => from >= to,
            (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
        }
    }
}

/// Keys of a range, in its direction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeysOfRange {
    /// The keys.
    pub keys: Vec<Vec<u8>>,
    /// Whether the range has more keys behind them.
    pub has_more: bool,
}

/// The order of the keys of one partition; see the module.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeyOrder {
    keys: OrderedIndex,
    /// The timestamp of the removal.
    ended: BTreeMap<Box<[u8]>, u64>,
    /// The same, oldest first, with keys that were written again since.
    expiring: VecDeque<(u64, Box<[u8]>)>,
    /// Memory of both, about.
    ended_bytes: usize,
}

impl KeyOrder {
    /// A key has a record. Returns whether it had none.
    pub(crate) fn insert(&mut self, key: &[u8]) -> bool {
        if !self.ended.is_empty() {
            self.ended.remove(key);
        }
        self.keys.insert(key, NO_LOCATION).expect("a store admits no longer key").is_none()
    }

    /// A key has no record any more. `until`: a snapshot below that timestamp may read it.
    pub(crate) fn remove(&mut self, key: &[u8], until: Option<u64>) {
        self.keys.remove(key);
        if let Some(until) = until.filter(|_| !is_planted(Bug::EndedKeyNotOrdered)) {
            self.record_end(key, until);
        }
    }

    /// A snapshot below that timestamp may read a key, though it may have no record. Timestamps never fall.
    pub(crate) fn record_end(&mut self, key: &[u8], until: u64) {
        if self.keys.get(key).is_none() {
            self.ended.insert(key.into(), until);
            self.expiring.push_back((until, key.into()));
            self.ended_bytes += ended_bytes(key);
        }
    }

    /// No snapshot reads at a timestamp below the horizon any more.
    pub(crate) fn expire(&mut self, horizon: u64) {
        while self.expiring.front().is_some_and(|(until, _)| *until <= horizon) {
            let Some((until, key)) = self.expiring.pop_front() else { return };
            self.ended_bytes -= ended_bytes(&key);
            if self.ended.get(&key) == Some(&until) {
                self.ended.remove(&key);
            }
        }
    }

    /// At most `most` keys of a range, fewer if they are long, and at least one if there is one. `at`: also keys that have no
    /// record any more, if they had one at that timestamp.
    pub(crate) fn keys_of(&self, range: KeyRange<'_>, most: usize, at: Option<u64>) -> KeysOfRange {
        let mut found = KeysOfRange::default();
        if range.is_empty() {
            return found;
        }
        let mut bytes = 0;
        let mut merged = MergedKeys::new(self, range, at);
        while let Some(key) = merged.next_key() {
            if found.keys.len() >= most.max(1) || bytes >= SCAN_KEY_BYTES_MAX {
                found.has_more = true;
                break;
            }
            bytes += key.len();
            found.keys.push(key);
        }
        found
    }

    /// The number of keys with a record in a range.
    pub(crate) fn count(&self, range: KeyRange<'_>) -> usize {
        self.keys.count(range.from, range.to)
    }

    /// Two adjacent keys with a record, of which the second has so many others below it.
    pub(crate) fn pair_at(&self, rank: usize) -> Option<(Vec<u8>, Vec<u8>)> {
        Some((self.keys.key_at(rank.checked_sub(1)?)?, self.keys.key_at(rank)?))
    }

    /// Memory that it uses, in bytes; about, of keys that have no record.
    pub(crate) fn bytes(&self) -> usize {
        self.keys.memory_bytes() + self.ended_bytes
    }
}

/// Memory of a key in both lists of ended keys, about.
fn ended_bytes(key: &[u8]) -> usize {
    2 * (key.len() + ENDED_OVERHEAD_BYTES)
}

type RemovedKeys<'a> = Box<dyn Iterator<Item = &'a [u8]> + 'a>;

/// Both sets of keys, in one order.
struct MergedKeys<'a> {
    walk: RangeWalk<'a>,
    next: Option<Vec<u8>>,
    ended: Peekable<RemovedKeys<'a>>,
    is_reverse: bool,
}

impl<'a> MergedKeys<'a> {
    fn new(order: &'a KeyOrder, KeyRange { from, to, is_reverse }: KeyRange<'_>, at: Option<u64>) -> Self {
        let cursor = match is_reverse {
            false => RangeCursor::ascending(from, to),
            true => RangeCursor::descending(from, to),
        };
        let ended: RemovedKeys<'a> = match at.filter(|_| !order.ended.is_empty()) {
            None => Box::new(std::iter::empty()),
            Some(at) => {
                let keys = order.ended.range::<[u8], _>((from, to));
                let keys = keys.filter(move |(_, until)| **until > at).map(|(key, _)| &**key);
                if is_reverse { Box::new(keys.rev()) } else { Box::new(keys) }
            }
        };
        let mut merged =
            MergedKeys { walk: order.keys.walk(cursor), next: None, ended: ended.peekable(), is_reverse };
        merged.advance();
        merged
    }

    fn advance(&mut self) {
        self.next = self.walk.next_record().map(|(key, _)| key.to_vec());
    }

    fn next_key(&mut self) -> Option<Vec<u8>> {
        let is_ended_first = match (self.ended.peek(), &self.next) {
            (Some(ended), Some(next)) => (**ended < **next) != self.is_reverse,
            (Some(_), None) => true,
            (None, _) => false,
        };
        if is_ended_first {
            return self.ended.next().map(<[u8]>::to_vec);
        }
        let key = self.next.take();
        self.advance();
        key
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use zerohop_base::random::Random;

    use super::*;

    /// When keys began and ceased to exist.
    type Model = BTreeMap<Vec<u8>, Vec<(u64, Option<u64>)>>;

    fn existed(lives: &[(u64, Option<u64>)], at: u64) -> bool {
        lives.iter().any(|(begin, end)| *begin <= at && end.is_none_or(|end| end > at))
    }

    fn random_bound(random: &mut Random, keys: u64) -> Bound<Vec<u8>> {
        let key = format!("{:03}", random.below(keys)).into_bytes();
        match random.below(5) {
            0 => Bound::Unbounded,
            1 | 2 => Bound::Excluded(key),
            _ => Bound::Included(key),
        }
    }

    fn as_slice(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
        bound.as_ref().map(Vec::as_slice)
    }

    fn is_within(key: &[u8], range: &KeyRange<'_>) -> bool {
        (match range.from {
            Bound::Unbounded => true,
            Bound::Included(from) => key >= from,
            Bound::Excluded(from) => key > from,
        }) && match range.to {
            Bound::Unbounded => true,
            Bound::Included(to) => key <= to,
            Bound::Excluded(to) => key < to,
        }
    }

    /// Reads of the present return exactly the keys that exist. Reads of the past return, in order and once, all keys that
    /// existed then, and no key that has begun to exist and ended since or before.
    #[test]
    fn ranges_agree_with_model_now_and_in_the_past() {
        const KEYS: u64 = 300;
        for seed in 0..30 {
            let mut random = Random::new(seed);
            let (mut order, mut model) = (KeyOrder::default(), Model::new());
            let mut horizon = 0;
            for now in 1..3_000u64 {
                let key = format!("{:03}", random.below(KEYS)).into_bytes();
                let lives = model.entry(key.clone()).or_default();
                let exists = lives.last().is_some_and(|(_, end)| end.is_none());
                if exists && random.below(2) == 0 {
                    order.remove(&key, Some(now));
                    lives.last_mut().expect("it lives").1 = Some(now);
                } else {
                    assert_eq!(order.insert(&key), !exists);
                    if !exists {
                        lives.push((now, None));
                    }
                }
                if now % 100 == 0 {
                    horizon = now - random.below(100);
                    order.expire(horizon);
                }
                if now % 10 != 0 {
                    continue;
                }
                let (from, to) = (random_bound(&mut random, KEYS), random_bound(&mut random, KEYS));
                let is_reverse = random.below(2) == 0;
                let range = KeyRange { from: as_slice(&from), to: as_slice(&to), is_reverse };
                let at = horizon + random.below(now + 1 - horizon);
                let in_order = |mut keys: Vec<Vec<u8>>| {
                    if is_reverse {
                        keys.reverse();
                    }
                    keys
                };
                let of = |at: u64| {
                    let all =
                        model.iter().filter(|(key, lives)| is_within(key, &range) && existed(lives, at));
                    in_order(all.map(|(key, _)| key.clone()).collect())
                };
                assert_eq!(order.keys_of(range, usize::MAX, None).keys, of(now), "{range:?}");
                let past = order.keys_of(range, usize::MAX, Some(at)).keys;
                let is_sorted = past.is_sorted_by(|a, b| if is_reverse { a > b } else { a < b });
                assert!(is_sorted, "in order, each once");
                let exact: Vec<_> = past.iter().filter(|key| existed(&model[*key], at)).cloned().collect();
                assert_eq!(exact, of(at), "{range:?} at {at}");
                let most = 1 + random.below(20) as usize;
                let few = order.keys_of(range, most, None);
                assert_eq!(few.keys, of(now)[..most.min(of(now).len())]);
                assert_eq!(few.has_more, of(now).len() > most);
            }
            order.expire(u64::MAX);
            assert!(order.ended.is_empty() && order.expiring.is_empty());
            assert_eq!(order.ended_bytes, 0);
        }
    }

    #[test]
    fn page_of_long_keys_ends_early_and_is_never_empty() {
        let mut order = KeyOrder::default();
        for n in 0..100u8 {
            order.insert(&vec![n; 60_000]);
        }
        let all = KeyRange { from: Bound::Unbounded, to: Bound::Unbounded, is_reverse: false };
        let page = order.keys_of(all, usize::MAX, None);
        assert!(page.has_more && !page.keys.is_empty() && page.keys.len() < 100, "{}", page.keys.len());
    }
}
