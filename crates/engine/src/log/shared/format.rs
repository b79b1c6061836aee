//! The bytes of the shared log: segment header and head of an entry.
//!
//! Segment header, 64 bytes:
//!
//! | offset | bytes | field |
//! | ---: | ---: | --- |
//! | 0 | 8 | `zerohlog` |
//! | 8 | 4 | format version, 1 |
//! | 12 | 4 | salt of this segment |
//! | 16 | 8 | number of the segment |
//! | 24 | 16 | id of the log |
//! | 40 | 8 | timestamp that entries count from |
//! | 48 | 8 | number of the segment before it in its stream; 0: none |
//! | 56 | 1 | stream |
//! | 57 | 3 | zero |
//! | 60 | 4 | CRC-32C of bytes 0 to 60 |
//!
//! Head of an entry:
//!
//! | offset | bytes | field |
//! | ---: | ---: | --- |
//! | 0 | 4 | CRC-32C of bytes 4 to 40 and the key, xor the salt |
//! | 4 | 4 | CRC-32C of the payload |
//! | 8 | 4 | payload length, and bit 31: kept for a snapshot |
//! | 12 | 4 | key length (18 bits), kind (6 bits), flags (8 bits) |
//! | 16 | 4 | log partition |
//! | 20 | 4 | epoch |
//! | 24 | 6 | log index |
//! | 30 | 6 | timestamp, less the segment's |
//! | 36 | 4 | bytes back to the entry of the same log partition before it |
//! | 40 | | key, then payload |
//!
//! All little-endian. `docs/formats/log.md` has the payloads, and where an entry may begin.

use crate::limits::{KEY_BYTES_MAX, PAYLOAD_BYTES_MAX};
use crate::log::entry::{EntryKind, EntryMeta, Head, crc, crc_of_pieces, u32_at, u64_at};

/// Bytes of a segment's header.
pub const HEADER_BYTES: usize = 64;
/// Where the first entry of a segment begins. No write touches the header's page again.
pub const FIRST_ENTRY_AT: usize = 4 << 10;
/// Bytes of the head of an entry.
pub const HEAD_BYTES: usize = 40;
/// A long entry begins at a multiple of this.
pub const ALIGN_BYTES: usize = 4 << 10;
/// A short entry does not cross a multiple of this. Memory is allocated, written and evicted in blocks of it.
pub const LOG_BLOCK_BYTES: usize = 1 << 20;
/// The longest payload of a short entry, which stands in the small stream.
pub const SHORT_PAYLOAD_BYTES_MAX: usize = 64 << 10;
/// Numbers of segments are below this, so that the next number always exists.
pub const SEGMENT_NUMBER_END: u64 = 1 << 62;
/// Log indexes are below this: they are stored in 6 bytes.
pub const LOG_INDEX_END: u64 = 1 << 48;

const MAGIC: &[u8; 8] = b"zerohlog";
const VERSION: u32 = 1;
const KEPT: u32 = 1 << 31;
const PAYLOAD_BITS: u32 = (1 << 25) - 1;

/// A number that a log gives to one life of a partition, and never again. 0 is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogPartition(pub u32);

/// The place of an entry in a shared log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogPlace {
    /// The number of the segment.
    pub segment: u64,
    /// The offset in it.
    pub offset: u32,
}

/// The id of a log, random, drawn with its folder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogId(pub [u8; 16]);

/// A stream of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum LogStream {
    /// Short entries, creations and marks.
    Small = 0,
    /// Long entries.
    Large = 1,
    /// What compaction has copied.
    Cold = 2,
    /// Entries of partitions in memory. It has no file.
    Memory = 3,
}

impl LogStream {
    /// The streams that have files, in the order of a mark.
    pub const ON_DISK: [LogStream; 3] = [LogStream::Small, LogStream::Large, LogStream::Cold];

    /// The stream with files of that number.
    #[must_use]
    pub fn from_u8(byte: u8) -> Option<LogStream> {
        LogStream::ON_DISK.get(usize::from(byte)).copied()
    }
}

/// The base from which the heads of one segment count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadBase {
    /// Xored into the checksums of heads.
    pub salt: u32,
    /// The lowest timestamp.
    pub timestamp: u64,
}

