//! The logs of an instance, whatever their format: the only way of stores and engine to entries.
//!
//! | group | operations |
//! | --- | --- |
//! | lives | a partition's log begins, is truncated, is dropped: [`Logs::add`], [`Logs::truncate_after`], [`Logs::remove`] |
//! | append | the next entry, in memory: [`Logs::append`]; whether there is room: [`LogView::lacks_room`] |
//! | read | an entry at its place, checked, or its head alone: [`LogView::read`], [`LogView::read_key`], [`LogView::found`], [`LogView::head_at`] |
//! | log index | entries that no place names: [`LogView::locate`], [`LogView::epoch_at`], [`Logs::entries_after`] |
//! | dead bytes | entries that nothing refers to any more: [`Logs::count_dead`], [`Logs::count_dead_at`], [`Logs::forget_entry`], [`LogView::sizes`]; what others are: [`Logs::change_use`] |
//! | durability | what survives a crash, and how more does: [`Logs::synced_index`], [`LogView::is_durable`], [`Logs::sync`], [`Logs::mark_now`] |
//!
//! Index and side tables name an entry by segment slot, offset and length ([`Location`](crate::index::location::Location)). A slot
//! is the log's name of a segment in memory. A place is valid until the log says that the entry has another one.
//!
//! Recovery, checkpoints, compaction, repair and the transfer of logs know the format that they are written for
//! ([`Logs::separate`]).

use crate::PartitionId;
use crate::disk::Disk;
use crate::error::EngineResult;
use crate::log::entry::{EntryKind, EntryMeta};
use crate::log::shared::live_bytes::EntryUse;
use crate::log::shared::streams::LogSlot;
use crate::log::{AppendedPlace, EntryRef, LogOptions, PartitionLog, StoreFacts};
use crate::resources::LogResources;

pub(crate) use entry_use::LogParts;
use handle_table::HandleTable;
pub(crate) use shared::SharedLogs;
use shared_view::SharedView;
pub(crate) use view::LogView;

mod entry_use;
mod handle_table;
mod part_sizes;
mod segment_slots;
mod sent_segment;
pub(crate) mod shared;
mod shared_view;
mod transfers;
mod view;

/// The logs of an instance.
pub(crate) enum Logs {
    /// Each partition has one of its own.
    Separate(SeparateLogs),
    /// One of all partitions.
    Shared(Box<SharedLogs>),
}

/// Logs of one partition each.
pub(crate) type SeparateLogs = HandleTable<PartitionLog>;

/// An entry that has another place.
pub(crate) struct RelocatedPlace {
    /// The partition.
    pub(crate) handle: u32,
    /// Its log index.
    pub(crate) index: u64,
    pub(crate) kind: EntryKind,
    pub(crate) flags: u8,
    pub(crate) key: Vec<u8>,
    pub(crate) from: AppendedPlace,
    pub(crate) to: AppendedPlace,
}

/// An entry as index and side tables name it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CountedEntry {
    /// The slot of its segment.
    pub(crate) slot: u32,
    /// Its log index.
    pub(crate) index: u64,
    /// Its length.
    pub(crate) entry_bytes: u64,
}

impl CountedEntry {
    /// An entry at its place.
    pub(crate) fn at(index: u64, placed: AppendedPlace) -> CountedEntry {
        CountedEntry { slot: placed.slot, index, entry_bytes: placed.entry_bytes as u64 }
    }
}

impl Default for Logs {
    fn default() -> Logs {
        Logs::Separate(SeparateLogs::default())
    }
}

