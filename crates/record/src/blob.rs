//! Storage of blobs as records: their keys, and the bytes of a header.
//!
//! A blob is striped over chunks of one size, each of which is a record. Its header is a bytes record in the same partition as chunk 0. Their keys
//! begin with four bytes that the keys of other records should not begin with:
//! ```text
//! FF 'z' 'h' 'b' | name | number of the chunk (8, big-endian) | 0: a chunk, 1: the header, number 0
//! ```
//!
//! Partitions store staged data of transactions under the last byte 2: the name is the session (16, big-endian), the number is the sequence number.
//! No request can name such a key, and the record stays in the partition where it was staged.
//!
//! The hash of all but the last byte determines the partition ([`routed`]). A header is:
//!
//! | offset | bytes | field |
//! | ---: | ---: | --- |
//! | 0 | 1 | format, 1 |
//! | 1 | 1 | bytes of a chunk, as a power of two |
//! | 2 | 1 | 1: a staged extension is in progress; 2: a truncation of one is in progress; else 0 |
//! | 3 | 5 | zero |
//! | 8 | 8 | id: the timestamp of its creation, so that one of the same name that comes later has a greater one |
//! | 16 | 8 | generation: the number of truncations and staged extensions |
//! | 24 | 8 | size in bytes |
//! | 32 | 8 | end of the bytes that a truncation has not reached yet, or that a staged extension may write; else 0 |
//! | 40 | | attributes, opaque |

pub use crate::blob_stamp::BlobStamp;
use crate::error::Failure;
use crate::ids::{Sequence, SessionId};
use crate::limits::{
    BLOB_CHUNKS_MAX, BLOB_NAME_BYTES_MAX, CHUNK_BITS_MAX, CHUNK_BITS_MIN, CHUNKS_LISTED_FROM,
};

/// Prefix of the keys of headers and chunks.
pub const KEY_PREFIX: [u8; 4] = [0xFF, b'z', b'h', b'b'];
/// Length of a header before the attributes, in bytes.
pub const HEADER_BYTES: usize = 40;

const NUMBER_BYTES: usize = 8;
const CHUNK: u8 = 0;
const HEADER: u8 = 1;
const STAGED: u8 = 2;
const FORMAT: u8 = 1;

/// The state of a staged extension: a client writes chunks behind a blob's end, which become a part of the blob all at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StagedExtensionState {
    /// No staged extension.
    Not = 0,
    /// A staged extension is in progress. Another writer must truncate it first.
    UnderWay = 1,
    /// A staged extension is being truncated. Absent chunks are marked, so that a late write cannot create them.
    CutOff = 2,
}

/// The contents of a blob header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlobHeader<'a> {
    /// Chunk size in bytes, as a power of two.
    pub chunk_bits: u8,
    /// The blob's id, and how often it was truncated.
    pub stamp: BlobStamp,
    /// Size in bytes.
    pub size: u64,
    /// Up to here, chunks behind the size may have bytes from before a truncation, or of a staged extension; 0: neither.
    pub pending_truncation_end: u64,
    /// Whether those are bytes of a staged extension.
    pub staged_extension: StagedExtensionState,
    /// Bytes that the owner stores with the blob.
    pub attributes: &'a [u8],
}

impl<'a> BlobHeader<'a> {
    /// Appends the header to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[FORMAT, self.chunk_bits, self.staged_extension as u8, 0, 0, 0, 0, 0]);
        out.extend_from_slice(&self.stamp.encode());
        out.extend_from_slice(&self.size.to_le_bytes());
        out.extend_from_slice(&self.pending_truncation_end.to_le_bytes());
        out.extend_from_slice(self.attributes);
    }

    /// Decodes a header; `None` if the bytes are invalid, or in a format that this program does not know.
    #[must_use]
    pub fn decode(bytes: &'a [u8]) -> Option<Self> {
        let (fixed, attributes) = bytes.split_first_chunk::<HEADER_BYTES>()?;
        let [FORMAT, chunk_bits @ CHUNK_BITS_MIN..=CHUNK_BITS_MAX, staged_extension, 0, 0, 0, 0, 0, ..] =
            *fixed
        else {
            return None;
        };
        let (mut stamp, mut size, mut truncation_end) = ([0; 16], [0; 8], [0; 8]);
        stamp.copy_from_slice(&fixed[8..24]);
        size.copy_from_slice(&fixed[24..32]);
        truncation_end.copy_from_slice(&fixed[32..]);
        let (size, truncation_end) = (u64::from_le_bytes(size), u64::from_le_bytes(truncation_end));
        let staged_extension = match staged_extension {
            0 => StagedExtensionState::Not,
            1 => StagedExtensionState::UnderWay,
            2 => StagedExtensionState::CutOff,
            _ => return None,
        };
        Some(Self {
            chunk_bits,
            stamp: BlobStamp::decode(&stamp),
            size,
            pending_truncation_end: truncation_end,
            staged_extension,
            attributes,
        })
    }
}

/// Maximum size in bytes of a blob with chunks of this power of two.
#[must_use]
pub fn bytes_max(chunk_bits: u8) -> u64 {
    BLOB_CHUNKS_MAX << chunk_bits.min(CHUNK_BITS_MAX)
}

/// The key of a blob's header.
///
/// # Errors
/// The name is empty or too long.
pub fn header_key(name: &[u8]) -> Result<Vec<u8>, Failure<'static>> {
    key(name, 0, HEADER)
}

/// The key of a blob's chunk.
///
/// # Errors
/// The name is empty or too long.
pub fn chunk_key(name: &[u8], number: u64) -> Result<Vec<u8>, Failure<'static>> {
    key(name, number, CHUNK)
}

