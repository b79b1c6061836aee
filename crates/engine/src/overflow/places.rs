//! The places of entries that are named by log index only: parts of records, and what older versions hold.
//!
//! The hash index names an entry by its place, and compaction changes that place there. Parts of lists and extents of chunks
//! name entries by log index, however many versions share an entry. This table has one row for each such entry: compaction
//! changes the row, and the death of the entry removes it.
//!
//! A checkpoint does not have the rows. A part that was loaded from one gets its row when recovery reads its
//! entry, or when compaction moves it; until then the log is searched for it.

use std::convert::Infallible;

use crate::index::location::{EntryPlace, Location, Position};
use crate::index::{HashIndex, IndexSlot};
use crate::logs::LogView;

/// Places of entries by log index.
#[derive(Clone, Default)]
pub(crate) struct PartPlaces {
    rows: HashIndex,
}

impl PartPlaces {
    /// The place of the entry of this log index, if it has a row.
    pub(crate) fn get(&self, log: LogView<'_>, index: u64) -> Option<Location> {
        self.find(log, index).map(|(_, place)| place)
    }

    /// The entry of this log index is named by log index from now on.
    pub(crate) fn insert(&mut self, log: LogView<'_>, index: u64, place: Location) {
        match self.find(log, index) {
            Some((row, _)) => self.rows.replace(row, place),
            None => self.rows.insert(fragment_of(index), place),
        }
    }

    /// Compaction has copied the entry of this log index to another place. Returns whether it had a row for the old one.
    pub(crate) fn redirect(&mut self, index: u64, from: Location, to: Location) -> bool {
        match self.rows.find_slot(fragment_of(index), from) {
            Some((row, _)) => {
                self.rows.replace(row, to);
                true
            }
            None => false,
        }
    }

    /// Whether the entry of this log index has this place. Of log indexes that differ by a multiple of 2^32, any may be meant.
    pub(crate) fn has(&self, index: u64, place: Location) -> bool {
        self.rows.find_slot(fragment_of(index), place).is_some()
    }

    /// Whether there is a row of this log index, or of one that differs by a multiple of 2^32.
    pub(crate) fn may_have(&self, index: u64) -> bool {
        let any = self.rows.find(fragment_of(index), |_| Ok::<_, Infallible>(true));
        any.unwrap_or_else(|never| match never {}).is_some()
    }

    /// Adds the place of an entry that has no row.
    pub(crate) fn add(&mut self, index: u64, place: Location) {
        self.rows.insert(fragment_of(index), place);
    }

    /// Nothing names the entry of this log index any more. Returns its place, if it had a row.
    pub(crate) fn remove(&mut self, log: LogView<'_>, index: u64) -> Option<Location> {
        let (row, place) = self.find(log, index)?;
        self.rows.remove(row);
        Some(place)
    }

    /// Number of rows.
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Memory that it uses.
    pub(crate) fn bytes(&self) -> usize {
        self.rows.bytes()
    }

    fn find(&self, log: LogView<'_>, index: u64) -> Option<(IndexSlot, Location)> {
        if self.rows.is_empty() {
            return None;
        }
        let is_it = |place: Location| Ok::<_, Infallible>(log.may_hold(position(place).slot, index));
        self.rows.find(fragment_of(index), is_it).unwrap_or_else(|never| match never {})
    }
}

/// The place that a row names.
pub(crate) fn position(place: Location) -> Position {
    match place.decode() {
        EntryPlace::Entry(position) => position,
        EntryPlace::Chain(_) => unreachable!("a row names an entry"),
    }
}

/// Spreads log indexes evenly over all fragments: neighbours must not share a page of the table. Of 2^32 log indexes in a row,
/// each has a fragment of its own.
fn fragment_of(index: u64) -> u32 {
    (index as u32).wrapping_mul(0x9E37_79B1)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use zerohop_base::random::Random;

    use super::*;
    use crate::PartitionId;
    use crate::log::entry::EntryBase;
    use crate::log::header::SegmentHeader;
    use crate::log::segment::Segment;
    use crate::log::{LogOptions, PartitionLog};

    /// A log of segments that begin at these log indexes.
    fn log_with(first: &[u64]) -> PartitionLog {
        let options = LogOptions { segment_bytes: 1 << 20, in_memory_only: true };
        let mut log = PartitionLog::new(PartitionId(1), 0, "p".into(), options);
        for &index in first {
            let header = SegmentHeader {
                partition: PartitionId(1),
                base: EntryBase { salt: 7, epoch: 1, index, timestamp: 1 },
                covers_through: 0,
                covers_epoch: 0,
                generation: 0,
                compacted_at: 0,
                index_seed: 9,
            };
            log.add_slot(Segment::new(header, "p")).expect("has room");
        }
        log
    }

    #[test]
    fn table_agrees_with_a_map_under_random_changes() {
        const FIRST: [u64; 3] = [1, (1 << 32) + 1, (1 << 33) + 1];
        let log = log_with(&FIRST);
        let log = LogView::Separate(&log);
        for seed in 0..20 {
            let mut random = Random::new(seed);
            let (mut places, mut model) = (PartPlaces::default(), BTreeMap::new());
            for step in 0..4_000 {
                // Log indexes of different segments have the same fragments.
                let slot = random.below(3) as u32;
                let index = FIRST[slot as usize] + random.below(300);
                let at = |offset: u32| Location::entry(slot, 64 + offset, 100);
                match random.below(4) {
                    0 => {
                        places.insert(log, index, at(step));
                        model.insert(index, at(step));
                    }
                    1 => assert_eq!(places.remove(log, index), model.remove(&index), "seed {seed}"),
                    2 => {
                        let from = model.get(&index).copied().unwrap_or(at(9_000));
                        let is_there = model.contains_key(&index);
                        assert_eq!(places.redirect(index, from, at(step)), is_there, "seed {seed}");
                        model.entry(index).and_modify(|place| *place = at(step));
                    }
                    _ => assert_eq!(places.get(log, index), model.get(&index).copied(), "seed {seed}"),
                }
                assert_eq!(places.len(), model.len(), "seed {seed}");
            }
        }
    }

    #[test]
    fn rows_of_neighbouring_entries_cost_at_most_24_bytes() {
        let log = log_with(&[1]);
        let log = LogView::Separate(&log);
        let mut places = PartPlaces::default();
        (1..=200_000).for_each(|index| places.insert(log, index, Location::entry(0, index as u32, 100)));
        assert!(places.bytes() <= 24 * 200_000, "{}", places.bytes());
    }
}
