//! Coalesced frames: several requests in one frame, each for a partition of its own, and several answers in one.
//!
//! A part is a request like one in a frame of its own, and has an id of its own: the id of the frame and its position, from 1. It therefore
//! succeeds, fails or is rerouted independently. An error that concerns the entire frame is answered under the frame's id.
//!
//! A part: keyspace (4), partition (4), partition epoch (8), kind (2), flags (2: 1 requests a read lock, 2: the body begins with a trace context), length (4), and the body as in a frame of
//! its own. An answer: request id (8), kind (2), duration of the read lock in us (2), length (4), and the body likewise. The parts follow each
//! other to the end of the frame's body.

use super::Message;
use crate::elements::Element;
use crate::error::{BadRequestReason, Failure};
use crate::fields::{FieldReader, layout, split};
use crate::header::{Envelope, TRACE_BYTES};
use crate::ids::{KeyspaceId, PartitionEpoch, PartitionId, RequestId};
use crate::kind::FrameKind;
use crate::limits::COALESCED_MAX;

/// Length of the prefix of a request, in bytes.
const REQUEST_HEADER_BYTES: usize = 24;

/// The flag of a request for a read lock.
const READ_LOCK: u16 = 1;
/// The flag of a request whose body begins with a trace context, which is skipped.
const TRACE: u16 = 2;

/// Length of the prefix of an answer, in bytes.
pub(crate) const ANSWER_HEADER_BYTES: usize = 16;

/// A request about one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GatheredRequest<'a> {
    /// The keyspace.
    pub keyspace: KeyspaceId,
    /// The partition within the keyspace.
    pub partition: PartitionId,
    /// The epoch of the partition with which it was routed.
    pub partition_epoch: PartitionEpoch,
    /// Number of its kind, which must be a request to a partition.
    pub kind: u16,
    /// The request asks for a read lock: see [`Envelope::read_lock`].
    pub read_lock: bool,
    /// Its body.
    pub body: &'a [u8],
}

/// An answer to one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GatheredAnswer<'a> {
    /// The id of the request.
    pub request: RequestId,
    /// Number of its kind, which must be an answer.
    pub kind: u16,
    /// See [`Envelope::read_lock_us`].
    pub read_lock_us: u16,
    /// Its body.
    pub body: &'a [u8],
}

impl<'a> GatheredRequest<'a> {
    /// Writes the prefix of a body of `length` bytes.
    #[inline]
    pub fn put_header(&self, length: usize, out: &mut Vec<u8>) {
        // The writer limits the frame to far below 2^32 bytes.
        let fields: [u8; REQUEST_HEADER_BYTES] = layout(|to| {
            to.u32(self.keyspace.0)
                .u32(self.partition.0)
                .u64(self.partition_epoch.0)
                .u16(self.kind)
                .u16(self.read_lock.into())
                .u32(length as u32)
        });
        out.extend_from_slice(&fields);
    }

    /// The envelope of this request as the part at this position, from 1, of the frame with the given envelope.
    #[must_use]
    pub fn envelope(&self, frame: &Envelope, place: u32) -> Envelope {
        let Self { keyspace, partition, partition_epoch, read_lock, .. } = *self;
        let request = RequestId(frame.request.0.wrapping_add(place.into()));
        Envelope { request, keyspace, partition, partition_epoch, time_out_ms: frame.time_out_ms, read_lock }
    }

    /// Decodes the request. Errors: the caller must send the error as its answer; the other parts are not affected.
    #[inline]
    pub fn message(&self) -> Result<Message<'a>, Failure<'static>> {
        let kind = FrameKind::from_number(self.kind).ok_or(Failure::UnknownKind { kind: self.kind })?;
        if !kind.is_for_partition() {
            return Err(BadRequestReason::Unexpected.into());
        }
        Message::decode_kind(kind, self.body)
    }
}

impl<'a> GatheredAnswer<'a> {
    /// The prefix of a body of `length` bytes.
    #[inline]
    pub(crate) fn header(envelope: &Envelope, kind: FrameKind, length: usize) -> [u8; ANSWER_HEADER_BYTES] {
        // A shorter lock than promised is also correct.
        let read_lock_us = u16::try_from(envelope.read_lock_us()).unwrap_or(u16::MAX);
        layout(|to| to.u64(envelope.request.0).u16(kind.number()).u16(read_lock_us).u32(length as u32))
    }

    /// Decodes the answer. Errors: it is invalid; the other parts are not affected.
    #[inline]
    pub fn message(&self) -> Result<Message<'a>, Failure<'static>> {
        let kind = FrameKind::from_number(self.kind).ok_or(Failure::UnknownKind { kind: self.kind })?;
        if !kind.is_answer() || kind == FrameKind::Gathered {
            return Err(BadRequestReason::Unexpected.into());
        }
        Message::decode_kind(kind, self.body)
    }
}

impl<'a> Element<'a> for GatheredRequest<'a> {
    const COUNT_MAX: u32 = COALESCED_MAX;

    fn put(&self, out: &mut Vec<u8>) -> Result<&[u8], Failure<'static>> {
        self.put_header(self.body.len(), out);
        Ok(self.body)
    }

    #[inline]
    fn take(bytes: &mut &'a [u8]) -> Result<Self, Failure<'static>> {
        let (mut fields, rest) = FieldReader::<REQUEST_HEADER_BYTES>::split(bytes)?;
        let (keyspace, partition) = (KeyspaceId(fields.u32()), PartitionId(fields.u32()));
        let (partition_epoch, kind) = (PartitionEpoch(fields.u64()), fields.u16());
        let flags = fields.u16();
        if flags & !(READ_LOCK | TRACE) != 0 {
            return Err(BadRequestReason::Flags.into());
        }
        let read_lock = flags & READ_LOCK != 0;
        let length = fields.u32() as usize;
        fields.done()?;
        let (mut body, rest) = split(rest, length)?;
        if flags & TRACE != 0 {
            body = body.get(TRACE_BYTES..).ok_or(BadRequestReason::FieldsCut)?;
        }
        *bytes = rest;
        Ok(Self { keyspace, partition, partition_epoch, kind, read_lock, body })
    }
}

impl<'a> Element<'a> for GatheredAnswer<'a> {
    const COUNT_MAX: u32 = COALESCED_MAX;

    fn put(&self, out: &mut Vec<u8>) -> Result<&[u8], Failure<'static>> {
        let Self { request, kind, read_lock_us, body } = *self;
        let fields: [u8; ANSWER_HEADER_BYTES] =
            layout(|to| to.u64(request.0).u16(kind).u16(read_lock_us).u32(body.len() as u32));
        out.extend_from_slice(&fields);
        Ok(body)
    }

    #[inline]
    fn take(bytes: &mut &'a [u8]) -> Result<Self, Failure<'static>> {
        let (mut fields, rest) = FieldReader::<ANSWER_HEADER_BYTES>::split(bytes)?;
        let (request, kind, read_lock_us) = (RequestId(fields.u64()), fields.u16(), fields.u16());
        let length = fields.u32() as usize;
        fields.done()?;
        let (body, rest) = split(rest, length)?;
        *bytes = rest;
        Ok(Self { request, kind, read_lock_us, body })
    }
}
