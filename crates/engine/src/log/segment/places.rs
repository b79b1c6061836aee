//! Positions of the entries of a segment, finer than its samples: of long entries, every position. Without them a read of a
//! part of a chunk steps over up to [`crate::limits::SAMPLE_EVERY`] heads that are pages apart, to find its entry. They are
//! in memory only: after a restart only the samples are available.

use crate::limits::POSITION_EVERY_BYTES;

/// Log indexes, counted from the segment's first, and offsets, in their order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Places(Vec<(u32, u32)>);

impl Places {
    /// Records an entry that follows the last recorded one, if it is far behind `known`, the last known offset.
    #[inline]
    pub(crate) fn record(&mut self, place: (u32, u32), known: &mut u32) {
        if place.1.saturating_sub(*known) >= POSITION_EVERY_BYTES {
            *known = place.1;
            self.0.push(place);
        }
    }

    /// The offset of the last recorded entry up to this log index.
    pub(crate) fn before(&self, index: u64) -> Option<u32> {
        let after = self.0.partition_point(|&(at, _)| u64::from(at) <= index);
        Some(self.0[after.checked_sub(1)?].1)
    }

    /// Forgets the entries from an offset on.
    pub(crate) fn truncate(&mut self, bytes: u64) {
        self.0.truncate(self.0.partition_point(|&(_, offset)| u64::from(offset) < bytes));
    }

    /// Memory that it uses.
    pub(crate) fn bytes(&self) -> usize {
        self.0.capacity() * size_of::<(u32, u32)>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::FileId;
    use crate::log::entry::{EntryBase, EntryKind, EntryMeta};
    use crate::log::header::{HEADER_BYTES, SegmentHeader};
    use crate::log::segment::Segment;

    #[test]
    fn places_record_each_long_entry_and_sample_short_ones() {
        for entry_bytes in [POSITION_EVERY_BYTES + 200, POSITION_EVERY_BYTES, 3_000, 100] {
            let (mut places, mut known) = (Places::default(), 64);
            for index in 0..200 {
                places.record((index, 64 + index * entry_bytes), &mut known);
            }
            for index in 1..200 {
                let at = 64 + index * entry_bytes;
                let found = places.before(u64::from(index)).unwrap_or(64);
                assert!(found <= at && at - found < POSITION_EVERY_BYTES.max(1), "{index} of {entry_bytes}");
                assert_eq!((found - 64) % entry_bytes, 0, "an entry's beginning");
            }
            let all = 200 * entry_bytes / POSITION_EVERY_BYTES;
            assert!(places.0.len() as u32 <= all, "{} of {entry_bytes}", places.0.len());
            assert_eq!(places.before(u64::MAX), places.0.last().map(|&(_, offset)| offset));
        }
    }

    /// A lookup by log index finds the entry directly, instead of stepping over up to fifteen entries before it.
    #[test]
    fn long_entries_are_found_at_their_offsets() {
        let mut segment = Segment::found(header(), "path".into(), FileId(1), 0);
        segment.clear_metadata();
        let offset = |index: u64| 100 + (index - 5) * 5_000;
        let note = |segment: &mut Segment, index: u64| {
            let meta = EntryMeta { kind: EntryKind::Append, flags: 0, epoch: 3, index, timestamp: 100 };
            segment.record_entry(&meta, offset(index), 5_000);
        };
        (5..105).for_each(|index| note(&mut segment, index));
        let mut copy = Segment::found(header(), "path".into(), FileId(2), 0);
        copy.copy_metadata_of(&segment);
        for index in 5..105 {
            assert_eq!([&segment, &copy].map(|of| of.sample_before(index)), [offset(index); 2], "{index}");
        }
        assert!(
            segment.overhead_bytes()
                > Segment::found(header(), "path".into(), FileId(1), 0).overhead_bytes() + 800
        );
        segment.clear_metadata();
        assert_eq!(segment.sample_before(50), HEADER_BYTES as u64);
        (5..30).for_each(|index| note(&mut segment, index));
        assert_eq!((segment.sample_before(20), segment.sample_before(100)), (offset(20), offset(29)));
    }

    fn header() -> SegmentHeader {
        let base = EntryBase { salt: 7, epoch: 3, index: 5, timestamp: 100 };
        let (covers_through, covers_epoch, generation, compacted_at) = (0, 0, 0, 0);
        let partition = crate::PartitionId(1);
        SegmentHeader {
            partition,
            base,
            covers_through,
            covers_epoch,
            generation,
            compacted_at,
            index_seed: 9,
        }
    }

    #[test]
    fn truncation_removes_places_behind_it() {
        let (mut places, mut known) = (Places::default(), 0);
        for index in 1..10 {
            places.record((index, index * POSITION_EVERY_BYTES), &mut known);
        }
        places.truncate(u64::from(4 * POSITION_EVERY_BYTES));
        assert_eq!(
            (places.before(9), places.before(2)),
            (Some(3 * POSITION_EVERY_BYTES), Some(2 * POSITION_EVERY_BYTES))
        );
        places.truncate(0);
        assert_eq!(places.before(9), None);
    }
}
