//! Checkpoint files: the index of one partition, so that recovery need not read the whole log.
//!
//! A file is a header of 64 bytes and blocks.
//!
//! | offset | bytes | field |
//! | ---: | ---: | --- |
//! | 0 | 8 | `zerohckp` |
//! | 8 | 4 | format version, 2; 1 had no chunks |
//! | 12 | 4 | salt |
//! | 16 | 8 | partition |
//! | 24 | 8 | commit index: every entry up to it is in here |
//! | 32 | 4 | epoch of that entry |
//! | 36 | 4 | zero |
//! | 40 | 8 | the partition's index seed |
//! | 48 | 12 | zero |
//! | 60 | 4 | CRC-32C of bytes 0 to 60 |
//!
//! Block: CRC-32C of the rest, xor the salt (4); type (4); bytes behind these 12 (4); contents.
//!
//! | type | contents |
//! | --- | --- |
//! | 1 entries | 12 bytes each: fragment (4), location (8, see [`crate::index::location`]) |
//! | 2 chain | fragment (4), flags (4: bit 0 list), skipped units (8), trimmed by (8), applied (8), key length (4), parts (4), key, parts of 16: log index (8), entry bytes (4), units (4). A further block with the same key carries further parts. |
//! | 7 chunk | as a chain, with parts of 20: log index (8), entry bytes (4), bytes it covers (4), where in the chunk (4) |
//! | 3 extra | what an upper layer added, opaque |
//! | 4 segments | 56 bytes each: slot (4), generation (4), first index (8), last index (8), dead bytes (8), removal bytes (8), file bytes (8), resume at (8) |
//! | 6 samples | of a segment that was still open: slot (4), then 8 bytes each: log index less the first (4), offset (4) |
//! | 5 end | number of entries (8), number of chain and chunk blocks (8), bytes of the file before this block (8), commit index when the last page of the index was written (8): entries up to it may be in here |
//!
//! Dead bytes are those of entries up to the commit index that no record in this file refers to: replaying the log counts
//! the others. The bytes of removals are those before `resume at`, or of the whole segment if it is read from its start.
//!
//! The file is valid only with its end block: a truncated file does not count.

use crate::PartitionId;
use crate::limits::KEY_BYTES_MAX;
use crate::log::entry::{crc, u32_at, u64_at};
use crate::overflow::part::ChainPart;

/// Bytes of the header.
pub const HEADER_BYTES: usize = 64;
/// Bytes of a block before its contents.
pub const BLOCK_HEAD_BYTES: usize = 12;
/// Parts of a chain in one block at most.
pub const PARTS_PER_BLOCK_MAX: usize = 1 << 15;
const MAGIC: &[u8; 8] = b"zerohckp";
/// The version that is written.
const VERSION: u32 = 2;
/// The oldest version that is read: it has no chunks.
const VERSION_MIN: u32 = 1;
const SEGMENT_ROW_BYTES: usize = 56;
const CHAIN_HEAD_BYTES: usize = 40;
const PART_BYTES: usize = 16;
const CHUNK_PART_BYTES: usize = PART_BYTES + 4;

/// The contents of the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckpointHeader {
    /// The partition of this index.
    pub partition: PartitionId,
    /// Every entry up to this log index is in here.
    pub commit: u64,
    /// Its epoch.
    pub epoch: u32,
    /// The partition's index seed.
    pub index_seed: u64,
}

impl CheckpointHeader {
    /// Xored into the blocks' checksums.
    pub fn salt(&self) -> u32 {
        crate::log::header::salt_of(self.partition, self.commit, self.epoch, u32::MAX)
    }

    /// The file's name once it is complete. Sorted by name, newer files come later.
    pub fn file_name(&self) -> String {
        format!("{:016x}.ckp", self.commit)
    }

