//! The effect of an answer on its operation.
//!
//! According to the protocol, a write that is answered by an error has changed nothing, except for a few errors. This applies to the frame that was
//! answered. When an earlier frame of the same write is in doubt, not every answer says something about the write. Only an answer that the
//! partition found by evaluating the write, or in its session table, does. An answer that was given before that (too busy, disk full) leaves the
//! doubt.

use bytes::Bytes;
use zerohop_transaction::StageId;
use zerohop_wire::messages::{OperationAnswer, TransactionDone};
use zerohop_wire::{AbortReason, Failure};

use super::Session;
use super::composite::AnsweredFrame;
use crate::error::{AttemptFailure, SessionError};
use crate::limits::REDIRECTS_MAX;
use crate::operation::{AssignedSequence, OperationState};
use crate::reply::{Reply, version_of};
use crate::request::{Coalescing, PointMessage, RequestKind};
use crate::slots::Handle;
use zerohop_base::time::Time;

impl<T> Session<T> {
    /// Processes an operation's answer to the frame `flight`.
    pub(super) fn handle_answer(
        &mut self,
        now: Time,
        flight: Handle,
        handle: Handle,
        frame: AnsweredFrame,
        answer: OperationAnswer<'_>,
        whole: Option<&Bytes>,
    ) {
        let Some(operation) = self.operations.get(handle) else { return };
        match answer {
            Ok(outcome) => {
                self.record_version(version_of(&outcome));
                let Some(operation) = self.operations.get(handle) else { return };
                if let (RequestKind::Point { what, .. }, Some(AssignedSequence { session, sequence, .. })) =
                    (&operation.request, operation.stamp)
                {
                    return match what {
                        PointMessage::Stage => {
                            let staged = Reply::Staged(StageId { session, sequence });
                            self.finish(now, handle, Ok(staged), Some(frame));
                        }
                        PointMessage::Transact => self.repeat(now, flight, handle),
                    };
                }
                let reply = Reply::of(&outcome, operation.partition.unwrap_or_default(), whole);
                self.finish(now, handle, Ok(reply), Some(frame));
            }
            Err(failure) if is_outcome(&failure) && !(operation.may_be_executed && is_of_frame(&failure)) => {
                if let Failure::ConditionFailed { version, .. } | Failure::CompareFailed { version, .. } =
                    &failure
                {
                    self.record_version(*version);
                }
                let failure = failure.into_owned();
                self.finish(now, handle, Err(SessionError::Answer { failure }), Some(frame));
            }
            // The operation has been sent again since: the answer to that frame decides.
            Err(_) if !operation.flies_in(flight) => {}
            Err(failure) => self.handle_failure(now, handle, failure.into_owned()),
        }
    }

    /// Processes the answer that a transaction was done, to the frame `flight`.
    pub(super) fn transacted(
        &mut self,
        now: Time,
        flight: Handle,
        handle: Handle,
        frame: AnsweredFrame,
        transacted: &TransactionDone<'_>,
        whole: Option<&Bytes>,
    ) {
        let Some(operation) = self.operations.get(handle) else { return };
        if !matches!(operation.request, RequestKind::Point { what: PointMessage::Transact, .. }) {
            return self.repeat(now, flight, handle);
        }
        self.record_version(transacted.version);
        let Some(operation) = self.operations.get(handle) else { return };
        let reply = Reply::of_transaction(transacted, operation.partition.unwrap_or_default(), whole);
        self.finish(now, handle, Ok(reply), Some(frame));
    }

    /// Decides how to react to an error that is not the operation's outcome.
    fn handle_failure(&mut self, now: Time, handle: Handle, failure: Failure<'static>) {
        let Some(operation) = self.operations.get_mut(handle) else { return };
        // Its frame has been answered: any remaining doubt is recorded in `doubt`.
        operation.state = OperationState::Unrouted;
        let changes = operation.changes();
        let rest_us = match &failure {
            Failure::WrongOwner { epoch, delta } => {
                self.map_moved(now, *epoch, delta);
                return self.redirect(now, handle);
            }
            Failure::SessionExpired { .. } => return self.session_expired(now, handle, failure),
            Failure::Busy { retry_after_ms } | Failure::Unavailable { retry_after_ms } => {
                u64::from(*retry_after_ms) * 1000
            }
            Failure::Corrupt => 0,
            // The session does not know whether the write was done, but learns it by sending the write again.
            Failure::TimedOut { .. } if !operation.is_wait() && !operation.is_admin() => {
                operation.may_be_executed |= changes;
                0
            }
            // A frame of its own has enough room; a write that was done is not executed again.
            Failure::AnswerTooLong { .. } if operation.collecting != Coalescing::Never => {
                operation.collecting = Coalescing::Never;
                operation.may_be_executed |= changes;
                0
            }
            _ => {
                operation.may_be_executed |= changes && may_be_executed(&failure);
                return self.end(now, handle, failure);
            }
        };
        if operation.is_admin() {
            return self.end(now, handle, failure);
        }
        let is_unavailable = matches!(failure, Failure::Unavailable { .. });
        operation.last = Some(Box::new(AttemptFailure::Answered { failure }));
        if is_unavailable {
            // Another server may know a primary that can execute it.
            self.request_map_soon(now);
        }
        self.pause(now, handle, rest_us);
    }

    /// Ends an operation with this answer, or in doubt if an earlier frame of it may have been executed.
    fn end(&mut self, now: Time, handle: Handle, failure: Failure<'static>) {
        let Some(operation) = self.operations.get(handle) else { return };
        let error = match operation.may_be_executed && operation.changes() {
            true => SessionError::Unknown { why: Box::new(AttemptFailure::Answered { failure }) },
            false => SessionError::Answer { failure },
        };
        self.finish(now, handle, Err(error), None);
    }

    /// The partition has forgotten the session. An operation that it cannot have executed is sent again in a new session.
    fn session_expired(&mut self, now: Time, handle: Handle, failure: Failure<'static>) {
        let Some(operation) = self.operations.get_mut(handle) else { return };
        let (Some(AssignedSequence { session, .. }), Some(partition)) =
            (operation.stamp, operation.partition)
        else {
            return self.end(now, handle, failure);
        };
        let place = (operation.keyspace(), partition);
        operation.redirects += 1;
        let hopeless = operation.may_be_executed || operation.redirects > REDIRECTS_MAX;
        if !hopeless {
            operation.stamp = None;
            operation.last = Some(Box::new(AttemptFailure::Answered { failure: failure.clone() }));
        }
        self.numbering.forget(session, place);
        match hopeless {
            true => self.end(now, handle, failure),
            false => self.dispatch(now, handle),
        }
    }
}

/// Whether an error results from evaluating the operation, so that it answers every frame of it.
fn is_outcome(failure: &Failure<'_>) -> bool {
    matches!(
        failure,
        Failure::NotFound
            | Failure::WrongType { .. }
            | Failure::ConditionFailed { .. }
            | Failure::CompareFailed { .. }
            | Failure::NotANumber
            | Failure::Overflow
            | Failure::Aborted { .. }
    )
}

/// Whether an outcome was found without considering what an earlier frame of the same transaction has started: no log records that the sender's map
/// was outdated.
fn is_of_frame(failure: &Failure<'_>) -> bool {
    matches!(failure, Failure::Aborted { reason: AbortReason::Misplaced, .. })
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
