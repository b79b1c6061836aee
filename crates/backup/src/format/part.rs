//! A part: the contents of one partition of a keyspace, entry by entry.

use super::{FieldsReader, FormatError, VERSION, checksum, put_counted};

const MAGIC: [u8; 4] = *b"ZHBP";
/// Bytes of the header of a part.
pub const HEADER_BYTES: usize = 36;
/// Bytes before the body of an entry.
pub const FRAME_BYTES: usize = 8;
/// The longest body of an entry: the longest value with its key, and fields.
pub const BODY_BYTES_MAX: usize = (16 << 20) + (1 << 20);

/// log2 of the smallest size of a blob's chunks, in bytes.
const CHUNK_BITS_MIN: u8 = 12;
/// log2 of their largest size.
pub(crate) const CHUNK_BITS_MAX: u8 = 24;

const BYTES: u8 = 1;
const LIST: u8 = 2;
const VALUES: u8 = 3;
const BLOB: u8 = 4;
const CHUNK: u8 = 5;
const KEPT: u8 = 6;
const KEPT_CHUNK: u8 = 7;
const END: u8 = 8;

/// The header of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartHeader {
    /// Id of its backup.
    pub backup: [u8; 16],
    /// Index of the keyspace in the manifest.
    pub keyspace: u32,
    /// The partition of the keyspace.
    pub partition: u32,
}

/// An entry. Versions are timestamps of the cluster that was backed up; deadlines are in ms since
/// 1970, 0 for none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartEntry<'a> {
    /// A bytes record.
    Bytes {
        /// The version of the record.
        version: u64,
        /// Its deadline.
        deadline: u64,
        /// Its key.
        key: &'a [u8],
        /// Its value.
        value: &'a [u8],
    },
    /// A list: its values follow in separate entries.
    List {
        /// The version of the record.
        version: u64,
        /// Its deadline.
        deadline: u64,
        /// Number of values.
        length: u64,
        /// Its key.
        key: &'a [u8],
    },
    /// Values of the preceding list, in order.
    Values(Vec<&'a [u8]>),
    /// A blob: its chunks follow in separate entries.
    Blob {
        /// The version of its header.
        version: u64,
        /// Distinguishes it from other blobs of the same name.
        id: u64,
        /// Its size in bytes.
        size: u64,
        /// log2 of the chunk size in bytes.
        chunk_bits: u8,
        /// Its name.
        name: &'a [u8],
        /// The attributes that clients store with it.
        attributes: &'a [u8],
    },
    /// A chunk of the preceding blob.
    Chunk {
        /// Its number, from zero.
        number: u64,
        /// Its version.
        version: u64,
        /// Its bytes, without zeros at the end.
        bytes: &'a [u8],
    },
    /// A record that is unchanged since the base.
    Kept {
        /// Its version.
        version: u64,
        /// Its deadline.
        deadline: u64,
        /// Number of bytes, or of values of a list.
        length: u64,
        /// Its key.
        key: &'a [u8],
    },
    /// A chunk of the preceding blob that is unchanged since the base.
    KeptChunk {
        /// Its number, from zero.
        number: u64,
        /// Its version.
        version: u64,
    },
    /// The end of the part.
    End {
        /// Number of entries before this one.
        entries: u64,
    },
}

impl PartHeader {
    /// Encodes it.
    #[must_use]
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut out = [0; HEADER_BYTES];
        out[..4].copy_from_slice(&MAGIC);
        out[4..8].copy_from_slice(&VERSION.to_le_bytes());
        out[8..24].copy_from_slice(&self.backup);
        out[24..28].copy_from_slice(&self.keyspace.to_le_bytes());
        out[28..32].copy_from_slice(&self.partition.to_le_bytes());
        let sum = checksum(&out[..32]);
        out[32..].copy_from_slice(&sum.to_le_bytes());
        out
    }

    /// Decodes it.
    ///
    /// # Errors
    /// It is not a header, has another version, or is corrupt.
    pub fn decode(bytes: &[u8]) -> Result<PartHeader, FormatError> {
        let mut from = FieldsReader::new(bytes);
        if from.array::<4>()? != MAGIC {
            return Err(FormatError("it is no part of a backup"));
        }
        if from.u32()? != VERSION {
            return Err(FormatError("it is of a version that this program does not know"));
        }
        let header = PartHeader { backup: from.array()?, keyspace: from.u32()?, partition: from.u32()? };
        let sum = from.u32()?;
        from.end()?;
        if sum != checksum(&bytes[..HEADER_BYTES - 4]) {
            return Err(FormatError("its header does not match its checksum"));
        }
        Ok(header)
    }
}

