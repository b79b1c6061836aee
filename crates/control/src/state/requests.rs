//! The outcomes of the newest requests, so that a retry is answered and not applied again.

use std::collections::{BTreeMap, VecDeque};

use crate::command::{CommandOutcome, CommandRefusal, CommandRequest, CommandResult, RequestId};
use crate::limits::{REFUSAL_BYTES_MAX, REQUESTS_REMEMBERED_MAX};

/// See the module.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Requests {
    /// Commands applied so far, retries not counted.
    applied: u64,
    outcomes: BTreeMap<RequestId, CommandOutcome>,
    /// The ids, oldest first.
    order: VecDeque<RequestId>,
}

impl Requests {
    pub(super) fn applied_count(&self) -> u64 {
        self.applied
    }

    /// The outcome of a request that must not be applied (again).
    pub(super) fn known(&self, request: &CommandRequest) -> Option<CommandOutcome> {
        if let Some(outcome) = self.outcomes.get(&request.id) {
            return Some(outcome.clone());
        }
        // All outcomes with marks above this are remembered, and an outcome of this request would have a mark
        // above it.
        let forgotten = self.applied.saturating_sub(REQUESTS_REMEMBERED_MAX as u64);
        (request.after < forgotten)
            .then_some(CommandOutcome { result: Err(CommandRefusal::TooOld), applied_count: self.applied })
    }

    /// Continues from a mark that is far ahead.
    pub(super) fn jump(&mut self, by: u64) {
        self.applied += by;
    }

    pub(super) fn remember(
        &mut self,
        id: RequestId,
        result: Result<CommandResult, CommandRefusal>,
    ) -> CommandOutcome {
        self.applied += 1;
        // Truncated here, so that managers that applied the command and managers that installed a snapshot
        // remember the same.
        let result = result.map_err(|refusal| match refusal {
            CommandRefusal::Map(text) => {
                CommandRefusal::Map(text.chars().take(REFUSAL_BYTES_MAX / 4).collect())
            }
            other => other,
        });
        let outcome = CommandOutcome { result, applied_count: self.applied };
        if self.outcomes.insert(id, outcome.clone()).is_none() {
            self.order.push_back(id);
        }
        if self.order.len() > REQUESTS_REMEMBERED_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.outcomes.remove(&oldest);
        }
        outcome
    }

    /// All remembered outcomes, oldest first, for a snapshot.
    pub(super) fn all(&self) -> impl Iterator<Item = (RequestId, &CommandOutcome)> {
        self.order.iter().filter_map(|id| self.outcomes.get(id).map(|outcome| (*id, outcome)))
    }

    /// Restores the values of [`Requests::all`] and [`Requests::applied_count`].
    pub(super) fn restored(applied: u64, all: Vec<(RequestId, CommandOutcome)>) -> Requests {
        let order = all.iter().map(|(id, _)| *id).collect();
        Requests { applied, outcomes: all.into_iter().collect(), order }
    }
}
