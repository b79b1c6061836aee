//! How blobs are kept as records: their keys, and the bytes of a header.
//!
//! A blob is striped over chunks of one size, each a record of its own, and has a header, a bytes record that lies where
//! chunk 0 does. Their keys begin with four bytes that no other record's key should begin with:
//!
//! ```text
//! FF 'z' 'h' 'b' | name | number of the chunk (8, big-endian) | 0: a chunk, 1: the header, number 0
//! ```
//!
//! Partitions keep under 2 what was staged with them for transactions: the name is the session (16, big-endian), the number the
//! sequence. No request reaches that, and it lies wherever it was staged.
//!
//! A partition is found by the hash of all but the last byte ([`routed`]). A header is:
//!
//! | offset | bytes | field |
//! | ---: | ---: | --- |
//! | 0 | 1 | format, 1 |
//! | 1 | 1 | bytes of a chunk, as a power of two |
//! | 2 | 1 | 1: it is being filled behind its end; 2: a cut is under way of what was filled; else 0 |
//! | 3 | 5 | zero |
//! | 8 | 8 | id: the timestamp of its creation, so that one of the same name that comes later has a greater one |
//! | 16 | 8 | generation: how often it was cut |
//! | 24 | 8 | size in bytes |
//! | 32 | 8 | where bytes end that a cut has not reached yet, or that are being filled; 0 if neither is under way |
//! | 40 | | attributes, opaque |

use crate::error::{Failure, What};
use crate::ids::{Sequence, SessionId};
use crate::limits::{BLOB_CHUNKS_MAX, BLOB_NAME_BYTES_MAX, CHUNK_BITS_MAX, CHUNK_BITS_MIN};

/// What the keys of headers and chunks begin with.
pub const KEY_PREFIX: [u8; 4] = [0xFF, b'z', b'h', b'b'];
/// Bytes of a header before the attributes.
pub const HEADER_BYTES: usize = 40;

const NUMBER_BYTES: usize = 8;
const CHUNK: u8 = 0;
const HEADER: u8 = 1;
const STAGED: u8 = 2;
const FORMAT: u8 = 1;

/// Which blob of its name, and which state of its cuts: a write tells it, and is refused where a later one is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlobStamp {
    /// Timestamp of its creation.
    pub id: u64,
    /// How often it was cut.
    pub generation: u64,
}

impl BlobStamp {
    /// Instead of an id: of the blob that the same transaction makes. Only its commit tells the id, which is the transaction's
    /// version; no blob ever has this one.
    pub const OWN: u64 = u64::MAX;

    /// As the stamp of a chunk.
    #[must_use]
    pub fn encode(self) -> [u8; 16] {
        let mut out = [0; 16];
        out[..8].copy_from_slice(&self.id.to_le_bytes());
        out[8..].copy_from_slice(&self.generation.to_le_bytes());
        out
    }

    /// Reads the stamp of a chunk.
    #[must_use]
    pub fn decode(bytes: &[u8; 16]) -> Self {
        let (id, generation) = bytes.split_at(8);
        let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        Self { id: number(id), generation: number(generation) }
    }
}

/// Whether somebody writes chunks behind a blob's end, to make them a part of it all at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FillState {
    /// Nobody does.
    Not = 0,
    /// Somebody does. Whoever else is to write cuts that off first.
    UnderWay = 1,
    /// It is being cut off. Chunks that are not there yet are marked, so that nothing late makes them.
    CutOff = 2,
}

/// What a header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlobHeader<'a> {
    /// Bytes of a chunk, as a power of two.
    pub chunk_bits: u8,
    /// Which blob of its name, and how often it was cut.
    pub stamp: BlobStamp,
    /// Bytes.
    pub size: u64,
    /// Chunks behind the size may hold bytes from before a cut, or what is being filled, up to here; 0: neither is so.
    pub uncut: u64,
    /// Whether that is, or was, being filled.
    pub filling: FillState,
    /// Whatever its owner keeps with it.
    pub attributes: &'a [u8],
}

impl<'a> BlobHeader<'a> {
    /// Appends the header to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[FORMAT, self.chunk_bits, self.filling as u8, 0, 0, 0, 0, 0]);
        out.extend_from_slice(&self.stamp.encode());
        out.extend_from_slice(&self.size.to_le_bytes());
        out.extend_from_slice(&self.uncut.to_le_bytes());
        out.extend_from_slice(self.attributes);
    }

    /// Reads a header; `None` if the bytes are none, or of a format that this program does not know.
    #[must_use]
    pub fn decode(bytes: &'a [u8]) -> Option<Self> {
        let (fixed, attributes) = bytes.split_first_chunk::<HEADER_BYTES>()?;
        let [FORMAT, chunk_bits @ CHUNK_BITS_MIN..=CHUNK_BITS_MAX, filling, 0, 0, 0, 0, 0, ..] = *fixed
        else {
            return None;
        };
        let (mut stamp, mut size, mut uncut) = ([0; 16], [0; 8], [0; 8]);
        stamp.copy_from_slice(&fixed[8..24]);
        size.copy_from_slice(&fixed[24..32]);
        uncut.copy_from_slice(&fixed[32..]);
        let (size, uncut) = (u64::from_le_bytes(size), u64::from_le_bytes(uncut));
        let filling = match filling {
            0 => FillState::Not,
            1 => FillState::UnderWay,
            2 => FillState::CutOff,
            _ => return None,
        };
        Some(Self { chunk_bits, stamp: BlobStamp::decode(&stamp), size, uncut, filling, attributes })
    }
}

