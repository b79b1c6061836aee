//! Durability of `interval` partitions: what is due to survive a crash.
//!
//! A few partitions are synced one by one. Many are not, because a sync costs the system about the same for one entry as for
//! a thousand. The syncs of hundreds of partitions, each due ten times a second, would leave little time for anything else.
//! Instead their entries are copied to the journal, and one sync makes all of them durable. Their segments follow when a
//! journal file is full, as those of `sync` partitions do (`docs/decisions/0004-journal-for-many-intervals.md`).

use super::{Engine, Handle, store_of};
use crate::disk::{Disk, DiskError};
use crate::error::EngineResult;
use crate::limits::JOURNAL_INLINE_BYTES_MAX;
use crate::log::EntryRef;
use crate::options::Durability;

/// Partitions whose sync is started in one call: each costs some system calls.
const SYNCS_PER_CALL: usize = 4;

/// Partitions due within so many milliseconds are included: that saves the next sync.
const TOGETHER_MS: u64 = 20;

/// Bytes that one partition may add to the journal: above this, writing them twice costs more than a separate
/// sync.
pub(super) const JOURNALED_BYTES_MAX: u64 = 128 << 10;

/// Bytes that one call copies, about: a few hundred microseconds.
const COPIED_PER_CALL: u64 = 256 << 10;

impl<D: Disk> Engine<D> {
    /// As [`Engine::sync`], of one partition.
    ///
    /// # Errors
    /// Errors of the disk, or that the partition has stopped.
    pub fn sync_partition(&mut self, handle: Handle) -> EngineResult<()> {
        self.flush()?;
        let (io, store) = self.store(handle)?;
        let is_synced = store.durability == Durability::Memory
            || store.stopped.is_none() && io.logs.view(store.handle).is_durable();
        let result = if is_synced { Ok(()) } else { store.sync(io) };
        self.settle_moved()?;
        result
    }

    /// Flushes the journal's batch if an entry of a `sync` partition, with so many bytes of key and payload, would make it longer
    /// than a file may be. Also if the journal will only refer to the entry: its segment is synced before the journal, and must
    /// not have journal-first entries then.
    #[inline]
    pub(super) fn make_journal_room(&mut self, handle: Handle, bytes: usize) -> EngineResult<()> {
        let is_short = self.journal.has_no_room_for(bytes);
        if !is_short && bytes <= JOURNAL_INLINE_BYTES_MAX {
            return Ok(());
        }
        if !is_short {
            return self.flush_journal_first(handle);
        }
        if self.store(handle)?.1.durability == Durability::Sync { self.flush() } else { Ok(()) }
    }

    /// Sets whether entries that are appended to a partition from now on survive a crash only together with everything that was
    /// accepted before them, of all `sync` partitions. Returns false, and does nothing, where that is not so: the partition is
    /// not `sync`, or the engine keeps a shared log.
    pub fn set_journal_first(&mut self, handle: Handle, is_on: bool) -> bool {
        let Ok((io, store)) = self.store(handle) else { return false };
        if io.logs.shared().is_some() || store.durability != Durability::Sync {
            return false;
        }
        io.logs.separate_mut(store.handle).set_journal_first(is_on);
        true
    }

    /// Flushes if the partition has journal-first entries.
    pub(super) fn flush_journal_first(&mut self, handle: Handle) -> EngineResult<()> {
        let (io, store) = self.store(handle)?;
        let is_journal_first =
            io.logs.shared().is_none() && io.logs.separate(store.handle).has_journal_first();
        if is_journal_first { self.flush() } else { Ok(()) }
    }

