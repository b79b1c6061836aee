//! Bytes of a partition's entries in a shared log.

use crate::log::LogSizes;
use crate::log::shared::live_bytes::EntryUse;

/// Bytes of a partition's entries.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PartSizes {
    /// Live ones, and those that snapshots need.
    pub(super) used: u64,
    pub(super) removals: u64,
    /// Those that died since the start, as far as their segments are still there.
    pub(super) dead: u64,
}

impl PartSizes {
    #[inline]
    pub(super) fn change(&mut self, bytes: u64, was: Option<EntryUse>, now: Option<EntryUse>) {
        let before = match was {
            Some(EntryUse::Live | EntryUse::Kept) => Some(&mut self.used),
            Some(EntryUse::Removal) => Some(&mut self.removals),
            None => None,
        };
        if let Some(before) = before {
            *before = before.saturating_sub(bytes);
        }
        match now {
            Some(EntryUse::Live | EntryUse::Kept) => self.used += bytes,
            Some(EntryUse::Removal) => self.removals += bytes,
            None => self.dead += bytes,
        }
    }

    /// The sizes, and how many segments of that length the entries would fill.
    pub(super) fn all(&self, segment_bytes: u64) -> LogSizes {
        let PartSizes { used, removals, dead } = *self;
        let bytes = used + removals + dead;
        let segments = bytes.div_ceil(segment_bytes);
        LogSizes { bytes, dead_bytes: dead, removal_bytes: removals, segments }
    }
}
