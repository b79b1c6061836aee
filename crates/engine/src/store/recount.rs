//! An exact count of the dead bytes of each segment, from the log and the index: the counters must equal it.

use super::PartitionStore;
use crate::disk::Disk;
use crate::error::EngineResult;
use crate::index::location::Location;
use crate::io::Io;
use crate::log::FIRST_ENTRY_AT;
use crate::log::entry::{EntryKind, Head};
use crate::log::scan::{self, ScanItem};
use crate::logs::LogView;

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
    if io.logs.shared().is_some() || store.compaction.is_swapping() || !is_exact {
        return Ok(counts);
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

/// Whether anything refers to this put or append, or will: an entry that is not committed is not dead.
fn is_referenced(store: &PartitionStore, slot: u32, offset: u32, head: &Head, key: &[u8]) -> bool {
    let (index, fragment) = (head.meta.index, store.fragment(key));
    let location = Location::entry(slot, offset, head.entry_bytes());
    index > store.commit
        || store.index.hash.find_slot(fragment, location).is_some()
        || store.is_part(fragment, index)
        || store.versions.needs(fragment, index)
}
