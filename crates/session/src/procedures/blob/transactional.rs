//! Blob operations inside a transaction, together with records and other blobs.
//!
//! A read goes to the chunks immediately, and the commit checks their versions, as for records. If the result also depends on the blob's end or on
//! absent chunks, the commit checks the header's version too. Writes are buffered until the commit, and reads of the transaction see them. The
//! client knows the complete contents of a blob that this transaction creates. Writes and transforms inside the existing contents only check that
//! the blob was not truncated or replaced meanwhile. They therefore do not conflict with each other.
//!
//! The id of a new blob is the version of its transaction, which only the commit determines. Until then [`BlobStamp::OWN`] names its header and
//! chunks.

use crate::{CompositeItem, SessionError as Reason};
use bytes::{Bytes, BytesMut};
use zerohop_wire::Failure;
use zerohop_wire::blob::{BlobStamp, StagedExtensionState};
use zerohop_wire::ids::Timestamp;
use zerohop_wire::messages::{
    BlobChange, Condition, Number, Query, RecordOperation as WireOperation, RecordRead, RecordWrite, Remove,
    ReturnedNumber, Transform as Wire, WriteChange,
};

use super::truncate::next;
use super::{Blob, BlobInfo, ChunkReadResult, with_trailing_zeros};
use crate::procedures::blob_knowledge::{
    BlobKnowledge, BlobWrites, CachedHeader, ChunkRange, PresentBlob, change_number,
};
use crate::procedures::error::{BlobError, Error};
use crate::procedures::limits::BLOB_WRITE_BYTES_MAX;
use crate::procedures::operation;
use crate::procedures::transaction::{Promise, Transaction};
use crate::procedures::transform::Transform;

/// A blob inside one transaction: see [`Transaction::blob`].
#[derive(Clone, Debug)]
pub struct TransactionBlob<'a> {
    pub(super) transaction: Transaction,
    pub(super) blob: Blob<'a>,
}

/// The data to read for one range, and the header that it belongs to.
#[derive(Debug)]
pub(super) struct ReadSpan {
    pub(super) header: CachedHeader,
    requested: (u64, u64),
    /// The range, extended to include every number that lies partly in it.
    wide: (u64, u64),
    /// The parts to read, as far as contents may exist.
    pub(super) parts: Vec<ChunkRange>,
}

impl ReadSpan {
    /// Length of the result in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.requested.1 - self.requested.0
    }
}

