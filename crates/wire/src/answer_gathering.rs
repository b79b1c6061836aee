//! Coalescing of answers: the first answer in a send buffer gets a frame of its own, and those after it share one. A single answer therefore looks
//! the same as without coalescing. Of a hundred answers, each has a prefix of 16 bytes and no checksum of its own.

use crate::encode::Encoder;
use crate::error::Failure;
use crate::header::Envelope;
use crate::ids::RequestId;
use crate::kind::FrameKind;
use crate::limits::{COALESCED_BYTES, COALESCED_MAX, SPLIT_BYTES_MIN};
use crate::messages::{ANSWER_HEADER_BYTES, GatheredAnswer, Message};
use crate::tail::Tail;

/// The state of the end of a send buffer. The caller must call [`AnswerGathering::close`] before it adds anything else to the buffer, or sends it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AnswerGathering(BufferEnd);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum BufferEnd {
    /// No frame that a further answer could join.
    #[default]
    Other,
    /// An answer in a frame of its own.
    One,
    /// An open frame of several answers, which begins at `start`.
    Several { start: usize, count: u32 },
}

impl AnswerGathering {
    /// Adds an answer. If its last bytes are many, they are not added but returned: the caller must send them directly after `out`, whose open
    /// frame is then closed. Errors: a limit is exceeded, and nothing was added.
    #[inline]
    pub fn add<'m>(
        &mut self,
        encoder: &Encoder,
        envelope: &Envelope,
        answer: &'m Message<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Tail<'m>, Failure<'static>> {
        if matches!(answer, Message::Answer(Ok(outcome)) if outcome.multi_buffer_length().is_some_and(|length| length >= SPLIT_BYTES_MIN))
        {
            return self.add_single(encoder, envelope, answer, out);
        }
        let (start, count) = match self.0 {
            BufferEnd::Several { start, count }
                if count < COALESCED_MAX && out.len() - start < COALESCED_BYTES =>
            {
                (start, count)
            }
            BufferEnd::One => (encoder.begin(out), 0),
            BufferEnd::Several { .. } | BufferEnd::Other => {
                return self.add_single(encoder, envelope, answer, out);
            }
        };
        self.0 = BufferEnd::Several { start, count: count + 1 };
        let at = out.len();
        out.extend_from_slice(&[0; ANSWER_HEADER_BYTES]);
        let body_at = out.len();
        match answer.put(out) {
            Ok(tail) if out.len() - body_at + tail.len() < SPLIT_BYTES_MIN => {
                out.extend_from_slice(tail);
                let header = GatheredAnswer::header(envelope, answer.kind(), out.len() - body_at);
                out[at..body_at].copy_from_slice(&header);
                Ok(Tail::One(&[]))
            }
            other => {
                self.remove_part(start, at, count, out);
                other?;
                self.add_single(encoder, envelope, answer, out)
            }
        }
    }

    /// Closes the open frame, if there is one.
    #[inline]
    pub fn close(&mut self, encoder: &Encoder, out: &mut Vec<u8>) {
        if let BufferEnd::Several { start, .. } = std::mem::take(&mut self.0) {
            // The frame answers several requests, each named inside it.
            let envelope = Envelope { request: RequestId(0), ..Envelope::default() };
            encoder.end(start, &envelope, FrameKind::Gathered, out);
        }
    }

    /// Resets the state for a buffer that is discarded.
    pub fn reset(&mut self) {
        self.0 = BufferEnd::Other;
    }

    fn add_single<'m>(
        &mut self,
        encoder: &Encoder,
        envelope: &Envelope,
        answer: &'m Message<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Tail<'m>, Failure<'static>> {
        self.close(encoder, out);
        let tail = encoder.encode_multi_buffer(envelope, answer, out)?;
        self.0 = if tail.is_empty() { BufferEnd::One } else { BufferEnd::Other };
        Ok(tail)
    }

    /// Removes the first part of an answer at `at`, and of its frame if the answer is the first in it.
    fn remove_part(&mut self, start: usize, at: usize, count: u32, out: &mut Vec<u8>) {
        let (end, length) = match count {
            0 => (BufferEnd::One, start),
            _ => (BufferEnd::Several { start, count }, at),
        };
        self.0 = end;
        out.truncate(length);
    }
}
