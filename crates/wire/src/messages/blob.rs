//! Writes of blobs: of their headers, and of single chunks.
//!
//! Behind the fields that every write opens with: id (8), generation (8), number (8), and for a transform its fields;
//! then key and payload. `docs/protocols/wire.md` says what number and payload are.

use super::record::{Condition, check_key, check_value};
use super::transform::Transform;
use super::write::only_key;
use super::{RecordWrite, WriteChange};
use crate::blob::BlobStamp;
use crate::error::{Failure, What};
use crate::fields::{FieldReader, layout, split};
use crate::kind::Kind;
use crate::limits::{BLOB_ATTRIBUTES_BYTES_MAX, CHUNK_BITS_MAX, CHUNK_BITS_MIN, CHUNK_BYTES_MAX};

/// A write of a header or of a chunk. The key says of which blob: see [`crate::blob`].
///
/// What names an older blob or an older cut than the record knows is refused with `StaleBlob`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlobChange<'a> {
    /// Makes a header, of size 0. Answers `Done`, number: the blob's id; `ConditionFailed` if there is one.
    Create {
        /// Bytes of a chunk, as a power of two.
        chunk_bits: u8,
        /// At most `BLOB_ATTRIBUTES_BYTES_MAX`.
        attributes: &'a [u8],
    },
    /// Makes a blob at least this large, if no cut is under way. Answers `Done`, number: its size.
    Grow {
        /// Which.
        stamp: BlobStamp,
        /// Bytes.
        size: u64,
    },
    /// Sets a blob's size. If that is less than it was, its generation is raised, and a cut is under way until the chunks
    /// are cut and the blob is settled. Answers `Done`, number: the generation.
    Cut {
        /// Which.
        stamp: BlobStamp,
        /// Bytes.
        size: u64,
    },
    /// Says that chunks behind its end will be filled, up to a point. Its generation is raised, so that whoever wrote before
    /// it begins again; the chunks are written under the generation before. Whoever else is to write ends the filling first,
    /// by a cut. Said again by who fills, it moves the point. Answers `Done`, number: the generation.
    Fill {
        /// Which; if it is being filled already, as it is by that.
        stamp: BlobStamp,
        /// Where the chunks end that may be filled.
        until: u64,
    },
    /// Makes a blob that is being filled so large: what was filled is seen from then on. Answers `Done`, number: its size.
    Publish {
        /// Which, as [`BlobChange::Fill`] has left it.
        stamp: BlobStamp,
        /// Bytes; not less than it has.
        size: u64,
    },
    /// Says that the chunks behind its size are cut. Answers `Done`, number 0.
    Settle {
        /// Which, after the cut.
        stamp: BlobStamp,
    },
    /// Replaces a blob's attributes. Answers `Done`, number 0.
    Describe {
        /// Which; its generation does not matter.
        stamp: BlobStamp,
        /// At most `BLOB_ATTRIBUTES_BYTES_MAX`.
        attributes: &'a [u8],
    },
    /// Writes a part of a chunk. Answers `Done`, number 0; `NeedHeader` if there is no chunk of this blob, unless it may
    /// make one.
    WriteChunk {
        /// Which.
        stamp: BlobStamp,
        /// Where in the chunk.
        offset: u32,
        /// How many bytes: it ends within `CHUNK_BYTES_MAX`.
        length: u32,
        /// As many, or none for zeros.
        bytes: &'a [u8],
        /// Whether the writer has read the header, and found this blob and generation.
        makes: bool,
    },
    /// Turns everything from a point on to zeros, and has writes of older generations refused. Answers `Done`, number: 1 if
    /// there is a chunk now.
    CutChunk {
        /// Which, after the cut.
        stamp: BlobStamp,
        /// Bytes that stay.
        keep: u32,
        /// Whether to make an empty chunk where there is none, which refuses what is late: of what was filled.
        marks: bool,
    },
    /// Removes a chunk, unless it is of a later blob of the name. Answers `Done`, number: 1 if there was one.
    DropChunk {
        /// Which; its generation does not matter.
        stamp: BlobStamp,
    },
    /// Changes a number inside a chunk. Answers as a transform of a record does, or as a write of a chunk.
    TransformChunk {
        /// Which.
        stamp: BlobStamp,
        /// Its offset is in the chunk.
        transform: Transform,
        /// As of a write.
        makes: bool,
    },
}

/// Of writes and transforms: may make the chunk. Of a cut: marks where there is none.
const MAKES: u8 = 0x80;
/// Of the blob that the same transaction makes: [`BlobStamp::OWN`], which travels as an id of zero.
const OWN: u8 = 0x40;

