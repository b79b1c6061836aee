//! Assembles the answers of a batch, in the order of its operations.

use zerohop_wire::Failure;
use zerohop_wire::limits::BODY_BYTES_MAX;
use zerohop_wire::messages::OperationAnswer;

use crate::event::Token;
use crate::planted::{Bug, is_planted};
use crate::reply::push_packed;

/// An answer without contents, with its item header.
const SMALL_ANSWER_BYTES: usize = 32;
/// The body's own fields.
const HEAD_BYTES: usize = 8;

/// The answers of one batch, so far.
#[derive(Debug)]
pub(crate) struct Collector {
    pub(crate) token: Token,
    pub(crate) count: u32,
    /// The newest entry that any of its answers was evaluated over.
    pub(crate) index: u64,
    /// Operations without an answer.
    left: u32,
    /// Answers back to back, up to the first that is missing. `behind` has the later answers, by their place.
    packed: Vec<u8>,
    behind: Vec<Option<Vec<u8>>>,
    /// The number of leading answers that are in `packed`.
    first: u32,
    bytes: usize,
    /// How many of the answers are read-locked, and the shortest remaining time.
    locked_answers: (u32, u32),
}

impl Collector {
    pub(crate) fn new(token: Token, count: u32, buffer: Vec<u8>) -> Collector {
        let (packed, behind) = (buffer, Vec::new());
        Collector {
            token,
            count,
            index: 0,
            left: count,
            packed,
            behind,
            first: 0,
            bytes: HEAD_BYTES,
            locked_answers: (0, u32::MAX),
        }
    }

    /// Adds the answer of an operation. An answer that does not fit the body is replaced by `AnswerTooLong`, which always fits.
    pub(crate) fn put(&mut self, place: u32, index: u64, answer: &OperationAnswer<'_>) {
        if self.index == 0 || !is_planted(Bug::BatchAnsweredEarly) {
            self.index = self.index.max(index);
        }
        self.left -= 1;
        if place == self.first {
            self.first += 1;
            let mut packed = std::mem::take(&mut self.packed);
            self.pack(answer, &mut packed);
            self.packed = packed;
            return;
        }
        let mut own = Vec::new();
        self.pack(answer, &mut own);
        let at = (place - self.first) as usize;
        if self.behind.len() <= at {
            self.behind.resize(at + 1, None);
        }
        self.behind[at] = Some(own);
    }

    /// The record of one answer is read-locked for so many microseconds; 0: it is not.
    pub(crate) fn note_read_lock(&mut self, us: u32) {
        if us > 0 {
            self.locked_answers = (self.locked_answers.0 + 1, self.locked_answers.1.min(us));
        }
    }

    /// For how many microseconds the records of all answers are read-locked; 0: not all of them are.
    pub(crate) fn read_lock_us(&self) -> u32 {
        if self.locked_answers.0 == self.count && self.count > 0 { self.locked_answers.1 } else { 0 }
    }

    fn pack(&mut self, answer: &OperationAnswer<'_>, out: &mut Vec<u8>) {
        let begin = out.len();
        push_packed(answer, out);
        let length = out.len() - begin;
        if self.bytes + length + self.left as usize * SMALL_ANSWER_BYTES > BODY_BYTES_MAX {
            out.truncate(begin);
            push_packed(&Err(Failure::AnswerTooLong { length: length as u64 }), out);
        }
        self.bytes += out.len() - begin;
    }

    /// Whether an answer is still missing.
    pub(crate) fn is_open(&self) -> bool {
        self.left > 0
    }

    /// All answers, back to back.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        for own in self.behind.into_iter().flatten() {
            self.packed.extend_from_slice(&own);
        }
        self.packed
    }
}

#[cfg(test)]
mod tests {
    use zerohop_wire::Elements;
    use zerohop_wire::ids::Timestamp;
    use zerohop_wire::messages::Outcome;

    use super::*;

    fn done(number: u64) -> OperationAnswer<'static> {
        Ok(Outcome::Done { version: Timestamp(1), number })
    }

    fn numbers(packed: &[u8], count: u32) -> Vec<u64> {
        let answers = Elements::<OperationAnswer<'_>>::packed(count, packed).expect("is well formed");
        let number = |answer| match answer {
            Ok(Outcome::Done { number, .. }) => number,
            Err(Failure::AnswerTooLong { .. }) => u64::MAX,
            _ => 0,
        };
        answers.iter().map(number).collect()
    }

    #[test]
    fn batch_answers_keep_operation_order() {
        let mut collector = Collector::new(Token::default(), 5, Vec::new());
        for (place, index) in [(0, 7), (3, 9), (2, 0), (4, 8), (1, 0)] {
            assert!(collector.is_open());
            collector.put(place, index, &done(u64::from(place)));
        }
        assert!(!collector.is_open());
        assert_eq!(collector.index, 9);
        assert_eq!(numbers(&collector.finish(), 5), [0, 1, 2, 3, 4]);
    }

    #[cfg(debug_assertions)]
    #[test]
    fn batch_that_is_answered_early_is_found() {
        use crate::planted::plant;
        let waits_for = || {
            let mut collector = Collector::new(Token::default(), 2, Vec::new());
            collector.put(0, 7, &done(0));
            collector.put(1, 9, &done(1));
            collector.index
        };
        assert_eq!(waits_for(), 9);
        plant(Some(Bug::BatchAnsweredEarly));
        let early = waits_for();
        plant(None);
        assert_eq!(early, 7);
    }

    #[test]
    fn batch_is_read_locked_if_all_items_are() {
        let read_lock_of = |us: &[u32]| {
            let mut collector = Collector::new(Token::default(), 3, Vec::new());
            us.iter().for_each(|us| collector.note_read_lock(*us));
            collector.read_lock_us()
        };
        assert_eq!(
            (
                read_lock_of(&[2_000, 1_000, 3_000]),
                read_lock_of(&[2_000, 0, 2_000]),
                read_lock_of(&[2_000, 2_000])
            ),
            (1_000, 0, 0)
        );
    }

    #[test]
    fn oversized_batch_answer_fails_alone() {
        let large = vec![0; 10 << 20];
        let value = Ok(Outcome::Value { version: Timestamp(1), length: 1, bytes: &large });
        let mut collector = Collector::new(Token::default(), 4, Vec::new());
        collector.put(0, 0, &value);
        collector.put(1, 0, &value);
        collector.put(2, 0, &done(2));
        collector.put(3, 0, &value);
        let packed = collector.finish();
        assert!(packed.len() + HEAD_BYTES <= BODY_BYTES_MAX);
        assert_eq!(numbers(&packed, 4), [0, u64::MAX, 2, u64::MAX]);
    }
}
