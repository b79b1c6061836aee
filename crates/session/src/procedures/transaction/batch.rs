//! Reads of several items in a transaction: one round for records and blob headers, and another for chunks.
//!
//! Unlike [`ClusterHandle::read_many`](crate::procedures::ClusterHandle::read_many), these reads have no confirming round: the commit checks all of them.

use std::collections::BTreeSet;

use crate::{InvalidTransaction, Reply, SessionError as Reason, SessionRequest};
use bytes::Bytes;
use tokio::sync::oneshot;
use zerohop_wire::Failure;

use super::Transaction;
use super::buffer::{BufferLookup, record_name};
use crate::procedures::blob::{Blob, BlobInfo, TransactionBlob};
use crate::procedures::error::Error;
use crate::procedures::keyspace::Keyspace;
use crate::procedures::limits::TRANSACTION_ITEMS_MAX;
use crate::procedures::operation::{Record, record};

/// The result of one request of a round.
type RoundResult = Result<Reply, Reason>;

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
        self.read_all(records, &[]).await.map(|(records, _)| records)
    }

    /// Reads ranges of any blobs, each an offset and a length in bytes, up to the blob's end, as [`TransactionBlob::read`] does. It reads all
    /// chunks in one round. A round before that reads the headers of blobs that this transaction does not know yet. The limit is 64 MiB in total.
    ///
    /// # Errors
    /// Same as [`TransactionBlob::read`]; the call names more items than a transaction may have.
    pub async fn read_ranges(&self, ranges: &[(&Blob<'_>, u64, u64)]) -> Result<Vec<Bytes>, Error> {
        self.read_all::<&[u8]>(&[], ranges).await.map(|(_, ranges)| ranges)
    }

    /// Reads the headers of several blobs in one round, as this transaction will leave them; see [`TransactionBlob::stat`].
    ///
    /// # Errors
    /// Same as [`TransactionBlob::stat`]; the call names more items than a transaction may have.
    pub async fn stat_blobs(&self, blobs: &[Blob<'_>]) -> Result<Vec<Option<BlobInfo>>, Error> {
        let (count, limit) = (blobs.len(), TRANSACTION_ITEMS_MAX);
        if count > limit {
            return Err(Error::general(Reason::InvalidTransaction(InvalidTransaction::Items {
                count,
                limit,
            })));
        }
        let blobs: Vec<TransactionBlob<'_>> =
            blobs.iter().map(|blob| TransactionBlob::of(self, blob.clone())).collect();
        self.find_all::<&[u8]>(&[], &blobs).await?;
        let mut all = Vec::with_capacity(blobs.len());
        for blob in &blobs {
            all.push(blob.stat().await?);
        }
        Ok(all)
    }

    /// Does [`Transaction::read_many`] and [`Transaction::read_ranges`] in the same rounds.
    ///
    /// # Errors
    /// Those of both.
    pub async fn read_all<K: AsRef<[u8]>>(
        &self,
        records: &[(&Keyspace, K)],
        ranges: &[(&Blob<'_>, u64, u64)],
    ) -> Result<(Vec<Option<Record>>, Vec<Bytes>), Error> {
        let (count, limit) = (records.len() + ranges.len(), TRANSACTION_ITEMS_MAX);
        if count > limit {
            return Err(Error::general(Reason::InvalidTransaction(InvalidTransaction::Items {
                count,
                limit,
            })));
        }
        let blobs: Vec<TransactionBlob<'_>> =
            ranges.iter().map(|(blob, ..)| TransactionBlob::of(self, (*blob).clone())).collect();
        self.find_all(records, &blobs).await?;
        let records = records.iter().map(|(keyspace, key)| self.known(keyspace, key.as_ref()));
        let records = records.collect::<Result<_, Error>>()?;
        let places: Vec<(u64, u64)> = ranges.iter().map(|(_, offset, length)| (*offset, *length)).collect();
        Ok((records, self.chunks_of(&blobs, &places).await?))
    }

    /// Reads the records and blob headers that the transaction does not know yet.
    async fn find_all<K: AsRef<[u8]>>(
        &self,
        records: &[(&Keyspace, K)],
        blobs: &[TransactionBlob<'_>],
    ) -> Result<(), Error> {
        let (mut requests, mut items, mut unseen) = (Vec::new(), Vec::new(), Vec::new());
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
                requests.push(request.map_err(|failure| Error::about(key, Reason::Answer { failure }))?);
                items.push((key, item));
            }
        }
        places.clear();
        for blob in blobs {
            if let Some(request) = blob.header_request()?
                && places.insert(blob.record_name())
            {
                requests.push(request);
                unseen.push(blob);
            }
        }
        let mut answers = self.round(requests).await.into_iter();
        for ((key, item), reply) in items.iter().zip(answers.by_ref()) {
            let answer = match reply {
                Ok(reply) => Ok(reply),
                Err(Reason::Answer { failure: Failure::NotFound }) => Err(Failure::NotFound),
                Err(reason) => return Err(Error::about(key, reason)),
            };
            let noted = self.with(|buffer| buffer.record_read(item, &answer))?;
            noted.map_err(|reason| Error::about(key, reason))?;
        }
        unseen.iter().zip(answers).try_for_each(|(blob, reply)| blob.header_found(reply))
    }

    /// A record that was read, with the transaction's own writes applied.
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

    async fn chunks_of(
        &self,
        blobs: &[TransactionBlob<'_>],
        places: &[(u64, u64)],
    ) -> Result<Vec<Bytes>, Error> {
        let (mut requests, mut spans, mut left) = (Vec::new(), Vec::new(), None);
        for (blob, place) in blobs.iter().zip(places) {
            let (span, all) = blob.read_span_of(*place, left).await?;
            left = Some(all);
            let own = blob.requests(&span)?;
            spans.push((span, own.len()));
            requests.extend(own);
        }
        let mut answers = self.round(requests).await.into_iter();
        let mut all = Vec::with_capacity(blobs.len());
        for ((blob, (offset, length)), (span, count)) in blobs.iter().zip(places).zip(&spans) {
            all.push(match blob.assembled_bytes(span, answers.by_ref().take(*count))? {
                Some(bytes) => bytes,
                // The transaction has changed the blob meanwhile.
                None => blob.read(*offset, *length).await?,
            });
        }
        Ok(all)
    }

    /// Sends all requests, and waits for all replies.
    async fn round(&self, requests: Vec<SessionRequest>) -> Vec<RoundResult> {
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
