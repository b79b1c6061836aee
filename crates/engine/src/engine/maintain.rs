//! Background maintenance in small steps, called by the owner between batches: syncs of `interval`
//! partitions, removal of journal files, checkpoints. Dead space: [`super::reclaim`].

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::reclaim::Reclaim;
use super::report::MaintenanceCounts;
use super::rounds::RoundWork;
use super::{Engine, Handle, store_of};
use crate::PartitionId;
use crate::disk::{Disk, DiskError};
use crate::error::EngineResult;
use crate::io::Logs;
use crate::options::Durability;
use crate::planted::{Bug, is_planted};
use crate::store::{MaintenanceStep, PartitionStore};

/// Pending maintenance.
pub(super) struct Maintenance {
    /// `interval` partitions with entries that are not durable, by the time when their sync is due (their
    /// interval after the last call of maintenance before the entries).
    pub(super) dirty: BTreeSet<(u64, Handle)>,
    /// When the sync of each of them is due.
    pub(super) sync_due: BTreeMap<Handle, u64>,
    /// Partitions of `interval` are open: the journal needs preallocated space before the first of their entries.
    pub(super) wants_spare: bool,
    /// Partitions whose entries were copied to the journal since its last flush started.
    pub(super) journaling: BTreeSet<Handle>,
    /// The clock at the last call.
    pub(super) now_ms: u64,
    /// When failed removals are retried.
    pub(super) drop_again_ms: u64,
    /// The last of these removals that was retried since.
    pub(super) drop_tried: Option<PartitionId>,
    /// Partitions with a running sync, in the order in which the syncs were started.
    syncing: VecDeque<Handle>,
    /// Partitions that are worth a checkpoint.
    to_checkpoint: VecDeque<Handle>,
    /// Partitions whose checkpoint is being written; the first is stepped.
    checkpointing: VecDeque<Handle>,
    /// Partitions with older versions that no snapshot can read any more.
    pub(super) forgetting: VecDeque<Handle>,
    /// The checkpoint round of a shared log, and when that log next records what survives a crash.
    pub(super) round: RoundWork,
    pub(super) mark_at_ms: u64,
    pub(super) reclaim: Reclaim,
    pub(super) counts: MaintenanceCounts,
}

/// Older versions released in one call: some hundred microseconds.
const VERSIONS_DROPPED_PER_CALL: usize = 1024;

/// Simultaneous checkpoints: most of the time each waits for the disk.
const CHECKPOINTS_AT_ONCE: usize = 4;

/// Partitions whose segments are synced at a time so that a journal file can be removed.
const JOURNAL_SYNCS_AT_ONCE: usize = 8;

impl Maintenance {
    pub(super) fn new(check_after_bytes: u64) -> Maintenance {
        Maintenance {
            dirty: BTreeSet::new(),
            wants_spare: false,
            journaling: BTreeSet::new(),
            sync_due: BTreeMap::new(),
            now_ms: 0,
            drop_again_ms: 0,
            drop_tried: None,
            syncing: VecDeque::new(),
            to_checkpoint: VecDeque::new(),
            checkpointing: VecDeque::new(),
            forgetting: VecDeque::new(),
            round: RoundWork::default(),
            mark_at_ms: 0,
            reclaim: Reclaim::new(check_after_bytes),
            counts: MaintenanceCounts::default(),
        }
    }

    /// Records a write. On the path of every write: no search, no allocation in the common case.
    #[inline]
    pub(super) fn wrote(&mut self, handle: Handle, store: &mut PartitionStore, entry_bytes: usize) {
        self.reclaim.written_bytes += entry_bytes as u64;
        store.checkpoints.tail_bytes += entry_bytes as u64;
        if !store.is_dirty {
            store.is_dirty = true;
            if let Durability::Interval { ms } = store.durability {
                self.sync_later(handle, ms);
            }
        }
        if store.checkpoints.tail_bytes >= store.checkpoints.check_at_bytes
            || store.dead_since_check >= store.check_at_dead_bytes
        {
            self.reclaim.schedule_check(handle, store);
        }
    }

