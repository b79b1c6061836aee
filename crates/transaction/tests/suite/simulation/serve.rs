//! A primary's answer to a client's request.

use zerohop_base::time::Time;
use zerohop_transaction::Durability;

use super::client::ClientRequest;
use super::group::{ClientAnswer, Primary, WaitingCaller, owns};

/// A primary processes a client's request.
pub fn serve(
    primary: &mut Primary,
    now: Time,
    log: usize,
    (client, call): (usize, u64),
    query: ClientRequest,
) {
    match query {
        ClientRequest::Transaction { request, lowest, after } => {
            let id = request.id;
            let session = primary.records.sessions.by_id.get(&id.session);
            let outcome = session.and_then(|session| session.outcomes.get(&id.sequence.0)).cloned();
            if let Some(outcome) = outcome {
                return primary.answer((client, call), ClientAnswer::Outcome(outcome), log);
            }
            if session.is_some_and(|session| id.sequence.0 < session.lowest) {
                return;
            }
            if primary.is_session_expired(id.session) && !primary.transactions.runs(&id) {
                primary.answer((client, call), ClientAnswer::SessionExpired, log);
                return;
            }
            zerohop_transaction::PartitionHost::raise(&mut primary.records, after);
            primary.record_lowest(id, lowest);
            let ticket = primary.ticket(WaitingCaller::Transaction { client, call });
            let mut effects = Vec::new();
            let submitted = (ticket, request);
            primary.transactions.request(now, &mut primary.records, submitted, &mut effects).unwrap();
            primary.perform_effects(now, effects, log);
        }
        ClientRequest::Read { lock_key, at } => {
            let ticket = primary.ticket(WaitingCaller::Read { client, call, lock_key, at });
            let go = match at {
                Some(at) => primary.transactions.read_at(&mut primary.records, ticket, lock_key, at),
                None => primary.transactions.read(ticket, lock_key),
            };
            if go == Ok(zerohop_transaction::Admission::Now) {
                primary.read_now(ticket, log);
            }
        }
        ClientRequest::Confirm { items } => {
            let is_here = items.iter().all(|item| owns(primary.records.hash_range)(item.lock_key));
            let is = is_here && primary.transactions.confirm(&primary.records, &items);
            primary.answer((client, call), ClientAnswer::Confirmed(is), log);
        }
        ClientRequest::Local { session, sequence, lock_key, op } => {
            let ticket =
                primary.ticket(WaitingCaller::Local { client, call, session, sequence, lock_key, op });
            if primary.transactions.write(ticket, &[lock_key]) == Ok(zerohop_transaction::Admission::Now) {
                primary.write_now(ticket, log);
            }
        }
        ClientRequest::Stage { id, bytes } => {
            let mut effects = Vec::new();
            if !primary.records.store.staged.contains_key(&id) {
                primary.transactions.stage((id, bytes), Durability::Sync, &mut effects).unwrap();
            }
            primary.perform_effects(now, effects, log);
            primary.answer((client, call), ClientAnswer::Staged, log);
        }
    }
}
