//! What to compact: whether a partition is worth it, and which run of its segments.

use super::PartitionStore;
use crate::Durability;
use crate::disk::Disk;
use crate::error::EngineResult;
use crate::io::{Io, Logs};
use crate::limits::SEGMENT_BYTES_MAX;
use crate::log::entry::{EntryKind, EntryMeta};
use crate::log::segment::Segment;

/// An open segment is sealed to be compacted once it has this much, if nothing more is written, or the disk is short
/// of space.
const SEAL_PRESSED_BYTES_MIN: u64 = 16 << 10;

/// When to compact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Policy {
    /// Dead share of all bytes, in percent, above which compaction starts.
    pub(crate) dead_percent_max: u64,
    /// The size up to which a segment is written.
    pub(crate) segment_bytes: u64,
    /// The greatest length of a file.
    pub(crate) file_bytes_max: u64,
    /// An open segment is sealed to be compacted once it has this much. See
    /// [`crate::EngineOptions::check_after_bytes`].
    pub(crate) check_after_bytes: u64,
    /// Dead space does not wait until more writes cause the checkpoints that must cover it, or fill the open
    /// segment.
    pub(crate) has_reclaim_pressure: bool,
}

impl PartitionStore {
    /// Whether the dead share is above the policy's.
    pub(crate) fn needs_compaction(&self, logs: &Logs, policy: &Policy) -> bool {
        let sizes = logs.separate(self.handle).sizes();
        let waste = sizes.dead_bytes + sizes.removal_bytes;
        let is_much = waste * 100 > sizes.bytes * policy.dead_percent_max
            && waste > policy.segment_bytes.min(policy.check_after_bytes / 4);
        is_much || self.compaction.has_repaired
    }

    /// Seals the open segment if it is itself mostly dead.
    pub(super) fn seal_if_mostly_dead<D: Disk>(
        &mut self,
        io: &mut Io<D>,
        policy: &Policy,
    ) -> EngineResult<()> {
        let Some(&slot) = io.logs.separate(self.handle).order.last() else { return Ok(()) };
        let segment = io.logs.separate(self.handle).segment(slot);
        let waste = segment.dead_bytes + segment.removal_bytes;
        let bytes_min = match policy.has_reclaim_pressure {
            true => SEAL_PRESSED_BYTES_MIN.min(policy.check_after_bytes),
            false => policy.check_after_bytes,
        };
        let is_much = segment.bytes >= bytes_min && waste * 100 > segment.bytes * policy.dead_percent_max;
        if !segment.sealed && (is_much || segment.repaired_blocks() > 0) {
            io.with_separate(self.handle, |log, io| log.seal(io, slot))?;
            if !io.logs.separate(self.handle).is_in_memory_only() {
                io.with_separate(self.handle, |log, io| log.sync_begin(io))?;
            }
        }
        Ok(())
    }

    /// Whether segments that are worth it must stay because they hold state that the kept checkpoints do not
    /// cover.
    pub(crate) fn is_compaction_blocked(&self, logs: &Logs, policy: &Policy) -> bool {
        let covered = self.state_retained_through(logs);
        let is_much = |&slot: &u32| {
            let segment = logs.separate(self.handle).segment(slot);
            segment.last_index > covered && waste(segment) * 100 > segment.bytes * policy.dead_percent_max
        };
        covered < self.commit && logs.separate(self.handle).order.iter().any(is_much)
    }

    /// Whether a sealed segment that is worth it must stay until checkpoints cover it. (To an open segment,
    /// the entry that makes the next checkpoint possible would be added.)
    pub(crate) fn waits_for_checkpoint(&self, logs: &Logs, policy: &Policy) -> bool {
        let covered = self.state_retained_through(logs);
        let is_worth = |&slot: &u32| {
            let segment = logs.separate(self.handle).segment(slot);
            segment.sealed
                && segment.last_index > covered
                && waste(segment) * 100 > segment.bytes * policy.dead_percent_max
        };
        self.durability != Durability::Memory
            && !self.is_stopped()
            && !self.is_incoming()
            && self.needs_compaction(logs, policy)
            && logs.separate(self.handle).order.iter().any(is_worth)
    }

    /// Whether a segment may be rewritten; with `once_durable`, whether it may be once it is synced.
    fn may_be_rewritten(&self, logs: &Logs, slot: u32, once_durable: bool) -> bool {
        let is_state_retained =
            logs.separate(self.handle).segment(slot).last_index <= self.state_retained_through(logs);
        is_state_retained && self.may_be_copied(logs, slot, once_durable)
    }

    /// The same for a segment that is rewritten with all entries that the kept checkpoints do not cover, dead
    /// or not.
    fn may_be_copied(&self, logs: &Logs, slot: u32, once_durable: bool) -> bool {
        let log = logs.separate(self.handle);
        let segment = log.segment(slot);
        let is_safe = once_durable || segment.is_durable() || log.is_in_memory_only();
        segment.sealed && is_safe && segment.last_index <= self.commit && !segment.is_damaged
    }