impl Logs {
    /// What is read of the log of a partition that is open, or is being removed.
    #[inline]
    pub(crate) fn view(&self, handle: u32) -> LogView<'_> {
        match self {
            Logs::Separate(logs) => LogView::Separate(logs.of(handle)),
            Logs::Shared(logs) => LogView::Shared(SharedView::of(logs, handle)),
        }
    }

    /// The partition's own log, for code of that format.
    #[inline]
    pub(crate) fn separate(&self, handle: u32) -> &PartitionLog {
        match self {
            Logs::Separate(logs) => logs.of(handle),
            Logs::Shared(_) => unreachable!("the partition has a log of its own"),
        }
    }

    /// The same, to be changed.
    #[inline]
    pub(crate) fn separate_mut(&mut self, handle: u32) -> &mut PartitionLog {
        match self {
            Logs::Separate(logs) => logs.of_mut(handle),
            Logs::Shared(_) => unreachable!("the partition has a log of its own"),
        }
    }

    /// The log of all partitions, if there is one.
    #[inline]
    pub(crate) fn shared(&self) -> Option<&SharedLogs> {
        match self {
            Logs::Separate(_) => None,
            Logs::Shared(logs) => Some(logs),
        }
    }

    /// The same, to be changed.
    #[inline]
    pub(crate) fn shared_mut(&mut self) -> Option<&mut SharedLogs> {
        match self {
            Logs::Separate(_) => None,
            Logs::Shared(logs) => Some(logs),
        }
    }

    /// Adds a new partition. `folder` is where a log of its own is.
    pub(crate) fn add(&mut self, handle: u32, partition: PartitionId, folder: String, options: LogOptions) {
        match self {
            Logs::Separate(logs) => {
                logs.add(handle, PartitionLog::new(partition, handle, folder, options));
            }
            Logs::Shared(logs) => logs.add(handle, partition, None, options.in_memory_only),
        }
    }

    /// Adds a partition that recovery has found in the log of all.
    pub(crate) fn add_found(&mut self, handle: u32, partition: PartitionId, slot: LogSlot) {
        if let Logs::Shared(logs) = self {
            logs.add(handle, partition, Some(slot), false);
        }
    }

    /// Adds a log under its own handle.
    pub(crate) fn add_separate(&mut self, log: PartitionLog) {
        if let Logs::Separate(logs) = self {
            logs.add(log.handle, log);
        }
    }

    /// Forgets the log of a partition that is gone.
    pub(crate) fn remove(&mut self, handle: u32) {
        match self {
            Logs::Separate(logs) => logs.remove(handle),
            Logs::Shared(logs) => logs.remove(handle),
        }
    }

    /// Adds an entry, whose payload may come in pieces. The caller has checked key, payload and space, and that the entry follows
    /// the last one.
    #[inline(always)]
    pub(crate) fn append<D: Disk, const N: usize>(
        &mut self,
        io: &mut LogResources<'_, D>,
        handle: u32,
        meta: &EntryMeta,
        key: &[u8],
        payload: [&[u8]; N],
        facts: StoreFacts,
    ) -> EngineResult<AppendedPlace> {
        match self {
            Logs::Separate(logs) => logs.of_mut(handle).append(io, meta, key, payload, facts),
            Logs::Shared(logs) => logs.append(io, handle, meta, key, payload, facts),
        }
    }

    /// Truncates every entry after that of this epoch and index. The truncation survives a crash before this returns.
    pub(crate) fn truncate_after<D: Disk>(
        &mut self,
        io: &mut LogResources<'_, D>,
        handle: u32,
        last: (u32, u64),
    ) -> EngineResult<()> {
        match self {
            Logs::Separate(logs) => logs.of_mut(handle).truncate_after(io, last.1),
            Logs::Shared(logs) => logs.truncate_after(io, handle, last),
        }
    }

    /// The entry, which is not committed, is about to be truncated.
    pub(crate) fn forget_entry(&mut self, handle: u32, meta: &EntryMeta, placed: AppendedPlace) {
        match self {
            Logs::Separate(logs) => {
                logs.of_mut(handle).segment_mut(placed.slot).forget_entry(meta, placed.entry_bytes);
            }
            Logs::Shared(logs) => {
                logs.change_use(handle, CountedEntry::at(meta.index, placed), Some(EntryUse::Live), None);
            }
        }
    }

    /// An entry of this segment is no longer referenced, for whatever reason. It was used in this way, and may have to stay as a
    /// removal.
    pub(crate) fn count_dead(
        &mut self,
        handle: u32,
        entry: CountedEntry,
        was: EntryUse,
        now: Option<EntryUse>,
    ) {
        match self {
            Logs::Separate(logs) => logs.of_mut(handle).segment_mut(entry.slot).count_dead(entry.entry_bytes),
            Logs::Shared(logs) => {
                logs.change_use(handle, entry, Some(was), now);
                if now == Some(EntryUse::Removal) {
                    logs.note_dead_contents(handle, entry.slot);
                }
            }
        }
    }

    /// A put or a removal of its key has replaced the entry at this offset, if `is_replaced`; otherwise an append of the other kind
    /// has. Releases memory that only it needed, and returns how much.
    #[inline]
    pub(crate) fn count_dead_at(
        &mut self,
        handle: u32,
        entry: CountedEntry,
        offset: u32,
        is_replaced: bool,
    ) -> usize {
        match self {
            Logs::Separate(logs) => {
                let segment = logs.of_mut(handle).segment_mut(entry.slot);
                if is_replaced {
                    segment.count_dead_at(offset, entry.entry_bytes);
                } else {
                    // Compaction must check for entries between them.
                    segment.count_dead(entry.entry_bytes);
                }
                segment.evict_dead_entry(offset, entry.entry_bytes)
            }
            Logs::Shared(logs) => {
                let now = if is_replaced { None } else { Some(EntryUse::Removal) };
                logs.change_use(handle, entry, Some(EntryUse::Live), now);
                if !is_replaced {
                    logs.note_dead_contents(handle, entry.slot);
                }
                0
            }
        }
    }

    /// Log index up to which everything survives a crash.
    pub(crate) fn synced_index(&mut self, handle: u32) -> u64 {
        match self {
            Logs::Separate(logs) => logs.of_mut(handle).synced_index(),
            Logs::Shared(logs) => SharedView::of(logs, handle).synced_index(),
        }
    }

    /// Writes everything of a partition and waits until it survives a crash.
    pub(crate) fn sync<D: Disk>(&mut self, io: &mut LogResources<'_, D>, handle: u32) -> EngineResult<()> {
        match self {
            Logs::Separate(logs) => logs.of_mut(handle).sync(io),
            Logs::Shared(logs) => logs.flush(io),
        }
    }

    /// Writes down what survives a crash, if there is something new to record. Returns whether there was.
    pub(crate) fn mark_now<D: Disk>(
        &mut self,
        io: &mut LogResources<'_, D>,
        handle: u32,
        facts: StoreFacts,
    ) -> EngineResult<bool> {
        match self {
            Logs::Separate(logs) => logs.of_mut(handle).mark_now(io, facts),
            Logs::Shared(logs) => {
                if let Some(slot) = logs.slot(handle) {
                    logs.log.note_progress(slot, facts.commit, 0);
                }
                logs.log.mark()
            }
        }
    }

    /// Hands over the entries after a log index, in order, and whether each one's payload is as it was written. Entries that the
    /// log does not hold (any more) are left out.
    pub(crate) fn entries_after<D: Disk>(
        &self,
        disk: &mut D,
        handle: u32,
        after: u64,
        each: &mut dyn FnMut(EntryRef<'_>, bool),
    ) -> EngineResult<()> {
        match self {
            Logs::Separate(logs) => logs.of(handle).entries_after(disk, after, each),
            Logs::Shared(logs) => SharedView::of(logs, handle).entries_after(disk, after, each),
        }
    }

    /// Closes the files of a partition's log: nothing is read or written there any more.
    pub(crate) fn close_files<D: Disk>(&mut self, disk: &mut D, handle: u32) {
        match self {
            Logs::Separate(logs) => {
                let segments = logs.of_mut(handle).slots.iter_mut().flatten();
                segments.filter_map(|segment| segment.file.take()).for_each(|file| disk.close(file));
            }
            Logs::Shared(_) => {}
        }
    }

    /// Releases the memory of up to so many segments of a partition that is gone. Returns whether there are more.
    pub(crate) fn release_some<D>(
        &mut self,
        io: &mut LogResources<'_, D>,
        handle: u32,
        segments: &mut usize,
    ) -> bool {
        match self {
            Logs::Separate(logs) => {
                let log = logs.of_mut(handle);
                while *segments > 0 {
                    let Some(slot) = log.slots.len().checked_sub(1) else { break };
                    *segments -= usize::from(log.drop_slot(io, slot as u32).is_some());
                    log.slots.pop();
                }
                !log.slots.is_empty()
            }
            Logs::Shared(_) => false,
        }
    }
}
