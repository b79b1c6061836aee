//! The answers of a shard to the requests of one batch, and what they mean to the callers.

use zerohop_shard::{InstanceEffect, InstanceEffects};
use zerohop_wire::messages::{OperationAnswer, Outcome, RecordType, ScannedKey};
use zerohop_wire::{Failure, Message};

use super::error::StoreError;
use super::request::{StoreOutcome, StoreRecord};

/// The answers of a batch: one slot for each operation, in order.
#[derive(Debug, Default)]
pub(super) struct BatchAnswers {
    /// The request id of the first slot. Answers to earlier requests are dropped: their callers have been answered.
    first: u64,
    slots: Vec<AnswerSlot>,
    /// Bytes of keys and values in the answers.
    bytes: usize,
    /// The batch is being flushed: a failure from now on concerns what was accepted before.
    is_flushing: bool,
}

/// What an operation returns if it succeeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExpectedAnswer {
    Done,
    Removed,
    Bytes,
    List,
    Page,
}

/// Why an operation has failed.
#[derive(Debug)]
pub(super) enum Refusal {
    Store(StoreError),
    /// What the shard has answered, and whether its flush failed.
    Failed(Failure<'static>, bool),
}

#[derive(Debug)]
struct AnswerSlot {
    expected: ExpectedAnswer,
    /// Requests without an answer.
    open: u32,
    /// Values of the list in all.
    length: u64,
    outcome: Result<StoreOutcome, Refusal>,
}

impl BatchAnswers {
    /// Adds a slot; returns its number.
    pub(super) fn add(&mut self, expected: ExpectedAnswer) -> usize {
        self.slots.push(AnswerSlot { expected, open: 0, length: 0, outcome: Ok(StoreOutcome::Done) });
        self.slots.len() - 1
    }

    /// Another request of this slot is under way; returns its request id.
    pub(super) fn request(&mut self, slot: usize) -> u64 {
        self.slots[slot].open += 1;
        self.first + slot as u64
    }

    /// Starts a slot again; it has no request under way.
    pub(super) fn restart(&mut self, slot: usize) {
        self.slots[slot].outcome = Ok(StoreOutcome::Done);
    }

    pub(super) fn set(&mut self, slot: usize, outcome: Result<StoreOutcome, StoreError>) {
        self.bytes += outcome.as_ref().map_or(0, StoreOutcome::bytes);
        self.slots[slot].outcome = outcome.map_err(Refusal::Store);
    }

    /// Whether all requests of a slot are answered.
    pub(super) fn is_answered(&self, slot: usize) -> bool {
        self.slots[slot].open == 0
    }

    /// The failure of a slot that the shard has answered.
    pub(super) fn failure(&self, slot: usize) -> Option<&Failure<'static>> {
        match &self.slots[slot].outcome {
            Err(Refusal::Failed(failure, _)) => Some(failure),
            _ => None,
        }
    }

    pub(super) fn has_failed(&self, slot: usize) -> bool {
        self.slots[slot].outcome.is_err()
    }

    /// How many values of a list are still missing, and the index of the first of them; `None`: none.
    pub(super) fn missing_from(&self, slot: usize) -> Option<usize> {
        match &self.slots[slot] {
            AnswerSlot { outcome: Ok(StoreOutcome::Values(Some(values))), length, .. } => {
                Some(values.len()).filter(|have| (*have as u64) < *length)
            }
            _ => None,
        }
    }

    pub(super) fn set_flushing(&mut self, is_flushing: bool) {
        self.is_flushing = is_flushing;
    }

    /// Bytes of keys and values in the answers.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The outcome of a slot; `None`: some request of it has no answer.
    pub(super) fn take(&mut self, slot: usize) -> Option<Result<StoreOutcome, Refusal>> {
        let outcome = std::mem::replace(&mut self.slots[slot].outcome, Ok(StoreOutcome::Done));
        (self.slots[slot].open == 0 || outcome.is_err()).then_some(outcome)
    }

    /// The batch has ended.
    pub(super) fn clear(&mut self) {
        self.first += self.slots.len() as u64;
        self.slots.clear();
        self.bytes = 0;
    }

