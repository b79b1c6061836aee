//! Changes of a blob's header and chunks in one transaction.

use crate::{CompositeItem, Reply, SessionError as Reason, SessionRequest};
use bytes::Bytes;
use zerohop_wire::ids::Timestamp;
use zerohop_wire::messages::{
    BlobChange, Condition, Query, ReadChunk, RecordOperation as WireOperation, RecordRead, RecordWrite,
    Remove, WriteChange,
};
use zerohop_wire::{AbortReason, Failure};

use super::Blob;
use crate::procedures::blob_knowledge::{CachedHeader, ChunkRange};
use crate::procedures::error::Error;

/// The operations of one transaction over a blob.
#[derive(Debug)]
pub(super) struct BlobTransaction<'b, 'a> {
    blob: &'b Blob<'a>,
    items: Vec<CompositeItem>,
}

/// The result of such a transaction: its version, and the results of its operations.
pub(super) type BlobTransactionResult = (Timestamp, Vec<Result<Reply, Failure<'static>>>);

impl<'a> Blob<'a> {
    pub(super) fn transaction(&self) -> BlobTransaction<'_, 'a> {
        BlobTransaction { blob: self, items: Vec::new() }
    }
}

impl BlobTransaction<'_, '_> {
    /// Adds a change of the header.
    pub(super) fn header(&mut self, condition: Condition, change: BlobChange<'_>) -> Result<(), Error> {
        let key = self.blob.header_key()?;
        self.add(
            &WireOperation::Write(RecordWrite { key: &key, condition, change: WriteChange::Blob(change) }),
            None,
        )
    }

    /// Adds the removal of the header.
    pub(super) fn remove_header(&mut self, version: Timestamp) -> Result<(), Error> {
        let key = self.blob.header_key()?;
        let condition = Condition::IfVersion(version);
        self.add(
            &WireOperation::Write(RecordWrite { key: &key, condition, change: WriteChange::Remove(Remove) }),
            None,
        )
    }

    /// Adds a change of a chunk, which must have the version in `seen`, if one is given.
    pub(super) fn chunk(
        &mut self,
        header: &CachedHeader,
        number: u64,
        change: BlobChange<'_>,
        seen: Option<Timestamp>,
    ) -> Result<(), Error> {
        let key = self.blob.chunk_key(header, number)?;
        let write =
            RecordWrite { key: &key, condition: Condition::Always, change: WriteChange::Blob(change) };
        self.add(&WireOperation::Write(write), seen)
    }

    /// Adds a write of bytes at an offset. The blob grows to their end if it is shorter; absent chunks are created.
    pub(super) fn write(&mut self, header: &CachedHeader, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        for part in header.parts(offset, bytes.len() as u64) {
            let from = (part.at - offset) as usize;
            self.write_part(header, part, &bytes[from..from + part.length as usize], None)?;
        }
        Ok(())
    }

    /// Adds a write within one chunk, which must have the given version.
    pub(super) fn write_part(
        &mut self,
        header: &CachedHeader,
        part: ChunkRange,
        bytes: &[u8],
        seen: Option<Timestamp>,
    ) -> Result<(), Error> {
        let ChunkRange { number, within: offset, length, .. } = part;
        let stamp = header.chunk_stamp();
        let change = BlobChange::WriteChunk { stamp, offset, length, bytes, makes: true };
        self.chunk(header, number, change, seen)
    }

    /// Adds a read of the header.
    pub(super) fn add_header_read(&mut self) -> Result<(), Error> {
        let key = self.blob.header_key()?;
        self.add(&WireOperation::Read(RecordRead { key: &key, query: Query::Lookup }), None)
    }

    /// Adds a read of a part of a chunk.
    pub(super) fn add_part_read(&mut self, header: &CachedHeader, part: ChunkRange) -> Result<(), Error> {
        let key = self.blob.chunk_key(header, part.number)?;
        let query = Query::ReadChunk(ReadChunk { offset: part.within, length: part.length });
        self.add(&WireOperation::Read(RecordRead { key: &key, query }), None)
    }

    /// Adds a check: the chunk must have the version that was seen.
    pub(super) fn check(&mut self, header: &CachedHeader, number: u64, seen: Timestamp) -> Result<(), Error> {
        let key = self.blob.chunk_key(header, number)?;
        self.add(&WireOperation::Read(RecordRead { key: &key, query: Query::Inspect }), Some(seen))
    }

    /// Applies all operations or none.
    pub(super) async fn commit(self) -> Result<BlobTransactionResult, Error> {
        let Blob { client, name, .. } = self.blob;
        let about = |reason| Error::about(name, reason);
        let request = SessionRequest::transaction(self.items, client.limit_us());
        let request = request.map_err(|invalid| about(Reason::InvalidTransaction(invalid)))?;
        match client.submit(request).await.unwrap_or(Err(Reason::Closed)).map_err(about)? {
            Reply::Transacted { version, answers } => Ok((version, answers)),
            _ => Err(Error::Unexpected),
        }
    }

    fn add(&mut self, operation: &WireOperation<'_>, seen: Option<Timestamp>) -> Result<(), Error> {
        let item = CompositeItem::new(self.blob.keyspace.id(), operation, seen);
        self.items.push(
            item.map_err(|invalid| Error::about(&self.blob.name, Reason::InvalidTransaction(invalid)))?,
        );
        Ok(())
    }
}

/// Whether a transaction was refused because the blob has changed since its header was read: the caller must read the header and try again.
pub(super) fn is_refused(error: &Error) -> bool {
    matches!(error.reason(), Some(Reason::Aborted { reason: AbortReason::ConditionFailed, .. }))
}

/// The bytes of a part, extended by the trailing zeros that were left out.
pub(crate) fn with_trailing_zeros(bytes: Bytes, length: usize) -> Bytes {
    if bytes.len() == length {
        return bytes;
    }
    let mut all = bytes::BytesMut::with_capacity(length);
    all.extend_from_slice(&bytes);
    all.resize(length, 0);
    all.freeze()
}
