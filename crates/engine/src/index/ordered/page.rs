//! A page of the tree: sorted keys, without the prefix that all of them share, in one buffer.
//!
//! ```text
//!   prefix │ heads: 4 B each │ ends: 2 B each │ values: 8 B each (leaves) │ heap: keys behind the prefix, in order │ free space
//! ```
//!
//! A *head* is the first four bytes of a key behind the prefix, padded with zeros, as a number: heads compare as the keys do,
//! unless they are equal. An *end* is where the key ends in the heap. A key above [`INLINE_KEY_BYTES_MAX`] is an *overflow
//! entry*: a box has the whole key, the heap nothing, and its end is marked.
//!
//! Buffers grow by an eighth and have no fixed size, so a page that was just split costs half of the memory.

use std::cmp::Ordering;
use std::ops::Range;

use super::key::{HEAD, KeyParts, common, compare, head_of, heads_below, starts_with};
use super::{INNER_BYTES_MAX, LEAF_BYTES_MAX, SEPARATOR_BYTES_MAX};

/// Longer keys are overflow entries.
pub(super) const INLINE_KEY_BYTES_MAX: usize = 1 << 10;
/// The prefix stands in each page, so its length has the same bound.
const PREFIX_BYTES_MAX: usize = INLINE_KEY_BYTES_MAX;
const END: usize = size_of::<u16>();
/// Marks the end of an overflow entry.
const LONG: u16 = 1 << 15;
/// The stride of keys of several lengths, or with an overflow entry among them.
const VARIED: u16 = u16::MAX;
/// Buffers are multiples of this, so that a freed one fits the next page.
const GRANULE: usize = 64;

/// Sorted keys, each with a value of `VALUE` bytes: 8 in a leaf, none in an inner node.
#[derive(Clone)]
pub(super) struct SortedPage<const VALUE: usize> {
    bytes: Box<[u8]>,
    count: u16,
    /// Entries that the arrays have space for.
    slots: u16,
    prefix: u16,
    /// The length of each key behind the prefix if they are all of one; `VARIED` otherwise.
    stride: u16,
    long: Option<Box<LongKeys>>,
}

/// The keys of the overflow entries, in order.
#[derive(Default)]
struct LongKeys {
    keys: Vec<Box<[u8]>>,
    bytes: usize,
}

impl Clone for LongKeys {
    /// The capacity is the same too: inner nodes have counted it.
    fn clone(&self) -> LongKeys {
        let mut keys = Vec::with_capacity(self.keys.capacity());
        keys.extend(self.keys.iter().cloned());
        LongKeys { keys, bytes: self.bytes }
    }
}

/// PageSpace that a page gets beside its entries.
#[derive(Clone, Copy)]
pub(super) struct PageSpace {
    /// An entry that will be inserted next.
    pub(super) entries: usize,
    /// Its bytes in the heap.
    pub(super) heap: usize,
    /// Whether there is space for others.
    pub(super) growth: bool,
    /// The whole buffer has at least so many bytes.
    pub(super) total: usize,
}

impl PageSpace {
    pub(super) const NONE: PageSpace = PageSpace { entries: 0, heap: 0, growth: false, total: 0 };
    pub(super) const GROWTH: PageSpace = PageSpace { entries: 0, heap: 0, growth: true, total: 0 };
}

/// Entries of a page that become a part of another one.
pub(super) struct Run<'a, const VALUE: usize> {
    pub(super) page: &'a mut SortedPage<VALUE>,
    pub(super) range: Range<usize>,
}

impl<const VALUE: usize> SortedPage<VALUE> {
    /// Bytes of an entry beside its key.
    const SLOT: usize = HEAD + END + VALUE;
    const BYTES_MAX: usize = if VALUE == 0 { INNER_BYTES_MAX } else { LEAF_BYTES_MAX };

    pub(super) fn new() -> Self {
        SortedPage { bytes: Box::default(), count: 0, slots: 0, prefix: 0, stride: 0, long: None }
    }

    pub(super) fn count(&self) -> usize {
        self.count as usize
    }

    /// Bytes that the content needs in a buffer.
    pub(super) fn size(&self) -> usize {
        self.prefix as usize + Self::SLOT * self.count() + self.used()
    }