    /// The header as bytes.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut out = [0; HEADER_BYTES];
        out[0..8].copy_from_slice(MAGIC);
        out[8..12].copy_from_slice(&VERSION.to_le_bytes());
        out[12..16].copy_from_slice(&self.salt().to_le_bytes());
        out[16..24].copy_from_slice(&self.partition.0.to_le_bytes());
        out[24..32].copy_from_slice(&self.commit.to_le_bytes());
        out[32..36].copy_from_slice(&self.epoch.to_le_bytes());
        out[40..48].copy_from_slice(&self.index_seed.to_le_bytes());
        let sum = crc(&out[..HEADER_BYTES - 4]);
        out[HEADER_BYTES - 4..].copy_from_slice(&sum.to_le_bytes());
        out
    }

    /// Reads a header.
    ///
    /// # Errors
    /// In words, what is wrong with it.
    pub fn decode(bytes: &[u8]) -> Result<CheckpointHeader, String> {
        let Some(bytes) = bytes.first_chunk::<HEADER_BYTES>() else {
            return Err(format!("{} bytes are too few for a checkpoint header", bytes.len()));
        };
        if &bytes[0..8] != MAGIC {
            return Err("not a checkpoint file".into());
        }
        if crc(&bytes[..HEADER_BYTES - 4]) != u32_at(bytes, HEADER_BYTES - 4) {
            return Err("the checkpoint header is damaged".into());
        }
        let version = u32_at(bytes, 8);
        if !(VERSION_MIN..=VERSION).contains(&version) {
            return Err(format!(
                "checkpoint format {version} is not known here (known: up to {VERSION}); use a newer zerohop"
            ));
        }
        let header = CheckpointHeader {
            partition: PartitionId(u64_at(bytes, 16)),
            commit: u64_at(bytes, 24),
            epoch: u32_at(bytes, 32),
            index_seed: u64_at(bytes, 40),
        };
        if header.salt() == u32_at(bytes, 12) {
            Ok(header)
        } else {
            Err("the checkpoint's salt is wrong".into())
        }
    }
}

/// A segment at the time of the checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentRow {
    /// Its slot in locations.
    pub slot: u32,
    /// Generation of the file.
    pub generation: u32,
    /// First log index of the file.
    pub first_index: u64,
    /// Last log index in it.
    pub last_index: u64,
    /// Bytes of entries up to the commit index that no record in the checkpoint refers to.
    pub dead_bytes: u64,
    /// Bytes of removals before `resume_at`.
    pub removal_bytes: u64,
    /// Length of the file that the checkpoint relies on.
    pub file_bytes: u64,
    /// Offset from which entries that are not in the checkpoint may start.
    pub resume_at: u64,
}

/// A chain, or a further piece of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainPiece<'a> {
    /// The index's part of the key's hash.
    pub fragment: u32,
    /// List or bytes.
    pub is_list: bool,
    /// Units trimmed off the first part.
    pub skipped: u64,
    /// Log index of the trim that removed them.
    pub trimmed_by: u64,
    /// Log index of the last entry applied to it.
    pub applied: u64,
    /// The key.
    pub key: &'a [u8],
    /// Its parts.
    pub parts: Vec<ChainPart>,
    /// For a chunk, the offset of each part.
    pub offsets: Option<Vec<u32>>,
}

