//! Every call ends by its deadline; once faults have ended, every call succeeds.

use zerohop_base::time::Time;
use zerohop_placement::Durability;
use zerohop_session::{SessionError, WaitReason};
use zerohop_wire::Failure;

use super::Violation;
use crate::history::{ClientCall, OperationEnd, RunHistory};
use crate::limits::{CLUSTER_HEALING_US, DEADLINE_MARGIN_US, HEALING_US};
use crate::transaction_results::TransactionRecord;

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
            let is_crowded = matches!(
                &call.end,
                OperationEnd::NotDone(SessionError::Deadline { waiting: WaitReason::FreeFrame { .. }, .. })
            ) && has_waiting_transaction(history, call);
            let corrupt = history.corrupt.contains(&(call.keyspace, call.partition)) || is_crowded;
            if !gone && !full && !ahead && !slow && !corrupt {
                wrong("a call was not done though nothing was in its way any more");
            }
        }
    }
}

/// Whether a transaction of the call's client was open when the call ended, while a keyspace of transactions has a partition whose
/// only copy is corrupt. Transactions that wait for such a partition hold the places in flight to their coordinators.
fn has_waiting_transaction(history: &RunHistory, call: &ClientCall) -> bool {
    let is_corrupt = history.corrupt.iter().any(|(keyspace, _)| history.transactional.contains(keyspace));
    let ended = call.returned.unwrap_or(Time::NEVER);
    let is_open = |one: &TransactionRecord| {
        Some(one.client) == call.client && one.begin() <= ended && one.end().is_none_or(|end| end >= ended)
    };
    is_corrupt && history.transactions.iter().any(is_open)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use zerohop_session::SessionError;
    use zerohop_wire::ids::{KeyspaceId, PartitionId};

    use super::*;
    use crate::history::KeyspaceHistory;
    use crate::workload::operation::{RecordAction, RecordCall};

    #[test]
    fn crowded_call_is_excused_only_beside_open_transaction_of_its_client() {
        let (healed, invoked, returned) = (Time(0), Time(60_000_000), Time(61_000_000));
        let waiting = WaitReason::FreeFrame { address: Arc::from("n:1") };
        let crowded = SessionError::Deadline { waited_us: 1_000_000, waiting, last: None, unreached: None };
        let call = ClientCall {
            client: Some(3),
            keyspace: KeyspaceId(1),
            partition: PartitionId(0),
            operation: RecordCall::new(b"key", RecordAction::Lookup),
            invoked,
            deadline: returned,
            returned: Some(returned),
            end: OperationEnd::NotDone(crowded),
            clock_ms: (0, u64::MAX),
        };
        let keyspaces = vec![KeyspaceHistory { id: KeyspaceId(1), durability: Vec::new(), dropped: None }];
        let findings = |client, corrupt: u32| {
            let history = RunHistory {
                calls: vec![call.clone()],
                transactions: vec![TransactionRecord::begun(client, invoked, Time::NEVER, Vec::new())],
                transactional: vec![KeyspaceId(5)],
                keyspaces: keyspaces.clone(),
                corrupt: vec![(KeyspaceId(corrupt), PartitionId(1))],
                healed: Some(healed),
                is_cluster: true,
                ..RunHistory::default()
            };
            let mut violations = Vec::new();
            check(&history, &mut violations);
            violations.len()
        };
        assert_eq!(findings(3, 5), 0);
        assert_eq!(findings(2, 5), 1, "another client's transaction");
        assert_eq!(findings(3, 6), 1, "a keyspace without transactions");
    }
}
