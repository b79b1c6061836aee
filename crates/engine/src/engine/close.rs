//! The end of an engine, in order.

use super::{Engine, Handle};
use crate::disk::Disk;
use crate::engine::options::Durability;
use crate::error::{EngineError, EngineResult};
use crate::store::PartitionStore;

impl<D: Disk> Engine<D> {
    /// Closes in order: everything synced, a checkpoint of every partition that changed, no journal left to replay. Where the disk has no
    /// room for all of that, everything survives all the same, in the journal, whose room is laid out ahead; the next start replays it.
    ///
    /// # Errors
    /// What the disk answers. [`EngineError::DiskFull`]: there was no room in the journal either, and what was accepted last is lost
    /// from what does not flush every write.
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
        // The marks that vouch for what is synced: what is unreadable from here on is corrupt.
        let Engine { io, partitions, .. } = self;
        for store in partitions.iter_mut().flatten().filter(|store| counts(store)) {
            store.log.mark_now(io, store.commit)?;
        }
        self.sync()?;
        for (_, handle) in self.partitions().collect::<Vec<_>>() {
            if self.store(handle)?.1.durability == Durability::Memory {
                continue;
            }
            self.finish_work(handle)?;
            if self.options.checkpoints_begin_alone {
                self.checkpoint_begin(handle, &[])?;
                self.finish_work(handle)?;
            }
        }
        self.journal.remove_all(&mut self.io.disk)?;
        Ok(())
    }

    /// Has the journal hold what would not survive a crash.
    fn save(&mut self) -> EngineResult<()> {
        let handles: Vec<Handle> = self.partitions().map(|(_, handle)| handle).collect();
        for handle in handles {
            let (_, store) = self.store(handle)?;
            if counts(store) && !survives(store) {
                self.journal_tail(handle)?;
            }
        }
        self.flush()?;
        let Engine { io, partitions, .. } = self;
        match partitions.iter_mut().flatten().filter(|store| counts(store)).all(|store| survives(store)) {
            true => Ok(()),
            false => Err(EngineError::DiskFull { free_bytes: io.disk.free_bytes()? }),
        }
    }
}

/// Whether it is to be there at the next start.
fn counts(store: &PartitionStore) -> bool {
    store.durability != Durability::Memory && !store.is_incoming()
}

fn survives(store: &mut PartitionStore) -> bool {
    store.log.synced_index().max(store.journaled) >= store.log.last.1
}
