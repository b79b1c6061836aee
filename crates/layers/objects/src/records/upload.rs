//! The records of multipart uploads.

use zerohop_base::bytes::Reader;

use super::object::{
    Checksum, ETag, Pairs, read_checksum, read_etag, read_pairs, write_checksum, write_etag, write_pairs,
};
use super::{Record, only_format, read_flag, read_list, read_option, write_list, write_option};
use crate::ids::{BodyId, BodyRange, SetId};

/// An upload in progress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UploadRecord {
    /// When it was created, in milliseconds since 1970.
    pub initiated: u64,
    /// A completion reads the parts. A put of a part resets this, so that the completion begins again.
    pub is_frozen: bool,
    /// Counts the changes of `is_frozen`.
    pub generation: u64,
    /// The checksum algorithm of the object; 0 for none.
    pub checksum_algorithm: u8,
    /// The checksum of the object is that of the checksums of its parts.
    pub is_composite: bool,
    /// Headers and user metadata of the object.
    pub attributes: Pairs,
    /// Tags of the object.
    pub tags: Pairs,
}

impl Record for UploadRecord {
    fn write(&self, into: &mut Vec<u8>) {
        into.extend_from_slice(&self.initiated.to_le_bytes());
        into.push(u8::from(self.is_frozen));
        into.extend_from_slice(&self.generation.to_le_bytes());
        into.push(self.checksum_algorithm);
        into.push(u8::from(self.is_composite));
        write_pairs(into, &self.attributes);
        write_pairs(into, &self.tags);
    }

    fn read(format: u8, reader: &mut Reader<'_>) -> Option<Self> {
        only_format(format)?;
        Some(Self {
            initiated: reader.u64()?,
            is_frozen: read_flag(reader)?,
            generation: reader.u64()?,
            checksum_algorithm: reader.u8()?,
            is_composite: read_flag(reader)?,
            attributes: read_pairs(reader)?,
            tags: read_pairs(reader)?,
        })
    }
}

/// A part of an upload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartRecord {
    /// Its number, from 1.
    pub number: u16,
    /// The number of bytes.
    pub size: u64,
    /// When it was written, in milliseconds since 1970.
    pub modified: u64,
    /// The entity tag.
    pub etag: ETag,
    /// The checksum of its bytes.
    pub checksum: Option<Checksum>,
    /// The number of its own body in the upload's set. A copied part has none.
    pub body: Option<u64>,
    /// The set of which a copied part holds a reference.
    pub source: Option<SetId>,
    /// Where the bytes are.
    pub ranges: Vec<BodyRange>,
}

impl Record for PartRecord {
    fn write(&self, into: &mut Vec<u8>) {
        into.extend_from_slice(&self.number.to_le_bytes());
        into.extend_from_slice(&self.size.to_le_bytes());
        into.extend_from_slice(&self.modified.to_le_bytes());
        write_etag(into, self.etag);
        write_checksum(into, self.checksum.as_ref());
        write_option(into, self.body.as_ref(), |into, body| into.extend_from_slice(&body.to_le_bytes()));
        write_option(into, self.source.as_ref(), |into, source| into.extend_from_slice(&source.0));
        write_list(into, &self.ranges, |into, range| {
            into.extend_from_slice(&range.body.set.0);
            into.extend_from_slice(&range.body.number.to_le_bytes());
            into.extend_from_slice(&range.offset.to_le_bytes());
            into.extend_from_slice(&range.length.to_le_bytes());
        });
    }

    fn read(format: u8, reader: &mut Reader<'_>) -> Option<Self> {
        only_format(format)?;
        Some(Self {
            number: reader.u16()?,
            size: reader.u64()?,
            modified: reader.u64()?,
            etag: read_etag(reader)?,
            checksum: read_checksum(reader)?,
            body: read_option(reader, Reader::u64)?,
            source: read_option(reader, |reader| reader.array().map(SetId))?,
            ranges: read_list(reader, 40, |reader| {
                Some(BodyRange {
                    body: BodyId { set: SetId(reader.array()?), number: reader.u64()? },
                    offset: reader.u64()?,
                    length: reader.u64()?,
                })
            })?,
        })
    }
}
