//! The index beside a `BTreeMap`, with keys that are hard for it.

use std::collections::BTreeMap;
use std::ops::Bound;

use super::*;
use zerohop_base::random::Random;

type Model = BTreeMap<Vec<u8>, u64>;

/// A family of keys.
#[derive(Clone, Copy, Debug)]
enum Keys {
    /// 15 random bytes.
    Random,
    /// Up to 6 bytes of 0x00, 0x01 and 0xff: many are prefixes of others, and many have equal heads.
    Tiny,
    /// Counters in order, or in reverse, behind a prefix.
    Sorted { is_reverse: bool },
    /// A long prefix of one of four users, then a number.
    Users,
    /// Equal for 300 bytes: no separator of at most 256 bytes exists.
    SharedStart,
    /// Around the bound of overflow entries, equal for most of their bytes.
    Long,
    /// Anything of the above.
    Mixed,
    /// Runs of one byte, with lengths up to two pages.
    Runs,
}

const FAMILIES: [Keys; 9] = [
    Keys::Random,
    Keys::Tiny,
    Keys::Sorted { is_reverse: false },
    Keys::Sorted { is_reverse: true },
    Keys::Users,
    Keys::SharedStart,
    Keys::Long,
    Keys::Mixed,
    Keys::Runs,
];

impl Keys {
    fn draw(self, random: &mut Random, n: u64) -> Vec<u8> {
        match self {
            Keys::Random => {
                let mut key = vec![0; 15];
                random.fill(&mut key);
                key
            }
            Keys::Tiny => {
                let bytes = [0u8, 1, 0xff];
                (0..random.below(7)).map(|_| bytes[random.below(3) as usize]).collect()
            }
            Keys::Sorted { is_reverse } => {
                let n = if is_reverse { u64::MAX - n } else { n };
                [b"table/events/".as_slice(), &n.to_be_bytes()].concat()
            }
            Keys::Users => {
                let user = "abcdefghijklmnopqrstuvwxyz".repeat(1 + random.below(4) as usize);
                format!("{user}/{}", random.below(3_000)).into_bytes()
            }
            Keys::SharedStart => {
                let mut key = vec![0xff; 300];
                key.extend(random.below(100_000).to_le_bytes());
                key
            }
            Keys::Long => {
                let mut key = vec![b'k'; 1_010 + random.below(20) as usize];
                key.extend(random.below(600).to_be_bytes());
                key.extend(vec![0; 100 * random.below(2) as usize]);
                key
            }
            Keys::Mixed => FAMILIES[random.below(7) as usize].draw(random, n),
            Keys::Runs => {
                let byte = [0u8, 7, 0xff][random.below(3) as usize];
                let longest = if random.chance(1, 50) { KEY_BYTES_MAX as u64 } else { 1_100 };
                vec![byte; random.below(longest + 1) as usize]
            }
        }
    }

    /// A bound of a range: a drawn key, or one that is in the model.
    fn bound(self, random: &mut Random, model: &Model, n: u64) -> Bound<Vec<u8>> {
        let drawn = self.draw(random, n);
        let key = match random.below(2) {
            0 => model.range(drawn.clone()..).next().map_or(drawn, |(key, _)| key.clone()),
            _ => drawn,
        };
        match random.below(5) {
            0 => Bound::Unbounded,
            1 | 2 => Bound::Included(key),
            _ => Bound::Excluded(key),
        }
    }
}

fn slice(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(Vec::as_slice)
}

/// `BTreeMap::range` refuses bounds the wrong way round.
fn in_range<'a>(
    model: &'a Model,
    from: &Bound<Vec<u8>>,
    to: &Bound<Vec<u8>>,
) -> impl DoubleEndedIterator<Item = (&'a Vec<u8>, &'a u64)> {
    let is_below = |key: &Vec<u8>| match from {
        Bound::Unbounded => true,
        Bound::Included(from) => key >= from,
        Bound::Excluded(from) => key > from,
    };
    let is_above = |key: &Vec<u8>| match to {
        Bound::Unbounded => true,
        Bound::Included(to) => key <= to,
        Bound::Excluded(to) => key < to,
    };
    let found: Vec<_> = model.iter().filter(|(key, _)| is_below(key) && is_above(key)).collect();
    found.into_iter()
}