impl<'a> PartEntry<'a> {
    /// Appends the entry with its frame: length and checksum of the body, then the body.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let begin = out.len();
        out.extend_from_slice(&[0; FRAME_BYTES]);
        self.encode_body(out);
        let body = &out[begin + FRAME_BYTES..];
        let (length, sum) = (body.len() as u32, checksum(body));
        out[begin..begin + 4].copy_from_slice(&length.to_le_bytes());
        out[begin + 4..begin + 8].copy_from_slice(&sum.to_le_bytes());
    }

    fn encode_body(&self, out: &mut Vec<u8>) {
        let mut put = |kind: u8, fields: &[u64]| {
            out.push(kind);
            fields.iter().for_each(|field| out.extend_from_slice(&field.to_le_bytes()));
        };
        match self {
            PartEntry::Bytes { version, deadline, key, value } => {
                put(BYTES, &[*version, *deadline]);
                put_counted(key, out);
                out.extend_from_slice(value);
            }
            PartEntry::List { version, deadline, length, key } => {
                put(LIST, &[*version, *deadline, *length]);
                out.extend_from_slice(key);
            }
            PartEntry::Values(values) => {
                put(VALUES, &[]);
                values.iter().for_each(|value| put_counted(value, out));
            }
            PartEntry::Blob { version, id, size, chunk_bits, name, attributes } => {
                put(BLOB, &[*version, *id, *size]);
                out.push(*chunk_bits);
                put_counted(name, out);
                out.extend_from_slice(attributes);
            }
            PartEntry::Chunk { number, version, bytes } => {
                put(CHUNK, &[*number, *version]);
                out.extend_from_slice(bytes);
            }
            PartEntry::Kept { version, deadline, length, key } => {
                put(KEPT, &[*version, *deadline, *length]);
                out.extend_from_slice(key);
            }
            PartEntry::KeptChunk { number, version } => put(KEPT_CHUNK, &[*number, *version]),
            PartEntry::End { entries } => put(END, &[*entries]),
        }
    }

    /// Length and checksum of a body, from the frame before it.
    ///
    /// # Errors
    /// The length is too large.
    pub fn frame(frame: [u8; FRAME_BYTES]) -> Result<(usize, u32), FormatError> {
        let mut from = FieldsReader::new(&frame);
        let (length, sum) = (from.u32()? as usize, from.u32()?);
        if length > BODY_BYTES_MAX {
            return Err(FormatError("an entry is longer than any may be"));
        }
        Ok((length, sum))
    }

    /// Decodes a body, which must have this checksum.
    ///
    /// # Errors
    /// It has another checksum, or this version does not know its contents.
    pub fn decode(body: &'a [u8], sum: u32) -> Result<PartEntry<'a>, FormatError> {
        if checksum(body) != sum {
            return Err(FormatError("an entry does not match its checksum"));
        }
        let mut from = FieldsReader::new(body);
        let entry = match from.u8()? {
            BYTES => {
                let (version, deadline) = (from.u64()?, from.u64()?);
                PartEntry::Bytes { version, deadline, key: from.counted()?, value: from.rest() }
            }
            LIST => {
                let (version, deadline, length) = (from.u64()?, from.u64()?, from.u64()?);
                PartEntry::List { version, deadline, length, key: from.rest() }
            }
            VALUES => {
                let mut values = Vec::new();
                while !from.0.is_at_end() {
                    values.push(from.counted()?);
                }
                PartEntry::Values(values)
            }
            BLOB => {
                let (version, id, size) = (from.u64()?, from.u64()?, from.u64()?);
                let chunk_bits = from.u8()?;
                if !(CHUNK_BITS_MIN..=CHUNK_BITS_MAX).contains(&chunk_bits) {
                    return Err(FormatError("a blob has chunks of a size that there is not"));
                }
                let name = from.counted()?;
                PartEntry::Blob { version, id, size, chunk_bits, name, attributes: from.rest() }
            }
            CHUNK => PartEntry::Chunk { number: from.u64()?, version: from.u64()?, bytes: from.rest() },
            KEPT => {
                let (version, deadline, length) = (from.u64()?, from.u64()?, from.u64()?);
                PartEntry::Kept { version, deadline, length, key: from.rest() }
            }
            KEPT_CHUNK => PartEntry::KeptChunk { number: from.u64()?, version: from.u64()? },
            END => PartEntry::End { entries: from.u64()? },
            _ => return Err(FormatError("an entry is of a kind that this program does not know")),
        };
        from.end()?;
        Ok(entry)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(bytes: &[u8]) -> Result<PartEntry<'_>, FormatError> {
        let (frame, body) = bytes.split_first_chunk().ok_or(FormatError("cut"))?;
        let (length, sum) = PartEntry::frame(*frame)?;
        if length != body.len() {
            return Err(FormatError("cut"));
        }
        PartEntry::decode(body, sum)
    }

    proptest! {
        #[test]
        fn entries_round_trip_and_truncated_or_corrupt_ones_are_refused(
            (kind, n, bits) in (0..8u8, any::<[u64; 4]>(), 12..25u8),
            (key, value) in (prop::collection::vec(any::<u8>(), 0..40), prop::collection::vec(any::<u8>(), 0..40)),
            (place, bit) in (any::<prop::sample::Index>(), 0..8u8),
        ) {
            let [version, deadline, length, number] = n;
            let entry = match kind {
                0 => PartEntry::Bytes { version, deadline, key: &key, value: &value },
                1 => PartEntry::List { version, deadline, length, key: &key },
                2 => PartEntry::Values(vec![&key, &value, b""]),
                3 => PartEntry::Blob { version, id: number, size: length, chunk_bits: bits, name: &key, attributes: &value },
                4 => PartEntry::Chunk { number, version, bytes: &value },
                5 => PartEntry::Kept { version, deadline, length, key: &key },
                6 => PartEntry::KeptChunk { number, version },
                _ => PartEntry::End { entries: number },
            };
            let mut bytes = Vec::new();
            entry.encode(&mut bytes);
            prop_assert_eq!(read(&bytes), Ok(entry));
            let at = place.index(bytes.len());
            prop_assert!(read(&bytes[..at]).is_err());
            bytes[at] ^= 1 << bit;
            prop_assert!(read(&bytes).is_err());
        }
    }

    #[test]
    fn header_round_trips_and_corrupt_one_is_refused() {
        let header = PartHeader { backup: [7; 16], keyspace: 3, partition: 9 };
        let bytes = header.encode();
        assert_eq!(PartHeader::decode(&bytes), Ok(header));
        for at in 0..bytes.len() {
            let mut damaged = bytes;
            damaged[at] ^= 1;
            assert!(PartHeader::decode(&damaged).is_err());
            assert!(PartHeader::decode(&bytes[..at]).is_err());
        }
    }
}
