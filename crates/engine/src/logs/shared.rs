//! The shared log of an instance as stores and engine use it: partitions by handle, segments by slot, the account of memory.

use std::collections::BTreeMap;

use super::RelocatedPlace;
use super::handle_table::HandleTable;
use super::part_sizes::PartSizes;
use super::segment_slots::SegmentSlots;
use super::sent_segment::SentSegment;
use crate::PartitionId;
use crate::disk::Disk;
use crate::error::{EngineError, EngineResult};
use crate::log::entry::{EntryMeta, Head};
use crate::log::shared::compact::LogCompaction;
use crate::log::shared::compact::LogHold;
use crate::log::shared::format::{HEAD_BYTES, LogPlace, SharedHead, SharedKind};
use crate::log::shared::install_run::InstallPlace;
use crate::log::shared::live_bytes::EntryUse;
use crate::log::shared::recover::{LogRecovery, resume};
use crate::log::shared::rounds::LogRounds;
use crate::log::shared::streams::{LogSlot, NewLogPartition, SharedLog, SharedLogOptions};
use crate::log::shared::victims::SlotOwners;
use crate::log::shared::warm_up::WarmUp;
use crate::log::{AppendedPlace, StoreFacts};
use crate::resources::LogResources;

/// After so many appended bytes full pieces are issued, and the memory is counted.
const COUNT_EVERY_BYTES: u64 = 64 << 10;

/// One log of all partitions.
pub(crate) struct SharedLogs {
    pub(crate) log: SharedLog,
    pub(crate) rounds: LogRounds,
    pub(crate) compaction: LogCompaction,
    pub(super) parts: HandleTable<SharedPart>,
    /// The handle of the partition that has each slot of the log.
    pub(super) handles: Vec<Option<u32>>,
    pub(crate) segments: SegmentSlots,
    /// The stores are complete: what becomes of entries is counted.
    pub(super) has_begun_counting: bool,
    /// The last write to a file found no room: until a retry succeeds, entries are only in memory.
    pub(super) lacks_room: bool,
    /// An entry was appended for which an owner waits until it survives a crash.
    pub(crate) wants_flush: bool,
    /// Bytes appended since the memory was counted.
    uncounted_bytes: u64,
    /// Bytes of memory in the account of the instance.
    counted_bytes: u64,
    /// What senders of snapshot installs and scrubs know of the segments that they read, by handle.
    pub(super) sent: BTreeMap<u32, SentSegment>,
    pub(crate) warm_up: WarmUp,
    /// See [`SharedLogs::moves_despite_holds`].
    pub(super) moves_despite_holds: u64,
}

/// A partition's part of the log.
pub(crate) struct SharedPart {
    pub(super) partition: PartitionId,
    /// `None` before the first entry.
    pub(super) slot: Option<LogSlot>,
    pub(super) is_in_memory: bool,
    pub(super) sizes: PartSizes,
    /// Where the next run of an install begins at the sender.
    pub(super) install_place: InstallPlace,
    /// Its entries stay where they are while they are sent.
    pub(super) hold: Option<LogHold>,
}

impl SharedLogs {
    /// The log that continues what recovery has found; the slot of each of its partitions.
    ///
    /// # Errors
    /// As [`resume`].
    pub(crate) fn resume(
        disk: &mut impl Disk,
        options: SharedLogOptions,
        recovery: LogRecovery,
    ) -> EngineResult<(SharedLogs, Vec<LogSlot>)> {
        let (log, rounds, slots) = resume(disk, options, recovery)?;
        let logs = SharedLogs {
            warm_up: WarmUp::new(&log),
            log,
            rounds,
            compaction: LogCompaction::default(),
            parts: HandleTable::default(),
            handles: Vec::new(),
            segments: SegmentSlots::default(),
            has_begun_counting: false,
            lacks_room: false,
            wants_flush: false,
            uncounted_bytes: 0,
            counted_bytes: 0,
            sent: BTreeMap::new(),
            moves_despite_holds: 0,
        };
        Ok((logs, slots))
    }

    /// Adds a partition, which has this slot already or gets one with its first entry.
    pub(super) fn add(
        &mut self,
        handle: u32,
        partition: PartitionId,
        slot: Option<LogSlot>,
        is_in_memory: bool,
    ) {
        let part = SharedPart {
            partition,
            slot,
            is_in_memory,
            sizes: PartSizes::default(),
            install_place: InstallPlace::default(),
            hold: None,
        };
        self.parts.add(handle, part);
        if let Some(slot) = slot {
            self.set_handle(slot, Some(handle));
        }
    }