fn walked(index: &OrderedIndex, cursor: RangeCursor) -> Vec<(Vec<u8>, u64)> {
    let mut walk = index.walk(cursor);
    let mut found = Vec::new();
    while let Some((key, location)) = walk.next_record() {
        found.push((key.to_vec(), location.0));
    }
    found
}

fn everything() -> RangeCursor {
    RangeCursor::ascending(Bound::Unbounded, Bound::Unbounded)
}

fn index_of(model: &Model) -> Vec<(Vec<u8>, u64)> {
    model.iter().map(|(key, &value)| (key.clone(), value)).collect()
}

#[track_caller]
fn check(index: &OrderedIndex) -> IndexShape {
    match index.check() {
        Ok(shape) => shape,
        Err(fault) => panic!("{fault}"),
    }
}

struct World {
    keys: Keys,
    random: Random,
    index: OrderedIndex,
    model: Model,
    drawn: u64,
}

impl World {
    fn new(keys: Keys, seed: u64) -> World {
        World { keys, random: Random::new(seed), index: OrderedIndex::new(), model: Model::new(), drawn: 0 }
    }

    fn draw(&mut self) -> Vec<u8> {
        self.drawn += 1;
        self.keys.draw(&mut self.random, self.drawn)
    }

    /// A key of the model, or a drawn one.
    fn existing(&mut self) -> Vec<u8> {
        let drawn = self.draw();
        if self.random.chance(1, 2) && !self.model.is_empty() {
            let rank = self.random.below(self.model.len() as u64) as usize;
            return self.index.key_at(rank).expect("it has so many keys");
        }
        self.model.range(drawn.clone()..).next().map_or(drawn, |(key, _)| key.clone())
    }

    fn insert(&mut self) {
        let key = self.draw();
        let value = self.random.next_u64();
        let previous = self.index.insert(&key, Location(value)).expect("the key is not too long");
        assert_eq!(previous.map(|l| l.0), self.model.insert(key, value));
    }

    fn remove(&mut self) {
        let key = self.existing();
        assert_eq!(self.index.remove(&key).map(|l| l.0), self.model.remove(&key));
    }

    fn replace_and_get(&mut self) {
        let key = self.existing();
        let value = self.random.next_u64();
        let previous = self.index.replace(&key, Location(value)).map(|l| l.0);
        assert_eq!(previous, self.model.get(&key).copied());
        self.model.entry(key.clone()).and_modify(|old| *old = value);
        assert_eq!(self.index.get(&key).map(|l| l.0), self.model.get(&key).copied());
        let other = self.draw();
        assert_eq!(self.index.get(&other).map(|l| l.0), self.model.get(&other).copied());
    }

