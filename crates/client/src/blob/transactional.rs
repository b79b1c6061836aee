//! Blobs as part of a transaction, among records and other blobs.
//!
//! What is read of a blob is found at its chunks at once, and their versions are checked by the commit, as those of records are;
//! where it also rests on where the blob ends, or on chunks that are not there, the header's is checked too. What is written
//! waits for the commit, and lies over what is read: of a blob that this transaction makes all is known here. Writes and transforms that fit into what is there check nothing but
//! that the blob was not cut or replaced meanwhile, so that they do not stand in each other's way.
//!
//! The id of a blob that is made is its transaction's version, which only the commit tells: until then its header and chunks are
//! named by [`BlobStamp::OWN`].

use bytes::{Bytes, BytesMut};
use zerohop_session::{CompositeItem, SessionError as Reason};
use zerohop_wire::Failure;
use zerohop_wire::blob::{BlobStamp, FillState};
use zerohop_wire::ids::Timestamp;
use zerohop_wire::messages::{
    BlobChange, Brings, Condition, Number, Query, RecordOperation as WireOperation, RecordRead, RecordWrite,
    Transform as Wire, WriteChange,
};

use super::truncate::next;
use super::write_buffer::{self, Edits};
use super::{Blob, BlobInfo, ChunkRange, FoundPart, KnownHeader, whole};
use crate::error::{BlobTrouble, Error};
use crate::keyspace::Keyspace;
use crate::limits::{BLOB_CUT_CHUNKS_MAX, BLOB_WRITE_BYTES_MAX};
use crate::operation;
use crate::transaction::{Promise, Transaction};
use crate::transform::Transform;

/// A blob as one transaction has to do with it: see [`Transaction::blob`].
#[derive(Clone, Debug)]
pub struct TransactionBlob<'a> {
    pub(super) transaction: Transaction,
    pub(super) blob: Blob<'a>,
}

/// What a transaction knows of a blob.
#[derive(Clone, Debug)]
pub(crate) enum BlobKnowledge {
    /// There was none, and it makes none.
    Absent,
    /// It has removed it. The version of the header that was found; zero: there was none, before this transaction made one.
    Removed(Timestamp),
    There(PresentBlob),
}

/// A blob that is there.
#[derive(Clone, Debug)]
pub(crate) struct PresentBlob {
    /// The header as it was found, with the stamp and the attributes to which this transaction's changes lead, and the greatest
    /// size that it has had before a cut. Of one that is made: with the version of what was there before.
    header: KnownHeader,
    /// Where the blob ends, with what the transaction has done.
    size: u64,
    /// What was found is still there up to here.
    found_end: u64,
    /// The commit gives the header a new version.
    has_changed_header: bool,
}

impl PresentBlob {
    pub(super) fn found(header: KnownHeader) -> Self {
        Self { size: header.size, found_end: header.size, header, has_changed_header: false }
    }

    /// Made by this transaction.
    fn is_own(&self) -> bool {
        self.header.stamp.id == BlobStamp::OWN
    }

    /// Chunks of which there may be any.
    fn chunks(&self) -> u64 {
        self.header.chunks().max(self.size.div_ceil(self.header.chunk_bytes()))
    }
}

/// What a read is to find, and of which header.
#[derive(Debug)]
pub(crate) struct ReadSpan {
    pub(super) header: KnownHeader,
    asked: (u64, u64),
    /// With all of the numbers that lie partly in it.
    wide: (u64, u64),
    /// As far as there was anything to find.
    pub(super) parts: Vec<ChunkRange>,
}

impl ReadSpan {
    /// Of the answer.
    pub(super) fn bytes(&self) -> u64 {
        self.asked.1 - self.asked.0
    }
}

impl Transaction {
    /// A blob, to be read and changed together with whatever else this transaction has to do with.
    pub fn blob<'a>(&self, keyspace: &'a Keyspace, name: impl Into<Bytes>) -> TransactionBlob<'a> {
        TransactionBlob { transaction: self.clone(), blob: keyspace.blob(name) }
    }
}