    /// Memory that it uses outside itself.
    pub(super) fn memory(&self) -> usize {
        let of_long = |long: &LongKeys| {
            size_of::<LongKeys>() + long.keys.capacity() * size_of::<Box<[u8]>>() + long.bytes
        };
        self.bytes.len() + self.long.as_deref().map_or(0, of_long)
    }

    /// What of its memory has content.
    pub(super) fn used_memory(&self) -> usize {
        self.memory() - self.bytes.len() + self.size()
    }

    /// Checks what a search does not show.
    pub(super) fn check_layout(&self) -> Result<(), String> {
        let marked = self.long_before(self.count());
        let bytes: usize = self.long_keys().iter().map(|key| key.len()).sum();
        let sorted = (0..self.count()).all(|at| self.start(at) <= self.end(at));
        let heads = (0..self.count()).all(|at| self.heads()[at] == head_of(self.suffix(at)).to_le_bytes());
        let is_large =
            (0..self.count()).any(|at| self.is_long(at) != (self.key(at).len() > INLINE_KEY_BYTES_MAX));
        let faults = [
            (self.count > self.slots, "more entries than slots"),
            (self.heap_at() + self.used() > self.bytes.len(), "a heap beyond the buffer"),
            (!sorted, "ends that do not follow each other"),
            (!heads, "a head of another key"),
            (is_large, "a key on the wrong side of the bound of overflow entries"),
            (marked != self.long_keys().len(), "another number of boxes than of marks"),
            (self.long.as_ref().map_or(0, |long| long.bytes) != bytes, "a wrong length of all boxes"),
        ];
        match faults.iter().find(|(is_fault, _)| *is_fault) {
            Some((_, fault)) => Err(format!("a page has {fault}")),
            None => Ok(()),
        }
    }

    pub(super) fn prefix(&self) -> &[u8] {
        &self.bytes[..self.prefix as usize]
    }

    /// The key at `at`, behind the prefix.
    #[inline]
    pub(super) fn suffix(&self, at: usize) -> &[u8] {
        if self.is_long(at) {
            let key = &self.long_keys()[self.long_before(at)];
            return &key[self.prefix as usize..];
        }
        let heap = self.heap_at();
        &self.bytes[heap + self.start(at)..heap + self.end(at)]
    }

