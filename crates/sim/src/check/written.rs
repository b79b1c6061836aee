//! Only written values are returned: every token in an answer was sent before, to the same record.

use std::collections::BTreeMap;

use zerohop_base::time::Time;
use zerohop_session::Reply;
use zerohop_wire::Failure;
use zerohop_wire::ids::KeyspaceId;

use super::Violation;
use super::once::{tokens_seen, tokens_written};
use crate::history::{ClientCall, OperationEnd, RunHistory};
use crate::workload::tokens::{display_bytes, is_known_form};

/// When a token was first sent to each record.
type FirstSendTimes<'h> = BTreeMap<(KeyspaceId, &'h [u8], Vec<u8>), Time>;

pub(super) fn check(history: &RunHistory, violations: &mut Vec<Violation>) {
    let mut sent = FirstSendTimes::new();
    for call in &history.calls {
        for token in tokens_written(call) {
            sent.entry((call.keyspace, &call.operation.key, token)).or_insert(call.invoked);
        }
    }
    for call in &history.calls {
        let returned = call.returned.unwrap_or(Time::NEVER);
        let mut strange = |what: String| {
            violations.push(Violation { checker: "written", what: format!("{what}\n    {call}") });
        };
        for token in tokens_seen(call) {
            let shown = display_bytes(&token);
            match sent.get(&(call.keyspace, &*call.operation.key, token)) {
                None => strange(format!("{shown} was never written to this record")),
                Some(first) if *first > returned => {
                    strange(format!("{shown} was seen before it was written"))
                }
                Some(_) => {}
            }
        }
        if let Some(bytes) = impossible_bytes(call) {
            strange(format!("{:?} is nothing that a client writes", display_bytes(&bytes)));
        }
    }
}

/// Bytes in an answer that are not tokens, a number or the result of bit operations.
fn impossible_bytes(call: &ClientCall) -> Option<Vec<u8>> {
    let whole: Vec<&[u8]> = match &call.end {
        // A range of the bytes may begin and end within a token.
        OperationEnd::Done(Reply::Value { bytes, length, .. }) if bytes.len() as u64 == *length => {
            vec![bytes]
        }
        OperationEnd::Done(Reply::List { values, .. }) => values.iter().map(|value| &value[..]).collect(),
        OperationEnd::Failed(Failure::CompareFailed { seen: Some(seen), .. }) => vec![seen],
        _ => return None,
    };
    whole.into_iter().find(|bytes| !is_known_form(&call.operation.key, bytes)).map(<[u8]>::to_vec)
}
