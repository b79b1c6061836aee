//! Positions of the entries that were appended to a segment last. These entries are read again at once, to be replicated and
//! applied; without this cache each would be found only by stepping over up to [`crate::limits::SAMPLE_EVERY`] entries
//! between two samples.

use crate::limits::RECENT_ENTRIES;

/// Offsets of entries by their log indexes, counted from the segment's first.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TailOffsets {
    /// Offset 0 means an unused slot.
    positions: [(u32, u32); RECENT_ENTRIES],
    next: u32,
}

impl TailOffsets {
    /// Records the position of the segment's newest entry.
    pub(crate) fn record(&mut self, index: u32, offset: u32) {
        self.positions[self.next as usize % RECENT_ENTRIES] = (index, offset);
        self.next = self.next.wrapping_add(1);
    }

    /// Forgets all positions: entries were truncated, or are to be read again.
    pub(crate) fn clear(&mut self) {
        *self = TailOffsets::default();
    }

    /// The offset of the last of them up to this log index.
    pub(crate) fn before(&self, index: u32) -> Option<u64> {
        let found = self.positions.iter().filter(|&&(at, offset)| offset > 0 && at <= index);
        found.max().map(|&(_, offset)| u64::from(offset))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tail_cache_finds_only_recent_entries() {
        let mut recent = TailOffsets::default();
        assert_eq!(recent.before(u32::MAX), None);
        for index in 0..10 {
            recent.record(index, 100 + 10 * index);
        }
        let oldest = 10 - RECENT_ENTRIES as u32;
        assert_eq!(recent.before(9), Some(190));
        assert_eq!(recent.before(u32::MAX), Some(190));
        assert_eq!(recent.before(oldest), Some(u64::from(100 + 10 * oldest)));
        assert_eq!(recent.before(oldest - 1), None);
        recent.clear();
        assert_eq!(recent.before(9), None);
    }

    #[test]
    fn lookup_of_missing_log_index_finds_preceding_entry() {
        let mut recent = TailOffsets::default();
        recent.record(3, 30);
        recent.record(7, 70);
        assert_eq!([recent.before(2), recent.before(6), recent.before(7)], [None, Some(30), Some(70)]);
    }
}