/// A block's contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Block<'a> {
    /// Fragments and locations.
    Entries(Vec<(u32, u64)>),
    /// A record of several parts.
    Chain(ChainPiece<'a>),
    /// An upper layer's state.
    Extra(&'a [u8]),
    /// The segments that locations refer to.
    Segments(Vec<SegmentRow>),
    /// Samples to find entries by log index in a segment that has no footer yet.
    Samples {
        /// The slot of the segment.
        slot: u32,
        /// Log index less the first, and offset.
        samples: Vec<(u32, u32)>,
    },
    /// The end.
    End {
        /// Entries in all blocks.
        entries: u64,
        /// Chain blocks.
        chains: u64,
        /// Bytes before this block.
        file_bytes: u64,
        /// Commit index when the last page of the index was written.
        applied: u64,
    },
}

/// Appends a block to `out`.
pub fn encode_block(salt: u32, block: &Block<'_>, out: &mut Vec<u8>) {
    let at = out.len();
    out.extend_from_slice(&[0; BLOCK_HEAD_BYTES]);
    let kind: u32 = match block {
        Block::Entries(entries) => {
            for (fragment, location) in entries {
                out.extend_from_slice(&fragment.to_le_bytes());
                out.extend_from_slice(&location.to_le_bytes());
            }
            1
        }
        Block::Chain(chain) => {
            encode_chain(chain, out);
            if chain.offsets.is_some() { 7 } else { 2 }
        }
        Block::Extra(bytes) => {
            out.extend_from_slice(bytes);
            3
        }
        Block::Segments(rows) => {
            for row in rows {
                out.extend_from_slice(&row.slot.to_le_bytes());
                out.extend_from_slice(&row.generation.to_le_bytes());
                let fields = [
                    row.first_index,
                    row.last_index,
                    row.dead_bytes,
                    row.removal_bytes,
                    row.file_bytes,
                    row.resume_at,
                ];
                fields.iter().for_each(|f| out.extend_from_slice(&f.to_le_bytes()));
            }
            4
        }
        Block::Samples { slot, samples } => {
            out.extend_from_slice(&slot.to_le_bytes());
            for (index, offset) in samples {
                out.extend_from_slice(&index.to_le_bytes());
                out.extend_from_slice(&offset.to_le_bytes());
            }
            6
        }
        Block::End { entries, chains, file_bytes, applied } => {
            [entries, chains, file_bytes, applied]
                .iter()
                .for_each(|f| out.extend_from_slice(&f.to_le_bytes()));
            5
        }
    };
    let bytes = (out.len() - at - BLOCK_HEAD_BYTES) as u32;
    out[at + 4..at + 8].copy_from_slice(&kind.to_le_bytes());
    out[at + 8..at + 12].copy_from_slice(&bytes.to_le_bytes());
    let sum = crc(&out[at + 4..]) ^ salt;
    out[at..at + 4].copy_from_slice(&sum.to_le_bytes());
}

fn encode_chain(chain: &ChainPiece<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(&chain.fragment.to_le_bytes());
    out.extend_from_slice(&u32::from(chain.is_list).to_le_bytes());
    [chain.skipped, chain.trimmed_by, chain.applied]
        .iter()
        .for_each(|f| out.extend_from_slice(&f.to_le_bytes()));
    out.extend_from_slice(&(chain.key.len() as u32).to_le_bytes());
    out.extend_from_slice(&(chain.parts.len() as u32).to_le_bytes());
    out.extend_from_slice(chain.key);
    let mut offsets = chain.offsets.iter().flatten();
    for part in &chain.parts {
        out.extend_from_slice(&part.index.to_le_bytes());
        out.extend_from_slice(&part.entry_bytes.to_le_bytes());
        out.extend_from_slice(&part.units.to_le_bytes());
        if let Some(offset) = offsets.next() {
            out.extend_from_slice(&offset.to_le_bytes());
        }
    }
}

/// Bytes of the block with this head: its head and its contents.
pub fn block_bytes(head: &[u8; BLOCK_HEAD_BYTES]) -> usize {
    BLOCK_HEAD_BYTES + u32_at(head, 8) as usize
}

/// Decodes a block, head and contents; `None` if the bytes are not a block.
pub fn decode_block(salt: u32, bytes: &[u8]) -> Option<Block<'_>> {
    let head = bytes.first_chunk::<BLOCK_HEAD_BYTES>()?;
    if bytes.len() != block_bytes(head) || crc(&bytes[4..]) ^ salt != u32_at(head, 0) {
        return None;
    }
    let body = &bytes[BLOCK_HEAD_BYTES..];
    Some(match u32_at(head, 4) {
        1 if body.len().is_multiple_of(12) => {
            Block::Entries(body.chunks_exact(12).map(|e| (u32_at(e, 0), u64_at(e, 4))).collect())
        }
        kind @ (2 | 7) => Block::Chain(decode_chain(body, kind == 7)?),
        3 => Block::Extra(body),
        4 if body.len().is_multiple_of(SEGMENT_ROW_BYTES) => {
            Block::Segments(body.chunks_exact(SEGMENT_ROW_BYTES).map(decode_row).collect())
        }
        5 if body.len() == 32 => Block::End {
            entries: u64_at(body, 0),
            chains: u64_at(body, 8),
            file_bytes: u64_at(body, 16),
            applied: u64_at(body, 24),
        },
        6 if body.len() % 8 == 4 => Block::Samples {
            slot: u32_at(body, 0),
            samples: body[4..].chunks_exact(8).map(|s| (u32_at(s, 0), u32_at(s, 4))).collect(),
        },
        _ => return None,
    })
}

