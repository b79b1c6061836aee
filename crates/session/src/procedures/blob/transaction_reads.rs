//! Reads of several items in a transaction: one round for records and blob headers, and another for chunks.
//!
//! As with [`Transaction::read_many`], the commit checks all of them.

use std::collections::BTreeSet;

use bytes::Bytes;

use super::{Blob, BlobInfo, TransactionBlob};
use crate::procedures::error::Error;
use crate::procedures::keyspace::Keyspace;
use crate::procedures::operation::Record;
use crate::procedures::transaction::{RecordReads, Transaction, check_item_count};

impl Transaction {
    /// A handle to read and change a blob inside this transaction.
    pub fn blob<'a>(&self, keyspace: &'a Keyspace, name: impl Into<Bytes>) -> TransactionBlob<'a> {
        TransactionBlob::of(self, keyspace.blob(name))
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
        check_item_count(blobs.len())?;
        let blobs: Vec<TransactionBlob<'_>> =
            blobs.iter().map(|blob| TransactionBlob::of(self, blob.clone())).collect();
        self.find_all(RecordReads::default(), &blobs).await?;
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
        check_item_count(records.len() + ranges.len())?;
        let blobs: Vec<TransactionBlob<'_>> =
            ranges.iter().map(|(blob, ..)| TransactionBlob::of(self, (*blob).clone())).collect();
        self.find_all(self.unknown_records(records)?, &blobs).await?;
        let records = self.known_records(records)?;
        let places: Vec<(u64, u64)> = ranges.iter().map(|(_, offset, length)| (*offset, *length)).collect();
        Ok((records, self.chunks_of(&blobs, &places).await?))
    }

    /// Reads these records, and the blob headers that the transaction does not know yet.
    async fn find_all(&self, records: RecordReads, blobs: &[TransactionBlob<'_>]) -> Result<(), Error> {
        let RecordReads { mut requests, items } = records;
        let (mut unseen, mut places) = (Vec::new(), BTreeSet::new());
        for blob in blobs {
            if let Some(request) = blob.header_request()?
                && places.insert(blob.record_name())
            {
                requests.push(request);
                unseen.push(blob);
            }
        }
        let mut answers = self.round(requests).await.into_iter();
        self.records_found(&items, answers.by_ref().take(items.len()))?;
        unseen.iter().zip(answers).try_for_each(|(blob, reply)| blob.header_found(reply))
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
}
