//! Writes of blobs: of their headers, and of single chunks.
//!
//! The fields after those that every write begins with are: id (8), generation (8), number (8), and for a transform its fields; then key and
//! payload. `docs/protocols/wire.md` says what number and payload are.

use crate::blob::BlobStamp;
use crate::error::{BadRequestReason, Failure};
use crate::fields::{layout, nothing_left};
use crate::kind::FrameKind;
use crate::limits::{BLOB_ATTRIBUTES_BYTES_MAX, CHUNK_BITS_MAX, CHUNK_BITS_MIN, CHUNK_BYTES_MAX};
use crate::operation_body::OperationBody;
use crate::record::check_value;
use crate::transform::Transform;

/// A write of a header or of a chunk. The key names the blob: see [`crate::blob`].
///
/// A change that names an older blob or an older generation than the record knows is refused with `StaleBlob`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlobChange<'a> {
    /// Creates a header, of size 0. Answers `Done`, number: the blob's id; `ConditionFailed` if the header exists.
    Create {
        /// Chunk size in bytes, as a power of two.
        chunk_bits: u8,
        /// At most `BLOB_ATTRIBUTES_BYTES_MAX`.
        attributes: &'a [u8],
    },
    /// Makes a blob at least this large, if no truncation is pending. Answers `Done`, number: its size.
    Grow {
        /// The blob.
        stamp: BlobStamp,
        /// The size in bytes.
        size: u64,
    },
    /// Sets a blob's size. If the size decreases, the generation rises, and the truncation is pending until the chunks are truncated and the blob
    /// is settled. Answers `Done`, number: the generation.
    Truncate {
        /// The blob.
        stamp: BlobStamp,
        /// The size in bytes.
        size: u64,
    },
    /// Announces that chunks behind the end will be written, up to `until`: a staged extension. The generation rises, so that earlier writers must
    /// start again; the chunks of the append have the generation before. Another writer must first end the append by a truncation. The appending
    /// client moves `until` by repeating the message. Answers `Done`, number: the generation.
    StageExtension {
        /// The blob; for a repetition, with the generation of the staged extension.
        stamp: BlobStamp,
        /// The end of the chunks that may be written.
        until: u64,
    },
    /// Sets the size of a blob with a staged extension: its bytes become visible. Answers `Done`, number: its size.
    Publish {
        /// The blob, with the generation from [`BlobChange::StageExtension`].
        stamp: BlobStamp,
        /// The size in bytes; not less than the present size.
        size: u64,
    },
    /// Records that the chunks behind the size are truncated. Answers `Done`, number 0.
    Settle {
        /// The blob, with the generation after the truncation.
        stamp: BlobStamp,
    },
    /// Replaces a blob's attributes. Answers `Done`, number 0.
    Describe {
        /// The blob; its generation does not matter.
        stamp: BlobStamp,
        /// At most `BLOB_ATTRIBUTES_BYTES_MAX`.
        attributes: &'a [u8],
    },
    /// Writes a part of a chunk. Answers `Done`, number 0; `NeedHeader` if there is no chunk of this blob, unless the write may create one.
    WriteChunk {
        /// The blob.
        stamp: BlobStamp,
        /// Offset in the chunk.
        offset: u32,
        /// Number of bytes: the write ends within `CHUNK_BYTES_MAX`.
        length: u32,
        /// The bytes, or none for zeros.
        bytes: &'a [u8],
        /// Whether the writer has read the header, and found this blob and generation; the write may then create the chunk.
        makes: bool,
    },
    /// Zeroes everything from an offset on, and has writes of older generations refused. Answers `Done`, number: 1 if the chunk exists now.
    TruncateChunk {
        /// The blob, with the generation after the truncation.
        stamp: BlobStamp,
        /// Number of bytes that remain.
        keep: u32,
        /// Whether to create an empty chunk if it is absent, which refuses late writes of a staged extension.
        creates_absent: bool,
    },
    /// Removes a chunk, unless it belongs to a later blob of the name. Answers `Done`, number: 1 if the chunk existed.
    DropChunk {
        /// The blob; its generation does not matter.
        stamp: BlobStamp,
    },
    /// Changes a number inside a chunk. Answers like a transform of a record, or like a write of a chunk.
    TransformChunk {
        /// The blob.
        stamp: BlobStamp,
        /// The transform; its offset is in the chunk.
        transform: Transform,
        /// As for a write.
        makes: bool,
    },
}

/// For writes and transforms: may create the chunk. For a truncation: creates the chunk if it is absent.
const MAKES: u8 = 0x80;
/// For the blob that the same transaction creates: [`BlobStamp::OWN`], which is encoded as an id of zero.
const OWN: u8 = 0x40;

