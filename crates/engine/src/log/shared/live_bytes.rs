//! What the entries of a segment are for the partitions that own them: counted in bytes, by segment and partition, so that
//! compaction finds its victims without reading them.
//!
//! A partition is known here by its slot. Entries of a split's parent count for each child.

use std::collections::BTreeMap;

use crate::index::location::longest_like;

/// What an entry is for the partition that owns it. One that is none of these is dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EntryUse {
    /// The index, a list or a chunk refers to it, or it is not committed.
    Live,
    /// Only a snapshot needs it.
    Kept,
    /// It is the newest entry of its key, and removes something: without it a replay of the log would find older entries.
    Removal,
}

/// Bytes of entries of one segment, or of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LiveBytes {
    /// Bytes of live entries.
    pub live: u64,
    /// Bytes of entries that only snapshots need.
    pub kept: u64,
    /// Bytes of tombstones.
    pub removals: u64,
}

impl LiveBytes {
    /// All of them.
    #[must_use]
    pub fn sum(&self) -> u64 {
        self.live + self.kept + self.removals
    }

    fn of(&mut self, entry_use: EntryUse) -> &mut u64 {
        match entry_use {
            EntryUse::Live => &mut self.live,
            EntryUse::Kept => &mut self.kept,
            EntryUse::Removal => &mut self.removals,
        }
    }
}

/// The counts of one segment.
#[derive(Clone, Debug, Default)]
pub(crate) struct SegmentUse {
    /// Live bytes by slot.
    live: Vec<u32>,
    others: BTreeMap<u32, OtherUse>,
    sums: LiveBytes,
    /// Each entry counts as the longest that its location may name.
    is_rounded: bool,
}

/// What few partitions have in a segment.
#[derive(Clone, Copy, Debug, Default)]
struct OtherUse {
    kept: u32,
    removals: u32,
    /// The highest index of a removal.
    last_removal: u64,
    /// The lowest commit index at which an entry was copied into it.
    judged: Option<u64>,
    /// Some of the removals are contents that keep older ones from coming back. They could come back themselves.
    has_dead_contents: bool,
}

impl SegmentUse {
    /// An entry of a slot was added.
    #[inline]
    pub(crate) fn add_live(&mut self, slot: u32, bytes: u32) {
        let slot = slot as usize;
        if self.live.len() <= slot {
            self.live.resize(slot + 1, 0);
        }
        self.live[slot] += bytes;
        self.sums.live += u64::from(bytes);
    }

    /// An entry of a slot becomes something else.
    pub(crate) fn change(
        &mut self,
        slot: u32,
        (index, bytes): (u64, u32),
        from: Option<EntryUse>,
        to: Option<EntryUse>,
    ) {
        let bytes = self.bytes_of(bytes);
        if let Some(from) = from {
            let counted = match from {
                EntryUse::Live => self.live.get_mut(slot as usize),
                EntryUse::Kept => self.others.get_mut(&slot).map(|other| &mut other.kept),
                EntryUse::Removal => self.others.get_mut(&slot).map(|other| &mut other.removals),
            };
            // A segment that was damaged may have counts of entries that were forgotten.
            let gone = counted.map_or(0, |counted| {
                let gone = bytes.min(*counted);
                *counted -= gone;
                gone
            });
            *self.sums.of(from) -= u64::from(gone);
        }
        match to {
            None => {}
            Some(EntryUse::Live) => self.add_live(slot, bytes),
            Some(to) => {
                let other = self.others.entry(slot).or_default();
                match to {
                    EntryUse::Kept => other.kept += bytes,
                    _ => {
                        other.removals += bytes;
                        other.last_removal = other.last_removal.max(index);
                    }
                }
                *self.sums.of(to) += u64::from(bytes);
            }
        }
    }

    /// From here on, each entry counts as the longest that its location may name.
    pub(crate) fn round(&mut self) {
        debug_assert_eq!(self.sums, LiveBytes::default(), "nothing is counted yet");
        self.is_rounded = true;
    }

    /// As how many bytes an entry of this length counts.
    #[inline]
    pub(crate) fn bytes_of(&self, bytes: u32) -> u32 {
        if self.is_rounded { longest_like(bytes) } else { bytes }
    }

    /// Whether more may be counted than there is.
    pub(crate) fn is_rounded(&self) -> bool {
        self.is_rounded
    }

    /// The slots of which something is counted, and what.
    pub(crate) fn slots(&self) -> impl Iterator<Item = (u32, LiveBytes)> {
        let live = (0..)
            .zip(&self.live)
            .map(|(slot, &live)| (slot, LiveBytes { live: live.into(), ..LiveBytes::default() }));
        let others = self.others.iter().map(|(&slot, other)| {
            (slot, LiveBytes { live: 0, kept: other.kept.into(), removals: other.removals.into() })
        });
        live.chain(others).filter(|(_, counted)| counted.sum() > 0)
    }

