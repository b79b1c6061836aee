//! One partition's data over its log: its index, its side table.
//!
//! ```text
//!   append ──> log (pending) ──commit──> index / side table ──> lookup
//!                 │                           │
//!              cut_after                  checkpoint, compaction
//! ```

use std::collections::BTreeMap;

use zerohop_base::invariant::{BrokenInvariant, CheckTurn};

use crate::disk::Disk;
use crate::error::{EngineError, EngineResult};
use crate::index::location::{EntryPlace, Location};
use crate::index::partition_index::PartitionIndex;
use crate::io::{Io, Logs};
use crate::journal::JournalOwner;
use crate::limits::{ADMITTED_MARK_BYTES_MAX, KEY_BYTES_MAX, PAYLOAD_BYTES_MAX};
use crate::log::chunk_head::ChunkHead;
use crate::log::entry::{EntryKind, EntryMeta, FLAG_CHUNK, FLAG_LIST, HEAD_BYTES, split_trailer, u32_at};
use crate::log::segment::Segment;
use crate::log::shared::live_bytes::EntryUse;
use crate::log::{AppendedPlace, StoreFacts};
use crate::logs::{CountedEntry, LogView};
use crate::overflow::chains::Chains;
use crate::overflow::extents::COVERS_UNKNOWN;
use crate::overflow::part::ChainPart;
use crate::overflow::places::{PartPlaces, position};
use crate::overflow::versions::Versions;
use crate::planted::{Bug, is_planted};
use crate::resources::ReserveShare;
use crate::{Damage, Durability, Handle, PartitionId};

use tail_index::{PendingEntry, RecentEntries};

mod apply;
pub(crate) mod check;
pub(crate) mod checkpoint;
mod checkpoint_payload;
pub(crate) mod chunk;
pub(crate) mod compact;
pub(crate) mod compaction_policy;
pub(crate) mod entry_use;
mod read;
pub(crate) mod record;
pub(crate) mod recount;
pub(crate) mod recover;
mod repair;
pub(crate) mod run_sender;
pub(crate) mod scrub;
pub(crate) mod section;
pub(crate) mod snapshot_install;
pub(crate) mod tail_index;

/// Index and side table of one partition. Its log is in [`crate::io::Logs`].
// The fields of every read and write come first, so that they occupy few cache lines: with hundreds of
// partitions, each line is a cache miss.
#[repr(C, align(64))]
pub(crate) struct PartitionStore {
    /// Names its log among those of the instance.
    pub(crate) handle: u32,
    pub(crate) index: PartitionIndex,
    pub(crate) id: StoreIdentity,
    pub(crate) stopped: Option<Box<str>>,
    /// The invariant because of which the log is not written any more.
    pub(crate) broken: Option<Box<BrokenInvariant>>,
    pub(crate) durability: Durability,
    /// Log index of the last committed entry.
    pub(crate) commit: u64,
    /// Written to since the last sync started.
    pub(crate) is_dirty: bool,
    /// Whether another member's log is being installed.
    pub(crate) incoming: snapshot_install::InstallState,
    /// Versions that ended at or before this are dropped. `None`: none are kept.
    pub(crate) horizon: Option<u64>,
    /// Entries that are not committed yet, and the places of the last committed ones.
    pub(crate) recent: RecentEntries,
    /// Bytes that have died since the owner last checked whether compaction is due.
    pub(crate) dead_since_check: u64,
    /// The number of such bytes at which it checks.
    pub(crate) check_at_dead_bytes: u64,
    /// Memory of entries that died while the present one is applied, not yet subtracted from the account.
    released_bytes: usize,
    pub(crate) checkpoints: checkpoint::Checkpoints,
    pub(crate) chains: Chains,
    pub(crate) versions: Versions,
    /// The places of the entries that chains and versions name.
    pub(crate) places: PartPlaces,
    /// Log index of the last entry the journal holds durably.
    pub(crate) journaled: u64,
    /// Log index of the last entry of an `interval` partition that was copied to the journal, durable there or not yet.
    pub(crate) copied: u64,
    /// The owner's account of this partition.
    pub(crate) account: Account,
    pub(crate) damage: Vec<Damage>,
    /// Whether entries carry state beside their records: then they stay until every kept checkpoint covers
    /// them.
    pub(crate) has_state_in_log: bool,
    /// The upper layer's payload of the loaded checkpoint, and the commit index of that checkpoint.
    pub(crate) recovered_extra: Option<Box<(u64, Vec<u8>)>>,
    pub(crate) compaction: compact::Compactor,
    pub(crate) check_turn: CheckTurn,
    pub(crate) scratch: Vec<u8>,
    apply_scratch: ApplyScratch,
}