fn decode_row(row: &[u8]) -> SegmentRow {
    SegmentRow {
        slot: u32_at(row, 0),
        generation: u32_at(row, 4),
        first_index: u64_at(row, 8),
        last_index: u64_at(row, 16),
        dead_bytes: u64_at(row, 24),
        removal_bytes: u64_at(row, 32),
        file_bytes: u64_at(row, 40),
        resume_at: u64_at(row, 48),
    }
}

fn decode_chain(body: &[u8], is_chunk: bool) -> Option<ChainPiece<'_>> {
    let part_bytes = if is_chunk { CHUNK_PART_BYTES } else { PART_BYTES };
    if body.len() < CHAIN_HEAD_BYTES {
        return None;
    }
    let (key_bytes, count) = (u32_at(body, 32) as usize, u32_at(body, 36) as usize);
    if key_bytes > KEY_BYTES_MAX
        || count > PARTS_PER_BLOCK_MAX
        || body.len() != CHAIN_HEAD_BYTES + key_bytes + part_bytes * count
    {
        return None;
    }
    let (key, parts) = body[CHAIN_HEAD_BYTES..].split_at(key_bytes);
    let part_of =
        |p: &[u8]| ChainPart { index: u64_at(p, 0), entry_bytes: u32_at(p, 8), units: u32_at(p, 12) };
    Some(ChainPiece {
        fragment: u32_at(body, 0),
        is_list: u32_at(body, 4) & 1 == 1,
        skipped: u64_at(body, 8),
        trimmed_by: u64_at(body, 16),
        applied: u64_at(body, 24),
        key,
        parts: parts.chunks_exact(part_bytes).map(part_of).collect(),
        offsets: is_chunk.then(|| parts.chunks_exact(part_bytes).map(|p| u32_at(p, PART_BYTES)).collect()),
    })
}

/// Turns the bytes of a checkpoint into another partition's: header and salt differ, and all locations stay valid where the
/// segments are copies of this partition's. Corrupt bytes stay corrupt.
pub fn restamp(from: &CheckpointHeader, partition: PartitionId, bytes: &mut [u8]) {
    let to = CheckpointHeader { partition, ..*from };
    let salts = from.salt() ^ to.salt();
    let Some((head, mut rest)) = bytes.split_first_chunk_mut::<HEADER_BYTES>() else { return };
    *head = to.encode();
    while let Some(head) = rest.first_chunk_mut::<BLOCK_HEAD_BYTES>() {
        let sum = u32_at(head, 0) ^ salts;
        head[..4].copy_from_slice(&sum.to_le_bytes());
        let bytes = block_bytes(head).min(rest.len());
        rest = rest.split_at_mut(bytes).1;
    }
}

/// The blocks of a complete file, without its header, up to and including the end block. Never panics.
///
/// # Errors
/// In words, where the file is damaged.
pub fn read_blocks<'a>(
    salt: u32,
    bytes: &'a [u8],
    mut each: impl FnMut(Block<'a>) -> Result<(), String>,
) -> Result<(), String> {
    let mut at = HEADER_BYTES;
    loop {
        let rest = bytes.get(at..).unwrap_or(&[]);
        let head = rest
            .first_chunk::<BLOCK_HEAD_BYTES>()
            .ok_or_else(|| format!("it ends at {at}, before its end block"))?;
        let whole = rest.get(..block_bytes(head)).ok_or_else(|| format!("the block at {at} is cut short"))?;
        let block = decode_block(salt, whole).ok_or_else(|| format!("the block at {at} is damaged"))?;
        let is_end = match block {
            Block::End { file_bytes, .. } if file_bytes == at as u64 => true,
            Block::End { .. } => return Err("its end block names another length".into()),
            _ => false,
        };
        each(block)?;
        if is_end {
            return Ok(());
        }
        at += whole.len();
    }
}
