//! Upkeep in small steps, called by the owner between batches: syncs of `interval` partitions, the journal's end,
//! checkpoints, compaction.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::{Engine, Handle, store_of};
use crate::disk::{Disk, DiskError};
use crate::engine::options::Durability;
use crate::error::EngineResult;
use crate::store::Store;
use crate::store::choose::Policy;

/// What is waiting to be done.
pub(super) struct Upkeep {
    /// `interval` partitions with entries that are not durable, by when their sync is due (their interval after the
    /// call of upkeep that came before the entries).
    pub(super) dirty: BTreeSet<(u64, Handle)>,
    /// When the sync of each of them is due.
    pub(super) sync_due: BTreeMap<Handle, u64>,
    /// Partitions that have copied to the journal what is not durable, since its last flush began.
    pub(super) journaling: BTreeSet<Handle>,
    /// The clock at the last call.
    now_ms: u64,
    /// Partitions with a sync under way, in the order in which they were begun.
    syncing: VecDeque<Handle>,
    /// Partitions whose checkpoint is being written; one is stepped at a time.
    checkpointing: BTreeSet<Handle>,
    compacting: Option<Handle>,
    /// Bytes of log since the last call, over all partitions.
    written_bytes: u64,
    /// Partitions that have enough new log for a checkpoint, or enough written for a look at their dead space.
    due: BTreeSet<Handle>,
    /// When each partition's dead space is looked at next, whatever was written.
    collect_at: u64,
    collect_next: usize,
}

/// A checkpoint is worth it once so much new log has come, however small the partition.
const CHECKPOINT_TAIL_BYTES_MIN: u64 = 256 << 10;
/// New log that a checkpoint must spare reading, in times its own size: what is written for checkpoints stays below a
/// third of what is written for entries.
const TAIL_PER_CHECKPOINT: u64 = 3;
/// A partition is looked at again after so much was written to it or has died in it.
const LOOK_BYTES: u64 = 256 << 10;
/// Partitions whose segments are synced at a time so that a journal file can go.
const JOURNAL_SYNCS_AT_ONCE: usize = 8;
/// Log that a step of compaction reads, about.
const COMPACTION_STEP_BYTES: u64 = 8 << 10;
/// Steps of compaction in one call at most: some half a millisecond, spent only after a batch of half a megabyte.
const COMPACTION_STEPS_PER_CALL_MAX: u64 = 64;
/// Partitions looked at for dead space in one call.
const LOOKS_PER_CALL: usize = 4;

impl Upkeep {
    pub(super) fn new() -> Upkeep {
        Upkeep {
            dirty: BTreeSet::new(),
            journaling: BTreeSet::new(),
            sync_due: BTreeMap::new(),
            now_ms: 0,
            syncing: VecDeque::new(),
            checkpointing: BTreeSet::new(),
            compacting: None,
            written_bytes: 0,
            due: BTreeSet::new(),
            collect_at: 0,
            collect_next: usize::MAX,
        }
    }

    /// Takes note of a write. On the way of every write: no search, no allocation in the common case.
    #[inline]
    pub(super) fn wrote(&mut self, handle: Handle, store: &mut Store, entry_bytes: usize) {
        self.written_bytes += entry_bytes as u64;
        store.checkpoints.tail_bytes += entry_bytes as u64;
        if !store.is_dirty {
            store.is_dirty = true;
            if let Durability::Interval { ms } = store.durability {
                self.sync_later(handle, ms);
            }
        }
        if store.checkpoints.tail_bytes >= store.checkpoints.look_at_bytes
            || store.dead_since_look >= LOOK_BYTES
        {
            store.checkpoints.look_at_bytes = store.checkpoints.tail_bytes + LOOK_BYTES;
            store.dead_since_look = 0;
            self.due.insert(handle);
        }
    }

    /// Has a partition synced so many milliseconds from now, or when it is due already if that is earlier.
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

    pub(super) fn recovered(&mut self, handle: Handle, store: &Store) {
        if !store.log.order.is_empty() {
            self.due.insert(handle);
        }
    }

    pub(super) fn forget(&mut self, handle: Handle) {
        if let Some(due) = self.sync_due.remove(&handle) {
            self.dirty.remove(&(due, handle));
        }
        self.syncing.retain(|&h| h != handle);
        self.journaling.remove(&handle);
        self.due.remove(&handle);
        self.checkpointing.remove(&handle);
        self.compacting.take_if(|h| *h == handle);
    }
}

impl<D: Disk> Engine<D> {
    /// Does a few small steps of upkeep. `now_ms` is any clock that does not run backwards. Returns whether there is
    /// more that could be done at once; otherwise it wants to be called again within a few milliseconds.
    ///
    /// # Errors
    /// What the disk answers; the partition concerned takes no more writes then, others go on.
    pub fn maintain(&mut self, now_ms: u64) -> EngineResult<bool> {
        self.upkeep.now_ms = now_ms;
        self.sync_dirty(now_ms)?;
        self.poll_journal()?;
        self.poll_syncs()?;
        self.shorten_journal()?;
        self.look_around(now_ms)?;
        let checkpoint = self.step_checkpoint()?;
        let compaction = self.step_compaction()?;
        Ok(checkpoint || compaction)
    }