/// What a store and all files of its log have in common.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoreIdentity {
    pub(crate) partition: PartitionId,
    /// The seed of the hash of keys.
    pub(crate) index_seed: u64,
}

/// Buffers for entries that are applied, or copied by compaction.
#[derive(Default)]
struct ApplyScratch {
    entry: Vec<u8>,
    key: Vec<u8>,
}

/// What the engine's maintenance records of a partition.
#[derive(Default)]
pub(crate) struct Account {
    /// It waits for a check of its dead space and its checkpoint.
    pub(crate) awaits_check: bool,
    /// It waits for a checkpoint to start.
    pub(crate) awaits_checkpoint: bool,
    /// It waits for a compaction to start.
    pub(crate) awaits_compaction: bool,
    /// Its dead space cannot be reclaimed before a checkpoint.
    pub(crate) is_compaction_blocked: bool,
    /// Bytes of its log, and the wasted bytes among them, at the last check.
    pub(crate) log_bytes: u64,
    pub(crate) wasted_bytes: u64,
    /// The part of these on the disk.
    pub(crate) wasted_on_disk_bytes: u64,
}

/// The result of a small step of maintenance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MaintenanceStep {
    /// There is nothing more to do.
    Done,
    /// There is more to do at once.
    Progressed,
    /// Another operation must end first.
    Waits,
}

impl PartitionStore {
    /// An empty one. Its log is added beside it ([`crate::io::Logs::add`]).
    pub(crate) fn new(handle: u32, id: StoreIdentity, durability: Durability) -> PartitionStore {
        PartitionStore {
            handle,
            id,
            index: PartitionIndex::default(),
            chains: Chains::default(),
            versions: Versions::default(),
            places: PartPlaces::default(),
            horizon: None,
            durability,
            recent: RecentEntries::default(),
            commit: 0,
            journaled: 0,
            copied: 0,
            dead_since_check: 0,
            check_at_dead_bytes: 0,
            released_bytes: 0,
            account: Account::default(),
            is_dirty: false,
            stopped: None,
            damage: Vec::new(),
            has_state_in_log: false,
            recovered_extra: None,
            checkpoints: checkpoint::Checkpoints::default(),
            compaction: compact::Compactor::default(),
            incoming: snapshot_install::InstallState::No,
            broken: None,
            check_turn: CheckTurn::default(),
            scratch: Vec::new(),
            apply_scratch: ApplyScratch::default(),
        }
    }

    /// The part of the key's hash that the index keeps.
    pub(crate) fn fragment(&self, key: &[u8]) -> u32 {
        xxhash_rust::xxh3::xxh3_64_with_seed(key, self.id.index_seed) as u32
    }

    /// Neither its files nor entries since then determine the seed of the hash of its keys.
    pub(crate) fn names_no_seed(&self, logs: &Logs) -> bool {
        logs.view(self.handle).is_unused() && self.index.hash.is_empty()
    }

    /// The owner data for the journal.
    #[inline]
    pub(crate) fn journal_owner(&self, logs: &Logs, handle: Handle) -> JournalOwner {
        let log = logs.separate(self.handle);
        let first = log.order.first().map(|&slot| log.segment(slot));
        let is_named = first.is_some_and(|segment| segment.name_is_durable && segment.synced > 0);
        let seed = if is_named { None } else { Some(self.id.index_seed) };
        JournalOwner { handle: handle.0, partition: self.id.partition, seed }
    }

