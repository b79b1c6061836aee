//! Blobs as part of a transaction, among records and other blobs.
//!
//! What is read of a blob is found at its chunks at once, and their versions are checked by the commit, as those of records are;
//! where it also rests on where the blob ends, or on chunks that are not there, the header's is checked too. What is written
//! waits for the commit, and lies over what is read. Writes and transforms that fit into what is there check nothing but
//! that the blob was not cut or replaced meanwhile, so that they do not stand in each other's way.

use bytes::{Bytes, BytesMut};
use zerohop_session::{Error as Reason, Item};
use zerohop_wire::Failure;
use zerohop_wire::ids::Timestamp;
use zerohop_wire::messages::{
    BlobChange, Brings, Change, Condition, Number, Operation as WireOperation, Query, Read,
    Transform as Wire, Write,
};

use super::cut::next;
use super::{Blob, BlobInfo, Known, Looked, whole};
use crate::error::{BlobTrouble, Error};
use crate::keyspace::Keyspace;
use crate::limits::{BLOB_CUT_CHUNKS_MAX, BLOB_WRITE_BYTES_MAX};
use crate::transaction::Transaction;
use crate::transform::Transform;

/// A blob as one transaction has to do with it: see [`Transaction::blob`].
#[derive(Clone, Debug)]
pub struct TransactionBlob<'a> {
    transaction: Transaction,
    blob: Blob<'a>,
}

/// What a transaction knows of a blob.
#[derive(Clone, Debug)]
pub(crate) enum Within {
    /// There was none, and it makes none.
    Absent,
    /// It makes one, whose id only the commit tells, or has removed the one that was there.
    Untold,
    There(Seen),
}

/// A blob that is there.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// The header as it was found, with the stamp that this transaction's own cuts lead to.
    header: Known,
    /// Where the blob ends, with what the transaction has done.
    size: u64,
    /// What was found is still there up to here.
    found_end: u64,
    /// What was written, in order, each from an offset on.
    writes: Vec<(u64, Bytes)>,
    /// Numbers whose chunk alone knows what has become of them: from, to.
    transformed: Vec<(u64, u64)>,
    has_changed_header: bool,
}

impl Transaction {
    /// A blob, to be read and changed together with whatever else this transaction has to do with.
    pub fn blob<'a>(&self, keyspace: &'a Keyspace, name: impl Into<Bytes>) -> TransactionBlob<'a> {
        TransactionBlob { transaction: self.clone(), blob: keyspace.blob(name) }
    }
}

