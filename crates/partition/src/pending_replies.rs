//! Pending replies: answers that wait for the commit of the entries that they depend on.

use std::collections::VecDeque;

use zerohop_wire::Failure;

use crate::event::{PartitionEffects, Token};
use crate::limits::{PENDING_REPLIES_MAX, PENDING_REPLY_BYTES_MAX};
use crate::reply::Reply;
use crate::undecided_replies::{InheritedReplies, UnsettledReply};

/// The queue, in the order of evaluation. A reply behind another also waits for the entry of that one. This is at most the rest
/// of a batch that is flushed together.
#[derive(Debug, Default)]
pub(crate) struct PendingReplies {
    queue: VecDeque<(u64, Token, Reply)>,
    /// Replies of atomic batches that may not be sent yet though their entries are committed, or whose fate another primary
    /// decides.
    retained: VecDeque<UnsettledReply>,
    /// Until when these are kept, in microseconds of the monotonic clock.
    retained_until_us: u64,
    bytes: usize,
    /// Nothing more will be committed. Replies that would wait are replaced by this failure.
    failed: Option<Failure<'static>>,
}

impl PendingReplies {
    pub(crate) fn push(&mut self, index: u64, to: Token, reply: Reply, effects: &mut dyn PartitionEffects) {
        if let Some(failure) = &self.failed {
            reply.fail(to, failure, effects);
            return;
        }
        self.bytes += reply.bytes();
        self.queue.push_back((index, to, reply));
    }

    pub(crate) fn len(&self) -> usize {
        self.queue.len() + self.retained.len()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.len() >= PENDING_REPLIES_MAX || self.bytes >= PENDING_REPLY_BYTES_MAX
    }

    /// Sends the replies whose entries are committed.
    pub(crate) fn release(&mut self, commit: u64, effects: &mut dyn PartitionEffects) {
        while let Some((index, _, _)) = self.queue.front()
            && *index <= commit
            && let Some((_, to, reply)) = self.queue.pop_front()
        {
            self.bytes -= reply.bytes();
            reply.send(to, effects);
        }
    }

    /// Keeps the replies of atomic batches until [`PendingReplies::resolve_retained`] knows their fate, at most until `until_us`. All other
    /// pending replies are answered with a failure. A client of those learns the outcome by a retry; an atomic batch has no
    /// number for a retry.
    pub(crate) fn retain_batches(
        &mut self,
        until_us: u64,
        failure: &Failure<'static>,
        effects: &mut dyn PartitionEffects,
    ) {
        for (index, to, reply) in self.queue.drain(..) {
            match reply {
                Reply::Raw(_) => self.retained.push_back(UnsettledReply::new(index, to, reply)),
                _ => {
                    self.bytes -= reply.bytes();
                    reply.fail(to, failure, effects);
                }
            }
        }
        self.retained_until_us = until_us;
    }

    /// When the kept replies must be answered; [`u64::MAX`]: there are none.
    pub(crate) fn retained_until_us(&self) -> u64 {
        if self.retained.is_empty() { u64::MAX } else { self.retained_until_us }
    }

    /// The log was truncated behind this index.
    pub(crate) fn truncate_after(&mut self, index: u64) {
        self.retained.iter_mut().filter(|one| one.index > index).for_each(|one| one.is_truncated = true);
    }

    /// The log was replaced by another.
    pub(crate) fn mark_outcomes_unknown(&mut self) {
        self.retained.iter_mut().for_each(|one| one.index = u64::MAX);
    }

    /// Answers the kept replies up to a log index that is committed on enough members. Entries truncated before cannot be
    /// committed anywhere.
    pub(crate) fn resolve_retained(&mut self, through: u64, effects: &mut dyn PartitionEffects) {
        while self.retained.front().is_some_and(|one| one.index <= through)
            && let Some(one) = self.retained.pop_front()
        {
            self.bytes -= one.bytes();
            one.settle(effects);
        }
    }

    /// Removes the kept replies, for the children of a split.
    pub(crate) fn take_retained(&mut self) -> InheritedReplies {
        let replies: Vec<UnsettledReply> = self.retained.drain(..).collect();
        self.bytes -= replies.iter().map(UnsettledReply::bytes).sum::<usize>();
        InheritedReplies(replies)
    }

    /// Keeps the replies that the parent of a split has passed on, until `until_us` at most.
    pub(crate) fn adopt_retained(&mut self, replies: InheritedReplies, until_us: u64) {
        self.bytes += replies.0.iter().map(UnsettledReply::bytes).sum::<usize>();
        self.retained.extend(replies.0);
        self.retained_until_us = until_us;
    }

