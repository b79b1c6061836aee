//! The hash index: the location of the newest version of each key, without the keys.
//!
//! ```text
//!   fragment (32 bits of the key's hash)
//!     leading bits ──> directory ──> page ──> line (64 B) ──> slot: fragment, location
//! ```
//!
//! Extendible hashing over small pages: a page that fills grows, then splits into two by its next bit, so no insert ever
//! waits for more than one page to be rebuilt. Fragments are stored complete, so neither step needs a key. Two keys may
//! share a fragment: a lookup reads the log to tell them apart (`accept`).
//!
//! Memory: 12 bytes of fragment and location a slot, 12.8 with the line's mask. Pages are built for a load between
//! [`LOAD_AFTER_GROWTH`] and [`LOAD_MAX`], which makes 15 to 19 bytes an entry, directory included.

use std::convert::Infallible;

pub mod by_key;
pub mod contract;
pub mod cursor;
pub mod key_order;
pub mod location;
pub mod ordered;
mod page;
pub(crate) mod partition_index;

use location::Location;
use page::{Page, SLOTS, SlotPosition};

/// Lines of a page at most: 16 KiB, about 1,100 entries, rebuilt in some ten microseconds.
const PAGE_LINES_MAX: usize = 256;
/// A page grows or splits when more than this share of its slots is used, in percent.
pub const LOAD_MAX: usize = 86;
/// The share used after it has grown, in percent.
pub const LOAD_AFTER_GROWTH: usize = 68;
/// Fragments have 32 bits, of which a page needs some for its lines: 2^24 pages are 18 billion entries.
const DEPTH_MAX: u8 = 24;
/// Directory slots a page at most before it doubles again; evenly spread fragments need about two.
const DIRECTORY_PER_PAGE_MAX: usize = 8;

/// A slot found by [`HashIndex::find`]; valid until the index next changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexSlot {
    page: u32,
    at: SlotPosition,
}

impl IndexSlot {
    /// What an index returns that finds entries by their keys again.
    const OF_KEY: IndexSlot = IndexSlot { page: 0, at: SlotPosition::FIRST };
}

/// The index of one partition.
// Hot fields first.
#[derive(Clone)]
#[repr(C)]
pub struct HashIndex {
    directory: Vec<u32>,
    pages: Vec<Page>,
    entries: usize,
    depth: u8,
    page_bytes: usize,
    changes: u64,
}

impl Default for HashIndex {
    fn default() -> Self {
        HashIndex::new()
    }
}

impl HashIndex {
    /// An empty index. It allocates nothing until the first insert.
    pub fn new() -> HashIndex {
        HashIndex {
            directory: Vec::new(),
            depth: 0,
            pages: Vec::new(),
            entries: 0,
            page_bytes: 0,
            changes: 0,
        }
    }

    /// An empty index sized for so many entries. In whatever order they are inserted, hardly a page must be rebuilt. If they
    /// were inserted into a plain index in the order of their fragments, all inserts would go to the same few pages.
    pub fn for_entries(entries: usize) -> HashIndex {
        let mut index = HashIndex::new();
        if entries == 0 {
            return index;
        }
        let pages = entries.div_ceil(PAGE_LINES_MAX * SLOTS * LOAD_AFTER_GROWTH / 100).next_power_of_two();
        index.depth = (pages.ilog2() as u8).min(DEPTH_MAX);
        let pages = 1usize << index.depth;
        let lines = lines_for(entries / pages).min(PAGE_LINES_MAX);
        for _ in 0..pages {
            let page = index.add_page(Page::new(index.depth, lines));
            index.directory.push(page);
        }
        index
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.entries
    }

    /// Whether it has no entries.
    pub fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// Memory that it uses, in bytes.
    pub fn bytes(&self) -> usize {
        self.page_bytes
            + self.directory.capacity() * size_of::<u32>()
            + self.pages.capacity() * size_of::<Page>()
    }

