//! The position of a reader that watches a keyspace, as bytes that a program keeps.
//!
//! | bytes | field |
//! | ---: | --- |
//! | 4 | `ZHWC` |
//! | 1 | version: 1 |
//! | 4 | keyspace id |
//! | 4 | number of parts |
//! | 32 each | partition (4), number of partitions of the keyspace when the part was made (4), log index (8), newest timestamp (8), timestamp through which all was returned (8) |
//! | 4 | CRC-32C of all bytes before it |
//!
//! All numbers are little-endian. A part names its partition by the number of partitions too, so that it keeps its meaning after a split.

use std::fmt;

use zerohop_base::bytes::Reader;
use zerohop_placement::PartitionCount;
use zerohop_wire::checksum::crc32c;
use zerohop_wire::ids::{KeyspaceId, PartitionId, Timestamp};

use crate::HashRange;

const MAGIC: [u8; 4] = *b"ZHWC";
const VERSION: u8 = 1;
const HEAD_BYTES: usize = 13;
const PART_BYTES: usize = 32;

/// The position of a reader of the changes of a keyspace, in each partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchCursor {
    pub(super) keyspace: KeyspaceId,
    pub(super) parts: Vec<CursorPart>,
}

/// The position in one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CursorPart {
    pub(super) hash_range: HashRange,
    /// All changes up to this log index were returned.
    pub(super) after: u64,
    /// None of the changes up to this log index has a higher timestamp.
    pub(super) newest: Timestamp,
    /// All changes up to this timestamp were returned.
    pub(super) through: Timestamp,
}

/// Why bytes are no cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CursorError {
    /// They are something else, or damaged.
    Damaged,
    /// A newer program has written them.
    Version {
        /// The version.
        found: u8,
    },
}

impl fmt::Display for CursorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CursorError::Damaged => {
                f.write_str("the cursor is damaged, or no cursor of a watch: begin again without it")
            }
            CursorError::Version { found } => {
                write!(
                    f,
                    "the cursor has version {found}, which this program does not know: use a newer zerohop"
                )
            }
        }
    }
}

impl std::error::Error for CursorError {}

impl WatchCursor {
    /// The keyspace of which it is a position.
    #[must_use]
    pub fn keyspace(&self) -> KeyspaceId {
        self.keyspace
    }

    /// Its bytes, for [`WatchCursor::from_bytes`].
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEAD_BYTES + PART_BYTES * self.parts.len() + 4);
        out.extend_from_slice(&MAGIC);
        out.push(VERSION);
        out.extend_from_slice(&self.keyspace.0.to_le_bytes());
        out.extend_from_slice(&(self.parts.len() as u32).to_le_bytes());
        for CursorPart { hash_range: (partition, count), after, newest, through } in &self.parts {
            out.extend_from_slice(&partition.0.to_le_bytes());
            out.extend_from_slice(&count.get().to_le_bytes());
            out.extend_from_slice(&after.to_le_bytes());
            out.extend_from_slice(&newest.0.to_le_bytes());
            out.extend_from_slice(&through.0.to_le_bytes());
        }
        let sum = crc32c(&out);
        out.extend_from_slice(&sum.to_le_bytes());
        out
    }

    /// The cursor of these bytes.
    ///
    /// # Errors
    /// See [`CursorError`].
    pub fn from_bytes(bytes: &[u8]) -> Result<WatchCursor, CursorError> {
        let (contents, sum) = bytes.split_last_chunk::<4>().ok_or(CursorError::Damaged)?;
        if !contents.starts_with(&MAGIC) || crc32c(contents) != u32::from_le_bytes(*sum) {
            return Err(CursorError::Damaged);
        }
        let mut from = Reader::new(&contents[MAGIC.len()..]);
        match from.u8() {
            Some(VERSION) => {}
            Some(found) => return Err(CursorError::Version { found }),
            None => return Err(CursorError::Damaged),
        }
        let read = |from: &mut Reader<'_>| {
            let (keyspace, count) = (KeyspaceId(from.u32()?), from.u32()? as usize);
            let mut parts = Vec::new();
            for _ in 0..count {
                let (partition, count) =
                    (PartitionId(from.u32()?), PartitionCount::of_division(from.u32()?)?);
                let (after, newest) = (from.u64()?, Timestamp(from.u64()?));
                let through = Timestamp(from.u64()?);
                parts.push(CursorPart { hash_range: (partition, count), after, newest, through });
            }
            // A keyspace has a partition: without one, a watch would wait for nothing.
            (from.is_at_end() && !parts.is_empty()).then_some(WatchCursor { keyspace, parts })
        };
        read(&mut from).ok_or(CursorError::Damaged)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cursor() -> WatchCursor {
        let part = |partition, after| CursorPart {
            hash_range: (PartitionId(partition), PartitionCount::new(4).unwrap()),
            after,
            newest: Timestamp(8),
            through: Timestamp(7),
        };
        WatchCursor { keyspace: KeyspaceId(3), parts: vec![part(0, 17), part(3, u64::MAX)] }
    }

    #[test]
    fn bytes_are_as_documented() {
        let bytes = cursor().to_bytes();
        let expected = [
            &b"ZHWC\x01\x03\0\0\0\x02\0\0\0"[..],
            b"\0\0\0\0\x04\0\0\0\x11\0\0\0\0\0\0\0\x08\0\0\0\0\0\0\0\x07\0\0\0\0\0\0\0",
            b"\x03\0\0\0\x04\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff\x08\0\0\0\0\0\0\0\x07\0\0\0\0\0\0\0",
        ]
        .concat();
        assert_eq!(bytes[..bytes.len() - 4], expected);
        assert_eq!(WatchCursor::from_bytes(&bytes), Ok(cursor()));
    }

    #[test]
    fn other_bytes_are_refused() {
        let bytes = cursor().to_bytes();
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert_eq!(WatchCursor::from_bytes(&damaged), Err(CursorError::Damaged), "{at}");
            assert_eq!(WatchCursor::from_bytes(&bytes[..at]), Err(CursorError::Damaged), "{at}");
        }
        let empty = WatchCursor { parts: Vec::new(), ..cursor() };
        assert_eq!(WatchCursor::from_bytes(&empty.to_bytes()), Err(CursorError::Damaged));
        let mut newer = bytes[..bytes.len() - 4].to_vec();
        newer[4] = 2;
        newer.extend_from_slice(&crc32c(&newer).to_le_bytes());
        assert_eq!(WatchCursor::from_bytes(&newer), Err(CursorError::Version { found: 2 }));
    }
}
