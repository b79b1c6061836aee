//! Partitions that come and go in a shared log: snapshot installs, of which a sender finds the entries in segments and a receiver makes
//! a log, and splits, whose children continue the parent's number so that nothing is copied.

use super::CountedEntry;
use super::sent_segment::SentSegment;
use super::shared::{SharedLogs, SharedPart};
use crate::PartitionId;
use crate::disk::Disk;
use crate::error::{EngineError, EngineResult};
use crate::log::shared::format::{LogPlace, SharedHead};
use crate::log::shared::install_run::InstallPlace;
use crate::log::shared::live_bytes::EntryUse;
use crate::log::shared::rounds::learn_runs_of;
use crate::log::shared::streams::{LogSlot, NewLogPartition};
use crate::log::{AppendedPlace, StoreFacts};
use crate::planted::{Bug, is_planted};

impl SharedLogs {
    /// Whether the entries of a partition stay where they are.
    pub(crate) fn hold_entries(&mut self, handle: u32, holds: bool) {
        let part = self.parts.of_mut(handle);
        // Without a hold, compaction may have moved entries into a segment since it was looked at.
        if part.hold.is_none() || !holds {
            self.sent.remove(&handle);
        }
        if !holds {
            part.hold.take().into_iter().for_each(|hold| self.compaction.release(hold));
        } else if let (Some(slot), None) = (part.slot, part.hold) {
            part.hold = Some(self.compaction.hold_entries(&mut self.log, slot));
        }
    }

    /// Bytes of entries that an install sends, about.
    pub(crate) fn install_bytes(&self, handle: u32) -> u64 {
        self.part(handle).sizes.used
    }

    /// How often entries that are held have got other places: because a file has failed, for a repair, or on their way to the disk.
    pub(crate) fn moves_despite_holds(&self) -> u64 {
        self.log.failed_files() + self.moves_despite_holds
    }

    /// Nothing of a partition is being read any more, unless its entries are held for that.
    pub(crate) fn forget_sent(&mut self, handle: u32) {
        if self.part(handle).hold.is_none() {
            self.sent.remove(&handle);
        }
    }

    /// The number of the first segment from a number on.
    pub(crate) fn segment_from(&self, number: u64) -> Option<u64> {
        self.log.segment_from(number)
    }

    /// The log index and the place of the entry of a partition that follows an index in a segment, up to another.
    ///
    /// # Errors
    /// [`EngineError::Corrupt`] if a head on the way to the entries cannot be read; [`EngineError::Disk`].
    pub(crate) fn next_in_segment<D: Disk>(
        &mut self,
        disk: &mut D,
        handle: u32,
        number: u64,
        (after, through): (u64, u64),
    ) -> EngineResult<Option<(u64, LogPlace)>> {
        let Some(slot) = self.part(handle).slot else { return Ok(None) };
        let is_it = |sent: &SentSegment| sent.number == number && sent.through >= through;
        if !self.sent.get(&handle).is_some_and(is_it) {
            learn_runs_of(&mut self.log, disk, number)?;
            let entries = self.log.entries_of_segment(disk, slot, number)?;
            self.sent.insert(handle, SentSegment { number, through, entries });
        }
        let Some(sent) = self.sent.get(&handle) else { return Ok(None) };
        let next = sent.entries.partition_point(|(index, _)| *index <= after);
        let found = sent.entries.get(next);
        let found = found.filter(|(index, _)| *index <= through);
        Ok(found.map(|&(index, offset)| (index, LogPlace { segment: number, offset })))
    }