impl<'a> BlobChange<'a> {
    pub(super) fn kind(&self) -> Kind {
        match self {
            Self::Create { .. } => Kind::CreateBlob,
            Self::Grow { .. } => Kind::GrowBlob,
            Self::Cut { .. } => Kind::CutBlob,
            Self::Settle { .. } => Kind::SettleBlob,
            Self::Describe { .. } => Kind::DescribeBlob,
            Self::WriteChunk { .. } => Kind::WriteChunk,
            Self::CutChunk { .. } => Kind::CutChunk,
            Self::TransformChunk { .. } => Kind::TransformChunk,
            Self::DropChunk { .. } => Kind::DropChunk,
            Self::Fill { .. } => Kind::FillBlob,
            Self::Publish { .. } => Kind::PublishBlob,
        }
    }

    /// What it names; a header that is to be made has none yet.
    #[must_use]
    pub fn stamp(&self) -> BlobStamp {
        match *self {
            Self::Create { .. } => BlobStamp::default(),
            Self::Grow { stamp, .. }
            | Self::Cut { stamp, .. }
            | Self::Settle { stamp }
            | Self::Describe { stamp, .. }
            | Self::WriteChunk { stamp, .. }
            | Self::CutChunk { stamp, .. }
            | Self::DropChunk { stamp }
            | Self::Fill { stamp, .. }
            | Self::Publish { stamp, .. }
            | Self::TransformChunk { stamp, .. } => stamp,
        }
    }

    /// The same of the blob with this id, if it is of the one that the transaction makes.
    #[must_use]
    pub fn of_own(mut self, id: u64) -> Self {
        match &mut self {
            Self::Create { .. } => {}
            Self::Grow { stamp, .. }
            | Self::Cut { stamp, .. }
            | Self::Settle { stamp }
            | Self::Describe { stamp, .. }
            | Self::WriteChunk { stamp, .. }
            | Self::CutChunk { stamp, .. }
            | Self::DropChunk { stamp }
            | Self::Fill { stamp, .. }
            | Self::Publish { stamp, .. }
            | Self::TransformChunk { stamp, .. } => {
                if stamp.id == BlobStamp::OWN {
                    stamp.id = id;
                }
            }
        }
        self
    }

    /// Writes detail byte, fields and key behind `open`, and returns the payload.
    pub(super) fn put(
        &self,
        open: impl Fn(u8) -> [u8; 16],
        key: &'a [u8],
        out: &mut Vec<u8>,
    ) -> Result<&'a [u8], Failure<'static>> {
        self.check()?;
        let (detail, number, payload): (u8, u64, &[u8]) = match *self {
            Self::Create { chunk_bits, attributes } => (0, u64::from(chunk_bits), attributes),
            Self::Grow { size, .. } | Self::Cut { size, .. } | Self::Publish { size, .. } => (0, size, &[]),
            Self::Fill { until, .. } => (0, until, &[]),
            Self::Settle { .. } | Self::DropChunk { .. } => (0, 0, &[]),
            Self::Describe { attributes, .. } => (0, 0, attributes),
            Self::WriteChunk { offset, length, bytes, makes, .. } => {
                (u8::from(makes) * MAKES, u64::from(offset) | u64::from(length) << 32, bytes)
            }
            Self::CutChunk { keep, marks, .. } => (u8::from(marks) * MAKES, u64::from(keep), &[]),
            Self::TransformChunk { transform, makes, .. } => {
                (transform.operator.number() | (u8::from(makes) * MAKES), 0, &[])
            }
        };
        let stamp = self.stamp();
        let (detail, id) = if stamp.id == BlobStamp::OWN { (detail | OWN, 0) } else { (detail, stamp.id) };
        let fields: [u8; 40] = layout(|to| to.bytes(open(detail)).u64(id).u64(stamp.generation).u64(number));
        out.extend_from_slice(&fields);
        if let Self::TransformChunk { transform, .. } = self {
            out.extend_from_slice(&transform.fields());
        }
        if payload.is_empty() {
            return Ok(key);
        }
        out.extend_from_slice(key);
        Ok(payload)
    }

