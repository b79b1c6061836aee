//! Reads of a record.
//!
//! Every read begins with the same 8 bytes: key length (4), detail (1), zero (3). The fields of the kind, the key, and the payload follow.

use crate::blob_change::check_chunk;
use crate::error::{BadRequestReason, Failure};
use crate::fields::{FieldReader, layout, nothing_left, split};
use crate::ids::Timestamp;
use crate::kind::FrameKind;
use crate::operations::check_bit;
use crate::record::{Range, check_key, check_value};

/// One read of one record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordRead<'a> {
    /// The key of the record.
    pub key: &'a [u8],
    /// What to read.
    pub query: Query<'a>,
}

/// The kind of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Query<'a> {
    /// The complete record. Answers `Value` or, for a list, the first page as `List`; `NotFound` if the record is absent.
    Lookup,
    /// A part of the record. Answers like `Lookup`; a list's page may end before the range does, and the client then continues after the last
    /// value.
    LookupRange {
        /// The part.
        range: Range,
    },
    /// The metadata of the record. Answers `Info`, or `NotFound`.
    Inspect,
    /// One bit of a bytes record, most significant bit of byte 0 first. Answers `Done`, number 0 or 1; an absent bit is 0.
    GetBit {
        /// Offset of the bit, at most `BIT_OFFSET_MAX`.
        offset: u64,
    },
    /// The number of one bits in these bytes. Answers `Done`, number: the count.
    CountBits {
        /// The range of bytes.
        range: Range,
    },
    /// Whether the record still has this version, and no transaction is about to change it: the second round of a read of several records. It never
    /// waits. Answers `Done`, number 1 if so, else 0.
    Confirm {
        /// The version from an earlier read. Zero, meaning no record, can be confirmed only for chunks of blobs: another record may have existed in
        /// between.
        version: Timestamp,
    },
    /// A part of a chunk of a blob. Answers `Chunk`, which may have fewer bytes: the rest are zeros; `NotFound` if the chunk is absent.
    ReadChunk {
        /// Offset in the chunk.
        offset: u32,
        /// Number of bytes: the part ends within `CHUNK_BYTES_MAX`.
        length: u32,
    },
    /// Waits until the record fulfils the condition, then answers like `Lookup`; `TimedOut` after the time-out in the header.
    Wait {
        /// The condition.
        until: WaitUntil<'a>,
    },
}