/// The key of a staged piece in its partition, for this session and sequence number.
#[must_use]
pub fn staged_key(session: SessionId, sequence: Sequence) -> Vec<u8> {
    let name = [session.issued.0.to_be_bytes(), session.nonce.to_be_bytes()].concat();
    [&KEY_PREFIX[..], &name, &sequence.0.to_be_bytes(), &[STAGED]].concat()
}

/// Whether this is the key of a staged piece.
#[must_use]
pub fn is_staged(key: &[u8]) -> bool {
    is_of_blob(key) && key.last() == Some(&STAGED)
}

fn key(name: &[u8], number: u64, what: u8) -> Result<Vec<u8>, Failure<'static>> {
    if name.is_empty() || name.len() > BLOB_NAME_BYTES_MAX {
        let (length, limit) = (name.len() as u64, BLOB_NAME_BYTES_MAX as u32);
        return Err(Failure::KeyTooLong { length, limit });
    }
    Ok([&KEY_PREFIX[..], name, &number.to_be_bytes(), &[what]].concat())
}

/// The bytes of a key whose hash determines the partition: all of it, except for blobs, whose header and chunk 0 are in the same partition.
#[inline]
#[must_use]
pub fn routed(key: &[u8]) -> &[u8] {
    if is_of_blob(key) { &key[..key.len() - 1] } else { key }
}

/// Whether this is the key of a header or a chunk.
#[inline]
#[must_use]
pub fn is_of_blob(key: &[u8]) -> bool {
    key.starts_with(&KEY_PREFIX) && key.len() > KEY_PREFIX.len() + NUMBER_BYTES + 1
}

/// The name of the blob if this is the key of its header; otherwise `None`.
#[must_use]
pub fn name_of_header(key: &[u8]) -> Option<&[u8]> {
    if !is_of_blob(key) {
        return None;
    }
    let rest = key[KEY_PREFIX.len()..].strip_suffix(&[HEADER])?;
    rest.strip_suffix(&[0; NUMBER_BYTES])
}

/// The name and the number if this is the key of a chunk that tables of chunks list: one at or above [`CHUNKS_LISTED_FROM`]; otherwise `None`.
#[must_use]
pub fn listed_chunk(key: &[u8]) -> Option<(&[u8], u64)> {
    if !is_of_blob(key) {
        return None;
    }
    let (name, number) =
        key[KEY_PREFIX.len()..].strip_suffix(&[CHUNK])?.split_last_chunk::<NUMBER_BYTES>()?;
    let number = u64::from_be_bytes(*number);
    (number >= CHUNKS_LISTED_FROM).then_some((name, number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listed_chunks_are_those_of_high_numbers() {
        let of = |number| chunk_key(b"a", number).expect("a name");
        assert_eq!(listed_chunk(&of(CHUNKS_LISTED_FROM)), Some((&b"a"[..], CHUNKS_LISTED_FROM)));
        assert_eq!(listed_chunk(&of(u64::MAX)), Some((&b"a"[..], u64::MAX)));
        assert_eq!(listed_chunk(&of(CHUNKS_LISTED_FROM - 1)), None);
        let staged = staged_key(SessionId::default(), Sequence(CHUNKS_LISTED_FROM));
        for other in [&header_key(b"a").expect("a name")[..], &staged, b"plain", b""] {
            assert_eq!(listed_chunk(other), None);
        }
    }

    #[test]
    fn blob_headers_roundtrip_and_other_bytes_are_refused() {
        let stamp = BlobStamp { id: 7 << 40, generation: 3 };
        let header = BlobHeader {
            chunk_bits: 20,
            stamp,
            size: 5_000_000,
            pending_truncation_end: 6_000_000,
            staged_extension: StagedExtensionState::CutOff,
            attributes: b"colour=blue",
        };
        let mut bytes = Vec::new();
        header.encode(&mut bytes);
        assert_eq!(BlobHeader::decode(&bytes), Some(header));
        assert_eq!(BlobHeader::decode(&bytes[..39]), None);
        for at in [0, 1, 2, 7] {
            let mut other = bytes.clone();
            other[at] = 99;
            assert_eq!(BlobHeader::decode(&other), None);
        }
    }

    #[test]
    fn staged_keys_are_hidden_and_neither_header_nor_chunk() {
        let session = SessionId { issued: crate::ids::Timestamp(1), nonce: 2 };
        let key = staged_key(session, Sequence(0));
        assert_eq!(key.len(), 29);
        assert!(is_staged(&key) && is_of_blob(&key) && name_of_header(&key).is_none());
        assert_ne!(key, staged_key(session, Sequence(1)));
        let others = [header_key(b"a"), chunk_key(b"a", 2), Ok(b"plain\x02".to_vec())];
        assert!(others.iter().all(|other| !is_staged(other.as_ref().expect("a name"))));
    }

    #[test]
    fn header_and_chunk_0_share_a_route_and_other_chunks_differ() {
        let (header, first) = (header_key(b"a").expect("a name"), chunk_key(b"a", 0).expect("a name"));
        assert_ne!(header, first);
        assert_eq!(routed(&header), routed(&first));
        assert_ne!(routed(&first), routed(&chunk_key(b"a", 1).expect("a name")));
        assert_eq!((name_of_header(&header), name_of_header(&first)), (Some(&b"a"[..]), None));
        assert_eq!(routed(b"plain"), b"plain");
        assert!(header_key(b"").is_err() && chunk_key(&[b'x'; BLOB_NAME_BYTES_MAX + 1], 0).is_err());
        // A short key, or the key of another record, is not mistaken for one.
        for other in [&KEY_PREFIX[..], b"\xFFzhb12345678\x01", b"plain"] {
            assert!(!is_of_blob(other) && name_of_header(other).is_none());
        }
    }
}