    pub(super) fn set_handle(&mut self, slot: LogSlot, handle: Option<u32>) {
        let at = slot.number();
        if at >= self.handles.len() {
            self.handles.resize(at + 1, None);
        }
        self.handles[at] = handle;
    }

    /// Forgets a partition. Its entries have no owner once [`SharedLogs::drop_partition`] was called.
    pub(super) fn remove(&mut self, handle: u32) {
        self.parts.remove(handle);
    }

    /// The entries of a partition have no owner from here on. Survives a crash with the next flush.
    ///
    /// # Errors
    /// [`EngineError::Stopped`].
    pub(crate) fn drop_partition(&mut self, handle: u32) -> EngineResult<()> {
        self.hold_entries(handle, false);
        match self.part_mut(handle).slot.take() {
            Some(slot) => {
                self.set_handle(slot, None);
                self.compaction.release_all(slot);
                self.log.drop_partition(slot)
            }
            None => Ok(()),
        }
    }

    #[inline]
    pub(super) fn part(&self, handle: u32) -> &SharedPart {
        self.parts.of(handle)
    }

    #[inline]
    pub(super) fn part_mut(&mut self, handle: u32) -> &mut SharedPart {
        self.parts.of_mut(handle)
    }

    /// The slot of a partition; `None` before its first entry.
    pub(crate) fn slot(&self, handle: u32) -> Option<LogSlot> {
        self.part(handle).slot
    }

    /// Whether counts can be exact: the stores know all places.
    pub(crate) fn has_settled(&self) -> bool {
        self.has_begun_counting && !self.log.has_stopped() && !self.log.has_moved()
    }

    /// Whether a partition without entries goes to the disk.
    pub(crate) fn set_in_memory(&mut self, handle: u32, is_in_memory: bool) {
        let part = self.part_mut(handle);
        debug_assert!(
            part.slot.is_none() || part.is_in_memory == is_in_memory,
            "entries stay where they are"
        );
        part.is_in_memory = is_in_memory;
    }

    #[inline]
    pub(super) fn append<D: Disk, const N: usize>(
        &mut self,
        io: &mut LogResources<'_, D>,
        handle: u32,
        meta: &EntryMeta,
        key: &[u8],
        payload: [&[u8]; N],
        facts: StoreFacts,
    ) -> EngineResult<AppendedPlace> {
        let slot = match self.part(handle).slot {
            Some(slot) => slot,
            None => self.begin(handle, facts.index_seed)?,
        };
        let place = self.log.append(slot, meta, key, payload)?;
        self.log.note_progress(slot, facts.commit, 0);
        let segment = self.segments.of(place.segment)?;
        let entry_bytes = HEAD_BYTES + key.len() + payload.iter().map(|piece| piece.len()).sum::<usize>();
        self.part_mut(handle).sizes.change(entry_bytes as u64, None, Some(EntryUse::Live));
        self.uncounted_bytes += entry_bytes as u64;
        if self.uncounted_bytes >= COUNT_EVERY_BYTES {
            self.count(io);
        }
        Ok(AppendedPlace { slot: segment, offset: place.offset, entry_bytes })
    }

    #[cold]
    fn begin(&mut self, handle: u32, seed: u64) -> EngineResult<LogSlot> {
        let &SharedPart { partition, is_in_memory, .. } = self.part(handle);
        let new = NewLogPartition { is_in_memory, ..NewLogPartition::first(partition, seed) };
        let begun = self.log.begin(&[new], None)?;
        let &slot = begun.first().ok_or(EngineError::UnknownPartition)?;
        self.part_mut(handle).slot = Some(slot);
        self.set_handle(slot, Some(handle));
        Ok(slot)
    }

    /// Issues full pieces, and counts the memory.
    #[cold]
    pub(crate) fn count<D: Disk>(&mut self, io: &mut LogResources<'_, D>) {
        self.uncounted_bytes = 0;
        // A log that stops says so with the next append or flush.
        let written = self.log.write_full_pieces(io.disk);
        let _ = self.issued(io, written);
        self.count_memory(io);
    }

    fn count_memory<D>(&mut self, io: &mut LogResources<'_, D>) {
        let now = self.log.resident_bytes() as u64;
        match now.checked_sub(self.counted_bytes) {
            Some(more) => io.memory.add_used(more as usize),
            None => io.memory.freed((self.counted_bytes - now) as usize),
        }
        self.counted_bytes = now;
    }

