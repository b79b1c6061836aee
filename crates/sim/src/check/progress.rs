//! Every call ends by its deadline; once faults have ended, every call succeeds.

use zerohop_placement::Durability;
use zerohop_session::{SessionError, WaitReason};
use zerohop_wire::Failure;

use super::Violation;
use crate::history::{OperationEnd, RunHistory};
use crate::limits::{CLUSTER_HEALING_US, DEADLINE_MARGIN_US, HEALING_US};

pub(super) fn check(history: &RunHistory, violations: &mut Vec<Violation>) {
    let healing_us = if history.is_cluster { CLUSTER_HEALING_US } else { HEALING_US };
    for call in &history.calls {
        let late = call.deadline.after_us(DEADLINE_MARGIN_US);
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
            // A keyspace in memory may fill it: the memory budget exists for that.
            let full = matches!(
                &call.end,
                OperationEnd::NotDone(SessionError::Answer { failure: Failure::MemoryFull })
            ) && keyspace
                .is_some_and(|keyspace| keyspace.durability_at(call.invoked) == Durability::Memory);
            // A client that has seen the time of a fast clock is refused until that time.
            let ahead = matches!(
                &call.end,
                OperationEnd::NotDone(SessionError::Answer { failure: Failure::ClockAhead { .. } })
            ) && history.clocks_were_set;
            // A server with a slow clock reports the end of a wait after the client's deadline, as
            // its margin has a fixed length.
            let slow = matches!(call.end, OperationEnd::NotDone(_))
                && call.operation.is_wait()
                && history.clocks_were_set
                && call.returned.is_some_and(|returned| returned >= call.deadline);
            // Transactions that wait for a corrupt partition hold the places in flight to their coordinators.
            let is_crowded = matches!(
                &call.end,
                OperationEnd::NotDone(SessionError::Deadline { waiting: WaitReason::FreeFrame { .. }, .. })
            );
            let corrupt = history.corrupt.contains(&(call.keyspace, call.partition))
                || is_crowded && !history.corrupt.is_empty();
            if !gone && !full && !ahead && !slow && !corrupt {
                wrong("a call was not done though nothing was in its way any more");
            }
        }
    }
}
