//! The reads of a transaction after one of its conditions has failed.
//!
//! Each partition checks its own reads before its own conditions, and the first refusal ends the commit. So a condition that follows from a read can
//! fail at one partition although another would have reported that the read is no longer valid. That is a conflict, which the caller repeats, and
//! not a result of the condition.

use zerohop_wire::Failure;
use zerohop_wire::ids::Timestamp;
use zerohop_wire::messages::{Query, RecordOperation, RecordRead};

use super::record_name::RecordName;
use crate::procedures::cluster_handle::ClusterHandle;
use crate::procedures::shell::PendingReply;
use crate::{Reply, SessionError, SessionRequest};

/// The most records that are inspected at once.
const PARALLEL: usize = 64;

/// The key of a record that has another version than was read; `None` if there is none, or a record cannot be read now.
pub(super) async fn stale_read(
    client: &ClusterHandle,
    reads: &[(RecordName, Timestamp)],
) -> Option<Box<[u8]>> {
    for some in reads.chunks(PARALLEL) {
        let pending: Vec<PendingReply> =
            some.iter().map(|(record, _)| inspect(client, record)).collect::<Option<_>>()?;
        for ((record, version), reply) in some.iter().zip(pending) {
            let now = match reply.await {
                Ok(Ok(Reply::Info { version, .. })) => version,
                Ok(Err(SessionError::Answer { failure: Failure::NotFound })) => Timestamp::ZERO,
                _ => return None,
            };
            if now != *version {
                return Some(record.1.as_slice().into());
            }
        }
    }
    None
}

fn inspect(client: &ClusterHandle, (keyspace, key): &RecordName) -> Option<PendingReply> {
    let read = RecordOperation::Read(RecordRead { key, query: Query::Inspect });
    let request = SessionRequest::record(*keyspace, &read, client.limit_us()).ok()?;
    Some(client.submit(request))
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use bytes::Bytes;
    use zerohop_wire::AbortReason;
    use zerohop_wire::messages::{Condition, RecordType};

    use super::*;
    use crate::procedures::scripted_shell::{Script, handle, keyspace, run};

    /// Whether a commit conflicts whose condition failed, if the record that it has read has this version now.
    fn is_conflict(now: Result<u64, SessionError>) -> bool {
        let info = |version| Reply::Info {
            version: Timestamp(version),
            record: RecordType::Bytes,
            length: 1,
            expires_at_ms: None,
        };
        let answers = [
            Ok(Reply::Value { version: Timestamp(7), length: 1, bytes: Bytes::from_static(b"1") }),
            Err(SessionError::Aborted { reason: AbortReason::ConditionFailed, item: Some(1) }),
            now.map(info),
        ];
        let script = Arc::new(Script { single: Mutex::new(answers.into()), ..Script::default() });
        let client = handle(&script);
        let keyspace = keyspace(&client);
        let transaction = client.begin();
        assert_eq!(run(transaction.get(&keyspace, "next")).unwrap(), Some(Bytes::from_static(b"1")));
        transaction.write(keyspace.insert(b"order-1", b"x").condition(Condition::IfAbsent)).unwrap();
        run(transaction.commit()).unwrap_err().is_conflict()
    }

    #[test]
    fn a_failed_condition_is_a_conflict_if_a_read_is_stale() {
        assert!(is_conflict(Ok(8)), "the condition follows from the read");
        assert!(!is_conflict(Ok(7)), "the condition has failed for what was read");
        let gone = SessionError::Answer { failure: Failure::NotFound };
        assert!(is_conflict(Err(gone)), "the record was removed");
        assert!(!is_conflict(Err(SessionError::Closed)), "nothing is known");
    }
}
