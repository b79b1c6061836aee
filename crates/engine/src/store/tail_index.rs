//! The places of a partition's recent entries, by log index: a follower or the commit reads them without a search of the log.
//!
//! ```text
//!   committed: places only │ not committed: fields and places
//!   (up to RECENT_MAX)     │ (all)
//! ```
//!
//! Entries of a replica group of one are applied when they are written, and never read by log index: they are not here.

use std::collections::VecDeque;

use crate::index::location::Location;
use crate::log::AppendedPlace;
use crate::log::entry::EntryMeta;
use crate::planted::{Bug, is_planted};

/// Committed entries whose places are kept: 8 KiB of places. A follower that is further behind is served by a search.
const RECENT_MAX: usize = 1024;

/// An entry that is in the log and not in the index.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PendingEntry {
    pub(crate) meta: EntryMeta,
    pub(crate) location: AppendedPlace,
}

/// The places of recent entries.
#[derive(Clone, Default)]
pub(crate) struct RecentEntries {
    /// Appended and not committed, in log order. Entries that recovery did not find are left out.
    pending: VecDeque<PendingEntry>,
    /// Places of the entries from this log index on, without a gap.
    first: u64,
    committed: VecDeque<Location>,
    /// Epoch and index of the newest entry that is known to be committed. Compaction may have left the entry out.
    newest: (u32, u64),
    /// No entry was committed since the last [`RecentEntries::release_if_idle`].
    is_idle: bool,
}

impl RecentEntries {
    /// An entry was appended: it waits to be committed.
    #[inline]
    pub(crate) fn push(&mut self, meta: &EntryMeta, location: AppendedPlace) {
        self.pending.push_back(PendingEntry { meta: *meta, location });
    }

    /// The first entry that is not committed.
    #[inline]
    pub(crate) fn first_pending(&self) -> Option<&PendingEntry> {
        self.pending.front()
    }

    /// The pending ones, in log order.
    pub(crate) fn pending(&self) -> impl Iterator<Item = &PendingEntry> {
        self.pending.iter()
    }

    /// The last entry that is not committed.
    pub(crate) fn last_pending(&self) -> Option<&PendingEntry> {
        self.pending.back()
    }

    /// Whether all entries are committed.
    #[inline]
    pub(crate) fn is_all_committed(&self) -> bool {
        self.pending.is_empty()
    }

    /// The first entry that was not committed is committed now.
    #[inline]
    pub(crate) fn commit_first(&mut self) {
        let Some(entry) = self.pending.pop_front() else { return };
        let AppendedPlace { slot, offset, entry_bytes } = entry.location;
        if entry.meta.index != self.first + self.committed.len() as u64 {
            self.committed.clear();
            self.first = entry.meta.index;
        }
        if self.committed.len() == RECENT_MAX {
            self.committed.pop_front();
            self.first += 1;
        }
        self.committed.push_back(Location::entry(slot, offset, entry_bytes));
        self.newest = (entry.meta.epoch, entry.meta.index);
        self.is_idle = false;
    }

    /// The entry of this epoch and index is committed, without having waited for it.
    #[inline]
    pub(crate) fn note_committed(&mut self, epoch: u32, index: u64) {
        self.newest = (epoch, index);
    }

    /// The epoch of an entry, if it is not committed or the newest that is.
    pub(crate) fn epoch_of(&self, index: u64) -> Option<u32> {
        if index == self.newest.1 {
            return Some(self.newest.0);
        }
        let at = self.pending.partition_point(|entry| entry.meta.index < index);
        self.pending.get(at).filter(|entry| entry.meta.index == index).map(|entry| entry.meta.epoch)
    }

    /// The last entry is about to be truncated if it is behind this log index and not committed. Returns it.
    pub(crate) fn pop_after(&mut self, index: u64) -> Option<PendingEntry> {
        let is_behind = self.pending.back().is_some_and(|last| last.meta.index > index);
        if is_behind { self.pending.pop_back() } else { None }
    }

    /// The last log index of the atomic batches among the uncommitted entries that end at or before `index`.
    pub(crate) fn complete_batches_through(&self, index: u64) -> Option<u64> {
        let upto = self.pending.partition_point(|pending| pending.meta.index <= index);
        let ends = self.pending.range(..upto).rev().find(|pending| !pending.meta.is_joined());
        ends.map(|last| last.meta.index)
    }

