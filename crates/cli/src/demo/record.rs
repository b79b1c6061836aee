//! The storage format of a file.
//!
//! The key is the file's path. The record is a header, followed by the contents if they are at most
//! 1 MiB; larger contents are the blob of that name:
//!
//! | offset | bytes | field |
//! | ---: | ---: | --- |
//! | 0 | 1 | version, 1 |
//! | 1 | 8 | length of the contents |
//! | 9 | 8 | xxh3 of the contents |
//! | 17 | 4 | 0: the contents follow; 1: they are a blob |
//! | 21 | | contents |
//!
//! All numbers are little-endian. The header is written after the whole blob: a header implies a
//! complete file.

const VERSION: u8 = 1;
const HEADER_BYTES: usize = 21;

/// The header in the record of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileHeader {
    pub(super) bytes: u64,
    pub(super) checksum: u64,
    /// Whether the contents are a blob.
    pub(super) is_blob: bool,
}

impl FileHeader {
    /// The record of a file; it includes the contents unless they are a blob.
    pub(super) fn encode(&self, contents: &[u8]) -> Vec<u8> {
        let mut record = Vec::with_capacity(HEADER_BYTES + contents.len());
        record.push(VERSION);
        record.extend_from_slice(&self.bytes.to_le_bytes());
        record.extend_from_slice(&self.checksum.to_le_bytes());
        record.extend_from_slice(&u32::from(self.is_blob).to_le_bytes());
        record.extend_from_slice(contents);
        record
    }

    /// Decodes the header, and the contents behind it.
    pub(super) fn decode(record: &[u8]) -> Option<(FileHeader, &[u8])> {
        let (version, rest) = record.split_first()?;
        let (bytes, rest) = rest.split_first_chunk::<8>()?;
        let (checksum, rest) = rest.split_first_chunk::<8>()?;
        let (place, contents) = rest.split_first_chunk::<4>()?;
        let is_blob = match u32::from_le_bytes(*place) {
            0 => false,
            1 if contents.is_empty() => true,
            _ => return None,
        };
        let header = FileHeader {
            bytes: u64::from_le_bytes(*bytes),
            checksum: u64::from_le_bytes(*checksum),
            is_blob,
        };
        (*version == VERSION).then_some((header, contents))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_record_round_trips() {
        let header = FileHeader { bytes: 5, checksum: 0x0123_4567_89ab_cdef, is_blob: false };
        assert_eq!(FileHeader::decode(&header.encode(b"hello")), Some((header, &b"hello"[..])));
        let header = FileHeader { bytes: 1 << 40, checksum: 1, is_blob: true };
        assert_eq!(FileHeader::decode(&header.encode(b"")), Some((header, &b""[..])));
    }

    #[test]
    fn invalid_file_record_is_refused() {
        let header = FileHeader { bytes: 0, checksum: 0, is_blob: true };
        let mut record = header.encode(b"");
        assert_eq!(FileHeader::decode(&record[..20]), None);
        record[0] = 2;
        assert_eq!(FileHeader::decode(&record), None);
        assert_eq!(FileHeader::decode(&header.encode(b"x")), None, "a blob and contents");
    }
}
