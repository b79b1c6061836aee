//! Change of the durability of a partition in use: its log goes to the disk, or stays there with weaker
//! guarantees.

use super::maintain::Maintenance;
use super::{Engine, Handle, store_of};
use crate::disk::Disk;
use crate::error::EngineResult;
use crate::options::Durability;
use crate::store::PartitionStore;

/// The durability of a log that is on disk already when `memory` is requested. No request waits for it, but
/// its segments must be durable from time to time: only durable segments can be compacted, or evicted if
/// memory is short.
pub(super) const ON_DISK_ALREADY: Durability = Durability::Interval { ms: 1000 };

impl<D: Disk> Engine<D> {
    /// Changes when a partition's entries survive a crash; returns the durability that it has now. If the new
    /// durability is `sync`, or the old one was `memory`, all entries accepted so far survive a crash once
    /// this returns. A log that was in memory is then written and synced, which takes time proportional to
    /// its size. A crash meanwhile leaves the beginning of it.
    ///
    /// A log with entries on disk does not go back into memory: for `memory` it gets an interval of a second.
    /// The owner of the log, which makes no durability promise, drops the partition at the next start.
    ///
    /// # Errors
    /// Errors of the disk; the partition is then unchanged.
    pub fn set_durability(&mut self, handle: Handle, durability: Durability) -> EngineResult<Durability> {
        if self.io.logs.shared().is_some() {
            return self.set_durability_shared(handle, durability);
        }
        let wanted_log_options = self.log_options(durability);
        let is_in_journal = self.journal.has_records_of(handle.0);
        let (io, store) = self.store(handle)?;
        let is_in_memory = io.logs.view(store.handle).is_in_memory_only();
        // A log that was truncated to nothing still has its file.
        let has_entries = !io.logs.view(store.handle).is_unused() || is_in_journal;
        let (durability, log_options) = match durability {
            Durability::Memory if has_entries && !is_in_memory => {
                (ON_DISK_ALREADY, self.log_options(ON_DISK_ALREADY))
            }
            _ => (durability, wanted_log_options),
        };
        self.maintenance.wants_spare |= matches!(durability, Durability::Interval { .. });
        if self.store(handle)?.1.durability == durability {
            return Ok(durability);
        }
        self.flush_journal_first(handle)?;
        if has_entries && is_in_memory {
            self.write_to_disk(handle)?;
        } else if durability != Durability::Memory && is_in_memory && self.store(handle)?.1.is_incoming() {
            // The first run has not arrived yet, and goes to the disk.
            self.mark_incoming(handle)?;
        }
        let Engine { io, partitions, maintenance, .. } = self;
        let store = store_of(partitions, handle)?;
        // Entries in the journal need no sync: after a crash on a full disk there may be no room for one.
        if durability == Durability::Sync && store.journaled < io.logs.view(store.handle).last().1 {
            store.sync(io)?;
        }
        io.logs.separate_mut(store.handle).set_options(log_options);
        begin_durability(maintenance, (handle, store), durability);
        Ok(durability)
    }

    /// Writes and syncs a log that was in memory only.
    fn write_to_disk(&mut self, handle: Handle) -> EngineResult<()> {
        // A running compaction relies on there being no files.
        self.finish_work(handle)?;
        if self.store(handle)?.1.is_incoming() {
            self.mark_incoming(handle)?;
        }
        let (in_memory, on_disk) = (self.log_options(Durability::Memory), self.log_options(ON_DISK_ALREADY));
        let (io, store) = self.store(handle)?;
        io.logs.separate_mut(store.handle).set_options(on_disk);
        io.logs.separate_mut(store.handle).name_segments();
        let synced = store.sync(io).and_then(|()| {
            // The mark confirms what is synced: unreadable bytes before it are corrupt, not a torn tail.
            if store.is_incoming() {
                return Ok(());
            }
            io.with_separate(store.handle, |log, io| log.mark_now(io, store.log_facts()))?;
            store.sync(io)
        });
        if synced.is_err() {
            io.logs.separate_mut(store.handle).set_options(in_memory);
        }
        synced
    }
}

/// From here on a partition has this durability.
pub(super) fn begin_durability(
    maintenance: &mut Maintenance,
    (handle, store): (Handle, &mut PartitionStore),
    durability: Durability,
) {
    store.durability = durability;
    match durability {
        Durability::Interval { ms } if store.is_dirty => maintenance.sync_later(handle, ms),
        // A sync that is due would write the entries that are appended from now on.
        Durability::Memory => {
            maintenance.remove(handle, store);
            store.is_dirty = false;
        }
        _ => {}
    }
}