/// The condition of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitUntil<'a> {
    /// The record has these bytes.
    Equals(&'a [u8]),
    /// The record does not have these bytes: it has others, is a list, or is absent.
    Differs(&'a [u8]),
    /// The record is absent.
    Absent,
    /// The record exists.
    Present,
    /// The record has another version; zero means "no record".
    Changed(Timestamp),
}

impl<'a> WaitUntil<'a> {
    fn numbers(self) -> (u8, u64, &'a [u8]) {
        match self {
            Self::Equals(value) => (0, 0, value),
            Self::Differs(value) => (1, 0, value),
            Self::Absent => (2, 0, &[]),
            Self::Present => (3, 0, &[]),
            Self::Changed(version) => (4, version.0, &[]),
        }
    }

    fn from_numbers(until: u8, version: u64, value: &'a [u8]) -> Result<Self, Failure<'static>> {
        match (until, version, value) {
            (0, 0, value) => Ok(Self::Equals(value)),
            (1, 0, value) => Ok(Self::Differs(value)),
            (2, 0, []) => Ok(Self::Absent),
            (3, 0, []) => Ok(Self::Present),
            (4, version, []) => Ok(Self::Changed(Timestamp(version))),
            _ => Err(BadRequestReason::Until.into()),
        }
    }
}

impl<'a> RecordRead<'a> {
    /// The kind of its frames.
    #[must_use]
    pub fn kind(&self) -> FrameKind {
        match self.query {
            Query::Lookup => FrameKind::Lookup,
            Query::LookupRange { .. } => FrameKind::LookupRange,
            Query::Inspect => FrameKind::Inspect,
            Query::GetBit { .. } => FrameKind::GetBit,
            Query::CountBits { .. } => FrameKind::CountBits,
            Query::Confirm { .. } => FrameKind::Confirm,
            Query::ReadChunk { .. } => FrameKind::ReadChunk,
            Query::Wait { .. } => FrameKind::Wait,
        }
    }

    /// Writes all but the last piece of the payload to `out`, and returns that piece.
    pub fn put(&self, out: &mut Vec<u8>) -> Result<&'a [u8], Failure<'static>> {
        let key_len = check_key(self.key)?;
        let open = |detail: u8| -> [u8; 8] { layout(|to| to.u32(key_len).u8(detail).zeros(3)) };
        match self.query {
            Query::Lookup | Query::Inspect => out.extend_from_slice(&open(0)),
            Query::LookupRange { range } | Query::CountBits { range } => {
                let fields: [u8; 24] = layout(|to| to.bytes(open(0)).i64(range.start).i64(range.stop));
                out.extend_from_slice(&fields);
            }
            Query::GetBit { offset } => {
                check_bit(offset)?;
                let fields: [u8; 16] = layout(|to| to.bytes(open(0)).u64(offset));
                out.extend_from_slice(&fields);
            }
            Query::Confirm { version } => {
                let fields: [u8; 16] = layout(|to| to.bytes(open(0)).u64(version.0));
                out.extend_from_slice(&fields);
            }
            Query::ReadChunk { offset, length } => {
                check_chunk(offset, length)?;
                let fields: [u8; 16] = layout(|to| to.bytes(open(0)).u32(offset).u32(length));
                out.extend_from_slice(&fields);
            }
            Query::Wait { until } => {
                let (detail, version, value) = until.numbers();
                check_value(value)?;
                let fields: [u8; 16] = layout(|to| to.bytes(open(detail)).u64(version));
                out.extend_from_slice(&fields);
                out.extend_from_slice(self.key);
                return Ok(value);
            }
        }
        Ok(self.key)
    }

    /// Decodes the read of this kind that fills `body`.
    pub fn decode_body(kind: FrameKind, body: &'a [u8]) -> Result<Self, Failure<'static>> {
        let (mut fields, rest) = FieldReader::<8>::split(body)?;
        let key_len = fields.u32() as usize;
        let detail = fields.u8();
        fields.zeros(3);
        fields.done()?;
        if detail != 0 && kind != FrameKind::Wait {
            return Err(BadRequestReason::Detail.into());
        }
        let (query, rest) = match kind {
            FrameKind::Lookup => (Query::Lookup, rest),
            FrameKind::Inspect => (Query::Inspect, rest),
            FrameKind::LookupRange | FrameKind::CountBits => {
                let (mut fields, rest) = FieldReader::<16>::split(rest)?;
                let range = Range { start: fields.i64(), stop: fields.i64() };
                fields.done()?;
                match kind {
                    FrameKind::LookupRange => (Query::LookupRange { range }, rest),
                    _ => (Query::CountBits { range }, rest),
                }
            }
            FrameKind::GetBit => {
                let (offset, rest) = one_u64(rest)?;
                check_bit(offset)?;
                (Query::GetBit { offset }, rest)
            }
            FrameKind::Confirm => {
                let (version, rest) = one_u64(rest)?;
                (Query::Confirm { version: Timestamp(version) }, rest)
            }
            FrameKind::ReadChunk => {
                let (both, rest) = one_u64(rest)?;
                let (offset, length) = (both as u32, (both >> 32) as u32);
                check_chunk(offset, length)?;
                (Query::ReadChunk { offset, length }, rest)
            }
            FrameKind::Wait => {
                let (version, rest) = one_u64(rest)?;
                let (key, value) = split(rest, key_len)?;
                check_key(key)?;
                check_value(value)?;
                let until = WaitUntil::from_numbers(detail, version, value)?;
                return Ok(Self { key, query: Query::Wait { until } });
            }
            _ => return Err(BadRequestReason::ItemKind.into()),
        };
        let key = only_key(split(rest, key_len)?)?;
        check_key(key)?;
        Ok(Self { key, query })
    }
}

/// One additional fixed field.
fn one_u64(rest: &[u8]) -> Result<(u64, &[u8]), Failure<'static>> {
    let (mut fields, rest) = FieldReader::<8>::split(rest)?;
    Ok((fields.u64(), rest))
}

/// The key of an operation without a payload.
fn only_key<'a>((key, payload): (&'a [u8], &'a [u8])) -> Result<&'a [u8], Failure<'static>> {
    nothing_left(payload)?;
    Ok(key)
}