impl TransactionBlob<'_> {
    /// What it is, as this transaction will leave it; its version is the one that was found. Id and version of one that this
    /// transaction makes are [`Timestamp::MAX`], which stands for the version that [`CommittedTransaction::version`] will tell. It must be
    /// unchanged when the transaction commits, its size included.
    ///
    /// [`CommittedTransaction::version`]: crate::CommittedTransaction::version
    ///
    /// # Errors
    /// As [`Transaction::read`].
    pub async fn stat(&self) -> Result<Option<BlobInfo>, Error> {
        let Some(seen) = self.there().await? else { return Ok(None) };
        self.rest_on_header(&seen.header)?;
        let version = if seen.is_own() { Timestamp::MAX } else { seen.header.version };
        Ok(Some(BlobInfo { size: seen.size, version, ..BlobInfo::of(&seen.header) }))
    }

    /// So many bytes from an offset on, as far as the blob has them, all in memory: 64 MiB at most. What was found of them must
    /// be unchanged when the transaction commits; what this transaction has done lies over it.
    ///
    /// # Errors
    /// As [`Transaction::read`]; `NotFound`; [`BlobTrouble::TooLong`].
    pub async fn read(&self, offset: u64, length: u64) -> Result<Bytes, Error> {
        loop {
            let span = self.span(&self.seen().await?, (offset, length), BLOB_WRITE_BYTES_MAX as u64)?;
            let looked = self.blob.look_at(&span.header, &span.parts).await?;
            if let Some(bytes) = self.filled(&span, looked)? {
                return Ok(bytes);
            }
        }
    }

    /// What is to be found for a read of an offset and a length, of no more bytes than are left.
    pub(super) fn span(
        &self,
        seen: &PresentBlob,
        (offset, length): (u64, u64),
        left: u64,
    ) -> Result<ReadSpan, Error> {
        let end = offset.saturating_add(length);
        // Who asks for nothing wants the blob to be there.
        if end > seen.size || length == 0 {
            self.rest_on_header(&seen.header)?;
        }
        let end = end.min(seen.size).max(offset);
        if end - offset > left {
            return Err(self.blob.trouble(BlobTrouble::TooLong { limit: BLOB_WRITE_BYTES_MAX as u64 }));
        }
        let wide = self.own(|edits| edits.widened((offset, end)))?;
        let found_end = wide.1.min(seen.found_end).max(wide.0);
        let parts = seen.header.parts(wide.0, found_end - wide.0).collect();
        Ok(ReadSpan { header: seen.header.clone(), asked: (offset, end), wide, parts })
    }

    /// What was found, with what this transaction has done over it. `None`: it has done more meanwhile.
    pub(super) fn filled(&self, span: &ReadSpan, looked: Vec<FoundPart>) -> Result<Option<Bytes>, Error> {
        if looked.iter().any(|one| one.version == Timestamp::ZERO) {
            // A chunk that is not there may have come and gone with a cut, of which the header tells.
            self.rest_on_header(&span.header)?;
        }
        let (from, end) = span.wide;
        let mut all = BytesMut::with_capacity((end - from) as usize);
        for (part, looked) in span.parts.iter().zip(looked) {
            self.transaction.rest(self.chunk_read(&span.header, part.number)?, looked.version)?;
            all.extend_from_slice(&whole(looked.bytes, part.length as usize));
        }
        all.resize((end - from) as usize, 0);
        let is_known = self.own(|edits| {
            edits.lie_over(from, &mut all);
            edits.widened(span.asked) == span.wide
        })?;
        let (begin, length) = ((span.asked.0 - from) as usize, (span.asked.1 - span.asked.0) as usize);
        Ok(is_known.then(|| all.freeze().slice(begin..begin + length)))
    }

    /// Has the commit write bytes at an offset, which may lie behind the end: what is between are zeros.
    ///
    /// # Errors
    /// `NotFound`; [`BlobTrouble::TooLong`] for more than 64 MiB; as [`Transaction::write`].
    pub async fn write(&self, offset: u64, bytes: impl Into<Bytes>) -> Result<(), Error> {
        let bytes = bytes.into();
        let end = self.blob.check_place(offset, &bytes)?;
        let seen = self.seen_to_change().await?;
        self.put(&seen, (offset, end), bytes)
    }

    /// Has the commit add bytes at the end, and brings where they will stand: the blob must end where it was found to.
    ///
    /// # Errors
    /// As [`TransactionBlob::write`].
    pub async fn append(&self, bytes: impl Into<Bytes>) -> Result<u64, Error> {
        let bytes = bytes.into();
        let seen = self.seen_to_change().await?;
        self.rest_on_header(&seen.header)?;
        let end = self.blob.check_place(seen.size, &bytes)?;
        self.put(&seen, (seen.size, end), bytes)?;
        Ok(seen.size)
    }

    /// Has the commit change a number in it. One that lies within a chunk is changed there, whatever it will be by then, so that
    /// nothing rests on what it was; one across two chunks is read here, and written. The promise brings what it is then.
    ///
    /// # Errors
    /// As [`TransactionBlob::write`]; as [`TransactionBlob::read`] where it lies across two chunks.
    pub async fn transform<N: Number>(&self, transform: Transform<N>) -> Result<Promise<N>, Error> {
        self.transformed(transform, Brings::New).await
    }

    /// As [`TransactionBlob::transform`], with a promise of what the number was.
    ///
    /// # Errors
    /// As there.
    pub async fn transform_and_get_old<N: Number>(
        &self,
        transform: Transform<N>,
    ) -> Result<Promise<N>, Error> {
        self.transformed(transform, Brings::Old).await
    }

    async fn transformed<N: Number>(
        &self,
        transform: Transform<N>,
        brings: Brings,
    ) -> Result<Promise<N>, Error> {
        let (offset, wire) = transform.parts(brings);
        let width = N::TYPE.bytes() as u64;
        let end = offset.checked_add(width).ok_or_else(|| self.blob.beyond())?;
        let seen = self.seen_to_change().await?;
        let mut parts = seen.header.parts(offset, width);
        let (Some(part), None) = (parts.next(), parts.next()) else {
            let mut number = [0; 8];
            let read = self.read(offset, width).await?;
            number[..read.len()].copy_from_slice(&read);
            let number = &mut number[..width as usize];
            let (old, new) = write_buffer::change(number, &wire);
            self.put(&seen, (offset, end), Bytes::copy_from_slice(number))?;
            let told = if brings == Brings::Old { old } else { new };
            return Ok(Promise::of_known(told, operation::transformed));
        };
        let stamp = seen.header.chunk_stamp();
        self.grow(&seen, end)?;
        let own = Wire { offset: u64::from(part.within), ..wire };
        let change = BlobChange::TransformChunk { stamp, transform: own, makes: true };
        let place = self.change_chunk(&seen.header, part.number, change)?;
        self.noted(|seen, edits| {
            edits.transform(offset, wire);
            seen.size = seen.size.max(end);
        })?;
        Ok(Promise::of_write(place, operation::transformed))
    }

    /// Has the commit make it this large: what is cut off is gone, what is added are zeros. It must end where it was found to.
    ///
    /// # Errors
    /// As [`TransactionBlob::write`]; [`BlobTrouble::TooLong`] where that cuts more than 4,096 chunks.
    pub async fn truncate(&self, size: u64) -> Result<(), Error> {
        let seen = self.seen_to_change().await?;
        self.rest_on_header(&seen.header)?;
        let (stamp, bits) = (seen.header.stamp, seen.header.chunk_bits);
        if size >= seen.size {
            self.grow(&seen, size)?;
            return self.noted(|seen, _| seen.size = size);
        }
        let chunks = seen.chunks();
        self.check_cut(chunks - (size >> bits), bits)?;
        let (after, truncate) = (next(stamp), next(seen.header.chunk_stamp()));
        self.change_header(BlobChange::Cut { stamp, size })?;
        for number in size >> bits..chunks {
            let keep = size.saturating_sub(number << bits) as u32;
            let change = BlobChange::CutChunk { stamp: truncate, keep, marks: false };
            self.change_chunk(&seen.header, number, change)?;
        }
        self.change_header(BlobChange::Settle { stamp: after })?;
        self.noted(|seen, edits| {
            seen.has_changed_header = true;
            seen.header.stamp = after;
            seen.header.size = seen.header.size.max(seen.size);
            (seen.size, seen.found_end) = (size, seen.found_end.min(size));
            edits.cut(size);
        })
    }

    /// Has the commit make it, with chunks as large as the keyspace says. It is empty, and may be written to at once.
    ///
    /// # Errors
    /// `ConditionFailed` if there is one of this name; as [`Transaction::write`].
    pub async fn create(&self, attributes: &[u8]) -> Result<(), Error> {
        self.create_with(self.blob.keyspace.config().chunk_bytes.trailing_zeros() as u8, attributes).await
    }

    /// As [`TransactionBlob::create`], with chunks of another size: its power of two, from 12 (4 KiB) to 24 (16 MiB).
    ///
    /// # Errors
    /// As there.
    pub async fn create_with(&self, chunk_bits: u8, attributes: &[u8]) -> Result<(), Error> {
        if let Some(seen) = self.there().await? {
            let (version, found) = (seen.header.version, None);
            return Err(self.blob.failed(Failure::ConditionFailed { version, found }));
        }
        let version = match self.transaction.blob_seen(&self.place())? {
            Some(BlobKnowledge::Removed(version)) => version,
            _ => Timestamp::ZERO,
        };
        self.change_header(BlobChange::Create { chunk_bits, attributes })?;
        let header = KnownHeader {
            version,
            stamp: BlobStamp { id: BlobStamp::OWN, generation: 0 },
            size: 0,
            uncut: 0,
            filling: FillState::Not,
            chunk_bits,
            attributes: Bytes::copy_from_slice(attributes),
        };
        let seen = PresentBlob { has_changed_header: true, ..PresentBlob::found(header) };
        self.transaction.put_blob(self.place(), BlobKnowledge::There(seen))
    }

    /// Has the commit replace its attributes.
    ///
    /// # Errors
    /// As [`TransactionBlob::write`].
    pub async fn set_attributes(&self, attributes: &[u8]) -> Result<(), Error> {
        let header = self.seen_to_change().await?.header;
        let (stamp, attributes) = (header.stamp, &header.marked(attributes)[..]);
        self.change_header(BlobChange::Describe { stamp, attributes })?;
        self.noted(|seen, _| {
            seen.has_changed_header |= seen.header.attributes != attributes;
            seen.header.attributes = Bytes::copy_from_slice(attributes);
        })
    }

    /// Has the commit remove it, as it was found, with what this transaction has done to it. Brings whether there is one.
    ///
    /// # Errors
    /// [`BlobTrouble::TooLong`] of one with more than 4,096 chunks; as [`Transaction::write`].
    pub async fn remove(&self) -> Result<bool, Error> {
        if self.there().await?.is_none() {
            return Ok(false);
        }
        let seen = self.there_to_change().await?.ok_or_else(|| self.blob.not_found())?;
        let KnownHeader { version, chunk_bits, .. } = seen.header;
        self.check_cut(seen.chunks(), chunk_bits)?;
        self.rest_on_header(&seen.header)?;
        let key = self.blob.header_key()?;
        // Whoever has changed it leaves it at the version of the transaction.
        let condition = Condition::IfVersion(if seen.has_changed_header { Timestamp::MAX } else { version });
        self.add(&WireOperation::Write(RecordWrite { key: &key, condition, change: WriteChange::Remove }))?;
        for number in 0..seen.chunks() {
            let stamp = seen.header.chunk_stamp();
            self.change_chunk(&seen.header, number, BlobChange::DropChunk { stamp })?;
        }
        self.transaction.put_blob(self.place(), BlobKnowledge::Removed(version))?;
        Ok(true)
    }

    /// The header as it was found.
    pub(super) async fn header_now(&self) -> Result<Option<KnownHeader>, Error> {
        Ok(self.there().await?.map(|seen| seen.header))
    }

    /// Has the commit remove the header, as it was found, and leave the chunks. Brings it; `None`: there is no such one.
    pub(super) async fn take_header(
        &self,
        is_meant: impl FnOnce(&KnownHeader) -> bool,
    ) -> Result<Option<KnownHeader>, Error> {
        let Some(header) = self.header_now().await?.filter(is_meant) else { return Ok(None) };
        self.rest_on_header(&header)?;
        let key = self.blob.header_key()?;
        let condition = Condition::IfVersion(header.version);
        self.add(&WireOperation::Write(RecordWrite { key: &key, condition, change: WriteChange::Remove }))?;
        self.transaction.put_blob(self.place(), BlobKnowledge::Removed(header.version))?;
        Ok(Some(header))
    }

    /// It ends there, or behind it: and is of the generation that was seen.
    fn grow(&self, seen: &PresentBlob, size: u64) -> Result<(), Error> {
        self.blob.check_end(&seen.header, size)?;
        self.change_header(BlobChange::Grow { stamp: seen.header.stamp, size })?;
        self.noted(|seen, _| seen.has_changed_header |= size > seen.size)
    }

    fn put(&self, seen: &PresentBlob, (offset, end): (u64, u64), bytes: Bytes) -> Result<(), Error> {
        if bytes.is_empty() {
            return self.rest_on_header(&seen.header);
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
        self.noted(|seen, edits| {
            edits.write(offset, bytes);
            seen.size = seen.size.max(end);
        })
    }

    /// The blob as this transaction sees it; `None`: there is none.
    async fn there(&self) -> Result<Option<PresentBlob>, Error> {
        if self.transaction.blob_seen(&self.place())?.is_none() {
            let found = match self.blob.header().await? {
                Some(header) => BlobKnowledge::There(PresentBlob::found(header)),
                None => BlobKnowledge::Absent,
            };
            self.transaction.found_blob(self.place(), found)?;
        }
        match self.transaction.blob_seen(&self.place())? {
            Some(BlobKnowledge::There(seen)) => Ok(Some(seen)),
            Some(BlobKnowledge::Removed(_)) => Ok(None),
            Some(BlobKnowledge::Absent) | None => {
                self.transaction.rest(self.header_read()?, Timestamp::ZERO)?;
                Ok(None)
            }
        }
    }

    pub(super) async fn seen(&self) -> Result<PresentBlob, Error> {
        let seen = self.there().await?.ok_or_else(|| self.blob.not_found())?;
        self.blob.finished(seen.header.clone()).map(|_| seen)
    }

    /// As [`Self::there`], of a blob that is to be changed: what somebody fills is cut off, and what is left of a cut done, now. Whoever only
    /// reads must not do that. The header is another then, so that the transaction is to be begun again.
    async fn there_to_change(&self) -> Result<Option<PresentBlob>, Error> {
        let seen = self.there().await?;
        if seen.as_ref().is_some_and(|seen| seen.header.uncut > 0) {
            let blob = self.blob.clone().with_unfinished();
            blob.remember(None);
            blob.settled().await?;
            return Err(self.blob.changed());
        }
        Ok(seen)
    }

    /// The same, of one that is there and finished.
    async fn seen_to_change(&self) -> Result<PresentBlob, Error> {
        // First, so that whoever is refused cuts off nothing.
        self.seen().await?;
        self.there_to_change().await?.ok_or_else(|| self.blob.not_found())
    }

    /// The header must be as it was found when the transaction commits.
    fn rest_on_header(&self, header: &KnownHeader) -> Result<(), Error> {
        self.transaction.rest(self.header_read()?, header.version)
    }

    fn header_read(&self) -> Result<CompositeItem, Error> {
        let key = self.blob.header_key()?;
        self.item(&WireOperation::Read(RecordRead { key: &key, query: Query::Inspect }))
    }

    fn chunk_read(&self, header: &KnownHeader, number: u64) -> Result<CompositeItem, Error> {
        let key = self.blob.chunk_key(header, number)?;
        self.item(&WireOperation::Read(RecordRead { key: &key, query: Query::Inspect }))
    }

    fn change_header(&self, change: BlobChange<'_>) -> Result<usize, Error> {
        let key = self.blob.header_key()?;
        let (condition, change) = (Condition::Always, WriteChange::Blob(change));
        self.add(&WireOperation::Write(RecordWrite { key: &key, condition, change }))
    }

    /// Which of the transaction's writes it is.
    fn change_chunk(
        &self,
        header: &KnownHeader,
        number: u64,
        change: BlobChange<'_>,
    ) -> Result<usize, Error> {
        let key = self.blob.chunk_key(header, number)?;
        let (condition, change) = (Condition::Always, WriteChange::Blob(change));
        self.add(&WireOperation::Write(RecordWrite { key: &key, condition, change }))
    }

    fn add(&self, operation: &WireOperation<'_>) -> Result<usize, Error> {
        let item = self.item(operation)?;
        let cell = self.blob.keyspace.cell(operation.key());
        self.transaction.add(item, cell, &self.blob.name)
    }

    fn item(&self, operation: &WireOperation<'_>) -> Result<CompositeItem, Error> {
        let item = CompositeItem::new(self.blob.keyspace.id(), operation, None);
        item.map_err(|unfit| Error::about(&self.blob.name, Reason::Unfit(unfit)))
    }

    fn noted(&self, change: impl FnOnce(&mut PresentBlob, &mut Edits)) -> Result<(), Error> {
        self.transaction.change_blob(&self.place(), change)
    }

    fn own<R: Default>(&self, look: impl FnOnce(&Edits) -> R) -> Result<R, Error> {
        self.transaction.blob_edits(&self.place(), look)
    }

    pub(crate) fn place(&self) -> (zerohop_wire::ids::KeyspaceId, Vec<u8>) {
        (self.blob.keyspace.id(), self.blob.name.to_vec())
    }

    /// Of so many chunks.
    fn check_cut(&self, chunks: u64, bits: u8) -> Result<(), Error> {
        if chunks > BLOB_CUT_CHUNKS_MAX {
            return Err(self.blob.trouble(BlobTrouble::TooLong { limit: BLOB_CUT_CHUNKS_MAX << bits }));
        }
        Ok(())
    }
}