impl<'a> BlobChange<'a> {
    /// The kind of its frames.
    #[must_use]
    pub fn kind(&self) -> FrameKind {
        match self {
            Self::Create { .. } => FrameKind::CreateBlob,
            Self::Grow { .. } => FrameKind::GrowBlob,
            Self::Truncate { .. } => FrameKind::TruncateBlob,
            Self::Settle { .. } => FrameKind::SettleBlob,
            Self::Describe { .. } => FrameKind::DescribeBlob,
            Self::WriteChunk { .. } => FrameKind::WriteChunk,
            Self::TruncateChunk { .. } => FrameKind::TruncateChunk,
            Self::TransformChunk { .. } => FrameKind::TransformChunk,
            Self::DropChunk { .. } => FrameKind::DropChunk,
            Self::StageExtension { .. } => FrameKind::StageExtension,
            Self::Publish { .. } => FrameKind::PublishBlob,
        }
    }

    /// Bytes of the payload.
    #[must_use]
    pub fn payload_bytes(&self) -> usize {
        match self {
            Self::WriteChunk { bytes, .. } => bytes.len(),
            Self::Create { attributes, .. } | Self::Describe { attributes, .. } => attributes.len(),
            _ => 0,
        }
    }

    /// The class of changes that commute with it. A blob grows to the maximum of the sizes, so a write past the end, or
    /// a check of the generation, conflicts with no other.
    #[must_use]
    pub fn commutes(&self) -> Option<u8> {
        const GROWS: u8 = 64;
        matches!(self, Self::Grow { .. }).then_some(GROWS)
    }

    /// The blob stamp of the change; a header that is to be created has none yet.
    #[must_use]
    pub fn stamp(&self) -> BlobStamp {
        match *self {
            Self::Create { .. } => BlobStamp::default(),
            Self::Grow { stamp, .. }
            | Self::Truncate { stamp, .. }
            | Self::Settle { stamp }
            | Self::Describe { stamp, .. }
            | Self::WriteChunk { stamp, .. }
            | Self::TruncateChunk { stamp, .. }
            | Self::DropChunk { stamp }
            | Self::StageExtension { stamp, .. }
            | Self::Publish { stamp, .. }
            | Self::TransformChunk { stamp, .. } => stamp,
        }
    }

    /// Inserts this id if the change is for the blob that the transaction creates.
    #[must_use]
    pub fn of_own(mut self, id: u64) -> Self {
        match &mut self {
            Self::Create { .. } => {}
            Self::Grow { stamp, .. }
            | Self::Truncate { stamp, .. }
            | Self::Settle { stamp }
            | Self::Describe { stamp, .. }
            | Self::WriteChunk { stamp, .. }
            | Self::TruncateChunk { stamp, .. }
            | Self::DropChunk { stamp }
            | Self::StageExtension { stamp, .. }
            | Self::Publish { stamp, .. }
            | Self::TransformChunk { stamp, .. } => {
                if stamp.id == BlobStamp::OWN {
                    stamp.id = id;
                }
            }
        }
        self
    }

