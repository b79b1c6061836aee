//! Finding entries by log index, stepping through a segment, and truncating the log.

use super::entry::{self, EntryKind, HEAD_BYTES, Head, HeadDecode};
use super::scan::{self, ScanItem};
use super::{AppendedPlace, EntryRef, FIRST_ENTRY_AT, PartitionLog};
use crate::disk::Disk;
use crate::error::EngineResult;
use crate::limits::{KEY_BYTES_MAX, SAMPLE_EVERY};
use crate::resources::LogResources;

impl PartitionLog {
    /// The position of the entry of this log index; `None` if the log does not hold it (any more).
    ///
    /// # Errors
    /// `Corrupt` if bytes on the way to the entry cannot be read.
    pub(crate) fn locate<D: Disk>(
        &self,
        disk: &mut D,
        index: u64,
    ) -> EngineResult<Option<(AppendedPlace, Head)>> {
        let Some(at) = self.order_of(index) else { return Ok(None) };
        let slot = self.order[at];
        let segment = self.segment(slot);
        if index > segment.last_index {
            return Ok(None);
        }
        let mut offset = segment.sample_before(index);
        let mut scratch = Vec::new();
        // There is a sample for every so many entries; marks may be between them.
        for _ in 0..8 * SAMPLE_EVERY {
            let Some(head) = self.head_at(disk, slot, offset, &mut scratch)? else { return Ok(None) };
            if !head.meta.kind.is_local() {
                if head.meta.index == index {
                    let entry_bytes = head.entry_bytes();
                    return Ok(Some((AppendedPlace { slot, offset: offset as u32, entry_bytes }, head)));
                }
                if head.meta.index > index {
                    return Ok(None);
                }
            }
            offset += head.entry_bytes() as u64;
        }
        Ok(None)
    }

    /// Epoch of the entry at this log index; `None` if the log does not hold it (any more), and it is not the last that a
    /// segment covers.
    pub(crate) fn epoch_at<D: Disk>(&self, disk: &mut D, index: u64) -> EngineResult<Option<u32>> {
        if index == self.last.1 {
            return Ok(Some(self.last.0));
        }
        // Known for a segment's last entry even when compaction has dropped it, as it may drop the last committed one.
        let segment = self.order_of(index).map(|at| self.segment(self.order[at]));
        if let Some(segment) = segment.filter(|segment| segment.last_index == index) {
            return Ok(Some(segment.last_epoch));
        }
        Ok(self.locate(disk, index)?.map(|(_, head)| head.meta.epoch))
    }

    /// Hands over the entries after a log index, in order, and whether each one's payload is as it was written. Entries that the
    /// log does not hold (any more) are left out.
    pub(crate) fn entries_after<D: Disk>(
        &self,
        disk: &mut D,
        after: u64,
        each: &mut dyn FnMut(EntryRef<'_>, bool),
    ) -> EngineResult<()> {
        let mut bytes = Vec::new();
        for segment in self.order.iter().map(|&slot| self.segment(slot)) {
            if segment.last_index <= after {
                continue;
            }
            let from = segment.sample_before(after + 1);
            segment.read(disk, from, (segment.bytes - from) as usize, &mut bytes)?;
            for item in scan::items(segment.base(), &bytes, from, 0) {
                match item {
                    ScanItem::Entry { entry, payload_is_good, .. } if entry.head.meta.index > after => {
                        each(entry, payload_is_good);
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// The head at an offset, `None` at the segment's end.
    pub(crate) fn head_at<D: Disk>(
        &self,
        disk: &mut D,
        slot: u32,
        offset: u64,
        scratch: &mut Vec<u8>,
    ) -> EngineResult<Option<Head>> {
        let segment = self.segment(slot);
        if offset >= segment.bytes {
            return Ok(None);
        }
        if let Some(head) = segment
            .in_memory(offset, HEAD_BYTES)
            .and_then(|bytes| entry::decode_head_unchecked(segment.base(), bytes))
        {
            return Ok((head.meta.kind != EntryKind::Footer).then_some(head));
        }
        let mut bytes = 4 * HEAD_BYTES;
        loop {
            segment.read(disk, offset, bytes, scratch)?;
            match entry::decode_head(segment.base(), scratch) {
                HeadDecode::Head(head) => return Ok((head.meta.kind != EntryKind::Footer).then_some(head)),
                HeadDecode::Need(needed) if needed > scratch.len() && scratch.len() == bytes => {
                    bytes = needed.min(HEAD_BYTES + KEY_BYTES_MAX);
                }
                _ => return Err(self.corrupt(slot, offset as u32)),
            }
        }
    }

    /// The segment, by its place in the order, that would hold this log index.
    pub(crate) fn order_of(&self, index: u64) -> Option<usize> {
        // Mostly the last segment: new entries are read most.
        if let Some((&slot, before)) = self.order.split_last()
            && self.segment(slot).first_index() <= index
        {
            return Some(before.len());
        }
        self.order.partition_point(|&s| self.segment(s).first_index() <= index).checked_sub(1)
    }

    /// Removes the last segment. The removal survives a crash before this returns.
    pub(super) fn drop_last<D: Disk>(&mut self, io: &mut LogResources<'_, D>) -> EngineResult<()> {
        let dropped = self.order.pop().and_then(|slot| self.drop_slot(io, slot));
        self.first_unsynced = self.first_unsynced.min(self.order.len());
        if let Some(segment) = dropped
            && let Some(file) = segment.file
        {
            io.disk.close(file);
            io.disk.remove(&segment.path)?;
            io.disk.sync_dir(&self.folder)?;
        }
        Ok(())
    }

    /// Truncates every entry after `index`. The truncation survives a crash before this returns.
    pub(crate) fn truncate_after<D: Disk>(
        &mut self,
        io: &mut LogResources<'_, D>,
        index: u64,
    ) -> EngineResult<()> {
        if index >= self.last.1 {
            return Ok(());
        }
        self.forget_journal_first(index);
        // The last segment first: a crash always leaves a prefix of the log.
        while let Some(&slot) = self.order.last() {
            if self.segment(slot).first_index() <= index {
                break;
            }
            self.drop_last(io)?;
        }
        let Some(&slot) = self.order.last() else {
            self.set_end((0, 0));
            return Ok(());
        };
        let segment = self.segment(slot);
        if segment.last_index <= index {
            let last = (segment.last_epoch, segment.last_index);
            self.set_end(last);
            return Ok(());
        }
        let mut offset = segment.sample_before(index);
        let (mut cut, mut last) = (FIRST_ENTRY_AT, (0, 0));
        let mut scratch = Vec::new();
        while let Some(head) = self.head_at(io.disk, slot, offset, &mut scratch)? {
            if !head.meta.kind.is_local() {
                if head.meta.index > index {
                    break;
                }
                last = (head.meta.epoch, head.meta.index);
            }
            offset += head.entry_bytes() as u64;
            cut = offset;
        }
        self.segment_mut(slot).truncate(io, cut, last)?;
        self.set_end(last);
        Ok(())
    }
}
