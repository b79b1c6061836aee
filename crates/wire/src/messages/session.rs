//! Sessions: a client opens one, and all its writes carry it.

use crate::error::{BadRequestReason, Failure};
use crate::fields::{FieldReader, layout, nothing_left};
use crate::ids::{Sequence, SessionId, Timestamp};
use crate::limits::SESSION_WINDOW_MAX;

/// The write identity: the position of a write, or a batch, in its session. 40 bytes: session (16: time of issue, nonce), sequence (8), lowest
/// unanswered (8), seen (8).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    /// The session, or `NONE` for a write whose client accepts an unknown outcome after a lost connection.
    pub session: SessionId,
    /// The number of this write in its session and partition; in a batch, of its first write. Zero without a session.
    pub sequence: Sequence,
    /// The lowest number without an answer in this partition: the partition may forget outcomes below it, and drops requests below it.
    pub lowest_unanswered: Sequence,
    /// The highest timestamp that the session has seen; the partition's clock does not fall behind it.
    pub seen: Timestamp,
}

impl Stamp {
    /// Length of a stamp in bytes.
    pub const BYTES: usize = 40;

    /// The encoded stamp at the start of the body of a write, or of a batch. Errors: it contradicts itself.
    pub fn encode(&self) -> Result<[u8; Self::BYTES], Failure<'static>> {
        self.check()?;
        Ok(layout(|to| {
            to.u64(self.session.issued.0)
                .u64(self.session.nonce)
                .u64(self.sequence.0)
                .u64(self.lowest_unanswered.0)
                .u64(self.seen.0)
        }))
    }

    pub(crate) fn split(body: &[u8]) -> Result<(Self, &[u8]), Failure<'static>> {
        let (mut fields, rest) = FieldReader::<{ Self::BYTES }>::split(body)?;
        let stamp = Self {
            session: SessionId { issued: Timestamp(fields.u64()), nonce: fields.u64() },
            sequence: Sequence(fields.u64()),
            lowest_unanswered: Sequence(fields.u64()),
            seen: Timestamp(fields.u64()),
        };
        stamp.check()?;
        Ok((stamp, rest))
    }

    fn check(&self) -> Result<(), Failure<'static>> {
        if self.session.is_some() != (self.sequence.0 != 0) {
            return Err(BadRequestReason::HalfSession.into());
        }
        let lowest = self.lowest_unanswered.0;
        if lowest > self.sequence.0 || self.sequence.0 - lowest > SESSION_WINDOW_MAX {
            return Err(BadRequestReason::Window.into());
        }
        Ok(())
    }
}

/// Requests a session. It has no body: the server chooses what makes the session unique.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionOpen;

impl SessionOpen {
    pub(crate) fn decode_body(body: &[u8]) -> Result<Self, Failure<'static>> {
        nothing_left(body)?;
        Ok(Self)
    }
}

/// A new session. 24 bytes: session (16), idle time (4), zero (4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionOpened {
    /// Its id, which contains the server time of its issue.
    pub session: SessionId,
    /// Minimum time for which partitions remember the session after its last write to them, in milliseconds.
    pub idle_ms: u32,
}

impl SessionOpened {
    pub(crate) fn encode(&self) -> [u8; 24] {
        layout(|to| to.u64(self.session.issued.0).u64(self.session.nonce).u32(self.idle_ms).zeros(4))
    }

    pub(crate) fn decode_body(body: &[u8]) -> Result<Self, Failure<'static>> {
        let (mut fields, rest) = FieldReader::<24>::split(body)?;
        let session = SessionId { issued: Timestamp(fields.u64()), nonce: fields.u64() };
        let idle_ms = fields.u32();
        fields.zeros(4);
        fields.done()?;
        nothing_left(rest)?;
        Ok(Self { session, idle_ms })
    }
}