    /// Answers all kept replies with a failure.
    pub(crate) fn fail_retained(&mut self, failure: &Failure<'static>, effects: &mut dyn PartitionEffects) {
        for one in self.retained.drain(..) {
            self.bytes -= one.bytes();
            one.fail(failure, effects);
        }
    }

    /// Answers all pending replies with a failure. Later replies are pending as before.
    pub(crate) fn fail_all(&mut self, failure: &Failure<'static>, effects: &mut dyn PartitionEffects) {
        self.fail_retained(failure, effects);
        self.bytes = 0;
        for (_, to, reply) in self.queue.drain(..) {
            reply.fail(to, failure, effects);
        }
    }

    /// Answers all replies with a failure, present and future ones. Whether their entries survive is not known.
    pub(crate) fn fail(&mut self, failure: Failure<'static>, effects: &mut dyn PartitionEffects) {
        self.fail_retained(&failure, effects);
        self.bytes = 0;
        let failure = self.failed.insert(failure);
        for (_, to, reply) in self.queue.drain(..) {
            reply.fail(to, failure, effects);
        }
    }
}

#[cfg(test)]
mod tests {
    use zerohop_wire::ids::{RequestId, Timestamp};
    use zerohop_wire::messages::Outcome;

    use super::*;
    use crate::testing::CollectedEffects;

    /// The answers of each token since the last check: a reply, or a failure as text.
    fn take_answers(collected: &mut CollectedEffects) -> Vec<(u64, String)> {
        let replies = std::mem::take(&mut collected.replies).into_iter();
        let replies = replies.map(|(to, bytes)| (to.request.0, format!("{bytes:?}")));
        let answers = std::mem::take(&mut collected.answers).into_iter();
        let answers = answers.map(|(to, answered)| (to.request.0, format!("{answered:?}")));
        let mut all: Vec<(u64, String)> = replies.chain(answers).collect();
        all.sort();
        all
    }

    fn failed(failure: Failure<'static>) -> String {
        format!("{:?}", Err::<Outcome<'_>, _>(failure))
    }

    const UNAVAILABLE: Failure<'static> = Failure::Unavailable { retry_after_ms: 0 };
    const IN_DOUBT: Failure<'static> = Failure::TimedOut { version: Timestamp::ZERO };

    /// Queues replies of atomic batches at these log indexes, each token equal to its index, and one other reply behind them.
    fn retained_replies(indices: &[u64]) -> (PendingReplies, CollectedEffects) {
        let (mut pending, mut out) = (PendingReplies::default(), CollectedEffects::default());
        let token = |request| Token { connection: 1, request: RequestId(request) };
        for index in indices {
            pending.push(*index, token(*index), Reply::Raw(vec![*index as u8]), &mut out);
        }
        let other = Reply::Small(Ok(Outcome::Done { version: Timestamp::ZERO, number: 0 }));
        pending.push(90, token(90), other, &mut out);
        pending.retain_batches(5, &UNAVAILABLE, &mut out);
        assert_eq!(take_answers(&mut out), [(90, failed(IN_DOUBT))], "a request with a number is sent again");
        assert_eq!(pending.retained_until_us(), 5);
        (pending, out)
    }

    #[test]
    fn deposed_primary_answers_batches_by_surviving_log() {
        let (mut pending, mut out) = retained_replies(&[7, 8, 9]);
        pending.resolve_retained(6, &mut out);
        pending.truncate_after(8);
        assert_eq!(
            take_answers(&mut out),
            [],
            "as long as no more is committed the cut entry may be, elsewhere"
        );
        pending.resolve_retained(9, &mut out);
        assert_eq!(
            take_answers(&mut out),
            [(7, "[7]".to_owned()), (8, "[8]".to_owned()), (9, failed(UNAVAILABLE))]
        );
        assert_eq!((pending.len(), pending.bytes, pending.retained_until_us()), (0, 0, u64::MAX));
    }

    #[test]
    fn unresolved_replies_end_as_unknown() {
        let (mut pending, mut out) = retained_replies(&[7, 8]);
        pending.truncate_after(7);
        pending.mark_outcomes_unknown();
        pending.resolve_retained(100, &mut out);
        assert_eq!(
            take_answers(&mut out),
            [],
            "the log is another one's, whose entries have these numbers too"
        );
        pending.fail_retained(&UNAVAILABLE, &mut out);
        assert_eq!(take_answers(&mut out), [(7, failed(IN_DOUBT)), (8, failed(IN_DOUBT))]);
        assert_eq!((pending.len(), pending.bytes), (0, 0));
    }

    #[test]
    fn retained_replies_are_answered_when_partition_ends() {
        let (mut pending, mut out) = retained_replies(&[7]);
        pending.fail(Failure::DiskFailed, &mut out);
        assert_eq!(take_answers(&mut out), [(7, failed(Failure::DiskFailed))]);
    }
}