    /// Schedules a sync of a partition after so many milliseconds, unless an earlier one is due.
    pub(super) fn sync_later(&mut self, handle: Handle, ms: u32) {
        let due = self.now_ms.saturating_add(u64::from(ms));
        match self.sync_due.get(&handle) {
            Some(&earlier) if earlier <= due => return,
            Some(&later) => drop(self.dirty.remove(&(later, handle))),
            None => {}
        }
        self.sync_due.insert(handle, due);
        self.dirty.insert((due, handle));
    }

    pub(super) fn recovered(&mut self, logs: &Logs, handle: Handle, store: &mut PartitionStore) {
        if !logs.view(store.handle).is_unused() {
            self.reclaim.schedule_check(handle, store);
        }
    }

    fn checkpoint_begun(&mut self, handle: Handle, store: &PartitionStore) {
        if store.checkpoints.is_writing() && !self.checkpointing.contains(&handle) {
            self.checkpointing.push_back(handle);
        }
    }

    pub(super) fn remove(&mut self, handle: Handle, store: &mut PartitionStore) {
        self.reclaim.remove(handle, store);
        if let Some(due) = self.sync_due.remove(&handle) {
            self.dirty.remove(&(due, handle));
        }
        self.syncing.retain(|&h| h != handle);
        self.journaling.remove(&handle);
        self.to_checkpoint.retain(|&h| h != handle);
        self.checkpointing.retain(|&h| h != handle);
        self.forgetting.retain(|&h| h != handle);
    }
}

impl<D: Disk> Engine<D> {
    /// Does a few small steps of maintenance. `now_ms` is any clock that does not run backwards. Returns
    /// whether more could be done at once; otherwise it must be called again within a few milliseconds.
    ///
    /// # Errors
    /// Errors of the disk; the affected partition then accepts no more writes, the others continue.
    pub fn maintain(&mut self, now_ms: u64) -> EngineResult<bool> {
        self.maintenance.now_ms = now_ms;
        if self.io.logs.shared().is_some() {
            self.sync_dirty_shared(now_ms)?;
        } else {
            self.prepare_for_full_disk()?;
            self.sync_dirty(now_ms)?;
            self.poll_journal()?;
            self.poll_syncs()?;
            self.shorten_journal()?;
        }
        self.plan_work(now_ms)?;
        let dropping = self.end_drops(now_ms)?;
        let checkpoint = self.step_checkpoint(false)?;
        let compaction = match self.io.logs.shared() {
            Some(_) => self.step_log_compaction()?,
            None => self.step_compactions()?,
        };
        let forgetting = self.drop_versions();
        let warming = self.step_warm_up();
        Ok(checkpoint || compaction || forgetting || dropping || warming)
    }

    fn step_warm_up(&mut self) -> bool {
        let (logs, mut resources) = self.io.split_resources();
        logs.shared_mut().is_some_and(|shared| shared.step_warm_up(&mut resources))
    }

    /// Releases some older versions that no snapshot can read any more. Returns whether there are more.
    fn drop_versions(&mut self) -> bool {
        let Engine { io, partitions, maintenance, .. } = self;
        let Some(&handle) = maintenance.forgetting.front() else { return false };
        let has_more = store_of(partitions, handle)
            .is_ok_and(|store| store.expire_versions(&mut io.logs, VERSIONS_DROPPED_PER_CALL));
        if !has_more {
            maintenance.forgetting.pop_front();
        }
        !maintenance.forgetting.is_empty()
    }

    /// Starts a checkpoint of a partition that carries an upper layer's state as of the present commit index.
    ///
    /// # Errors
    /// Errors of the disk.
    pub fn checkpoint_begin(&mut self, handle: Handle, extra: &[u8]) -> EngineResult<()> {
        if extra.len() > crate::limits::CHECKPOINT_EXTRA_BYTES_MAX {
            return Err(crate::EngineError::Limit {
                what: "bytes an upper layer adds to a checkpoint (64 MiB)",
            });
        }
        let Engine { io, partitions, maintenance, .. } = self;
        let store = store_of(partitions, handle)?;
        if store.durability == Durability::Memory {
            return Ok(());
        }
        if io.logs.shared().is_some() {
            let is_pressed = self.is_pressed(handle);
            return self.queue_section(handle, extra, is_pressed);
        }
        store.checkpoint_begin(io, extra)?;
        maintenance.checkpoint_begun(handle, store);
        Ok(())
    }