    /// Checks an entry before anything is changed.
    pub(crate) fn admit<D: Disk>(
        &self,
        io: &mut Io<D>,
        meta: &EntryMeta,
        key: &[u8],
        payload_bytes: usize,
    ) -> EngineResult<()> {
        self.check_going()?;
        self.check_is_own()?;
        if key.len() > KEY_BYTES_MAX || key.is_empty() && meta.kind.has_key() {
            return Err(EngineError::KeyLength { bytes: key.len() });
        }
        if payload_bytes > PAYLOAD_BYTES_MAX {
            return Err(EngineError::PayloadTooLong { bytes: payload_bytes });
        }
        let log = io.logs.view(self.handle);
        let (last, lacks_room) = (log.last(), log.lacks_room());
        if meta.index != last.1 + 1 || meta.epoch < last.0 || meta.kind.is_local() {
            return Err(EngineError::NotNext { last });
        }
        let bytes = (HEAD_BYTES + key.len() + payload_bytes) as u64;
        // Small entries that free space, and the small marks without which no request that frees space
        // could be answered.
        let is_small = payload_bytes <= ADMITTED_MARK_BYTES_MAX;
        let frees_space = is_small && matches!(meta.kind, EntryKind::Remove | EntryKind::Mark);
        let share_min = if frees_space { ReserveShare::Half } else { ReserveShare::Nothing };
        let share = io.space.share_of_all().max(share_min);
        match self.durability {
            Durability::Interval { .. } | Durability::Sync if lacks_room && share < ReserveShare::Half => {
                Err(io.space.refusal(&mut io.disk))
            }
            Durability::Memory if io.memory.is_over() && share < ReserveShare::Half => {
                Err(EngineError::MemoryFull { budget_bytes: io.memory.budget_bytes })
            }
            Durability::Memory => Ok(()),
            Durability::Interval { .. } => {
                io.space.check_file_size(bytes)?;
                io.space.admit(&mut io.disk, bytes, share)
            }
            Durability::Sync => {
                io.space.check_file_size(bytes)?;
                io.space.admit(&mut io.disk, 2 * bytes, share)
            }
        }
    }

    /// Whether entries of so many bytes would be admitted.
    pub(crate) fn check_space_for<D: Disk>(
        &self,
        io: &mut Io<D>,
        bytes: u64,
        is_admitted: bool,
    ) -> EngineResult<()> {
        let lacks_room = io.logs.view(self.handle).lacks_room();
        let share = if is_admitted { ReserveShare::Half } else { ReserveShare::Nothing };
        match self.durability {
            Durability::Interval { .. } | Durability::Sync if lacks_room && !is_admitted => {
                Err(io.space.refusal(&mut io.disk))
            }
            Durability::Memory if io.memory.is_over() && !is_admitted => {
                Err(EngineError::MemoryFull { budget_bytes: io.memory.budget_bytes })
            }
            Durability::Memory => Ok(()),
            Durability::Interval { .. } => io.space.check_space_for(&mut io.disk, bytes, share),
            Durability::Sync => io.space.check_space_for(&mut io.disk, 2 * bytes, share),
        }
    }

    /// Adds an admitted entry, whose payload may come in pieces, to the log; it waits to be committed.
    /// Inlined, as is [`Logs::append`]: the place is stored in two halves, and code that loads it in
    /// one access right afterwards waits for both.
    #[inline(always)]
    pub(crate) fn append<D: Disk, const N: usize>(
        &mut self,
        io: &mut Io<D>,
        meta: &EntryMeta,
        key: &[u8],
        payload: [&[u8]; N],
    ) -> EngineResult<AppendedPlace> {
        let (logs, mut resources) = io.split_resources();
        let placed = logs.append(&mut resources, self.handle, meta, key, payload, self.log_facts());
        self.stop_on_failure(placed)
    }

    /// What the log records of this store.
    #[inline]
    pub(crate) fn log_facts(&self) -> StoreFacts {
        StoreFacts { commit: self.commit, index_seed: self.id.index_seed }
    }

