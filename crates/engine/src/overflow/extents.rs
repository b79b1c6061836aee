//! Chunks: records that are bytes written at offsets. Unwritten bytes are zeros.
//!
//! A chunk is a record of parts like a list, but its parts overlap: a later part hides the bytes that it covers of earlier
//! ones. Its newest entry has a stamp, which upper layers set.

use std::collections::VecDeque;
use std::ops::Range;

use crate::log::chunk_head::ChunkStamp;
use crate::overflow::part::ChainPart;

/// The length of a corrupt entry, whose range is unknown. All reads of the chunk read it, and return the corruption.
pub(crate) const COVERS_UNKNOWN: u32 = u32::MAX;

/// The data of a record of parts, beside the parts, if it is a chunk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Extents {
    /// The offset of each part. Their lengths are the parts' units.
    pub(crate) offsets: VecDeque<u32>,
    /// The stamp of the newest part, if it is known here; otherwise it is in the log.
    pub(crate) stamp: Option<ChunkStamp>,
    /// The number of visible runs of each part.
    shows: VecDeque<u32>,
    /// The visible bytes of all parts: ascending, and without overlap.
    runs: Vec<VisibleRun>,
    /// Log indexes of the parts that are not in runs: they cover nothing, or an unknown range. They are checked one by one.
    unmerged: Vec<u64>,
}

/// Bytes of a chunk that no later part hides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct VisibleRun {
    pub(crate) begin: u64,
    pub(crate) end: u64,
    /// Log index of the part that has them.
    pub(crate) part: u64,
}

impl Extents {
    /// Adds a part over the existing ones, which are before it in the log. Removes parts without visible bytes, and returns
    /// them. The first part always stays: it may have replaced an older record, whose entries must not come back.
    pub(crate) fn add_part(
        &mut self,
        parts: &mut VecDeque<ChainPart>,
        part: ChainPart,
        offset: u32,
    ) -> Vec<ChainPart> {
        let mut hidden = self.cover(parts, part, offset);
        hidden.retain(|&index| parts.front().is_some_and(|first| first.index != index));
        hidden.sort_unstable();
        let mut gone = Vec::new();
        for index in hidden {
            let Ok(at) = parts.binary_search_by_key(&index, |part| part.index) else { continue };
            gone.extend(parts.remove(at));
            self.offsets.remove(at);
            self.shows.remove(at);
        }
        self.record_extent(part, offset);
        gone
    }

    /// The same for parts from a checkpoint, where parts without visible bytes stay: the account of dead space counts them
    /// as live.
    pub(crate) fn load(&mut self, parts: &VecDeque<ChainPart>, part: ChainPart, offset: u32) {
        self.cover(parts, part, offset);
        self.record_extent(part, offset);
    }

    /// Forgets data of parts that are no longer there.
    pub(crate) fn drop_missing(&mut self, before: &VecDeque<ChainPart>, missing: &[u64]) {
        let offsets = std::mem::take(&mut self.offsets);
        (self.shows, self.runs, self.unmerged) = Default::default();
        let mut parts = VecDeque::new();
        for (&part, offset) in before.iter().zip(offsets).filter(|(part, _)| !missing.contains(&part.index)) {
            self.load(&parts, part, offset);
            parts.push_back(part);
        }
    }

    fn record_extent(&mut self, part: ChainPart, offset: u32) {
        self.offsets.push_back(offset);
        self.shows.push_back(u32::from(is_laid(&part)));
    }

    /// Puts a part into its place, and returns those without visible bytes.
    fn cover(&mut self, parts: &VecDeque<ChainPart>, part: ChainPart, offset: u32) -> Vec<u64> {
        let mut hidden = Vec::new();
        let new = range_of(offset, part.units);
        if part.units != COVERS_UNKNOWN && !self.unmerged.is_empty() {
            let offsets = &self.offsets;
            self.unmerged.retain(|&index| {
                let Ok(at) = parts.binary_search_by_key(&index, |part| part.index) else { return false };
                let is_within = (new.start..=new.end).contains(&u64::from(offsets[at]));
                if parts[at].units == COVERS_UNKNOWN || !is_within || at == 0 {
                    return true;
                }
                hidden.push(index);
                false
            });
        }
        if !is_laid(&part) {
            self.unmerged.push(part.index);
            return hidden;
        }
        let first = self.runs.partition_point(|run| run.end <= new.start);
        let last = first + self.runs[first..].partition_point(|run| run.begin < new.end);
        let mut left = None;
        let mut right = None;
        for at in first..last {
            let run = self.runs[at];
            let mut stays = 0;
            if run.begin < new.start {
                left = Some(VisibleRun { end: new.start, ..run });
                stays += 1;
            }
            if run.end > new.end {
                right = Some(VisibleRun { begin: new.end, ..run });
                stays += 1;
            }
            let Ok(of) = parts.binary_search_by_key(&run.part, |part| part.index) else { continue };
            self.shows[of] = self.shows[of] + stays - 1;
            if self.shows[of] == 0 {
                hidden.push(run.part);
            }
        }
        let own = VisibleRun { begin: new.start, end: new.end, part: part.index };
        self.runs.splice(first..last, left.into_iter().chain([own]).chain(right));
        hidden
    }

