//! Answers to operations, and to any request that failed.
//!
//! All have the same 24 bytes of fields, both alone in a frame and in the answer to a batch, where a length (4) and zero (4) precede them:
//!
//! | offset | size | field |
//! | --- | --- | --- |
//! | 0 | 2 | error code, 0 for success |
//! | 2 | 1 | shape of the outcome, 0 for an error |
//! | 3 | 1 | type of the record, 0 for none or not said |
//! | 4 | 4 | detail |
//! | 8 | 8 | version |
//! | 16 | 8 | number |
//! | 24 | | payload |
//!
//! `docs/protocols/wire.md` says what detail, number and payload are for each shape and error.

use crate::blob::BlobStamp;
use crate::changes::CommittedChange;
use crate::compare::RangeComparison;
use crate::elements::{Element, Elements};
use crate::error::{BadRequestReason, Failure, Parts};
use crate::fields::{FieldReader, layout, nothing_left, split, take_length_prefixed};
use crate::ids::Timestamp;
use crate::limits::BATCH_ITEMS_MAX;
use crate::numbered;
use crate::record::RecordType;
use crate::scan::{ScannedKey, check_cursor};

/// The answer to one operation.
pub type OperationAnswer<'a> = Result<Outcome<'a>, Failure<'a>>;

/// The result of an operation that succeeded. The version is that of the record, zero if the record is absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome<'a> {
    /// It was done.
    Done {
        /// The record's new version.
        version: Timestamp,
        /// The number that the operation returns; see the operation.
        number: u64,
    },
    /// A counter was changed.
    Counter {
        /// The record's new version.
        version: Timestamp,
        /// Its new value.
        value: i64,
    },
    /// A bytes record, or the requested part of it.
    Value {
        /// The record's version.
        version: Timestamp,
        /// Length of the complete record in bytes.
        length: u64,
        /// The bytes.
        bytes: &'a [u8],
    },
    /// A list, or a page of the requested part of it.
    List {
        /// The record's version.
        version: Timestamp,
        /// Length of the complete list in values.
        length: u64,
        /// The index in the list of the first value of this page, from zero.
        first: u64,
        /// The values, at most `LIST_PAGE_VALUES_MAX`.
        values: Elements<'a, &'a [u8]>,
    },
    /// The metadata of a record.
    Info {
        /// The record's version.
        version: Timestamp,
        /// The type of the record.
        record: RecordType,
        /// Length: bytes of a bytes record, values of a list.
        length: u64,
        /// When the record expires, in milliseconds since 1970.
        expires_at_ms: Option<u64>,
    },
    /// A part of a chunk of a blob.
    Chunk {
        /// The chunk's version.
        version: Timestamp,
        /// The blob stamp of the last write or truncation.
        stamp: BlobStamp,
        /// The bytes; fewer than requested if zeros follow.
        bytes: &'a [u8],
    },
    /// An [`Outcome::Chunk`] to send, with its bytes in several buffers; the receiver decodes an [`Outcome::Chunk`].
    ChunkMultiBuffer {
        /// The chunk's version.
        version: Timestamp,
        /// The blob stamp of the last write or truncation.
        stamp: BlobStamp,
        /// The bytes, as consecutive pieces.
        pieces: &'a [&'a [u8]],
        /// The CRC-32C of all bytes, if it is known: the sender then does not read them for it.
        crc: Option<u32>,
    },
    /// A page of the keys of a partition.
    Page {
        /// The scan cursor of the next page; empty if this was the last.
        next: &'a [u8],
        /// The keys, at most `SCAN_PAGE_KEYS_MAX`.
        keys: Elements<'a, ScannedKey<'a>>,
    },
    /// The members have compared a hash range.
    Compared(RangeComparison<'a>),
    /// Changes of a partition.
    Changes {
        /// The log index to read on from.
        next: u64,
        /// No change at or below that index has a higher timestamp.
        newest: Timestamp,
        /// All changes of the partition up to this timestamp were read with this answer, or before.
        through: Timestamp,
        /// The changes, in the order of the log.
        changes: Elements<'a, CommittedChange<'a>>,
    },
}

impl Outcome<'_> {
    /// Length of a payload in several buffers.
    pub fn multi_buffer_length(&self) -> Option<usize> {
        match self {
            Outcome::ChunkMultiBuffer { pieces, .. } => Some(pieces.iter().map(|piece| piece.len()).sum()),
            _ => None,
        }
    }
}

numbered!(
    /// The number of an [`Outcome`] on the wire.
    Shape: u8 {
        /// See [`Outcome::Done`].
        Done = 1, "done";
        /// See [`Outcome::Counter`].
        Counter = 2, "counter";
        /// See [`Outcome::Value`].
        Value = 3, "value";
        /// See [`Outcome::List`].
        List = 4, "list";
        /// See [`Outcome::Info`].
        Info = 5, "info";
        /// See [`Outcome::Page`].
        Page = 6, "page";
        /// See [`Outcome::Chunk`].
        Chunk = 16, "chunk";
        /// See [`Outcome::Compared`].
        Compared = 17, "compared";
        /// See [`Outcome::Changes`].
        Changes = 18, "changes";
    }
);