    pub(super) fn key(&self, at: usize) -> KeyParts<'_> {
        KeyParts { prefix: self.prefix(), suffix: self.suffix(at) }
    }

    /// Finds a key, or the place where it would be inserted.
    #[inline]
    pub(super) fn search(&self, key: &[u8]) -> Result<usize, usize> {
        let prefix = self.prefix();
        if !starts_with(key, prefix) {
            return Err(if key < prefix { 0 } else { self.count() });
        }
        let suffix = &key[prefix.len()..];
        let (head, heads) = (head_of(suffix), self.heads());
        let low = heads_below(heads, head);
        if heads.get(low).is_none_or(|&h| u32::from_le_bytes(h) != head) {
            return Err(low);
        }
        if heads.get(low + 1).is_none_or(|&h| u32::from_le_bytes(h) != head) {
            return match compare(suffix, self.suffix(low)) {
                Ordering::Equal => Ok(low),
                Ordering::Less => Err(low),
                Ordering::Greater => Err(low + 1),
            };
        }
        self.search_run(low, head, suffix)
    }

    /// Several heads are equal: only complete keys tell them apart.
    fn search_run(&self, low: usize, head: u32, suffix: &[u8]) -> Result<usize, usize> {
        let run = self.heads()[low..].partition_point(|&h| u32::from_le_bytes(h) == head);
        let (mut low, mut high) = (low, low + run);
        while low < high {
            let middle = low + (high - low) / 2;
            match compare(self.suffix(middle), suffix) {
                Ordering::Equal => return Ok(middle),
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
            }
        }
        Err(low)
    }

    /// The number of keys at or below `key`.
    #[inline]
    pub(super) fn upper(&self, key: &[u8]) -> usize {
        self.search(key).map_or_else(|at| at, |at| at + 1)
    }

    /// Whether `key` lacks a part of the prefix. It is then below or above all keys.
    pub(super) fn breaks_prefix(&self, key: &[u8]) -> bool {
        !starts_with(key, self.prefix())
    }

    /// Whether the buffer has space for `key`.
    #[inline]
    pub(super) fn has_room(&self, key: &[u8]) -> bool {
        self.count < self.slots
            && !self.breaks_prefix(key)
            && self.bytes.len() - self.heap_at() - self.used() >= heap_bytes(key, self.prefix as usize)
    }

    /// The size once `key` is inserted.
    pub(super) fn size_with(&self, key: &[u8]) -> usize {
        let prefix =
            if self.count == 0 { key.len().min(PREFIX_BYTES_MAX) } else { common(self.prefix(), key) };
        self.size_of_heap(0..self.count(), prefix)
            + heap_bytes(key, prefix)
            + prefix
            + Self::SLOT * (self.count() + 1)
    }

    /// A page of one key, with a buffer for as many as fit: others will follow in order.
    pub(super) fn for_many(key: &[u8], value: [u8; VALUE]) -> Self {
        let mut page = Self::new();
        page.insert_at(0, key, value);
        page.rebuild(page.common_prefix(), PageSpace { total: Self::BYTES_MAX, ..PageSpace::GROWTH });
        page
    }

    /// Inserts a key that is not there, at the place that `search` returned.
    pub(super) fn insert_at(&mut self, at: usize, key: &[u8], value: [u8; VALUE]) {
        if self.count == 0 {
            self.start_with(key);
        }
        if !self.has_room(key) {
            let prefix = self.common_prefix().min(common(self.prefix(), key));
            let bytes = heap_bytes(key, prefix);
            self.rebuild(
                prefix,
                PageSpace { entries: 1, heap: bytes, growth: true, total: self.bytes.len() },
            );
        }
        let (prefix, count) = (self.prefix as usize, self.count());
        let (ends, values, heap) = (self.ends_at(), self.values_at(), self.heap_at());
        let (start, used) = (self.start(at), self.used());
        let is_long = key.len() > INLINE_KEY_BYTES_MAX;
        let inline = if is_long { &[] } else { &key[prefix..] };
        if is_long {
            let ordinal = self.long_before(at);
            let long = self.long.get_or_insert_default();
            long.keys.insert(ordinal, key.into());
            long.bytes += key.len();
        }
        self.add_stride(if is_long { VARIED } else { inline.len() as u16 });
        let bytes = &mut self.bytes[..];
        insert_into(bytes, prefix, count, at, head_of(&key[prefix..]).to_le_bytes());
        if self.stride == VARIED {
            let end = (start + inline.len()) as u16 | if is_long { LONG } else { 0 };
            insert_into(bytes, ends, count, at, end.to_le_bytes());
            let later = &mut bytes[ends + END * (at + 1)..ends + END * (count + 1)];
            for end in later.as_chunks_mut::<END>().0 {
                *end = u16::from_le_bytes(*end).wrapping_add(inline.len() as u16).to_le_bytes();
            }
        }
        insert_into(bytes, values, count, at, value);
        bytes.copy_within(heap + start..heap + used, heap + start + inline.len());
        bytes[heap + start..heap + start + inline.len()].copy_from_slice(inline);
        self.count += 1;
    }

    /// Removes the entry at `at`.
    pub(super) fn remove_at(&mut self, at: usize) {
        if self.is_long(at) {
            let ordinal = self.long_before(at);
            let long = self.long.as_deref_mut().expect("a marked entry has its box");
            long.bytes -= long.keys.remove(ordinal).len();
            if long.keys.is_empty() {
                self.long = None;
            }
        }
        let (count, start, used) = (self.count(), self.start(at), self.used());
        let length = self.end(at) - start;
        let (heads, ends, values, heap) =
            (self.prefix as usize, self.ends_at(), self.values_at(), self.heap_at());
        let bytes = &mut self.bytes[..];
        for (base, width) in [(heads, HEAD), (values, VALUE)] {
            bytes.copy_within(base + width * (at + 1)..base + width * count, base + width * at);
        }
        if self.stride == VARIED {
            bytes.copy_within(ends + END * (at + 1)..ends + END * count, ends + END * at);
            for end in bytes[ends + END * at..ends + END * (count - 1)].as_chunks_mut::<END>().0 {
                *end = u16::from_le_bytes(*end).wrapping_sub(length as u16).to_le_bytes();
            }
        }
        bytes.copy_within(heap + start + length..heap + used, heap + start);
        self.count -= 1;
        if self.bytes.len() > self.size() * 4 / 3 + 2 * GRANULE {
            self.rebuild(self.common_prefix(), PageSpace::GROWTH);
        }
    }

    /// Removes the space that the buffer has for growth.
    pub(super) fn trim(&mut self) {
        self.rebuild(self.common_prefix(), PageSpace::NONE);
    }

    /// The page in two, the second beginning at `at`.
    pub(super) fn split_at(mut self, at: usize) -> (Self, Self) {
        let count = self.count();
        let left = Self::assemble(&mut [Run { page: &mut self, range: 0..at }], PageSpace::GROWTH);
        let right = Self::assemble(&mut [Run { page: &mut self, range: at..count }], PageSpace::GROWTH);
        (left, right)
    }

    /// Two neighbours in one page.
    pub(super) fn join(mut self, mut right: Self) -> Self {
        let (left_count, right_count) = (self.count(), right.count());
        let left = Run { page: &mut self, range: 0..left_count };
        Self::assemble(&mut [left, Run { page: &mut right, range: 0..right_count }], PageSpace::GROWTH)
    }

    /// The size of two neighbours in one page.
    pub(super) fn joined_size(&self, right: &Self) -> usize {
        if self.count == 0 || right.count == 0 {
            return self.size() + right.size();
        }
        let prefix = self.key(0).common(right.key(right.count() - 1)).min(PREFIX_BYTES_MAX);
        let heaps = self.size_of_heap(0..self.count(), prefix) + right.size_of_heap(0..right.count(), prefix);
        prefix + Self::SLOT * (self.count() + right.count()) + heaps
    }

    /// Where to split the page: near the middle of its bytes, where the shortest key divides.
    pub(super) fn cut(&self) -> usize {
        let count = self.count();
        debug_assert!(count >= 2);
        let half = (Self::SLOT * count + self.used()) / 2;
        let (mut low, mut high) = (1, count - 1);
        while low < high {
            let middle = low + (high - low) / 2;
            if Self::SLOT * middle + self.start(middle) < half { low = middle + 1 } else { high = middle }
        }
        let shortest = |reach: usize| {
            let near = low.saturating_sub(reach).max(1)..(low + reach + 1).min(count);
            let length = |&at: &usize| common(self.suffix(at - 1), self.suffix(at));
            near.min_by_key(|at| (length(at), at.abs_diff(low))).map(|at| (at, length(&at)))
        };
        let near = shortest(count / 8);
        let is_long = |&(_, length): &(usize, usize)| self.prefix as usize + length >= SEPARATOR_BYTES_MAX;
        near.filter(|found| !is_long(found)).or_else(|| shortest(count / 4)).map_or(low, |(at, _)| at)
    }

    /// One page of the entries of all runs, whose pages lose them.
    fn assemble(runs: &mut [Run<'_, VALUE>], space: PageSpace) -> Self {
        let filled: Vec<usize> = (0..runs.len()).filter(|&at| !runs[at].range.is_empty()).collect();
        let prefix = match (filled.first(), filled.last()) {
            (Some(&first), Some(&last)) => {
                let first = runs[first].page.key(runs[first].range.start);
                let last = runs[last].page.key(runs[last].range.end - 1);
                first.common(last).min(PREFIX_BYTES_MAX)
            }
            _ => return SortedPage::new(),
        };
        Self::assemble_with(runs, prefix, space)
    }

    fn assemble_with(runs: &mut [Run<'_, VALUE>], prefix: usize, space: PageSpace) -> Self {
        let heap = |run: &Run<'_, VALUE>| run.page.size_of_heap(run.range.clone(), prefix);
        let heap = runs.iter().map(heap).sum::<usize>() + space.heap;
        let count = runs.iter().map(|run| run.range.len()).sum::<usize>() + space.entries;
        let exact = prefix + Self::SLOT * count + heap;
        let mut slots = count;
        let mut total = exact;
        if space.growth {
            let spare = (exact / 8).min(Self::BYTES_MAX.saturating_sub(exact));
            total = (exact + spare).next_multiple_of(GRANULE).max(space.total);
            slots += (total - exact) / (exact / count.max(1)).max(Self::SLOT);
        }
        let mut page = SortedPage {
            bytes: vec![0; total].into_boxed_slice(),
            slots: slots as u16,
            prefix: prefix as u16,
            ..SortedPage::new()
        };
        if let Some(run) = runs.iter().find(|run| !run.range.is_empty()) {
            page.bytes[..prefix].copy_from_slice(&run.page.key(run.range.start).head(prefix));
        }
        for Run { page: from, range } in runs {
            page.append(from, range.clone());
        }
        page
    }

    /// Appends entries of another page, which loses its boxes.
    fn append(&mut self, from: &mut Self, range: Range<usize>) {
        if range.is_empty() {
            return;
        }
        let (first, count) = (self.count(), range.len());
        let (to, source) = (self.values_at() + VALUE * first, from.values_at() + VALUE * range.start);
        self.bytes[to..to + VALUE * count].copy_from_slice(&from.bytes[source..source + VALUE * count]);
        if self.prefix != from.prefix || from.long.is_some() {
            return range.for_each(|at| self.append_key(from, at));
        }
        let (to, source) = (self.prefix as usize + HEAD * first, from.prefix as usize + HEAD * range.start);
        self.bytes[to..to + HEAD * count].copy_from_slice(&from.bytes[source..source + HEAD * count]);
        let (start, end, used) = (from.start(range.start), from.end(range.end - 1), self.used());
        self.add_stride(from.stride);
        if self.stride == VARIED {
            for at in 0..count {
                self.set_end(first + at, (used + from.end(range.start + at) - start) as u16);
            }
        }
        let (to, source) = (self.heap_at() + used, from.heap_at());
        self.bytes[to..to + end - start].copy_from_slice(&from.bytes[source + start..source + end]);
        self.count += count as u16;
    }

    /// Appends the key of an entry whose value is there already.
    fn append_key(&mut self, from: &mut Self, at: usize) {
        let prefix = self.prefix as usize;
        let start = self.used();
        let (head, end, stride) = if from.is_long(at) {
            let ordinal = from.long_before(at);
            let long = from.long.as_deref_mut().expect("a marked entry has its box");
            let key = std::mem::take(&mut long.keys[ordinal]);
            let head = head_of(&key[prefix..]);
            let long = self.long.get_or_insert_default();
            long.bytes += key.len();
            long.keys.push(key);
            (head, start as u16 | LONG, VARIED)
        } else {
            let KeyParts { prefix: first, suffix } = from.key(at);
            let lost = first.get(prefix..).unwrap_or_default();
            let suffix = &suffix[prefix.saturating_sub(first.len())..];
            let heap = self.heap_at() + start;
            let length = lost.len() + suffix.len();
            let into = &mut self.bytes[heap..heap + length];
            into[..lost.len()].copy_from_slice(lost);
            into[lost.len()..].copy_from_slice(suffix);
            (head_of(into), (start + length) as u16, length as u16)
        };
        let to = prefix + HEAD * self.count();
        self.bytes[to..to + HEAD].copy_from_slice(&head.to_le_bytes());
        self.add_stride(stride);
        if self.stride == VARIED {
            self.set_end(self.count(), end);
        }
        self.count += 1;
    }

    fn rebuild(&mut self, prefix: usize, space: PageSpace) {
        let range = 0..self.count();
        let page = Self::assemble_with(&mut [Run { page: self, range }], prefix, space);
        // Boxes of an empty page have moved to the new one.
        *self = page;
    }

    /// An empty page whose prefix will be the first key.
    fn start_with(&mut self, key: &[u8]) {
        let prefix = key.len().min(PREFIX_BYTES_MAX);
        let total = (prefix + Self::SLOT).next_multiple_of(GRANULE);
        self.bytes = vec![0; total].into_boxed_slice();
        self.bytes[..prefix].copy_from_slice(&key[..prefix]);
        (self.prefix, self.slots) = (prefix as u16, 1);
    }

    /// The prefix that all keys have.
    pub(super) fn common_prefix(&self) -> usize {
        match self.count() {
            0 => 0,
            count => self.key(0).common(self.key(count - 1)).min(PREFIX_BYTES_MAX),
        }
    }

    /// Bytes that entries need in a heap below a prefix of this length.
    fn size_of_heap(&self, range: Range<usize>, prefix: usize) -> usize {
        if range.is_empty() {
            return 0;
        }
        let long = self.long_before(range.end) - self.long_before(range.start);
        let here = self.end(range.end - 1) - self.start(range.start);
        here + (range.len() - long) * self.prefix as usize - (range.len() - long) * prefix
    }

    fn heads(&self) -> &[[u8; HEAD]] {
        let at = self.prefix as usize;
        self.bytes[at..at + HEAD * self.count()].as_chunks().0
    }

    fn ends_at(&self) -> usize {
        self.prefix as usize + HEAD * self.slots as usize
    }

    fn values_at(&self) -> usize {
        self.prefix as usize + (HEAD + END) * self.slots as usize
    }

    fn heap_at(&self) -> usize {
        self.prefix as usize + Self::SLOT * self.slots as usize
    }

    #[inline]
    fn end_word(&self, at: usize) -> u16 {
        let at = self.ends_at() + END * at;
        u16::from_le_bytes([self.bytes[at], self.bytes[at + 1]])
    }

    #[inline]
    fn end(&self, at: usize) -> usize {
        self.start(at + 1)
    }

    #[inline]
    fn start(&self, at: usize) -> usize {
        if self.stride != VARIED {
            return self.stride as usize * at;
        }
        if at == 0 { 0 } else { (self.end_word(at - 1) & !LONG) as usize }
    }

    /// Bytes of the heap in use.
    fn used(&self) -> usize {
        self.start(self.count())
    }

    /// Before a key of this length is added. Ends are written from the first one on that has another length.
    fn add_stride(&mut self, stride: u16) {
        if self.count == 0 {
            self.stride = stride;
        } else if self.stride != stride && self.stride != VARIED {
            (0..self.count()).for_each(|at| self.set_end(at, self.stride * (at + 1) as u16));
            self.stride = VARIED;
        }
    }

    fn set_end(&mut self, at: usize, end: u16) {
        let at = self.ends_at() + END * at;
        self.bytes[at..at + END].copy_from_slice(&end.to_le_bytes());
    }

    fn is_long(&self, at: usize) -> bool {
        self.stride == VARIED && self.end_word(at) & LONG != 0
    }

    fn long_keys(&self) -> &[Box<[u8]>] {
        self.long.as_deref().map_or(&[], |long| &long.keys)
    }

    /// The number of overflow entries in front of `at`.
    fn long_before(&self, at: usize) -> usize {
        if self.long.is_none() { 0 } else { (0..at).filter(|&at| self.is_long(at)).count() }
    }
}

impl SortedPage<8> {
    #[inline]
    pub(super) fn value(&self, at: usize) -> u64 {
        let at = self.values_at() + size_of::<u64>() * at;
        u64::from_le_bytes(*self.bytes[at..].first_chunk().expect("each entry has a value"))
    }

    /// Changes the value and returns the old one.
    pub(super) fn replace_value(&mut self, at: usize, value: u64) -> u64 {
        let old = self.value(at);
        let at = self.values_at() + size_of::<u64>() * at;
        self.bytes[at..at + size_of::<u64>()].copy_from_slice(&value.to_le_bytes());
        old
    }
}

/// Bytes that a key needs in a heap below a prefix of this length.
fn heap_bytes(key: &[u8], prefix: usize) -> usize {
    if key.len() > INLINE_KEY_BYTES_MAX { 0 } else { key.len() - prefix }
}

fn insert_into<const N: usize>(bytes: &mut [u8], base: usize, count: usize, at: usize, value: [u8; N]) {
    let place = base + N * at;
    bytes.copy_within(place..base + N * count, place + N);
    bytes[place..place + N].copy_from_slice(&value);
}
