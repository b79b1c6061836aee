//! One instance's storage: its partitions, its journal, and the disk and memory they share.

use std::collections::{BTreeMap, VecDeque};

mod check;
mod checkpoint_payload;
mod disk_space;
mod drops;
mod durability;
pub(crate) mod key_order;
mod log_owner;
mod maintain;
mod open;
mod pending_durability;
mod reclaim;
#[cfg(test)]
mod recount;
mod repair;
mod replay;
pub(crate) mod report;
mod rounds;
mod scan;
mod shared;
pub(crate) mod snapshot_install;
mod split;
pub(crate) mod write;

use crate::PartitionId;
use crate::damage::Damage;
use crate::disk::Disk;
use crate::error::{EngineError, EngineResult};
use crate::ids::Handle;
use crate::io::Io;
use crate::journal::Journal;
use crate::log::EntryRef;
use crate::log::LogOptions;
use crate::log::entry::{EntryMeta, FLAG_LIST, split_trailer, u32_at};
use crate::options::{Durability, EngineOptions, PartitionOptions};
use crate::overflow::chains::TrimPoint;
use crate::store::PartitionStore;
use crate::store::record::StoredRecord;
use report::{EngineStats, PartitionStats};
use write::bytes_of;

/// A sealed segment that may be copied away while it is pinned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentFile {
    /// Its path on the engine's disk.
    pub path: String,
    /// Its length.
    pub bytes: u64,
    /// First log index it covers.
    pub first_index: u64,
    /// Last log index it covers.
    pub last_index: u64,
    slot: u32,
}

/// The storage of one instance.
pub struct Engine<D> {
    io: Io<D>,
    options: EngineOptions,
    journal: Journal,
    /// Why nothing more can be made durable through the journal, once its file is in an unknown state.
    journal_stopped: Option<String>,
    partitions: Vec<Option<Box<PartitionStore>>>,
    by_id: BTreeMap<PartitionId, Handle>,
    /// Partitions whose removal was deferred, or has failed half-way.
    dropping: BTreeMap<PartitionId, drops::LeftoverFiles>,
    /// Those of them whose memory is not released yet.
    buried: Vec<PartitionStore>,
    /// The child partitions that are being made, by their parents.
    splits: BTreeMap<PartitionId, Vec<split::ChildLog>>,
    maintenance: maintain::Maintenance,
    scratch: Vec<u8>,
}

impl<D: Disk> Engine<D> {
    /// A buffer for code that assembles data which the engine holds. One buffer is shared by all partitions, so that it is
    /// in the processor's caches more often than separate ones would be. Its contents and length belong to the caller.
    #[inline]
    pub fn scratch(&mut self) -> &mut Vec<u8> {
        &mut self.scratch
    }

    /// Opens a partition, and creates it if it is new. A partition without writes costs no file.
    ///
    /// # Errors
    /// Errors of the disk; also errors of the removal of an older partition of this name, if that has failed half-way.
    pub fn partition(&mut self, id: PartitionId, options: PartitionOptions) -> EngineResult<Handle> {
        match self.dropping.get(&id) {
            None => {}
            Some(drops::LeftoverFiles::UntilNextStart) => {
                let reason = "it was split, and what is left of it goes with a later start".into();
                return Err(EngineError::Stopped { reason });
            }
            Some(_) => self.end_drop(id)?,
        }
        let handle = match self.by_id.get(&id) {
            Some(&handle) => {
                let (io, store) = self.store(handle)?;
                // After a crash the folder may exist alone, without a seed.
                if store.names_no_seed(&io.logs) {
                    store.id.index_seed = options.index_seed;
                }
                handle
            }
            None => {
                let handle = Handle(self.partitions.len() as u32);
                self.add_partition(id, options.index_seed, options.durability);
                handle
            }
        };
        self.set_durability(handle, options.durability)?;
        Ok(handle)
    }

    /// Adds an entry to a partition's log: the next one after the last, of the same or a higher epoch. Readers do not see it
    /// before [`Engine::commit`].
    ///
    /// # Errors
    /// Before anything has changed: a full disk or memory, a length beyond its limit, a position that is not the next.
    pub fn append(
        &mut self,
        handle: Handle,
        meta: &EntryMeta,
        key: &[u8],
        payload: &[u8],
    ) -> EngineResult<()> {
        self.append_pieces(handle, meta, key, [payload])
    }

