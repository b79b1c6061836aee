//! Every call ends by its deadline, whatever happens; and once faults have ended, every call is done.

use zerohop_placement::Durability;
use zerohop_session::SessionError;
use zerohop_wire::Failure;

use super::Violation;
use crate::history::{OperationEnd, RunHistory};
use crate::limits::{CLUSTER_HEALING_US, DEADLINE_SLACK_US, HEALING_US};

pub(super) fn check(history: &RunHistory, violations: &mut Vec<Violation>) {
    let healing_us = if history.is_cluster { CLUSTER_HEALING_US } else { HEALING_US };
    for call in &history.calls {
        let late = call.deadline.after_us(DEADLINE_SLACK_US);
        let mut wrong = |what: &str| {
            violations.push(Violation { checker: "progress", what: format!("{what}\n    {call}") });
        };
        match call.returned {
            None if history.ended >= late => wrong("a call has not ended by its deadline"),
            Some(returned) if returned > late => wrong("a call has ended after its deadline"),
            _ => {}
        }
        let healthy = history.healed.is_some_and(|healed| call.invoked >= healed.after_us(healing_us));
        if healthy
            && matches!(call.end, OperationEnd::Open | OperationEnd::Unknown | OperationEnd::NotDone(_))
        {
            let keyspace = history.keyspace(call.keyspace);
            let gone = keyspace.is_none_or(|keyspace| keyspace.dropped.is_some());
            // What lives in memory alone may fill it: that is what a budget is for.
            let full = matches!(
                &call.end,
                OperationEnd::NotDone(SessionError::Answer { failure: Failure::MemoryFull })
            ) && keyspace
                .is_some_and(|keyspace| keyspace.durability_at(call.invoked) == Durability::Memory);
            // Whoever has seen the time of a clock that ran ahead is not served until it comes.
            let ahead = matches!(
                &call.end,
                OperationEnd::NotDone(SessionError::Answer { failure: Failure::ClockAhead { .. } })
            ) && history.clocks_were_set;
            // A server whose clock is slow says after the client's time that the wait is over; its margin is of fixed length.
            let slow = matches!(call.end, OperationEnd::NotDone(_))
                && call.operation.is_wait()
                && history.clocks_were_set
                && call.returned.is_some_and(|returned| returned >= call.deadline);
            let corrupt = history.corrupt.contains(&(call.keyspace, call.partition));
            if !gone && !full && !ahead && !slow && !corrupt {
                wrong("a call was not done though nothing was in its way any more");
            }
        }
    }
}