    /// Reads the write of this kind whose opening fields are read.
    pub(super) fn take(
        kind: Kind,
        (key_len, condition, detail): (usize, Condition, u8),
        rest: &'a [u8],
    ) -> Result<RecordWrite<'a>, Failure<'static>> {
        let (mut fields, mut rest) = FieldReader::<24>::split(rest)?;
        let mut stamp = BlobStamp { id: fields.u64(), generation: fields.u64() };
        let number = fields.u64();
        fields.done()?;
        let (makes, is_own) = (detail & MAKES != 0, detail & OWN != 0);
        let detail = detail & !OWN;
        match (is_own, stamp.id) {
            (true, 0) if kind != Kind::CreateBlob => stamp.id = BlobStamp::OWN,
            (true, _) => return Err(What::Detail.into()),
            (false, BlobStamp::OWN) => return Err(What::Chunk.into()),
            (false, _) => {}
        }
        let may_have_detail = matches!(kind, Kind::WriteChunk | Kind::CutChunk | Kind::TransformChunk);
        let wants_operator = kind == Kind::TransformChunk;
        if detail != 0 && !may_have_detail || detail & !MAKES != 0 && !wants_operator {
            return Err(What::Detail.into());
        }
        let mut transform = None;
        if wants_operator {
            let (read, behind) = Transform::split(detail & !MAKES, rest)?;
            (transform, rest) = (Some(read), behind);
        }
        let (key, payload) = split(rest, key_len)?;
        check_key(key)?;
        let small = |number: u64| u32::try_from(number).map_err(|_| Failure::from(What::Chunk));
        let change = match kind {
            Kind::CreateBlob => {
                let chunk_bits = u8::try_from(number).map_err(|_| What::Chunk)?;
                if stamp != BlobStamp::default() {
                    return Err(What::Chunk.into());
                }
                Self::Create { chunk_bits, attributes: payload }
            }
            Kind::DescribeBlob if number == 0 => Self::Describe { stamp, attributes: payload },
            Kind::WriteChunk => {
                let (offset, length) = (number as u32, (number >> 32) as u32);
                Self::WriteChunk { stamp, offset, length, bytes: payload, makes }
            }
            Kind::GrowBlob
            | Kind::CutBlob
            | Kind::FillBlob
            | Kind::PublishBlob
            | Kind::CutChunk
            | Kind::DropChunk
            | Kind::SettleBlob => {
                only_key((key, payload))?;
                match kind {
                    Kind::GrowBlob => Self::Grow { stamp, size: number },
                    Kind::CutBlob => Self::Cut { stamp, size: number },
                    Kind::FillBlob => Self::Fill { stamp, until: number },
                    Kind::PublishBlob => Self::Publish { stamp, size: number },
                    Kind::CutChunk => Self::CutChunk { stamp, keep: small(number)?, marks: makes },
                    _ if number != 0 => return Err(What::Chunk.into()),
                    Kind::SettleBlob => Self::Settle { stamp },
                    _ => Self::DropChunk { stamp },
                }
            }
            _ => {
                only_key((key, payload))?;
                let transform = transform.filter(|_| number == 0).ok_or(What::Chunk)?;
                Self::TransformChunk { stamp, transform, makes }
            }
        };
        change.check()?;
        Ok(RecordWrite { key, condition, change: WriteChange::Blob(change) })
    }

    /// Errors: a bound is passed, or bytes are not as many as they are said to be.
    fn check(&self) -> Result<(), Failure<'static>> {
        match *self {
            Self::Create { chunk_bits, .. } if !(CHUNK_BITS_MIN..=CHUNK_BITS_MAX).contains(&chunk_bits) => {
                Err(What::Chunk.into())
            }
            Self::Create { attributes, .. } | Self::Describe { attributes, .. } => {
                if attributes.len() > BLOB_ATTRIBUTES_BYTES_MAX {
                    let (length, limit) = (attributes.len() as u64, BLOB_ATTRIBUTES_BYTES_MAX as u32);
                    return Err(Failure::ValueTooLong { length, limit });
                }
                Ok(())
            }
            Self::WriteChunk { offset, length, bytes, .. } => {
                check_value(bytes)?;
                let is_whole = bytes.is_empty() || bytes.len() == length as usize;
                if length == 0 || !is_whole { Err(What::Chunk.into()) } else { check_chunk(offset, length) }
            }
            Self::CutChunk { keep, .. } => check_chunk(keep, 0),
            Self::TransformChunk { transform, .. } => {
                transform.check()?;
                let offset = u32::try_from(transform.offset).map_err(|_| What::Chunk)?;
                check_chunk(offset, transform.number.bytes() as u32)
            }
            Self::Grow { .. }
            | Self::Cut { .. }
            | Self::Fill { .. }
            | Self::Publish { .. }
            | Self::Settle { .. }
            | Self::DropChunk { .. } => Ok(()),
        }
    }
}

/// Errors: the range does not end within the largest chunk.
pub(super) fn check_chunk(offset: u32, length: u32) -> Result<(), Failure<'static>> {
    let end = u64::from(offset) + u64::from(length);
    if end > CHUNK_BYTES_MAX as u64 { Err(What::Chunk.into()) } else { Ok(()) }
}
