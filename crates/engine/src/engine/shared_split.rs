//! Splits of partitions in a shared log: nothing is copied but the index in memory.
//!
//! ```text
//!   flush ──> creations of the children, parent dropped ──> flush: the split has happened
//! ```

use super::{Engine, Handle, store_of};
use crate::PartitionId;
use crate::disk::Disk;
use crate::disk::crash_point::CrashPoint;
use crate::error::{EngineError, EngineResult};
use crate::planted::{Bug, is_planted};

impl<D: Disk> Engine<D> {
    /// See [`Engine::split_partition`].
    pub(super) fn split_shared(
        &mut self,
        handle: Handle,
        (parent, children): (PartitionId, &[PartitionId]),
        state: Option<(u64, &[u8])>,
    ) -> EngineResult<Option<EngineError>> {
        let is_on_disk = !self.io.logs.view(handle.0).is_in_memory_only();
        let full = |engine: &mut Self, error: EngineError| engine.io.full_or(error);
        if is_on_disk {
            self.flush_shared(true).map_err(|error| full(self, error))?;
        }
        let next_handle = self.partitions.len() as u32;
        let numbered: Vec<(PartitionId, u32)> = children.iter().copied().zip(next_handle..).collect();
        let (io, store) = self.store(handle)?;
        let seed = store.id.index_seed;
        if let Some(shared) = io.logs.shared_mut() {
            shared.split(store.handle, &numbered, seed)?;
        }
        if is_on_disk && !is_planted(Bug::SplitNotSynced) {
            match self.flush_shared(true) {
                Err(error) if error.is_out_of_space() => {
                    if let Some(shared) = self.io.logs.shared_mut() {
                        shared.undo_split(handle.0, &numbered, seed)?;
                    }
                    return Err(full(self, error));
                }
                // Whether it has happened is unknown until the folder is opened again: the log has stopped.
                flushed => flushed?,
            }
        }
        self.io.disk.reached(CrashPoint::SplitDecided);
        for (number, name) in numbered.into_iter().enumerate() {
            self.add_child(handle, (number, name), state)?;
        }
        if let Some(shared) = self.io.logs.shared_mut() {
            shared.forget_split(handle.0);
        }
        let left = self.drop_partition(parent);
        self.evict();
        Ok(left.err())
    }

    fn add_child(
        &mut self,
        parent: Handle,
        (number, (id, child)): (usize, (PartitionId, u32)),
        state: Option<(u64, &[u8])>,
    ) -> EngineResult<()> {
        let Engine { io, partitions, maintenance, .. } = self;
        let mut store = Box::new(store_of(partitions, parent)?.clone_for((id, child), state));
        if let Some(shared) = io.logs.shared()
            && let Some(slot) = shared.slot(child)
        {
            store.checkpoints.retained = shared.rounds.retained(&shared.log, slot);
        }
        if is_planted(Bug::UncommittedTailInOneChild) && number == 1 {
            let commit = store.commit;
            store.truncate_after(io, commit)?;
        }
        let handle = Handle(child);
        maintenance.recovered(&io.logs, handle, &mut store);
        if !io.logs.view(child).is_in_memory_only() {
            // A mark must confirm what was synced.
            store.is_dirty = true;
            maintenance.sync_later(handle, store.durability.sync_after_ms());
        }
        partitions.push(Some(store));
        self.by_id.insert(id, handle);
        Ok(())
    }
}