    /// Writes detail byte, fields and key after `open`, and returns the payload.
    pub fn put(
        &self,
        open: impl Fn(u8) -> [u8; 16],
        key: &'a [u8],
        out: &mut Vec<u8>,
    ) -> Result<&'a [u8], Failure<'static>> {
        self.check()?;
        let (detail, number, payload): (u8, u64, &[u8]) = match *self {
            Self::Create { chunk_bits, attributes } => (0, u64::from(chunk_bits), attributes),
            Self::Grow { size, .. } | Self::Truncate { size, .. } | Self::Publish { size, .. } => {
                (0, size, &[])
            }
            Self::StageExtension { until, .. } => (0, until, &[]),
            Self::Settle { .. } | Self::DropChunk { .. } => (0, 0, &[]),
            Self::Describe { attributes, .. } => (0, 0, attributes),
            Self::WriteChunk { offset, length, bytes, makes, .. } => {
                (u8::from(makes) * MAKES, u64::from(offset) | u64::from(length) << 32, bytes)
            }
            Self::TruncateChunk { keep, creates_absent: marks, .. } => {
                (u8::from(marks) * MAKES, u64::from(keep), &[])
            }
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

    /// Decodes key and change of this kind.
    ///
    /// # Errors
    /// The bytes are not such a change, or the kind is none of a blob.
    pub fn decode(
        kind: FrameKind,
        mut body: OperationBody<'a>,
    ) -> Result<(&'a [u8], Self), Failure<'static>> {
        let is_of_blob = matches!(
            kind,
            FrameKind::CreateBlob
                | FrameKind::GrowBlob
                | FrameKind::TruncateBlob
                | FrameKind::DescribeBlob
                | FrameKind::WriteChunk
                | FrameKind::TruncateChunk
                | FrameKind::TransformChunk
                | FrameKind::SettleBlob
                | FrameKind::DropChunk
                | FrameKind::StageExtension
                | FrameKind::PublishBlob
        );
        if !is_of_blob {
            return Err(BadRequestReason::ItemKind.into());
        }
        let mut fields = body.fields::<24>()?;
        let mut stamp = BlobStamp { id: fields.u64(), generation: fields.u64() };
        let number = fields.u64();
        fields.done()?;
        let detail = body.detail();
        let (makes, is_own) = (detail & MAKES != 0, detail & OWN != 0);
        let detail = detail & !OWN;
        match (is_own, stamp.id) {
            (true, 0) if kind != FrameKind::CreateBlob => stamp.id = BlobStamp::OWN,
            (true, _) => return Err(BadRequestReason::Detail.into()),
            (false, BlobStamp::OWN) => return Err(BadRequestReason::Chunk.into()),
            (false, _) => {}
        }
        let may_have_detail =
            matches!(kind, FrameKind::WriteChunk | FrameKind::TruncateChunk | FrameKind::TransformChunk);
        let wants_operator = kind == FrameKind::TransformChunk;
        if detail != 0 && !may_have_detail || detail & !MAKES != 0 && !wants_operator {
            return Err(BadRequestReason::Detail.into());
        }
        let mut transform = None;
        if wants_operator {
            let (read, behind) = Transform::split(detail & !MAKES, body.rest)?;
            (transform, body.rest) = (Some(read), behind);
        }
        let (key, payload) = body.key_and_payload()?;
        let small = |number: u64| u32::try_from(number).map_err(|_| Failure::from(BadRequestReason::Chunk));
        let change = match kind {
            FrameKind::CreateBlob => {
                let chunk_bits = u8::try_from(number).map_err(|_| BadRequestReason::Chunk)?;
                if stamp != BlobStamp::default() {
                    return Err(BadRequestReason::Chunk.into());
                }
                Self::Create { chunk_bits, attributes: payload }
            }
            FrameKind::DescribeBlob if number == 0 => Self::Describe { stamp, attributes: payload },
            FrameKind::WriteChunk => {
                let (offset, length) = (number as u32, (number >> 32) as u32);
                Self::WriteChunk { stamp, offset, length, bytes: payload, makes }
            }
            FrameKind::GrowBlob
            | FrameKind::TruncateBlob
            | FrameKind::StageExtension
            | FrameKind::PublishBlob
            | FrameKind::TruncateChunk
            | FrameKind::DropChunk
            | FrameKind::SettleBlob => {
                nothing_left(payload)?;
                match kind {
                    FrameKind::GrowBlob => Self::Grow { stamp, size: number },
                    FrameKind::TruncateBlob => Self::Truncate { stamp, size: number },
                    FrameKind::StageExtension => Self::StageExtension { stamp, until: number },
                    FrameKind::PublishBlob => Self::Publish { stamp, size: number },
                    FrameKind::TruncateChunk => {
                        Self::TruncateChunk { stamp, keep: small(number)?, creates_absent: makes }
                    }
                    _ if number != 0 => return Err(BadRequestReason::Chunk.into()),
                    FrameKind::SettleBlob => Self::Settle { stamp },
                    _ => Self::DropChunk { stamp },
                }
            }
            _ => {
                nothing_left(payload)?;
                let transform = transform.filter(|_| number == 0).ok_or(BadRequestReason::Chunk)?;
                Self::TransformChunk { stamp, transform, makes }
            }
        };
        change.check()?;
        Ok((key, change))
    }

    /// Errors: a limit is exceeded, or the number of bytes is not as stated.
    fn check(&self) -> Result<(), Failure<'static>> {
        match *self {
            Self::Create { chunk_bits, .. } if !(CHUNK_BITS_MIN..=CHUNK_BITS_MAX).contains(&chunk_bits) => {
                Err(BadRequestReason::Chunk.into())
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
                if length == 0 || !is_whole {
                    Err(BadRequestReason::Chunk.into())
                } else {
                    check_chunk(offset, length)
                }
            }
            Self::TruncateChunk { keep, .. } => check_chunk(keep, 0),
            Self::TransformChunk { transform, .. } => {
                transform.check()?;
                let offset = u32::try_from(transform.offset).map_err(|_| BadRequestReason::Chunk)?;
                check_chunk(offset, transform.number.bytes() as u32)
            }
            Self::Grow { .. }
            | Self::Truncate { .. }
            | Self::StageExtension { .. }
            | Self::Publish { .. }
            | Self::Settle { .. }
            | Self::DropChunk { .. } => Ok(()),
        }
    }
}

/// Errors: the range does not end within the largest chunk.
pub fn check_chunk(offset: u32, length: u32) -> Result<(), Failure<'static>> {
    let end = u64::from(offset) + u64::from(length);
    if end > CHUNK_BYTES_MAX as u64 { Err(BadRequestReason::Chunk.into()) } else { Ok(()) }
}
