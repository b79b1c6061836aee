//! Reads of several blobs in one transaction: the requests of its rounds, and their results.

use crate::{Reply, SessionError as Reason, SessionRequest};
use bytes::Bytes;
use zerohop_wire::Failure;
use zerohop_wire::messages::{Query, ReadChunk, RecordOperation as WireOperation, RecordRead};

use super::transactional::ReadSpan;
use super::{Blob, TransactionBlob, known_of};
use crate::procedures::blob_knowledge::{BlobKnowledge, ChunkRange, PresentBlob};
use crate::procedures::error::Error;
use crate::procedures::limits::BLOB_WRITE_BYTES_MAX;
use crate::procedures::transaction::Transaction;

impl<'a> TransactionBlob<'a> {
    pub(super) fn of(transaction: &Transaction, blob: Blob<'a>) -> Self {
        Self { transaction: transaction.clone(), blob: blob.within(transaction.client()) }
    }

    /// The request for the header; `None` if the transaction knows the blob already.
    pub(super) fn header_request(&self) -> Result<Option<SessionRequest>, Error> {
        if self.transaction.blob_seen(&self.record_name())?.is_some() {
            return Ok(None);
        }
        let key = self.blob.header_key()?;
        self.blob.request(&WireOperation::Read(RecordRead { key: &key, query: Query::Lookup })).map(Some)
    }

    /// Stores the result of that request.
    pub(super) fn header_found(&self, reply: Result<Reply, Reason>) -> Result<(), Error> {
        let found = match reply {
            Ok(reply) => BlobKnowledge::There(PresentBlob::found(known_of(&reply)?)),
            Err(Reason::Answer { failure: Failure::NotFound }) => BlobKnowledge::Absent,
            Err(reason) => return Err(Error::about(&self.blob.name, reason)),
        };
        self.transaction.found_blob(self.record_name(), found)
    }

    /// The parts to read for a range, an offset and a length. Also returns how many of the `left` bytes remain for further ranges; `None` starts
    /// with the maximum that one transaction reads at once.
    pub(super) async fn read_span_of(
        &self,
        range: (u64, u64),
        left: Option<u64>,
    ) -> Result<(ReadSpan, u64), Error> {
        let left = left.unwrap_or(BLOB_WRITE_BYTES_MAX as u64);
        let span = self.read_span(&self.seen().await?, range, left)?;
        let left = left - span.bytes();
        Ok((span, left))
    }

    /// The requests for all parts.
    pub(super) fn requests(&self, span: &ReadSpan) -> Result<Vec<SessionRequest>, Error> {
        let query = |part: &ChunkRange| {
            let key = self.blob.chunk_key(&span.header, part.number)?;
            let query = Query::ReadChunk(ReadChunk { offset: part.within, length: part.length });
            self.blob.request(&WireOperation::Read(RecordRead { key: &key, query }))
        };
        span.parts.iter().map(query).collect()
    }

    /// The bytes from the replies, with the transaction's own changes applied. `None`: the transaction has made more changes meanwhile.
    pub(super) fn assembled_bytes(
        &self,
        span: &ReadSpan,
        answers: impl Iterator<Item = Result<Reply, Reason>>,
    ) -> Result<Option<Bytes>, Error> {
        let mut looked = Vec::with_capacity(span.parts.len());
        for answer in answers {
            let found = self.blob.interpret_part(&span.header, answer)?;
            looked.push(found.ok_or_else(|| self.blob.changed())?);
        }
        self.bytes_with_changes(span, looked)
    }
}
