//! Changes of a blob's header and chunks that are one: a transaction of them.

use bytes::Bytes;
use zerohop_session::{CompositeItem, Reply, SessionError as Reason, SessionRequest};
use zerohop_wire::ids::Timestamp;
use zerohop_wire::messages::{
    BlobChange, Condition, Query, RecordOperation as WireOperation, RecordRead, RecordWrite, WriteChange,
};
use zerohop_wire::{AbortReason, Failure};

use super::{Blob, ChunkRange, KnownHeader};
use crate::error::Error;

/// Operations of one transaction over a blob.
#[derive(Debug)]
pub(super) struct BlobTransaction<'b, 'a> {
    blob: &'b Blob<'a>,
    items: Vec<CompositeItem>,
}

/// What a transaction has brought: its version, and what its operations brought.
pub(super) type BlobTransactionResult = (Timestamp, Vec<Result<Reply, Failure<'static>>>);

impl<'a> Blob<'a> {
    pub(super) fn together(&self) -> BlobTransaction<'_, 'a> {
        BlobTransaction { blob: self, items: Vec::new() }
    }
}

impl BlobTransaction<'_, '_> {
    /// A change of the header.
    pub(super) fn header(&mut self, condition: Condition, change: BlobChange<'_>) -> Result<(), Error> {
        let key = self.blob.header_key()?;
        self.add(
            &WireOperation::Write(RecordWrite { key: &key, condition, change: WriteChange::Blob(change) }),
            None,
        )
    }

    /// The header goes.
    pub(super) fn remove_header(&mut self, version: Timestamp) -> Result<(), Error> {
        let key = self.blob.header_key()?;
        let condition = Condition::IfVersion(version);
        self.add(
            &WireOperation::Write(RecordWrite { key: &key, condition, change: WriteChange::Remove }),
            None,
        )
    }

    /// A change of a chunk, which must have the version that was seen, if one was.
    pub(super) fn chunk(
        &mut self,
        header: &KnownHeader,
        number: u64,
        change: BlobChange<'_>,
        seen: Option<Timestamp>,
    ) -> Result<(), Error> {
        let key = self.blob.chunk_key(header, number)?;
        let write =
            RecordWrite { key: &key, condition: Condition::Always, change: WriteChange::Blob(change) };
        self.add(&WireOperation::Write(write), seen)
    }

    /// Bytes from an offset on, which make the blob as large as their end, and the chunks that are not there.
    pub(super) fn write(&mut self, header: &KnownHeader, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        for part in header.parts(offset, bytes.len() as u64) {
            let from = (part.at - offset) as usize;
            self.write_part(header, part, &bytes[from..from + part.length as usize], None)?;
        }
        Ok(())
    }

    /// The same within one chunk, of which this version was seen.
    pub(super) fn write_part(
        &mut self,
        header: &KnownHeader,
        part: ChunkRange,
        bytes: &[u8],
        seen: Option<Timestamp>,
    ) -> Result<(), Error> {
        let ChunkRange { number, within: offset, length, .. } = part;
        let stamp = header.chunk_stamp();
        let change = BlobChange::WriteChunk { stamp, offset, length, bytes, makes: true };
        self.chunk(header, number, change, seen)
    }

    /// A read of the header.
    pub(super) fn look_at_header(&mut self) -> Result<(), Error> {
        let key = self.blob.header_key()?;
        self.add(&WireOperation::Read(RecordRead { key: &key, query: Query::Lookup }), None)
    }

    /// A read of a part of a chunk.
    pub(super) fn look(&mut self, header: &KnownHeader, part: ChunkRange) -> Result<(), Error> {
        let key = self.blob.chunk_key(header, part.number)?;
        let query = Query::ReadChunk { offset: part.within, length: part.length };
        self.add(&WireOperation::Read(RecordRead { key: &key, query }), None)
    }

    /// A chunk must have the version that was seen.
    pub(super) fn check(&mut self, header: &KnownHeader, number: u64, seen: Timestamp) -> Result<(), Error> {
        let key = self.blob.chunk_key(header, number)?;
        self.add(&WireOperation::Read(RecordRead { key: &key, query: Query::Inspect }), Some(seen))
    }

    /// Does all of it, or none.
    pub(super) async fn commit(self) -> Result<BlobTransactionResult, Error> {
        let Blob { keyspace, name, .. } = self.blob;
        let client = keyspace.client();
        let about = |reason| Error::about(name, reason);
        let request = SessionRequest::transaction(self.items, client.limit_us());
        let request = request.map_err(|unfit| about(Reason::Unfit(unfit)))?;
        match client.submit(request).await.unwrap_or(Err(Reason::Closed)).map_err(about)? {
            Reply::Transacted { version, answers } => Ok((version, answers)),
            _ => Err(Error::Unexpected),
        }
    }

    fn add(&mut self, operation: &WireOperation<'_>, seen: Option<Timestamp>) -> Result<(), Error> {
        let item = CompositeItem::new(self.blob.keyspace.id(), operation, seen);
        self.items.push(item.map_err(|unfit| Error::about(&self.blob.name, Reason::Unfit(unfit)))?);
        Ok(())
    }
}

/// Whether a transaction was not done because the blob is another than the header said: read it, and try again.
pub(super) fn is_refused(error: &Error) -> bool {
    matches!(error.reason(), Some(Reason::Aborted { reason: AbortReason::ConditionFailed, .. }))
}

/// The bytes of a part with the zeros that were left out at its end.
pub(crate) fn whole(bytes: Bytes, length: usize) -> Bytes {
    if bytes.len() == length {
        return bytes;
    }
    let mut all = bytes::BytesMut::with_capacity(length);
    all.extend_from_slice(&bytes);
    all.resize(length, 0);
    all.freeze()
}