    /// Finds the entry with this fragment whose location `accept` accepts (it reads the key there).
    ///
    /// # Errors
    /// Errors of `accept`.
    pub fn find<E>(
        &self,
        fragment: u32,
        accept: impl FnMut(Location) -> Result<bool, E>,
    ) -> Result<Option<(IndexSlot, Location)>, E> {
        let Some(page) = self.page_of(fragment) else { return Ok(None) };
        let found = self.pages[page as usize].find(fragment, accept)?;
        Ok(found.map(|(at, location)| (IndexSlot { page, at }, location)))
    }

    /// Finds the entry with this fragment at exactly this location.
    pub fn find_slot(&self, fragment: u32, location: Location) -> Option<(IndexSlot, Location)> {
        self.find(fragment, |l| Ok::<_, Infallible>(l.is_same_entry(location)))
            .unwrap_or_else(|never| match never {})
    }

    /// Prefetches the line of a fragment into the cache. Several prefetches in a row run in parallel, whereas lookups one
    /// after the other wait for each line.
    pub fn touch(&self, fragment: u32) {
        if let Some(page) = self.page_of(fragment) {
            std::hint::black_box(self.pages[page as usize].touch(fragment));
        }
    }

    /// Number of changes: as long as it stays the same, found slots stay valid.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Adds an entry; the caller has made sure that its key is not in the index.
    pub fn insert(&mut self, fragment: u32, location: Location) {
        self.changes += 1;
        if self.directory.is_empty() {
            self.directory.push(0);
            self.add_page(Page::new(0, 1));
        }
        let mut page = self.directory[self.slot_of(fragment)];
        while self.pages[page as usize].used() * 100 >= self.pages[page as usize].slots() * LOAD_MAX {
            self.grow_page(fragment, page);
            page = self.directory[self.slot_of(fragment)];
        }
        self.pages[page as usize].insert(fragment, location);
        self.entries += 1;
    }

    /// Changes the location of a found entry.
    pub fn replace(&mut self, found: IndexSlot, location: Location) {
        self.changes += 1;
        self.pages[found.page as usize].replace(found.at, location);
    }

    /// Removes a found entry.
    pub fn remove(&mut self, found: IndexSlot) {
        self.changes += 1;
        self.pages[found.page as usize].remove(found.at);
        self.entries -= 1;
    }

    /// The entries of the page that holds `from`, and the first fragment behind it (`None` at the end). An iteration from 0
    /// returns every entry that exists throughout, whatever is inserted or split meanwhile.
    pub fn page_entries(&self, from: u32) -> (impl Iterator<Item = (u32, Location)>, Option<u32>) {
        let page = self.page_of(from).map(|p| &self.pages[p as usize]);
        let next = page.and_then(|p| {
            let span = 1u64 << (32 - u32::from(p.depth));
            u32::try_from((u64::from(from) / span + 1) * span).ok()
        });
        (page.into_iter().flat_map(Page::entries), next)
    }

    fn page_of(&self, fragment: u32) -> Option<u32> {
        self.directory.get(self.slot_of(fragment)).copied()
    }

    fn slot_of(&self, fragment: u32) -> usize {
        (u64::from(fragment) >> (32 - u32::from(self.depth))) as usize
    }

    fn add_page(&mut self, page: Page) -> u32 {
        self.page_bytes += page.bytes();
        self.pages.push(page);
        (self.pages.len() - 1) as u32
    }

    /// Grows the page that holds `fragment`, or splits it once it is of full size. Entries that all share their leading bits
    /// cannot be split apart: their page continues to grow.
    fn grow_page(&mut self, fragment: u32, id: u32) {
        let page = &self.pages[id as usize];
        if page.lines() < PAGE_LINES_MAX {
            let lines = lines_for(page.used()).max(page.lines() + 1).min(PAGE_LINES_MAX);
            self.rebuild_page(id, lines);
        } else if page.depth < self.depth || self.may_double() {
            self.split(fragment, id);
        } else {
            self.rebuild_page(id, page.lines() + page.lines() / 4);
        }
    }

