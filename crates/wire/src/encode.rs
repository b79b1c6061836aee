//! Encoding of messages to frames.

use crate::checksum::{crc32c, crc32c_joined, crc32c_of};
use crate::compress::compress_from;
use crate::error::Failure;
use crate::header::{Envelope, Flags, FrameHeader, HEADER_BYTES, TraceContext};
use crate::kind::FrameKind;
use crate::limits::{BODY_BYTES_MAX, COMPRESS_BYTES_MIN, SPLIT_BYTES_MIN, VERSION_MAX};
use crate::messages::{Message, OperationAnswer, Outcome};
use crate::tail::Tail;
use crate::version::GREETING_VERSION;
use zerohop_record::answer;

/// Writes frames with the version and features that a connection has agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encoder {
    /// The version chosen in `HelloAck`.
    pub version: u8,
    /// Whether bodies have a checksum. Default: yes, because TCP's 16-bit checksum misses one corrupt segment in 65,536.
    pub body_checksum: bool,
    /// Bodies of at least this length are compressed if that makes them shorter; only if both sides have the feature.
    pub compress_from_bytes: Option<usize>,
}

impl Default for Encoder {
    fn default() -> Self {
        Self { version: GREETING_VERSION, body_checksum: true, compress_from_bytes: None }
    }
}

impl Encoder {
    /// The encoder of a connection of the newest version for this message: a greeting has a version of its own.
    #[must_use]
    pub fn newest_for(message: &Message<'_>) -> Self {
        let version = match message {
            Message::Hello(_) | Message::HelloAck(_) => GREETING_VERSION,
            _ => VERSION_MAX,
        };
        Self { version, ..Self::default() }
    }