    /// Prepares for a disk that becomes full: preallocates space in the journal for what is accepted and not yet durable,
    /// and schedules again what found no room.
    pub(super) fn prepare_for_full_disk(&mut self) -> EngineResult<()> {
        let Engine { io, partitions, journal, maintenance, .. } = self;
        if io.space.take_needs_retry() {
            for (number, store) in partitions.iter().enumerate() {
                if let Some(store) = store.as_ref().filter(|store| io.logs.view(store.handle).lacks_room()) {
                    maintenance.sync_later(Handle(number as u32), store.durability.sync_after_ms());
                }
            }
        }
        let is_wanted = maintenance.wants_spare && self.journal_stopped.is_none() && !io.space.is_full();
        if !is_wanted || !journal.needs_spare() {
            return Ok(());
        }
        match journal.make_spare(&mut io.disk) {
            Err(error) if !error.is_temporary() => Err(self.flush_failed(error.into())),
            Err(DiskError::Full) => {
                io.space.found_full();
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Copies to the journal what was to be synced, if its segment has no room.
    fn journal_unwritten(&mut self, handle: Handle) -> EngineResult<()> {
        if self.lacks_room(handle) && self.journal_stopped.is_none() && !self.journal.is_full() {
            self.journal_tail(handle)?;
        }
        Ok(())
    }

    /// Whether the last write to the partition's segment found no room.
    fn lacks_room(&mut self, handle: Handle) -> bool {
        self.store(handle).is_ok_and(|(io, store)| io.logs.view(store.handle).lacks_room())
    }

    /// Starts to make durable what is due.
    pub(super) fn sync_dirty(&mut self, now_ms: u64) -> EngineResult<()> {
        let Some(&(first, first_handle)) = self.maintenance.dirty.first() else {
            return self.begin_journal();
        };
        if first > now_ms {
            return self.begin_journal();
        }
        let soon = now_ms.saturating_add(TOGETHER_MS);
        let many = self.options.journal_from_due.max(1);
        let are_many =
            self.maintenance.dirty.iter().take_while(|(due, _)| *due <= soon).nth(many - 1).is_some();
        if self.journal.is_full() && !self.journal.is_flushing() && self.journal_stopped.is_none() {
            // The disk may have room again.
            self.maintenance.journaling.insert(first_handle);
            self.begin_journal()?;
        }
        let together = are_many && self.journal_stopped.is_none() && !self.journal.is_full();
        let (mut syncs, mut copied) = (0, 0);
        while let Some(&(due, handle)) = self.maintenance.dirty.first()
            && (due <= now_ms || together && due <= soon)
        {
            let tail_bytes = self.tail_bytes(handle);
            // A journal flush would not show that a segment which had no room has room again.
            let is_for_journal = together && tail_bytes <= JOURNALED_BYTES_MAX && !self.lacks_room(handle);
            if !is_for_journal && due > now_ms {
                break;
            }
            if copied >= COPIED_PER_CALL || syncs == SYNCS_PER_CALL {
                // The remaining partitions follow in the next calls, and become durable with the same flush.
                return Ok(());
            }
            self.maintenance.dirty.pop_first();
            self.maintenance.sync_due.remove(&handle);
            if is_for_journal {
                copied += tail_bytes;
                self.journal_tail(handle)?;
            } else {
                syncs += 1;
                self.begin_sync(handle)?;
                self.journal_unwritten(handle)?;
            }
        }
        self.begin_journal()
    }

    /// Records what a started journal flush has made durable.
    pub(super) fn poll_journal(&mut self) -> EngineResult<()> {
        match self.journal.flush_done(&mut self.io.disk) {
            Ok(partition_ends) => {
                self.journaled(partition_ends);
                Ok(())
            }
            Err((error, partition_ends)) => {
                let error = self.flush_failed(error.into());
                for handle in partition_ends.into_keys() {
                    self.sync_instead(Handle(handle))?;
                }
                Err(error)
            }
        }
    }

    /// The journal makes these entries survive a crash: partition handles and their highest log indexes.
    pub(super) fn journaled(&mut self, partition_ends: impl IntoIterator<Item = (u32, u64)>) {
        for (handle, index) in partition_ends {
            if let Ok((io, store)) = self.store(Handle(handle)) {
                store.journaled = store.journaled.max(index);
                io.logs.separate_mut(store.handle).journaled_through(index);
            }
        }
    }

    /// Starts the flush of the entries that partitions have copied to the journal.
    fn begin_journal(&mut self) -> EngineResult<()> {
        if self.maintenance.journaling.is_empty() || self.journal.is_flushing() {
            return Ok(());
        }
        let mut result = Ok(());
        // Entries that a batch only refers to must be synced before it: a flush that waits does that.
        let is_begun = self.journal_stopped.is_none()
            && !self.journal.has_large()
            && match self.journal.flush_begin(&mut self.io.disk, false) {
                Ok(()) => true,
                // The batch is kept for the next flush that finds room.
                Err(error) if error.is_temporary() => false,
                Err(error) => {
                    result = Err(self.flush_failed(error.into()));
                    false
                }
            };
        for handle in std::mem::take(&mut self.maintenance.journaling) {
            if !is_begun {
                self.sync_instead(handle)?;
            }
        }
        result
    }

    /// Syncs the segments of a partition that the journal was to make durable.
    fn sync_instead(&mut self, handle: Handle) -> EngineResult<()> {
        if let Ok(store) = store_of(&mut self.partitions, handle) {
            store.copied = 0;
        }
        self.begin_sync(handle)
    }

    /// Bytes of log that are neither durable nor on their way to the journal, about.
    fn tail_bytes(&mut self, handle: Handle) -> u64 {
        match self.store(handle) {
            // The journal would restore the end of a log whose other entries do not count.
            Ok((_, store)) if store.is_incoming() => u64::MAX,
            Ok((io, store)) => {
                let log = io.logs.separate_mut(store.handle);
                let after = log.synced_index().max(store.copied);
                log.bytes_after(after)
            }
            Err(_) => 0,
        }
    }

    /// Copies the entries of a partition that are not durable to the journal.
    pub(super) fn journal_tail(&mut self, handle: Handle) -> EngineResult<()> {
        let Engine { io, partitions, journal, maintenance, .. } = self;
        let Ok(store) = store_of(partitions, handle) else { return Ok(()) };
        if store.stopped.is_some()
            || store.is_incoming()
            || !matches!(store.durability, Durability::Interval { .. })
        {
            return Ok(());
        }
        store.is_dirty = false;
        let whose = store.journal_owner(&io.logs, handle);
        let log = io.logs.separate_mut(store.handle);
        let after = log.synced_index().max(store.copied);
        let last = log.last.1;
        if after >= last {
            return Ok(());
        }
        let mut copied = after;
        let mut copy = |entry: EntryRef<'_>, is_good: bool| {
            // The entry is in memory until it is written; if the write has failed, its segment reports it.
            // A long one goes to its segment only: a reference to it would make the journal wait for room there.
            let is_short = entry.payload.len() <= JOURNAL_INLINE_BYTES_MAX;
            let has_room = !journal.has_no_room_for(entry.key.len() + entry.payload.len());
            if is_good && is_short && has_room && entry.head.meta.index == copied + 1 {
                journal.push_one_of(whose, (&entry.head.meta, entry.key, entry.payload));
                copied += 1;
            }
        };
        let read = store.entries_after(io, after, &mut copy);
        if copied > after {
            journal.pushed(handle.0, copied);
        }
        store.stop_on_failure(read)?;
        store.copied = copied;
        maintenance.journaling.insert(handle);
        if copied < last {
            return self.begin_sync(handle);
        }
        Ok(())
    }
}