    /// The visible runs of these bytes, part by part; `None` if the range of any part is unknown.
    pub(crate) fn visible_runs(
        &self,
        parts: &VecDeque<ChainPart>,
        requested: &Range<u64>,
    ) -> Option<Vec<VisibleRun>> {
        if self.has_unknown(parts) {
            return None;
        }
        let first = self.runs.partition_point(|run| run.end <= requested.start);
        let runs = self.runs[first..].iter().take_while(|run| run.begin < requested.end);
        let within = |run: &VisibleRun| VisibleRun {
            begin: run.begin.max(requested.start),
            end: run.end.min(requested.end),
            ..*run
        };
        let mut shown: Vec<VisibleRun> = runs.map(within).filter(|run| run.begin < run.end).collect();
        shown.sort_unstable_by_key(|run| run.part);
        Some(shown)
    }

    /// The part that has all of these bytes, and is the only visible one there; `None` means nothing. Requires that the
    /// range of every part is known.
    pub(crate) fn single(&self, requested: &Range<u64>) -> Option<u64> {
        let run = self.runs.get(self.runs.partition_point(|run| run.end <= requested.start))?;
        let is_all =
            run.begin <= requested.start && requested.start < requested.end && requested.end <= run.end;
        is_all.then_some(run.part)
    }

    /// Whether the range of any part is unknown.
    pub(crate) fn has_unknown(&self, parts: &VecDeque<ChainPart>) -> bool {
        self.unmerged(parts).any(|(part, _)| part.units == COVERS_UNKNOWN)
    }

    /// The end of the last part, among those whose range is known.
    pub(crate) fn end(&self, parts: &VecDeque<ChainPart>) -> u64 {
        let loose = self.unmerged(parts).filter(|(part, _)| part.units != COVERS_UNKNOWN);
        let loose = loose.map(|(_, offset)| u64::from(offset)).max().unwrap_or(0);
        self.runs.last().map_or(0, |run| run.end).max(loose)
    }

    /// The parts that are not in runs, and their offsets.
    pub(crate) fn unmerged<'a>(
        &'a self,
        parts: &'a VecDeque<ChainPart>,
    ) -> impl Iterator<Item = (ChainPart, u32)> + 'a {
        self.unmerged.iter().filter_map(|&index| {
            let at = parts.binary_search_by_key(&index, |part| part.index).ok()?;
            Some((parts[at], self.offsets[at]))
        })
    }

    /// Memory that it uses.
    pub(crate) fn bytes(&self) -> usize {
        let lists = 4 * (self.offsets.capacity() + self.shows.capacity()) + 8 * self.unmerged.capacity();
        size_of::<Extents>() + lists + size_of::<VisibleRun>() * self.runs.capacity()
    }

    /// Whether a part may have some of these bytes.
    pub(crate) fn touches(part: &ChainPart, offset: u32, requested: &Range<u64>) -> bool {
        let covers = range_of(offset, part.units);
        part.units == COVERS_UNKNOWN || covers.start < requested.end && covers.end > requested.start
    }
}

/// Whether a part is in runs.
fn is_laid(part: &ChainPart) -> bool {
    part.units > 0 && part.units != COVERS_UNKNOWN
}