    /// As [`Engine::append`], for an entry whose payload is the concatenation of these pieces.
    ///
    /// # Errors
    /// As there.
    pub fn append_pieces<const N: usize>(
        &mut self,
        handle: Handle,
        meta: &EntryMeta,
        key: &[u8],
        payload: [&[u8]; N],
    ) -> EngineResult<()> {
        self.make_journal_room(handle, key.len() + bytes_of(payload))?;
        let Engine { io, partitions, journal, maintenance, .. } = self;
        let store = store_of(partitions, handle)?;
        store.admit(io, meta, key, bytes_of(payload))?;
        let placed = store.append(io, meta, key, payload)?;
        if store.durability == Durability::Sync {
            await_flush(io, journal, store, (meta, key), payload);
        }
        store.recent.push(meta, placed);
        store.end_step(&io.logs);
        maintenance.wrote(handle, store, placed.entry_bytes);
        self.evict();
        Ok(())
    }

    /// Commits everything up to a log index: readers see it from now on. An atomic batch ([`crate::FLAG_JOINED`]) is
    /// committed if its end is in the log and is not behind that index, and otherwise not at all; [`PartitionStats::commit`]
    /// is the index that was reached.
    ///
    /// # Errors
    /// Errors of the disk where older entries must be read.
    pub fn commit(&mut self, handle: Handle, index: u64) -> EngineResult<()> {
        let (io, store) = self.store(handle)?;
        let committed = store.commit(io, index);
        store.end_step(&io.logs);
        store.stop_on_failure(committed)
    }

    /// Truncates the uncommitted entries after a log index. The truncation survives a crash once this returns. Entries that
    /// are appended in their place must differ from them in epoch or be the same: epoch and index identify an entry.
    ///
    /// # Errors
    /// [`EngineError::Committed`] if committed entries would be removed, [`EngineError::DiskFull`] before anything was
    /// removed, [`EngineError::Incoming`]; errors of the disk.
    pub fn truncate_after(&mut self, handle: Handle, index: u64) -> EngineResult<()> {
        let is_journaled = self.journal.has_records_of(handle.0);
        let (io, store) = self.store(handle)?;
        store.check_is_own()?;
        let (partition, commit) = (store.id.partition, store.commit);
        if index >= io.logs.view(store.handle).last().1 {
            return Ok(());
        }
        if is_journaled && index >= commit {
            // If the power fails before the journal has the truncation, the removed entries must not look lost.
            self.journal.push_truncate_started(partition, index);
            self.flush()?;
        }
        let (io, store) = self.store(handle)?;
        store.truncate_after(io, index)?;
        store.end_step(&io.logs);
        if !is_journaled {
            return Ok(());
        }
        self.journal.push_truncated(handle.0, partition, index);
        match self.flush() {
            // The next flush writes it. Until then a crash may restore the entries, uncommitted as they were.
            Err(EngineError::DiskFull { .. } | EngineError::Scarce { .. }) => Ok(()),
            other => other,
        }
    }

    /// Makes every entry accepted so far by `sync` partitions survive a crash: one flush of the journal.
    ///
    /// # Errors
    /// [`EngineError::DiskFull`]: nothing is lost; the caller retries once there is space. Any other: the entries since the
    /// last flush must not be acknowledged, and no more entries are accepted.
    pub fn flush(&mut self) -> EngineResult<()> {
        if self.io.logs.shared().is_some() {
            return self.flush_shared(false);
        }
        if let Some(reason) = &self.journal_stopped {
            return Err(EngineError::Stopped { reason: reason.clone() });
        }
        if !self.journal.has_batch() {
            return Ok(());
        }
        let large = self.journal.take_needing_sync();
        for &handle in &large {
            let Ok((io, store)) = self.store(Handle(handle)) else { continue };
            // The complete log: recovery would truncate it at the first position that was not synced.
            if let Err(error) = store.sync(io) {
                self.journal.put_large_back(large);
                return Err(self.flush_failed(error));
            }
        }
        match self.journal.flush(&mut self.io.disk) {
            Ok(partition_ends) => {
                self.journaled(partition_ends);
                Ok(())
            }
            Err(error) => Err(self.flush_failed(error.into())),
        }
    }