impl TransactionBlob<'_> {
    /// Reads the blob's metadata as this transaction will leave it; the version is the one that was read. For a blob that this transaction creates,
    /// id and version are [`Timestamp::MAX`], a placeholder for the result of [`CommittedTransaction::version`]. The metadata, including the size,
    /// must be unchanged when the transaction commits.
    ///
    /// [`CommittedTransaction::version`]: crate::procedures::CommittedTransaction::version
    ///
    /// # Errors
    /// Same as [`Transaction::read`].
    pub async fn stat(&self) -> Result<Option<BlobInfo>, Error> {
        let Some(seen) = self.present_blob().await? else { return Ok(None) };
        self.add_header_dependency(&seen.header)?;
        let version = if seen.is_own() { Timestamp::MAX } else { seen.header.version };
        Ok(Some(BlobInfo { size: seen.size, version, ..BlobInfo::of(&seen.header) }))
    }

    /// Reads up to `length` bytes from `offset`, up to the blob's end, into memory: 64 MiB at most. The contents that were read must be unchanged
    /// when the transaction commits. The result includes this transaction's own changes.
    ///
    /// # Errors
    /// Same as [`Transaction::read`]; `NotFound`; [`BlobError::TooLong`].
    pub async fn read(&self, offset: u64, length: u64) -> Result<Bytes, Error> {
        loop {
            let span = self.read_span(&self.seen().await?, (offset, length), BLOB_WRITE_BYTES_MAX as u64)?;
            let looked = self.blob.read_parts(&span.header, &span.parts).await?;
            if let Some(bytes) = self.bytes_with_changes(&span, looked)? {
                return Ok(bytes);
            }
        }
    }

    /// The parts to read for an offset and a length, limited to `left` bytes.
    pub(super) fn read_span(
        &self,
        seen: &PresentBlob,
        (offset, length): (u64, u64),
        left: u64,
    ) -> Result<ReadSpan, Error> {
        let end = offset.saturating_add(length);
        // An empty read still requires that the blob exists.
        if end > seen.size || length == 0 {
            self.add_header_dependency(&seen.header)?;
        }
        let end = end.min(seen.size).max(offset);
        if end - offset > left {
            return Err(self.blob.error(BlobError::TooLong { limit: BLOB_WRITE_BYTES_MAX as u64 }));
        }
        let wide = self.own(|edits| edits.widened((offset, end)))?;
        let found_end = wide.1.min(seen.found_end).max(wide.0);
        let parts = seen.header.parts(wide.0, found_end - wide.0).collect();
        Ok(ReadSpan { header: seen.header.clone(), requested: (offset, end), wide, parts })
    }

    /// The bytes that were read, with this transaction's changes applied. `None`: the transaction has made more changes meanwhile.
    pub(super) fn bytes_with_changes(
        &self,
        span: &ReadSpan,
        looked: Vec<ChunkReadResult>,
    ) -> Result<Option<Bytes>, Error> {
        if looked.iter().any(|one| one.version == Timestamp::ZERO) {
            // An absent chunk may have existed before a truncation, which the header shows.
            self.add_header_dependency(&span.header)?;
        }
        let (from, end) = span.wide;
        let mut all = BytesMut::with_capacity((end - from) as usize);
        for (part, looked) in span.parts.iter().zip(looked) {
            self.transaction
                .add_read_dependency(self.chunk_read(&span.header, part.number)?, looked.version)?;
            all.extend_from_slice(&with_trailing_zeros(looked.bytes, part.length as usize));
        }
        all.resize((end - from) as usize, 0);
        let is_known = self.own(|edits| {
            edits.apply_over(from, &mut all);
            edits.widened(span.requested) == span.wide
        })?;
        let (begin, length) =
            ((span.requested.0 - from) as usize, (span.requested.1 - span.requested.0) as usize);
        Ok(is_known.then(|| all.freeze().slice(begin..begin + length)))
    }

    /// Buffers a write of bytes at an offset, which may be behind the end: bytes in between become zeros.
    ///
    /// # Errors
    /// `NotFound`; [`BlobError::TooLong`] for more than 64 MiB; those of [`Transaction::write`].
    pub async fn write(&self, offset: u64, bytes: impl Into<Bytes>) -> Result<(), Error> {
        let bytes = bytes.into();
        let end = self.blob.check_range(offset, &bytes)?;
        let seen = self.seen_to_change().await?;
        self.put(&seen, (offset, end), bytes)
    }

    /// Buffers an extension by these bytes, and returns the offset that they will have. At the commit the blob must still end where it was seen to end.
    ///
    /// # Errors
    /// Same as [`TransactionBlob::write`].
    pub async fn extend(&self, bytes: impl Into<Bytes>) -> Result<u64, Error> {
        let bytes = bytes.into();
        let seen = self.seen_to_change().await?;
        self.add_header_dependency(&seen.header)?;
        let end = self.blob.check_range(seen.size, &bytes)?;
        self.put(&seen, (seen.size, end), bytes)?;
        Ok(seen.size)
    }

    /// Buffers a change of a number in the blob. A number within one chunk is changed on its server at the commit, so that the transaction does not
    /// depend on its old value. A number across two chunks is read now and written at the commit. The promise returns the new number.
    ///
    /// # Errors
    /// Those of [`TransactionBlob::write`]; those of [`TransactionBlob::read`] if the number lies across two chunks.
    pub async fn transform<N: Number>(&self, transform: Transform<N>) -> Result<Promise<N>, Error> {
        self.transformed(transform, ReturnedNumber::New).await
    }

    /// Same as [`TransactionBlob::transform`], with a promise of the previous number.
    ///
    /// # Errors
    /// Same as [`TransactionBlob::transform`].
    pub async fn transform_and_get_old<N: Number>(
        &self,
        transform: Transform<N>,
    ) -> Result<Promise<N>, Error> {
        self.transformed(transform, ReturnedNumber::Old).await
    }

    async fn transformed<N: Number>(
        &self,
        transform: Transform<N>,
        returned: ReturnedNumber,
    ) -> Result<Promise<N>, Error> {
        let (offset, wire) = transform.parts(returned);
        let width = N::TYPE.bytes() as u64;
        let end = offset.checked_add(width).ok_or_else(|| self.blob.beyond())?;
        let seen = self.seen_to_change().await?;
        let mut parts = seen.header.parts(offset, width);
        let (Some(part), None) = (parts.next(), parts.next()) else {
            let mut number = [0; 8];
            let read = self.read(offset, width).await?;
            number[..read.len()].copy_from_slice(&read);
            let number = &mut number[..width as usize];
            let (old, new) = change_number(number, &wire);
            self.put(&seen, (offset, end), Bytes::copy_from_slice(number))?;
            let number_returned = if returned == ReturnedNumber::Old { old } else { new };
            return Ok(Promise::of_known(number_returned, operation::transformed));
        };
        let stamp = seen.header.chunk_stamp();
        self.grow(&seen, end)?;
        let own = Wire { offset: u64::from(part.within), ..wire };
        let change = BlobChange::TransformChunk { stamp, transform: own, makes: true };
        let place = self.change_chunk(&seen.header, part.number, change)?;
        self.record_change(|seen, edits| {
            edits.transform(offset, wire);
            seen.size = seen.size.max(end);
        })?;
        Ok(Promise::of_write(place, operation::transformed))
    }

    /// Buffers a change of the size: bytes behind it are removed, and added bytes are zeros. At the commit the blob must still end where it was
    /// seen to end.
    ///
    /// # Errors
    /// Same as [`TransactionBlob::write`]; [`BlobError::TooLong`] if the change truncates more than 4,096 chunks.
    pub async fn truncate(&self, size: u64) -> Result<(), Error> {
        let seen = self.seen_to_change().await?;
        self.add_header_dependency(&seen.header)?;
        let (stamp, bits) = (seen.header.stamp, seen.header.chunk_bits);
        if size >= seen.size {
            self.grow(&seen, size)?;
            return self.record_change(|seen, _| seen.size = size);
        }
        let chunks = seen.chunks();
        self.check_truncation(chunks - (size >> bits), bits)?;
        let (after, truncate) = (next(stamp), next(seen.header.chunk_stamp()));
        self.change_header(BlobChange::Truncate { stamp, size })?;
        for number in size >> bits..chunks {
            let keep = size.saturating_sub(number << bits) as u32;
            let change = BlobChange::TruncateChunk { stamp: truncate, keep, creates_absent: false };
            self.change_chunk(&seen.header, number, change)?;
        }
        self.change_header(BlobChange::Settle { stamp: after })?;
        self.record_change(|seen, edits| {
            seen.has_changed_header = true;
            seen.header.stamp = after;
            seen.header.size = seen.header.size.max(seen.size);
            (seen.size, seen.found_end) = (size, seen.found_end.min(size));
            edits.truncate(size);
        })
    }

    /// Buffers the creation of the blob with the keyspace's chunk size. It is empty, and the transaction may write to it at once.
    ///
    /// # Errors
    /// `ConditionFailed` if there is a blob of this name; those of [`Transaction::write`].
    pub async fn create(&self, attributes: &[u8]) -> Result<(), Error> {
        self.create_with(self.blob.keyspace.config().chunk_bytes.trailing_zeros() as u8, attributes).await
    }

    /// Same as [`TransactionBlob::create`], with another chunk size, given as a power of two: from 12 (4 KiB) to 24 (16 MiB).
    ///
    /// # Errors
    /// Same as [`TransactionBlob::create`].
    pub async fn create_with(&self, chunk_bits: u8, attributes: &[u8]) -> Result<(), Error> {
        if let Some(seen) = self.present_blob().await? {
            let (version, found) = (seen.header.version, None);
            return Err(self.blob.failed(Failure::ConditionFailed { version, found }));
        }
        let version = match self.transaction.blob_seen(&self.record_name())? {
            Some(BlobKnowledge::Removed(version)) => version,
            _ => Timestamp::ZERO,
        };
        self.change_header(BlobChange::Create { chunk_bits, attributes })?;
        let header = CachedHeader {
            version,
            stamp: BlobStamp { id: BlobStamp::OWN, generation: 0 },
            size: 0,
            pending_truncation_end: 0,
            staged_extension: StagedExtensionState::Not,
            chunk_bits,
            attributes: Bytes::copy_from_slice(attributes),
        };
        let seen = PresentBlob { has_changed_header: true, ..PresentBlob::found(header) };
        self.transaction.put_blob(self.record_name(), BlobKnowledge::There(seen))
    }

    /// Buffers a replacement of the blob's attributes.
    ///
    /// # Errors
    /// Same as [`TransactionBlob::write`].
    pub async fn set_attributes(&self, attributes: &[u8]) -> Result<(), Error> {
        let header = self.seen_to_change().await?.header;
        let (stamp, attributes) = (header.stamp, &header.attributes_with_contents(attributes)[..]);
        self.change_header(BlobChange::Describe { stamp, attributes })?;
        self.record_change(|seen, _| {
            seen.has_changed_header |= seen.header.attributes != attributes;
            seen.header.attributes = Bytes::copy_from_slice(attributes);
        })
    }

    /// Buffers the removal of the blob as it was read, with this transaction's changes. Returns whether the blob exists.
    ///
    /// # Errors
    /// [`BlobError::TooLong`] if the blob has more than 4,096 chunks; those of [`Transaction::write`].
    pub async fn remove(&self) -> Result<bool, Error> {
        if self.present_blob().await?.is_none() {
            return Ok(false);
        }
        let seen = self.present_blob_to_change().await?.ok_or_else(|| self.blob.not_found())?;
        let CachedHeader { version, chunk_bits, .. } = seen.header;
        self.check_truncation(seen.chunks(), chunk_bits)?;
        self.add_header_dependency(&seen.header)?;
        let key = self.blob.header_key()?;
        // After a change by this transaction the header has the version of the transaction.
        let condition = Condition::IfVersion(if seen.has_changed_header { Timestamp::MAX } else { version });
        self.add(&WireOperation::Write(RecordWrite {
            key: &key,
            condition,
            change: WriteChange::Remove(Remove),
        }))?;
        for number in 0..seen.chunks() {
            let stamp = seen.header.chunk_stamp();
            self.change_chunk(&seen.header, number, BlobChange::DropChunk { stamp })?;
        }
        self.transaction.put_blob(self.record_name(), BlobKnowledge::Removed(version))?;
        Ok(true)
    }

    /// The header as it was read.
    pub(super) async fn header_now(&self) -> Result<Option<CachedHeader>, Error> {
        Ok(self.present_blob().await?.map(|seen| seen.header))
    }

    /// The header as it was read, which must be unchanged when the transaction commits.
    pub(super) async fn header_as_dependency(&self) -> Result<Option<CachedHeader>, Error> {
        let Some(header) = self.header_now().await? else { return Ok(None) };
        self.add_header_dependency(&header)?;
        Ok(Some(header))
    }

    /// Buffers the removal of the header as it was read, without the chunks. Returns the header; `None`: there is no such header.
    pub(super) async fn buffer_header_removal(
        &self,
        is_meant: impl FnOnce(&CachedHeader) -> bool,
    ) -> Result<Option<CachedHeader>, Error> {
        let Some(header) = self.header_now().await?.filter(is_meant) else { return Ok(None) };
        self.add_header_dependency(&header)?;
        let key = self.blob.header_key()?;
        let condition = Condition::IfVersion(header.version);
        self.add(&WireOperation::Write(RecordWrite {
            key: &key,
            condition,
            change: WriteChange::Remove(Remove),
        }))?;
        self.transaction.put_blob(self.record_name(), BlobKnowledge::Removed(header.version))?;
        Ok(Some(header))
    }

    /// Extends the blob to at least this size; it must still have the generation that was seen.
    fn grow(&self, seen: &PresentBlob, size: u64) -> Result<(), Error> {
        self.blob.check_end(&seen.header, size)?;
        self.change_header(BlobChange::Grow { stamp: seen.header.stamp, size })?;
        self.record_change(|seen, _| seen.has_changed_header |= size > seen.size)
    }

    fn put(&self, seen: &PresentBlob, (offset, end): (u64, u64), bytes: Bytes) -> Result<(), Error> {
        if bytes.is_empty() {
            return self.add_header_dependency(&seen.header);
        }
        let stamp = seen.header.chunk_stamp();
        self.grow(seen, end)?;
        for part in seen.header.parts(offset, end - offset) {
            let from = (part.at - offset) as usize;
            let own = &bytes[from..from + part.length as usize];
            let change = BlobChange::WriteChunk {
                stamp,
                offset: part.within,
                length: part.length,
                bytes: own,
                makes: true,
            };
            self.change_chunk(&seen.header, part.number, change)?;
        }
        self.record_change(|seen, edits| {
            edits.write(offset, bytes);
            seen.size = seen.size.max(end);
        })
    }

    /// The blob as this transaction sees it; `None`: it is absent.
    async fn present_blob(&self) -> Result<Option<PresentBlob>, Error> {
        if self.transaction.blob_seen(&self.record_name())?.is_none() {
            let found = match self.blob.header().await? {
                Some(header) => BlobKnowledge::There(PresentBlob::found(header)),
                None => BlobKnowledge::Absent,
            };
            self.transaction.found_blob(self.record_name(), found)?;
        }
        match self.transaction.blob_seen(&self.record_name())? {
            Some(BlobKnowledge::There(seen)) => Ok(Some(seen)),
            Some(BlobKnowledge::Removed(_)) => Ok(None),
            Some(BlobKnowledge::Absent) | None => {
                self.transaction.add_read_dependency(self.header_read()?, Timestamp::ZERO)?;
                Ok(None)
            }
        }
    }

    pub(super) async fn seen(&self) -> Result<PresentBlob, Error> {
        let seen = self.present_blob().await?.ok_or_else(|| self.blob.not_found())?;
        self.blob.finished(seen.header.clone()).map(|_| seen)
    }

    /// Same as [`Self::present_blob`], for a blob that the transaction is going to change. The client first completes a pending truncation, and cuts off
    /// the bytes of a staged extension. A read must not do that. It changes the header, so that the caller must begin the transaction again.
    async fn present_blob_to_change(&self) -> Result<Option<PresentBlob>, Error> {
        let seen = self.present_blob().await?;
        if seen.as_ref().is_some_and(|seen| seen.header.pending_truncation_end > 0) {
            let blob = self.blob.clone().with_unfinished();
            blob.remember(None);
            match blob.completed_header().await {
                // Another client has removed the blob meanwhile, which the next attempt finds.
                Err(Error::Blob { why: BlobError::Absent, .. }) => {}
                settled => drop(settled?),
            }
            return Err(self.blob.changed());
        }
        Ok(seen)
    }

    /// Same as [`Self::present_blob_to_change`], for a blob that must exist and be finished.
    async fn seen_to_change(&self) -> Result<PresentBlob, Error> {
        // This check comes first, so that a refused call cuts off nothing.
        self.seen().await?;
        self.present_blob_to_change().await?.ok_or_else(|| self.blob.not_found())
    }

    /// Adds a read dependency: the header must be unchanged when the transaction commits.
    fn add_header_dependency(&self, header: &CachedHeader) -> Result<(), Error> {
        self.transaction.add_read_dependency(self.header_read()?, header.version)
    }

    fn header_read(&self) -> Result<CompositeItem, Error> {
        let key = self.blob.header_key()?;
        self.item(&WireOperation::Read(RecordRead { key: &key, query: Query::Inspect }))
    }

    fn chunk_read(&self, header: &CachedHeader, number: u64) -> Result<CompositeItem, Error> {
        let key = self.blob.chunk_key(header, number)?;
        self.item(&WireOperation::Read(RecordRead { key: &key, query: Query::Inspect }))
    }

    fn change_header(&self, change: BlobChange<'_>) -> Result<usize, Error> {
        let key = self.blob.header_key()?;
        let (condition, change) = (Condition::Always, WriteChange::Blob(change));
        self.add(&WireOperation::Write(RecordWrite { key: &key, condition, change }))
    }

    /// Buffers a change of a chunk and returns the write's index.
    fn change_chunk(
        &self,
        header: &CachedHeader,
        number: u64,
        change: BlobChange<'_>,
    ) -> Result<usize, Error> {
        let key = self.blob.chunk_key(header, number)?;
        let (condition, change) = (Condition::Always, WriteChange::Blob(change));
        self.add(&WireOperation::Write(RecordWrite { key: &key, condition, change }))
    }

    fn add(&self, operation: &WireOperation<'_>) -> Result<usize, Error> {
        let item = self.item(operation)?;
        let location = self.blob.keyspace.point_and_partition(operation.key());
        self.transaction.add(item, location, &self.blob.name)
    }

    fn item(&self, operation: &WireOperation<'_>) -> Result<CompositeItem, Error> {
        let item = CompositeItem::new(self.blob.keyspace.id(), operation, None);
        item.map_err(|invalid| Error::about(&self.blob.name, Reason::InvalidTransaction(invalid)))
    }

    fn record_change(&self, change: impl FnOnce(&mut PresentBlob, &mut BlobWrites)) -> Result<(), Error> {
        self.transaction.change_blob(&self.record_name(), change)
    }

    fn own<R: Default>(&self, look: impl FnOnce(&BlobWrites) -> R) -> Result<R, Error> {
        self.transaction.blob_edits(&self.record_name(), look)
    }

    pub(super) fn record_name(&self) -> (zerohop_wire::ids::KeyspaceId, Vec<u8>) {
        (self.blob.keyspace.id(), self.blob.name.to_vec())
    }

    /// Checks that a truncation of this number of chunks fits in one transaction.
    fn check_truncation(&self, chunks: u64, bits: u8) -> Result<(), Error> {
        let chunks_max = self.blob.limits().transaction_chunks;
        if chunks > chunks_max {
            return Err(self.blob.error(BlobError::TooLong { limit: chunks_max << bits }));
        }
        Ok(())
    }
}