/// Most bytes of a blob with chunks of this power of two.
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

/// The key of one of its chunks.
///
/// # Errors
/// The name is empty or too long.
pub fn chunk_key(name: &[u8], number: u64) -> Result<Vec<u8>, Failure<'static>> {
    key(name, number, CHUNK)
}

/// The key under which a partition keeps a piece that was staged with it, of this session and under this number.
#[must_use]
pub fn staged_key(session: SessionId, sequence: Sequence) -> Vec<u8> {
    let name = [session.issued.0.to_be_bytes(), session.nonce.to_be_bytes()].concat();
    [&KEY_PREFIX[..], &name, &sequence.0.to_be_bytes(), &[STAGED]].concat()
}

/// Whether it is such a key.
#[must_use]
pub fn is_staged(key: &[u8]) -> bool {
    is_of_blob(key) && key.last() == Some(&STAGED)
}

fn key(name: &[u8], number: u64, what: u8) -> Result<Vec<u8>, Failure<'static>> {
    if name.is_empty() {
        return Err(What::Chunk.into());
    }
    if name.len() > BLOB_NAME_BYTES_MAX {
        let (length, limit) = (name.len() as u64, BLOB_NAME_BYTES_MAX as u32);
        return Err(Failure::KeyTooLong { length, limit });
    }
    Ok([&KEY_PREFIX[..], name, &number.to_be_bytes(), &[what]].concat())
}

/// The bytes of a key whose hash says where it lies: all of it, but for those of blobs, where header and chunk 0 lie
/// together.
#[inline]
#[must_use]
pub fn routed(key: &[u8]) -> &[u8] {
    if is_of_blob(key) { &key[..key.len() - 1] } else { key }
}

/// Whether it is the key of a header or a chunk.
#[inline]
#[must_use]
pub fn is_of_blob(key: &[u8]) -> bool {
    key.starts_with(&KEY_PREFIX) && key.len() > KEY_PREFIX.len() + NUMBER_BYTES + 1
}

/// The name of the blob whose header has this key; `None` if it is another record's.
#[must_use]
pub fn name_of_header(key: &[u8]) -> Option<&[u8]> {
    if !is_of_blob(key) {
        return None;
    }
    let rest = key[KEY_PREFIX.len()..].strip_suffix(&[HEADER])?;
    rest.strip_suffix(&[0; NUMBER_BYTES])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_come_back_and_other_bytes_are_none() {
        let stamp = BlobStamp { id: 7 << 40, generation: 3 };
        let header = BlobHeader {
            chunk_bits: 20,
            stamp,
            size: 5_000_000,
            uncut: 6_000_000,
            filling: FillState::CutOff,
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
    fn what_is_staged_is_neither_header_nor_chunk_and_hidden_as_they_are() {
        let session = SessionId { issued: crate::ids::Timestamp(1), nonce: 2 };
        let key = staged_key(session, Sequence(0));
        assert_eq!(key.len(), 29);
        assert!(is_staged(&key) && is_of_blob(&key) && name_of_header(&key).is_none());
        assert_ne!(key, staged_key(session, Sequence(1)));
        let others = [header_key(b"a"), chunk_key(b"a", 2), Ok(b"plain\x02".to_vec())];
        assert!(others.iter().all(|other| !is_staged(other.as_ref().expect("a name"))));
    }

    #[test]
    fn header_and_chunk_0_lie_together_and_other_chunks_elsewhere() {
        let (header, first) = (header_key(b"a").expect("a name"), chunk_key(b"a", 0).expect("a name"));
        assert_ne!(header, first);
        assert_eq!(routed(&header), routed(&first));
        assert_ne!(routed(&first), routed(&chunk_key(b"a", 1).expect("a name")));
        assert_eq!((name_of_header(&header), name_of_header(&first)), (Some(&b"a"[..]), None));
        assert_eq!(routed(b"plain"), b"plain");
        assert!(header_key(b"").is_err() && chunk_key(&[b'x'; BLOB_NAME_BYTES_MAX + 1], 0).is_err());
        // Neither a short key nor one of another record is taken for one.
        for other in [&KEY_PREFIX[..], b"\xFFzhb12345678\x01", b"plain"] {
            assert!(!is_of_blob(other) && name_of_header(other).is_none());
        }
    }
}