    /// What is counted of a slot.
    pub(crate) fn of_slot(&self, slot: u32) -> LiveBytes {
        self.slots().filter(|(counted, _)| *counted == slot).fold(LiveBytes::default(), |sum, (_, more)| {
            LiveBytes {
                live: sum.live + more.live,
                kept: sum.kept + more.kept,
                removals: sum.removals + more.removals,
            }
        })
    }

    /// An entry was copied into the segment when its partition had this commit index.
    pub(crate) fn judge(&mut self, slot: u32, commit: u64) {
        let judged = &mut self.others.entry(slot).or_default().judged;
        *judged = Some(judged.map_or(commit, |judged| judged.min(commit)));
    }

    /// The lowest commit index at which entries of a slot were copied into it; 0 if that is not known.
    pub(crate) fn judged(&self, slot: u32) -> u64 {
        self.others.get(&slot).and_then(|other| other.judged).unwrap_or_default()
    }

    /// Contents of a slot are needed as a removal from here on.
    pub(crate) fn note_dead_contents(&mut self, slot: u32) {
        self.others.entry(slot).or_default().has_dead_contents = true;
    }

    /// Whether contents of a slot may be there that are needed as removals only.
    pub(crate) fn has_dead_contents(&self, slot: u32) -> bool {
        self.others.get(&slot).is_some_and(|other| other.has_dead_contents)
    }

    /// Bytes of a slot that a replay of the log needs.
    pub(crate) fn needed_by_replay(&self, slot: u32) -> u64 {
        let live = self.live.get(slot as usize).copied().unwrap_or_default();
        let removals = self.others.get(&slot).map_or(0, |other| other.removals);
        u64::from(live) + u64::from(removals)
    }

    /// The slots with removals: their bytes, and the highest index of one.
    pub(crate) fn removals(&self) -> impl Iterator<Item = (u32, u32, u64)> {
        let others = self.others.iter().filter(|(_, other)| other.removals > 0);
        others.map(|(slot, other)| (*slot, other.removals, other.last_removal))
    }

    /// The counts of all slots.
    pub(crate) fn sums(&self) -> LiveBytes {
        self.sums
    }

    /// A slot owns also what another one does.
    pub(crate) fn share(&mut self, from: u32, to: u32) {
        let live = self.live.get(from as usize).copied().unwrap_or_default();
        if live > 0 {
            self.add_live(to, live);
        }
        if let Some(other) = self.others.get(&from).copied() {
            self.sums.kept += u64::from(other.kept);
            self.sums.removals += u64::from(other.removals);
            self.others.insert(to, other);
        }
    }

    /// A slot owns nothing any more.
    pub(crate) fn forget(&mut self, slot: u32) {
        if let Some(live) = self.live.get_mut(slot as usize) {
            self.sums.live -= u64::from(std::mem::take(live));
        }
        if let Some(other) = self.others.remove(&slot) {
            self.sums.kept -= u64::from(other.kept);
            self.sums.removals -= u64::from(other.removals);
        }
    }

    /// All entries were read, and those that are still counted are unused.
    pub(crate) fn clear(&mut self) {
        *self = SegmentUse::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_follow_entries_and_slots() {
        let mut segment = SegmentUse::default();
        segment.add_live(2, 100);
        segment.add_live(0, 30);
        segment.change(2, (7, 40), Some(EntryUse::Live), Some(EntryUse::Removal));
        segment.change(2, (5, 20), Some(EntryUse::Live), Some(EntryUse::Kept));
        assert_eq!(segment.sums(), LiveBytes { live: 70, kept: 20, removals: 40 });
        segment.share(2, 3);
        assert_eq!(segment.sums(), LiveBytes { live: 110, kept: 40, removals: 80 });
        segment.forget(2);
        assert_eq!(segment.removals().collect::<Vec<_>>(), [(3, 40, 7)]);
        segment.change(3, (7, 40), Some(EntryUse::Removal), None);
        segment.change(3, (5, 20), Some(EntryUse::Kept), None);
        segment.change(3, (4, 40), Some(EntryUse::Live), None);
        segment.change(0, (1, 30), Some(EntryUse::Live), None);
        assert_eq!(segment.sums().sum(), 0);
    }

    #[test]
    fn segment_was_judged_at_the_lowest_commit_index_of_its_copies() {
        let mut segment = SegmentUse::default();
        assert_eq!(segment.judged(1), 0);
        segment.judge(1, 9);
        segment.judge(1, 6);
        segment.judge(1, 12);
        assert_eq!((segment.judged(1), segment.judged(2)), (6, 0));
    }
}