    /// Commits everything up to `index`, except an atomic batch that ends behind it, or has no end.
    pub(crate) fn commit<D: Disk>(&mut self, io: &mut Io<D>, index: u64) -> EngineResult<()> {
        self.commit_known(io, index.min(self.complete_batches_through(index)))
    }

    /// Commits everything up to `index`, which is known to have been committed completely: missing entries of
    /// an atomic batch were dropped since.
    pub(crate) fn commit_known<D: Disk>(&mut self, io: &mut Io<D>, index: u64) -> EngineResult<()> {
        while let Some(&PendingEntry { meta, location: placed }) =
            self.recent.first_pending().filter(|p| p.meta.index <= index)
        {
            self.apply_from_log(io, &meta, placed)?;
            self.recent.commit_first();
            self.commit = meta.index;
        }
        Ok(())
    }

    /// The last index of the pending atomic batches that end, as far as the log goes, at or before `index`.
    fn complete_batches_through(&self, index: u64) -> u64 {
        self.recent.complete_batches_through(index).unwrap_or(self.commit)
    }

    /// Truncates an atomic batch whose last entry is lost: a crash came before it was durable, so it was not
    /// acknowledged. Returns how many entries were removed.
    pub(crate) fn truncate_incomplete_batch<D: Disk>(&mut self, io: &mut Io<D>) -> EngineResult<u64> {
        // No entry behind a pending one was compacted: if the log ends with it, so does the rest of its
        // atomic batch.
        let last = io.logs.view(self.handle).last().1;
        let is_unfinished =
            self.recent.last_pending().is_some_and(|p| p.meta.is_joined() && p.meta.index == last);
        if !is_unfinished || is_planted(Bug::PartialBatchKept) {
            return Ok(0);
        }
        let keep = self.complete_batches_through(u64::MAX);
        self.truncate_after(io, keep)?;
        Ok(last - keep)
    }

    /// Truncates uncommitted entries after `index`.
    pub(crate) fn truncate_after<D: Disk>(&mut self, io: &mut Io<D>, index: u64) -> EngineResult<()> {
        self.check_going()?;
        self.check_is_own()?;
        if index < self.commit {
            return Err(EngineError::Committed { commit: self.commit });
        }
        let epoch = self.epoch_at(io, index)?.unwrap_or_default();
        self.forget_pending_after(&mut io.logs, index);
        let (logs, mut resources) = io.split_resources();
        let cut = logs.truncate_after(&mut resources, self.handle, (epoch, index));
        self.journaled = self.journaled.min(index);
        self.copied = self.copied.min(index);
        self.stop_on_failure(cut)
    }

    /// Forgets the pending entries after `index`, which are about to be truncated. Returns how many.
    pub(crate) fn forget_pending_after(&mut self, logs: &mut Logs, index: u64) -> u64 {
        let mut forgotten = 0;
        while let Some(gone) = self.recent.pop_after(index) {
            logs.forget_entry(self.handle, &gone.meta, gone.location);
            forgotten += 1;
        }
        forgotten
    }

    /// Drops older versions that ended at or before `horizon`; keeps those that end later from now on.
    pub(crate) fn set_horizon(&mut self, logs: &mut Logs, horizon: Option<u64>) {
        self.horizon = horizon;
        self.expire_versions(logs, usize::MAX);
    }

    /// Drops at most `most` versions that no snapshot can read any more. Returns whether there may be more of
    /// them.
    pub(crate) fn expire_versions(&mut self, logs: &mut Logs, most: usize) -> bool {
        let horizon = self.horizon.unwrap_or(u64::MAX);
        self.index.expire(horizon);
        for _ in 0..most {
            let Some(older) = self.versions.expire(horizon) else { return false };
            for part in older.dead_parts {
                self.count_dead(logs, &part, EntryUse::Kept, older.dead_use);
            }
        }
        true
    }

    /// The segment of an entry that a chain or a version names.
    pub(crate) fn slot_of_part(&self, log: LogView<'_>, index: u64) -> Option<u32> {
        let place = self.places.get(log, index).map(|place| position(place).slot);
        place.or_else(|| log.slot_of(index))
    }