impl HeadBase {
    /// Whether a head can have this timestamp.
    #[inline]
    #[must_use]
    pub fn reaches(&self, timestamp: u64) -> bool {
        timestamp.checked_sub(self.timestamp).is_some_and(|d| d < crate::log::entry::TIMESTAMP_RANGE)
    }
}

/// The header of a segment of a shared log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedHeader {
    /// The number of the segment, from 1; it rises over all streams of a log, and is never used twice.
    pub number: u64,
    /// The log.
    pub log: LogId,
    /// The timestamp that entries count from.
    pub timestamp: u64,
    /// The segment before it in its stream; 0: none.
    pub before: u64,
    /// Its stream, which has files.
    pub stream: LogStream,
}

impl SharedHeader {
    /// The base of the heads.
    #[must_use]
    pub fn base(&self) -> HeadBase {
        HeadBase { salt: salt_of(self.log, self.number), timestamp: self.timestamp }
    }

    /// The header as bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut out = [0; HEADER_BYTES];
        out[0..8].copy_from_slice(MAGIC);
        out[8..12].copy_from_slice(&VERSION.to_le_bytes());
        out[12..16].copy_from_slice(&self.base().salt.to_le_bytes());
        out[16..24].copy_from_slice(&self.number.to_le_bytes());
        out[24..40].copy_from_slice(&self.log.0);
        out[40..48].copy_from_slice(&self.timestamp.to_le_bytes());
        out[48..56].copy_from_slice(&self.before.to_le_bytes());
        out[56] = self.stream as u8;
        let sum = crc(&out[..60]);
        out[60..64].copy_from_slice(&sum.to_le_bytes());
        out
    }

    /// Reads a header.
    ///
    /// # Errors
    /// In words, what is wrong with it.
    pub fn decode(bytes: &[u8]) -> Result<SharedHeader, String> {
        let Some(bytes) = bytes.first_chunk::<HEADER_BYTES>() else {
            return Err(format!("{} bytes are too few for a segment header", bytes.len()));
        };
        if &bytes[0..8] != MAGIC {
            return Err("not a segment of a shared log".into());
        }
        if crc(&bytes[..60]) != u32_at(bytes, 60) {
            return Err("the segment header is damaged".into());
        }
        let version = u32_at(bytes, 8);
        if version != VERSION {
            return Err(format!(
                "log format {version} is not known here (known: {VERSION}); use a newer zerohop"
            ));
        }
        let mut log = LogId::default();
        log.0.copy_from_slice(&bytes[24..40]);
        let Some(stream) = LogStream::from_u8(bytes[56]) else {
            return Err(format!("there is no stream {}", bytes[56]));
        };
        let header = SharedHeader {
            number: u64_at(bytes, 16),
            log,
            timestamp: u64_at(bytes, 40),
            before: u64_at(bytes, 48),
            stream,
        };
        let is_sound = header.base().salt == u32_at(bytes, 12)
            && bytes[57..60] == [0; 3]
            && header.before < header.number
            && header.number < SEGMENT_NUMBER_END;
        if is_sound { Ok(header) } else { Err("the segment header contradicts itself".into()) }
    }

    /// Looks for a copy of the header of the segment of this number in its bytes, when the header itself is corrupt.
    #[must_use]
    pub fn find_copy(bytes: &[u8], number: u64) -> Option<SharedHeader> {
        let last = bytes.len().checked_sub(HEADER_BYTES)?;
        (0..=last)
            .filter(|&at| bytes[at..].starts_with(MAGIC))
            .filter_map(|at| SharedHeader::decode(&bytes[at..]).ok())
            .find(|header| header.number == number)
    }
}

/// The salt of a segment: old bytes of a recycled file do not pass for entries of the new segment.
#[must_use]
pub fn salt_of(log: LogId, number: u64) -> u32 {
    let mut bytes = [0; 24];
    bytes[0..16].copy_from_slice(&log.0);
    bytes[16..24].copy_from_slice(&number.to_le_bytes());
    xxhash_rust::xxh3::xxh3_64(&bytes) as u32
}

