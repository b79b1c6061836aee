//! Entries of chunks in memory: they are read in place, block by block, whatever their length, without being assembled.

use std::ops::Range;

use super::PartitionLog;
use super::entry::{FLAG_TRAILER, Head, decode_head_unchecked};
use super::segment::Segment;
use super::shared::format::{LOG_BLOCK_BYTES, SharedHead};
use super::shared::segment::SharedSegment;
use crate::index::location::Position;
use crate::limits::BLOCK_BYTES;
use crate::log::chunk_head::{CHUNK_HEAD_BYTES, ChunkHead};
use crate::log::entry::FLAG_CHUNK;

/// The blocks in memory of a segment, of either kind of log.
#[derive(Clone, Copy)]
pub(crate) enum ChunkBlocks<'l> {
    /// Of a partition's own log.
    Separate(&'l Segment),
    /// Of a log of all partitions.
    Shared(&'l SharedSegment),
}

impl<'l> ChunkBlocks<'l> {
    fn block_bytes(self) -> u64 {
        match self {
            ChunkBlocks::Separate(_) => BLOCK_BYTES as u64,
            ChunkBlocks::Shared(_) => LOG_BLOCK_BYTES as u64,
        }
    }

    /// The head at a position.
    fn head_at(self, at: u64) -> Option<Head> {
        match self {
            ChunkBlocks::Separate(segment) => {
                decode_head_unchecked(segment.base(), self.within_block(at, super::HEAD_BYTES)?)
            }
            ChunkBlocks::Shared(segment) => {
                let bytes = self.within_block(at, super::shared::format::HEAD_BYTES)?;
                SharedHead::decode_unsummed(&segment.base, bytes)?.replicated()
            }
        }
    }

    /// So many bytes at a position, if they are in one block.
    fn within_block(self, at: u64, bytes: usize) -> Option<&'l [u8]> {
        let found = match self {
            ChunkBlocks::Separate(segment) => segment.in_memory(at, bytes)?,
            ChunkBlocks::Shared(segment) => segment.in_memory(at, bytes)?,
        };
        found.get(..bytes)
    }

    /// A range cut at the borders of blocks.
    fn pieces(self, range: Range<u64>) -> impl Iterator<Item = (u64, usize)> {
        pieces(range, self.block_bytes())
    }
}

/// A chunk's entry of which no byte has left memory, or each was checked since.
#[derive(Clone, Copy)]
pub(crate) struct ChunkInMemory<'l> {
    blocks: ChunkBlocks<'l>,
    pub(crate) head: Head,
    pub(crate) key: &'l [u8],
    /// The range of the chunk that it covers.
    pub(crate) chunk: ChunkHead,
    /// The position of its bytes of the chunk in the segment; `None`: they are zeros, and are not stored.
    data_at: Option<u64>,
}

impl PartitionLog {
    /// The entry at a position; `None` if it is not a chunk's, or part of it is not in memory or needs a check.
    pub(crate) fn chunk_in_memory(&self, at: Position) -> Option<ChunkInMemory<'_>> {
        ChunkInMemory::at(ChunkBlocks::Separate(self.segment(at.slot)), at.offset.into())
    }
}

