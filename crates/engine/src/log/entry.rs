//! One entry of the log as bytes: a fixed head, the key, the payload.
//!
//! | offset | bytes | field |
//! | ---: | ---: | --- |
//! | 0 | 4 | CRC-32C of bytes 4 to 28 and the key, xor the segment's salt |
//! | 4 | 4 | CRC-32C of the payload |
//! | 8 | 4 | payload length |
//! | 12 | 3 | key length |
//! | 15 | 1 | kind |
//! | 16 | 4 | log index, less the segment's first |
//! | 20 | 1 | flags |
//! | 21 | 1 | epoch, less the segment's |
//! | 22 | 6 | timestamp, less the segment's |
//! | 28 | | key, then payload |
//!
//! All little-endian. The head with the key has a checksum of its own: the key of an entry with a corrupt payload is known,
//! and its length allows a reader to skip it. The salt prevents bytes of another segment, left in a reused sector, from
//! passing for an entry of this segment.

use crc_fast::{CrcAlgorithm, Digest};

use crate::limits::{KEY_BYTES_MAX, PAYLOAD_BYTES_MAX};

/// Bytes of the fixed head.
pub const HEAD_BYTES: usize = 28;

/// The longest entry.
pub const ENTRY_BYTES_MAX: usize = HEAD_BYTES + KEY_BYTES_MAX + PAYLOAD_BYTES_MAX;

/// Timestamps within one segment differ from its first by less than this (6 bytes).
pub const TIMESTAMP_RANGE: u64 = 1 << 48;

/// The kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum EntryKind {
    /// The record becomes this payload.
    Put = 1,
    /// The record is removed. The payload, if any, belongs to upper layers.
    Remove = 2,
    /// This payload is appended to the record, which exists from then on. For a list the payload starts with the number of
    /// its values (4 bytes); for bytes each byte is a unit; for a chunk the payload names the offset that it is written to.
    Append = 3,
    /// Units (values of a list, bytes) are removed from the head of the record: the payload is their number (8 bytes).
    Trim = 4,
    /// Does not change the index: marks and state of upper layers. Kept until a checkpoint covers it.
    Mark = 5,
    /// Local, not part of the replicated log: the synced and committed indexes at the time when this was written.
    Synced = 0xF0,
    /// Local: the end of a sealed segment.
    Footer = 0xF1,
}

impl EntryMeta {
    /// Whether it is in one atomic batch with the entry behind it: [`FLAG_JOINED`].
    #[inline]
    pub fn is_joined(&self) -> bool {
        self.flags & FLAG_JOINED != 0
    }
}

impl EntryKind {
    /// The kind of that number.
    pub fn from_u8(byte: u8) -> Option<EntryKind> {
        Some(match byte {
            1 => EntryKind::Put,
            2 => EntryKind::Remove,
            3 => EntryKind::Append,
            4 => EntryKind::Trim,
            5 => EntryKind::Mark,
            0xF0 => EntryKind::Synced,
            0xF1 => EntryKind::Footer,
            _ => return None,
        })
    }

    /// Whether it exists only in this file, in contrast to entries of the replicated log, which have an index of their own.
    pub fn is_local(self) -> bool {
        matches!(self, EntryKind::Synced | EntryKind::Footer)
    }

    /// Whether it names a record.
    pub fn has_key(self) -> bool {
        matches!(self, EntryKind::Put | EntryKind::Remove | EntryKind::Append | EntryKind::Trim)
    }
}

/// Flag: the record is a list, not bytes.
pub const FLAG_LIST: u8 = 1;

/// Flag: the payload ends with a trailer of the upper layer. It belongs to the entry, not to the record: it does not count
/// as contents and is not returned with the record. See [`split_trailer`].
pub const FLAG_TRAILER: u8 = 2;

/// Flag: the entry and the next one are in one atomic batch. Entries with consecutive indexes, of which all but the last
/// carry the flag, are a *unit*: it is committed completely, and recovery truncates a unit whose last entry is lost.
pub const FLAG_JOINED: u8 = 4;

/// Flag: the record is a chunk, bytes written at offsets; see [`ChunkHead`](crate::ChunkHead). Not together with
/// [`FLAG_LIST`].
pub const FLAG_CHUNK: u8 = 8;

/// Flags for upper layers; the engine returns them with the value.
pub const FLAGS_FOR_UPPER_LAYERS: u8 = 0xF0;

