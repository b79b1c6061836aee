//! The record of an object.

use zerohop_base::bytes::Reader;

use super::links::VersionLinks;
use super::{
    FORMAT, Record, read_bytes, read_flag, read_list, read_option, read_text, write_bytes, write_list,
    write_option,
};
use crate::ids::SetId;

/// The format of an object with links.
pub(super) const LINKED_OBJECT: u8 = 2;

/// Names and values.
pub type Pairs = Vec<(String, String)>;

/// The entity tag of an object or a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ETag {
    /// The MD5 of the bytes, or of the MD5 of all parts.
    pub md5: [u8; 16],
    /// The number of parts; 0 without parts.
    pub parts: u16,
}

impl std::fmt::Display for ETag {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.md5.iter().try_for_each(|byte| write!(formatter, "{byte:02x}"))?;
        if self.parts > 0 { write!(formatter, "-{}", self.parts) } else { Ok(()) }
    }
}

/// A checksum of contents. The layer stores it; what an algorithm's number means is up to the gateways.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checksum {
    /// The algorithm.
    pub algorithm: u8,
    /// It is the checksum of the checksums of parts.
    pub composite: bool,
    /// Its bytes.
    pub value: Vec<u8>,
}

/// An object. Its bytes are the only body of its set, or what the manifest of its set lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectRecord {
    /// The body set, which copies share.
    pub set: SetId,
    /// The set has a manifest.
    pub in_parts: bool,
    /// The number of bytes.
    pub size: u64,
    /// When it was written, in milliseconds since 1970.
    pub modified: u64,
    /// The entity tag.
    pub etag: ETag,
    /// The checksum that the writer chose.
    pub checksum: Option<Checksum>,
    /// Headers and user metadata.
    pub attributes: Pairs,
    /// Tags.
    pub tags: Pairs,
    /// Its place among the versions of its name; nothing if it was written before its bucket kept versions.
    pub version: Option<VersionLinks>,
}

pub(super) fn write_pairs(into: &mut Vec<u8>, pairs: &Pairs) {
    write_list(into, pairs, |into, (name, value)| {
        write_bytes(into, name.as_bytes());
        write_bytes(into, value.as_bytes());
    });
}

pub(super) fn read_pairs(reader: &mut Reader<'_>) -> Option<Pairs> {
    read_list(reader, 8, |reader| Some((read_text(reader)?, read_text(reader)?)))
}

pub(super) fn write_etag(into: &mut Vec<u8>, etag: ETag) {
    into.extend_from_slice(&etag.md5);
    into.extend_from_slice(&etag.parts.to_le_bytes());
}

pub(super) fn read_etag(reader: &mut Reader<'_>) -> Option<ETag> {
    Some(ETag { md5: reader.array()?, parts: reader.u16()? })
}

pub(super) fn write_checksum(into: &mut Vec<u8>, checksum: Option<&Checksum>) {
    write_option(into, checksum, |into, checksum| {
        into.push(checksum.algorithm);
        into.push(u8::from(checksum.composite));
        write_bytes(into, &checksum.value);
    });
}

pub(super) fn read_checksum(reader: &mut Reader<'_>) -> Option<Option<Checksum>> {
    read_option(reader, |reader| {
        Some(Checksum { algorithm: reader.u8()?, composite: read_flag(reader)?, value: read_bytes(reader)? })
    })
}

impl Record for ObjectRecord {
    /// Without a place the format is that of programs that know no versions.
    fn format(&self) -> u8 {
        if self.version.is_some() { LINKED_OBJECT } else { FORMAT }
    }

    fn write(&self, into: &mut Vec<u8>) {
        into.extend_from_slice(&self.set.0);
        into.push(u8::from(self.in_parts));
        into.extend_from_slice(&self.size.to_le_bytes());
        into.extend_from_slice(&self.modified.to_le_bytes());
        write_etag(into, self.etag);
        write_checksum(into, self.checksum.as_ref());
        write_pairs(into, &self.attributes);
        write_pairs(into, &self.tags);
        if let Some(links) = &self.version {
            links.write(into);
        }
    }

    fn read(format: u8, reader: &mut Reader<'_>) -> Option<Self> {
        Some(Self {
            set: SetId(reader.array()?),
            in_parts: read_flag(reader)?,
            size: reader.u64()?,
            modified: reader.u64()?,
            etag: read_etag(reader)?,
            checksum: read_checksum(reader)?,
            attributes: read_pairs(reader)?,
            tags: read_pairs(reader)?,
            version: match format {
                FORMAT => None,
                LINKED_OBJECT => Some(VersionLinks::read(reader)?),
                _ => return None,
            },
        })
    }
}
