//! The meaning of an answer for its operation.
//!
//! According to the protocol, a write that is answered by an error has changed nothing, except for a few errors. This applies to the frame that was
//! answered. When an earlier frame of the same write is in doubt, not every answer says something about the write. Only an answer that the
//! partition found by evaluating the write, or in its session table, does. An answer that was given before that (too busy, disk full) leaves the
//! doubt.

use bytes::Bytes;
use zerohop_transaction::StageId;
use zerohop_wire::ids::{SessionId, Timestamp};
use zerohop_wire::messages::{OperationAnswer, RecordOperation, TransactionDone};
use zerohop_wire::{AbortReason, Failure};

use super::numbering::PartitionPlace;
use crate::coalescing::Coalescing;
use crate::error::{AttemptFailure, SessionError};
use crate::limits::REDIRECTS_MAX;
use crate::operation::{AssignedSequence, OpenOperation, OperationState};
use crate::reply::{Reply, version_of};
use crate::request_kind::{PointMessage, RequestKind, unpack};
use crate::slots::Handle;

/// The meaning of an answer.
#[derive(Debug)]
pub(super) enum AnswerMeaning {
    /// The operation ends with this result.
    Outcome(Result<Reply, SessionError>),
    /// The answer does not fit the operation, which is sent again.
    Mismatched,
    /// The operation has been sent again since: the answer to that frame decides.
    Late,
    /// An error that is not the operation's outcome.
    Failed(Failure<'static>),
}

/// The reaction to an error that is not the operation's outcome.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FailureReaction {
    /// Send the operation to another primary.
    Redirect,
    /// Send the operation again in a new session, if it cannot have been executed.
    RenewSession,
    /// Send the operation again after about this time.
    Retry { rest_us: u64 },
    /// End the operation.
    End,
}

/// The timestamp in an answer; zero if it has none.
pub(super) fn version_in(answer: &OperationAnswer<'_>) -> Timestamp {
    match answer {
        Ok(outcome) => version_of(outcome),
        Err(Failure::ConditionFailed { version, .. } | Failure::CompareFailed { version, .. }) => *version,
        Err(_) => Timestamp::ZERO,
    }
}

impl<T> OpenOperation<T> {
    /// The meaning of an answer to the frame `in_flight`, which is `whole`, if it is shared.
    pub(super) fn meaning_of(
        &self,
        in_flight: Handle,
        answer: OperationAnswer<'_>,
        whole: Option<&Bytes>,
    ) -> AnswerMeaning {
        match answer {
            Ok(outcome) => match (&self.request, self.stamp) {
                (RequestKind::Point { what, .. }, Some(AssignedSequence { session, sequence, .. })) => {
                    match what {
                        PointMessage::StageItem | PointMessage::Stage => {
                            AnswerMeaning::Outcome(Ok(Reply::Staged(StageId { session, sequence })))
                        }
                        PointMessage::Transact => AnswerMeaning::Mismatched,
                    }
                }
                _ => {
                    let partition = self.partition.unwrap_or_default();
                    AnswerMeaning::Outcome(Ok(Reply::of(&outcome, partition, whole)))
                }
            },
            Err(failure) if self.is_outcome(&failure) && !(self.may_be_executed && is_of_frame(&failure)) => {
                AnswerMeaning::Outcome(Err(SessionError::Answer { failure: failure.into_owned() }))
            }
            Err(_) if !self.is_in_frame(in_flight) => AnswerMeaning::Late,
            Err(failure) => AnswerMeaning::Failed(failure.into_owned()),
        }
    }

    /// The meaning of the answer that a transaction was done.
    pub(super) fn meaning_of_transaction(
        &self,
        transacted: &TransactionDone<'_>,
        whole: Option<&Bytes>,
    ) -> AnswerMeaning {
        if !matches!(self.request, RequestKind::Point { what: PointMessage::Transact, .. }) {
            return AnswerMeaning::Mismatched;
        }
        let partition = self.partition.unwrap_or_default();
        AnswerMeaning::Outcome(Ok(Reply::of_transaction(transacted, partition, whole)))
    }