    /// Head and key of an entry, as a store names it: the key follows the head in `into`.
    ///
    /// # Errors
    /// [`EngineError::Corrupt`]; [`EngineError::Disk`].
    pub(crate) fn read_key_of<D: Disk>(
        &self,
        disk: &mut D,
        place: LogPlace,
        into: &mut Vec<u8>,
    ) -> EngineResult<Option<(AppendedPlace, SharedHead)>> {
        let (slot, segment) = (self.segments.get(place.segment), self.log.segment(place.segment));
        let Some((slot, segment)) = slot.zip(segment) else { return Ok(None) };
        let head = segment.read_beginning(disk, place.offset.into(), 0, into)?;
        let placed =
            |head: &SharedHead| AppendedPlace { slot, offset: place.offset, entry_bytes: head.entry_bytes() };
        Ok(head.map(|head| (placed(&head), head)))
    }

    /// The place of an entry that a store names.
    pub(crate) fn place_of(&self, placed: &AppendedPlace) -> LogPlace {
        LogPlace { segment: self.segments.number(placed.slot), offset: placed.offset }
    }

    /// Appends an entry of a partition once more, as compaction does, because its bytes on the disk are not those that were written. It
    /// was counted at its place as `was`.
    ///
    /// # Errors
    /// [`EngineError::Stopped`]; [`EngineError::Limit`].
    pub(crate) fn append_again(
        &mut self,
        handle: u32,
        (head, at): (&SharedHead, AppendedPlace),
        key: &[u8],
        payload: &[u8],
        (was, entry_use): (Option<EntryUse>, EntryUse),
    ) -> EngineResult<AppendedPlace> {
        let slot = self.part(handle).slot.ok_or(EngineError::UnknownPartition)?;
        self.moves_despite_holds += 1;
        let place = self.log.append_copy(slot, head, key, payload, entry_use)?;
        let to = self.placed(place, head)?;
        let from = CountedEntry::at(head.index, at);
        self.change_use(handle, from, was, None);
        let part = self.part_mut(handle);
        // The copy is counted in its segment.
        part.sizes.change(from.entry_bytes, None, Some(entry_use));
        self.log.end_damage_if_unused(self.segments.number(at.slot));
        Ok(to)
    }

    /// A run that begins there is the next one. A log that begins with it is incomplete until [`SharedLogs::end_install`].
    ///
    /// # Errors
    /// [`EngineError::NotNext`] if it is not; [`EngineError::Stopped`].
    pub(crate) fn begin_run(
        &mut self,
        handle: u32,
        begins: InstallPlace,
        facts: StoreFacts,
    ) -> EngineResult<()> {
        if self.part(handle).install_place != begins {
            let last = self.part(handle).slot.map_or((0, 0), |slot| self.log.last(slot));
            return Err(EngineError::NotNext { last });
        }
        self.begin_incoming(handle, facts)
    }

    /// The next run begins there.
    pub(crate) fn run_installed(&mut self, handle: u32, next: InstallPlace) {
        self.part_mut(handle).install_place = next;
    }

    fn begin_incoming(&mut self, handle: u32, facts: StoreFacts) -> EngineResult<()> {
        let part = self.part(handle);
        if part.slot.is_some() {
            return Ok(());
        }
        let is_in_memory = part.is_in_memory;
        let new = NewLogPartition {
            is_in_memory,
            is_incoming: !is_planted(Bug::PartialInstallNotMarked),
            ..NewLogPartition::first(part.partition, facts.index_seed)
        };
        if let Some(&slot) = self.log.begin(&[new], None)?.first() {
            self.part_mut(handle).slot = Some(slot);
            self.set_handle(slot, Some(handle));
        }
        Ok(())
    }

    /// All runs have arrived: the log ends with this entry.
    ///
    /// # Errors
    /// [`EngineError::NotNext`] if it does not; [`EngineError::Stopped`].
    pub(crate) fn finish_install(
        &mut self,
        handle: u32,
        facts: StoreFacts,
        last: (u32, u64),
    ) -> EngineResult<()> {
        self.begin_incoming(handle, facts)?;
        match self.part(handle).slot {
            Some(slot) => self.log.set_incoming_end(slot, last),
            None => Ok(()),
        }
    }

