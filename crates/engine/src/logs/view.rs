//! Reading the log of one partition.

use std::ops::Range;

use crate::disk::Disk;
use crate::error::{EngineError, EngineResult};
use crate::index::location::Position;
use crate::log::chunk_head::{CHUNK_HEAD_BYTES, ChunkHead};
use crate::log::chunk_read::{ChunkBeginning, ChunkInMemory, ReadChunk};
use crate::log::entry::{Head, decode_head_unchecked, split_trailer};
use crate::log::{AppendedPlace, EntryRef, LogSizes, PartitionLog, entry_of};
use crate::logs::shared_view::SharedView;

/// What is read of the log of one partition.
#[derive(Clone, Copy)]
pub(crate) enum LogView<'l> {
    /// It is the partition's own.
    Separate(&'l PartitionLog),
    /// It is that of all partitions.
    Shared(SharedView<'l>),
}

impl<'l> LogView<'l> {
    /// Epoch and index of the last entry.
    #[inline]
    pub(crate) fn last(self) -> (u32, u64) {
        match self {
            LogView::Separate(log) => log.last,
            LogView::Shared(log) => log.last(),
        }
    }

    /// Whether the last write to a file found no room: until a retry succeeds, entries are only in memory and the journal.
    #[inline]
    pub(crate) fn lacks_room(self) -> bool {
        match self {
            LogView::Separate(log) => log.lacks_room,
            LogView::Shared(log) => log.lacks_room(),
        }
    }

    /// Whether nothing of it is ever written to a file.
    pub(crate) fn is_in_memory_only(self) -> bool {
        match self {
            LogView::Separate(log) => log.is_in_memory_only(),
            LogView::Shared(log) => log.is_in_memory_only(),
        }
    }

    /// Whether it has, and had, no entries. A log that was truncated to nothing may not say so.
    pub(crate) fn is_unused(self) -> bool {
        match self {
            LogView::Separate(log) => log.order.is_empty(),
            LogView::Shared(log) => log.is_unused(),
        }
    }

    /// Reads the entry at a position, from memory if it is there, else from the file with its checksums checked.
    pub(crate) fn read<D: Disk>(
        self,
        disk: &mut D,
        at: Position,
        scratch: &'l mut Vec<u8>,
    ) -> EngineResult<EntryRef<'l>> {
        match self {
            LogView::Separate(log) => log.read(disk, at, scratch),
            LogView::Shared(log) => log.read(disk, at, scratch),
        }
    }

    /// Like [`LogView::read`], but checks no more than head and key. Returns whether the payload needs no check, because it never
    /// left memory.
    #[inline]
    pub(crate) fn read_key<'s, D: Disk>(
        self,
        disk: &mut D,
        at: Position,
        scratch: &'s mut Vec<u8>,
    ) -> EngineResult<(EntryRef<'s>, bool)>
    where
        'l: 's,
    {
        match self {
            LogView::Separate(log) => log.read_key(disk, at, scratch),
            LogView::Shared(log) => log.read_key(disk, at, scratch),
        }
    }

    /// The payload of an entry that [`LogView::read_key`] has returned as needing no check, if it is in memory in one piece.
    #[inline]
    pub(crate) fn checked_payload(
        self,
        at: Position,
        key_bytes: usize,
        entry_bytes: usize,
    ) -> Option<&'l [u8]> {
        match self {
            LogView::Separate(log) => {
                let bytes = log.segment(at.slot).in_memory(at.offset.into(), at.bytes_max as usize)?;
                bytes.get(crate::log::entry::HEAD_BYTES + key_bytes..entry_bytes)
            }
            LogView::Shared(log) => log.checked_payload(at, key_bytes, entry_bytes),
        }
    }

    /// The entry that [`LogView::read_key`] has read just now: what was not in memory in one piece is in the same buffer. Returns
    /// whether it is in memory.
    pub(crate) fn found<'s>(self, at: Position, scratch: &'s [u8]) -> EngineResult<(EntryRef<'s>, bool)>
    where
        'l: 's,
    {
        match self {
            LogView::Separate(log) => {
                let segment = log.segment(at.slot);
                let in_memory = segment.in_memory(at.offset.into(), at.bytes_max as usize);
                let bytes = in_memory.unwrap_or(scratch);
                match decode_head_unchecked(segment.base(), bytes) {
                    Some(head) => Ok((entry_of(head, bytes), in_memory.is_some())),
                    None => Err(self.corrupt(at.slot, at.offset)),
                }
            }
            LogView::Shared(log) => log.found(at, scratch),
        }
    }

    /// The entry of a chunk at a position, to be read in place; `None` if it is not a chunk's, or part of it is not in memory or
    /// needs a check.
    pub(crate) fn chunk_in_memory(self, at: Position) -> Option<ChunkInMemory<'l>> {
        match self {
            LogView::Separate(log) => log.chunk_in_memory(at),
            LogView::Shared(log) => log.chunk_in_memory(at),
        }
    }

    /// The beginning of the entry of a chunk at a position, if it is a chunk's and can be read without the rest.
    pub(crate) fn chunk_beginning<'s, D: Disk>(
        self,
        disk: &mut D,
        at: Position,
        scratch: &'s mut Vec<u8>,
    ) -> EngineResult<Option<ChunkBeginning<'s>>>
    where
        'l: 's,
    {
        if let Some(large) = self.chunk_in_memory(at) {
            return Ok(Some(large.into()));
        }
        match self {
            LogView::Separate(_) => Ok(None),
            LogView::Shared(log) => log.chunk_beginning(disk, at, scratch),
        }
    }

    /// Reads and checks the entry of a chunk, and passes its bytes with their ranges of the chunk, zeros as no bytes. A range that
    /// was passed again counts. After an error nothing that was passed may be used.
    pub(crate) fn visit_chunk<D: Disk>(
        self,
        disk: &mut D,
        at: Position,
        scratch: &mut Vec<u8>,
        see: &mut dyn FnMut(Range<u64>, &[u8]),
    ) -> EngineResult<ReadChunk> {
        match self {
            LogView::Separate(log) => {
                let entry = log.read(disk, at, scratch)?;
                let (payload, _) = split_trailer(entry.head.meta.flags, entry.payload);
                let chunk = ChunkHead::decode(payload);
                if let Some(chunk) = chunk {
                    see(chunk.range(), &payload[CHUNK_HEAD_BYTES..]);
                }
                Ok((entry.head.meta, chunk))
            }
            LogView::Shared(log) => log.visit_chunk(disk, at, scratch, see),
        }
    }

    /// An entry whose head was read to find it, if all of it is in memory.
    pub(crate) fn in_memory(self, placed: &AppendedPlace, head: Head) -> Option<EntryRef<'l>> {
        match self {
            LogView::Separate(log) => log.in_memory(placed, head),
            LogView::Shared(log) => log.in_memory(placed, head),
        }
    }

    /// The head at an offset, `None` at the segment's end.
    pub(crate) fn head_at<D: Disk>(
        self,
        disk: &mut D,
        (slot, offset): (u32, u32),
    ) -> EngineResult<Option<Head>> {
        match self {
            LogView::Separate(log) => log.head_at(disk, slot, offset.into(), &mut Vec::new()),
            LogView::Shared(log) => log.head_at(disk, (slot, offset)).map(Some),
        }
    }

    /// The place and the head of the entry of this log index; `None` if the log does not hold it (any more).
    ///
    /// # Errors
    /// `Corrupt` if bytes on the way to the entry cannot be read.
    pub(crate) fn locate<D: Disk>(
        self,
        disk: &mut D,
        index: u64,
    ) -> EngineResult<Option<(AppendedPlace, Head)>> {
        match self {
            LogView::Separate(log) => log.locate(disk, index),
            LogView::Shared(log) => log.locate(disk, index),
        }
    }

    /// Epoch of the entry at this log index; `None` if the log does not hold it (any more), and it is not known otherwise.
    pub(crate) fn epoch_at<D: Disk>(self, disk: &mut D, index: u64) -> EngineResult<Option<u32>> {
        match self {
            LogView::Separate(log) => log.epoch_at(disk, index),
            LogView::Shared(log) => log.epoch_at(disk, index),
        }
    }

    /// The segment that would hold this log index, if that is known without reading.
    pub(crate) fn slot_of(self, index: u64) -> Option<u32> {
        match self {
            LogView::Separate(log) => log.order_of(index).map(|at| log.order[at]),
            LogView::Shared(_) => None,
        }
    }

    /// Whether the entry at a place may have this log index, and not one that is higher or lower by a multiple of 2^32.
    #[inline]
    pub(crate) fn may_hold(self, slot: u32, index: u64) -> bool {
        match self {
            LogView::Separate(log) => {
                let behind = index.checked_sub(log.segment(slot).first_index());
                behind.is_some_and(|behind| behind <= u64::from(u32::MAX))
            }
            LogView::Shared(log) => log.may_hold(slot, index),
        }
    }

    /// An entry that cannot be read.
    pub(crate) fn corrupt(self, slot: u32, offset: u32) -> EngineError {
        match self {
            LogView::Separate(log) => log.corrupt(slot, offset),
            LogView::Shared(log) => log.corrupt(slot, offset),
        }
    }

    /// Whether the complete log would survive a crash now.
    pub(crate) fn is_durable(self) -> bool {
        match self {
            LogView::Separate(log) => log.is_durable(),
            LogView::Shared(log) => log.is_unused() || log.synced_index() == log.last().1,
        }
    }

    /// Bytes of all segments, and the dead bytes and removals among them.
    pub(crate) fn sizes(self) -> LogSizes {
        match self {
            LogView::Separate(log) => log.sizes(),
            LogView::Shared(log) => log.sizes(),
        }
    }

    /// Memory used by everything but blocks.
    pub(crate) fn overhead_bytes(self) -> usize {
        match self {
            LogView::Separate(log) => log.overhead_bytes(),
            LogView::Shared(log) => log.overhead_bytes(),
        }
    }
}
