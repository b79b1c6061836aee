//! A copy of a segment, as another partition's segment.

use super::Segment;
use crate::PartitionId;
use crate::disk::{Disk, DiskError, OpenMode};
use crate::error::EngineResult;
use crate::log::restamp::restamp;
use crate::planted::{Bug, is_planted};
use crate::resources::LogResources;

impl Segment {
    /// Copies the segment into a folder, as that partition's, and syncs the copy; the caller syncs the name. A log in memory
    /// only is copied in memory.
    pub(crate) fn copy_for<D: Disk>(
        &self,
        io: &mut LogResources<'_, D>,
        (partition, folder): (PartitionId, &str),
        in_memory_only: bool,
    ) -> EngineResult<Segment> {
        let mut bytes = Vec::new();
        let was_checked = self.read(io.disk, 0, self.bytes as usize, &mut bytes)?;
        let header = self.header.of_partition(partition);
        let is_clean = restamp(&self.header, &header, &mut bytes) || was_checked;
        let mut copy = if in_memory_only {
            let mut copy = Segment::new(header, folder);
            (copy.blocks, copy.bytes) = (Vec::new(), 0);
            io.memory.add_used(copy.push(&bytes));
            copy
        } else {
            let path = format!("{folder}/{}", header.file_name());
            let file = io.disk.open(&path, OpenMode::Create)?;
            io.disk.append(file, &bytes)?;
            if !is_planted(Bug::ParentRemovedBeforeChildSync) {
                io.disk.sync(file).map_err(DiskError::beyond_repair)?;
            }
            Segment::found(header, path, file, bytes.len() as u64)
        };
        copy.trust_from(if is_clean { 0 } else { u64::MAX });
        copy.sealed = self.sealed;
        copy.is_unmergeable = self.is_unmergeable;
        copy.copy_metadata_of(self);
        if !in_memory_only && !copy.sealed {
            copy.load_open_block(io)?;
        }
        Ok(copy)
    }

    /// Takes the metadata of the original's entries; the original may have grown since.
    pub(crate) fn copy_metadata_of(&mut self, original: &Segment) {
        (self.last_index, self.last_epoch) = (original.last_index, original.last_epoch);
        self.synced_index = original.last_index;
        self.entries = original.entries;
        self.samples.clone_from(&original.samples);
        (self.positions, self.last_position_at) = (original.positions.clone(), original.last_position_at);
        self.removal_bytes = original.removal_bytes;
        self.dead_bytes = original.dead_bytes;
        self.dead = original.dead.clone();
        self.is_damaged = original.is_damaged;
    }
}
