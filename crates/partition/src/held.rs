//! Answers that wait until what they were evaluated over is committed.

use std::collections::VecDeque;

use zerohop_wire::ids::Timestamp;
use zerohop_wire::messages::{Answer, Outcome};
use zerohop_wire::{Failure, Many, Message, pack};

use crate::event::{Effects, Token};
use crate::limits::{HELD_ANSWERS_MAX, HELD_BYTES_MAX};

/// An answer that owns its bytes.
#[derive(Debug)]
pub(crate) enum Reply {
    /// Without contents.
    Small(Answer<'static>),
    /// One, as [`pack`] writes it.
    Packed(Vec<u8>),
    /// That of a unit, as its program wrote it.
    Raw(Vec<u8>),
    /// A message of a transaction, to another partition: lost if it cannot be sent.
    Transaction(Box<zerohop_transaction::Message>),
    /// Those of a batch.
    Batch { count: u32, packed: Vec<u8> },
}

/// The queue, in the order in which the answers were found. An answer behind another waits for that too, which is at
/// most the rest of a batch that is flushed together.
#[derive(Debug, Default)]
pub(crate) struct Held {
    queue: VecDeque<(u64, Token, Reply)>,
    bytes: usize,
    /// Nothing more will be committed: what would wait for that is answered so.
    failed: Option<Failure<'static>>,
}

impl Reply {
    pub(crate) fn of(answer: &Answer<'_>) -> Reply {
        match answer {
            Ok(Outcome::Done { version, number }) => {
                Reply::Small(Ok(Outcome::Done { version: *version, number: *number }))
            }
            Ok(Outcome::Counter { version, value }) => {
                Reply::Small(Ok(Outcome::Counter { version: *version, value: *value }))
            }
            Ok(_) => Reply::Packed(packed(answer)),
            Err(failure) => Reply::Small(Err(failure.clone().into_owned())),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Reply::Small(_) | Reply::Transaction(_) => 0,
            Reply::Packed(bytes) | Reply::Raw(bytes) | Reply::Batch { packed: bytes, .. } => bytes.len(),
        }
    }

    /// What is said instead of it, if this failure keeps it from being said. `Unavailable` promises that nothing was done; but
    /// this was evaluated, and if it wrote, its entry is in a log and may be committed yet.
    fn in_doubt(&self, failure: &Failure<'static>) -> Failure<'static> {
        let may_write = matches!(self, Reply::Small(Ok(_)) | Reply::Raw(_) | Reply::Batch { .. });
        match failure {
            Failure::Unavailable { .. } if may_write => Failure::TimedOut { version: Timestamp::ZERO },
            other => other.clone(),
        }
    }

    fn fail(&self, to: Token, failure: &Failure<'static>, effects: &mut dyn Effects) {
        if !matches!(self, Reply::Transaction(_)) {
            effects.answer(to, &Message::Answer(Err(self.in_doubt(failure))));
        }
    }

    /// Sends it at once; what was read is held for so many microseconds.
    pub(crate) fn send_held(&self, to: Token, held_us: u32, effects: &mut dyn Effects) {
        match self {
            Reply::Batch { count, packed } if held_us > 0 => match Many::packed(*count, packed) {
                Ok(answers) => effects.answer_held(to, &Message::BatchAnswer(answers), held_us),
                Err(failure) => effects.answer(to, &Message::Answer(Err(failure))),
            },
            _ => self.send(to, effects),
        }
    }

    pub(crate) fn send(&self, to: Token, effects: &mut dyn Effects) {
        match self {
            Reply::Small(answer) => effects.answer(to, &Message::Answer(answer.clone())),
            Reply::Packed(packed) => {
                let answer = Many::<Answer<'_>>::packed(1, packed).ok().and_then(|many| many.iter().next());
                effects.answer(to, &Message::Answer(answer.unwrap_or(Err(Failure::DiskFailed))));
            }
            Reply::Raw(bytes) => effects.reply(to, bytes),
            Reply::Transaction(message) => effects.transaction((**message).clone()),
            Reply::Batch { count, packed } => match Many::packed(*count, packed) {
                Ok(answers) => effects.answer(to, &Message::BatchAnswer(answers)),
                Err(failure) => effects.answer(to, &Message::Answer(Err(failure))),
            },
        }
    }
}

/// One answer as [`Many::packed`] reads it back.
pub(crate) fn packed(answer: &Answer<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    push_packed(answer, &mut out);
    out
}

/// Adds an answer behind others. One that breaks a bound of the wire is answered with that.
pub(crate) fn push_packed(answer: &Answer<'_>, out: &mut Vec<u8>) {
    let begin = out.len();
    if let Err(failure) = pack(answer, out) {
        out.truncate(begin);
        // A failure without contents breaks no bound.
        let failed: Answer<'_> = Err(failure);
        let packed = pack(&failed, out);
        debug_assert!(packed.is_ok());
    }
}

impl Held {
    pub(crate) fn push(&mut self, index: u64, to: Token, reply: Reply, effects: &mut dyn Effects) {
        if let Some(failure) = &self.failed {
            reply.fail(to, failure, effects);
            return;
        }
        self.bytes += reply.bytes();
        self.queue.push_back((index, to, reply));
    }

    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.queue.len() >= HELD_ANSWERS_MAX || self.bytes >= HELD_BYTES_MAX
    }

    /// Sends the answers whose entries are committed.
    pub(crate) fn release(&mut self, commit: u64, effects: &mut dyn Effects) {
        while let Some((index, _, _)) = self.queue.front()
            && *index <= commit
            && let Some((_, to, reply)) = self.queue.pop_front()
        {
            self.bytes -= reply.bytes();
            reply.send(to, effects);
        }
    }

    /// Answers all that is held with a failure; what comes later is held as before.
    pub(crate) fn let_go(&mut self, failure: &Failure<'static>, effects: &mut dyn Effects) {
        self.bytes = 0;
        for (_, to, reply) in self.queue.drain(..) {
            reply.fail(to, failure, effects);
        }
    }

    /// Answers all with a failure, these and those to come: whether their entries survive is not known.
    pub(crate) fn fail(&mut self, failure: Failure<'static>, effects: &mut dyn Effects) {
        self.bytes = 0;
        let failure = self.failed.insert(failure);
        for (_, to, reply) in self.queue.drain(..) {
            reply.fail(to, failure, effects);
        }
    }
}
