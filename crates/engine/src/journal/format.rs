//! The journal's bytes.
//!
//! File header, 32 bytes:
//!
//! | offset | bytes | field |
//! | ---: | ---: | --- |
//! | 0 | 8 | `zerohjnl` |
//! | 8 | 4 | format version, 4; 1 had no units, and did not tell that a cut begins, 2 had no chunks, 3 no seeds |
//! | 12 | 4 | salt of this file |
//! | 16 | 8 | number of this file |
//! | 24 | 4 | zero |
//! | 28 | 4 | CRC-32C of bytes 0 to 28 |
//!
//! Record:
//!
//! | offset | bytes | field |
//! | ---: | ---: | --- |
//! | 0 | 4 | CRC-32C of the record from byte 4 on, xor the salt |
//! | 4 | 4 | bytes behind these 48 |
//! | 8 | 8 | partition |
//! | 16 | 8 | log index; of a batch record: bytes of this file that are synced; of a seed record: the seed |
//! | 24 | 8 | timestamp |
//! | 32 | 4 | epoch |
//! | 36 | 3 | key length |
//! | 39 | 1 | entry kind |
//! | 40 | 1 | entry flags |
//! | 41 | 1 | record type: 1 entry, 2 reference, 3 cut, 4 batch, 5 cut begins, 6 seed |
//! | 42 | 2 | zero |
//! | 44 | 4 | payload length |
//! | 48 | | key and payload (entry), key (reference), nothing (the others) |
//!
//! A reference is an entry that is in its segment, which was synced before the journal was. A cut records that the
//! partition's log was truncated after that index, which is 0 where the partition was dropped. The segments were
//! truncated before, and before that the journal got a record that the cut begins. A batch record starts each flush. A
//! seed record precedes the entries of a partition if no segment of it durably has the seed of the hash of its keys.

use crate::PartitionId;
use crate::limits::{JOURNAL_INLINE_BYTES_MAX, KEY_BYTES_MAX, PAYLOAD_BYTES_MAX};
use crate::log::entry::{EntryKind, EntryMeta, crc, u32_at, u64_at};

/// Bytes of a journal file's header.
pub const HEADER_BYTES: usize = 32;
/// Bytes of a record before key and payload.
pub const RECORD_BYTES: usize = 48;
const MAGIC: &[u8; 8] = b"zerohjnl";
/// The version that is written.
const VERSION: u32 = 4;
/// The oldest version that is read: it has no [`FLAG_JOINED`](crate::FLAG_JOINED) and no [`JournalRecord::TruncateStarted`], and
/// up to 2 there was no [`FLAG_CHUNK`](crate::FLAG_CHUNK), up to 3 no [`JournalRecord::Seed`].
const VERSION_MIN: u32 = 1;

/// The header of a journal file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalHeader {
    /// Xored into the records' checksums.
    pub salt: u32,
    /// Files are numbered upwards.
    pub number: u64,
}

impl JournalHeader {
    /// The header of the file of that number.
    pub fn new(number: u64) -> JournalHeader {
        JournalHeader { salt: xxhash_rust::xxh3::xxh3_64(&number.to_le_bytes()) as u32, number }
    }

    /// The header as bytes.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut out = [0; HEADER_BYTES];
        out[0..8].copy_from_slice(MAGIC);
        out[8..12].copy_from_slice(&VERSION.to_le_bytes());
        out[12..16].copy_from_slice(&self.salt.to_le_bytes());
        out[16..24].copy_from_slice(&self.number.to_le_bytes());
        let sum = crc(&out[..HEADER_BYTES - 4]);
        out[HEADER_BYTES - 4..].copy_from_slice(&sum.to_le_bytes());
        out
    }

    /// Reads a header.
    ///
    /// # Errors
    /// In words, what is wrong with it.
    pub fn decode(bytes: &[u8]) -> Result<JournalHeader, String> {
        let Some(bytes) = bytes.first_chunk::<HEADER_BYTES>() else {
            return Err(format!("{} bytes are too few for a journal header", bytes.len()));
        };
        if &bytes[0..8] != MAGIC {
            return Err("not a journal file".into());
        }
        if crc(&bytes[..HEADER_BYTES - 4]) != u32_at(bytes, HEADER_BYTES - 4) {
            return Err("the journal header is damaged".into());
        }
        let version = u32_at(bytes, 8);
        if !(VERSION_MIN..=VERSION).contains(&version) {
            return Err(format!(
                "journal format {version} is not known here (known: up to {VERSION}); use a newer zerohop"
            ));
        }
        Ok(JournalHeader { salt: u32_at(bytes, 12), number: u64_at(bytes, 16) })
    }
}

/// A record, with key and payload borrowed in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JournalRecord<'a> {
    /// A complete entry.
    Entry {
        /// The partition.
        partition: PartitionId,
        /// Its fields.
        meta: EntryMeta,
        /// Its key.
        key: &'a [u8],
        /// Its payload.
        payload: &'a [u8],
    },
    /// An entry that is in its segment.
    Reference {
        /// The partition.
        partition: PartitionId,
        /// Its fields.
        meta: EntryMeta,
        /// Its key.
        key: &'a [u8],
        /// Bytes of its payload.
        payload_bytes: u32,
    },
    /// The log was truncated.
    Truncated {
        /// The partition.
        partition: PartitionId,
        /// The last index that stayed.
        index: u64,
    },
    /// The log is about to be truncated: entries behind the index may be missing in the segments.
    TruncateStarted {
        /// The partition.
        partition: PartitionId,
        /// The last index that is to stay.
        index: u64,
    },
    /// The seed of the hash of a partition's keys, in case nothing but its entries in the journal is left of it.
    Seed {
        /// The partition.
        partition: PartitionId,
        /// The seed.
        seed: u64,
    },
    /// A flush starts.
    Batch {
        /// Bytes of this file that survive a crash by now.
        synced_bytes: u64,
    },
}

