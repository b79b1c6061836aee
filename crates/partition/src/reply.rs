//! Replies that own their bytes, until they may be sent.

use zerohop_wire::ids::Timestamp;
use zerohop_wire::messages::{OperationAnswer, Outcome};
use zerohop_wire::{Elements, Failure, Message, pack};

use crate::event::{PartitionEffects, Token};

/// An answer that owns its bytes.
#[derive(Debug)]
pub(crate) enum Reply {
    /// An answer without contents.
    Small(OperationAnswer<'static>),
    /// A single answer, as [`pack`] writes it.
    Packed {
        /// The answer.
        packed: Vec<u8>,
        /// It is the answer of a write that returns contents.
        is_of_write: bool,
    },
    /// The reply of an atomic batch, as its program wrote it.
    Raw(Vec<u8>),
    /// A transaction message to another partition. It is dropped if it cannot be sent.
    Transaction(Box<zerohop_transaction::Message>),
    /// The answers of a batch.
    Batch { count: u32, packed: Vec<u8> },
}

impl Reply {
    pub(crate) fn of(answer: &OperationAnswer<'_>) -> Reply {
        match answer {
            Ok(Outcome::Done { version, number }) => {
                Reply::Small(Ok(Outcome::Done { version: *version, number: *number }))
            }
            Ok(Outcome::Counter { version, value }) => {
                Reply::Small(Ok(Outcome::Counter { version: *version, value: *value }))
            }
            Ok(_) => Reply::Packed { packed: packed(answer), is_of_write: false },
            Err(failure) => Reply::Small(Err(failure.clone().into_owned())),
        }
    }

    /// The answer of a write.
    pub(crate) fn of_write(answer: &OperationAnswer<'_>) -> Reply {
        match Reply::of(answer) {
            Reply::Packed { packed, .. } => Reply::Packed { packed, is_of_write: true },
            other => other,
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        match self {
            Reply::Small(_) | Reply::Transaction(_) => 0,
            Reply::Raw(bytes) | Reply::Packed { packed: bytes, .. } | Reply::Batch { packed: bytes, .. } => {
                bytes.len()
            }
        }
    }

    /// The failure that is sent instead of this reply, if `failure` prevents it. `Unavailable` promises that nothing was done.
    /// But this request was evaluated, and if it wrote, its entry is in a log and may still be committed.
    fn failure_for(&self, failure: &Failure<'static>) -> Failure<'static> {
        let may_write = match self {
            Reply::Small(answer) => answer.is_ok(),
            Reply::Packed { is_of_write, .. } => *is_of_write,
            Reply::Raw(_) | Reply::Batch { .. } => true,
            Reply::Transaction(_) => false,
        };
        match failure {
            Failure::Unavailable { .. } if may_write => Failure::TimedOut { version: Timestamp::ZERO },
            other => other.clone(),
        }
    }

    pub(crate) fn fail(&self, to: Token, failure: &Failure<'static>, effects: &mut dyn PartitionEffects) {
        if !matches!(self, Reply::Transaction(_)) {
            effects.answer(to, &Message::Answer(Err(self.failure_for(failure))));
        }
    }

    /// Sends the reply at once; the record read is read-locked for so many microseconds.
    pub(crate) fn send_read_locked(&self, to: Token, read_lock_us: u32, effects: &mut dyn PartitionEffects) {
        match self {
            Reply::Batch { count, packed } if read_lock_us > 0 => match Elements::packed(*count, packed) {
                Ok(answers) => effects.answer_read_locked(to, &Message::BatchAnswer(answers), read_lock_us),
                Err(failure) => effects.answer(to, &Message::Answer(Err(failure))),
            },
            _ => self.send(to, effects),
        }
    }

    pub(crate) fn send(&self, to: Token, effects: &mut dyn PartitionEffects) {
        match self {
            Reply::Small(answer) => effects.answer(to, &Message::Answer(answer.clone())),
            Reply::Packed { packed, .. } => {
                let answer = Elements::<OperationAnswer<'_>>::packed(1, packed)
                    .ok()
                    .and_then(|many| many.iter().next());
                effects.answer(to, &Message::Answer(answer.unwrap_or(Err(Failure::DiskFailed))));
            }
            Reply::Raw(bytes) => effects.reply(to, bytes),
            Reply::Transaction(message) => effects.transaction((**message).clone()),
            Reply::Batch { count, packed } => match Elements::packed(*count, packed) {
                Ok(answers) => effects.answer(to, &Message::BatchAnswer(answers)),
                Err(failure) => effects.answer(to, &Message::Answer(Err(failure))),
            },
        }
    }
}

/// A single answer as [`Elements::packed`] reads it back.
pub(crate) fn packed(answer: &OperationAnswer<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    push_packed(answer, &mut out);
    out
}

/// Appends an answer behind others. An answer that exceeds a bound of the wire is replaced by that failure.
pub(crate) fn push_packed(answer: &OperationAnswer<'_>, out: &mut Vec<u8>) {
    let begin = out.len();
    if let Err(failure) = pack(answer, out) {
        out.truncate(begin);
        // A failure without contents exceeds no bound.
        let failed: OperationAnswer<'_> = Err(failure);
        let packed = pack(&failed, out);
        debug_assert!(packed.is_ok());
    }
}

#[cfg(test)]
mod tests {
    use zerohop_wire::ids::RequestId;

    use super::*;
    use crate::testing::CollectedEffects;

    /// `take` is a write whose answer has the form of a read's.
    #[test]
    fn write_that_returns_contents_is_in_doubt_and_read_is_not() {
        let answer = Ok(Outcome::Value { version: Timestamp(7), length: 3, bytes: b"abc" });
        let unavailable = Failure::Unavailable { retry_after_ms: 20 };
        let fail = |reply: Reply| {
            let mut out = CollectedEffects::default();
            reply.fail(Token { connection: 1, request: RequestId(1) }, &unavailable, &mut out);
            out.answers.pop_first().map(|(_, answered)| format!("{answered:?}"))
        };
        let failed =
            |failure: &Failure<'static>| Some(format!("{:?}", Err::<Outcome<'_>, _>(failure.clone())));
        assert_eq!(fail(Reply::of(&answer)), failed(&unavailable));
        assert_eq!(fail(Reply::of_write(&answer)), failed(&Failure::TimedOut { version: Timestamp::ZERO }));
    }
}