    /// Whether enough log has been written since a partition's last checkpoint that its owner should start
    /// another, and few checkpoints are being written.
    ///
    /// # Errors
    /// [`crate::EngineError::UnknownPartition`].
    pub fn checkpoint_is_due(&mut self, handle: Handle) -> EngineResult<bool> {
        let is_writing = self.store(handle)?.1.checkpoints.is_writing();
        let has_room = self.maintenance.checkpointing.len() < CHECKPOINTS_AT_ONCE;
        Ok(has_room && !is_writing && self.is_checkpoint_worthwhile(handle))
    }

    /// Whether another checkpoint is worthwhile, even if it is not due now because too many others are being
    /// written.
    ///
    /// # Errors
    /// [`crate::EngineError::UnknownPartition`].
    pub fn needs_checkpoint(&mut self, handle: Handle) -> EngineResult<bool> {
        let is_writing = self.store(handle)?.1.checkpoints.is_writing();
        Ok(!is_writing && self.is_checkpoint_worthwhile(handle))
    }

    /// Log bytes behind a partition's checkpoint that recovery may have to read at most.
    pub(super) fn checkpoint_tail_max(&self) -> u64 {
        let partitions = self.by_id.len().max(1) as u64;
        (self.options.checkpoint_tail_bytes / partitions).max(self.options.check_after_bytes)
    }

    /// Completes the running checkpoint and compaction of one partition.
    ///
    /// # Errors
    /// Errors of the disk.
    pub fn finish_work(&mut self, handle: Handle) -> EngineResult<()> {
        if self.io.logs.shared().is_some() {
            return self.finish_round(handle);
        }
        let (io, store) = self.store(handle)?;
        while store.checkpoint_step(io, true)? != MaintenanceStep::Done {}
        // A compaction that is on hold stays where it is.
        while store.compaction_step(io, true)? != MaintenanceStep::Done && !store.compaction.is_paused {}
        Ok(())
    }

    /// Compacts a partition until nothing more is to be gained, and waits for it. Does nothing to a partition
    /// in memory.
    ///
    /// # Errors
    /// [`crate::EngineError::DiskFull`] if there is no room for a copy; errors of the disk.
    pub fn compact(&mut self, handle: Handle) -> EngineResult<()> {
        let policy = self.policy(1);
        if self.io.logs.shared().is_some() {
            return self.store(handle).map(drop).and_then(|()| self.compact_shared());
        }
        let (_, store) = self.store(handle)?;
        if store.durability == Durability::Memory || store.compaction.is_paused {
            return Ok(());
        }
        self.finish_work(handle)?;
        let (io, store) = self.store(handle)?;
        store.sync(io)?;
        while store.compaction_begin(io, &policy)? {
            while store.compaction_step(io, true)? != MaintenanceStep::Done && !store.compaction.is_paused {}
            if store.compaction.ran_out_of_space() {
                return Err(io.full_or(DiskError::Full.into()));
            }
        }
        Ok(())
    }

    pub(super) fn begin_sync(&mut self, handle: Handle) -> EngineResult<()> {
        let Engine { io, partitions, maintenance, .. } = self;
        let Ok(store) = store_of(partitions, handle) else { return Ok(()) };
        if store.stopped.is_some() {
            return Ok(());
        }
        store.is_dirty = false;
        maintenance.counts.segment_syncs += 1;
        let begun = io.with_separate(store.handle, |log, io| log.sync_begin(io));
        store.stop_on_failure(begun)?;
        if !maintenance.syncing.contains(&handle) {
            maintenance.syncing.push_back(handle);
        }
        Ok(())
    }