    /// Decides how to react to an error that is not the operation's outcome, and records whether the operation may have been executed.
    pub(super) fn react_to(&mut self, failure: &Failure<'static>) -> FailureReaction {
        // Its frame has been answered: any remaining doubt is recorded in `may_be_executed`.
        self.state = OperationState::Unrouted;
        let changes = self.changes();
        let rest_us = match failure {
            Failure::WrongOwner { .. } => return FailureReaction::Redirect,
            Failure::SessionExpired { .. } => return FailureReaction::RenewSession,
            Failure::Busy { retry_after_ms } | Failure::Unavailable { retry_after_ms } => {
                u64::from(*retry_after_ms) * 1000
            }
            Failure::Corrupt => 0,
            // The session does not know whether the write was done, but learns it by sending the write again.
            Failure::TimedOut { .. } if !self.is_wait() && !self.is_admin() => {
                self.may_be_executed |= changes;
                0
            }
            // A frame of its own has enough room; a write that was done is not executed again.
            Failure::AnswerTooLong { .. } if self.collecting != Coalescing::Never => {
                self.collecting = Coalescing::Never;
                self.may_be_executed |= changes;
                0
            }
            _ => {
                self.may_be_executed |= changes && may_be_executed(failure);
                return FailureReaction::End;
            }
        };
        match self.is_admin() {
            true => FailureReaction::End,
            false => FailureReaction::Retry { rest_us },
        }
    }

    /// The error of an operation that ends with this answer: in doubt if an earlier frame of it may have been executed.
    pub(super) fn error_of(&self, failure: Failure<'static>) -> SessionError {
        match self.may_be_executed && self.changes() {
            true => SessionError::Unknown { why: Box::new(AttemptFailure::Answered { failure }) },
            false => SessionError::Answer { failure },
        }
    }

    /// Whether an error results from evaluating the operation, so that it answers every frame of it. A limit is such a result only for operations
    /// that declare it: for others the frame itself is refused, which says nothing about an earlier one.
    fn is_outcome(&self, failure: &Failure<'_>) -> bool {
        let RequestKind::Record { item, write: true, .. } = &self.request else {
            return is_outcome_of_any(failure);
        };
        let declared = || match unpack(item) {
            RecordOperation::Write(write) => write.change.errors(),
            _ => &[],
        };
        is_outcome_of_any(failure) || declared().iter().any(|error| error.number() == failure.code())
    }

    /// The session and the partition of a write whose partition has forgotten the session.
    pub(super) fn forgotten(&self) -> Option<(SessionId, PartitionPlace)> {
        let place = (self.keyspace(), self.partition?);
        Some((self.stamp?.session, place))
    }

    /// Gives up the number of a write, so that it gets one in a new session. Returns whether that is safe: not if the write may have been executed.
    pub(super) fn leave_session(&mut self, failure: &Failure<'static>) -> bool {
        self.redirects += 1;
        if self.may_be_executed || self.redirects > REDIRECTS_MAX {
            return false;
        }
        self.stamp = None;
        self.last = Some(Box::new(AttemptFailure::Answered { failure: failure.clone() }));
        true
    }
}

/// Whether evaluating any operation may have this result.
fn is_outcome_of_any(failure: &Failure<'_>) -> bool {
    matches!(
        failure,
        Failure::NotFound
            | Failure::WrongType { .. }
            | Failure::ConditionFailed { .. }
            | Failure::CompareFailed { .. }
            | Failure::NotANumber
            | Failure::Overflow
            | Failure::Aborted { .. }
            | Failure::StaleBlob { .. }
            | Failure::NeedHeader
    )
}

/// Whether an outcome was found without considering what an earlier frame of the same transaction has started: no log records that the sender's map
/// was outdated. A server whose own map is outdated may accept a late frame that it has refused before.
///
/// An answer that names an item comes from the evaluation of the transaction by its coordinator, which looks into its session table first. A
/// partition never gets back the records that a split took from it, so no late frame can start this transaction either.
fn is_of_frame(failure: &Failure<'_>) -> bool {
    matches!(failure, Failure::Aborted { reason: AbortReason::Misplaced, item: AbortReason::NONE, .. })
}

/// Whether a write with this answer may have been done. An error that this version does not know may mean anything.
fn may_be_executed(failure: &Failure<'_>) -> bool {
    matches!(
        failure,
        Failure::TimedOut { .. }
            | Failure::DiskFailed
            | Failure::AnswerTooLong { .. }
            | Failure::Other { .. }
    )
}
