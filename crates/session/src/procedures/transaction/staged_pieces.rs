//! The pieces that a transaction has staged before its commit.

use std::collections::BTreeMap;

use zerohop_transaction::limits::EXPIRED_PER_ENTRY_MAX;
use zerohop_wire::ids::{KeyspaceId, PartitionId};

use crate::procedures::cluster_handle::ClusterHandle;
use crate::{SessionRequest, StageId};

/// The hash of a key, and the partition to which it belongs.
pub(super) type KeyLocation = (u64, PartitionId);

/// The pieces of a transaction. When it is dropped, the servers are notified that the session needs them no more: without
/// that, they occupy space until they expire.
#[derive(Debug, Default)]
pub(super) struct StagedPieces {
    client: Option<ClusterHandle>,
    pieces: Vec<(KeyspaceId, KeyLocation, StageId)>,
}

impl StagedPieces {
    /// Adds a piece at the partition of a hash.
    pub(super) fn add(
        &mut self,
        client: &ClusterHandle,
        keyspace: KeyspaceId,
        location: KeyLocation,
        id: StageId,
    ) {
        self.client.get_or_insert_with(|| client.clone());
        self.pieces.push((keyspace, location, id));
    }

    /// The transaction has used them, or may still use them.
    pub(super) fn keep(mut self) {
        self.pieces.clear();
    }
}

impl Drop for StagedPieces {
    fn drop(&mut self) {
        let Some(client) = self.client.take() else { return };
        let mut partitions: BTreeMap<_, (u64, Vec<StageId>)> = BTreeMap::new();
        for (keyspace, (hash, partition), id) in self.pieces.drain(..) {
            partitions.entry((keyspace, partition)).or_insert((hash, Vec::new())).1.push(id);
        }
        for ((keyspace, _), (hash, ids)) in partitions {
            for ids in ids.chunks(EXPIRED_PER_ENTRY_MAX) {
                // Nothing waits for the answer: what stays staged expires.
                drop(client.submit(SessionRequest::release_staged(keyspace, hash, ids, client.limit_us())));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use zerohop_wire::AbortReason;
    use zerohop_wire::ids::Timestamp;

    use super::super::Transaction;
    use crate::procedures::scripted_shell::{Script, handle, keyspace, run};
    use crate::procedures::shell::RequestResult;
    use crate::{AttemptFailure, Reply, SessionError, StageId};

    /// Stages a write; then these answers are left.
    fn staged(answers: impl IntoIterator<Item = RequestResult>) -> (Arc<Script>, Transaction) {
        let script = Arc::new(Script::default());
        script
            .single
            .lock()
            .unwrap()
            .extend([Ok(Reply::Staged(StageId::default()))].into_iter().chain(answers));
        let client = handle(&script);
        let transaction = Transaction::begin(&client);
        run(transaction.stage(keyspace(&client).insert("key", &vec![7; 100_000]))).unwrap();
        (script, transaction)
    }

    fn done() -> RequestResult {
        Ok(Reply::Done { version: Timestamp(1), number: 0 })
    }

    fn unused(script: &Script) -> usize {
        script.single.lock().unwrap().len()
    }

    #[test]
    fn pieces_of_a_dropped_transaction_are_released_once() {
        let (script, transaction) = staged([done()]);
        let clone = transaction.clone();
        drop(transaction);
        assert_eq!(unused(&script), 1, "another handle may commit it");
        drop(clone);
        assert_eq!(unused(&script), 0, "a request released them");
    }

    #[test]
    fn pieces_are_released_if_the_commit_has_failed_without_doubt() {
        let aborted = SessionError::Aborted { reason: AbortReason::ReadChanged, item: None };
        let (script, transaction) = staged([Err(aborted), done()]);
        assert!(run(transaction.commit()).unwrap_err().is_conflict());
        assert_eq!(unused(&script), 0, "a request released them");
        let unknown = SessionError::Unknown { why: Box::new(AttemptFailure::Overdue) };
        let answers = vec![Ok(Reply::Done { version: Timestamp(9), number: 0 })];
        let committed = Reply::Transacted { version: Timestamp(9), answers };
        for outcome in [Err(unknown), Ok(committed)] {
            let (script, transaction) = staged([outcome, done()]);
            drop(run(transaction.commit()));
            assert_eq!(unused(&script), 1, "the transaction may need them, or has removed them");
        }
    }
}
