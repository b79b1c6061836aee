//! The beginning of the payload of a chunk's entry.
//!
//! An entry of a chunk ([`FLAG_CHUNK`](crate::FLAG_CHUNK)) is a put, which hides everything before it, or an append. Its
//! payload:
//!
//! | offset | bytes | field |
//! | ---: | ---: | --- |
//! | 0 | 4 | where in the chunk it begins |
//! | 4 | 4 | how many bytes of the chunk it covers |
//! | 8 | 16 | stamp |
//! | 24 | | the bytes: as many as it covers, or none, which stands for zeros |

use std::ops::Range;

use super::entry::u32_at;

/// Bytes of an entry of a chunk before the chunk's bytes.
pub const CHUNK_HEAD_BYTES: usize = 24;

/// An upper layer's note with each write of a chunk: the newest one counts.
pub type ChunkStamp = [u8; 16];

/// The beginning of a chunk entry's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkHead {
    /// Its offset in the chunk.
    pub offset: u32,
    /// Bytes of the chunk that it covers.
    pub length: u32,
    /// Opaque to the engine.
    pub stamp: ChunkStamp,
}

impl ChunkHead {
    /// As bytes.
    pub fn encode(&self) -> [u8; CHUNK_HEAD_BYTES] {
        let mut out = [0; CHUNK_HEAD_BYTES];
        out[0..4].copy_from_slice(&self.offset.to_le_bytes());
        out[4..8].copy_from_slice(&self.length.to_le_bytes());
        out[8..].copy_from_slice(&self.stamp);
        out
    }

    /// Reads the beginning of a payload; `None` if it is too short to have one.
    pub fn decode(payload: &[u8]) -> Option<ChunkHead> {
        let head = payload.first_chunk::<CHUNK_HEAD_BYTES>()?;
        let mut stamp = [0; 16];
        stamp.copy_from_slice(&head[8..]);
        Some(ChunkHead { offset: u32_at(head, 0), length: u32_at(head, 4), stamp })
    }

    /// The bytes of the chunk that it covers.
    pub fn range(&self) -> Range<u64> {
        u64::from(self.offset)..u64::from(self.offset) + u64::from(self.length)
    }
}

/// Copies the part of a chunk's bytes that an entry's payload (without trailer) has over them: `out` holds these bytes from
/// `from` on. Bytes that the entry does not cover stay unchanged.
pub fn copy_part_over(out: &mut [u8], from: u64, payload: &[u8]) {
    let Some(head) = ChunkHead::decode(payload) else { return };
    copy_bytes_over(out, from, head.range(), &payload[CHUNK_HEAD_BYTES..]);
}

/// The same of the bytes of a range of the chunk; what they lack stands for zeros.
pub(crate) fn copy_bytes_over(out: &mut [u8], from: u64, covers: Range<u64>, data: &[u8]) {
    let (begin, end) = (covers.start.max(from), covers.end.min(from + out.len() as u64));
    if begin >= end {
        return;
    }
    let into = &mut out[(begin - from) as usize..(end - from) as usize];
    match data.get((begin - covers.start) as usize..(end - covers.start) as usize) {
        Some(bytes) => into.copy_from_slice(bytes),
        None => into.fill(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(offset: u32, bytes: &[u8]) -> Vec<u8> {
        let head = ChunkHead { offset, length: bytes.len() as u32, stamp: [7; 16] };
        [&head.encode()[..], bytes].concat()
    }

    #[test]
    fn later_extents_overlay_earlier_ones_and_zeros_store_no_bytes() {
        let mut out = vec![0; 6];
        copy_part_over(&mut out, 2, &written(0, &[1, 2, 3, 4]));
        copy_part_over(&mut out, 2, &written(7, &[9, 9, 9]));
        assert_eq!(out, [3, 4, 0, 0, 0, 9]);
        let zeros = ChunkHead { offset: 3, length: 100, stamp: [0; 16] };
        copy_part_over(&mut out, 2, &zeros.encode());
        assert_eq!(out, [3, 0, 0, 0, 0, 0]);
        copy_part_over(&mut out, 2, &written(u32::MAX, &[1]));
        copy_part_over(&mut out, 2, b"too short");
        assert_eq!(out, [3, 0, 0, 0, 0, 0]);
        assert_eq!(ChunkHead::decode(&zeros.encode()), Some(zeros));
    }
}