    /// Begins a checkpoint of a partition that carries an upper layer's state as of the present commit index.
    ///
    /// # Errors
    /// What the disk answers.
    pub fn checkpoint_begin(&mut self, handle: Handle, extra: &[u8]) -> EngineResult<()> {
        if extra.len() > crate::limits::CHECKPOINT_EXTRA_BYTES_MAX {
            return Err(crate::EngineError::Limit {
                what: "bytes an upper layer adds to a checkpoint (64 MiB)",
            });
        }
        let Engine { io, partitions, upkeep, .. } = self;
        let store = store_of(partitions, handle)?;
        if store.durability == Durability::Memory {
            return Ok(());
        }
        store.checkpoint_begin(io, extra)?;
        if store.checkpoints.is_writing() {
            upkeep.checkpointing.insert(handle);
        }
        Ok(())
    }

    /// Whether enough log has come behind a partition's last checkpoint that its owner should begin another, and none
    /// is being written.
    ///
    /// # Errors
    /// [`crate::EngineError::UnknownPartition`].
    pub fn checkpoint_is_due(&mut self, handle: Handle) -> EngineResult<bool> {
        let tail_max = self.checkpoint_tail_max();
        let is_idle = self.upkeep.checkpointing.is_empty();
        let (_, store) = self.store(handle)?;
        Ok(is_idle
            && store.durability != Durability::Memory
            && store.stopped.is_none()
            && store.checkpoints.tail_bytes
                >= tail_max.max(TAIL_PER_CHECKPOINT * store.checkpoints.newest_bytes()))
    }

    /// Log bytes behind a partition's checkpoint that recovery is to read at most.
    fn checkpoint_tail_max(&self) -> u64 {
        let partitions = self.by_id.len().max(1) as u64;
        (self.options.checkpoint_tail_bytes / partitions).max(CHECKPOINT_TAIL_BYTES_MIN)
    }

    /// Ends what is under way in one partition: its checkpoint and its compaction.
    ///
    /// # Errors
    /// What the disk answers.
    pub fn finish_work(&mut self, handle: Handle) -> EngineResult<()> {
        let (io, store) = self.store(handle)?;
        while !store.checkpoint_step(io)? {}
        while !store.compaction_step(io)? {}
        Ok(())
    }

    /// Compacts a partition until nothing more is to be gained, and waits for it. Does nothing to one that is held in
    /// memory.
    ///
    /// # Errors
    /// [`crate::EngineError::DiskFull`] if there is no room for a copy; what the disk answers.
    pub fn compact(&mut self, handle: Handle) -> EngineResult<()> {
        let policy = Policy { dead_percent_max: 1, segment_bytes: self.options.segment_bytes };
        if self.store(handle)?.1.durability == Durability::Memory {
            return Ok(());
        }
        self.finish_work(handle)?;
        let (io, store) = self.store(handle)?;
        store.sync(io)?;
        while store.compaction_begin(io, &policy)? {
            while !store.compaction_step(io)? {}
            if store.compaction.ran_out_of_space() {
                return Err(io.full_or(DiskError::Full.into()));
            }
        }
        Ok(())
    }

    pub(super) fn begin_sync(&mut self, handle: Handle) -> EngineResult<()> {
        let Engine { io, partitions, upkeep, .. } = self;
        let Ok(store) = store_of(partitions, handle) else { return Ok(()) };
        if store.stopped.is_some() {
            return Ok(());
        }
        store.is_dirty = false;
        let begun = store.log.sync_begin(io);
        store.stop_on_failure(begun)?;
        if !upkeep.syncing.contains(&handle) {
            upkeep.syncing.push_back(handle);
        }
        Ok(())
    }

    fn poll_syncs(&mut self) -> EngineResult<()> {
        // They end in about the order they were begun in: asking the first is enough.
        while let Some(&handle) = self.upkeep.syncing.front() {
            let Engine { io, partitions, upkeep, .. } = self;
            if let Ok(store) = store_of(partitions, handle) {
                let done = store.log.sync_done(io);
                match store.stop_on_failure(done) {
                    Ok(false) => return Ok(()),
                    // Idle from now on: the mark that tells what is synced is synced too, with the next interval. (Not
                    // durable yet: what came while an earlier sync was under way.)
                    Ok(true) if !store.is_dirty => {
                        if store.log.mark_now(io, store.commit)? || !store.log.is_durable() {
                            store.is_dirty = true;
                            upkeep.sync_later(handle, store.durability.sync_after_ms());
                        }
                    }
                    Ok(true) => {}
                    Err(error) => {
                        upkeep.syncing.pop_front();
                        return Err(error);
                    }
                }
            }
            upkeep.syncing.pop_front();
        }
        Ok(())
    }