    /// The directory stays in proportion to the pages, however unevenly fragments are distributed.
    fn may_double(&self) -> bool {
        self.depth < DEPTH_MAX && self.directory.len() <= DIRECTORY_PER_PAGE_MAX * self.pages.len()
    }

    fn rebuild_page(&mut self, id: u32, lines: usize) {
        let page = &self.pages[id as usize];
        let again = build_page(page.depth, lines, page.entries());
        self.page_bytes = self.page_bytes + again.bytes() - page.bytes();
        self.pages[id as usize] = again;
    }

    fn split(&mut self, fragment: u32, id: u32) {
        let old = &self.pages[id as usize];
        let depth = old.depth + 1;
        let is_upper = |f: u32| f >> (32 - u32::from(depth)) & 1 == 1;
        let upper_used = old.entries().filter(|&(f, _)| is_upper(f)).count();
        let lower_used = old.used() - upper_used;
        // If all entries went to one side, that page is as full as before and splits again. It may be larger than usual if
        // it had to grow while the directory could not: it never has fewer lines than its entries need.
        let lower_lines = lines_for(lower_used).min(old.lines());
        let upper_lines = lines_for(upper_used).min(old.lines());
        let lower = build_page(depth, lower_lines, old.entries().filter(|&(f, _)| !is_upper(f)));
        let upper = build_page(depth, upper_lines, old.entries().filter(|&(f, _)| is_upper(f)));
        self.page_bytes = self.page_bytes + lower.bytes() - old.bytes();
        self.pages[id as usize] = lower;
        let upper = self.add_page(upper);
        if depth > self.depth {
            self.directory = self.directory.iter().flat_map(|&p| [p, p]).collect();
            self.depth = depth;
        }
        // The directory slots of one page are neighbours: the upper half of them now points to the new page.
        let slots = 1usize << (self.depth - depth);
        let first = self.slot_of(fragment) & !(2 * slots - 1);
        debug_assert!(self.directory[first..first + 2 * slots].iter().all(|&p| p == id));
        self.directory[first + slots..first + 2 * slots].fill(upper);
    }
}

/// Lines for so many entries at the load that pages have after growth.
fn lines_for(entries: usize) -> usize {
    (entries * 100).div_ceil(LOAD_AFTER_GROWTH * SLOTS).max(1)
}

