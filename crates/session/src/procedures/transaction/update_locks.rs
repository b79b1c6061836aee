//! The update locks that a transaction has taken.

use zerohop_wire::messages::{Query, RecordOperation, RecordRead, UpdateLock};

use super::record_name::RecordName;
use crate::procedures::cluster_handle::ClusterHandle;
use crate::{CompositeItem, SessionRequest};

/// The update locks of a transaction. When they are dropped, the servers release them: without that, the next transaction waits until they end.
#[derive(Debug, Default)]
pub(super) struct UpdateLocks {
    client: Option<ClusterHandle>,
    /// The records, with the numbers of their locks.
    locks: Vec<(RecordName, u64)>,
}

impl UpdateLocks {
    /// Adds the lock of a record.
    pub(super) fn add(&mut self, client: &ClusterHandle, record: RecordName, number: u64) {
        self.client.get_or_insert_with(|| client.outside_calls());
        self.locks.push((record, number));
    }

    /// Those of the locks whose records these items are about.
    pub(super) fn of(&self, items: &[CompositeItem]) -> Vec<u64> {
        let is_about = |(keyspace, key): &RecordName| {
            items.iter().any(|item| item.keyspace() == *keyspace && item.key() == key)
        };
        self.locks.iter().filter(|(record, _)| is_about(record)).map(|(_, number)| *number).collect()
    }

    /// The records of these locks have changed, which has ended the locks.
    pub(super) fn changed(&mut self, ended: &[u64]) {
        self.locks.retain(|(_, number)| !ended.contains(number));
    }
}

impl Drop for UpdateLocks {
    fn drop(&mut self) {
        let Some(client) = self.client.take() else { return };
        for ((keyspace, key), number) in self.locks.drain(..) {
            let query = Query::UpdateLock(UpdateLock::Release(number));
            let release = RecordOperation::Read(RecordRead { key: &key, query });
            // Nothing waits for the answer: a lock that stays ends by itself. The key's length was checked before.
            if let Ok(request) = SessionRequest::record(keyspace, &release, client.limit_us()) {
                drop(client.submit(request));
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
    use crate::{Reply, SessionError};

    fn value(bytes: &'static [u8]) -> RequestResult {
        let length = bytes.len() as u64;
        Ok(Reply::Value { version: Timestamp(5), length, bytes: bytes.into() })
    }

    /// A transaction that has read a record for an update; then these answers are left.
    fn locked(answers: impl IntoIterator<Item = RequestResult>) -> (Arc<Script>, Transaction) {
        let script = Arc::new(Script::default());
        script.single.lock().unwrap().extend([value(b"a")].into_iter().chain(answers));
        let client = handle(&script);
        let transaction = Transaction::begin(&client);
        let keyspace = keyspace(&client);
        let read = run(transaction.get_for_update(&keyspace, "key")).unwrap();
        assert_eq!(read.as_deref(), Some(&b"a"[..]));
        // It is known now, and nothing is sent.
        assert_eq!(run(transaction.get(&keyspace, "key")).unwrap(), read);
        assert_eq!(run(transaction.get_for_update(&keyspace, "key")).unwrap(), read);
        (script, transaction)
    }

    fn unused(script: &Script) -> usize {
        script.single.lock().unwrap().len()
    }

    #[test]
    fn lock_of_a_dropped_transaction_is_released_once() {
        let (script, transaction) = locked([value(b"a")]);
        let clone = transaction.clone();
        drop(transaction);
        assert_eq!(unused(&script), 1, "another handle may commit it");
        drop(clone);
        assert_eq!(unused(&script), 0, "a request released it");
    }

    #[test]
    fn lock_is_released_unless_the_record_has_changed() {
        let aborted = SessionError::Aborted { reason: AbortReason::ReadChanged, item: None };
        let done = Ok(Reply::Done { version: Timestamp(9), number: 0 });
        let committed = Ok(Reply::Transacted { version: Timestamp(9), answers: vec![done] });
        for (key, outcome, left) in
            [("key", Err(aborted), 0), ("key", committed.clone(), 1), ("other", committed, 0)]
        {
            let (script, transaction) = locked([outcome, value(b"a")]);
            transaction.insert(&keyspace(transaction.client()), key, "b").unwrap();
            drop(run(transaction.commit()));
            assert_eq!(unused(&script), left, "{key}");
        }
    }
}