    /// Nothing names an entry any more: counts it as dead space, by log index. It was used in this way, and may have to stay as a
    /// removal.
    pub(crate) fn count_dead(
        &mut self,
        logs: &mut Logs,
        part: &ChainPart,
        was: EntryUse,
        now: Option<EntryUse>,
    ) {
        let log = logs.view(self.handle);
        if let Some(slot) = self.slot_of_part(log, part.index) {
            self.places.remove(log, part.index);
            let entry_bytes = u64::from(part.entry_bytes);
            // The redirection of its place to the copy finds an entry that has died, and counts it.
            if !self.compaction.redirects_later(slot, part.index) {
                let entry = CountedEntry { slot, index: part.index, entry_bytes };
                logs.count_dead(self.handle, entry, was, now);
            }
            self.dead_since_check += entry_bytes;
        }
    }

    /// Whether the entry of this log index is a part of a record of parts with this fragment.
    pub(crate) fn is_part(&self, fragment: u32, index: u64) -> bool {
        let found = self.index.hash.find(fragment, |location| match location.decode() {
            EntryPlace::Chain(id) => Ok::<_, std::convert::Infallible>(self.chains.get(id).has_part(index)),
            EntryPlace::Entry(_) => Ok(false),
        });
        found.unwrap_or_else(|never| match never {}).is_some()
    }

    /// Log index of the last entry that survives a crash.
    pub(crate) fn durable_index(&mut self, logs: &mut Logs) -> u64 {
        logs.synced_index(self.handle).max(self.journaled)
    }

    /// Whether another member's log is being installed: the data here does not count yet.
    pub(crate) fn is_incoming(&self) -> bool {
        self.incoming != snapshot_install::InstallState::No
    }

    /// # Errors
    /// [`EngineError::Incoming`] while another member's log is being installed.
    pub(crate) fn check_is_own(&self) -> EngineResult<()> {
        if self.is_incoming() { Err(EngineError::Incoming) } else { Ok(()) }
    }

    /// Makes the complete log survive a crash. Not after a failure: a sync that succeeds then proves nothing.
    pub(crate) fn sync<D: Disk>(&mut self, io: &mut Io<D>) -> EngineResult<()> {
        // What was appended before an invariant was found broken is synced as ever: it may have been acknowledged.
        self.check_disk()?;
        let (logs, mut resources) = io.split_resources();
        let synced = logs.sync(&mut resources, self.handle);
        self.stop_on_failure(synced).map_err(|error| io.full_or(error))
    }

    /// Releases every file and all counted memory: the partition is being removed.
    pub(crate) fn release<D: Disk>(&mut self, io: &mut Io<D>) {
        self.close_files(io);
        let mut all = usize::MAX;
        self.release_some(io, &mut all);
    }

    /// Closes all of its files: nothing is read or written here any more.
    pub(crate) fn close_files<D: Disk>(&mut self, io: &mut Io<D>) {
        let under_way = self.checkpoints.abandon().into_iter().chain(self.compaction.abandon(io));
        under_way.for_each(|file| io.disk.close(file));
        let Io { disk, logs, .. } = io;
        logs.close_files(disk, self.handle);
    }

    /// Releases the memory of up to so many segments, and of the log with the last one. Returns whether there are more.
    pub(crate) fn release_some<D>(&mut self, io: &mut Io<D>, segments: &mut usize) -> bool {
        let (logs, mut resources) = io.split_resources();
        let has_more = logs.release_some(&mut resources, self.handle, segments);
        if !has_more {
            io.logs.remove(self.handle);
        }
        has_more
    }

    /// # Errors
    /// [`EngineError::Stopped`] after a failure of the disk, or because an invariant is broken.
    pub(crate) fn check_going(&self) -> EngineResult<()> {
        match &self.broken {
            Some(broken) => Err(EngineError::Stopped { reason: broken.to_string() }),
            None => self.check_disk(),
        }
    }

    /// # Errors
    /// [`EngineError::Stopped`] after a failure of the disk.
    fn check_disk(&self) -> EngineResult<()> {
        match &self.stopped {
            Some(reason) => Err(EngineError::Stopped { reason: reason.to_string() }),
            None => Ok(()),
        }
    }