    /// Appends the frame to `out`. Errors: a limit is exceeded or fields contradict each other; `out` is unchanged.
    pub fn encode(
        &self,
        envelope: &Envelope,
        message: &Message<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), Failure<'static>> {
        self.write(envelope, message, usize::MAX, out).map(|_| ())
    }

    /// Same as [`Self::encode_split`], for a message whose last bytes may be in several buffers.
    pub fn encode_multi_buffer<'m>(
        &self,
        envelope: &Envelope,
        message: &'m Message<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Tail<'m>, Failure<'static>> {
        let Message::Answer(answer) = message else {
            return self.encode_split(envelope, message, out).map(Tail::One);
        };
        let start = out.len();
        let written = self.write_multi_buffer(start, envelope, answer, out);
        if written.is_err() {
            out.truncate(start);
        }
        match written? {
            Some(tail) => Ok(tail),
            None => self.encode_split(envelope, message, out).map(Tail::One),
        }
    }

    /// Appends the frame to `out`. If its last bytes are many, they are not appended but returned: the caller must send them directly after `out`.
    /// Errors: as [`Self::encode`].
    pub fn encode_split<'m>(
        &self,
        envelope: &Envelope,
        message: &'m Message<'_>,
        out: &mut Vec<u8>,
    ) -> Result<&'m [u8], Failure<'static>> {
        self.write(envelope, message, SPLIT_BYTES_MIN, out)
    }

    /// Same as [`Self::encode`], with a trace context in front of the message.
    pub fn encode_traced(
        &self,
        envelope: &Envelope,
        message: &Message<'_>,
        trace: &TraceContext,
        out: &mut Vec<u8>,
    ) -> Result<(), Failure<'static>> {
        let start = out.len();
        self.begin(out);
        out.extend_from_slice(&trace.0);
        let written = message.put(out).and_then(|tail| {
            out.extend_from_slice(tail);
            let body_len = out.len() - start - HEADER_BYTES;
            match body_len <= BODY_BYTES_MAX {
                true => Ok(body_len),
                false => Err(Failure::FrameTooLong { length: body_len as u64, limit: BODY_BYTES_MAX as u32 }),
            }
        });
        match written {
            Ok(body_len) => self.seal(
                start,
                envelope,
                (message.kind(), Flags::TRACE),
                (body_len, Tail::One(&[]), None),
                out,
            ),
            Err(_) => out.truncate(start),
        }
        written.map(|_| ())
    }

    #[inline]
    fn write<'m>(
        &self,
        envelope: &Envelope,
        message: &'m Message<'_>,
        split_from: usize,
        out: &mut Vec<u8>,
    ) -> Result<&'m [u8], Failure<'static>> {
        let start = out.len();
        let written = self.write_at(start, envelope, message, split_from, out);
        if written.is_err() {
            out.truncate(start);
        }
        written
    }

    /// Reserves the header of a frame whose body the caller then appends to `out`, until it calls [`Self::end`]. Returns where the frame begins.
    #[inline]
    pub fn begin(&self, out: &mut Vec<u8>) -> usize {
        let start = out.len();
        out.extend_from_slice(&[0; HEADER_BYTES]);
        start
    }

    /// Ends the frame that begins at `start`: everything after its header is its body.
    ///
    /// # Panics
    /// If the body exceeds the maximum length, which the caller must prevent.
    pub fn end(&self, start: usize, envelope: &Envelope, kind: FrameKind, out: &mut Vec<u8>) {
        let body_len = out.len() - start - HEADER_BYTES;
        assert!(body_len <= BODY_BYTES_MAX, "a body of {body_len} bytes was put together");
        self.seal(start, envelope, (kind, Flags::default()), (body_len, Tail::One(&[]), None), out);
    }

    /// Writes the frame of an answer whose payload is in several buffers and is long enough to be sent from there. `None`: it is not, and nothing
    /// was written.
    #[inline]
    fn write_multi_buffer<'m>(
        &self,
        start: usize,
        envelope: &Envelope,
        answer: &'m OperationAnswer<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Option<Tail<'m>>, Failure<'static>> {
        let Some(length) = answer.as_ref().ok().and_then(Outcome::multi_buffer_length) else {
            return Ok(None);
        };
        if length < SPLIT_BYTES_MIN || self.compresses(length) {
            return Ok(None);
        }
        self.begin(out);
        let body_at = start + HEADER_BYTES;
        let Some((pieces, crc)) = answer::put_multi_buffer(answer, out)? else {
            unreachable!("its length was asked above")
        };
        let body_len = out.len() - body_at + length;
        if body_len > BODY_BYTES_MAX {
            return Err(Failure::FrameTooLong { length: body_len as u64, limit: BODY_BYTES_MAX as u32 });
        }
        let tail = Tail::Several(pieces);
        self.seal(start, envelope, (FrameKind::Answer, Flags::default()), (body_len, tail, crc), out);
        Ok(Some(tail))
    }

    #[inline]
    fn write_at<'m>(
        &self,
        start: usize,
        envelope: &Envelope,
        message: &'m Message<'_>,
        split_from: usize,
        out: &mut Vec<u8>,
    ) -> Result<&'m [u8], Failure<'static>> {
        self.begin(out);
        let body_at = start + HEADER_BYTES;
        let mut tail = message.put(out)?;
        let body_len = out.len() - body_at + tail.len();
        if body_len > BODY_BYTES_MAX {
            return Err(Failure::FrameTooLong { length: body_len as u64, limit: BODY_BYTES_MAX as u32 });
        }
        if self.compresses(body_len) || tail.len() < split_from {
            out.extend_from_slice(tail);
            tail = &[];
        }
        self.seal(
            start,
            envelope,
            (message.kind(), Flags::default()),
            (body_len, Tail::One(tail), None),
            out,
        );
        Ok(tail)
    }

    fn compresses(&self, body_len: usize) -> bool {
        self.compress_from_bytes.is_some_and(|from| body_len >= from.max(COMPRESS_BYTES_MIN))
    }

    /// Compresses the body, and writes its header. `tail` is the end of the body that is not in `out`, with its checksum if that is known.
    #[inline]
    fn seal(
        &self,
        start: usize,
        envelope: &Envelope,
        (kind, mut flags): (FrameKind, Flags),
        (mut body_len, tail, tail_crc): (usize, Tail<'_>, Option<u32>),
        out: &mut Vec<u8>,
    ) {
        let body_at = start + HEADER_BYTES;
        if self.compresses(body_len) && compress_from(out, body_at) {
            flags = flags.with(Flags::LZ4);
            body_len = out.len() - body_at;
        }
        let mut body_crc = 0;
        if self.body_checksum {
            flags = flags.with(Flags::BODY_CHECKSUM);
            body_crc = match tail_crc {
                Some(crc) => crc32c_joined(crc32c(&out[body_at..]), crc, tail.len() as u64),
                None => crc32c_of(&out[body_at..], tail.pieces()),
            };
        }
        let header = FrameHeader {
            version: self.version,
            kind: kind.number(),
            flags,
            envelope: *envelope,
            body_len: body_len as u32,
            body_crc,
        };
        match out[start..].first_chunk_mut() {
            Some(to) => header.write_to(to),
            None => unreachable!("room for a header was made above"),
        }
    }
}