/// The part of an entry's payload that belongs to the record, and its trailer. A trailer's last byte, left out here, has the
/// trailer's length, including itself.
pub fn split_trailer(flags: u8, payload: &[u8]) -> (&[u8], &[u8]) {
    match payload.split_last() {
        Some((&bytes, rest))
            if flags & FLAG_TRAILER != 0 && (1..=payload.len()).contains(&(bytes as usize)) =>
        {
            rest.split_at(payload.len() - bytes as usize)
        }
        _ => (payload, &[]),
    }
}

/// An entry's fields, all absolute, beside its key and payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryMeta {
    /// The kind of the entry.
    pub kind: EntryKind,
    /// [`FLAG_LIST`], [`FLAG_CHUNK`], [`FLAG_TRAILER`], [`FLAG_JOINED`] and the upper layers' bits.
    pub flags: u8,
    /// The epoch of the primary that numbered it.
    pub epoch: u32,
    /// Its log index, from 1.
    pub index: u64,
    /// Its commit timestamp, on the hybrid logical clock.
    pub timestamp: u64,
}

/// The base values from which the fields of one segment are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryBase {
    /// Xored into the head's checksum.
    pub salt: u32,
    /// Epoch of the first entry.
    pub epoch: u32,
    /// Lowest log index.
    pub index: u64,
    /// Timestamp of the first entry.
    pub timestamp: u64,
}

impl EntryBase {
    /// Whether this entry can be written into this segment; if not, a new segment is started.
    pub fn reaches(&self, meta: &EntryMeta) -> bool {
        meta.index.checked_sub(self.index).is_some_and(|d| d <= u64::from(u32::MAX))
            && meta.epoch.checked_sub(self.epoch).is_some_and(|d| d <= u32::from(u8::MAX))
            && meta.timestamp.checked_sub(self.timestamp).is_some_and(|d| d < TIMESTAMP_RANGE)
    }
}

/// A decoded head. Lengths are within bounds; the payload's checksum is not yet checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The fields.
    pub meta: EntryMeta,
    /// Bytes of the key.
    pub key_bytes: usize,
    /// Bytes of the payload.
    pub payload_bytes: usize,
    /// The required CRC-32C of the payload.
    pub payload_crc: u32,
    /// Bytes before the key: those of the head in the log that has the entry.
    pub head_bytes: u32,
}

impl Head {
    /// Bytes of the complete entry.
    #[inline]
    pub fn entry_bytes(&self) -> usize {
        self.head_bytes as usize + self.key_bytes + self.payload_bytes
    }

    /// The offset of the payload.
    #[inline]
    pub fn payload_at(&self) -> usize {
        self.head_bytes as usize + self.key_bytes
    }
}

/// CRC-32C.
pub fn crc(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}

/// CRC-32C of the concatenated pieces.
#[inline]
pub(crate) fn crc_of_pieces<const N: usize>(pieces: [&[u8]; N]) -> u32 {
    if let [whole] = pieces[..] {
        return crc(whole);
    }
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    pieces.iter().for_each(|piece| digest.update(piece));
    // The upper half of it is empty.
    digest.finalize() as u32
}

/// The CRC-32C of bytes that come in pieces.
pub(crate) struct PayloadChecksum(Digest);

impl Default for PayloadChecksum {
    fn default() -> PayloadChecksum {
        PayloadChecksum(Digest::new(CrcAlgorithm::Crc32Iscsi))
    }
}

impl PayloadChecksum {
    pub(crate) fn add(&mut self, piece: &[u8]) {
        self.0.update(piece);
    }

    pub(crate) fn sum(&self) -> u32 {
        // The upper half of it is empty.
        self.0.finalize() as u32
    }
}

/// Appends an entry to `out`. The caller has checked the lengths and that `base` reaches.
pub fn encode(base: &EntryBase, meta: &EntryMeta, key: &[u8], payload: &[u8], out: &mut Vec<u8>) {
    let head = encode_head(base, meta, key, payload.len(), crc(payload));
    out.extend_from_slice(&head);
    out.extend_from_slice(key);
    out.extend_from_slice(payload);
}

