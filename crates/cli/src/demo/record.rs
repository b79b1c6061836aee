//! How a file lies in the store.
//!
//! Under the file's path, a header; in a file of at most one part its contents follow:
//!
//! | offset | bytes | field |
//! | ---: | ---: | --- |
//! | 0 | 1 | version, 1 |
//! | 1 | 8 | length of the contents |
//! | 9 | 8 | xxh3 of the contents |
//! | 17 | 4 | number of parts; 0: the contents follow |
//! | 21 | | contents |
//!
//! All little-endian. Part `n` lies under the path, a zero byte and `n` as four bytes, big-endian. No path contains a
//! zero byte, so no two files meet. The header is written when all parts are durable: where there is a header, the
//! file is whole.

const VERSION: u8 = 1;
const HEADER_BYTES: usize = 21;

/// What stands under a file's path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) bytes: u64,
    pub(super) checksum: u64,
    pub(super) parts: u32,
}

impl Header {
    /// The record of a file, with the contents if they are in no parts.
    pub(super) fn encode(&self, contents: &[u8]) -> Vec<u8> {
        let mut record = Vec::with_capacity(HEADER_BYTES + contents.len());
        record.push(VERSION);
        record.extend_from_slice(&self.bytes.to_le_bytes());
        record.extend_from_slice(&self.checksum.to_le_bytes());
        record.extend_from_slice(&self.parts.to_le_bytes());
        record.extend_from_slice(contents);
        record
    }

    /// The header and the contents behind it.
    pub(super) fn decode(record: &[u8]) -> Option<(Header, &[u8])> {
        let (version, rest) = record.split_first()?;
        let (bytes, rest) = rest.split_first_chunk::<8>()?;
        let (checksum, rest) = rest.split_first_chunk::<8>()?;
        let (parts, contents) = rest.split_first_chunk::<4>()?;
        let header = Header {
            bytes: u64::from_le_bytes(*bytes),
            checksum: u64::from_le_bytes(*checksum),
            parts: u32::from_le_bytes(*parts),
        };
        let is_good = *version == VERSION && (header.parts == 0 || contents.is_empty());
        is_good.then_some((header, contents))
    }
}

/// The key of a part of a file.
pub(super) fn part_key(path: &[u8], number: u32) -> Vec<u8> {
    let mut key = Vec::with_capacity(path.len() + 5);
    key.extend_from_slice(path);
    key.push(0);
    key.extend_from_slice(&number.to_be_bytes());
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_comes_back_as_it_was() {
        let header = Header { bytes: 5, checksum: 0x0123_4567_89ab_cdef, parts: 0 };
        assert_eq!(Header::decode(&header.encode(b"hello")), Some((header, &b"hello"[..])));
        let header = Header { bytes: 1 << 40, checksum: 1, parts: 1 << 20 };
        assert_eq!(Header::decode(&header.encode(b"")), Some((header, &b""[..])));
    }

    #[test]
    fn what_is_no_record_is_refused() {
        let header = Header { bytes: 0, checksum: 0, parts: 1 };
        let mut record = header.encode(b"");
        assert_eq!(Header::decode(&record[..20]), None);
        record[0] = 2;
        assert_eq!(Header::decode(&record), None);
        assert_eq!(Header::decode(&header.encode(b"x")), None, "parts and contents");
    }

    #[test]
    fn parts_of_two_files_never_share_a_key() {
        assert_ne!(part_key(b"a", 1), part_key(b"a", 256));
        assert_eq!(part_key(b"a", 1), [b'a', 0, 0, 0, 0, 1]);
    }
}
