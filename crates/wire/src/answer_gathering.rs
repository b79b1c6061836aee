//! Answers that share frames: the first that goes into a send buffer has a frame of its own, those behind it go into one
//! together. So a lone answer is what it always was, and of a hundred each has 16 bytes in front of it and no checksum.

use crate::encode::Encoder;
use crate::error::Failure;
use crate::header::Envelope;
use crate::ids::RequestId;
use crate::kind::Kind;
use crate::limits::{GATHERED_BYTES, GATHERED_MAX, SPLIT_BYTES_MIN};
use crate::messages::{ANSWER_HEADER_BYTES, GatheredAnswer, Message};
use crate::tail::Tail;

/// How a send buffer ends, as far as answers are concerned. [`AnswerGathering::close`] comes before anything else is added to the
/// buffer, or taken from it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AnswerGathering(BufferEnd);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum BufferEnd {
    /// With nothing that another answer would join.
    #[default]
    Other,
    /// With an answer in a frame of its own.
    One,
    /// With a frame of several, which begins here and is not ended.
    Several { start: usize, count: u32 },
}

impl AnswerGathering {
    /// Adds an answer but for its last bytes if these are many: they are returned, to be sent from where they lie right after
    /// `out`, which is closed then. Errors: a bound is passed; nothing was added.
    #[inline]
    pub fn add<'m>(
        &mut self,
        encoder: &Encoder,
        envelope: &Envelope,
        answer: &'m Message<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Tail<'m>, Failure<'static>> {
        if matches!(answer, Message::Answer(Ok(outcome)) if outcome.length_apart().is_some_and(|length| length >= SPLIT_BYTES_MIN))
        {
            return self.add_alone(encoder, envelope, answer, out);
        }
        let (start, count) = match self.0 {
            BufferEnd::Several { start, count }
                if count < GATHERED_MAX && out.len() - start < GATHERED_BYTES =>
            {
                (start, count)
            }
            BufferEnd::One => (encoder.begin(out), 0),
            BufferEnd::Several { .. } | BufferEnd::Other => {
                return self.add_alone(encoder, envelope, answer, out);
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
                self.take_back(start, at, count, out);
                other?;
                self.add_alone(encoder, envelope, answer, out)
            }
        }
    }

    /// Ends the frame that is not ended, if there is one.
    #[inline]
    pub fn close(&mut self, encoder: &Encoder, out: &mut Vec<u8>) {
        if let BufferEnd::Several { start, .. } = std::mem::take(&mut self.0) {
            // It answers several requests, each named within.
            let nobody = Envelope { request: RequestId(0), ..Envelope::default() };
            encoder.end(start, &nobody, Kind::Gathered, out);
        }
    }

    /// Forgets what is in a buffer that is thrown away.
    pub fn forget(&mut self) {
        self.0 = BufferEnd::Other;
    }

    fn add_alone<'m>(
        &mut self,
        encoder: &Encoder,
        envelope: &Envelope,
        answer: &'m Message<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Tail<'m>, Failure<'static>> {
        self.close(encoder, out);
        let tail = encoder.encode_apart(envelope, answer, out)?;
        self.0 = if tail.is_empty() { BufferEnd::One } else { BufferEnd::Other };
        Ok(tail)
    }

    /// Undoes the beginning of an answer at `at`, and of its frame if it is the first there.
    fn take_back(&mut self, start: usize, at: usize, count: u32, out: &mut Vec<u8>) {
        let (end, length) = match count {
            0 => (BufferEnd::One, start),
            _ => (BufferEnd::Several { start, count }, at),
        };
        self.0 = end;
        out.truncate(length);
    }
}