    fn bounds(&mut self) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
        self.drawn += 1;
        let from = self.keys.bound(&mut self.random, &self.model, self.drawn);
        (from, self.keys.bound(&mut self.random, &self.model, self.drawn))
    }

    fn read_range(&mut self) {
        let (from, to) = self.bounds();
        let expected: Vec<_> =
            in_range(&self.model, &from, &to).map(|(key, &value)| (key.clone(), value)).collect();
        assert_eq!(self.index.count(slice(&from), slice(&to)), expected.len());
        let found = walked(&self.index, RangeCursor::ascending(slice(&from), slice(&to)));
        assert!(found == expected, "{from:?} to {to:?}: {} for {}", found.len(), expected.len());
        let mut walk = self.index.walk(RangeCursor::ascending(slice(&from), slice(&to)));
        let steps = self.random.below(expected.len() as u64 + 2) as usize;
        (0..steps).for_each(|_| _ = walk.next_record());
        let rest = walked(&self.index, walk.cursor());
        assert!(rest == expected[steps.min(expected.len())..], "{from:?} to {to:?} after {steps}");
        let mut found = walked(&self.index, RangeCursor::descending(slice(&from), slice(&to)));
        found.reverse();
        assert!(found == expected, "down from {to:?} to {from:?}: {} for {}", found.len(), expected.len());
    }

    /// A copy is as good as the original, which goes.
    fn copy(&mut self) {
        let copy = self.index.clone();
        assert_eq!(check(&copy), check(&self.index));
        assert_eq!(copy.memory_bytes(), self.index.memory_bytes());
        self.index = copy;
    }

    fn split_and_append(&mut self) {
        let key = self.draw();
        let right = self.index.split_off(&key);
        let right_model = self.model.split_off(&key);
        check(&self.index);
        check(&right);
        assert!(walked(&self.index, everything()) == index_of(&self.model));
        assert!(walked(&right, everything()) == index_of(&right_model));
        // Both continue alone for a while, each on its side.
        let mut right = right;
        let mut right_model = right_model;
        for _ in 0..self.random.below(20) {
            let other = self.draw();
            let (index, model) =
                if other < key { (&mut self.index, &mut self.model) } else { (&mut right, &mut right_model) };
            index.insert(&other, Location(1)).expect("the key is not too long");
            model.insert(other, 1);
        }
        if !self.model.is_empty() && !right_model.is_empty() {
            let left = std::mem::take(&mut self.index);
            let refused = right.append(left).expect_err("its keys are below");
            self.index = refused.right;
        }
        self.index.append(right).expect("its keys are above");
        self.model.append(&mut right_model);
        check(&self.index);
    }

    fn remove_range(&mut self) {
        let (from, to) = self.bounds();
        let expected: Vec<_> =
            in_range(&self.model, &from, &to).map(|(key, &value)| (key.clone(), value)).collect();
        // A range of nearly everything would leave nothing to test.
        if expected.len() > 50 && !self.random.chance(1, 4) {
            return;
        }
        let removed = self.index.remove_range(slice(&from), slice(&to));
        check(&removed);
        assert!(walked(&removed, everything()) == expected);
        for (key, _) in expected {
            self.model.remove(&key);
        }
    }

    fn check(&self) -> IndexShape {
        let shape = check(&self.index);
        assert_eq!(self.index.len(), self.model.len());
        assert!(walked(&self.index, everything()) == index_of(&self.model));
        let ranks = [0, self.model.len() / 3, self.model.len() / 2, self.model.len()];
        for rank in ranks {
            assert_eq!(self.index.key_at(rank), self.model.keys().nth(rank).cloned());
        }
        shape
    }
}

#[test]
fn index_agrees_with_map_model_under_random_operations() {
    for (at, keys) in FAMILIES.into_iter().enumerate() {
        for seed in 0..3 {
            let mut world = World::new(keys, seed * 100 + at as u64);
            let mut most = 0;
            // It grows, shrinks to almost nothing, and grows again.
            for inserts in [8, 3, 1, 6] {
                for step in 0..2_500u32 {
                    match world.random.below(10) {
                        n if n < inserts => world.insert(),
                        9 => world.replace_and_get(),
                        _ => world.remove(),
                    }
                    most = most.max(world.model.len());
                    if step % 250 == 0 {
                        check(&world.index);
                        world.read_range();
                    }
                    if step % 500 == 499 {
                        world.copy();
                        world.split_and_append();
                        world.remove_range();
                    }
                }
                world.check();
            }
            assert!(most > 300, "{keys:?} {seed}: {most}");
        }
    }
}

/// Every step is checked, in trees that reshape often.
#[test]
fn invariants_are_kept_at_each_step() {
    for keys in FAMILIES {
        let mut world = World::new(keys, 77);
        for inserts in [9, 2] {
            for _ in 0..600 {
                if world.random.below(10) < inserts {
                    world.insert()
                } else {
                    world.remove()
                }
                check(&world.index);
            }
            world.check();
        }
    }
}

#[test]
fn index_of_three_levels_agrees_with_map_model() {
    let mut world = World::new(Keys::Random, 5);
    for _ in 0..120_000 {
        world.insert();
    }
    assert_eq!(world.check().height, 2);
    for _ in 0..20 {
        world.copy();
        world.split_and_append();
        world.remove_range();
        world.read_range();
    }
    world.check();
    let left = world.model.len();
    for _ in 0..left {
        world.remove();
    }
    assert!(world.model.len() < left / 2);
    world.check();
    while !world.model.is_empty() {
        let (key, _) = world.model.pop_first().expect("it is not empty");
        assert!(world.index.remove(&key).is_some());
    }
    check(&world.index);
    assert_eq!(world.index.memory_bytes(), 0);
}

#[test]
fn key_above_the_limit_is_refused() {
    let mut index = OrderedIndex::new();
    let key = vec![3; KEY_BYTES_MAX + 1];
    assert_eq!(index.insert(&key, Location(1)), Err(KeyTooLong { bytes: key.len() }));
    assert!(index.is_empty());
    assert_eq!(index.insert(&key[1..], Location(1)), Ok(None));
    assert_eq!(index.get(&key[1..]), Some(Location(1)));
    assert_eq!(index.get(&key), None);
    assert_eq!(index.remove(&key[1..]), Some(Location(1)));
}