    /// Starts what [`Engine::flush`] does, so that the owner continues while the disk works. `true`: the flush was started
    /// and covers what was accepted so far; [`Engine::flush_done`] reports its end. `false`: all of that survives a crash
    /// already.
    ///
    /// # Errors
    /// As [`Engine::flush`].
    pub fn flush_begin(&mut self) -> EngineResult<bool> {
        if self.io.logs.shared().is_some() {
            return self.flush_begin_shared();
        }
        // Entries that a batch only refers to are synced first, and one flush runs at a time: these are waited for.
        if self.journal_stopped.is_some() || self.journal.has_large() || self.journal.is_flushing() {
            return self.flush().map(|()| false);
        }
        match self.journal.flush_begin(&mut self.io.disk, true) {
            Ok(()) => Ok(self.journal.is_flushing()),
            Err(error) => Err(self.flush_failed(error.into())),
        }
    }

    /// Whether no flush is running, and the started one survives a crash.
    ///
    /// # Errors
    /// As [`Engine::flush`], for the started flush.
    pub fn flush_done(&mut self) -> EngineResult<bool> {
        if self.io.logs.shared().is_some() {
            return self.flush_done_shared();
        }
        self.poll_journal()?;
        if let Some(reason) = &self.journal_stopped {
            return Err(EngineError::Stopped { reason: reason.clone() });
        }
        Ok(!self.journal.is_flushing())
    }

    /// The entries of the batch cannot be acknowledged any more, whichever partitions they belong to. Unless the disk is
    /// only full, no `sync` partition accepts more entries.
    pub(super) fn flush_failed(&mut self, error: EngineError) -> EngineError {
        let error = self.io.full_or(error);
        if !error.is_out_of_space() {
            self.journal_stopped = Some(error.to_string());
            for store in self.partitions.iter_mut().flatten().filter(|s| s.durability == Durability::Sync) {
                store.stopped.get_or_insert_with(|| error.to_string().into_boxed_str());
            }
        }
        error
    }

    /// Makes everything accepted so far survive a crash, of all partitions, and waits for it.
    ///
    /// # Errors
    /// Errors of the disk, or that a partition has stopped; the others are synced all the same.
    pub fn sync(&mut self) -> EngineResult<()> {
        let mut result = self.flush();
        let Engine { io, partitions, .. } = self;
        for store in partitions.iter_mut().flatten().filter(|s| s.durability != Durability::Memory) {
            if store.stopped.is_some() || !io.logs.view(store.handle).is_durable() {
                result = result.and(store.sync(io));
            }
        }
        self.settle_moved()?;
        result
    }