    fn answer(&mut self, request: u64, answer: &OperationAnswer<'_>) {
        let slot = request.checked_sub(self.first).and_then(|slot| self.slots.get_mut(slot as usize));
        let Some(slot) = slot else { return };
        slot.open = slot.open.saturating_sub(1);
        // The first failure of several requests stays.
        if slot.outcome.is_err() {
            return;
        }
        let earlier = match &mut slot.outcome {
            Ok(StoreOutcome::Values(values)) => values.take(),
            _ => None,
        };
        slot.outcome = outcome_of(slot.expected, earlier, answer);
        if let Err(Refusal::Failed(_, is_at_flush)) = &mut slot.outcome {
            *is_at_flush = self.is_flushing;
        }
        match answer {
            Ok(Outcome::List { length, values, .. }) => {
                slot.length = *length;
                self.bytes += values.iter().map(<[u8]>::len).sum::<usize>();
            }
            Ok(Outcome::Value { bytes, .. }) => self.bytes += bytes.len(),
            Ok(Outcome::Page { .. }) => self.bytes += slot.outcome.as_ref().map_or(0, StoreOutcome::bytes),
            _ => {}
        }
    }
}

/// What an answer means to a caller. `earlier` has the pages of a list before this one.
fn outcome_of(
    expected: ExpectedAnswer,
    earlier: Option<Vec<Vec<u8>>>,
    answer: &OperationAnswer<'_>,
) -> Result<StoreOutcome, Refusal> {
    let wrong_type = |is_list| Err(Refusal::Store(StoreError::WrongType { is_list }));
    match (expected, answer) {
        (ExpectedAnswer::Done, Ok(_)) => Ok(StoreOutcome::Done),
        (ExpectedAnswer::Removed, Ok(Outcome::Done { number, .. })) => Ok(StoreOutcome::Removed(*number > 0)),
        (ExpectedAnswer::Bytes, Ok(Outcome::Value { bytes, .. })) => {
            Ok(StoreOutcome::Found(Some(bytes.to_vec())))
        }
        (ExpectedAnswer::Bytes, Err(Failure::NotFound)) => Ok(StoreOutcome::Found(None)),
        (ExpectedAnswer::List, Ok(Outcome::List { values, .. })) => {
            let mut all = earlier.unwrap_or_default();
            all.extend(values.iter().map(<[u8]>::to_vec));
            Ok(StoreOutcome::Values(Some(all)))
        }
        (ExpectedAnswer::List, Err(Failure::NotFound)) => Ok(StoreOutcome::Values(None)),
        (ExpectedAnswer::Page, Ok(Outcome::Page { next, keys })) => {
            let record = |listed: ScannedKey<'_>| StoreRecord {
                key: listed.key.to_vec(),
                value: listed.value.map(<[u8]>::to_vec),
                is_list: listed.record == RecordType::List,
            };
            Ok(StoreOutcome::Range { records: keys.iter().map(record).collect(), next: next.to_vec() })
        }
        (ExpectedAnswer::Bytes, Ok(Outcome::List { .. })) => wrong_type(true),
        (ExpectedAnswer::List, Ok(Outcome::Value { .. })) => wrong_type(false),
        (_, Err(Failure::WrongType { found })) => wrong_type(*found == RecordType::List),
        (_, Err(failure)) => Err(Refusal::Failed(failure.clone().into_owned(), false)),
        (_, Ok(other)) => unreachable!("no request is answered with {other:?}"),
    }
}

impl InstanceEffects for BatchAnswers {
    fn push(&mut self, effect: InstanceEffect<'_>) {
        match effect {
            InstanceEffect::Answer { to, message: Message::Answer(answer), .. } => {
                self.answer(to.request.0, answer)
            }
            // Requests of other kinds are not made, and none is repeated.
            InstanceEffect::Answer { .. } | InstanceEffect::Reply { .. } | InstanceEffect::Dropped { .. } => {
            }
            // There is no other instance and no cluster. Broken invariants are among the errors that the shard keeps.
            InstanceEffect::Send { .. }
            | InstanceEffect::ProposeChange { .. }
            | InstanceEffect::FetchMap
            | InstanceEffect::SyncTimestampBound(_)
            | InstanceEffect::InvariantBroken { .. }
            | InstanceEffect::Drained { .. }
            | InstanceEffect::SplitRegion(_)
            | InstanceEffect::Flush(_) => {}
        }
    }
}
