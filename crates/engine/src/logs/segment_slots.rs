//! The slots of segments: locations in the index have few bits, so they name a segment by a slot.

use std::collections::BTreeMap;

use crate::error::{EngineError, EngineResult};
use crate::limits::SEGMENTS_MAX;

/// The numbers of segments by the slots that locations have, and back.
#[derive(Default)]
pub(crate) struct SegmentSlots {
    numbers: Vec<u64>,
    by_number: BTreeMap<u64, u32>,
    /// The number and the slot that were used last.
    last: (u64, u32),
    /// Slots of segments that are gone. A section that is being written may have locations in them.
    released: Vec<u32>,
    free: Vec<u32>,
}

impl SegmentSlots {
    /// The slot of a segment, which it gets if it has none.
    ///
    /// # Errors
    /// [`EngineError::Limit`].
    #[inline]
    pub(crate) fn of(&mut self, number: u64) -> EngineResult<u32> {
        if self.last.0 == number {
            return Ok(self.last.1);
        }
        let slot = match self.by_number.get(&number) {
            Some(slot) => *slot,
            None => self.add(number)?,
        };
        self.last = (number, slot);
        Ok(slot)
    }

    #[cold]
    fn add(&mut self, number: u64) -> EngineResult<u32> {
        let slot = match self.free.pop() {
            Some(slot) => {
                self.numbers[slot as usize] = number;
                slot
            }
            None if self.numbers.len() == SEGMENTS_MAX => {
                return Err(EngineError::Limit { what: "segments of one instance (2^20)" });
            }
            None => {
                self.numbers.push(number);
                self.numbers.len() as u32 - 1
            }
        };
        self.by_number.insert(number, slot);
        Ok(slot)
    }

    /// Whether a victim and the segment that its entries are copied to are sure to get slots.
    pub(crate) fn has_room(&self) -> bool {
        self.free.len() + SEGMENTS_MAX - self.numbers.len() >= 3
    }

    /// The slot of a segment, if it has one.
    pub(crate) fn get(&self, number: u64) -> Option<u32> {
        self.by_number.get(&number).copied()
    }

    /// A segment is gone, and nothing in memory names a place in it. Its slot keeps its number until
    /// [`SegmentSlots::reuse_released`].
    pub(crate) fn release(&mut self, number: u64) {
        if let Some(slot) = self.by_number.remove(&number) {
            self.released.push(slot);
            self.last = (0, 0);
        }
    }

    /// No section is being written: released slots are for other segments.
    pub(crate) fn reuse_released(&mut self) {
        self.free.append(&mut self.released);
    }

    /// The number of the segment of a slot; 0: there is none.
    #[inline]
    pub(crate) fn number(&self, slot: u32) -> u64 {
        self.numbers.get(slot as usize).copied().unwrap_or_default()
    }

    /// Slots and numbers.
    pub(crate) fn all(&self) -> impl Iterator<Item = (u32, u64)> {
        (0..).zip(self.numbers.iter().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slot_of_a_segment_that_is_gone_is_used_again_once_no_section_has_it() {
        let mut slots = SegmentSlots::default();
        assert_eq!([7, 9, 7].map(|number| slots.of(number)), [Ok(0), Ok(1), Ok(0)]);
        slots.release(7);
        assert_eq!((slots.get(7), slots.number(0)), (None, 7), "a section may have it");
        assert_eq!(slots.of(11), Ok(2));
        slots.reuse_released();
        assert_eq!((slots.of(12), slots.number(0), slots.get(12)), (Ok(0), 12, Some(0)));
        assert_eq!(slots.of(7), Ok(3), "a number that comes back gets a slot of its own");
        assert_eq!(slots.all().collect::<Vec<_>>(), [(0, 12), (1, 9), (2, 11), (3, 7)]);
    }
}