/// The kind of an entry of a shared log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharedKind {
    /// An entry of the replicated log of a partition.
    Replicated(EntryKind),
    /// Local: [`Creation`](super::local::Creation) rows.
    Creations,
    /// Local: a [`LogMark`](super::local::LogMark).
    Mark,
    /// Local: the end of a sealed segment, a [`LogFooter`](super::local::LogFooter).
    Footer,
    /// Local: nothing, up to where the next entry may begin.
    Pad,
    /// Local: [`VoidRange`](super::local::VoidRange) rows.
    Voids,
}

impl SharedKind {
    /// Its number.
    #[inline]
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            SharedKind::Replicated(kind) => kind as u8,
            SharedKind::Creations => 48,
            SharedKind::Mark => 49,
            SharedKind::Footer => 50,
            SharedKind::Pad => 51,
            SharedKind::Voids => 52,
        }
    }

    /// The kind of that number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<SharedKind> {
        match number {
            48 => Some(SharedKind::Creations),
            49 => Some(SharedKind::Mark),
            50 => Some(SharedKind::Footer),
            51 => Some(SharedKind::Pad),
            52 => Some(SharedKind::Voids),
            _ => EntryKind::from_u8(number).filter(|kind| !kind.is_local()).map(SharedKind::Replicated),
        }
    }

    /// Whether it has no log partition.
    #[must_use]
    pub fn is_local(self) -> bool {
        !matches!(self, SharedKind::Replicated(_))
    }
}

/// The head of an entry of a shared log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedHead {
    /// The kind.
    pub kind: SharedKind,
    /// Flags, as in a [`EntryMeta`].
    pub flags: u8,
    /// The log partition; none in local entries.
    pub partition: LogPartition,
    /// The epoch of the primary that numbered it.
    pub epoch: u32,
    /// Its log index, from 1.
    pub index: u64,
    /// Its commit timestamp.
    pub timestamp: u64,
    /// Bytes back to the entry of the same log partition before it in this segment; 0: none.
    pub back: u32,
    /// Bytes of the key.
    pub key_bytes: usize,
    /// Bytes of the payload.
    pub payload_bytes: usize,
    /// The CRC-32C of the payload; not checked in a pad.
    pub payload_crc: u32,
    /// Kept for a snapshot, dead otherwise: recovery skips it.
    pub is_kept: bool,
}

impl SharedHead {
    /// The head of a local entry.
    #[must_use]
    pub fn local(kind: SharedKind, base: &HeadBase, payload_bytes: usize, payload_crc: u32) -> SharedHead {
        SharedHead {
            kind,
            flags: 0,
            partition: LogPartition(0),
            epoch: 0,
            index: 0,
            timestamp: base.timestamp,
            back: 0,
            key_bytes: 0,
            payload_bytes,
            payload_crc,
            is_kept: false,
        }
    }

    /// The same for readers that know no log partitions; `None` of a local entry.
    #[inline]
    #[must_use]
    pub fn replicated(&self) -> Option<Head> {
        let SharedKind::Replicated(kind) = self.kind else { return None };
        let &SharedHead { flags, epoch, index, timestamp, key_bytes, payload_bytes, payload_crc, .. } = self;
        let meta = EntryMeta { kind, flags, epoch, index, timestamp };
        Some(Head { meta, key_bytes, payload_bytes, payload_crc, head_bytes: HEAD_BYTES as u32 })
    }

    /// Bytes of the whole entry.
    #[inline]
    #[must_use]
    pub fn entry_bytes(&self) -> usize {
        HEAD_BYTES + self.key_bytes + self.payload_bytes
    }

    /// The offset of the payload in the entry.
    #[inline]
    #[must_use]
    pub fn payload_at(&self) -> usize {
        HEAD_BYTES + self.key_bytes
    }