    /// Reads a block of what recovery has found back into memory, while an eighth of that is free. Returns whether there may be more.
    pub(crate) fn step_warm_up<D: Disk>(&mut self, io: &mut LogResources<'_, D>) -> bool {
        if !self.warm_up.is_done() {
            let budget = io.memory.budget_bytes - io.memory.budget_bytes / 8;
            let room = budget.saturating_sub(io.memory.resident_bytes);
            self.warm_up.step(&mut self.log, io.disk, room);
            self.count_memory(io);
        }
        !self.warm_up.is_done()
    }

    /// Evicts the oldest segments, as far as they survive a crash, until the memory is within its budget.
    pub(crate) fn evict<D>(&mut self, io: &mut LogResources<'_, D>) {
        self.count_memory(io);
        let over = io.memory.resident_bytes.saturating_sub(io.memory.budget_bytes);
        if over > 0 && self.log.evict_some(over as usize) > 0 {
            self.count_memory(io);
        }
    }

    /// Records whether the files had room.
    fn issued<D: Disk, T>(
        &mut self,
        io: &mut LogResources<'_, D>,
        result: EngineResult<T>,
    ) -> EngineResult<T> {
        match result {
            Ok(done) => {
                self.lacks_room = false;
                Ok(done)
            }
            Err(EngineError::DiskFull { .. }) => {
                self.lacks_room = true;
                io.space.found_full();
                Err(EngineError::DiskFull { free_bytes: io.disk.free_bytes().unwrap_or(0) })
            }
            Err(error) => Err(error),
        }
    }

    /// Makes all entries so far survive a crash.
    ///
    /// # Errors
    /// As [`SharedLog::flush_begin`].
    pub(crate) fn flush<D: Disk>(&mut self, io: &mut LogResources<'_, D>) -> EngineResult<()> {
        while !self.flush_begin(io)? {
            self.flush_done(io, true)?;
        }
        self.flush_done(io, true)?;
        self.wants_flush = false;
        Ok(())
    }

    /// Starts to make all entries so far survive a crash. Returns whether a flush runs that covers them.
    ///
    /// # Errors
    /// As [`SharedLog::flush_begin`].
    pub(crate) fn flush_begin<D: Disk>(&mut self, io: &mut LogResources<'_, D>) -> EngineResult<bool> {
        if self.log.is_mark_due() && !self.log.is_flushing() {
            self.log.mark()?;
        }
        let begun = self.log.flush_begin(io.disk, false);
        self.issued(io, begun)
    }

    /// The same, also for what compaction has copied.
    ///
    /// # Errors
    /// As [`SharedLog::flush_begin`].
    pub(crate) fn flush_begin_with_cold<D: Disk>(
        &mut self,
        io: &mut LogResources<'_, D>,
    ) -> EngineResult<bool> {
        let begun = self.log.flush_begin(io.disk, true);
        self.issued(io, begun)
    }

    /// Whether no flush runs any more. With `wait` it waits for the running one.
    ///
    /// # Errors
    /// As [`SharedLog::flush_begin`].
    pub(crate) fn flush_done<D: Disk>(
        &mut self,
        io: &mut LogResources<'_, D>,
        wait: bool,
    ) -> EngineResult<bool> {
        let done = self.log.flush_done(io.disk, wait);
        self.issued(io, done)
    }

    pub(super) fn truncate_after<D: Disk>(
        &mut self,
        io: &mut LogResources<'_, D>,
        handle: u32,
        last: (u32, u64),
    ) -> EngineResult<()> {
        let Some(slot) = self.part(handle).slot.filter(|slot| last.1 < self.log.last(*slot).1) else {
            return Ok(());
        };
        self.log.truncate_after(slot, last)?;
        match self.flush(io) {
            // The next flush writes the creation. Until then a crash may restore the entries, uncommitted as they were.
            Err(error) if error.is_out_of_space() => Ok(()),
            flushed => flushed,
        }
    }

