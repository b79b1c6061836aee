//! The commit of a transaction that has only read: the primaries confirm what was read, and nothing is logged.
//!
//! ```text
//!   read a ──> read b ──> all have answered ──> confirm a, confirm b: unchanged, and no transaction is about to change them
//!       |─────────── a is the same ────────────────────|
//!                |───────── b is the same ─────────────────────|
//! ```
//!
//! Between the last read and the first confirmation all records were as they were read, so the transaction takes effect then.

use zerohop_wire::ids::Timestamp;
use zerohop_wire::limits::BODY_BYTES_MAX;
use zerohop_wire::messages::{Confirm, Query, RecordOperation, RecordRead};

use super::record_name::RecordName;
use crate::planted::{Bug, is_planted};
use crate::procedures::cluster_handle::ClusterHandle;
use crate::{Coalescing, Collect, Reply, SessionRequest};

/// The newest version of these records, if all are confirmed. `None`: one has changed, may change soon, or was absent, which nothing confirms. A
/// commit with intents decides then.
pub(super) async fn confirm(client: &ClusterHandle, reads: &[(RecordName, Timestamp)]) -> Option<Timestamp> {
    let newest = reads.iter().map(|(_, version)| *version).max()?;
    if reads.iter().any(|(_, version)| *version == Timestamp::ZERO) {
        return None;
    }
    let together = Coalescing::Within(Collect { delay_us: 0, bytes: BODY_BYTES_MAX as u32 });
    let request = |((keyspace, key), version): &(RecordName, Timestamp)| {
        let query = Query::Confirm(Confirm { version: *version });
        let confirm = RecordOperation::Read(RecordRead { key, query });
        Ok(SessionRequest::record(*keyspace, &confirm, client.limit_us())?.collecting(together))
    };
    let replies = client.submit_batch(reads.iter().map(request).collect()).await;
    let is_confirmed =
        |reply| matches!(reply, Ok(Reply::Done { number: 1, .. })) || is_planted(Bug::ReadsNotConfirmed);
    replies.into_iter().all(is_confirmed).then_some(newest)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use zerohop_wire::AbortReason;

    use super::super::Transaction;
    use super::*;
    use crate::SessionError;
    use crate::procedures::scripted_shell::{Script, handle, keyspace, run};
    use crate::procedures::shell::RequestResult;

    fn value(version: u64) -> RequestResult {
        Ok(Reply::Value { version: Timestamp(version), length: 1, bytes: b"v"[..].into() })
    }

    fn confirmed(number: u64) -> RequestResult {
        Ok(Reply::Done { version: Timestamp(9), number })
    }

    /// Commits a transaction that has read two records with these results. Then the confirmations, and the answer to a commit with intents.
    fn committed(
        results: [RequestResult; 2],
        confirmations: Option<[RequestResult; 2]>,
    ) -> (Arc<Script>, Result<Timestamp, Option<SessionError>>) {
        let script = Arc::new(Script::default());
        let aborted = SessionError::Aborted { reason: AbortReason::ReadChanged, item: None };
        script.single.lock().unwrap().extend(results.into_iter().chain([Err(aborted)]));
        script.batches.lock().unwrap().extend(confirmations.map(Vec::from));
        let client = handle(&script);
        let (transaction, keyspace) = (Transaction::begin(&client), keyspace(&client));
        run(transaction.get(&keyspace, "a")).unwrap();
        run(transaction.get(&keyspace, "b")).unwrap();
        let result = run(transaction.commit());
        (script, result.map(|done| done.version()).map_err(|error| error.reason().cloned()))
    }

    #[test]
    fn confirmed_reads_are_committed_without_intents() {
        let (script, result) = committed([value(5), value(3)], Some([confirmed(1), confirmed(1)]));
        assert_eq!((result, script.single.lock().unwrap().len()), (Ok(Timestamp(5)), 1));
    }

    #[test]
    fn reads_that_are_not_confirmed_are_checked_by_a_commit_with_intents() {
        let overdue = Err(SessionError::Closed);
        for second in [confirmed(0), overdue] {
            let (script, result) = committed([value(5), value(3)], Some([confirmed(1), second]));
            assert!(matches!(result, Err(Some(SessionError::Aborted { .. }))), "{result:?}");
            assert!(script.single.lock().unwrap().is_empty());
        }
        // An absence has no version.
        let absent = Err(SessionError::Answer { failure: zerohop_wire::Failure::NotFound });
        let (script, result) = committed([value(5), absent], None);
        assert!(result.is_err() && script.single.lock().unwrap().is_empty());
    }

    #[cfg(debug_assertions)]
    #[test]
    fn commit_that_ignores_confirmations_is_found() {
        crate::planted::plant(Some(Bug::ReadsNotConfirmed));
        let (_, result) = committed([value(5), value(3)], Some([confirmed(1), confirmed(0)]));
        crate::planted::plant(None);
        assert!(result.is_ok());
    }
}