/// The bytes of the chunk that a part covers.
pub(crate) fn range_of(offset: u32, length: u32) -> Range<u64> {
    u64::from(offset)..u64::from(offset) + u64::from(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lays parts over one another.
    #[derive(Default)]
    struct ExtentOverlay {
        parts: VecDeque<ChainPart>,
        extents: Extents,
    }

    impl ExtentOverlay {
        fn add_part(&mut self, offset: u32, units: u32) -> Vec<u64> {
            let index = self.parts.back().map_or(1, |last| last.index + 1);
            let part = ChainPart { index, entry_bytes: 40, units };
            let gone = self.extents.add_part(&mut self.parts, part, offset);
            self.parts.push_back(part);
            gone.iter().map(|part| part.index).collect()
        }

        fn visible_runs(&self, expected: Range<u64>) -> Option<Vec<(u64, u64, u64)>> {
            let shown = self.extents.visible_runs(&self.parts, &expected)?;
            Some(shown.iter().map(|run| (run.part, run.begin, run.end)).collect())
        }
    }

    #[test]
    fn hidden_extent_is_dropped_unless_it_is_the_first() {
        let mut laid = ExtentOverlay::default();
        for (offset, units) in [(0, 4), (4, 4), (2, 0), (6, 2), (3, 9)] {
            assert_eq!(
                laid.add_part(offset, units),
                if (offset, units) == (3, 9) { vec![2, 4] } else { vec![] }
            );
        }
        assert_eq!(laid.visible_runs(1..6), Some(vec![(1, 1, 3), (5, 3, 6)]));
        assert_eq!(
            laid.add_part(0, 2),
            [3],
            "what covers nothing goes where something is written over its place"
        );
        assert_eq!(laid.add_part(2, 3), []);
        assert_eq!(laid.add_part(5, 2), []);
        // Two parts together hide another, which neither does alone.
        assert_eq!(laid.add_part(7, 5), [5]);
        assert_eq!(laid.add_part(1, 7), [7, 8]);
        assert_eq!(laid.visible_runs(0..99), Some(vec![(6, 0, 1), (9, 8, 12), (10, 1, 8)]));
        assert_eq!(laid.extents.end(&laid.parts), 12);
        assert_eq!(laid.add_part(20, 0), []);
        assert_eq!(
            laid.extents.unmerged(&laid.parts).map(|(part, at)| (part.index, at)).last(),
            Some((11, 20))
        );
        // The range of a corrupt part is unknown: it hides nothing, and all parts are read.
        assert_eq!((laid.add_part(0, COVERS_UNKNOWN), laid.add_part(0, 99)), (vec![], vec![6, 9, 10, 11]));
        assert_eq!(laid.visible_runs(0..4), None);
        assert!(Extents::touches(&laid.parts[1], 0, &(90..91)));
        let part = ChainPart { index: 5, entry_bytes: 40, units: 9 };
        assert!(Extents::touches(&part, 3, &(11..12)) && !Extents::touches(&part, 3, &(12..13)));
    }

    #[test]
    fn visible_bytes_are_the_last_written() {
        const SPACE: u64 = 300;
        let mut drawn = 1_u64;
        let mut draw = |below: u64| {
            drawn = drawn.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (drawn >> 33) % below
        };
        for _ in 0..50 {
            let mut laid = ExtentOverlay::default();
            let mut bytes = [0_u64; SPACE as usize];
            let longest = 1 + draw(60);
            for index in 1..=400_u64 {
                let (offset, units) = (draw(SPACE - longest), draw(longest + 1));
                laid.add_part(offset as u32, units as u32);
                bytes[offset as usize..(offset + units) as usize].fill(index);
                let from = draw(SPACE);
                let expected = from..(from + draw(80)).min(SPACE);
                let mut seen = vec![0; (expected.end - expected.start) as usize];
                for (part, begin, end) in laid.visible_runs(expected.clone()).expect("all are known") {
                    let place = &mut seen[(begin - from) as usize..(end - from) as usize];
                    assert!(place.iter().all(|&byte| byte == 0) && begin < end);
                    place.fill(part);
                }
                let only = laid.extents.single(&expected);
                let is_one = seen.iter().all(|&part| part > 0 && part == seen[0]) && !seen.is_empty();
                assert_eq!(
                    (only, &seen[..]),
                    (is_one.then(|| seen[0]), &bytes[expected.start as usize..expected.end as usize])
                );
            }
            // Every part but the first is visible, or covers nothing.
            for part in laid.parts.iter().skip(1).filter(|part| part.units > 0) {
                assert!(bytes.contains(&part.index));
            }
            // A checkpoint restores the same, and so does forgetting missing parts.
            let mut again = Extents { stamp: laid.extents.stamp, ..Extents::default() };
            let mut parts = VecDeque::new();
            for (&part, &offset) in laid.parts.iter().zip(&laid.extents.offsets) {
                again.load(&parts, part, offset);
                parts.push_back(part);
            }
            assert_eq!(again, laid.extents);
            again.drop_missing(&laid.parts, &[]);
            assert_eq!(again, laid.extents);
        }
    }
}