    /// Whether nothing is written to the log any more.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.is_some() || self.broken.is_some()
    }

    /// After a failure of the disk no more entries are accepted: data in flight is in an unknown state. A
    /// full disk is not a failure: nothing was written, and the call is retried.
    #[inline]
    pub(crate) fn stop_on_failure<T>(&mut self, result: EngineResult<T>) -> EngineResult<T> {
        match result {
            Ok(value) => Ok(value),
            Err(error) => Err(self.stop(error)),
        }
    }

    #[cold]
    fn stop(&mut self, error: EngineError) -> EngineError {
        // A full disk is not a failure: nothing was done, and the call may be repeated.
        if let EngineError::Disk(error) = &error
            && !error.is_temporary()
            && self.stopped.is_none()
        {
            self.stopped = Some(error.to_string().into_boxed_str());
        }
        error
    }

    /// The same over copies of the segments. No running work may redirect locations into segments that are no longer in the log.
    pub(crate) fn copy_for(
        &self,
        logs: &mut Logs,
        (partition, handle): (PartitionId, u32),
        folder: String,
        segments: BTreeMap<u32, Segment>,
        state: Option<(u64, &[u8])>,
    ) -> PartitionStore {
        assert!(!self.compaction.is_swapping(), "locations lead into the log");
        let log = logs.separate(self.handle).copy_for((partition, handle), folder, segments);
        logs.add_separate(log);
        self.clone_for((partition, handle), state)
    }

    /// The same records and versions over the same entries. `state`: the upper layer's state, and the log index of that state;
    /// without it, the payload of the checkpoint.
    pub(crate) fn clone_for(
        &self,
        (partition, handle): (PartitionId, u32),
        state: Option<(u64, &[u8])>,
    ) -> PartitionStore {
        let given = state.map(|(index, bytes)| Box::new((index, bytes.to_vec())));
        let damage = self.damage.iter().map(|damage| Damage { partition, ..damage.clone() });
        let mut copy = PartitionStore {
            index: self.index.clone(),
            chains: self.chains.clone(),
            versions: self.versions.clone(),
            places: self.places.clone(),
            horizon: self.horizon,
            recent: self.recent.clone(),
            commit: self.commit,
            has_state_in_log: self.has_state_in_log,
            incoming: self.incoming,
            damage: damage.collect(),
            recovered_extra: given.or_else(|| self.recovered_extra.clone()),
            dead_since_check: self.dead_since_check,
            ..PartitionStore::new(handle, StoreIdentity { partition, ..self.id }, self.durability)
        };
        copy.checkpoints.tail_bytes = self.checkpoints.tail_bytes;
        copy
    }

    /// Memory that it uses beside log blocks, in bytes.
    pub(crate) fn overhead_bytes(&self, logs: &Logs) -> usize {
        size_of::<PartitionStore>()
            + logs.view(self.handle).overhead_bytes()
            + self.index.bytes()
            + self.chains.bytes()
            + self.places.bytes()
            + self.recent.bytes()
            + self.scratch.capacity()
            + self.apply_scratch.entry.capacity()
    }

    pub(crate) fn location_of(placed: AppendedPlace) -> Location {
        Location::entry(placed.slot, placed.offset, placed.entry_bytes)
    }
}

/// The number of units (values or bytes) that an entry's payload holds, or covers in a chunk.
pub(crate) fn units_of(kind: EntryKind, flags: u8, payload: &[u8]) -> u32 {
    let (payload, _) = split_trailer(flags, payload);
    match kind {
        EntryKind::Append | EntryKind::Put if flags & FLAG_LIST != 0 => {
            if payload.len() < 4 {
                0
            } else {
                u32_at(payload, 0)
            }
        }
        EntryKind::Append | EntryKind::Put if flags & FLAG_CHUNK != 0 => {
            ChunkHead::decode(payload).map_or(COVERS_UNKNOWN, |head| head.length)
        }
        _ => payload.len() as u32,
    }
}
