//! What the entries of a shared log are for the stores that own them: counted by segment, for compaction, and by partition.
//!
//! A store says when an entry becomes something else. What recovery has found is counted once, when all stores are complete. An
//! index names the length of an entry only to an eighth, so in segments that recovery has found each entry counts as the longest
//! that its location may name: what is live is never counted as less than it is.

use super::handle_table::HandleTable;
use super::part_sizes::PartSizes;
use super::segment_slots::SegmentSlots;
use super::shared::{SharedLogs, SharedPart};
use super::{CountedEntry, Logs};
use crate::log::shared::compact::LogCompaction;
use crate::log::shared::lifecycle::EntryUseCount;
use crate::log::shared::live_bytes::{EntryUse, LiveBytes};
use crate::log::shared::rounds::LogRounds;
use crate::log::shared::streams::{LogSlot, SharedLog};

impl Logs {
    /// An entry becomes something else for its partition; `None`: it is dead, or was not counted yet. Only a shared log counts
    /// entries by what they are.
    pub(crate) fn change_use(
        &mut self,
        handle: u32,
        entry: CountedEntry,
        was: Option<EntryUse>,
        now: Option<EntryUse>,
    ) {
        if let Logs::Shared(logs) = self {
            logs.change_use(handle, entry, was, now);
        }
    }
}

impl SharedLogs {
    pub(crate) fn change_use(
        &mut self,
        handle: u32,
        entry: CountedEntry,
        was: Option<EntryUse>,
        now: Option<EntryUse>,
    ) {
        if was == now || !self.has_begun_counting {
            return;
        }
        let part = self.parts.of_mut(handle);
        let Some(slot) = part.slot else { return };
        part.sizes.change(entry.entry_bytes, was, now);
        let segment = self.segments.number(entry.slot);
        let counted = EntryUseCount { slot, segment, index: entry.index, bytes: entry.entry_bytes as u32 };
        self.log.change_use(&counted, was, now);
    }

    /// A partition needs contents in a segment as a removal from here on.
    pub(super) fn note_dead_contents(&mut self, handle: u32, segment: u32) {
        if let Some(slot) = self.part(handle).slot {
            self.log.note_dead_contents(slot, self.segments.number(segment));
        }
    }

    /// The stores are complete, and nothing of the segments that recovery has found is counted yet.
    pub(crate) fn begin_counting(&mut self) {
        self.has_begun_counting = true;
        self.log.begin_counting();
    }

    /// What the stores refer to is counted. Removals that only sections have are not, so compaction frees no segment unread.
    pub(crate) fn end_counting(&mut self) {
        self.log.end_counting(false);
    }

    /// The partition that has a slot of the log.
    pub(crate) fn handle_of(&self, slot: LogSlot) -> Option<u32> {
        self.handles.get(slot.number()).copied().flatten()
    }

    /// What compaction works on, and what its owner follows it with.
    pub(crate) fn split_for_compaction(
        &mut self,
    ) -> (&mut SharedLog, &LogRounds, &mut LogCompaction, LogParts<'_>) {
        let SharedLogs { log, rounds, compaction, parts, handles, segments, .. } = self;
        (log, rounds, compaction, LogParts { parts, handles, segments })
    }
}

/// The partitions of a shared log, and the slots of its segments.
pub(crate) struct LogParts<'a> {
    parts: &'a mut HandleTable<SharedPart>,
    handles: &'a [Option<u32>],
    pub(crate) segments: &'a mut SegmentSlots,
}

impl LogParts<'_> {
    /// The partition that has a slot of the log.
    pub(crate) fn handle_of(&self, slot: LogSlot) -> Option<u32> {
        self.handles.get(slot.number()).copied().flatten()
    }

    /// The slot of a partition; `None` before its first entry.
    pub(crate) fn slot(&self, handle: u32) -> Option<LogSlot> {
        self.parts.of(handle).slot
    }

    fn sizes_of(&mut self, slot: LogSlot) -> Option<&mut PartSizes> {
        let handle = self.handle_of(slot)?;
        Some(&mut self.parts.of_mut(handle).sizes)
    }

    /// An entry was copied, or is a removal that nothing needs any more.
    pub(crate) fn moved(&mut self, slot: LogSlot, bytes: u64, entry_use: EntryUse, is_copied: bool) {
        let Some(sizes) = self.sizes_of(slot) else { return };
        match is_copied {
            true => sizes.dead += bytes,
            false => sizes.change(bytes, Some(entry_use), None),
        }
    }

    /// What was counted turned out to be dead.
    pub(crate) fn forgotten(&mut self, slot: LogSlot, left: LiveBytes) {
        let Some(sizes) = self.sizes_of(slot) else { return };
        sizes.change(left.live + left.kept, Some(EntryUse::Live), None);
        sizes.change(left.removals, Some(EntryUse::Removal), None);
    }

    /// Dead entries are gone with their segment.
    pub(crate) fn freed(&mut self, slot: LogSlot, bytes: u64) {
        if let Some(sizes) = self.sizes_of(slot) {
            sizes.dead = sizes.dead.saturating_sub(bytes);
        }
    }
}
