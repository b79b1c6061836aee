//! Replies of atomic batches whose entries are in a log, while their outcome is not known. A split passes them on to the children.
//!
//! Each child has the parent's log, and commits it with its own group. The last child that knows the outcome of the entry answers. An
//! atomic batch may have written to several children, so its reply is sent only if the entry is committed in all of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use zerohop_wire::{Failure, Message};

use crate::event::{PartitionEffects, Token};
use crate::limits::UNAVAILABLE_RETRY_MS;
use crate::reply::Reply;

/// What became of an entry in one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum EntryOutcome {
    Committed = 1,
    /// It was truncated, and a later entry is committed in its place.
    Gone = 2,
    Unknown = 4,
}

/// A reply, and the partitions that have its entry.
#[derive(Debug)]
struct SharedReply {
    to: Token,
    reply: Reply,
    /// The number of partitions that do not know the outcome of the entry yet.
    open: AtomicU32,
    /// The outcomes known so far, as bits.
    outcomes: AtomicU8,
}

/// A reply in one partition.
#[derive(Clone, Debug)]
pub(crate) struct UnsettledReply {
    /// [`u64::MAX`]: the outcome of its entry cannot be determined here.
    pub(crate) index: u64,
    /// Its entry was truncated from the log.
    pub(crate) is_truncated: bool,
    shared: Arc<SharedReply>,
}

impl UnsettledReply {
    pub(crate) fn new(index: u64, to: Token, reply: Reply) -> UnsettledReply {
        let shared = SharedReply { to, reply, open: AtomicU32::new(1), outcomes: AtomicU8::new(0) };
        UnsettledReply { index, is_truncated: false, shared: Arc::new(shared) }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.shared.reply.bytes()
    }

    /// Enough members have the log up to the entry's index. The last partition of the entry answers.
    pub(crate) fn settle(self, effects: &mut dyn PartitionEffects) {
        let outcome = if self.is_truncated { EntryOutcome::Gone } else { EntryOutcome::Committed };
        self.end(outcome, &Failure::Unavailable { retry_after_ms: UNAVAILABLE_RETRY_MS }, effects);
    }

    /// The outcome of the entry cannot be learned here any more.
    pub(crate) fn fail(self, failure: &Failure<'static>, effects: &mut dyn PartitionEffects) {
        self.end(EntryOutcome::Unknown, failure, effects);
    }

    fn end(self, outcome: EntryOutcome, failure: &Failure<'static>, effects: &mut dyn PartitionEffects) {
        let SharedReply { to, reply, open, outcomes } = &*self.shared;
        let all = outcomes.fetch_or(outcome as u8, Ordering::AcqRel) | outcome as u8;
        if open.fetch_sub(1, Ordering::AcqRel) != 1 {
            return;
        }
        if all == EntryOutcome::Committed as u8 {
            reply.send(*to, effects);
        } else if all == EntryOutcome::Gone as u8 {
            effects.answer(*to, &Message::Answer(Err(Failure::Unavailable { retry_after_ms: 0 })));
        } else {
            reply.fail(*to, failure, effects);
        }
    }
}

/// The replies that a parent passes on. Each child of the split gets a clone.
#[derive(Clone, Debug, Default)]
pub struct InheritedReplies(pub(crate) Vec<UnsettledReply>);

impl InheritedReplies {
    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Prepares for so many children, at least one. Each must get a clone.
    pub fn share_among(&self, children: u32) {
        for one in &self.0 {
            one.shared.open.fetch_add(children.saturating_sub(1), Ordering::AcqRel);
        }
    }

    /// The outcome of the entries cannot be learned from children.
    pub fn fail(&mut self, failure: &Failure<'static>, effects: &mut dyn PartitionEffects) {
        self.0.drain(..).for_each(|one| one.fail(failure, effects));
    }
}
