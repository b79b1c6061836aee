//! An exact count of the dead bytes of each segment, from the log and the index: the counters must equal it.

use super::PartitionStore;
use super::entry_use::PlacedEntry;
use crate::disk::Disk;
use crate::error::EngineResult;
use crate::index::location::Location;
use crate::io::{Io, Logs};
use crate::log::entry::{EntryKind, Head};
use crate::log::scan::{self, ScanItem};
use crate::log::shared::format::{self, SharedKind};
use crate::log::shared::live_bytes::EntryUse;
use crate::log::shared::scan::{LogItem, items};
use crate::log::{AppendedPlace, FIRST_ENTRY_AT};
use crate::logs::{LogView, SharedLogs};

/// The dead bytes and the removals of one segment, as counted while entries died and as found by reading the segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SegmentRecount {
    /// The first log index that the segment may hold.
    pub first_index: u64,
    /// How often compaction has rewritten it.
    pub generation: u32,
    /// Length, in bytes.
    pub bytes: u64,
    /// The counter of dead bytes.
    pub dead_bytes: u64,
    /// Bytes of committed puts and appends that nothing refers to.
    pub dead_bytes_found: u64,
    /// The counter of the bytes of removals.
    pub removal_bytes: u64,
    /// Bytes of removals and trims.
    pub removal_bytes_found: u64,
    /// The part of these that trims have: a trim that a record depends on is not counted as a removal.
    pub trim_bytes_found: u64,
}

impl SegmentRecount {
    /// Whether the counters are right.
    #[must_use]
    pub fn is_right(&self) -> bool {
        let least_removals = self.removal_bytes_found - self.trim_bytes_found;
        self.dead_bytes == self.dead_bytes_found
            && (least_removals..=self.removal_bytes_found).contains(&self.removal_bytes)
    }
}

/// Reads every segment. Empty while locations are being redirected to a copy, while another member's log is being
/// installed, after a failure of the disk, and if a part of the log is corrupt: then the counters are estimates.
///
/// # Panics
/// If the table of places disagrees with the log.
pub(crate) fn recount<D: Disk>(store: &PartitionStore, io: &mut Io<D>) -> EngineResult<Vec<SegmentRecount>> {
    let mut counts = Vec::new();
    let is_exact = !store.is_incoming() && !store.is_stopped() && store.damage.is_empty();
    if store.compaction.is_swapping() || !is_exact {
        return Ok(counts);
    }
    if let Logs::Shared(shared) = &io.logs {
        return recount_shared(store, shared, &mut io.disk);
    }
    let (mut bytes, mut rows) = (Vec::new(), 0);
    let log = io.logs.separate(store.handle);
    for &slot in &log.order {
        let segment = log.segment(slot);
        let first_index = segment.first_index();
        let mut count = SegmentRecount {
            first_index,
            generation: segment.header.generation,
            bytes: segment.bytes,
            dead_bytes: segment.dead_bytes,
            removal_bytes: segment.removal_bytes,
            ..SegmentRecount::default()
        };
        segment.read(&mut io.disk, FIRST_ENTRY_AT, segment.bytes as usize, &mut bytes)?;
        for item in scan::items(segment.base(), &bytes, FIRST_ENTRY_AT, first_index - 1) {
            let ScanItem::Entry { offset, entry, .. } = item else { continue };
            let entry_bytes = entry.head.entry_bytes() as u64;
            match entry.head.meta.kind {
                EntryKind::Put | EntryKind::Append => {
                    let place = store.places.get(LogView::Separate(log), entry.head.meta.index);
                    let is_named = place.is_some();
                    if let Some(place) = place {
                        let here = Location::entry(slot, offset as u32, entry.head.entry_bytes());
                        assert_eq!(place, here, "the place of a part is where its entry is");
                        rows += 1;
                    }
                    let is_dead = !is_referenced(store, slot, offset as u32, &entry.head, entry.key);
                    assert!(!is_dead || !is_named, "the place of a dead entry is removed");
                    count.dead_bytes_found += if is_dead { entry_bytes } else { 0 };
                }
                EntryKind::Remove => count.removal_bytes_found += entry_bytes,
                EntryKind::Trim => {
                    count.removal_bytes_found += entry_bytes;
                    count.trim_bytes_found += entry_bytes;
                }
                EntryKind::Mark | EntryKind::Synced | EntryKind::Footer => {}
            }
        }
        counts.push(count);
    }
    assert_eq!(rows, store.places.len(), "a place is of an entry that something names");
    Ok(counts)
}

