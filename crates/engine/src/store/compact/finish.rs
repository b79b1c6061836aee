//! The end of a compaction: the replaced segments are removed, or the compaction is abandoned and nothing has
//! changed.

use super::CompactionJob;
use crate::disk::Disk;
use crate::error::{EngineError, EngineResult};
use crate::io::Io;
use crate::store::PartitionStore;
use crate::{Damage, DamageKind};

impl PartitionStore {
    /// Removes the files of replaced segments that are not pinned.
    pub(crate) fn remove_retired<D: Disk>(&mut self, io: &mut Io<D>) -> EngineResult<()> {
        let mut result = Ok(());
        for slot in std::mem::take(&mut self.compaction.retired) {
            if self.log.segment(slot).pins > 0 {
                self.compaction.retired.push(slot);
            } else if let Some(segment) = self.log.drop_slot(io, slot)
                && let Some(file) = segment.file
            {
                io.disk.close(file);
                let removed = io.disk.remove(&segment.path);
                result = result.and(self.stop_on_failure(removed.map_err(Into::into)));
            }
        }
        result
    }

    /// Abandons a compaction; the old segments are unchanged.
    pub(super) fn abandon<D: Disk>(
        &mut self,
        io: &mut Io<D>,
        job: &mut CompactionJob,
        error: EngineError,
    ) -> EngineResult<()> {
        job.sources.iter().for_each(|&s| self.log.segment_mut(s).pins -= 1);
        if let Some(output) = job.output.take() {
            io.memory.freed(output.resident_bytes());
            if let Some(file) = output.file {
                io.disk.close(file);
                // Files that cannot be removed now are removed at the next recovery.
                let removed = io.disk.remove(&output.path);
                self.stop_on_failure(removed.map_err(Into::into))?;
            }
        }
        match error {
            EngineError::Corrupt { partition, place } => {
                let is_here = |&&s: &&u32| place.starts_with(&self.log.segment(s).path);
                if let Some(&slot) = job.sources.iter().find(is_here) {
                    self.log.segment_mut(slot).is_damaged = true;
                }
                self.damage.push(Damage { partition, kind: DamageKind::Unreadable { after: 0 }, place });
                Ok(())
            }
            error if error.is_out_of_space() => {
                self.compaction.ran_out_of_space = true;
                Ok(())
            }
            EngineError::Limit { .. } | EngineError::Stopped { .. } => Ok(()),
            other => self.stop_on_failure(Err(other)),
        }
    }
}
