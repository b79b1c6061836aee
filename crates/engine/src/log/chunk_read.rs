//! Entries of chunks in memory: they are read in place, block by block, whatever their length, without being assembled.
//!
//! One checksum covers the payload of an entry, so of an entry that is not in memory any byte can be used only after all were
//! read. [`visit_shared_chunk`] does that piece by piece.

use std::ops::Range;

use super::PartitionLog;
use super::entry::{EntryMeta, FLAG_TRAILER, Head, PayloadChecksum, decode_head_unchecked};
use super::segment::Segment;
use super::shared::format::{LOG_BLOCK_BYTES, SharedHead};
use super::shared::segment::SharedSegment;
use crate::disk::{Disk, DiskResult};
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

/// The beginning of a chunk's entry. Head and key are right.
pub(crate) struct ChunkBeginning<'s> {
    pub(crate) head: Head,
    pub(crate) key: &'s [u8],
    /// The range of the chunk that it covers.
    pub(crate) chunk: ChunkHead,
    /// Whether the payload needs no check.
    pub(crate) is_checked: bool,
}

impl<'s> From<ChunkInMemory<'s>> for ChunkBeginning<'s> {
    fn from(large: ChunkInMemory<'s>) -> ChunkBeginning<'s> {
        ChunkBeginning { head: large.head, key: large.key, chunk: large.chunk, is_checked: true }
    }
}

/// What an entry that was read and checked says of its chunk: `None` if it is not a chunk's.
pub(crate) type ReadChunk = (EntryMeta, Option<ChunkHead>);

/// Reads and checks the entry of a chunk piece by piece, with `buffer` for those that are not in memory. Passes its bytes with
/// their ranges of the chunk, zeros as no bytes. A range that was passed again counts. `None`: the entry is corrupt, and so may
/// be what was passed.
pub(crate) fn visit_shared_chunk(
    segment: &SharedSegment,
    disk: &mut impl Disk,
    at: Position,
    buffer: &mut Vec<u8>,
    see: &mut dyn FnMut(Range<u64>, &[u8]),
) -> DiskResult<Option<ReadChunk>> {
    let head = segment.read_beginning(disk, at.offset.into(), CHUNK_HEAD_BYTES, buffer)?;
    let head = head.and_then(|head| head.replicated()).filter(|h| h.entry_bytes() <= at.bytes_max as usize);
    let Some(head) = head else { return Ok(None) };
    let mut payload = CheckedPayload::default();
    let first = &buffer[head.payload_at()..head.entry_bytes().min(buffer.len())];
    let chunk = ChunkHead::decode(first);
    let covers = chunk.map_or(0..0, |chunk| chunk.range());
    payload.add(first, &covers, see);
    let payload_at = u64::from(at.offset) + head.payload_at() as u64;
    while payload.bytes < head.payload_bytes {
        let left = head.payload_bytes - payload.bytes;
        let piece = segment.piece(disk, payload_at + payload.bytes as u64, left, buffer)?;
        payload.add(piece, &covers, see);
    }
    if payload.summed.sum() != head.payload_crc {
        return Ok(None);
    }
    let trailer_bytes = match head.meta.flags & FLAG_TRAILER {
        0 => 0,
        _ => usize::from(payload.last_byte),
    };
    // An impossible length of a trailer is none, as in `split_trailer`.
    let without = head.payload_bytes.checked_sub(trailer_bytes).unwrap_or(head.payload_bytes);
    let chunk = chunk.filter(|_| without >= CHUNK_HEAD_BYTES);
    if chunk.is_some_and(|chunk| without - CHUNK_HEAD_BYTES < chunk.length as usize) {
        see(covers, &[]);
    }
    Ok(Some((head.meta, chunk)))
}

/// A payload that is read piece by piece.
#[derive(Default)]
struct CheckedPayload {
    bytes: usize,
    summed: PayloadChecksum,
    last_byte: u8,
}

impl CheckedPayload {
    /// Adds a piece, and passes its bytes of the chunk.
    fn add(&mut self, piece: &[u8], covers: &Range<u64>, see: &mut dyn FnMut(Range<u64>, &[u8])) {
        self.summed.add(piece);
        self.last_byte = piece.last().copied().unwrap_or(self.last_byte);
        let data = &piece[CHUNK_HEAD_BYTES.saturating_sub(self.bytes).min(piece.len())..];
        let begin = covers.start + self.bytes.saturating_sub(CHUNK_HEAD_BYTES) as u64;
        let end = covers.end.min(begin + data.len() as u64);
        if begin < end {
            see(begin..end, &data[..(end - begin) as usize]);
        }
        self.bytes += piece.len();
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