const FIELDS_BYTES: usize = 24;
const ITEM_HEADER_BYTES: usize = 8;

/// Writes all but the last piece of the payload to `out`, and returns that piece.
pub fn put<'b>(answer: &'b OperationAnswer<'_>, out: &mut Vec<u8>) -> Result<&'b [u8], Failure<'static>> {
    match answer {
        Ok(outcome) => put_outcome(outcome, out),
        Err(failure) => {
            let parts = failure.parts();
            out.extend_from_slice(&fields(&parts));
            Ok(parts.payload)
        }
    }
}

/// Bytes in several buffers, and their CRC-32C if it is known.
pub type ScatteredBytes<'b> = (&'b [&'b [u8]], Option<u32>);

/// Writes all but the payload of an answer whose payload is in several buffers, and returns the payload; `None`: it has no such payload.
pub fn put_multi_buffer<'b>(
    answer: &'b OperationAnswer<'_>,
    out: &mut Vec<u8>,
) -> Result<Option<ScatteredBytes<'b>>, Failure<'static>> {
    let Ok(Outcome::ChunkMultiBuffer { version, stamp, pieces, crc }) = answer else { return Ok(None) };
    put_chunk(*version, *stamp, pieces.iter().map(|piece| piece.len()).sum(), out)?;
    Ok(Some((pieces, *crc)))
}

/// Writes the answer for a part of a chunk without its bytes.
fn put_chunk(
    version: Timestamp,
    stamp: BlobStamp,
    length: usize,
    out: &mut Vec<u8>,
) -> Result<(), Failure<'static>> {
    crate::record::check_length(length)?;
    let (shape, record) = (Shape::Chunk.number(), RecordType::Chunk.number());
    let parts = Parts { shape, record, version, number: stamp.id, ..Parts::default() };
    out.extend_from_slice(&fields(&parts));
    out.extend_from_slice(&stamp.generation.to_le_bytes());
    Ok(())
}

/// Decodes the answer that fills `body`.
pub fn decode_answer(body: &[u8]) -> Result<OperationAnswer<'_>, Failure<'static>> {
    let (mut fields, payload) = FieldReader::<FIELDS_BYTES>::split(body)?;
    let parts = Parts {
        code: fields.u16(),
        shape: fields.u8(),
        record: fields.u8(),
        detail: fields.u32(),
        version: Timestamp(fields.u64()),
        number: fields.u64(),
        payload,
    };
    fields.done()?;
    if parts.code == 0 { Ok(Ok(decode_outcome(parts)?)) } else { Ok(Err(Failure::from_parts(parts)?)) }
}

fn fields(parts: &Parts<'_>) -> [u8; FIELDS_BYTES] {
    layout(|to| {
        to.u16(parts.code)
            .u8(parts.shape)
            .u8(parts.record)
            .u32(parts.detail)
            .u64(parts.version.0)
            .u64(parts.number)
    })
}

fn put_outcome<'a>(outcome: &Outcome<'a>, out: &mut Vec<u8>) -> Result<&'a [u8], Failure<'static>> {
    let mut parts = Parts { shape: shape(outcome).number(), ..Parts::default() };
    Ok(match *outcome {
        Outcome::Done { version, number } => {
            out.extend_from_slice(&fields(&Parts { version, number, ..parts }));
            &[]
        }
        Outcome::Counter { version, value } => {
            out.extend_from_slice(&fields(&Parts { version, number: value as u64, ..parts }));
            &[]
        }
        Outcome::Value { version, length, bytes } => {
            crate::record::check_value(bytes)?;
            parts.record = RecordType::Bytes.number();
            out.extend_from_slice(&fields(&Parts { version, number: length, ..parts }));
            bytes
        }
        Outcome::List { version, length, first, values } => {
            (parts.record, parts.detail) = (RecordType::List.number(), values.count());
            out.extend_from_slice(&fields(&Parts { version, number: length, ..parts }));
            out.extend_from_slice(&first.to_le_bytes());
            values.put(out)?
        }
        Outcome::Info { version, record, length, expires_at_ms } => {
            parts.record = record.number();
            out.extend_from_slice(&fields(&Parts { version, number: length, ..parts }));
            out.extend_from_slice(&expires_at_ms.unwrap_or(0).to_le_bytes());
            &[]
        }
        Outcome::Chunk { version, stamp, bytes } => {
            put_chunk(version, stamp, bytes.len(), out)?;
            bytes
        }
        Outcome::ChunkMultiBuffer { version, stamp, pieces, .. } => {
            put_chunk(version, stamp, pieces.iter().map(|piece| piece.len()).sum(), out)?;
            pieces.iter().for_each(|piece| out.extend_from_slice(piece));
            &[]
        }
        Outcome::Page { next, keys } => {
            check_cursor(next)?;
            parts.detail = keys.count();
            out.extend_from_slice(&fields(&parts));
            out.extend_from_slice(&(next.len() as u32).to_le_bytes());
            out.extend_from_slice(next);
            keys.put(out)?
        }
        Outcome::Compared(compared) => {
            parts.detail = compared.copies;
            out.extend_from_slice(&fields(&Parts { number: compared.records, ..parts }));
            compared.put(out)?
        }
        Outcome::Changes { next, newest, through, changes } => {
            parts.detail = changes.count();
            out.extend_from_slice(&fields(&Parts { version: through, number: next, ..parts }));
            out.extend_from_slice(&newest.0.to_le_bytes());
            changes.put(out)?
        }
    })
}