/// The same for a partition of a shared log: what is not used, and removals, of the bytes that it owns in each segment. More removals
/// may be counted than are found, as those of keys that exist again are still counted.
fn recount_shared<D: Disk>(
    store: &PartitionStore,
    shared: &SharedLogs,
    disk: &mut D,
) -> EngineResult<Vec<SegmentRecount>> {
    let (log, mut counts, mut bytes) = (&shared.log, Vec::new(), Vec::new());
    let Some(slot) = shared.slot(store.handle).filter(|_| shared.has_settled()) else { return Ok(counts) };
    for number in log.segments() {
        let Some(segment) = log.segment(number) else { continue };
        if !segment.is_counted() {
            continue;
        }
        let counted = segment.uses.of_slot(slot.number() as u32);
        let (mut owned, mut used, mut removals) = (0, 0, 0);
        let from = format::FIRST_ENTRY_AT as u64;
        segment.read(disk, from, segment.complete_bytes().saturating_sub(from) as usize, &mut bytes)?;
        for item in items(segment.base, &bytes, from) {
            let LogItem::Entry { offset, head, key, .. } = item else { continue };
            let SharedKind::Replicated(kind) = head.kind else { continue };
            if !log.owns(slot, &head) {
                continue;
            }
            let entry_bytes = u64::from(segment.uses.bytes_of(head.entry_bytes() as u32));
            owned += entry_bytes;
            let Some(at) = shared.segments.get(number) else { continue };
            let at = AppendedPlace { slot: at, offset: offset as u32, entry_bytes: head.entry_bytes() };
            let entry = PlacedEntry { index: head.index, kind, flags: head.flags, key, at };
            let is_committed_trim = kind == EntryKind::Trim && head.index <= store.commit;
            match store.use_of(&entry) {
                // The place of a trim is not in sections.
                Some(_) if is_committed_trim && !store.knows_trim(key) => owned -= entry_bytes,
                Some(EntryUse::Live | EntryUse::Kept) => used += entry_bytes,
                Some(EntryUse::Removal) if kind == EntryKind::Remove => removals += entry_bytes,
                // Contents that an entry of another kind has replaced may be judged to be needed longer than they are.
                Some(EntryUse::Removal) | None => {}
            }
        }
        let has_all = segment.state.are_removals_counted && !shared.compaction.is_emptying(number);
        let counts_too_few = has_all && counted.removals < removals;
        counts.push(SegmentRecount {
            first_index: number,
            bytes: owned,
            dead_bytes: owned.saturating_sub(counted.live + counted.kept),
            dead_bytes_found: owned - used,
            removal_bytes: if counts_too_few { counted.removals } else { removals },
            removal_bytes_found: removals,
            ..SegmentRecount::default()
        });
    }
    Ok(counts)
}

/// Whether anything refers to this put or append, or will: an entry that is not committed is not dead.
fn is_referenced(store: &PartitionStore, slot: u32, offset: u32, head: &Head, key: &[u8]) -> bool {
    let (index, fragment) = (head.meta.index, store.fragment(key));
    let location = Location::entry(slot, offset, head.entry_bytes());
    index > store.commit
        || store.index.hash.find_slot(fragment, location).is_some()
        || store.is_part(fragment, index)
        || store.versions.needs(fragment, index)
}
