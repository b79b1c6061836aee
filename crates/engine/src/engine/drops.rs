//! Dropped partitions: their memory is released, and their files are removed.
//!
//! ```text
//!   drop_partition         journal's record, memory, files                all at once
//!   drop_partition_later   journal's record │ maintain: memory, some blocks a call ── then files, one partition a call
//! ```
//!
//! Dropping a partition of a gibibyte takes tens of milliseconds, in which the instance answers no other
//! request.

use super::{Engine, Handle, folder_of};
use crate::PartitionId;
use crate::disk::Disk;
use crate::error::{EngineError, EngineResult};
use crate::store::PartitionStore;

/// Time between two attempts to remove files that could not be removed at once.
const DROP_AGAIN_MS: u64 = 1_000;

/// Segments of dropped partitions whose memory a call of [`Engine::maintain`] releases: 16 MiB with the
/// settings of nodes, about a millisecond.
const BURIED_PER_CALL: usize = 1;

/// What is left of a partition that is no longer open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LeftoverFiles {
    /// Files, and the journal's record that the partition is dropped, which must be durable before the files
    /// are removed.
    JournalToFlush,
    /// Files.
    Files,
    /// A folder marked as split: it is removed at a later start, once the journal has nothing of it.
    UntilNextStart,
}

impl<D: Disk> Engine<D> {
    /// Removes a partition and its files. The partition is closed from here on, even if the disk fails.
    ///
    /// # Errors
    /// Errors of the disk. The next call, also after opening again, or [`Engine::maintain`] removes the rest;
    /// until then the partition cannot be opened again.
    pub fn drop_partition(&mut self, id: PartitionId) -> EngineResult<()> {
        if !self.dropping.contains_key(&id) {
            let mut store = self.close_keeping_files(id)?;
            store.release(&mut self.io);
        }
        self.end_drop(id)
    }

    /// As [`Engine::drop_partition`], but later calls of [`Engine::maintain`] release memory and files step
    /// by step, so that no call takes long. Opening the partition again removes the rest first. A crash
    /// before leaves it as it was.
    ///
    /// # Errors
    /// [`EngineError::UnknownPartition`].
    pub fn drop_partition_later(&mut self, id: PartitionId) -> EngineResult<()> {
        if !self.dropping.contains_key(&id) {
            let mut store = self.close_keeping_files(id)?;
            store.close_files(&mut self.io);
            self.buried.push(*store);
        }
        Ok(())
    }

    /// Closes a partition; its memory and its files remain.
    fn close_keeping_files(&mut self, id: PartitionId) -> EngineResult<Box<PartitionStore>> {
        let Some(&handle) = self.by_id.get(&id) else { return Err(EngineError::UnknownPartition) };
        let is_in_journal = self.journal.has_records_of(handle.0);
        if let Some(shared) = self.io.logs.shared_mut() {
            // A log that has stopped says so when it is flushed.
            let _ = shared.drop_partition(handle.0);
        }
        if is_in_journal {
            // Otherwise a replay would restore the entries that the journal still holds.
            self.journal.push_truncated(handle.0, id, 0);
        }
        let store = self.remove_partition(id, handle).ok_or(EngineError::UnknownPartition)?;
        self.dropping
            .insert(id, if is_in_journal { LeftoverFiles::JournalToFlush } else { LeftoverFiles::Files });
        Ok(store)
    }

    fn remove_partition(&mut self, id: PartitionId, handle: Handle) -> Option<Box<PartitionStore>> {
        self.by_id.remove(&id);
        self.journal.remove_partition(handle.0);
        let mut store = self.partitions[handle.0 as usize].take()?;
        self.maintenance.remove(handle, &mut store);
        Some(store)
    }

    /// Removes the files of a closed partition, once the journal's record of the drop is durable.
    pub(super) fn end_drop(&mut self, id: PartitionId) -> EngineResult<()> {
        if self.dropping.get(&id) == Some(&LeftoverFiles::JournalToFlush) {
            self.flush()?;
            self.dropping.insert(id, LeftoverFiles::Files);
        }
        self.remove_files(id)
    }

    /// Releases some of the memory of dropped partitions, or all of it with `all`. Returns whether there was
    /// any.
    pub(super) fn free_dropped(&mut self, all: bool) -> bool {
        let was_any = !self.buried.is_empty();
        let mut left = if all { usize::MAX } else { BURIED_PER_CALL };
        while let Some(store) = self.buried.last_mut() {
            if !store.release_some(&mut self.io, &mut left) {
                self.buried.pop();
            }
            if left == 0 {
                break;
            }
        }
        was_any
    }

    /// Continues the deferred removals, one a call, and periodically those that have failed half-way. Returns
    /// whether there is more to do soon.
    pub(super) fn end_drops(&mut self, now_ms: u64) -> EngineResult<bool> {
        if !self.buried.is_empty() {
            self.free_dropped(false);
            return Ok(true);
        }
        if self.dropping.is_empty() || now_ms < self.maintenance.drop_again_ms {
            return Ok(false);
        }
        let is_due = |id: &PartitionId| self.maintenance.drop_tried.is_none_or(|tried| *id > tried);
        let now = self.dropping.iter().filter(|(_, left)| **left != LeftoverFiles::UntilNextStart);
        let Some(id) = now.map(|(id, _)| *id).find(is_due) else {
            // All remaining removals have failed, or wait for a start.
            self.maintenance.drop_tried = None;
            self.maintenance.drop_again_ms = now_ms + DROP_AGAIN_MS;
            return Ok(false);
        };
        self.maintenance.drop_tried = Some(id);
        match self.end_drop(id) {
            Ok(()) | Err(EngineError::DiskFull { .. } | EngineError::Scarce { .. }) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Removes the rest of all dropped partitions, as far as possible: at a clean shutdown.
    pub(super) fn end_all_drops(&mut self) -> EngineResult<()> {
        self.free_dropped(true);
        let now = self.dropping.iter().filter(|(_, left)| **left != LeftoverFiles::UntilNextStart);
        for id in now.map(|(id, _)| *id).collect::<Vec<_>>() {
            match self.end_drop(id) {
                // The next opening continues the removal.
                Ok(()) | Err(EngineError::DiskFull { .. } | EngineError::Scarce { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    pub(super) fn remove_files(&mut self, id: PartitionId) -> EngineResult<()> {
        match self.io.logs.shared() {
            // The log says that no partition owns its entries.
            Some(_) => self.flush_shared(true)?,
            None => self.clear_folder(&folder_of(id))?,
        }
        self.dropping.remove(&id);
        Ok(())
    }
}
