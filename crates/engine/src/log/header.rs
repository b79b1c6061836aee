//! The first and the last bytes of a segment file.
//!
//! Header, 80 bytes:
//!
//! | offset | bytes | field |
//! | ---: | ---: | --- |
//! | 0 | 8 | `zerohseg` |
//! | 8 | 4 | format version, 3; 1 had no units, 2 no chunks |
//! | 12 | 4 | salt of this file |
//! | 16 | 8 | partition |
//! | 24 | 8 | first log index it may hold |
//! | 32 | 8 | last log index it covers, if rewritten by compaction; else 0 |
//! | 40 | 4 | generation: 0 as first written, one more than the highest of what it replaces |
//! | 44 | 4 | epoch that entries count from |
//! | 48 | 8 | timestamp that entries count from |
//! | 56 | 8 | commit index at which compaction judged what is dead here; 0 if never |
//! | 64 | 8 | the partition's index seed |
//! | 72 | 4 | epoch of the last log index it covers, if rewritten by compaction; else 0 |
//! | 76 | 4 | CRC-32C of bytes 0 to 76 |
//!
//! A sealed segment ends with a [`EntryKind::Footer`](super::entry::EntryKind::Footer) entry and a trailer of 16 bytes:
//! footer offset (4), footer length (4), `zhft` (4), CRC-32C of the twelve bytes before, xor the salt (4).
//! The footer's payload:
//!
//! | offset | bytes | field |
//! | ---: | ---: | --- |
//! | 0 | 8 | last log index |
//! | 8 | 4 | epoch of the last entry |
//! | 12 | 4 | bytes of removals |
//! | 16 | 4 | number of samples |
//! | 20 | 80 | a copy of the header, for when that becomes corrupt |
//! | 100 | 8 | if rewritten by compaction: the commit index when that had judged the last entry; else 0 |
//! | 108 | 8 each | sample: log index less the first (4), offset (4) |

use crate::PartitionId;
use crate::log::entry::{EntryBase, crc, u32_at, u64_at};

/// Bytes of a segment's header.
pub const HEADER_BYTES: usize = 80;
/// Bytes of a sealed segment's trailer.
pub const TRAILER_BYTES: usize = 16;
const MAGIC: &[u8; 8] = b"zerohseg";
const TRAILER_MAGIC: &[u8; 4] = b"zhft";
/// The version that is written.
const VERSION: u32 = 3;
/// The oldest version that is read: it has no [`FLAG_JOINED`](crate::FLAG_JOINED), and up to 2 there was no
/// [`FLAG_CHUNK`](crate::FLAG_CHUNK).
const VERSION_MIN: u32 = 1;
const FOOTER_FIXED_BYTES: usize = 28 + HEADER_BYTES;

/// The header of a segment file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentHeader {
    /// The partition of these entries.
    pub partition: PartitionId,
    /// The base of the entries' fields; its index is the first that the file may hold.
    pub base: EntryBase,
    /// The last log index that a rewritten file covers; 0 for a file as first written.
    pub covers_through: u64,
    /// The epoch of that index; 0 for a file as first written.
    pub covers_epoch: u32,
    /// If two files cover the same range, the higher generation wins.
    pub generation: u32,
    /// Commit index at which compaction judged this range; 0 if never.
    pub compacted_at: u64,
    /// Seed of the partition's index hash.
    pub index_seed: u64,
}

impl SegmentHeader {
    /// The file's name. Sorted by name, files are in log order.
    pub fn file_name(&self) -> String {
        format!("{:016x}-{:08x}.seg", self.base.index, self.generation)
    }

    /// The header as bytes.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut out = [0u8; HEADER_BYTES];
        out[0..8].copy_from_slice(MAGIC);
        out[8..12].copy_from_slice(&VERSION.to_le_bytes());
        out[12..16].copy_from_slice(&self.base.salt.to_le_bytes());
        out[16..24].copy_from_slice(&self.partition.0.to_le_bytes());
        out[24..32].copy_from_slice(&self.base.index.to_le_bytes());
        out[32..40].copy_from_slice(&self.covers_through.to_le_bytes());
        out[40..44].copy_from_slice(&self.generation.to_le_bytes());
        out[44..48].copy_from_slice(&self.base.epoch.to_le_bytes());
        out[48..56].copy_from_slice(&self.base.timestamp.to_le_bytes());
        out[56..64].copy_from_slice(&self.compacted_at.to_le_bytes());
        out[64..72].copy_from_slice(&self.index_seed.to_le_bytes());
        out[72..76].copy_from_slice(&self.covers_epoch.to_le_bytes());
        let sum = crc(&out[..HEADER_BYTES - 4]);
        out[HEADER_BYTES - 4..].copy_from_slice(&sum.to_le_bytes());
        out
    }

    /// Reads a header.
    ///
    /// # Errors
    /// In words, what is wrong with it.
    pub fn decode(bytes: &[u8]) -> Result<SegmentHeader, String> {
        let Some(bytes) = bytes.first_chunk::<HEADER_BYTES>() else {
            return Err(format!("{} bytes are too few for a segment header", bytes.len()));
        };
        if &bytes[0..8] != MAGIC {
            return Err("not a segment file".into());
        }
        if crc(&bytes[..HEADER_BYTES - 4]) != u32_at(bytes, HEADER_BYTES - 4) {
            return Err("the segment header is damaged".into());
        }
        let version = u32_at(bytes, 8);
        if !(VERSION_MIN..=VERSION).contains(&version) {
            return Err(format!(
                "segment format {version} is not known here (known: up to {VERSION}); use a newer zerohop"
            ));
        }
        Ok(SegmentHeader {
            partition: PartitionId(u64_at(bytes, 16)),
            base: EntryBase {
                salt: u32_at(bytes, 12),
                epoch: u32_at(bytes, 44),
                index: u64_at(bytes, 24),
                timestamp: u64_at(bytes, 48),
            },
            covers_through: u64_at(bytes, 32),
            covers_epoch: u32_at(bytes, 72),
            generation: u32_at(bytes, 40),
            compacted_at: u64_at(bytes, 56),
            index_seed: u64_at(bytes, 64),
        })
    }
}