    /// Appends the entries of a partition in memory once more, to the disk, and makes them survive a crash. All entries up to a
    /// committed one, of this epoch and index, are committed. Returns their new places, also of those that were appended before an error, if they are all.
    ///
    /// # Errors
    /// Errors of the disk; the entries stay in memory as well, and the call may be repeated.
    pub(crate) fn write_to_disk<D: Disk>(
        &mut self,
        io: &mut LogResources<'_, D>,
        handle: u32,
        facts: StoreFacts,
        committed: (u32, u64),
    ) -> EngineResult<Vec<RelocatedPlace>> {
        let Some(former) = self.part(handle).slot.filter(|_| self.part(handle).is_in_memory) else {
            return Ok(Vec::new());
        };
        let partition = self.part(handle).partition;
        let places = self.log.all_places(io.disk, former)?;
        let (is_incoming, end) = (self.log.is_incoming(former), self.log.last(former));
        // Compaction may have left entries out.
        let new = NewLogPartition::first(partition, facts.index_seed);
        let begun = self.log.begin(&[NewLogPartition { is_incoming: true, ..new }], None)?;
        let Some(&slot) = begun.first() else { return Ok(Vec::new()) };
        let (mut moved, mut bytes) = (Vec::with_capacity(places.len()), Vec::new());
        self.moves_despite_holds += 1;
        let mut is_complete = is_incoming;
        for (index, from) in places {
            if index > committed.1 && !std::mem::replace(&mut is_complete, true) {
                self.log.end_incoming(slot, committed)?;
            }
            let head = self.log.read(io.disk, from, &mut bytes)?;
            let Some(Head { meta, .. }) = head.replicated() else { continue };
            let (key, payload) = bytes[HEAD_BYTES..].split_at(head.key_bytes);
            let to = match head.is_kept {
                true => self.log.append_copy(slot, &head, key, payload, EntryUse::Kept)?,
                false => self.log.append(slot, &meta, key, [payload])?,
            };
            moved.push(self.moved(handle, &head, key, from, to)?);
        }
        if is_incoming {
            self.log.set_incoming_end(slot, end)?;
        } else if !is_complete {
            self.log.end_incoming(slot, committed)?;
        }
        self.log.note_progress(slot, facts.commit, 0);
        let has_hold = self.part(handle).hold.is_some();
        self.hold_entries(handle, false);
        self.log.drop_partition(former)?;
        self.set_handle(former, None);
        self.set_handle(slot, Some(handle));
        let part = self.part_mut(handle);
        (part.slot, part.is_in_memory) = (Some(slot), false);
        part.sizes = PartSizes {
            used: moved.iter().map(|one| one.to.entry_bytes as u64).sum(),
            ..PartSizes::default()
        };
        if has_hold {
            self.hold_entries(handle, true);
        }
        Ok(moved)
    }

    /// The entries that have other places, because a file has failed.
    ///
    /// # Errors
    /// Errors of the disk.
    pub(crate) fn take_moved<D: Disk>(
        &mut self,
        io: &mut LogResources<'_, D>,
    ) -> EngineResult<Vec<RelocatedPlace>> {
        let (mut moved, mut bytes) = (Vec::new(), Vec::new());
        let entries = self.log.take_moved();
        if entries.is_empty() {
            return Ok(moved);
        }
        let owners = SlotOwners::of(&self.log);
        for entry in entries {
            // The children of a split own it together.
            let slots = owners.slots(entry.number, entry.index);
            let handles: Vec<u32> = slots.filter_map(|slot| self.handles[slot.number()]).collect();
            if handles.is_empty() {
                continue;
            }
            let head = self.log.read(io.disk, entry.to, &mut bytes)?;
            let key = &bytes[HEAD_BYTES..head.payload_at()];
            for handle in handles {
                moved.push(self.moved(handle, &head, key, entry.from, entry.to)?);
            }
        }
        Ok(moved)
    }

    fn moved(
        &mut self,
        handle: u32,
        head: &SharedHead,
        key: &[u8],
        from: LogPlace,
        to: LogPlace,
    ) -> EngineResult<RelocatedPlace> {
        let SharedKind::Replicated(kind) = head.kind else {
            unreachable!("a partition's entries are replicated")
        };
        Ok(RelocatedPlace {
            handle,
            index: head.index,
            kind,
            flags: head.flags,
            key: key.to_vec(),
            from: self.placed(from, head)?,
            to: self.placed(to, head)?,
        })
    }

    /// The place of an entry as stores name it.
    ///
    /// # Errors
    /// [`EngineError::Limit`].
    pub(crate) fn placed(&mut self, place: LogPlace, head: &SharedHead) -> EngineResult<AppendedPlace> {
        let slot = self.segments.of(place.segment)?;
        Ok(AppendedPlace { slot, offset: place.offset, entry_bytes: head.entry_bytes() })
    }
}