fn decode_outcome(parts: Parts<'_>) -> Result<Outcome<'_>, Failure<'static>> {
    let Parts { shape, record, detail, version, number, mut payload, .. } = parts;
    let shape = Shape::from_number(shape).ok_or(BadRequestReason::Outcome)?;
    let outcome = match shape {
        Shape::Done => Outcome::Done { version, number },
        Shape::Counter => Outcome::Counter { version, value: number as i64 },
        Shape::Value => {
            crate::record::check_value(payload)?;
            return Ok(Outcome::Value { version, length: number, bytes: payload });
        }
        Shape::List => {
            let first = take_u64(&mut payload)?;
            let values = Elements::packed(detail, payload)?;
            return Ok(Outcome::List { version, length: number, first, values });
        }
        Shape::Info => {
            let record = RecordType::from_number(record).ok_or(BadRequestReason::Outcome)?;
            let expires_at_ms = Some(take_u64(&mut payload)?).filter(|ms| *ms != 0);
            Outcome::Info { version, record, length: number, expires_at_ms }
        }
        Shape::Chunk => {
            let generation = take_u64(&mut payload)?;
            crate::record::check_value(payload)?;
            let stamp = BlobStamp { id: number, generation };
            return Ok(Outcome::Chunk { version, stamp, bytes: payload });
        }
        Shape::Page => {
            let next = take_length_prefixed(&mut payload)?;
            check_cursor(next)?;
            return Ok(Outcome::Page { next, keys: Elements::packed(detail, payload)? });
        }
        Shape::Compared => {
            return RangeComparison::decode_body(detail, number, payload).map(Outcome::Compared);
        }
        Shape::Changes => {
            let newest = Timestamp(take_u64(&mut payload)?);
            let changes = Elements::packed(detail, payload)?;
            return Ok(Outcome::Changes { next: number, newest, through: version, changes });
        }
    };
    nothing_left(payload)?;
    Ok(outcome)
}

fn shape(outcome: &Outcome<'_>) -> Shape {
    match outcome {
        Outcome::Done { .. } => Shape::Done,
        Outcome::Counter { .. } => Shape::Counter,
        Outcome::Value { .. } => Shape::Value,
        Outcome::List { .. } => Shape::List,
        Outcome::Info { .. } => Shape::Info,
        Outcome::Page { .. } => Shape::Page,
        Outcome::Compared(_) => Shape::Compared,
        Outcome::Changes { .. } => Shape::Changes,
        Outcome::Chunk { .. } | Outcome::ChunkMultiBuffer { .. } => Shape::Chunk,
    }
}

fn take_u64(bytes: &mut &[u8]) -> Result<u64, Failure<'static>> {
    let (number, rest) = bytes.split_first_chunk::<8>().ok_or(BadRequestReason::Lengths)?;
    *bytes = rest;
    Ok(u64::from_le_bytes(*number))
}

/// One answer of several: length (4), zero (4), the answer.
impl<'a> Element<'a> for OperationAnswer<'a> {
    const COUNT_MAX: u32 = BATCH_ITEMS_MAX;

    fn put(&self, out: &mut Vec<u8>) -> Result<&[u8], Failure<'static>> {
        let at = out.len();
        out.extend_from_slice(&[0; ITEM_HEADER_BYTES]);
        let tail = put(self, out)?;
        let length = out.len() - at - ITEM_HEADER_BYTES + tail.len();
        out[at..at + 4].copy_from_slice(&(length as u32).to_le_bytes());
        Ok(tail)
    }

    fn take(bytes: &mut &'a [u8]) -> Result<Self, Failure<'static>> {
        let (mut fields, rest) = FieldReader::<ITEM_HEADER_BYTES>::split(bytes)?;
        let length = fields.u32() as usize;
        fields.zeros(4);
        fields.done()?;
        let (body, rest) = split(rest, length)?;
        *bytes = rest;
        decode_answer(body)
    }
}

/// The answers to a batch, in the order of its operations: count (4), zero (4), the answers.
pub fn put_many<'b>(
    answers: &'b Elements<'_, OperationAnswer<'b>>,
    out: &mut Vec<u8>,
) -> Result<&'b [u8], Failure<'static>> {
    let fields: [u8; 8] = layout(|to| to.u32(answers.count()).zeros(4));
    out.extend_from_slice(&fields);
    answers.put(out)
}

/// Decodes the answer to a batch. Errors: the bytes are not one.
pub fn decode_many(body: &[u8]) -> Result<Elements<'_, OperationAnswer<'_>>, Failure<'static>> {
    let (mut fields, rest) = FieldReader::<8>::split(body)?;
    let count = fields.u32();
    fields.zeros(4);
    fields.done()?;
    Elements::packed(count, rest)
}