fn build_page(depth: u8, lines: usize, entries: impl Iterator<Item = (u32, Location)>) -> Page {
    let mut page = Page::new(depth, lines);
    for (fragment, location) in entries {
        page.insert(fragment, location);
    }
    #[cfg(test)]
    tests::MOVED.set(tests::MOVED.get() + page.used());
    page
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::collections::BTreeMap;

    use super::*;
    use zerohop_base::random::Random;

    thread_local! {
        /// Entries that were moved by rebuilds, by all inserts of this thread.
        pub(super) static MOVED: Cell<usize> = const { Cell::new(0) };
    }

    fn at(n: u64) -> Location {
        Location(n)
    }

    fn get(index: &HashIndex, fragment: u32, n: u64) -> bool {
        index.find_slot(fragment, at(n)).is_some()
    }

    #[test]
    fn index_agrees_with_map_model_under_random_operations() {
        for seed in 0..20 {
            let mut random = Random::new(seed);
            let mut index = HashIndex::new();
            let mut model: BTreeMap<u64, u32> = BTreeMap::new();
            // Some seeds draw from few leading bits, so that pages split unevenly, some repeat complete fragments.
            let mask = [u32::MAX, 0xFFFF, 0xFFFF_0000, 0x3FF][seed as usize % 4];
            for n in 0..20_000u64 {
                match random.below(4) {
                    0 if !model.is_empty() => {
                        let (&n, &fragment) = model
                            .range(random.below(n)..)
                            .next()
                            .unwrap_or_else(|| model.iter().next().expect("not empty"));
                        let (found, _) =
                            index.find_slot(fragment, at(n)).expect("what was inserted is found");
                        index.remove(found);
                        model.remove(&n);
                    }
                    _ => {
                        let fragment = random.next_u64() as u32 & mask;
                        index.insert(fragment, at(n));
                        model.insert(n, fragment);
                    }
                }
            }
            assert_eq!(index.len(), model.len());
            assert!(model.iter().all(|(&n, &fragment)| get(&index, fragment, n)));
            assert!((20_000..20_100).all(|n| !get(&index, n as u32, n)));
            let mut walked: Vec<u64> = Vec::new();
            let mut from = Some(0);
            while let Some(fragment) = from {
                let (entries, next) = index.page_entries(fragment);
                walked.extend(entries.map(|(_, l)| l.0));
                from = next;
            }
            walked.sort_unstable();
            assert_eq!(walked, model.keys().copied().collect::<Vec<_>>());
        }
    }

    /// The order of inserts in recovery: the entries of a checkpoint in order, then those of the log behind it in no order.
    #[test]
    fn index_accepts_entries_in_order_of_their_fragments() {
        let mut random = Random::new(3);
        for mut index in [HashIndex::new(), HashIndex::for_entries(2_000_000)] {
            let fragments: Vec<u32> = (0..2_000_000u32)
                .map(|n| n * (u32::MAX / 2_000_000))
                .chain((0..200_000).map(|_| random.next_u64() as u32))
                .collect();
            (0u64..).zip(&fragments).for_each(|(n, &fragment)| index.insert(fragment, at(n)));
            assert!((0u64..).zip(&fragments).all(|(n, &fragment)| get(&index, fragment, n)));
        }
    }

    #[test]
    fn presized_index_uses_at_most_24_bytes_per_entry() {
        let mut random = Random::new(2);
        for entries in [1_000usize, 10_000, 100_000, 111_411, 111_412, 600_000] {
            let mut index = HashIndex::for_entries(entries);
            (0..entries).for_each(|n| index.insert(random.next_u64() as u32, at(n as u64)));
            let bytes = index.bytes() as f64 / entries as f64;
            assert!(bytes <= 24.0, "{entries}: {bytes}");
        }
    }

    #[test]
    fn an_entry_costs_at_most_24_bytes_at_every_size_from_ten_thousand_on() {
        let mut random = Random::new(1);
        let mut index = HashIndex::new();
        let mut worst: f64 = 0.0;
        for n in 0..600_000u64 {
            index.insert(random.next_u64() as u32, at(n));
            if n > 10_000 && n % 1_000 == 0 {
                worst = worst.max(index.bytes() as f64 / n as f64);
            }
        }
        assert!(worst <= 24.0, "{worst}");
    }

    /// Growth without a stall: a page is rebuilt in some ten microseconds, and structures that grow with the index (its
    /// directory, the list of its pages) are some bytes for a thousand entries.
    #[test]
    fn no_insert_moves_more_than_the_entries_of_a_page() {
        let mut random = Random::new(4);
        let orders: [fn(u64, &mut Random) -> u32; 3] = [
            |_, random| random.next_u64() as u32,
            |n, _| (n as u32).wrapping_mul(0x9E37_79B9),
            |n, _| (n as u32).reverse_bits(),
        ];
        for order in orders {
            let (mut index, mut most, mut all) = (HashIndex::new(), 0, 0);
            for n in 0..1_000_000 {
                MOVED.set(0);
                index.insert(order(n, &mut random), at(n));
                most = most.max(MOVED.get());
                all += MOVED.get();
            }
            assert!(most <= PAGE_LINES_MAX * SLOTS, "{most}");
            assert!(all < 8 * index.len(), "{all} moved for {} entries", index.len());
            assert!(index.directory.len() <= 2 * DIRECTORY_PER_PAGE_MAX * index.pages.len());
            assert!(index.pages.len() <= index.len() / 400, "{} pages", index.pages.len());
        }
    }

    #[test]
    fn empty_index_allocates_nothing_and_one_entry_little() {
        let mut index = HashIndex::new();
        assert_eq!(index.bytes(), 0);
        index.insert(7, at(1));
        assert!(index.bytes() < 256, "{}", index.bytes());
    }
}
