//! Reading a partition's part of a shared log.

use std::ops::Range;

use super::shared::{SharedLogs, SharedPart};
use crate::disk::Disk;
use crate::error::{EngineError, EngineResult};
use crate::index::location::Position;
use crate::log::chunk_head::{CHUNK_HEAD_BYTES, ChunkHead};
use crate::log::chunk_read::{ChunkBeginning, ChunkBlocks, ChunkInMemory, ReadChunk, visit_shared_chunk};
use crate::log::entry::{FLAG_CHUNK, Head, crc};
use crate::log::shared::format::{HEAD_BYTES, SharedHead};
use crate::log::shared::segment::SharedSegment;
use crate::log::{AppendedPlace, EntryRef, LogSizes, entry_of};

/// What is read of a partition in a shared log.
#[derive(Clone, Copy)]
pub(crate) struct SharedView<'l> {
    logs: &'l SharedLogs,
    part: &'l SharedPart,
}

impl<'l> SharedView<'l> {
    /// That of a partition that is open.
    #[inline]
    pub(super) fn of(logs: &'l SharedLogs, handle: u32) -> SharedView<'l> {
        SharedView { logs, part: logs.part(handle) }
    }

    #[inline]
    pub(super) fn last(self) -> (u32, u64) {
        self.part.slot.map_or((0, 0), |slot| self.logs.log.last(slot))
    }

    #[inline]
    pub(super) fn lacks_room(self) -> bool {
        self.logs.lacks_room && !self.part.is_in_memory
    }

    pub(super) fn is_in_memory_only(self) -> bool {
        self.part.is_in_memory
    }

    pub(super) fn is_unused(self) -> bool {
        self.part.slot.is_none()
    }

    pub(super) fn sizes(self) -> LogSizes {
        self.part.sizes.all(self.logs.log.segment_bytes())
    }

    pub(super) fn synced_index(self) -> u64 {
        self.part.slot.map_or(0, |slot| self.logs.log.durable(slot))
    }

    pub(super) fn corrupt(self, slot: u32, offset: u32) -> EngineError {
        let place = format!("segment {:016x}+{offset}", self.logs.segments.number(slot));
        EngineError::Corrupt { partition: self.part.partition, place }
    }

    #[inline]
    fn segment(self, slot: u32) -> Option<&'l SharedSegment> {
        self.logs.log.segment(self.logs.segments.number(slot))
    }