    fn poll_syncs(&mut self) -> EngineResult<()> {
        // Syncs end in about the order in which they were started: polling the first is enough.
        while let Some(&handle) = self.maintenance.syncing.front() {
            let Engine { io, partitions, maintenance, .. } = self;
            if let Ok(store) = store_of(partitions, handle) {
                let done = io.with_separate(store.handle, |log, io| log.sync_done(io, false));
                match store.stop_on_failure(done) {
                    Ok(false) => return Ok(()),
                    // The partition is idle: the mark that records what is synced is synced too, with the
                    // next interval. (Not durable yet: entries that were appended during an earlier sync.)
                    Ok(true) if !store.is_dirty && !store.is_incoming() => {
                        let (log, mut io) = io.writable_separate(store.handle);
                        if log.mark_now(&mut io, store.log_facts())? || !log.is_durable() {
                            store.is_dirty = true;
                            maintenance.sync_later(handle, store.durability.sync_after_ms());
                        }
                    }
                    Ok(true) => {}
                    Err(error) => {
                        maintenance.syncing.pop_front();
                        return Err(error);
                    }
                }
            }
            maintenance.syncing.pop_front();
        }
        Ok(())
    }

    /// Removes the oldest journal file once the segments durably hold its entries. On a full disk that can be the file that is
    /// written, whose space nothing else gives back while no writes come.
    fn shorten_journal(&mut self) -> EngineResult<()> {
        let Some(holds) = self.journal.oldest_closed(self.io.space.is_full()) else { return Ok(()) };
        let mut behind = Vec::new();
        for (&handle, &index) in holds {
            if store_of(&mut self.partitions, Handle(handle)).is_err() {
                continue;
            }
            let logs = &mut self.io.logs;
            // An index that was truncated since needs no segment.
            if logs.synced_index(handle) < index.min(logs.view(handle).last().1) {
                behind.push(Handle(handle));
            }
            if behind.len() == JOURNAL_SYNCS_AT_ONCE {
                break;
            }
        }
        if behind.is_empty() || is_planted(Bug::JournalRemovedEarly) {
            self.journal.remove_oldest(&mut self.io.disk)?;
            return Ok(());
        }
        for handle in behind {
            if !self.maintenance.syncing.contains(&handle) {
                self.begin_sync(handle)?;
            }
        }
        Ok(())
    }

    /// Schedules a checkpoint of a partition for when few enough are being written.
    pub(super) fn checkpoint_later(&mut self, handle: Handle) {
        let Engine { partitions, maintenance, .. } = self;
        let Ok(store) = store_of(partitions, handle) else { return };
        let is_known = store.account.awaits_checkpoint || maintenance.checkpointing.contains(&handle);
        if !is_known {
            store.account.awaits_checkpoint = true;
            maintenance.to_checkpoint.push_back(handle);
        }
    }

    /// Starts as many checkpoints as may run at a time.
    pub(super) fn begin_checkpoints(&mut self) -> EngineResult<()> {
        while self.maintenance.checkpointing.len() < CHECKPOINTS_AT_ONCE
            && let Some(handle) = self.maintenance.to_checkpoint.pop_front()
        {
            let is_worth = self.is_checkpoint_worthwhile(handle);
            let Engine { io, partitions, maintenance, .. } = self;
            let Ok(store) = store_of(partitions, handle) else { continue };
            store.account.awaits_checkpoint = false;
            if is_worth && io.logs.shared().is_some() {
                let is_pressed = self.is_pressed(handle);
                self.queue_section(handle, &[], is_pressed)?;
            } else if is_worth {
                store.checkpoint_begin(io, &[])?;
                maintenance.checkpoint_begun(handle, store);
            }
        }
        Ok(())
    }

    /// Does a step of the next checkpoint in turn. Returns whether there is more to do at once.
    pub(super) fn step_checkpoint(&mut self, wait: bool) -> EngineResult<bool> {
        if self.io.logs.shared().is_some() {
            return self.step_round(wait);
        }
        let Some(&handle) = self.maintenance.checkpointing.front() else { return Ok(false) };
        let (io, store) = self.store(handle)?;
        match store.checkpoint_step(io, wait)? {
            MaintenanceStep::Done => {
                store.checkpoints.check_at_bytes = 0;
                self.maintenance.checkpointing.pop_front();
                self.maintenance.counts.checkpoints += 1;
                self.plan_again_if_pressed(handle);
            }
            MaintenanceStep::Progressed => {}
            MaintenanceStep::Waits => self.maintenance.checkpointing.rotate_left(1),
        }
        Ok(true)
    }
}