#[test]
fn pages_return_what_exists_throughout_exactly_once() {
    for is_reverse in [false, true] {
        for seed in 0..10 {
            let mut world = World::new(Keys::Mixed, seed);
            (0..3_000).for_each(|_| world.insert());
            let stable: Vec<Vec<u8>> = world.model.keys().step_by(2).cloned().collect();
            let mut cursor = Some(match is_reverse {
                false => everything(),
                true => RangeCursor::descending(Bound::Unbounded, Bound::Unbounded),
            });
            let mut found: Vec<Vec<u8>> = Vec::new();
            while let Some(at) = cursor {
                let most = 1 + world.random.below(100) as usize;
                let before = found.len();
                cursor = world.index.page(at, most, |key, _| found.push(key.to_vec()));
                assert!(found.len() - before <= most);
                for _ in 0..20 {
                    let key = world.draw();
                    if stable.binary_search(&key).is_err() {
                        match world.random.below(2) {
                            0 => drop(world.index.insert(&key, Location(0))),
                            _ => drop(world.index.remove(&key)),
                        }
                    }
                    let other = world.existing();
                    if stable.binary_search(&other).is_err() {
                        world.index.remove(&other);
                        world.model.remove(&other);
                    }
                }
            }
            if is_reverse {
                found.reverse();
            }
            assert!(found.is_sorted_by(|a, b| a < b), "seed {seed}");
            let found: Vec<Vec<u8>> =
                found.into_iter().filter(|key| stable.binary_search(key).is_ok()).collect();
            assert!(found == stable, "seed {seed}: {} of {}", found.len(), stable.len());
        }
    }
}

#[test]
fn page_ends_at_the_end_and_after_the_bytes_of_a_scan() {
    let mut index = OrderedIndex::new();
    assert_eq!(index.page(everything(), 10, |_, _| panic!("it is empty")), None);
    for n in 0..10u8 {
        index.insert(&vec![n; 30 << 10], Location(u64::from(n))).expect("the key is not too long");
    }
    let mut visited = 0;
    let rest = index.page(everything(), 100, |_, _| visited += 1);
    assert_eq!(visited, SCAN_KEY_BYTES_MAX.div_ceil(30 << 10));
    let mut others = 0;
    assert_eq!(index.page(rest.expect("more follows"), 2, |_, _| others += 1).is_some(), others == 2);
    let mut all = 0;
    let from = vec![8; 30 << 10];
    assert_eq!(
        index.page(RangeCursor::ascending(Bound::Excluded(&from), Bound::Unbounded), 1, |_, _| all += 1),
        None
    );
    assert_eq!(all, 1);
}

#[test]
fn estimated_count_is_wrong_by_a_leaf_at_most() {
    let mut world = World::new(Keys::Random, 9);
    (0..50_000).for_each(|_| world.insert());
    let shape = check(&world.index);
    assert!(shape.leaves > 100);
    for _ in 0..200 {
        let (from, to) = world.bounds();
        let exact = world.index.count(slice(&from), slice(&to));
        let estimated = world.index.estimated_count(slice(&from), slice(&to));
        assert!(exact.abs_diff(estimated) <= 300, "{exact} {estimated}");
    }
    assert_eq!(world.index.estimated_count(Bound::Unbounded, Bound::Unbounded), world.model.len());
}

#[test]
fn split_leaves_the_same_memory_in_both_parts() {
    let mut world = World::new(Keys::Random, 11);
    (0..100_000).for_each(|_| world.insert());
    let before = check(&world.index);
    let median = world.index.median_key().expect("it has records");
    let right = world.index.split_off(&median);
    let (left, right) = (check(&world.index), check(&right));
    assert_eq!(world.index.len(), world.model.len() / 2);
    // Only the leaf of the key was divided.
    assert!((before.leaves..=before.leaves + 1).contains(&(left.leaves + right.leaves)));
    assert!((left.memory_bytes + right.memory_bytes).abs_diff(before.memory_bytes) < 16 << 10);
}

