//! The entries of a segment that were replaced by a put or a removal, so that compaction need not look each entry up in the
//! index.
//!
//! There is one bit for every [`HEAD_BYTES`] of the file, the smallest distance of two entries: half a percent of the log.
//! The bits are not on disk. After recovery, and if an entry died in another way (a part of a record, an older version), a
//! clear bit means nothing.

use super::entry::HEAD_BYTES;

/// The dead entries of one segment.
#[derive(Clone, Debug)]
pub(crate) struct DeadEntries {
    dead_bits: Vec<u64>,
    /// The number of set bits.
    count: u32,
    /// Whether an entry without a mark is live.
    is_complete: bool,
}

impl DeadEntries {
    /// For a segment whose entries may be dead or live.
    pub(crate) fn unknown() -> DeadEntries {
        DeadEntries { dead_bits: Vec::new(), count: 0, is_complete: false }
    }

    /// For a segment without entries.
    pub(crate) fn none() -> DeadEntries {
        DeadEntries { dead_bits: Vec::new(), count: 0, is_complete: true }
    }

    /// Marks the entry at this offset. Once dead, it stays dead.
    pub(crate) fn mark_dead(&mut self, offset: u32) {
        let (word, bit) = bit_position(offset);
        if word >= self.dead_bits.len() {
            self.dead_bits.resize(word + 1, 0);
        }
        self.count += u32::from(self.dead_bits[word] & bit == 0);
        self.dead_bits[word] |= bit;
    }

    /// The number of entries known to be dead.
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// An entry died at an unknown position.
    pub(crate) fn mark_dead_at_unknown(&mut self) {
        self.is_complete = false;
    }

    /// Whether the entry at this offset is dead; `None` if that is not known here.
    pub(crate) fn at(&self, offset: u32) -> Option<bool> {
        let (word, bit) = bit_position(offset);
        let is_marked = self.dead_bits.get(word).is_some_and(|marks| marks & bit != 0);
        (is_marked || self.is_complete).then_some(is_marked)
    }

    /// Whether the state of every entry is known.
    pub(crate) fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Entries from this offset on are truncated, and other entries will be written there.
    pub(crate) fn truncate_from(&mut self, offset: u64) {
        // An entry before it is at least as long as a head, and so has an earlier bit.
        let (word, bit) = bit_position(offset as u32);
        self.dead_bits.truncate(word + 1);
        if let Some(last) = self.dead_bits.get_mut(word) {
            *last &= bit - 1;
        }
        self.count = self.dead_bits.iter().map(|marks| marks.count_ones()).sum();
    }

    /// Memory that it uses, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.dead_bits.capacity() * size_of::<u64>()
    }
}

fn bit_position(offset: u32) -> (usize, u64) {
    let number = offset as usize / HEAD_BYTES;
    (number / 64, 1 << (number % 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adjacent_entries_of_minimum_length_have_separate_marks() {
        let mut dead = DeadEntries::none();
        let offsets = || (64..5_000u32).step_by(HEAD_BYTES + 1);
        offsets().step_by(2).for_each(|offset| dead.mark_dead(offset));
        for (n, offset) in offsets().enumerate() {
            assert_eq!(dead.at(offset), Some(n % 2 == 0), "{offset}");
        }
    }

    #[test]
    fn unmarked_entry_is_live_only_if_all_dead_entries_are_marked() {
        let mut dead = DeadEntries::none();
        dead.mark_dead(100);
        assert_eq!((dead.at(100), dead.at(200)), (Some(true), Some(false)));
        dead.mark_dead_at_unknown();
        assert_eq!((dead.at(100), dead.at(200)), (Some(true), None));
        assert_eq!(DeadEntries::unknown().at(100), None);
    }

    #[test]
    fn truncation_removes_only_marks_behind_it() {
        for cut in 1_000..1_200u32 {
            let mut dead = DeadEntries::none();
            let offsets = || (64..5_000u32).step_by(HEAD_BYTES + 1);
            offsets().for_each(|offset| dead.mark_dead(offset));
            dead.truncate_from(u64::from(cut));
            assert!(offsets().filter(|&o| o + HEAD_BYTES as u32 <= cut).all(|o| dead.at(o) == Some(true)));
            assert!(offsets().filter(|&o| o >= cut).all(|o| dead.at(o) == Some(false)), "{cut}");
            let left = offsets().filter(|&o| dead.at(o) == Some(true));
            assert_eq!(dead.count() as usize, left.count(), "{cut}");
            dead.mark_dead(64);
            dead.mark_dead(64);
            let left = offsets().filter(|&o| dead.at(o) == Some(true));
            assert_eq!(dead.count() as usize, left.count(), "none is counted twice");
        }
    }
}
