//! The end of a compaction: the replaced segments are removed, or the compaction is abandoned and nothing has
//! changed.

use super::{CompactionJob, CompactionStage};
use crate::disk::crash_point::CrashPoint;
use crate::disk::{Disk, DiskError};
use crate::error::{EngineError, EngineResult};
use crate::io::Io;
use crate::store::PartitionStore;
use crate::{Damage, DamageKind};

impl PartitionStore {
    /// The copy is synced and gets its name.
    pub(super) fn name_output<D: Disk>(
        &mut self,
        io: &mut Io<D>,
        job: &mut CompactionJob,
    ) -> EngineResult<CompactionStage> {
        let Some(output) = job.output.as_mut() else { unreachable!("the output lives until the swap") };
        let Some(file) = output.file else { unreachable!("it was written") };
        let name = format!("{}/{}", self.log.folder, output.header.file_name());
        io.disk.rename(&output.path, &name)?;
        output.path = name;
        io.disk.reached(CrashPoint::CompactionNamed);
        let begun = io.disk.sync_begin_with_name(file, &self.log.folder);
        Ok(CompactionStage::Name(begun.map_err(DiskError::beyond_repair)?))
    }

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
                io.disk.reached(CrashPoint::SegmentRemoved);
                result = result.and(self.stop_on_failure(removed.map_err(Into::into)));
            }
        }
        result
    }

    /// Whether an entry is the second part of its record. For a mutant.
    pub(super) fn is_second_part(&self, fragment: u32, key: &[u8], index: u64) -> bool {
        let chain = self.chain_of(fragment, key).map(|id| self.chains.get(id));
        chain.and_then(|chain| chain.parts.get(1)).is_some_and(|part| part.index == index)
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
