//! The end of a compaction: the copy gets its name and its place in the log, and the replaced segments are removed, or the compaction is abandoned and nothing has
//! changed.

use super::{CompactionJob, CompactionStage};
use crate::disk::crash_point::CrashPoint;
use crate::disk::{Disk, DiskError};
use crate::error::{EngineError, EngineResult};
use crate::io::Io;
use crate::log::push_footer;
use crate::store::PartitionStore;
use crate::{Damage, DamageKind};

impl PartitionStore {
    /// All entries are copied: ends the copy, and begins to sync it.
    pub(super) fn end_copy<D: Disk>(
        &mut self,
        io: &mut Io<D>,
        job: &mut CompactionJob,
    ) -> EngineResult<CompactionStage> {
        let Some(output) = job.output.as_mut() else { unreachable!("the output lives until the swap") };
        // It covers the range to its end, whatever the last live entry is.
        (output.last_epoch, output.last_index) = (output.header.covers_epoch, output.header.covers_through);
        let allocated = push_footer(output, self.commit);
        io.memory.add_used(allocated);
        if io.logs.separate(self.handle).is_in_memory_only() {
            return Ok(CompactionStage::Swap);
        }
        output.write_out(&mut io.disk, output.end(), true)?;
        io.disk.reached(CrashPoint::CompactionWritten);
        let Some(file) = output.file else { unreachable!("it was written") };
        let ticket = io.disk.sync_begin(file)?;
        // Both at the same time: each sync may have to wait behind others.
        if io.logs.separate_mut(self.handle).synced_index() < self.commit {
            io.with_separate(self.handle, |log, io| log.sync_begin_or_full(io))?;
        }
        Ok(CompactionStage::Sync(ticket, self.commit))
    }

    /// Gives the complete copy its name, and begins to sync the name, now or at a later step.
    pub(super) fn name_output<D: Disk>(
        &mut self,
        io: &mut Io<D>,
        job: &mut CompactionJob,
    ) -> EngineResult<()> {
        let log = io.logs.separate(self.handle);
        let Some(output) = job.output.as_mut() else { unreachable!("the output lives until the swap") };
        let name = format!("{}/{}", log.folder, output.header.file_name());
        io.disk.rename(&output.path, &name)?;
        output.path = name;
        job.stage = CompactionStage::Named;
        io.disk.reached(CrashPoint::CompactionNamed);
        match self.sync_name(io, job) {
            Err(error) if error.is_out_of_space() => Ok(()),
            begun => begun,
        }
    }

    /// Begins to sync the copy's name. Without a descriptor for the folder nothing is done, and a later step repeats it.
    pub(super) fn sync_name<D: Disk>(&mut self, io: &mut Io<D>, job: &mut CompactionJob) -> EngineResult<()> {
        let file = job.output.as_ref().and_then(|output| output.file);
        let Some(file) = file else { unreachable!("the copy was written, and lives until the swap") };
        let begun = io.disk.sync_begin_with_name(file, &io.logs.separate(self.handle).folder);
        job.stage = CompactionStage::Name(begun.map_err(DiskError::beyond_repair_unless_scarce)?);
        Ok(())
    }

    /// The new segment replaces the old ones in the log.
    pub(super) fn swap<D: Disk>(&mut self, io: &mut Io<D>, job: &mut CompactionJob) -> EngineResult<u32> {
        let Some(mut output) = job.output.take() else { unreachable!("the output lives until the swap") };
        let log = io.logs.separate_mut(self.handle);
        let is_in_file = !log.is_in_memory_only();
        if is_in_file {
            output.name_is_durable = true;
            (output.synced, output.synced_index) = (output.bytes, output.last_index);
            output.uncache(&mut io.disk, &io.memory);
        }
        let blocks = if is_in_file { output.block_count() as u32 } else { 0 };
        let slot = log.add_slot(output)?;
        // The rewritten data is old: it is evicted first when memory is short.
        (0..blocks).for_each(|number| io.memory.evictable.push_front((self.handle, slot, number)));
        let mut order = Vec::with_capacity(log.order.len());
        for &old in &log.order {
            if old == job.sources[0] {
                order.push(slot);
            }
            if !job.sources.contains(&old) {
                order.push(old);
            }
        }
        self.recent.forget_through(log.segment(slot).last_index);
        log.reorder(order);
        Ok(slot)
    }

    /// Removes the files of replaced segments that are not pinned.
    pub(crate) fn remove_retired<D: Disk>(&mut self, io: &mut Io<D>) -> EngineResult<()> {
        let mut result = Ok(());
        for slot in std::mem::take(&mut self.compaction.retired) {
            if io.logs.separate(self.handle).segment(slot).pins > 0 {
                self.compaction.retired.push(slot);
            } else if let Some(segment) = io.with_separate(self.handle, |log, io| log.drop_slot(io, slot))
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
        job.sources.iter().for_each(|&s| io.logs.separate_mut(self.handle).segment_mut(s).pins -= 1);
        if let Some(output) = job.output.take() {
            io.memory.freed(output.resident_bytes());
            if let Some(file) = output.file {
                io.disk.close(file);
                // Files that cannot be removed now are removed by the next compaction of these segments, or at the next recovery.
                match io.disk.remove(&output.path) {
                    Err(error) if !error.is_temporary() => self.stop_on_failure(Err(error.into()))?,
                    _ => {}
                }
            }
        }
        match error {
            EngineError::Corrupt { partition, place } => {
                let is_here = |&&s: &&u32| place.starts_with(&io.logs.separate(self.handle).segment(s).path);
                if let Some(&slot) = job.sources.iter().find(is_here) {
                    io.logs.separate_mut(self.handle).segment_mut(slot).is_damaged = true;
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