    /// The place of the entry of this log index, if it is a recent one.
    #[inline]
    pub(crate) fn place_of(&self, index: u64) -> Option<Location> {
        if let Some(first) = self.pending.front()
            && let Some(behind) = index.checked_sub(first.meta.index)
        {
            let entry = self.pending.get(behind as usize).filter(|entry| entry.meta.index == index)?;
            let AppendedPlace { slot, offset, entry_bytes } = entry.location;
            return Some(Location::entry(slot, offset, entry_bytes));
        }
        let mut behind = index.checked_sub(self.first);
        if is_planted(Bug::RecentEntriesWrap) && !self.committed.is_empty() {
            behind = Some(index % self.committed.len() as u64);
        }
        self.committed.get(behind? as usize).copied()
    }

    /// Compaction has moved the entries up to this log index.
    pub(crate) fn forget_through(&mut self, index: u64) {
        let moved = (index + 1).saturating_sub(self.first).min(self.committed.len() as u64);
        self.committed.drain(..moved as usize);
        self.first += moved;
    }

    /// An entry has another place.
    pub(crate) fn redirect(&mut self, index: u64, to: AppendedPlace) {
        // Entries that recovery did not find are left out.
        let at = self.pending.partition_point(|entry| entry.meta.index < index);
        if let Some(entry) = self.pending.get_mut(at).filter(|entry| entry.meta.index == index) {
            entry.location = to;
        } else if let Some(behind) = index.checked_sub(self.first)
            && let Some(place) = self.committed.get_mut(behind as usize)
        {
            *place = Location::entry(to.slot, to.offset, to.entry_bytes);
        }
    }

    /// Releases the memory of committed entries if none was added since the last call.
    pub(crate) fn release_if_idle(&mut self) {
        if std::mem::replace(&mut self.is_idle, true) {
            self.committed = VecDeque::new();
        }
    }

    /// Memory that it uses.
    pub(crate) fn bytes(&self) -> usize {
        self.pending.capacity() * size_of::<PendingEntry>()
            + self.committed.capacity() * size_of::<Location>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::entry::EntryKind;

    fn at(index: u64) -> AppendedPlace {
        AppendedPlace { slot: index as u32 / 100, offset: 64 + index as u32 % 100 * 200, entry_bytes: 200 }
    }

    fn push(recent: &mut RecentEntries, index: u64) {
        recent.push(&EntryMeta { kind: EntryKind::Put, flags: 0, epoch: 1, index, timestamp: 1 }, at(index));
    }

    fn place(index: u64) -> Option<Location> {
        let AppendedPlace { slot, offset, entry_bytes } = at(index);
        Some(Location::entry(slot, offset, entry_bytes))
    }

    #[test]
    fn places_are_of_uncommitted_and_last_committed_entries_only() {
        let mut recent = RecentEntries::default();
        (1..=5_000).for_each(|index| push(&mut recent, index));
        (1..=3_000).for_each(|_| recent.commit_first());
        let oldest = 3_000 - RECENT_MAX as u64 + 1;
        for index in 0..5_100 {
            let expected = if (oldest..=5_000).contains(&index) { place(index) } else { None };
            assert_eq!(recent.place_of(index), expected, "{index}");
        }
        while recent.pop_after(4_000).is_some() {}
        assert_eq!((recent.place_of(4_000), recent.place_of(4_001)), (place(4_000), None));
        recent.forget_through(2_500);
        assert_eq!((recent.place_of(2_500), recent.place_of(2_501)), (None, place(2_501)));
        recent.forget_through(9_000);
        assert_eq!((recent.place_of(3_000), recent.place_of(3_001)), (None, place(3_001)));
    }

    #[test]
    fn places_begin_again_behind_a_gap() {
        let mut recent = RecentEntries::default();
        for index in [1, 2, 3, 7, 8] {
            push(&mut recent, index);
        }
        assert_eq!((recent.place_of(3), recent.place_of(7)), (place(3), None), "it is searched in the log");
        (0..4).for_each(|_| recent.commit_first());
        assert_eq!((recent.place_of(3), recent.place_of(7), recent.place_of(8)), (None, place(7), place(8)));
    }

    #[test]
    fn idle_partition_keeps_only_uncommitted_entries() {
        let mut recent = RecentEntries::default();
        (1..=10).for_each(|index| push(&mut recent, index));
        (1..=8).for_each(|_| recent.commit_first());
        recent.release_if_idle();
        assert_eq!(recent.place_of(8), place(8), "one was added since the last call");
        recent.release_if_idle();
        assert_eq!([8, 9].map(|index| recent.place_of(index)), [None, place(9)]);
        recent.commit_first();
        assert_eq!([8, 9].map(|index| recent.place_of(index)), [None, place(9)]);
    }
}