impl<'l> ChunkInMemory<'l> {
    /// The entry at an offset; `None` if it is not a chunk's, or part of it is not in memory or needs a check.
    pub(crate) fn at(blocks: ChunkBlocks<'l>, begin: u64) -> Option<ChunkInMemory<'l>> {
        let head = blocks.head_at(begin)?;
        if head.meta.flags & FLAG_CHUNK == 0 || head.payload_bytes < CHUNK_HEAD_BYTES {
            return None;
        }
        let key_at = begin + u64::from(head.head_bytes);
        let behind = blocks.within_block(key_at, head.key_bytes + CHUNK_HEAD_BYTES)?;
        let (key, chunk) = behind.split_at(head.key_bytes);
        let chunk = ChunkHead::decode(chunk)?;
        let (payload_at, end) = (begin + head.payload_at() as u64, begin + head.entry_bytes() as u64);
        if !blocks.pieces(begin..end).all(|(at, bytes)| blocks.within_block(at, bytes).is_some()) {
            return None;
        }
        let trailer_bytes = match head.meta.flags & FLAG_TRAILER {
            0 => 0,
            _ => usize::from(*blocks.within_block(end - 1, 1)?.first()?),
        };
        let data_bytes = (head.payload_bytes - CHUNK_HEAD_BYTES).checked_sub(trailer_bytes)?;
        let data_at = match data_bytes {
            0 => None,
            bytes if bytes == chunk.length as usize => Some(payload_at + CHUNK_HEAD_BYTES as u64),
            // No valid entry has this form.
            _ => return None,
        };
        Some(ChunkInMemory { blocks, head, key, chunk, data_at })
    }
}

/// Zeros for ranges that were never written.
static ZEROS: [u8; BLOCK_BYTES] = [0; BLOCK_BYTES];

impl<'l> ChunkInMemory<'l> {
    /// Passes these bytes of the chunk in place, in order, with zeros where the entry has none.
    pub(crate) fn visit_bytes(&self, range: Range<u64>, mut see: impl FnMut(&'l [u8])) {
        let covers = self.chunk.range();
        let begin = covers.start.clamp(range.start, range.end.max(range.start));
        let end = covers.end.clamp(begin, range.end.max(begin));
        let zeros = |range: Range<u64>, see: &mut dyn FnMut(&'l [u8])| {
            for (_, bytes) in pieces(0..range.end.saturating_sub(range.start), ZEROS.len() as u64) {
                see(&ZEROS[..bytes]);
            }
        };
        zeros(range.start..begin, &mut see);
        match self.data_at.filter(|_| begin < end) {
            Some(data_at) => {
                let at = data_at + (begin - covers.start);
                for (at, bytes) in self.blocks.pieces(at..at + (end - begin)) {
                    // All of it was in memory when this was made, and stays there as long as it is borrowed.
                    see(self.blocks.within_block(at, bytes).unwrap_or(&[]));
                }
            }
            None => zeros(begin..end, &mut see),
        }
        zeros(end..range.end, &mut see);
    }
}

/// The inputs of the checksum of an entry's payload, for a request of exactly the bytes of a chunk that the entry holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChecksumParts {
    /// CRC-32C of the payload: the part before the bytes, the bytes, and the part behind them.
    pub payload_crc: u32,
    /// The part before the bytes.
    pub before: [u8; CHUNK_HEAD_BYTES],
    /// The part behind them.
    pub behind: Vec<u8>,
}

impl ChunkInMemory<'_> {
    /// How the checksum of these bytes follows from that of the entry; `None`: the range differs from the one that the entry
    /// holds.
    pub(crate) fn summed(&self, range: &Range<u64>) -> Option<ChecksumParts> {
        let data_at = self.data_at.filter(|_| self.chunk.range() == *range)?;
        let data_bytes = self.chunk.length as usize;
        let trailer_bytes = self.head.payload_bytes - CHUNK_HEAD_BYTES - data_bytes;
        let mut behind = Vec::with_capacity(trailer_bytes);
        let end = data_at + data_bytes as u64;
        for (at, bytes) in self.blocks.pieces(end..end + trailer_bytes as u64) {
            behind.extend_from_slice(self.blocks.within_block(at, bytes)?);
        }
        Some(ChecksumParts { payload_crc: self.head.payload_crc, before: self.chunk.encode(), behind })
    }

    /// Appends these bytes of the chunk to `out`, zeros where the entry has none.
    pub(crate) fn append(&self, range: Range<u64>, out: &mut Vec<u8>) {
        out.reserve(range.end.saturating_sub(range.start) as usize);
        self.visit_bytes(range, |piece| out.extend_from_slice(piece));
    }

    /// Copies the entry's part of some bytes of the chunk over them: `out` holds these bytes from `from` on.
    pub(crate) fn overlay(&self, out: &mut [u8], from: u64) {
        let covers = self.chunk.range();
        let (begin, end) = (covers.start.max(from), covers.end.min(from + out.len() as u64));
        if begin >= end {
            return;
        }
        let mut into = &mut out[(begin - from) as usize..(end - from) as usize];
        let Some(data_at) = self.data_at else { return into.fill(0) };
        let at = data_at + (begin - covers.start);
        for (at, bytes) in self.blocks.pieces(at..at + (end - begin)) {
            let Some(here) = self.blocks.within_block(at, bytes) else { return };
            let (first, behind) = into.split_at_mut(bytes);
            first.copy_from_slice(here);
            into = behind;
        }
    }
}

/// A range cut at multiples of a length.
fn pieces(range: Range<u64>, every: u64) -> impl Iterator<Item = (u64, usize)> {
    let mut at = range.start;
    std::iter::from_fn(move || {
        let here = at;
        at = ((here / every + 1) * every).min(range.end);
        (here < range.end).then(|| (here, (at - here) as usize))
    })
}
