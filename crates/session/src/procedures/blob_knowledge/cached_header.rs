//! A blob's header, and the parts of a range of its bytes.

use bytes::Bytes;
use zerohop_wire::blob::{BlobStamp, StagedExtensionState};
use zerohop_wire::ids::Timestamp;

/// A header as it was read.
#[derive(Clone, Debug)]
pub(crate) struct CachedHeader {
    pub(crate) version: Timestamp,
    pub(crate) stamp: BlobStamp,
    pub(crate) size: u64,
    pub(crate) pending_truncation_end: u64,
    pub(crate) staged_extension: StagedExtensionState,
    pub(crate) chunk_bits: u8,
    pub(crate) attributes: Bytes,
}

impl CachedHeader {
    pub(crate) fn chunk_bytes(&self) -> u64 {
        1 << self.chunk_bits
    }

    /// Splits `length` bytes from `offset` into parts that lie within one chunk each.
    pub(crate) fn parts(&self, offset: u64, length: u64) -> impl Iterator<Item = ChunkRange> + use<> {
        let (bits, end) = (self.chunk_bits, offset.saturating_add(length));
        let mut at = offset;
        std::iter::from_fn(move || {
            let number = at >> bits;
            let within = at - (number << bits);
            let part_end = end.min((number + 1) << bits);
            let part =
                ChunkRange { number, within: within as u32, at, length: part_end.checked_sub(at)? as u32 };
            at = part_end;
            (part.length > 0).then_some(part)
        })
    }

    /// The number of chunks that may exist.
    pub(crate) fn chunks(&self) -> u64 {
        self.size.max(self.pending_truncation_end).div_ceil(self.chunk_bytes())
    }
}

/// A range of a blob's bytes within one chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChunkRange {
    /// The chunk's number.
    pub(crate) number: u64,
    /// Offset of the range in the chunk, and in the blob.
    pub(crate) within: u32,
    pub(crate) at: u64,
    /// Length in bytes.
    pub(crate) length: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_falls_apart_at_the_borders_of_chunks() {
        let known = CachedHeader {
            version: Timestamp(1),
            stamp: BlobStamp::default(),
            size: 0,
            pending_truncation_end: 0,
            staged_extension: StagedExtensionState::Not,
            chunk_bits: 12,
            attributes: Bytes::new(),
        };
        let parts = |offset, length| -> Vec<(u64, u32, u64, u32)> {
            known.parts(offset, length).map(|p| (p.number, p.within, p.at, p.length)).collect()
        };
        assert_eq!(parts(0, 0), []);
        assert_eq!(parts(4096, 4096), [(1, 0, 4096, 4096)]);
        assert_eq!(parts(4095, 4098), [(0, 4095, 4095, 1), (1, 0, 4096, 4096), (2, 0, 8192, 1)]);
    }
}
