//! Several operations on records of one partition, in one frame.
//!
//! A batch is a unit of transmission, not a transaction: the server evaluates its operations in order and separately, and each has its own outcome.
//! Its writes use consecutive sequence numbers from the one in the stamp; its reads use none. The server answers when all operations are done.
//!
//! After the stamp: count (4), zero (4), then per item kind (2), zero (2), length (4), and the operation's body, which
//! is the same as that of its own frame without stamp or timestamp.

use super::session::Stamp;
use super::{RecordRead, RecordWrite};
use crate::elements::{Element, Elements};
use crate::error::{BadRequestReason, Failure};
use crate::fields::{FieldReader, layout, split};
use crate::ids::Sequence;
use crate::kind::FrameKind;
use crate::limits::BATCH_ITEMS_MAX;

/// One operation on one record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordOperation<'a> {
    /// An operation that changes nothing.
    Read(RecordRead<'a>),
    /// An operation that may change the record.
    Write(RecordWrite<'a>),
}

/// Several operations on records of one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperationBatch<'a> {
    /// The write identity; its sequence number is that of the first write.
    pub stamp: Stamp,
    /// The operations, at most `BATCH_ITEMS_MAX`.
    pub operations: Elements<'a, RecordOperation<'a>>,
}

const ITEM_HEADER_BYTES: usize = 8;
const HEAD_BYTES: usize = Stamp::BYTES + 8;

impl<'a> RecordOperation<'a> {
    /// The key of the record.
    #[must_use]
    pub fn key(&self) -> &'a [u8] {
        match self {
            Self::Read(read) => read.key,
            Self::Write(write) => write.key,
        }
    }

    /// The kind number and the body of the single operation that [`pack`](crate::pack) has written: the bytes after the stamp, or the timestamp, in
    /// a frame of its own.
    #[must_use]
    pub fn of_packed(item: &[u8]) -> Option<(u16, &[u8])> {
        let (header, body) = item.split_first_chunk::<ITEM_HEADER_BYTES>()?;
        Some((u16::from_le_bytes([header[0], header[1]]), body))
    }

    fn kind(&self) -> FrameKind {
        match self {
            Self::Read(read) => read.kind(),
            Self::Write(write) => write.kind(),
        }
    }
}

impl<'a> Element<'a> for RecordOperation<'a> {
    const COUNT_MAX: u32 = BATCH_ITEMS_MAX;

    fn put(&self, out: &mut Vec<u8>) -> Result<&[u8], Failure<'static>> {
        let at = out.len();
        out.extend_from_slice(&[0; ITEM_HEADER_BYTES]);
        let tail = match self {
            Self::Read(read) => read.put(out)?,
            Self::Write(write) => write.put(out)?,
        };
        let length = out.len() - at - ITEM_HEADER_BYTES + tail.len();
        // The limits of key, value and list keep this far below 2^32.
        let header: [u8; ITEM_HEADER_BYTES] =
            layout(|to| to.u16(self.kind().number()).zeros(2).u32(length as u32));
        out[at..at + ITEM_HEADER_BYTES].copy_from_slice(&header);
        Ok(tail)
    }

    fn take(bytes: &mut &'a [u8]) -> Result<Self, Failure<'static>> {
        let (mut fields, rest) = FieldReader::<ITEM_HEADER_BYTES>::split(bytes)?;
        let kind = FrameKind::from_number(fields.u16()).ok_or(BadRequestReason::ItemKind)?;
        fields.zeros(2);
        let length = fields.u32() as usize;
        fields.done()?;
        let (body, rest) = split(rest, length)?;
        *bytes = rest;
        match kind.number() >> 8 {
            0x01 => Ok(Self::Read(RecordRead::decode_body(kind, body)?)),
            _ => Ok(Self::Write(RecordWrite::decode_body(kind, body)?)),
        }
    }
}

impl<'a> OperationBatch<'a> {
    /// Iterates over the operations in order; writes have their sequence numbers, zero without a session.
    pub fn numbered(&self) -> impl Iterator<Item = (Sequence, RecordOperation<'a>)> + use<'a> {
        let in_session = self.stamp.session.is_some();
        let mut next = self.stamp.sequence;
        self.operations.iter().map(move |operation| match operation {
            RecordOperation::Write(_) if in_session => {
                let sequence = next;
                next = next.next();
                (sequence, operation)
            }
            _ => (Sequence(0), operation),
        })
    }

    /// The bytes before the operations.
    ///
    /// # Errors
    /// The stamp contradicts itself.
    pub fn encode_head(stamp: &Stamp, count: u32) -> Result<[u8; HEAD_BYTES], Failure<'static>> {
        let stamp = stamp.encode()?;
        Ok(layout(|to| to.bytes(stamp).u32(count).zeros(4)))
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) -> Result<&'a [u8], Failure<'static>> {
        out.extend_from_slice(&Self::encode_head(&self.stamp, self.operations.count())?);
        self.operations.put(out)
    }

    pub(crate) fn decode_body(body: &'a [u8]) -> Result<Self, Failure<'static>> {
        let (stamp, rest) = Stamp::split(body)?;
        let (mut fields, rest) = FieldReader::<8>::split(rest)?;
        let count = fields.u32();
        fields.zeros(4);
        fields.done()?;
        Ok(Self { stamp, operations: Elements::packed(count, rest)? })
    }
}
