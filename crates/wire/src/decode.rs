//! Decoding: bytes to frames, and frames to messages.
//!
//! There are two classes of errors. As long as the header is valid, the end of the frame is known and its request can be answered: the connection
//! continues. If the header is invalid, the next frame cannot be found: the connection is closed.

use std::fmt;

use crate::checksum::crc32c;
use crate::compress::expand;
use crate::error::{BadRequestReason, Failure};
use crate::header::{Envelope, Flags, FrameHeader, HEADER_BYTES, MAGIC, TRACE_BYTES, TraceContext};
use crate::kind::FrameKind;
use crate::limits::{BODY_BYTES_MAX, HELLO_BODY_BYTES_MAX, TIME_OUT_MS_MAX};
use crate::messages::Message;
use crate::version::{Features, GREETING_VERSION};

/// Finds frames in the bytes that a connection has received. The bytes stay in the caller's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decoder {
    version: u8,
    body_bytes_max: u32,
    features: Features,
}

/// The result of decoding the front of the received bytes.
#[derive(Debug, PartialEq)]
pub enum DecodeResult<'b> {
    /// The frame is incomplete: try again when the buffer has this many bytes in total.
    Need(usize),
    /// A complete and valid frame.
    Frame {
        /// The frame.
        frame: Frame<'b>,
        /// Length of the frame in the buffer.
        used: usize,
    },
    /// A frame that cannot be accepted. If it was a request, answer it with the failure; the connection continues.
    Refused {
        /// The frame's envelope.
        envelope: Envelope,
        /// Whether it was an answer: then the receiver repeats its request, and sends no answer.
        is_answer: bool,
        /// The reason.
        failure: Failure<'static>,
        /// Length of the frame in the buffer.
        used: usize,
    },
    /// The bytes are not a frame, and the next frame cannot be found: close the connection.
    Broken(BrokenStream),
}

/// The reason why a connection cannot continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BrokenStream {
    /// The bytes do not begin with the magic number.
    Magic {
        /// The first wrong byte.
        first: u8,
    },
    /// The header does not match its checksum.
    HeaderChecksum,
    /// The frame has a version that was not agreed on.
    Version {
        /// The frame's envelope.
        envelope: Envelope,
        /// Its version.
        got: u8,
        /// The version agreed on.
        agreed: u8,
    },
    /// The frame exceeds the maximum length, or the lower maximum before the greeting is complete.
    TooLong {
        /// The frame's envelope.
        envelope: Envelope,
        /// Length of its body in bytes.
        length: u32,
        /// Maximum length in bytes.
        limit: u32,
    },
}

/// A frame with a valid header and valid checksums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'b> {
    /// The kind of the frame.
    pub kind: FrameKind,
    /// The frame's envelope.
    pub envelope: Envelope,
    body: &'b [u8],
    compressed: bool,
    traced: bool,
}

impl Decoder {
    /// A decoder for a new connection: it accepts short frames of the greeting's version.
    #[must_use]
    pub const fn before_hello() -> Self {
        Self { version: GREETING_VERSION, body_bytes_max: HELLO_BODY_BYTES_MAX as u32, features: Features(0) }
    }

    /// A decoder for a connection that has sent its greeting but no proof yet: it still accepts only short frames.
    #[must_use]
    pub const fn before_proof(version: u8) -> Self {
        Self { version, ..Self::before_hello() }
    }

    /// A decoder for a connection whose two sides have agreed on a version and features.
    #[must_use]
    pub const fn with_version(version: u8, features: Features) -> Self {
        Self { version, body_bytes_max: BODY_BYTES_MAX as u32, features }
    }

    /// The version of the frames that it accepts.
    #[must_use]
    pub const fn version(&self) -> u8 {
        self.version
    }

