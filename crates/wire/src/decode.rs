//! Bytes to frames, and frames to messages.
//!
//! What can be wrong falls into two classes. While the header can be trusted, the frame's end is known and its request
//! can be answered: the connection goes on. If it cannot, nobody knows where the next frame begins: it is closed.

use std::fmt;

use crate::checksum::crc32c;
use crate::compress::expand;
use crate::error::{Failure, What};
use crate::header::{Envelope, Flags, FrameHeader, HEADER_BYTES, MAGIC};
use crate::kind::Kind;
use crate::limits::{BODY_BYTES_MAX, HELLO_BODY_BYTES_MAX, TIME_OUT_MS_MAX};
use crate::messages::Message;
use crate::version::{Features, GREETING_VERSION};

/// Finds frames in the bytes that a connection has received. It holds no bytes: the caller's buffer does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decoder {
    version: u8,
    body_bytes_max: u32,
    features: Features,
}

/// What stands at the front of the bytes received.
#[derive(Debug, PartialEq)]
pub enum DecodeResult<'b> {
    /// Not yet a whole frame: ask again when the buffer holds this many bytes in all.
    Need(usize),
    /// A frame, whole and undamaged.
    Frame {
        /// The frame.
        frame: Frame<'b>,
        /// Bytes of the buffer that it took.
        used: usize,
    },
    /// A frame that cannot be taken up. Answer it with the failure if it was a request; the connection goes on.
    Refused {
        /// Whom it was for.
        envelope: Envelope,
        /// Whether it was an answer: then whoever waits for it asks again, and nothing is sent.
        is_answer: bool,
        /// Why.
        failure: Failure<'static>,
        /// Bytes of the buffer that it took.
        used: usize,
    },
    /// No frame, nor a way to find the next one: close the connection.
    Broken(BrokenStream),
}

/// Why a connection cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BrokenStream {
    /// The bytes do not begin as a frame does.
    Magic {
        /// The first of them.
        first: u8,
    },
    /// The header does not match its checksum.
    HeaderChecksum,
    /// The frame is of a version that was not agreed on.
    Version {
        /// Whom it was for.
        envelope: Envelope,
        /// Its version.
        got: u8,
        /// The version agreed on.
        agreed: u8,
    },
    /// The frame is longer than any may be, or than a greeting may be before the connection is greeted.
    TooLong {
        /// Whom it was for.
        envelope: Envelope,
        /// Bytes of its body.
        length: u32,
        /// Bytes it may have.
        limit: u32,
    },
}

/// A frame whose header and checksums are right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'b> {
    /// What it is.
    pub kind: Kind,
    /// Whom it is for.
    pub envelope: Envelope,
    body: &'b [u8],
    compressed: bool,
}

impl Decoder {
    /// For a new connection: takes short frames of the greeting's version.
    #[must_use]
    pub const fn before_hello() -> Self {
        Self { version: GREETING_VERSION, body_bytes_max: HELLO_BODY_BYTES_MAX as u32, features: Features(0) }
    }

    /// For a connection that has greeted, and of which no proof has come: short frames still.
    #[must_use]
    pub const fn before_proof(version: u8) -> Self {
        Self { version, ..Self::before_hello() }
    }

    /// For a connection whose two sides have agreed on a version and features.
    #[must_use]
    pub const fn agreed(version: u8, features: Features) -> Self {
        Self { version, body_bytes_max: BODY_BYTES_MAX as u32, features }
    }

    /// Looks at the front of `bytes`.
    #[must_use]
    #[inline]
    pub fn decode<'b>(&self, bytes: &'b [u8]) -> DecodeResult<'b> {
        let Some((header, rest)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
            // Say so at once if this will never be a frame, rather than wait for more of it.
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
                let frame = Frame { kind, envelope, body, compressed: header.flags.has(Flags::LZ4) };
                DecodeResult::Frame { frame, used }
            }
            Err(failure) => {
                DecodeResult::Refused { envelope, is_answer: header.kind & 0x8000 != 0, failure, used }
            }
        }
    }

    /// Whom the frame at the front of `bytes` is for, once its header is there and right: so a receiver that has no
    /// room for the body can refuse it before it comes, and let it pass by.
    #[must_use]
    pub fn envelope(&self, bytes: &[u8]) -> Option<Envelope> {
        let header = bytes.first_chunk::<HEADER_BYTES>().filter(|header| header.starts_with(&MAGIC))?;
        FrameHeader::decode(header).map(|header| header.envelope)
    }

    fn check(&self, header: &FrameHeader, body: &[u8]) -> Result<Kind, Failure<'static>> {
        if !header.flags.all_known() {
            return Err(What::Flags.into());
        }
        if header.flags.has(Flags::BODY_CHECKSUM) {
            if crc32c(body) != header.body_crc {
                return Err(Failure::Corrupt);
            }
        } else if header.body_crc != 0 {
            return Err(What::Reserved.into());
        }
        let kind = Kind::from_number(header.kind).ok_or(Failure::UnknownKind { kind: header.kind })?;
        if header.flags.has(Flags::LZ4) && !self.features.has(Features::LZ4) {
            return Err(What::NotAgreed.into());
        }
        if matches!(kind, Kind::Gather | Kind::Gathered) && !self.features.has(Features::GATHER) {
            return Err(What::Unexpected.into());
        }
        if header.envelope.time_out_ms > TIME_OUT_MS_MAX {
            return Err(What::TimeOut.into());
        }
        Ok(kind)
    }
}

impl<'b> Frame<'b> {
    /// What the frame says. It borrows from the receive buffer; a compressed body is expanded into `scratch`, of which
    /// at most `BODY_BYTES_MAX` bytes are used. Errors: to be sent as the answer to the request; the connection goes on.
    #[inline]
    pub fn message<'s>(&self, scratch: &'s mut Vec<u8>) -> Result<Message<'s>, Failure<'static>>
    where
        'b: 's,
    {
        let body = if self.compressed { expand(self.body, scratch)? } else { self.body };
        Message::take(self.kind, body)
    }
}

impl BrokenStream {
    /// A last answer to send before closing, and to whom; `None` if the other side would not understand it.
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
