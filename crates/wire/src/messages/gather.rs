//! Several requests in one frame, each for a partition of its own, and several answers in one.
//!
//! A part is a request like one that has come in a frame of its own, and has an id of its own: that of the frame and its
//! place, from 1. So it succeeds, fails or is sent elsewhere by itself; what is wrong with the frame as a whole is
//! answered under the frame's id.
//!
//! A part: keyspace (4), partition (4), partition epoch (8), kind (2), flags (2: 1 what is read is to be held), length (4),
//! and the body as in a frame of its own. An answer: request id (8), kind (2), for how many us what was read is held (2),
//! length (4), and the body likewise. Both stand one behind the other to the end of the frame's body.

use super::Message;
use crate::elements::Element;
use crate::error::{Failure, What};
use crate::fields::{FieldReader, layout, split};
use crate::header::Envelope;
use crate::ids::{KeyspaceId, PartitionEpoch, PartitionId, RequestId};
use crate::kind::Kind;
use crate::limits::GATHERED_MAX;

/// Bytes in front of a request.
const REQUEST_HEADER_BYTES: usize = 24;

/// The flag of a request that is to be held.
const HOLD: u16 = 1;

/// Bytes in front of an answer.
pub(crate) const ANSWER_HEADER_BYTES: usize = 16;

/// A request about one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GatheredRequest<'a> {
    /// The keyspace.
    pub keyspace: KeyspaceId,
    /// The partition within the keyspace.
    pub partition: PartitionId,
    /// The epoch of the partition that it was routed with.
    pub partition_epoch: PartitionEpoch,
    /// Number of its kind: one of those for a partition.
    pub kind: u16,
    /// What it reads is to be held: see [`Envelope::hold`].
    pub hold: bool,
    /// Its body.
    pub body: &'a [u8],
}

/// An answer to one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GatheredAnswer<'a> {
    /// The id of the request.
    pub request: RequestId,
    /// Number of its kind: one of those that answer.
    pub kind: u16,
    /// See [`Envelope::held_us`].
    pub held_us: u16,
    /// Its body.
    pub body: &'a [u8],
}

impl<'a> GatheredRequest<'a> {
    /// Writes what stands in front of a body of `length` bytes.
    #[inline]
    pub fn put_header(&self, length: usize, out: &mut Vec<u8>) {
        // Whoever writes it bounds the frame, far below 2^32 bytes.
        let fields: [u8; REQUEST_HEADER_BYTES] = layout(|to| {
            to.u32(self.keyspace.0)
                .u32(self.partition.0)
                .u64(self.partition_epoch.0)
                .u16(self.kind)
                .u16(self.hold.into())
                .u32(length as u32)
        });
        out.extend_from_slice(&fields);
    }

    /// Whom it is for, as the part in this place, from 1, of the frame of this envelope.
    #[must_use]
    pub fn envelope(&self, frame: &Envelope, place: u32) -> Envelope {
        let Self { keyspace, partition, partition_epoch, hold, .. } = *self;
        let request = RequestId(frame.request.0.wrapping_add(place.into()));
        Envelope { request, keyspace, partition, partition_epoch, time_out_ms: frame.time_out_ms, hold }
    }

    /// What it asks. Errors: to be sent as its answer; the others are not concerned.
    #[inline]
    pub fn message(&self) -> Result<Message<'a>, Failure<'static>> {
        let kind = Kind::from_number(self.kind).ok_or(Failure::UnknownKind { kind: self.kind })?;
        if !kind.is_for_partition() {
            return Err(What::Unexpected.into());
        }
        Message::take(kind, self.body)
    }
}

impl<'a> GatheredAnswer<'a> {
    /// What stands in front of a body of `length` bytes.
    #[inline]
    pub(crate) fn header(envelope: &Envelope, kind: Kind, length: usize) -> [u8; ANSWER_HEADER_BYTES] {
        // Less than was promised is as true.
        let held_us = u16::try_from(envelope.held_us()).unwrap_or(u16::MAX);
        layout(|to| to.u64(envelope.request.0).u16(kind.number()).u16(held_us).u32(length as u32))
    }

    /// What it says. Errors: it cannot be read; the others are not concerned.
    #[inline]
    pub fn message(&self) -> Result<Message<'a>, Failure<'static>> {
        let kind = Kind::from_number(self.kind).ok_or(Failure::UnknownKind { kind: self.kind })?;
        if !kind.is_answer() || kind == Kind::Gathered {
            return Err(What::Unexpected.into());
        }
        Message::take(kind, self.body)
    }
}

impl<'a> Element<'a> for GatheredRequest<'a> {
    const COUNT_MAX: u32 = GATHERED_MAX;

    fn put(&self, out: &mut Vec<u8>) -> Result<&[u8], Failure<'static>> {
        self.put_header(self.body.len(), out);
        Ok(self.body)
    }

    #[inline]
    fn take(bytes: &mut &'a [u8]) -> Result<Self, Failure<'static>> {
        let (mut fields, rest) = FieldReader::<REQUEST_HEADER_BYTES>::split(bytes)?;
        let (keyspace, partition) = (KeyspaceId(fields.u32()), PartitionId(fields.u32()));
        let (partition_epoch, kind) = (PartitionEpoch(fields.u64()), fields.u16());
        let hold = match fields.u16() {
            flags @ (0 | HOLD) => flags == HOLD,
            _ => return Err(What::Flags.into()),
        };
        let length = fields.u32() as usize;
        fields.done()?;
        let (body, rest) = split(rest, length)?;
        *bytes = rest;
        Ok(Self { keyspace, partition, partition_epoch, kind, hold, body })
    }
}

impl<'a> Element<'a> for GatheredAnswer<'a> {
    const COUNT_MAX: u32 = GATHERED_MAX;

    fn put(&self, out: &mut Vec<u8>) -> Result<&[u8], Failure<'static>> {
        let Self { request, kind, held_us, body } = *self;
        let fields: [u8; ANSWER_HEADER_BYTES] =
            layout(|to| to.u64(request.0).u16(kind).u16(held_us).u32(body.len() as u32));
        out.extend_from_slice(&fields);
        Ok(body)
    }

    #[inline]
    fn take(bytes: &mut &'a [u8]) -> Result<Self, Failure<'static>> {
        let (mut fields, rest) = FieldReader::<ANSWER_HEADER_BYTES>::split(bytes)?;
        let (request, kind, held_us) = (RequestId(fields.u64()), fields.u16(), fields.u16());
        let length = fields.u32() as usize;
        fields.done()?;
        let (body, rest) = split(rest, length)?;
        *bytes = rest;
        Ok(Self { request, kind, held_us, body })
    }
}
