//! Chunks: records that are bytes written at offsets. What nobody wrote are zeros.
//!
//! A chunk is a record of parts like a list, but its parts lie over one another: a later one hides what it covers of
//! those before it. Its newest entry tells a stamp, which upper layers give it.
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

use std::collections::VecDeque;
use std::ops::Range;

use super::chains::Part;
use crate::log::entry::u32_at;

/// Bytes of an entry of a chunk before the chunk's.
pub const CHUNK_HEAD_BYTES: usize = 24;

/// What an upper layer notes with each write of a chunk: the newest one counts.
pub type ChunkStamp = [u8; 16];

/// What a rotten entry covers: nobody knows. All reads of the chunk look at it, and hear of the rot.
pub(crate) const COVERS_UNKNOWN: u32 = u32::MAX;

/// The beginning of a chunk entry's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkHead {
    /// Where in the chunk it begins.
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

/// Lays what an entry's payload (trailer left out) has of some bytes of a chunk over them: `out` holds them from `from` on.
/// Bytes that the entry does not cover stay as they are.
pub fn lay_over(out: &mut [u8], from: u64, payload: &[u8]) {
    let Some(head) = ChunkHead::decode(payload) else { return };
    let (covers, data) = (head.range(), &payload[CHUNK_HEAD_BYTES..]);
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

/// What a record of parts knows beside them if it is a chunk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Extents {
    /// Where each part begins. Their lengths are the parts' units.
    pub(crate) offsets: VecDeque<u32>,
    /// That of the newest part, if it is known here: else it stands in the log.
    pub(crate) stamp: Option<ChunkStamp>,
}

impl Extents {
    /// Takes out the parts that a new one hides altogether. The first always stays: it may have replaced an older record,
    /// whose entries must not come back.
    pub(crate) fn hide(&mut self, parts: &mut VecDeque<Part>, offset: u32, length: u32) -> Vec<Part> {
        let mut gone = Vec::new();
        if length == COVERS_UNKNOWN {
            return gone;
        }
        let new = range_of(offset, length);
        let is_hidden = |part: &Part, offset: u32| {
            let old = range_of(offset, part.units);
            part.units != COVERS_UNKNOWN && new.start <= old.start && old.end <= new.end
        };
        let mut at = 1;
        let offsets = &mut self.offsets;
        // Most writes hide nothing: then nothing is moved.
        while at < parts.len() && !is_hidden(&parts[at], offsets[at]) {
            at += 1;
        }
        let mut kept = at;
        while at < parts.len() {
            if is_hidden(&parts[at], offsets[at]) {
                gone.push(parts[at]);
            } else {
                (parts[kept], offsets[kept]) = (parts[at], offsets[at]);
                kept += 1;
            }
            at += 1;
        }
        parts.truncate(kept);
        offsets.truncate(kept);
        gone
    }

    /// Whether a part may have some of these bytes.
    pub(crate) fn touches(part: &Part, offset: u32, wanted: &Range<u64>) -> bool {
        let covers = range_of(offset, part.units);
        part.units == COVERS_UNKNOWN || covers.start < wanted.end && covers.end > wanted.start
    }
}

/// The bytes of the chunk that a part covers.
pub(crate) fn range_of(offset: u32, length: u32) -> Range<u64> {
    u64::from(offset)..u64::from(offset) + u64::from(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(offset: u32, bytes: &[u8]) -> Vec<u8> {
        let head = ChunkHead { offset, length: bytes.len() as u32, stamp: [7; 16] };
        [&head.encode()[..], bytes].concat()
    }

    #[test]
    fn writes_lie_over_one_another_and_zeros_need_no_bytes() {
        let mut out = vec![0; 6];
        lay_over(&mut out, 2, &written(0, &[1, 2, 3, 4]));
        lay_over(&mut out, 2, &written(7, &[9, 9, 9]));
        assert_eq!(out, [3, 4, 0, 0, 0, 9]);
        let zeros = ChunkHead { offset: 3, length: 100, stamp: [0; 16] };
        lay_over(&mut out, 2, &zeros.encode());
        assert_eq!(out, [3, 0, 0, 0, 0, 0]);
        lay_over(&mut out, 2, &written(u32::MAX, &[1]));
        lay_over(&mut out, 2, b"too short");
        assert_eq!(out, [3, 0, 0, 0, 0, 0]);
        assert_eq!(ChunkHead::decode(&zeros.encode()), Some(zeros));
    }

    #[test]
    fn a_part_that_is_hidden_altogether_goes_but_never_the_first() {
        let part = |index, units| Part { index, entry_bytes: 40, units };
        let mut parts =
            VecDeque::from([part(1, 4), part(2, 4), part(3, COVERS_UNKNOWN), part(4, 2), part(5, 9)]);
        let mut extents = Extents { offsets: [0, 4, 0, 6, 3].into(), stamp: None };
        assert_eq!(extents.hide(&mut parts, 0, 8), [part(2, 4), part(4, 2)]);
        assert_eq!((parts.len(), &extents.offsets), (3, &VecDeque::from([0, 0, 3])));
        assert_eq!(extents.hide(&mut parts, 0, COVERS_UNKNOWN), []);
        assert!(Extents::touches(&part(3, COVERS_UNKNOWN), 0, &(90..91)));
        assert!(Extents::touches(&part(5, 9), 3, &(11..12)) && !Extents::touches(&part(5, 9), 3, &(12..13)));
    }
}
