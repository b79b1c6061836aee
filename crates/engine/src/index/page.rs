//! A page of the index: a small hash table of cache lines.
//!
//! A line has five slots: five 32-bit fragments of hashes and five 64-bit locations. It also has a mask of used slots,
//! and a count of entries that belong to this line and are stored in a later one. A lookup reads one line in most cases
//! and stops at the first line that no entry has passed.

use super::location::Location;

/// Slots in a line.
pub(super) const SLOTS: usize = 5;

/// 64 bytes, one cache line.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line {
    fragments: [u32; SLOTS],
    /// Bits 0 to 4: slot used. The rest: how many entries of this or an earlier home line are stored in a later line.
    used_and_passed: u32,
    locations: [u64; SLOTS],
}

const EMPTY: Line = Line { fragments: [0; SLOTS], used_and_passed: 0, locations: [0; SLOTS] };
const USED_MASK: u32 = (1 << SLOTS) - 1;
const PASSED_ONE: u32 = 1 << SLOTS;

impl Line {
    fn used_mask(&self) -> u32 {
        self.used_and_passed & USED_MASK
    }

    fn is_passed(&self) -> bool {
        self.used_and_passed >= PASSED_ONE
    }

    /// A bit for each used slot with this fragment.
    fn matches(&self, fragment: u32) -> u32 {
        let mut bits = 0;
        for (i, &f) in self.fragments.iter().enumerate() {
            bits |= u32::from(f == fragment) << i;
        }
        bits & self.used_mask()
    }
}

/// A slot of a page; valid until the page next changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SlotPosition {
    line: u32,
    slot: u32,
}

impl SlotPosition {
    pub(super) const FIRST: SlotPosition = SlotPosition { line: 0, slot: 0 };
}

/// The table. Its part of the fragment space is `[prefix << (32 - depth), (prefix + 1) << (32 - depth))`.
#[derive(Clone)]
pub(super) struct Page {
    lines: Box<[Line]>,
    used: u32,
    /// The number of leading bits of the fragment that all entries here share.
    pub(super) depth: u8,
}

impl Page {
    pub(super) fn new(depth: u8, lines: usize) -> Page {
        Page { lines: vec![EMPTY; lines].into_boxed_slice(), used: 0, depth }
    }

    pub(super) fn used(&self) -> usize {
        self.used as usize
    }

    pub(super) fn lines(&self) -> usize {
        self.lines.len()
    }

    pub(super) fn slots(&self) -> usize {
        self.lines.len() * SLOTS
    }

    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.lines)
    }

    /// The home line of a fragment: the bits behind the shared ones, scaled to the number of lines.
    fn home(&self, fragment: u32) -> usize {
        let own = u64::from(fragment << self.depth.min(31));
        ((own * self.lines.len() as u64) >> 32) as usize
    }

    /// Reads the home line of a fragment.
    pub(super) fn touch(&self, fragment: u32) -> u32 {
        self.lines[self.home(fragment)].used_and_passed
    }

    /// Finds the slot with this fragment that `accept` accepts.
    pub(super) fn find<E>(
        &self,
        fragment: u32,
        mut accept: impl FnMut(Location) -> Result<bool, E>,
    ) -> Result<Option<(SlotPosition, Location)>, E> {
        let mut at = self.home(fragment);
        for _ in 0..self.lines.len() {
            let line = &self.lines[at];
            let mut candidates = line.matches(fragment);
            while candidates != 0 {
                let slot = candidates.trailing_zeros();
                let location = Location(line.locations[slot as usize]);
                if accept(location)? {
                    return Ok(Some((SlotPosition { line: at as u32, slot }, location)));
                }
                candidates &= candidates - 1;
            }
            if !line.is_passed() {
                return Ok(None);
            }
            at = self.after(at);
        }
        Ok(None)
    }

    /// Adds an entry. The page must have a free slot.
    pub(super) fn insert(&mut self, fragment: u32, location: Location) {
        assert!((self.used as usize) < self.slots(), "an index page is never full");
        let mut at = self.home(fragment);
        loop {
            let line = &mut self.lines[at];
            let free = !line.used_and_passed & USED_MASK;
            if free != 0 {
                let slot = free.trailing_zeros() as usize;
                line.fragments[slot] = fragment;
                line.locations[slot] = location.0;
                line.used_and_passed |= 1 << slot;
                self.used += 1;
                return;
            }
            line.used_and_passed += PASSED_ONE;
            at = self.after(at);
        }
    }

    pub(super) fn replace(&mut self, at: SlotPosition, location: Location) {
        self.lines[at.line as usize].locations[at.slot as usize] = location.0;
    }

    pub(super) fn remove(&mut self, at: SlotPosition) {
        let fragment = self.lines[at.line as usize].fragments[at.slot as usize];
        let mut passed = self.home(fragment);
        while passed != at.line as usize {
            self.lines[passed].used_and_passed -= PASSED_ONE;
            passed = self.after(passed);
        }
        self.lines[at.line as usize].used_and_passed &= !(1 << at.slot);
        self.used -= 1;
    }

    /// Every entry, in no order.
    pub(super) fn entries(&self) -> impl Iterator<Item = (u32, Location)> {
        self.lines.iter().flat_map(|line| {
            (0..SLOTS)
                .filter(move |slot| line.used_mask() >> slot & 1 == 1)
                .map(move |slot| (line.fragments[slot], Location(line.locations[slot])))
        })
    }

    fn after(&self, at: usize) -> usize {
        if at + 1 == self.lines.len() { 0 } else { at + 1 }
    }
}
