//! Access for upper layers beside complete records: the shape of a record without reading it, a part of it
//! without touching the rest, and the entries behind their own state.

use std::ops::Range;

use super::PartitionStore;
use super::record::{PartRange, RecordShape, UnreadableKey};
use crate::disk::Disk;
use crate::error::EngineResult;
use crate::index::location::EntryPlace;
use crate::io::{Io, Logs};
use crate::log::EntryRef;
use crate::overflow::part::ChainPart;
use crate::overflow::versions::FormerState;
use crate::planted::{Bug, is_planted};

impl PartitionStore {
    /// The log index up to which entries need not stay for an upper layer that reads its state again after a
    /// crash: it starts at one of the kept checkpoints.
    pub(crate) fn state_retained_through(&self, logs: &Logs) -> u64 {
        // A log in memory only is never read by a recovery.
        if self.has_state_in_log
            && !logs.view(self.handle).is_in_memory_only()
            && !is_planted(Bug::NeededEntriesCompacted)
        {
            self.checkpoints.covered()
        } else {
            u64::MAX
        }
    }

    /// The shape of a key's record. Its cost does not grow with the record's parts.
    pub(crate) fn inspect<D: Disk>(
        &mut self,
        io: &mut Io<D>,
        key: &[u8],
    ) -> EngineResult<Option<RecordShape>> {
        let fragment = self.fragment(key);
        let Some(found) = self.find(io, fragment, key, UnreadableKey::IsError)? else {
            return Ok(None);
        };
        let hint = self.hint(fragment, found);
        let (_, location, seen) = found;
        if let Some(inspected) = seen.inspected(hint) {
            return Ok(Some(inspected));
        }
        let (meta, units) = match location.decode() {
            EntryPlace::Entry(position) => {
                let (log, scratch) = (io.logs.view(self.handle), &mut self.scratch);
                let entry = log.read(&mut io.disk, position, scratch)?;
                (entry.head.meta, u64::from(seen.units))
            }
            EntryPlace::Chain(id) => {
                let chain = self.readable_chain(id)?;
                let (units, last_part) = (chain.units, chain.parts.back().map_or(0, |part| part.index));
                match chain.newest() {
                    Some(meta) => (meta, units),
                    None => match self.locate(io, seen.newest_index)? {
                        Some((_, head)) => (head.meta, units),
                        // The trim that changed it last has taken effect and is dropped.
                        None => (self.read_entry(io, last_part)?.head.meta, units),
                    },
                }
            }
        };
        Ok(Some(RecordShape {
            is_list: seen.form.is_list,
            is_chunk: seen.form.is_chunk,
            flags: meta.flags,
            index: seen.newest_index,
            timestamp: meta.timestamp,
            units,
            hint,
        }))
    }

    /// The parts that hold these units of a key's record.
    pub(crate) fn parts_of<D: Disk>(
        &mut self,
        io: &mut Io<D>,
        key: &[u8],
        units: Range<u64>,
    ) -> EngineResult<PartRange> {
        let fragment = self.fragment(key);
        let Some((_, location, seen)) = self.find(io, fragment, key, UnreadableKey::IsError)? else {
            return Ok(PartRange::default());
        };
        let mut found = PartRange::default();
        match location.decode() {
            EntryPlace::Entry(_) => {
                found.parts.push(seen.as_part());
                found.skip = units.start;
            }
            EntryPlace::Chain(id) => {
                let chain = self.readable_chain(id)?;
                return Ok(PartRange::within(&chain.parts, chain.skipped, units, u64::MAX));
            }
        }
        Ok(found)
    }

    /// The same of the record as it was at `timestamp`, in which its lookup has said that these units are.
    pub(crate) fn parts_of_at<D: Disk>(
        &mut self,
        io: &mut Io<D>,
        key: &[u8],
        timestamp: u64,
        units: Range<u64>,
    ) -> EngineResult<PartRange> {
        let fragment = self.fragment(key);
        let Some((was, through)) = self.versions.at(fragment, key, timestamp) else {
            return self.parts_of(io, key, units);
        };
        let last = through.map_or(u64::MAX, |through| through.index);
        match was {
            FormerState::Absent => Ok(PartRange::default()),
            FormerState::Entry(index) => {
                // How many it has is not known before it is read.
                let part = ChainPart { index: *index, entry_bytes: 0, units: u32::MAX };
                Ok(PartRange { parts: vec![part], skip: units.start })
            }
            FormerState::Chain { parts, skipped, .. } => Ok(PartRange::within(parts, *skipped, units, last)),
            FormerState::Shorter { .. } => {
                let found = self.find(io, fragment, key, UnreadableKey::IsError)?;
                match found.map(|(_, location, _)| location.decode()) {
                    Some(EntryPlace::Chain(id)) => {
                        let chain = self.readable_chain(id)?;
                        Ok(PartRange::within(&chain.parts, chain.skipped, units, last))
                    }
                    _ => Ok(PartRange::default()),
                }
            }
        }
    }

    /// Hands over the entries after a log index, in order, and whether each one's payload is as it was written.
    /// Entries that the log does not hold (any more) are left out.
    pub(crate) fn entries_after<D: Disk>(
        &mut self,
        io: &mut Io<D>,
        after: u64,
        each: &mut dyn FnMut(EntryRef<'_>, bool),
    ) -> EngineResult<()> {
        io.logs.entries_after(&mut io.disk, self.handle, after, each)
    }
}