/// Appends a record to `out`.
pub fn encode(salt: u32, record: &JournalRecord<'_>, out: &mut Vec<u8>) {
    let none = EntryMeta { kind: EntryKind::Mark, flags: 0, epoch: 0, index: 0, timestamp: 0 };
    let (kind, partition, meta, key, payload, payload_bytes): (u8, _, _, &[u8], &[u8], u32) = match *record {
        JournalRecord::Entry { partition, meta, key, payload } => {
            (1, partition, meta, key, payload, payload.len() as u32)
        }
        JournalRecord::Reference { partition, meta, key, payload_bytes } => {
            (2, partition, meta, key, &[], payload_bytes)
        }
        JournalRecord::Truncated { partition, index } => {
            (3, partition, EntryMeta { index, ..none }, &[], &[], 0)
        }
        JournalRecord::TruncateStarted { partition, index } => {
            (5, partition, EntryMeta { index, ..none }, &[], &[], 0)
        }
        JournalRecord::Seed { partition, seed } => {
            (6, partition, EntryMeta { index: seed, ..none }, &[], &[], 0)
        }
        JournalRecord::Batch { synced_bytes } => {
            (4, PartitionId(0), EntryMeta { index: synced_bytes, ..none }, &[], &[], 0)
        }
    };
    let at = out.len();
    let mut head = [0u8; RECORD_BYTES];
    head[4..8].copy_from_slice(&((key.len() + payload.len()) as u32).to_le_bytes());
    head[8..16].copy_from_slice(&partition.0.to_le_bytes());
    head[16..24].copy_from_slice(&meta.index.to_le_bytes());
    head[24..32].copy_from_slice(&meta.timestamp.to_le_bytes());
    head[32..36].copy_from_slice(&meta.epoch.to_le_bytes());
    head[36..40].copy_from_slice(&(key.len() as u32 | (meta.kind as u32) << 24).to_le_bytes());
    head[40] = meta.flags;
    head[41] = kind;
    head[44..48].copy_from_slice(&payload_bytes.to_le_bytes());
    out.extend_from_slice(&head);
    out.extend_from_slice(key);
    out.extend_from_slice(payload);
    let sum = crc(&out[at + 4..]) ^ salt;
    out[at..at + 4].copy_from_slice(&sum.to_le_bytes());
}

/// The record at the start of `bytes` and its length, if it is valid.
pub fn decode(salt: u32, bytes: &[u8]) -> Option<(JournalRecord<'_>, usize)> {
    let head = bytes.first_chunk::<RECORD_BYTES>()?;
    let key_and_kind = u32_at(head, 36);
    let key_bytes = (key_and_kind & 0xFF_FFFF) as usize;
    let payload_bytes = u32_at(head, 44);
    let body_bytes = u32_at(head, 4) as usize;
    let expected_body = match head[41] {
        1 if payload_bytes as usize > JOURNAL_INLINE_BYTES_MAX => return None,
        1 => key_bytes + payload_bytes as usize,
        2 => key_bytes,
        3..=6 => 0,
        _ => return None,
    };
    if key_bytes > KEY_BYTES_MAX || payload_bytes as usize > PAYLOAD_BYTES_MAX || body_bytes != expected_body
    {
        return None;
    }
    let whole = bytes.get(..RECORD_BYTES + body_bytes)?;
    if crc(&whole[4..]) ^ salt != u32_at(whole, 0) {
        return None;
    }
    let partition = PartitionId(u64_at(head, 8));
    let meta = EntryMeta {
        kind: EntryKind::from_u8((key_and_kind >> 24) as u8).filter(|k| !k.is_local())?,
        flags: head[40],
        epoch: u32_at(head, 32),
        index: u64_at(head, 16),
        timestamp: u64_at(head, 24),
    };
    let (key, payload) = whole[RECORD_BYTES..].split_at(key_bytes.min(body_bytes));
    let record = match head[41] {
        1 => JournalRecord::Entry { partition, meta, key, payload },
        2 => JournalRecord::Reference { partition, meta, key, payload_bytes },
        3 => JournalRecord::Truncated { partition, index: meta.index },
        5 => JournalRecord::TruncateStarted { partition, index: meta.index },
        6 => JournalRecord::Seed { partition, seed: meta.index },
        _ => JournalRecord::Batch { synced_bytes: meta.index },
    };
    Some((record, whole.len()))
}

/// An item in a journal file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JournalItem<'a> {
    /// A valid record.
    Record(JournalRecord<'a>),
    /// Bytes that are no record, from this offset up to the next valid record or the end.
    Bad {
        /// Their offset.
        offset: u64,
        /// Whether a valid record follows.
        more_follows: bool,
    },
}

/// The items of a journal file without its header: `bytes` start at offset [`HEADER_BYTES`]. Never panics.
pub fn items(salt: u32, bytes: &[u8]) -> impl Iterator<Item = JournalItem<'_>> {
    let (mut at, mut end) = (0, None);
    std::iter::from_fn(move || {
        if at >= bytes.len() {
            return None;
        }
        if let Some((record, length)) = decode(salt, &bytes[at..]) {
            at += length;
            return Some(JournalItem::Record(record));
        }
        let offset = (HEADER_BYTES + at) as u64;
        // Behind the last byte that is not zero there is only preallocated space: no record starts there.
        let end =
            *end.get_or_insert_with(|| bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1));
        let next = (at + 1..end).find(|&next| decode(salt, &bytes[next..]).is_some());
        at = next.unwrap_or(bytes.len());
        Some(JournalItem::Bad { offset, more_follows: next.is_some() })
    })
}