impl TransactionBlob<'_> {
    /// What it is, as this transaction will leave it; its version is the one that was found. It must be unchanged when the
    /// transaction commits, its size included.
    ///
    /// # Errors
    /// As [`Transaction::read`]; [`Error::NotReadBack`] of one that this transaction makes or has removed.
    pub async fn stat(&self) -> Result<Option<BlobInfo>, Error> {
        let Some(seen) = self.there().await? else { return Ok(None) };
        self.rest_on_header(&seen.header)?;
        Ok(Some(BlobInfo { size: seen.size, ..BlobInfo::of(&seen.header) }))
    }

    /// So many bytes from an offset on, as far as the blob has them, all in memory: 64 MiB at most. What was found of them must
    /// be unchanged when the transaction commits; what this transaction has written lies over it.
    ///
    /// # Errors
    /// As [`Transaction::read`], also where a number lies in it that this transaction has transformed; `NotFound`;
    /// [`BlobTrouble::TooLong`].
    pub async fn read(&self, offset: u64, length: u64) -> Result<Bytes, Error> {
        let seen = self.seen().await?;
        let end = offset.saturating_add(length);
        if end > seen.size {
            self.rest_on_header(&seen.header)?;
        }
        let end = end.min(seen.size).max(offset);
        let length = usize::try_from(end - offset).unwrap_or(usize::MAX);
        if length > BLOB_WRITE_BYTES_MAX {
            return Err(self.blob.trouble(BlobTrouble::TooLong { limit: BLOB_WRITE_BYTES_MAX as u64 }));
        }
        if seen.transformed.iter().any(|&(from, to)| from < end && offset < to) {
            return Err(self.not_read_back());
        }
        let mut all = BytesMut::with_capacity(length);
        let found_end = end.min(seen.found_end).max(offset);
        let parts: Vec<_> = seen.header.parts(offset, found_end - offset).collect();
        for (part, looked) in parts.iter().zip(self.find(&seen.header, &parts).await?) {
            self.transaction.rest(self.chunk_read(part.number)?, looked.version)?;
            all.extend_from_slice(&whole(looked.bytes, part.length as usize));
        }
        all.resize(length, 0);
        for (at, bytes) in &seen.writes {
            let (from, to) = (offset.max(*at), end.min(at + bytes.len() as u64));
            if from < to {
                let own = &bytes[(from - at) as usize..(to - at) as usize];
                all[(from - offset) as usize..(to - offset) as usize].copy_from_slice(own);
            }
        }
        Ok(all.freeze())
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
    /// transforms of others do not stand in the way; one across two chunks is read here, and written.
    ///
    /// # Errors
    /// As [`TransactionBlob::write`]; as [`TransactionBlob::read`] where it lies across two chunks.
    pub async fn transform<N: Number>(&self, transform: Transform<N>) -> Result<(), Error> {
        let (offset, wire) = transform.parts(Brings::New);
        let width = N::TYPE.bytes() as u64;
        let end = offset.checked_add(width).ok_or_else(|| self.blob.trouble(BlobTrouble::Beyond))?;
        let seen = self.seen_to_change().await?;
        let mut parts = seen.header.parts(offset, width);
        let (Some(part), None) = (parts.next(), parts.next()) else {
            let mut number = [0; 8];
            let read = self.read(offset, width).await?;
            number[..read.len()].copy_from_slice(&read);
            let new = wire.operator.applied(wire.number, u64::from_le_bytes(number), wire.operand);
            return self.put(
                &seen,
                (offset, end),
                Bytes::copy_from_slice(&new.to_le_bytes()[..width as usize]),
            );
        };
        let stamp = seen.header.stamp;
        self.change_header(BlobChange::Grow { stamp, size: end })?;
        let transform = Wire { offset: u64::from(part.within), ..wire };
        self.change_chunk(part.number, BlobChange::TransformChunk { stamp, transform, makes: true })?;
        self.noted(|seen| {
            seen.transformed.push((offset, end));
            seen.size = seen.size.max(end);
        })
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
            self.change_header(BlobChange::Grow { stamp, size })?;
            return self.noted(|seen| seen.size = size);
        }
        let chunks = seen.header.chunks().max(seen.size.div_ceil(seen.header.chunk_bytes()));
        self.check_cut(chunks - (size >> bits), bits)?;
        let after = next(stamp);
        self.change_header(BlobChange::Cut { stamp, size })?;
        for number in size >> bits..chunks {
            let keep = size.saturating_sub(number << bits) as u32;
            self.change_chunk(number, BlobChange::CutChunk { stamp: after, keep, marks: false })?;
        }
        self.change_header(BlobChange::Settle { stamp: after })?;
        self.noted(|seen| {
            seen.header.stamp = after;
            seen.header.size = seen.header.size.max(seen.size);
            (seen.size, seen.found_end) = (size, seen.found_end.min(size));
            seen.writes.retain_mut(|(at, bytes)| {
                bytes.truncate(usize::try_from(size.saturating_sub(*at)).unwrap_or(usize::MAX));
                !bytes.is_empty()
            });
            seen.transformed.retain(|&(from, _)| from < size);
        })
    }

    /// Has the commit make it, empty, with chunks as large as the keyspace says. What is written into it comes with a later
    /// transaction: only this one's commit gives it the id by which its chunks know it.
    ///
    /// # Errors
    /// `ConditionFailed` if there is one of this name; as [`Transaction::write`].
    pub async fn create(&self, attributes: &[u8]) -> Result<(), Error> {
        if let Some(seen) = self.there().await? {
            let (version, found) = (seen.header.version, None);
            return Err(self.blob.failed(Failure::ConditionFailed { version, found }));
        }
        let chunk_bits = self.blob.keyspace.config().chunk_bytes.trailing_zeros() as u8;
        self.transaction.rest(self.header_read()?, Timestamp::ZERO)?;
        self.change_header(BlobChange::Create { chunk_bits, attributes })?;
        self.transaction.put_blob(self.place(), Within::Untold)
    }

    /// Has the commit replace its attributes.
    ///
    /// # Errors
    /// As [`TransactionBlob::write`].
    pub async fn set_attributes(&self, attributes: &[u8]) -> Result<(), Error> {
        let stamp = self.seen_to_change().await?.header.stamp;
        self.change_header(BlobChange::Describe { stamp, attributes })?;
        self.noted(|seen| seen.header.attributes = Bytes::copy_from_slice(attributes))
    }

    /// Has the commit remove it, as it was found. Brings whether there is one.
    ///
    /// # Errors
    /// [`Error::NotReadBack`] of one that this transaction has changed; [`BlobTrouble::TooLong`] of one with more than 4,096
    /// chunks; as [`Transaction::write`].
    pub async fn remove(&self) -> Result<bool, Error> {
        if self.there().await?.is_none() {
            return Ok(false);
        }
        let Seen { header, has_changed_header, .. } = self.seen_to_change().await?;
        if has_changed_header {
            return Err(self.not_read_back());
        }
        self.check_cut(header.chunks(), header.chunk_bits)?;
        self.rest_on_header(&header)?;
        let key = self.blob.header_key()?;
        let condition = Condition::IfVersion(header.version);
        self.add(&WireOperation::Write(Write { key: &key, condition, change: Change::Remove }))?;
        for number in 0..header.chunks() {
            self.change_chunk(number, BlobChange::DropChunk { stamp: header.stamp })?;
        }
        self.transaction.put_blob(self.place(), Within::Untold)?;
        Ok(true)
    }

    fn put(&self, seen: &Seen, (offset, end): (u64, u64), bytes: Bytes) -> Result<(), Error> {
        if bytes.is_empty() {
            return Ok(());
        }
        let stamp = seen.header.stamp;
        self.change_header(BlobChange::Grow { stamp, size: end })?;
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
            self.change_chunk(part.number, change)?;
        }
        self.noted(|seen| {
            seen.transformed.retain(|&(from, to)| from < offset || to > end);
            seen.writes.push((offset, bytes));
            seen.size = seen.size.max(end);
        })
    }

    /// Parts of chunks as they are found now.
    async fn find(&self, header: &Known, parts: &[super::Part]) -> Result<Vec<Looked>, Error> {
        let looked = self.blob.look_at(header, parts).await?;
        if looked.iter().any(|one| one.version == Timestamp::ZERO) {
            // A chunk that is not there may have come and gone with a cut, of which the header tells.
            self.rest_on_header(header)?;
        }
        Ok(looked)
    }

    /// The blob as this transaction sees it; `None`: there is none.
    async fn there(&self) -> Result<Option<Seen>, Error> {
        if self.transaction.blob_seen(&self.place())?.is_none() {
            let found = match self.blob.header().await? {
                Some(header) => Within::There(Seen {
                    size: header.size,
                    found_end: header.size,
                    header,
                    writes: Vec::new(),
                    transformed: Vec::new(),
                    has_changed_header: false,
                }),
                None => Within::Absent,
            };
            self.transaction.found_blob(self.place(), found)?;
        }
        match self.transaction.blob_seen(&self.place())? {
            Some(Within::There(seen)) => Ok(Some(seen)),
            Some(Within::Untold) => Err(self.not_read_back()),
            Some(Within::Absent) | None => {
                self.transaction.rest(self.header_read()?, Timestamp::ZERO)?;
                Ok(None)
            }
        }
    }

    async fn seen(&self) -> Result<Seen, Error> {
        self.there().await?.ok_or_else(|| self.blob.not_found())
    }

    /// The same, of a blob that is to be changed: what somebody fills is cut off, and what is left of a cut done, now. Whoever only
    /// reads must not do that. The header is another then, so that the transaction is to be begun anew.
    async fn seen_to_change(&self) -> Result<Seen, Error> {
        let seen = self.seen().await?;
        if seen.header.uncut > 0 {
            self.blob.remember(None);
            self.blob.settled().await?;
            return Err(self.blob.changed());
        }
        Ok(seen)
    }

    /// The header must be as it was found when the transaction commits.
    fn rest_on_header(&self, header: &Known) -> Result<(), Error> {
        self.transaction.rest(self.header_read()?, header.version)
    }

    fn header_read(&self) -> Result<Item, Error> {
        let key = self.blob.header_key()?;
        self.item(&WireOperation::Read(Read { key: &key, query: Query::Inspect }))
    }

    fn chunk_read(&self, number: u64) -> Result<Item, Error> {
        let key = self.blob.chunk_key(number)?;
        self.item(&WireOperation::Read(Read { key: &key, query: Query::Inspect }))
    }

    fn change_header(&self, change: BlobChange<'_>) -> Result<(), Error> {
        let key = self.blob.header_key()?;
        let (condition, change) = (Condition::Always, Change::Blob(change));
        self.add(&WireOperation::Write(Write { key: &key, condition, change }))?;
        self.transaction.change_blob(&self.place(), |seen| seen.has_changed_header = true)
    }

    fn change_chunk(&self, number: u64, change: BlobChange<'_>) -> Result<(), Error> {
        let key = self.blob.chunk_key(number)?;
        let (condition, change) = (Condition::Always, Change::Blob(change));
        self.add(&WireOperation::Write(Write { key: &key, condition, change }))
    }

    fn add(&self, operation: &WireOperation<'_>) -> Result<(), Error> {
        let item = self.item(operation)?;
        let cell = self.blob.keyspace.cell(operation.key());
        self.transaction.add(item, cell, &self.blob.name).map(drop)
    }

    fn item(&self, operation: &WireOperation<'_>) -> Result<Item, Error> {
        let item = Item::new(self.blob.keyspace.id(), operation, None);
        item.map_err(|unfit| Error::about(&self.blob.name, Reason::Unfit(unfit)))
    }

    fn noted(&self, change: impl FnOnce(&mut Seen)) -> Result<(), Error> {
        self.transaction.change_blob(&self.place(), change)
    }

    fn place(&self) -> (zerohop_wire::ids::KeyspaceId, Vec<u8>) {
        (self.blob.keyspace.id(), self.blob.name.to_vec())
    }

    /// Of so many chunks.
    fn check_cut(&self, chunks: u64, bits: u8) -> Result<(), Error> {
        if chunks > BLOB_CUT_CHUNKS_MAX {
            return Err(self.blob.trouble(BlobTrouble::TooLong { limit: BLOB_CUT_CHUNKS_MAX << bits }));
        }
        Ok(())
    }

    fn not_read_back(&self) -> Error {
        Error::NotReadBack { key: self.blob.name[..].into() }
    }
}
