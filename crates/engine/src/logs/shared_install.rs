//! Snapshot installs of partitions in a shared log: what a sender finds in its segments, and the log that a receiver makes.

use super::shared::SharedLogs;
use crate::disk::Disk;
use crate::error::{EngineError, EngineResult};
use crate::log::shared::format::{LogPlace, SharedHead};
use crate::log::shared::install_run::InstallPlace;
use crate::log::shared::rounds::learn_runs;
use crate::log::shared::streams::NewLogPartition;
use crate::log::{AppendedPlace, StoreFacts};
use crate::planted::{Bug, is_planted};

/// The entries of a partition in the segment that is being sent.
pub(crate) struct SentSegment {
    number: u64,
    /// The install is as of this log index: the segment may have got later entries since.
    through: u64,
    /// Log index and offset, by index.
    entries: Vec<(u64, u32)>,
}

impl SharedLogs {
    /// Whether the entries of a partition stay where they are.
    pub(crate) fn hold_entries(&mut self, handle: u32, holds: bool) {
        let part = self.parts.of_mut(handle);
        if !holds {
            self.sent.remove(&handle);
            part.hold.take().into_iter().for_each(|hold| self.compaction.release(hold));
        } else if let (Some(slot), None) = (part.slot, part.hold) {
            part.hold = Some(self.compaction.hold_entries(&mut self.log, slot));
        }
    }

    /// Bytes of entries that an install sends, about.
    pub(crate) fn install_bytes(&self, handle: u32) -> u64 {
        self.part(handle).sizes.used
    }

    /// How many files have failed: entries of those have other places.
    pub(crate) fn failed_files(&self) -> u64 {
        self.log.failed_files()
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
            while learn_runs(&mut self.log, disk)? {}
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
}