/// Looks for a copy of a file's header in its bytes, when the header itself is damaged.
pub fn find_copy(bytes: &[u8], is_it: impl Fn(&SegmentHeader) -> bool) -> Option<SegmentHeader> {
    let last = bytes.len().checked_sub(HEADER_BYTES)?;
    (0..=last)
        .filter(|&at| bytes[at..].starts_with(MAGIC))
        .filter_map(|at| SegmentHeader::decode(&bytes[at..]).ok())
        .find(is_it)
}

/// The salt of a file: different for every range, epoch, generation and partition, and unlikely to occur by chance.
pub fn salt_of(partition: PartitionId, first_index: u64, epoch: u32, generation: u32) -> u32 {
    let mut bytes = [0u8; 24];
    bytes[0..8].copy_from_slice(&partition.0.to_le_bytes());
    bytes[8..16].copy_from_slice(&first_index.to_le_bytes());
    bytes[16..20].copy_from_slice(&generation.to_le_bytes());
    bytes[20..24].copy_from_slice(&epoch.to_le_bytes());
    xxhash_rust::xxh3::xxh3_64(&bytes) as u32
}

/// Data of a sealed segment about itself.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Footer {
    /// Log index of the last entry.
    pub last_index: u64,
    /// Its epoch.
    pub last_epoch: u32,
    /// Bytes of removals in the file.
    pub removal_bytes: u32,
    /// Commit index at which compaction had judged every entry, so that each entry that it left out was dead by then; 0 if
    /// never.
    pub judged_at: u64,
    /// Log index (less the first) and offset of every so-many-th entry, ascending.
    pub samples: Vec<(u32, u32)>,
}

impl Footer {
    /// The footer entry's payload.
    pub fn encode(&self, header: &SegmentHeader) -> Vec<u8> {
        let mut out = Vec::with_capacity(FOOTER_FIXED_BYTES + 8 * self.samples.len());
        out.extend_from_slice(&self.last_index.to_le_bytes());
        out.extend_from_slice(&self.last_epoch.to_le_bytes());
        out.extend_from_slice(&self.removal_bytes.to_le_bytes());
        out.extend_from_slice(&(self.samples.len() as u32).to_le_bytes());
        out.extend_from_slice(&header.encode());
        out.extend_from_slice(&self.judged_at.to_le_bytes());
        for (index, offset) in &self.samples {
            out.extend_from_slice(&index.to_le_bytes());
            out.extend_from_slice(&offset.to_le_bytes());
        }
        out
    }

    /// Reads a footer's payload; `None` if it cannot be one.
    pub fn decode(bytes: &[u8]) -> Option<Footer> {
        if bytes.len() < FOOTER_FIXED_BYTES
            || bytes.len() != FOOTER_FIXED_BYTES + 8 * u32_at(bytes, 16) as usize
        {
            return None;
        }
        let samples: Vec<(u32, u32)> =
            bytes[FOOTER_FIXED_BYTES..].chunks_exact(8).map(|s| (u32_at(s, 0), u32_at(s, 4))).collect();
        samples.is_sorted().then_some(Footer {
            last_index: u64_at(bytes, 0),
            last_epoch: u32_at(bytes, 8),
            removal_bytes: u32_at(bytes, 12),
            judged_at: u64_at(bytes, 20 + HEADER_BYTES),
            samples,
        })
    }
}

/// The trailer behind a footer entry of this position and length.
pub fn encode_trailer(salt: u32, footer_at: u32, footer_bytes: u32) -> [u8; TRAILER_BYTES] {
    let mut out = [0u8; TRAILER_BYTES];
    out[0..4].copy_from_slice(&footer_at.to_le_bytes());
    out[4..8].copy_from_slice(&footer_bytes.to_le_bytes());
    out[8..12].copy_from_slice(TRAILER_MAGIC);
    let sum = crc(&out[..12]) ^ salt;
    out[12..].copy_from_slice(&sum.to_le_bytes());
    out
}

/// Reads a trailer: position and length of the footer entry.
pub fn decode_trailer(salt: u32, bytes: &[u8]) -> Option<(u32, u32)> {
    let bytes = bytes.first_chunk::<TRAILER_BYTES>()?;
    (&bytes[8..12] == TRAILER_MAGIC && crc(&bytes[..12]) ^ salt == u32_at(bytes, 12))
        .then(|| (u32_at(bytes, 0), u32_at(bytes, 4)))
}