    /// The head as bytes, but for its checksum, which [`head_sum`] computes.
    #[inline]
    #[must_use]
    pub fn encode_unsummed(&self, base: &HeadBase) -> [u8; HEAD_BYTES] {
        debug_assert!(base.reaches(self.timestamp) && self.index < LOG_INDEX_END);
        debug_assert!(self.key_bytes <= KEY_BYTES_MAX && self.payload_bytes <= PAYLOAD_BITS as usize);
        let mut out = [0; HEAD_BYTES];
        out[4..8].copy_from_slice(&self.payload_crc.to_le_bytes());
        let kept = if self.is_kept { KEPT } else { 0 };
        out[8..12].copy_from_slice(&(self.payload_bytes as u32 | kept).to_le_bytes());
        let shape = self.key_bytes as u32 | u32::from(self.kind.number()) << 18 | u32::from(self.flags) << 24;
        out[12..16].copy_from_slice(&shape.to_le_bytes());
        out[16..20].copy_from_slice(&self.partition.0.to_le_bytes());
        out[20..24].copy_from_slice(&self.epoch.to_le_bytes());
        // Each is written with two bytes more, which the next field overwrites.
        out[24..32].copy_from_slice(&self.index.to_le_bytes());
        out[30..38].copy_from_slice(&(self.timestamp - base.timestamp).to_le_bytes());
        out[36..40].copy_from_slice(&self.back.to_le_bytes());
        out
    }

    /// Reads the fields of a head without its checksum. `None` if they cannot be a head.
    #[must_use]
    pub fn decode_unsummed(base: &HeadBase, bytes: &[u8]) -> Option<SharedHead> {
        let head: &[u8; HEAD_BYTES] = bytes.first_chunk()?;
        let (length, shape) = (u32_at(head, 8), u32_at(head, 12));
        let kind = SharedKind::from_number((shape >> 18 & 0x3F) as u8)?;
        let (key_bytes, payload_bytes) = ((shape & 0x3_FFFF) as usize, (length & PAYLOAD_BITS) as usize);
        let decoded = SharedHead {
            kind,
            flags: (shape >> 24) as u8,
            partition: LogPartition(u32_at(head, 16)),
            epoch: u32_at(head, 20),
            index: u48_at(head, 24),
            timestamp: base.timestamp.checked_add(u48_at(head, 30))?,
            back: u32_at(head, 36),
            key_bytes,
            payload_bytes,
            payload_crc: u32_at(head, 4),
            is_kept: length & KEPT != 0,
        };
        let is_sound = match kind {
            SharedKind::Replicated(_) => {
                decoded.partition.0 > 0
                    && decoded.index > 0
                    && key_bytes <= KEY_BYTES_MAX
                    && payload_bytes <= PAYLOAD_BYTES_MAX
            }
            _ => decoded.partition.0 == 0 && key_bytes == 0,
        };
        (is_sound && length & !(KEPT | PAYLOAD_BITS) == 0).then_some(decoded)
    }

    /// Reads and checks a head with its key, which are at the start of `bytes`.
    #[must_use]
    pub fn decode(base: &HeadBase, bytes: &[u8]) -> Option<SharedHead> {
        let head = SharedHead::decode_unsummed(base, bytes)?;
        let summed = bytes.get(4..head.payload_at())?;
        (crc(summed) ^ base.salt == u32_at(bytes, 0)).then_some(head)
    }
}

/// The checksum of a head: over what stands behind its first 4 bytes, and the key.
#[inline]
#[must_use]
pub fn head_sum<const N: usize>(base: &HeadBase, behind: [&[u8]; N]) -> u32 {
    crc_of_pieces(behind) ^ base.salt
}

/// Whether an entry of this payload stands in the large stream.
#[inline]
#[must_use]
pub fn is_long(payload_bytes: usize) -> bool {
    payload_bytes > SHORT_PAYLOAD_BYTES_MAX
}

/// Where an entry of this length may begin, from `at` on.
#[inline]
#[must_use]
pub fn place_for(at: u64, entry_bytes: usize, payload_bytes: usize) -> u64 {
    let block = LOG_BLOCK_BYTES as u64;
    if is_long(payload_bytes) {
        at.next_multiple_of(ALIGN_BYTES as u64)
    } else if at % block + entry_bytes as u64 > block {
        at.next_multiple_of(block)
    } else {
        at
    }
}

pub(crate) fn u48_at(bytes: &[u8], at: usize) -> u64 {
    let mut out = [0; 8];
    out[..6].copy_from_slice(&bytes[at..at + 6]);
    u64::from_le_bytes(out)
}