    /// The segment with the largest wasted share, and its neighbours as far as they fit into one segment with
    /// it; with `once_durable` as if all were synced.
    pub(super) fn choose_run(&self, logs: &Logs, policy: &Policy, once_durable: bool) -> Option<Vec<u32>> {
        let order = &logs.separate(self.handle).order;
        let best = self.most_worthwhile(logs, policy, once_durable)?;
        let (mut from, mut until) = (best, best + 1);
        let mut bytes = live(logs.separate(self.handle).segment(order[best]));
        // Dead entries are dropped in any case, removals may have to stay.
        let mut bytes_max = logs.separate(self.handle).segment(order[best]).bytes;
        let fits = |slot: u32, bytes: u64, bytes_max: u64| {
            let segment = logs.separate(self.handle).segment(slot);
            let is_worth = waste(segment) * 200 > segment.bytes * policy.dead_percent_max
                || live(segment) < policy.segment_bytes / 4;
            let has_room = bytes + live(segment) <= policy.segment_bytes
                && bytes_max + segment.bytes.saturating_sub(segment.dead_bytes)
                    <= SEGMENT_BYTES_MAX.min(policy.file_bytes_max);
            self.may_be_rewritten(logs, slot, once_durable) && !segment.is_unmergeable && has_room && is_worth
        };
        let counts = |from: usize, until: usize| {
            let (first, last) = (
                logs.separate(self.handle).segment(order[from]),
                logs.separate(self.handle).segment(order[until]),
            );
            let timestamp = first.base().timestamp;
            first.base().reaches(&EntryMeta {
                kind: EntryKind::Footer,
                flags: 0,
                epoch: last.last_epoch,
                index: last.last_index,
                timestamp,
            })
        };
        // A segment whose dead entries stay keeps its size, and has no room for neighbours.
        let is_alone = logs.separate(self.handle).segment(order[best]).is_unmergeable
            || !self.may_be_rewritten(logs, order[best], once_durable);
        while !is_alone && until < order.len() && fits(order[until], bytes, bytes_max) && counts(from, until)
        {
            bytes += live(logs.separate(self.handle).segment(order[until]));
            bytes_max += logs.separate(self.handle).segment(order[until]).bytes;
            until += 1;
        }
        while !is_alone && from > 0 && fits(order[from - 1], bytes, bytes_max) && counts(from - 1, until - 1)
        {
            from -= 1;
            bytes += live(logs.separate(self.handle).segment(order[from]));
            bytes_max += logs.separate(self.handle).segment(order[from]).bytes;
        }
        Some(order[from..until].to_vec())
    }

    /// The segment where rewriting frees most. Dead entries are freed at once; removals only where they may
    /// be dropped. If removals are many and must stay, the oldest segment with dead entries is what blocks
    /// them. A segment with a repaired entry comes first, and waits for no checkpoint: an entry that is right
    /// in memory only is corrupt again after any restart.
    fn most_worthwhile(&self, logs: &Logs, policy: &Policy, once_durable: bool) -> Option<usize> {
        let sizes = logs.separate(self.handle).sizes();
        let removals_are_much = sizes.removal_bytes * 200 > sizes.bytes * policy.dead_percent_max;
        let mut best: Option<(u64, usize)> = None;
        let mut removals_through = self.versions.oldest_ended_by() - 1;
        let mut is_first_blocker = true;
        for (at, &slot) in logs.separate(self.handle).order.iter().enumerate() {
            let segment = logs.separate(self.handle).segment(slot);
            let dead_is_much = segment.dead_bytes * 200 > segment.bytes * policy.dead_percent_max;
            let removals_may_go = segment.removal_bytes > 0 && removals_through >= segment.last_index;
            let blocks = removals_are_much && is_first_blocker && segment.dead_bytes > 0;
            let is_repaired = segment.repaired_blocks() > 0;
            let share = if is_repaired { u64::MAX } else { waste(segment) * 1000 / segment.bytes.max(1) };
            let is_worth = dead_is_much || removals_may_go || blocks;
            // It was written under a higher limit of file sizes.
            let is_too_long = live(segment) > policy.file_bytes_max;
            if is_too_long {
                continue;
            }
            if (is_worth && self.may_be_rewritten(logs, slot, once_durable)
                || is_repaired && self.may_be_copied(logs, slot, once_durable))
                && best.is_none_or(|(most, _)| share > most)
            {
                best = Some((share, at));
            }
            is_first_blocker &= segment.dead_bytes == 0;
            removals_through = removals_through.min(blocked_removals(segment));
        }
        best.map(|(_, at)| at)
    }
}

fn waste(segment: &Segment) -> u64 {
    segment.dead_bytes + segment.removal_bytes
}

fn live(segment: &Segment) -> u64 {
    debug_assert!(segment.has_sound_counts(), "{} dead of {}", waste(segment), segment.bytes);
    segment.bytes.saturating_sub(waste(segment))
}

/// The log index up to which removals in newer segments are not needed for this one.
pub(super) fn blocked_removals(segment: &Segment) -> u64 {
    if segment.dead_bytes == 0 && !segment.is_damaged { u64::MAX } else { segment.header.compacted_at }
}
