//! Reads of several records in a transaction, in one round.
//!
//! Unlike [`ClusterHandle::read_many`](crate::procedures::ClusterHandle::read_many), these reads have no confirming round: the commit checks all of them.

use std::collections::BTreeSet;

use crate::{CompositeItem, InvalidTransaction, SessionError as Reason, SessionRequest};
use tokio::sync::oneshot;
use zerohop_wire::Failure;

use super::Transaction;
use super::buffer::BufferLookup;
use super::record_name::record_name;
use crate::procedures::error::Error;
use crate::procedures::keyspace::Keyspace;
use crate::procedures::limits::TRANSACTION_ITEMS_MAX;
use crate::procedures::operation::{Record, record};
use crate::procedures::shell::RequestResult;

/// The reads of records that a transaction does not know yet: each item has its request at the same place.
#[derive(Debug, Default)]
pub(crate) struct RecordReads {
    pub(crate) requests: Vec<SessionRequest>,
    pub(crate) items: Vec<CompositeItem>,
}

impl Transaction {
    /// Reads records of any keyspaces in one round and returns them in the order of the keys. The results include this transaction's own writes.
    /// All the records must be unchanged when the transaction commits. For a long list the result has only the first page.
    ///
    /// # Errors
    /// Same as [`Transaction::read`]; the call names more records than a transaction may have.
    pub async fn read_many<K: AsRef<[u8]>>(
        &self,
        records: &[(&Keyspace, K)],
    ) -> Result<Vec<Option<Record>>, Error> {
        check_item_count(records.len())?;
        let RecordReads { requests, items } = self.unknown_records(records)?;
        let answers = self.round(requests).await;
        self.records_found(&items, answers)?;
        self.known_records(records)
    }

    /// The reads of those records that the transaction does not know yet.
    pub(crate) fn unknown_records<K: AsRef<[u8]>>(
        &self,
        records: &[(&Keyspace, K)],
    ) -> Result<RecordReads, Error> {
        let mut reads = RecordReads::default();
        let mut places = BTreeSet::new();
        for (keyspace, key) in records {
            let key = key.as_ref();
            let lookup = keyspace.lookup(key);
            let item = lookup
                .item(None)
                .map_err(|invalid| Error::about(key, Reason::InvalidTransaction(invalid)))?;
            let is_known = matches!(
                self.with(|buffer| buffer.find(&item))?,
                BufferLookup::Known(_) | BufferLookup::Never
            );
            if !is_known && places.insert(record_name(&item)) {
                let request = lookup.request_in(&self.client);
                reads
                    .requests
                    .push(request.map_err(|failure| Error::about(key, Reason::Answer { failure }))?);
                reads.items.push(item);
            }
        }
        Ok(reads)
    }

    /// Stores the results of such reads.
    pub(crate) fn records_found(
        &self,
        items: &[CompositeItem],
        answers: impl IntoIterator<Item = RequestResult>,
    ) -> Result<(), Error> {
        for (item, reply) in items.iter().zip(answers) {
            let answer = match reply {
                Ok(reply) => Ok(reply),
                Err(Reason::Answer { failure: Failure::NotFound }) => Err(Failure::NotFound),
                Err(reason) => return Err(Error::about(item.key(), reason)),
            };
            let noted = self.with(|buffer| buffer.record_read(item, &answer))?;
            noted.map_err(|reason| Error::about(item.key(), reason))?;
        }
        Ok(())
    }

    /// Records that were read, with the transaction's own writes applied.
    pub(crate) fn known_records<K: AsRef<[u8]>>(
        &self,
        records: &[(&Keyspace, K)],
    ) -> Result<Vec<Option<Record>>, Error> {
        records.iter().map(|(keyspace, key)| self.known(keyspace, key.as_ref())).collect()
    }

    fn known(&self, keyspace: &Keyspace, key: &[u8]) -> Result<Option<Record>, Error> {
        let about = |reason| Error::about(key, reason);
        let item =
            keyspace.lookup(key).item(None).map_err(|invalid| about(Reason::InvalidTransaction(invalid)))?;
        let BufferLookup::Known(answer) = self.with(|buffer| buffer.find(&item))? else {
            return Err(Error::NotReadBack { key: key.into() });
        };
        match record(answer) {
            Some(Ok(found)) => Ok(found),
            Some(Err(failure)) => Err(about(Reason::Answer { failure })),
            None => Err(Error::Unexpected),
        }
    }

    /// Sends all requests, and waits for all replies.
    pub(crate) async fn round(&self, requests: Vec<SessionRequest>) -> Vec<RequestResult> {
        let (sent, answers): (Vec<_>, Vec<_>) = requests
            .into_iter()
            .map(|request| {
                let (token, answer) = oneshot::channel();
                ((request, token), answer)
            })
            .unzip();
        if !sent.is_empty() {
            self.client.submit_all(sent);
        }
        let mut replies = Vec::with_capacity(answers.len());
        for answer in answers {
            replies.push(answer.await.unwrap_or(Err(Reason::Closed)));
        }
        replies
    }
}

/// Checks that one call names no more items than a transaction may have.
pub(crate) fn check_item_count(count: usize) -> Result<(), Error> {
    let limit = TRANSACTION_ITEMS_MAX;
    if count > limit {
        return Err(Error::general(Reason::InvalidTransaction(InvalidTransaction::Items { count, limit })));
    }
    Ok(())
}