    #[inline]
    pub(super) fn read_key<'s, D: Disk>(
        self,
        disk: &mut D,
        at: Position,
        scratch: &'s mut Vec<u8>,
    ) -> EngineResult<(EntryRef<'s>, bool)>
    where
        'l: 's,
    {
        let corrupt = || self.corrupt(at.slot, at.offset);
        let segment = self.segment(at.slot).ok_or_else(corrupt)?;
        if let Some(found) = in_memory(segment, at) {
            return Ok((found, true));
        }
        let is_in_memory = segment.read_some(disk, at.offset.into(), at.bytes_max as usize, scratch)?;
        let head = SharedHead::decode(&segment.base, scratch).and_then(|head| head.replicated());
        let head = head.filter(|head| head.entry_bytes() <= scratch.len()).ok_or_else(corrupt)?;
        Ok((entry_of(head, scratch), is_in_memory))
    }

    pub(super) fn read<D: Disk>(
        self,
        disk: &mut D,
        at: Position,
        scratch: &'l mut Vec<u8>,
    ) -> EngineResult<EntryRef<'l>> {
        let (entry, is_checked) = self.read_key(disk, at, scratch)?;
        if !is_checked && crc(entry.payload) != entry.head.payload_crc {
            return Err(self.corrupt(at.slot, at.offset));
        }
        Ok(entry)
    }

    #[inline]
    pub(super) fn checked_payload(
        self,
        at: Position,
        key_bytes: usize,
        entry_bytes: usize,
    ) -> Option<&'l [u8]> {
        let bytes = self.segment(at.slot)?.in_memory(at.offset.into(), at.bytes_max as usize)?;
        bytes.get(HEAD_BYTES + key_bytes..entry_bytes)
    }

    pub(super) fn found<'s>(self, at: Position, scratch: &'s [u8]) -> EngineResult<(EntryRef<'s>, bool)>
    where
        'l: 's,
    {
        let segment = self.segment(at.slot).ok_or_else(|| self.corrupt(at.slot, at.offset))?;
        if let Some(found) = in_memory(segment, at) {
            return Ok((found, true));
        }
        let head = SharedHead::decode_unsummed(&segment.base, scratch).and_then(|head| head.replicated());
        let head = head.filter(|head| head.entry_bytes() <= scratch.len());
        Ok((entry_of(head.ok_or_else(|| self.corrupt(at.slot, at.offset))?, scratch), false))
    }

    pub(super) fn chunk_in_memory(self, at: Position) -> Option<ChunkInMemory<'l>> {
        ChunkInMemory::at(ChunkBlocks::Shared(self.segment(at.slot)?), at.offset.into())
    }

    pub(super) fn chunk_beginning<'s, D: Disk>(
        self,
        disk: &mut D,
        at: Position,
        scratch: &'s mut Vec<u8>,
    ) -> EngineResult<Option<ChunkBeginning<'s>>>
    where
        'l: 's,
    {
        let corrupt = || self.corrupt(at.slot, at.offset);
        let segment = self.segment(at.slot).ok_or_else(corrupt)?;
        if in_memory(segment, at).is_some() {
            return Ok(None);
        }
        let head = segment.read_beginning(disk, at.offset.into(), CHUNK_HEAD_BYTES, scratch)?;
        let head = head.and_then(|head| head.replicated()).ok_or_else(corrupt)?;
        let (key, payload) = (&scratch[HEAD_BYTES..head.payload_at()], &scratch[head.payload_at()..]);
        let is_chunk = head.meta.flags & FLAG_CHUNK != 0 && head.payload_bytes >= CHUNK_HEAD_BYTES;
        let chunk = ChunkHead::decode(payload).filter(|_| is_chunk);
        Ok(chunk.map(|chunk| ChunkBeginning { head, key, chunk, is_checked: false }))
    }

    pub(super) fn visit_chunk<D: Disk>(
        self,
        disk: &mut D,
        at: Position,
        scratch: &mut Vec<u8>,
        see: &mut dyn FnMut(Range<u64>, &[u8]),
    ) -> EngineResult<ReadChunk> {
        let corrupt = || self.corrupt(at.slot, at.offset);
        let segment = self.segment(at.slot).ok_or_else(corrupt)?;
        visit_shared_chunk(segment, disk, at, scratch, see)?.ok_or_else(corrupt)
    }

    pub(super) fn in_memory(self, placed: &AppendedPlace, head: Head) -> Option<EntryRef<'l>> {
        let bytes = self.segment(placed.slot)?.in_memory(placed.offset.into(), placed.entry_bytes)?;
        (bytes.len() >= head.entry_bytes()).then(|| entry_of(head, bytes))
    }

    pub(super) fn head_at<D: Disk>(self, disk: &mut D, (slot, offset): (u32, u32)) -> EngineResult<Head> {
        let corrupt = || self.corrupt(slot, offset);
        let head = self.segment(slot).ok_or_else(corrupt)?.head_at(disk, offset.into())?;
        head.and_then(|head| head.replicated()).ok_or_else(corrupt)
    }

    pub(super) fn locate<D: Disk>(
        self,
        disk: &mut D,
        index: u64,
    ) -> EngineResult<Option<(AppendedPlace, Head)>> {
        let Some(slot) = self.part.slot else { return Ok(None) };
        let Some((place, head)) = self.logs.log.locate(disk, slot, index)? else { return Ok(None) };
        let slot = self.logs.segments.get(place.segment);
        let placed =
            slot.map(|slot| AppendedPlace { slot, offset: place.offset, entry_bytes: head.entry_bytes() });
        Ok(placed.zip(head.replicated()))
    }

    pub(super) fn epoch_at<D: Disk>(self, disk: &mut D, index: u64) -> EngineResult<Option<u32>> {
        let last = self.last();
        if index == last.1 {
            return Ok(Some(last.0));
        }
        Ok(self.locate(disk, index)?.map(|(_, head)| head.meta.epoch))
    }

    /// Of log indexes that differ by a multiple of 2^32, a segment has at most one, unless compaction has brought entries of very
    /// different ages together.
    #[inline]
    pub(super) fn may_hold(self, slot: u32, index: u64) -> bool {
        let is_only_one = self.last().1 <= u64::from(u32::MAX);
        is_only_one
            || self
                .segment(slot)
                .is_none_or(|segment| segment.runs.iter().any(|run| run.first <= index && index <= run.last))
    }

    pub(super) fn entries_after<D: Disk>(
        self,
        disk: &mut D,
        after: u64,
        each: &mut dyn FnMut(EntryRef<'_>, bool),
    ) -> EngineResult<()> {
        let Some(slot) = self.part.slot else { return Ok(()) };
        let mut bytes = Vec::new();
        for (_, place) in self.logs.log.places_after(disk, slot, after)? {
            let at = u64::from(place.offset);
            let Some(segment) = self.logs.log.segment(place.segment) else { continue };
            let Some(head) = segment.head_at(disk, at)? else { continue };
            segment.read_some(disk, at, head.entry_bytes(), &mut bytes)?;
            if let Some(head) = head.replicated().filter(|head| head.entry_bytes() <= bytes.len()) {
                let entry = entry_of(head, &bytes);
                each(entry, crc(entry.payload) == head.payload_crc);
            }
        }
        Ok(())
    }

    pub(super) fn overhead_bytes(self) -> usize {
        size_of::<SharedPart>()
    }
}

/// The entry at a position, if it is in memory in one piece.
#[inline]
fn in_memory(segment: &SharedSegment, at: Position) -> Option<EntryRef<'_>> {
    let bytes = segment.in_memory(at.offset.into(), at.bytes_max as usize)?;
    let head = SharedHead::decode_unsummed(&segment.base, bytes)?.replicated()?;
    (head.entry_bytes() <= bytes.len()).then(|| entry_of(head, bytes))
}
