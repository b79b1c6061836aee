//! Exactly once, by tokens: every append and extend of the workload carries a token that no other
//! write has. A token occurs in a record at most once, however often its request was sent. The
//! token of a write that its client knows not to have happened occurs nowhere. That acknowledged
//! writes are there is checked by [`super::linear`].

use std::collections::{BTreeMap, BTreeSet};

use zerohop_session::Reply;
use zerohop_wire::Failure;

use super::Violation;
use super::order::loss_between;
use crate::history::{ClientCall, OperationEnd, RunHistory};
use crate::workload::operation::RecordAction;
use crate::workload::tokens::{display_bytes, tokens_of};

pub(super) fn check(history: &RunHistory, violations: &mut Vec<Violation>) {
    let mut denied: BTreeMap<Vec<u8>, &ClientCall> = BTreeMap::new();
    for call in &history.calls {
        // A write that took effect before a loss may be refused when it is retried.
        let is_denied = matches!(call.end, OperationEnd::NotDone(_) | OperationEnd::Failed(_));
        if is_denied && !loss_between(history, (call.keyspace, call.partition), (call.invoked, call.returned))
        {
            denied.extend(tokens_written(call).into_iter().map(|token| (token, call)));
        }
    }
    for call in &history.calls {
        let mut seen = BTreeSet::new();
        for token in tokens_seen(call) {
            let shown = display_bytes(&token);
            if let Some(denied) = denied.get(&token) {
                let what =
                    format!("{shown} was seen though its write was not done\n    {denied}\n    {call}");
                violations.push(Violation { checker: "once", what });
            }
            if !seen.insert(token) {
                let what = format!("{shown} stands twice in one record\n    {call}");
                violations.push(Violation { checker: "once", what });
            }
        }
    }
}

/// The tokens that a write would leave in its record.
pub(super) fn tokens_written(call: &ClientCall) -> Vec<Vec<u8>> {
    match &call.operation.act {
        RecordAction::Insert { value, .. } | RecordAction::CompareSwap { new: Some(value), .. } => {
            tokens_of(value)
        }
        RecordAction::Append { values } => values.iter().flat_map(|value| tokens_of(value)).collect(),
        RecordAction::Extend { bytes } => tokens_of(bytes),
        _ => Vec::new(),
    }
}

/// The tokens in an answer.
pub(super) fn tokens_seen(call: &ClientCall) -> Vec<Vec<u8>> {
    match &call.end {
        OperationEnd::Done(Reply::Value { bytes, .. }) => tokens_of(bytes),
        OperationEnd::Done(Reply::List { values, .. }) => {
            values.iter().flat_map(|value| tokens_of(value)).collect()
        }
        OperationEnd::Failed(Failure::CompareFailed { seen: Some(seen), .. }) => tokens_of(seen),
        _ => Vec::new(),
    }
}