    /// The log counts from here on, once a flush has made that durable.
    ///
    /// # Errors
    /// [`EngineError::Stopped`].
    pub(crate) fn end_install(&mut self, handle: u32) -> EngineResult<()> {
        match self.part(handle).slot.filter(|slot| self.log.is_incoming(*slot)) {
            Some(slot) => self.log.end_incoming(slot, self.log.last(slot)),
            None => Ok(()),
        }
    }

    /// Gives each child, by partition and handle, all that a partition has. The partition has nothing from here on, also after a
    /// crash, once a flush has ended; it is to be forgotten ([`SharedLogs::forget_split`]), or to get everything back
    /// ([`SharedLogs::undo_split`]).
    ///
    /// # Errors
    /// [`crate::EngineError::Stopped`], [`crate::EngineError::Limit`]: nothing has changed.
    pub(crate) fn split(
        &mut self,
        parent: u32,
        children: &[(PartitionId, u32)],
        index_seed: u64,
    ) -> EngineResult<()> {
        let &SharedPart { slot, is_in_memory, sizes, install_place, .. } = self.part(parent);
        let slots = match slot {
            Some(slot) => self.continue_by(slot, children, index_seed)?.into_iter().map(Some).collect(),
            None => vec![None; children.len()],
        };
        for (&(partition, handle), slot) in children.iter().zip(slots) {
            let part = SharedPart { partition, slot, is_in_memory, sizes, install_place, hold: None };
            self.parts.add(handle, part);
            if let Some(slot) = slot {
                self.set_handle(slot, Some(handle));
            }
        }
        Ok(())
    }

    fn continue_by(
        &mut self,
        slot: LogSlot,
        children: &[(PartitionId, u32)],
        index_seed: u64,
    ) -> EngineResult<Vec<LogSlot>> {
        let (number, (epoch, through)) = (self.log.number(slot), self.log.last(slot));
        let (is_incoming, is_in_memory) = (self.log.is_incoming(slot), self.log.is_in_memory(slot));
        let new = |(partition, _): &(PartitionId, u32)| NewLogPartition {
            continues: Some((number, through, epoch)),
            is_incoming,
            is_in_memory,
            ..NewLogPartition::first(*partition, index_seed)
        };
        let begun = self.log.begin(&children.iter().map(new).collect::<Vec<_>>(), Some(slot))?;
        self.set_handle(slot, None);
        self.compaction.release_all(slot);
        Ok(begun)
    }

    /// Whether the split has happened is not known, as the log has stopped: there are no children.
    pub(crate) fn forget_children(&mut self, children: &[(PartitionId, u32)]) {
        for (_, handle) in children {
            if let Some(slot) = self.part(*handle).slot {
                self.set_handle(slot, None);
            }
            self.remove(*handle);
        }
    }

    /// The partition that was split has nothing any more.
    pub(crate) fn forget_split(&mut self, parent: u32) {
        self.hold_entries(parent, false);
        let part = self.part_mut(parent);
        (part.slot, part.install_place) = (None, InstallPlace::default());
    }

    /// The partition has everything again, and the children nothing.
    ///
    /// # Errors
    /// As [`SharedLogs::split`].
    pub(crate) fn undo_split(
        &mut self,
        parent: u32,
        children: &[(PartitionId, u32)],
        index_seed: u64,
    ) -> EngineResult<()> {
        self.hold_entries(parent, false);
        let partition = self.part(parent).partition;
        let Some(((_, first), others)) = children.split_first() else { return Ok(()) };
        if let Some(slot) = self.part(*first).slot {
            let begun = self.continue_by(slot, &[(partition, parent)], index_seed)?;
            self.part_mut(*first).slot = None;
            self.part_mut(parent).slot = begun.first().copied();
            begun.first().into_iter().for_each(|slot| self.set_handle(*slot, Some(parent)));
        }
        for (_, handle) in others {
            self.drop_partition(*handle)?;
        }
        children.iter().for_each(|(_, handle)| self.remove(*handle));
        Ok(())
    }
}