    /// Decodes the front of `bytes`.
    #[must_use]
    #[inline]
    pub fn decode<'b>(&self, bytes: &'b [u8]) -> DecodeResult<'b> {
        let Some((header, rest)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
            // Report bytes that can never become a frame at once, instead of waiting for more of them.
            return match bytes.iter().zip(MAGIC).find(|(byte, magic)| *byte != magic) {
                Some(_) => DecodeResult::Broken(BrokenStream::Magic { first: bytes[0] }),
                None => DecodeResult::Need(HEADER_BYTES),
            };
        };
        if !header.starts_with(&MAGIC) {
            return DecodeResult::Broken(BrokenStream::Magic { first: header[0] });
        }
        let Some(header) = FrameHeader::decode(header) else {
            return DecodeResult::Broken(BrokenStream::HeaderChecksum);
        };
        let envelope = header.envelope;
        if header.version != self.version {
            return DecodeResult::Broken(BrokenStream::Version {
                envelope,
                got: header.version,
                agreed: self.version,
            });
        }
        if header.body_len > self.body_bytes_max {
            let (length, limit) = (header.body_len, self.body_bytes_max);
            return DecodeResult::Broken(BrokenStream::TooLong { envelope, length, limit });
        }
        let used = HEADER_BYTES + header.body_len as usize;
        let Some(body) = rest.get(..header.body_len as usize) else {
            return DecodeResult::Need(used);
        };
        match self.check(&header, body) {
            Ok(kind) => {
                let (compressed, traced) = (header.flags.has(Flags::LZ4), header.flags.has(Flags::TRACE));
                let frame = Frame { kind, envelope, body, compressed, traced };
                DecodeResult::Frame { frame, used }
            }
            Err(failure) => {
                DecodeResult::Refused { envelope, is_answer: header.kind & 0x8000 != 0, failure, used }
            }
        }
    }

    /// The envelope of the frame at the front of `bytes`, if its header is complete and valid. A receiver without room for the body can therefore
    /// refuse the frame before its body arrives, and skip it.
    #[must_use]
    pub fn envelope(&self, bytes: &[u8]) -> Option<Envelope> {
        let header = bytes.first_chunk::<HEADER_BYTES>().filter(|header| header.starts_with(&MAGIC))?;
        FrameHeader::decode(header).map(|header| header.envelope)
    }

    fn check(&self, header: &FrameHeader, body: &[u8]) -> Result<FrameKind, Failure<'static>> {
        if !header.flags.all_known() {
            return Err(BadRequestReason::Flags.into());
        }
        if header.flags.has(Flags::BODY_CHECKSUM) {
            if crc32c(body) != header.body_crc {
                return Err(Failure::Corrupt);
            }
        } else if header.body_crc != 0 {
            return Err(BadRequestReason::Reserved.into());
        }
        let kind = FrameKind::from_number(header.kind).ok_or(Failure::UnknownKind { kind: header.kind })?;
        if header.flags.has(Flags::LZ4) && !self.features.has(Features::LZ4) {
            return Err(BadRequestReason::NotAgreed.into());
        }
        if matches!(kind, FrameKind::Gather | FrameKind::Gathered) && !self.features.has(Features::COALESCED)
        {
            return Err(BadRequestReason::Unexpected.into());
        }
        if header.envelope.time_out_ms > TIME_OUT_MS_MAX {
            return Err(BadRequestReason::TimeOut.into());
        }
        Ok(kind)
    }
}

impl<'b> Frame<'b> {
    /// Decodes the frame's message. It borrows from the receive buffer. A compressed body is expanded into `scratch`, of which at most
    /// `BODY_BYTES_MAX` bytes are used. Errors: the caller must send the error as the answer to the request; the connection continues.
    #[inline]
    pub fn message<'s>(&self, scratch: &'s mut Vec<u8>) -> Result<Message<'s>, Failure<'static>>
    where
        'b: 's,
    {
        self.traced_message(scratch).map(|(_, message)| message)
    }

    /// The same, with the trace context that came with it.
    #[inline]
    pub fn traced_message<'s>(
        &self,
        scratch: &'s mut Vec<u8>,
    ) -> Result<(Option<TraceContext>, Message<'s>), Failure<'static>>
    where
        'b: 's,
    {
        let mut body = if self.compressed { expand(self.body, scratch)? } else { self.body };
        let mut trace = None;
        if self.traced {
            let (context, rest) =
                body.split_first_chunk::<TRACE_BYTES>().ok_or(BadRequestReason::FieldsCut)?;
            (trace, body) = (Some(TraceContext(*context)), rest);
        }
        Ok((trace, Message::decode_kind(self.kind, body)?))
    }
}

impl BrokenStream {
    /// The last answer to send before the connection is closed, with its envelope; `None` if the peer would not understand it.
    #[must_use]
    pub fn last_answer(&self) -> Option<(Envelope, Failure<'static>)> {
        match *self {
            Self::Magic { .. } | Self::HeaderChecksum => None,
            Self::Version { envelope, agreed, .. } => {
                Some((envelope, Failure::UnsupportedVersion { min: agreed, max: agreed }))
            }
            Self::TooLong { envelope, length, limit } => {
                Some((envelope, Failure::FrameTooLong { length: length.into(), limit }))
            }
        }
    }
}

impl std::error::Error for BrokenStream {}

impl fmt::Display for BrokenStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Magic { first } => write!(
                f,
                "the connection is closed: a byte {first:#04x} stands where a frame should begin; is the other side a \
                 zerohop program?"
            ),
            Self::HeaderChecksum => f.write_str(
                "the connection is closed: a frame's header was damaged on the way; connect again and repeat",
            ),
            Self::Version { got, agreed, .. } => write!(
                f,
                "the connection is closed: a frame of version {got} came where version {agreed} was agreed on"
            ),
            Self::TooLong { length, limit, .. } => write!(
                f,
                "the connection is closed: a frame's body of {length} bytes is longer than {limit} bytes"
            ),
        }
    }
}
