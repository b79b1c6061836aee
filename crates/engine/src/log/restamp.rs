//! Restamping: the bytes of a segment become another partition's, with another salt that is xored into checksums, and other
//! copies of the header.
//!
//! Every entry keeps its offset, so that locations into the original are valid in the copy. Corrupt bytes stay corrupt.

use crate::PartitionId;
use crate::log::entry::{EntryBase, HEAD_BYTES, crc, u32_at};
use crate::log::header::{HEADER_BYTES, SegmentHeader, salt_of};
use crate::log::scan::{self, ScanItem};

/// Bytes of a mark's payload, and of a footer's, before its copy of the header.
const BEFORE_COPY_IN_MARK: usize = 16;
const BEFORE_COPY_IN_FOOTER: usize = 20;
const MARK_BYTES: usize = HEAD_BYTES + BEFORE_COPY_IN_MARK + HEADER_BYTES;

impl SegmentHeader {
    /// The header of the same file for this partition.
    #[must_use]
    pub fn of_partition(&self, partition: PartitionId) -> SegmentHeader {
        let EntryBase { index, epoch, .. } = self.base;
        let salt = salt_of(partition, index, epoch, self.generation);
        SegmentHeader { partition, base: EntryBase { salt, ..self.base }, ..*self }
    }
}

/// Turns the bytes of a segment with one header into those of a segment with another that differs in its partition only.
/// Returns whether every byte of it could be read.
pub fn restamp(from: &SegmentHeader, to: &SegmentHeader, bytes: &mut [u8]) -> bool {
    let salts = from.base.salt ^ to.base.salt;
    let mut is_clean = true;
    let mut entries = Vec::new();
    let mut copies = Vec::new();
    let Some((head, rest)) = bytes.split_first_chunk_mut::<HEADER_BYTES>() else { return false };
    *head = to.encode();
    for item in scan::items(&from.base, rest, HEADER_BYTES as u64, from.base.index - 1) {
        match item {
            ScanItem::Entry { offset, payload_is_good, .. } => {
                is_clean &= payload_is_good;
                entries.push(offset as usize);
            }
            ScanItem::Mark { end, .. } => copies.push((end as usize - MARK_BYTES, BEFORE_COPY_IN_MARK)),
            ScanItem::Footer { offset, .. } => copies.push((offset as usize, BEFORE_COPY_IN_FOOTER)),
            ScanItem::Bad { .. } => is_clean = false,
        }
    }
    for at in entries {
        xor_at(bytes, at, salts);
    }
    for (at, before) in copies {
        let payload_at = at + HEAD_BYTES;
        let payload_bytes = u32_at(bytes, at + 8) as usize;
        bytes[payload_at + before..][..HEADER_BYTES].copy_from_slice(&to.encode());
        let sum = crc(&bytes[payload_at..payload_at + payload_bytes]);
        bytes[at + 4..at + 8].copy_from_slice(&sum.to_le_bytes());
        let sum = crc(&bytes[at + 4..payload_at]) ^ to.base.salt;
        bytes[at..at + 4].copy_from_slice(&sum.to_le_bytes());
        let trailer_sum_at = payload_at + payload_bytes + 12;
        if before == BEFORE_COPY_IN_FOOTER && trailer_sum_at + 4 <= bytes.len() {
            xor_at(bytes, trailer_sum_at, salts);
        }
    }
    is_clean
}

fn xor_at(bytes: &mut [u8], at: usize, salts: u32) {
    let sum = u32_at(bytes, at) ^ salts;
    bytes[at..at + 4].copy_from_slice(&sum.to_le_bytes());
}