/// The head of an entry whose payload has this length and checksum.
pub fn encode_head(
    base: &EntryBase,
    meta: &EntryMeta,
    key: &[u8],
    payload_bytes: usize,
    payload_crc: u32,
) -> [u8; HEAD_BYTES] {
    debug_assert!(base.reaches(meta) && key.len() <= KEY_BYTES_MAX && payload_bytes <= PAYLOAD_BYTES_MAX);
    let mut head = [0u8; HEAD_BYTES];
    head[4..8].copy_from_slice(&payload_crc.to_le_bytes());
    head[8..12].copy_from_slice(&(payload_bytes as u32).to_le_bytes());
    let key_and_kind = key.len() as u32 | (meta.kind as u32) << 24;
    head[12..16].copy_from_slice(&key_and_kind.to_le_bytes());
    head[16..20].copy_from_slice(&((meta.index - base.index) as u32).to_le_bytes());
    let rest = u64::from(meta.flags)
        | u64::from((meta.epoch - base.epoch) as u8) << 8
        | (meta.timestamp - base.timestamp) << 16;
    head[20..28].copy_from_slice(&rest.to_le_bytes());
    let sum = head_crc(&head, key) ^ base.salt;
    head[0..4].copy_from_slice(&sum.to_le_bytes());
    head
}

/// Reads the fields of a head without checking its checksum: for bytes that never left memory. `None` if they
/// cannot be a head.
pub fn decode_head_unchecked(base: &EntryBase, bytes: &[u8]) -> Option<Head> {
    let head: &[u8; HEAD_BYTES] = bytes.first_chunk()?;
    let payload_bytes = u32_at(head, 8) as usize;
    let key_and_kind = u32_at(head, 12);
    let key_bytes = (key_and_kind & 0xFF_FFFF) as usize;
    let kind = EntryKind::from_u8((key_and_kind >> 24) as u8)?;
    if key_bytes > KEY_BYTES_MAX || payload_bytes > PAYLOAD_BYTES_MAX {
        return None;
    }
    let rest = u64_at(head, 20);
    let meta = EntryMeta {
        kind,
        flags: rest as u8,
        epoch: base.epoch.checked_add(u32::from((rest >> 8) as u8))?,
        index: base.index.checked_add(u64::from(u32_at(head, 16)))?,
        timestamp: base.timestamp.checked_add(rest >> 16)?,
    };
    Some(Head { meta, key_bytes, payload_bytes, payload_crc: u32_at(head, 4), head_bytes: HEAD_BYTES as u32 })
}

/// The result of decoding a head at the start of some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadDecode {
    /// A valid head; the key follows within the given bytes.
    Head(Head),
    /// It may be a head, but this many bytes are needed to decide.
    Need(usize),
    /// Not a head.
    Bad,
}

/// Reads a head with its key, which never left memory: any plausible head is accepted.
pub fn decode_head_in_memory(base: &EntryBase, bytes: &[u8]) -> HeadDecode {
    match decode_head_unchecked(base, bytes) {
        Some(head) if head.payload_at() <= bytes.len() => HeadDecode::Head(head),
        _ => decode_head(base, bytes),
    }
}

/// Reads and checks a head with its key.
pub fn decode_head(base: &EntryBase, bytes: &[u8]) -> HeadDecode {
    if bytes.len() < HEAD_BYTES {
        return HeadDecode::Need(HEAD_BYTES);
    }
    let Some(head) = decode_head_unchecked(base, bytes) else { return HeadDecode::Bad };
    let Some(covered) = bytes.get(4..head.payload_at()) else { return HeadDecode::Need(head.payload_at()) };
    if crc(covered) ^ base.salt == u32_at(bytes, 0) { HeadDecode::Head(head) } else { HeadDecode::Bad }
}

/// The checksum of head and key, without the salt, for a key that is not behind its head yet.
fn head_crc(head: &[u8; HEAD_BYTES], key: &[u8]) -> u32 {
    const SHORT: usize = 100;
    if key.len() <= SHORT {
        let mut buffer = [0u8; HEAD_BYTES - 4 + SHORT];
        buffer[..HEAD_BYTES - 4].copy_from_slice(&head[4..]);
        buffer[HEAD_BYTES - 4..HEAD_BYTES - 4 + key.len()].copy_from_slice(key);
        crc(&buffer[..HEAD_BYTES - 4 + key.len()])
    } else {
        crc(&[&head[4..], key].concat())
    }
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut out = [0u8; 4];
    out.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(out)
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut out = [0u8; 8];
    out.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(out)
}