    /// Lets go of the oldest journal file once the segments hold what it holds.
    fn shorten_journal(&mut self) -> EngineResult<()> {
        let Some(holds) = self.journal.oldest_closed() else { return Ok(()) };
        let mut behind = Vec::new();
        for (&handle, &index) in holds {
            let Ok(store) = store_of(&mut self.partitions, Handle(handle)) else { continue };
            // An index that was cut off since needs no segment.
            if store.log.synced_index() < index.min(store.log.last.1) {
                behind.push(Handle(handle));
            }
            if behind.len() == JOURNAL_SYNCS_AT_ONCE {
                break;
            }
        }
        if behind.is_empty() {
            self.journal.remove_oldest(&mut self.io.disk)?;
            return Ok(());
        }
        for handle in behind {
            if !self.upkeep.syncing.contains(&handle) {
                self.begin_sync(handle)?;
            }
        }
        Ok(())
    }

    /// Decides what to begin next: a checkpoint where much log has come, a compaction where much is dead.
    fn look_around(&mut self, now_ms: u64) -> EngineResult<()> {
        if now_ms >= self.upkeep.collect_at {
            self.upkeep.collect_at = now_ms.saturating_add(self.options.collect_every_ms);
            self.upkeep.collect_next = 0;
        }
        for _ in 0..LOOKS_PER_CALL {
            let Some(&handle) = self.upkeep.due.first() else { break };
            if !self.upkeep.checkpointing.is_empty() || self.upkeep.compacting.is_some() {
                break;
            }
            self.upkeep.due.remove(&handle);
            self.look_at(handle, self.options.dead_percent_max)?;
        }
        for _ in 0..LOOKS_PER_CALL {
            if self.upkeep.collect_next >= self.partitions.len() || self.upkeep.compacting.is_some() {
                break;
            }
            let handle = Handle(self.upkeep.collect_next as u32);
            self.upkeep.collect_next += 1;
            // By the timer also what the share would leave alone.
            self.look_at(handle, self.options.dead_percent_max / 4 + 1)?;
        }
        Ok(())
    }

    fn look_at(&mut self, handle: Handle, dead_percent_max: u64) -> EngineResult<()> {
        let tail_max = self.checkpoint_tail_max();
        let policy = Policy { dead_percent_max, segment_bytes: self.options.segment_bytes };
        let begin_alone = self.options.checkpoints_begin_alone;
        let Engine { io, partitions, upkeep, .. } = self;
        let Ok(store) = store_of(partitions, handle) else { return Ok(()) };
        if store.stopped.is_some() {
            return Ok(());
        }
        let begin_alone = begin_alone && store.durability != Durability::Memory;
        // A checkpoint costs its own size: it must be worth it.
        let worth = TAIL_PER_CHECKPOINT * store.checkpoints.newest_bytes();
        if begin_alone
            && store.checkpoints.tail_bytes >= tail_max.max(worth)
            && upkeep.checkpointing.is_empty()
        {
            store.checkpoint_begin(io, &[])?;
            if store.checkpoints.is_writing() {
                upkeep.checkpointing.insert(handle);
            }
        }
        if upkeep.compacting.is_none()
            && store.wants_compaction(&policy)
            && store.compaction_begin(io, &policy)?
        {
            upkeep.compacting = Some(handle);
        }
        Ok(())
    }

    fn step_checkpoint(&mut self) -> EngineResult<bool> {
        let Some(&handle) = self.upkeep.checkpointing.first() else { return Ok(false) };
        let (io, store) = self.store(handle)?;
        if store.checkpoint_step(io)? {
            store.checkpoints.look_at_bytes = 0;
            self.upkeep.checkpointing.remove(&handle);
        }
        Ok(true)
    }

    fn step_compaction(&mut self) -> EngineResult<bool> {
        let written_bytes = std::mem::take(&mut self.upkeep.written_bytes);
        let Some(handle) = self.upkeep.compacting else { return Ok(false) };
        for _ in 0..self.compaction_steps_for(written_bytes) {
            let (io, store) = self.store(handle)?;
            if store.compaction_step(io)? {
                let ran_out = store.compaction.ran_out_of_space();
                self.upkeep.compacting = None;
                // There may be more where that came from.
                if !ran_out {
                    self.upkeep.due.insert(handle);
                }
                break;
            }
        }
        self.evict();
        Ok(true)
    }

    /// How many steps keep pace with what was written: at the dead share where compaction begins, reading so much
    /// log frees as much as may have died. With fewer, dead space would grow with the size of the owner's batches.
    fn compaction_steps_for(&self, written_bytes: u64) -> u64 {
        let to_read = written_bytes.saturating_mul(100) / self.options.dead_percent_max;
        (1 + to_read / COMPACTION_STEP_BYTES).min(COMPACTION_STEPS_PER_CALL_MAX)
    }
}
