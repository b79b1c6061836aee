//! A copy of a log, as another partition's log.

use std::collections::BTreeMap;

use super::PartitionLog;
use super::segment::Segment;
use crate::PartitionId;

impl PartitionLog {
    /// The same log made of copies of its segments, which keep their slots.
    pub(crate) fn copy_for(
        &self,
        (partition, handle): (PartitionId, u32),
        folder: String,
        mut segments: BTreeMap<u32, Segment>,
    ) -> PartitionLog {
        let mut copy = PartitionLog::new(partition, handle, folder, self.options);
        copy.slots = (0..self.slots.len() as u32).map(|slot| segments.remove(&slot).map(Box::new)).collect();
        let is_free = |slot: &u32| copy.slots[*slot as usize].is_none();
        copy.free_slots = (0..copy.slots.len() as u32).filter(is_free).collect();
        copy.order.clone_from(&self.order);
        copy.last = self.last;
        copy.marker_synced_index = self.marker_synced_index;
        copy.mark_due_at = self.mark_due_at;
        copy
    }
}
