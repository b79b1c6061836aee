//! Composite operations: the session submits the operations that they request, and passes the results to them.

use super::{EndedOperation, Session};
use crate::effect::SessionEffect;
use crate::error::{SessionError, WaitReason};
use crate::operation::CompletionTarget;
use crate::reply::Reply;
use crate::slots::Handle;
use crate::timers::Subject;
use crate::transaction::{Composite, CompositeStep};
use zerohop_base::time::Time;

/// A composite operation and the receiver of its result.
#[derive(Debug)]
pub(super) struct Procedure<T> {
    token: T,
    together: Composite,
    pub(super) bytes: usize,
    submitted: Time,
    deadline: Time,
    /// It waits for a map that was requested at this time or later.
    awaits_map: Option<Time>,
}

impl<T> Session<T> {
    pub(super) fn begin_together(&mut self, now: Time, together: Composite, limit_us: u64, token: T) {
        let deadline = now.after_us(limit_us);
        let bytes = together.bytes();
        let procedure = Procedure { token, together, bytes, submitted: now, deadline, awaits_map: None };
        let handle = self.together.insert(procedure);
        self.begin(now, handle);
    }

    /// Passes all results to the composite operations to which they belong, and continues those that waited for the map.
    pub(super) fn run_together(&mut self, now: Time) {
        let epoch = self.map.epoch();
        let map_is_new = self.together_map != (epoch, self.mapping.answered_question);
        if map_is_new && self.together.len() > 0 {
            let waits = |(handle, one): (Handle, &Procedure<T>)| one.awaits_map.map(|_| handle);
            let waiting: Vec<Handle> = self.together.iter().filter_map(waits).collect();
            waiting.into_iter().for_each(|handle| self.begin(now, handle));
        }
        self.together_map = (epoch, self.mapping.answered_question);
        while let Some(EndedOperation { procedure: handle, slot, result, read_locked_until: held_until }) =
            self.ended.pop_front()
        {
            // Another of its operations may have ended it.
            if let Some(procedure) = self.together.get_mut(handle) {
                // All results arrived before the time of this turn.
                let step = procedure.together.ended((&self.map, now), slot, (result, held_until));
                self.next_step(now, handle, step);
            }
        }
    }

    pub(super) fn together_is_due(&mut self, now: Time, index: u32) {
        let Some(handle) = self.together.at(index) else { return };
        let Some(procedure) = self.together.get(handle).filter(|one| one.awaits_map.is_some()) else {
            return;
        };
        if now < procedure.deadline {
            return self.timers.arm(Subject::Together(index), procedure.deadline);
        }
        let waited_us = now.since_us(procedure.submitted);
        let last = self.mapping.last.clone().map(Box::new);
        self.end_together(handle, Err(SessionError::Deadline { waited_us, waiting: WaitReason::Map, last }));
    }

    /// Ends all composite operations, once their operations have been ended.
    pub(super) fn close_together(&mut self, now: Time) {
        self.run_together(now);
        let all: Vec<Handle> = self.together.iter().map(|(handle, _)| handle).collect();
        all.into_iter().for_each(|handle| self.end_together(handle, Err(SessionError::Closed)));
    }

    fn begin(&mut self, now: Time, handle: Handle) {
        let Some(procedure) = self.together.get_mut(handle) else { return };
        let since = procedure.awaits_map.take();
        let asked = self.mapping.answered_question;
        let is_newest = asked >= Some(since.unwrap_or(procedure.submitted));
        let step = procedure.together.begin(&self.map, is_newest);
        self.next_step(now, handle, step);
        // It still waits for the same request, which is not repeated with every map that arrives.
        if let (Some(since), Some(procedure)) = (since, self.together.get_mut(handle))
            && procedure.awaits_map.is_some()
            && !is_newest
        {
            procedure.awaits_map = Some(since);
        }
    }

    fn next_step(&mut self, now: Time, handle: Handle, step: CompositeStep) {
        let Some(procedure) = self.together.get_mut(handle) else { return };
        match step {
            CompositeStep::Wait => {}
            CompositeStep::AwaitMap => {
                procedure.awaits_map = Some(now);
                self.timers.arm(Subject::Together(handle.index), procedure.deadline);
                self.request_map_soon(now);
            }
            CompositeStep::End(result) => {
                if result.is_ok() {
                    self.reads.count(&procedure.together);
                }
                self.end_together(handle, result);
            }
            CompositeStep::Send(sendings) => {
                let limit_us = procedure.deadline.since_us(now);
                let limit = self.settings.operations_max;
                if self.closed {
                    return self.end_together(handle, Err(SessionError::Closed));
                }
                if self.operations.len() + sendings.len() > limit {
                    return self.end_together(handle, Err(SessionError::TooManyOperations { limit }));
                }
                for sending in sendings {
                    let owner = CompletionTarget::Together { procedure: handle, slot: sending.slot };
                    self.operation_bytes += sending.operation.bytes();
                    self.accept_operation(
                        now,
                        (sending.operation, sending.collecting, sending.wants_read_lock),
                        limit_us,
                        owner,
                    );
                }
            }
        }
    }

    fn end_together(&mut self, handle: Handle, result: Result<Reply, SessionError>) {
        let Some(Procedure { token, bytes, .. }) = self.together.remove(handle) else { return };
        self.operation_bytes -= bytes;
        self.effects.push(SessionEffect::Complete { token, result });
    }
}