    /// The present record of a key.
    ///
    /// # Errors
    /// [`EngineError::Corrupt`] if its bytes on disk are not the ones that were written.
    pub fn lookup(&mut self, handle: Handle, key: &[u8]) -> EngineResult<Option<StoredRecord<'_>>> {
        let Engine { io, partitions, .. } = self;
        store_of(partitions, handle)?.lookup(io, key)
    }

    /// The record of a key as it was at a timestamp above the horizon ([`Engine::set_horizon`]).
    ///
    /// # Errors
    /// As [`Engine::lookup`].
    pub fn lookup_at(
        &mut self,
        handle: Handle,
        key: &[u8],
        timestamp: u64,
    ) -> EngineResult<Option<StoredRecord<'_>>> {
        let Engine { io, partitions, .. } = self;
        store_of(partitions, handle)?.lookup_at(io, key, timestamp)
    }

    /// Reads the entry of a log index: a part of a record, or an entry to be sent to another member.
    ///
    /// # Errors
    /// [`EngineError::Corrupt`] also if the log does not hold it.
    pub fn read_entry(&mut self, handle: Handle, index: u64) -> EngineResult<EntryRef<'_>> {
        let Engine { io, partitions, .. } = self;
        store_of(partitions, handle)?.read_entry(io, index)
    }

    /// The assembled contents of a record. Of a bytes record they are its bytes, and of a chunk all up to the end of
    /// what was written. Of a list they are the values as its parts have them, without each part's four bytes of count.
    /// `None` if there is no record.
    ///
    /// # Errors
    /// As [`Engine::lookup`].
    pub fn lookup_assembled(&mut self, handle: Handle, key: &[u8]) -> EngineResult<Option<Vec<u8>>> {
        let Some(record) = self.lookup(handle, key)? else { return Ok(None) };
        if record.is_chunk {
            let Some(state) = self.chunk_state(handle, key)? else { return Ok(None) };
            let mut whole = Vec::new();
            self.read_chunk(handle, key, 0..state.end, &mut whole)?;
            return Ok(Some(whole));
        }
        let is_list = record.is_list;
        let start = if is_list { 4 } else { 0 };
        match record.body {
            crate::RecordBody::SingleEntry(payload) => Ok(Some(payload.get(start..).unwrap_or(&[]).to_vec())),
            crate::RecordBody::Parts(parts) => {
                let mut whole = Vec::new();
                for part in &parts.parts {
                    let entry = self.read_entry(handle, part.index)?;
                    let (payload, _) = split_trailer(entry.head.meta.flags, entry.payload);
                    whole.extend_from_slice(payload.get(start..).unwrap_or(&[]));
                }
                if !is_list {
                    whole.drain(..whole.len().min(parts.skipped as usize));
                }
                Ok(Some(whole))
            }
        }
    }

    /// The position where a trim of so many units at the head of a record would cut: the payload for a
    /// [`crate::EntryKind::Trim`] entry. `None` if nothing would be left, or there is no record: then the record must be
    /// removed.
    ///
    /// # Errors
    /// As [`Engine::lookup`].
    pub fn trim_point(&mut self, handle: Handle, key: &[u8], units: u64) -> EngineResult<Option<TrimPoint>> {
        let Some(record) = self.lookup(handle, key)? else { return Ok(None) };
        Ok(match record.body {
            crate::RecordBody::SingleEntry(payload) => {
                let record_units = if record.flags & FLAG_LIST == 0 {
                    payload.len() as u64
                } else {
                    payload.first_chunk::<4>().map_or(0, |count| u64::from(u32_at(count, 0)))
                };
                (units < record_units).then_some(TrimPoint { part: record.index, skip: units })
            }
            crate::RecordBody::Parts(parts) => parts.trim_point(units),
        })
    }

    /// Keeps older versions that end after `horizon` and drops the others; `None` keeps none, which is the default.
    ///
    /// # Errors
    /// [`EngineError::UnknownPartition`].
    pub fn set_horizon(&mut self, handle: Handle, horizon: Option<u64>) -> EngineResult<()> {
        let (io, store) = self.store(handle)?;
        store.set_horizon(&mut io.logs, horizon);
        Ok(())
    }

    /// As [`Engine::set_horizon`], but versions that no snapshot can read any more are dropped step by step, by
    /// [`Engine::maintain`].
    ///
    /// # Errors
    /// [`EngineError::UnknownPartition`].
    pub fn move_horizon(&mut self, handle: Handle, horizon: Option<u64>) -> EngineResult<()> {
        let (_, store) = self.store(handle)?;
        let is_raised = store.horizon.is_some_and(|before| horizon.is_none_or(|horizon| horizon > before));
        store.horizon = horizon;
        if is_raised && store.versions.len() > 0 && !self.maintenance.forgetting.contains(&handle) {
            self.maintenance.forgetting.push_back(handle);
        }
        Ok(())
    }

    /// Number of older versions that a partition keeps.
    ///
    /// # Errors
    /// [`EngineError::UnknownPartition`].
    pub fn retained_versions(&mut self, handle: Handle) -> EngineResult<usize> {
        Ok(self.store(handle)?.1.versions.len())
    }

    /// Epoch of the entry at a log index; `None` if the log does not hold it (any more). The epoch of the last committed
    /// entry is always known.
    ///
    /// # Errors
    /// As [`Engine::read_entry`].
    pub fn epoch_at(&mut self, handle: Handle, index: u64) -> EngineResult<Option<u32>> {
        let (io, store) = self.store(handle)?;
        store.epoch_at(io, index)
    }

    /// Log index of the last entry that survives a crash.
    ///
    /// # Errors
    /// [`EngineError::UnknownPartition`].
    pub fn durable_index(&mut self, handle: Handle) -> EngineResult<u64> {
        let (io, store) = self.store(handle)?;
        Ok(store.durable_index(&mut io.logs))
    }

    /// Statistics of a partition.
    ///
    /// # Errors
    /// [`EngineError::UnknownPartition`].
    pub fn partition_stats(&mut self, handle: Handle) -> EngineResult<PartitionStats> {
        let durable = self.durable_index(handle)?;
        let (io, store) = self.store(handle)?;
        Ok(PartitionStats {
            records: store.index.hash.len() as u64,
            last: io.logs.view(store.handle).last(),
            commit: store.commit,
            durable,
            log: io.logs.view(store.handle).sizes(),
            checkpoint_bytes: store.checkpoints.newest_bytes(),
            overhead_bytes: store.overhead_bytes(&io.logs) as u64,
            index_bytes: store.index.bytes() as u64,
            versions: store.versions.len() as u64,
            has_failed: store.stopped.is_some(),
        })
    }

    /// Number of records of a partition.
    ///
    /// # Errors
    /// [`EngineError::UnknownPartition`].
    pub fn records(&self, handle: Handle) -> EngineResult<u64> {
        let store = self.partitions.get(handle.0 as usize).and_then(Option::as_ref);
        store.map(|store| store.index.hash.len() as u64).ok_or(EngineError::UnknownPartition)
    }

    /// Statistics of the engine.
    pub fn stats(&self) -> EngineStats {
        EngineStats {
            partitions: self.by_id.len() as u64,
            resident_bytes: self.io.memory.resident_bytes,
            journal_bytes: self.journal.bytes_on_disk(),
            maintenance: self.maintenance.counts,
        }
    }

    /// The known corrupt or missing parts of a partition.
    ///
    /// # Errors
    /// [`EngineError::UnknownPartition`].
    pub fn damage(&mut self, handle: Handle) -> EngineResult<&[Damage]> {
        Ok(&self.store(handle)?.1.damage)
    }

    /// The open partitions.
    pub fn partitions(&self) -> impl Iterator<Item = (PartitionId, Handle)> {
        self.by_id.iter().map(|(&id, &handle)| (id, handle))
    }

    /// The disk, for its owner's own files.
    pub fn disk(&mut self) -> &mut D {
        &mut self.io.disk
    }

    fn log_options(&self, durability: Durability) -> LogOptions {
        LogOptions {
            segment_bytes: self.options.segment_bytes,
            in_memory_only: durability == Durability::Memory,
        }
    }

    fn store(&mut self, handle: Handle) -> EngineResult<(&mut Io<D>, &mut PartitionStore)> {
        Ok((&mut self.io, store_of(&mut self.partitions, handle)?))
    }

    /// Evicts the oldest blocks until memory is within its budget.
    #[inline]
    fn evict(&mut self) {
        if self.io.memory.is_over() {
            self.evict_slowly();
        }
    }

    #[cold]
    fn evict_slowly(&mut self) {
        // Memory of dropped partitions, which no request reads, is released first.
        while self.io.memory.is_over() && self.free_dropped(false) {}
        let (logs, mut resources) = self.io.split_resources();
        if let Some(shared) = logs.shared_mut() {
            return shared.evict(&mut resources);
        }
        let mut stuck = VecDeque::new();
        while self.io.memory.is_over() {
            let Some(name @ (handle, slot, number)) = self.io.memory.evictable.pop_front() else { break };
            if !matches!(self.partitions.get(handle as usize), Some(Some(_))) {
                continue;
            }
            let log = self.io.logs.separate_mut(handle);
            let Some(Some(segment)) = log.slots.get_mut(slot as usize) else { continue };
            let freed = segment.evict(number as usize);
            if freed == 0 && segment.has_block(number as usize) {
                stuck.push_back(name);
            }
            self.io.memory.freed(freed);
        }
        self.io.memory.evictable.extend(stuck);
    }
}

/// An owner waits until the next flush has made this entry of a `sync` partition durable.
#[inline]
fn await_flush<D, const N: usize>(
    io: &mut Io<D>,
    journal: &mut Journal,
    store: &PartitionStore,
    (meta, key): (&EntryMeta, &[u8]),
    payload: [&[u8]; N],
) {
    match io.logs.shared_mut() {
        Some(shared) => shared.wants_flush = true,
        None => {
            let owner = store.journal_owner(&io.logs, Handle(store.handle));
            journal.push_pieces(owner, (meta, key), payload);
        }
    }
}

fn store_of(
    partitions: &mut [Option<Box<PartitionStore>>],
    handle: Handle,
) -> EngineResult<&mut PartitionStore> {
    match partitions.get_mut(handle.0 as usize) {
        Some(Some(store)) => Ok(store),
        _ => Err(EngineError::UnknownPartition),
    }
}

fn folder_of(id: PartitionId) -> String {
    format!("p-{:016x}", id.0)
}
