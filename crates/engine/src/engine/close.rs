//! The clean shutdown of an engine.

use super::pending_durability::JOURNALED_BYTES_MAX;
use super::{Engine, Handle};
use crate::disk::Disk;
use crate::error::{EngineError, EngineResult};
use crate::io::Logs;
use crate::options::Durability;
use crate::store::PartitionStore;

impl<D: Disk> Engine<D> {
    /// Closes cleanly: everything is synced, every changed partition has a checkpoint, and no journal is left
    /// to replay. If the disk has no room for all of that, everything still survives, in the journal, whose
    /// space is preallocated; the next start replays it.
    ///
    /// # Errors
    /// Errors of the disk. [`EngineError::DiskFull`]: there was no room in the journal either, and partitions
    /// that do not flush every write lose their last accepted entries.
    pub fn close(mut self) -> EngineResult<D> {
        match self.tidy() {
            Err(EngineError::DiskFull { .. } | EngineError::Scarce { .. }) => self.save()?,
            tidied => tidied?,
        }
        Ok(self.io.disk)
    }

    fn tidy(&mut self) -> EngineResult<()> {
        let tidied = self.tidy_all();
        tidied.map_err(|error| self.io.full_or(error))
    }

    fn tidy_all(&mut self) -> EngineResult<()> {
        self.end_all_drops()?;
        self.sync()?;
        // The marks that confirm what is synced: unreadable bytes before a mark are corrupt, not a torn tail.
        let Engine { io, partitions, .. } = self;
        for store in partitions.iter_mut().flatten().filter(|store| counts(store) && !store.is_stopped()) {
            let (logs, mut resources) = io.split_resources();
            logs.mark_now(&mut resources, store.handle, store.log_facts())?;
        }
        self.sync()?;
        if self.io.logs.shared().is_some() {
            return self.tidy_shared();
        }
        for (_, handle) in self.partitions().collect::<Vec<_>>() {
            if self.store(handle)?.1.durability == Durability::Memory {
                continue;
            }
            self.finish_work(handle)?;
            if self.options.starts_checkpoints {
                self.checkpoint_begin(handle, &[])?;
                self.finish_work(handle)?;
            }
        }
        self.journal.remove_all(&mut self.io.disk)?;
        Ok(())
    }

    /// One round with all partitions that have changed.
    fn tidy_shared(&mut self) -> EngineResult<()> {
        for (_, handle) in self.partitions().collect::<Vec<_>>() {
            self.finish_work(handle)?;
            if self.options.starts_checkpoints {
                self.checkpoint_begin(handle, &[])?;
            }
        }
        while self.step_checkpoint(true)? {}
        Ok(())
    }

    /// Stores in the journal what would not survive a crash.
    fn save(&mut self) -> EngineResult<()> {
        let handles: Vec<Handle> = self.partitions().map(|(_, handle)| handle).collect();
        for handle in handles {
            let (io, store) = self.store(handle)?;
            if io.logs.shared().is_none() && counts(store) && !survives(&mut io.logs, store) {
                if self.journal.has_no_room_for(JOURNALED_BYTES_MAX as usize) {
                    self.flush()?;
                }
                self.journal_tail(handle)?;
            }
        }
        self.flush()?;
        let Engine { io, partitions, .. } = self;
        match partitions
            .iter_mut()
            .flatten()
            .filter(|store| counts(store))
            .all(|store| survives(&mut io.logs, store))
        {
            true => Ok(()),
            false => Err(EngineError::DiskFull { free_bytes: io.disk.free_bytes()? }),
        }
    }
}

/// Whether the partition should exist at the next start.
fn counts(store: &PartitionStore) -> bool {
    store.durability != Durability::Memory && !store.is_incoming()
}

fn survives(logs: &mut Logs, store: &PartitionStore) -> bool {
    logs.synced_index(store.handle).max(store.journaled) >= logs.view(store.handle).last().1
}