/// Bytes beside its key that a record costs, and the share of the memory of leaves that has content.
fn cost(length: usize, prefix: usize, is_random: bool) -> (f64, f64) {
    let mut random = Random::new(12);
    let mut index = OrderedIndex::new();
    let records = 100_000u64;
    for n in 0..records {
        let mut key = vec![b'p'; length];
        random.fill(&mut key[prefix..]);
        if !is_random {
            key[prefix..prefix + 4].copy_from_slice(&(n as u32).to_be_bytes());
        }
        index.insert(&key, Location(n)).expect("the key is not too long");
    }
    let shape = check(&index);
    let over = shape.memory_bytes as f64 / index.len() as f64 - length as f64;
    (over, shape.leaf_bytes_used as f64 / shape.leaf_bytes as f64)
}

#[test]
fn record_costs_at_most_40_bytes_over_its_key_after_random_load() {
    for (length, prefix) in [(16, 0), (16, 8), (32, 0), (32, 20), (64, 0), (64, 40)] {
        let (over, fill) = cost(length, prefix, true);
        assert!(over <= if (length, prefix) == (64, 0) { 45.0 } else { 40.0 }, "{length}, {prefix}: {over}");
        assert!(fill >= 0.7, "{length}, {prefix}: {fill}");
        let (over, fill) = cost(length, prefix, false);
        assert!(over <= 20.0 && fill >= 0.95, "in order, {length}, {prefix}: {over}, {fill}");
    }
}

/// The fences of leaves are short where they can be.
#[test]
fn separators_are_short() {
    for keys in [Keys::Random, Keys::Users, Keys::Mixed] {
        let mut world = World::new(keys, 13);
        (0..20_000).for_each(|_| world.insert());
        let mut longest = 0;
        check::each_separator(&world.index, |separator| longest = longest.max(separator.len()));
        assert!(
            (1..=SEPARATOR_BYTES_MAX).contains(&longest) || matches!(keys, Keys::Mixed),
            "{keys:?}: {longest}"
        );
    }
}

/// Groups of eight keys that are equal for 34 bytes: a leaf splits between two groups.
#[test]
fn leaf_splits_where_a_short_separator_divides_it() {
    let mut random = Random::new(14);
    let mut keys: Vec<String> =
        (0..4_000).map(|n| format!("g{:03}/what all keys of a group share/{n}", n % 500)).collect();
    for at in (1..keys.len()).rev() {
        keys.swap(at, random.below(at as u64 + 1) as usize);
    }
    let mut index = OrderedIndex::new();
    for key in keys {
        index.insert(key.as_bytes(), Location(1)).expect("the key is not too long");
    }
    let mut lengths = Vec::new();
    check::each_separator(&index, |separator| lengths.push(separator.len()));
    assert!(lengths.len() > 30 && lengths.iter().all(|&length| length <= 4), "{lengths:?}");
}

/// Separators with a common prefix that is longer than a node would be without it.
#[test]
fn separator_without_the_prefix_of_the_others_splits_their_node() {
    let mut world = World::new(Keys::SharedStart, 15);
    (0..20_000).for_each(|_| world.insert());
    assert_eq!(world.check().height, 1);
    for first in [0xfe, 0xff] {
        for n in 0..2_000u32 {
            let mut key = vec![first; 310];
            key.extend(n.to_be_bytes());
            let previous = world.index.insert(&key, Location(1)).expect("the key is not too long");
            assert_eq!(previous.map(|l| l.0), world.model.insert(key, 1));
        }
        assert_eq!(world.check().height, 2);
    }
}

#[test]
fn appended_leaves_split_the_nodes_at_both_edges() {
    const RECORDS: u64 = 130;
    let leaf = |number: u64| {
        let mut index = OrderedIndex::new();
        for n in number * RECORDS..(number + 1) * RECORDS {
            index.insert(&[&n.to_be_bytes()[..], b"12345678"].concat(), Location(n)).expect("short");
        }
        index
    };
    let mut all = leaf(1_000);
    for step in 1..=700 {
        all.append(leaf(1_000 + step)).expect("its keys are above");
        let behind = std::mem::replace(&mut all, leaf(1_000 - step));
        all.append(behind).expect("its keys are above");
        if step % 50 == 0 {
            check(&all);
        }
        assert_eq!(all.len() as u64, (2 * step + 1) * RECORDS);
    }
    assert_eq!(check(&all).height, 2);
    let numbers: Vec<u64> = walked(&all, everything()).into_iter().map(|(_, number)| number).collect();
    assert!(numbers.into_iter().eq(300 * RECORDS..1_701 * RECORDS));
}
