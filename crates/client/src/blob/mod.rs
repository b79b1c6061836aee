//! Blobs: large mutable objects, striped over chunks of one size that lie where their hashes say.
//!
//! ```text
//!   write ──> within a chunk that is there ──> that chunk, alone: one log entry
//!        └──> anything else ──> one transaction: header (as large, of this generation) and all its chunks
//!   read ───> within a chunk ──> that chunk, alone
//!        └──> of several ──> all of them, then confirmed by a round without contents: one version
//!   fill ───> chunk by chunk behind the end, where nobody looks ──> published by one write of the header
//! ```
//!
//! A handle remembers the header that it has seen last: a chunk tells whoever knows an older one.

mod consistent_read;
mod contents;
mod list;
mod multi_chunk;
mod put;
mod read;
mod read_version;
mod replace;
mod stage;
mod staged_append;
mod stat_many;
mod transactional;
mod truncate;
mod write;
mod write_buffer;

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use tokio::sync::oneshot;
use zerohop_session::{Reply, SessionError as Reason, SessionRequest};
use zerohop_wire::Failure;
use zerohop_wire::blob::{BlobHeader, BlobStamp, FillState, bytes_max, chunk_key, header_key};
use zerohop_wire::ids::Timestamp;
use zerohop_wire::limits::CHUNK_BITS_MAX;
use zerohop_wire::messages::{
    BlobChange, Condition, Query, RecordOperation as WireOperation, RecordRead, RecordWrite, WriteChange,
};

use consistent_read::FoundPart;

pub use consistent_read::BlobSeen;
pub(crate) use contents::{contents_of, own_attributes};
pub use list::BlobList;
pub(crate) use multi_chunk::whole;
pub use put::{BlobPut, PutOptions};
pub use read::BlobRead;
pub use stage::StagedContents;
pub use staged_append::BlobFill;
pub use transactional::TransactionBlob;
pub(crate) use transactional::{BlobKnowledge, PresentBlob as SeenBlob};
pub(crate) use write_buffer::Edits;

use crate::error::{BlobTrouble, Error};
use crate::keyspace::Keyspace;
use crate::limits::BLOB_ATTEMPTS_MAX;

/// A blob of a keyspace, by its name. Nothing is asked of the cluster before an operation is.
#[derive(Clone, Debug)]
pub struct Blob<'a> {
    keyspace: &'a Keyspace,
    name: Bytes,
    /// Shared with clones. Never held while something is awaited.
    known: Arc<Mutex<Option<KnownHeader>>>,
    /// It is read and changed also while it is not finished.
    has_unfinished: bool,
}

/// What a blob is, without its contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlobInfo {
    /// Tells it from others of the same name, earlier and later: the time of its creation.
    pub id: Timestamp,
    /// How often bytes were cut off it, or filled in.
    pub generation: u64,
    /// Bytes.
    pub size: u64,
    /// Bytes of a chunk.
    pub chunk_bytes: u64,
    /// Whatever its owner keeps with it.
    pub attributes: Bytes,
    /// Whether it is complete. `false`: it is being put, or was until its writer ended: see [`Blob::put`].
    pub finished: bool,
    /// When its header was written last: by a write that made it larger, a cut, or new attributes.
    pub version: Timestamp,
}

/// A header as it was read.
#[derive(Clone, Debug)]
struct KnownHeader {
    version: Timestamp,
    stamp: BlobStamp,
    size: u64,
    uncut: u64,
    filling: FillState,
    chunk_bits: u8,
    attributes: Bytes,
}

impl KnownHeader {
    fn chunk_bytes(&self) -> u64 {
        1 << self.chunk_bits
    }

    /// The parts of so many bytes from an offset on, each within one chunk.
    fn parts(&self, offset: u64, length: u64) -> impl Iterator<Item = ChunkRange> + use<> {
        let (bits, end) = (self.chunk_bits, offset.saturating_add(length));
        let mut at = offset;
        std::iter::from_fn(move || {
            let number = at >> bits;
            let within = at - (number << bits);
            let part_end = end.min((number + 1) << bits);
            let part =
                ChunkRange { number, within: within as u32, at, length: part_end.checked_sub(at)? as u32 };
            at = part_end;
            (part.length > 0).then_some(part)
        })
    }

    /// Chunks of which there may be any.
    fn chunks(&self) -> u64 {
        self.size.max(self.uncut).div_ceil(self.chunk_bytes())
    }
}

/// Some bytes of a blob, within one chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ChunkRange {
    /// Of the chunk.
    number: u64,
    /// Where they begin in the chunk, and in the blob.
    within: u32,
    at: u64,
    /// Bytes.
    length: u32,
}

impl Keyspace {
    /// A blob by its name, whether there is one or not.
    pub fn blob(&self, name: impl Into<Bytes>) -> Blob<'_> {
        Blob { keyspace: self, name: name.into(), known: Arc::default(), has_unfinished: false }
    }

    /// Goes through the names of the blobs that begin with `prefix`, in their order, page by page.
    pub fn list_blobs(&self, prefix: impl Into<Bytes>) -> BlobList<'_> {
        BlobList::new(self, prefix.into())
    }

    /// What several blobs are, asked for together, in the order given; `None` where there is none. Not a transaction: each is looked
    /// at for itself.
    ///
    /// # Errors
    /// Of the first that could not be looked at.
    pub async fn stat_blobs<N: AsRef<[u8]>>(&self, names: &[N]) -> Result<Vec<Option<BlobInfo>>, Error> {
        let key = |name: &N| {
            let name = name.as_ref();
            header_key(name).map_err(|failure| Error::about(name, Reason::Answer { failure }))
        };
        let keys = names.iter().map(key).collect::<Result<Vec<_>, Error>>()?;
        let read = |key| WireOperation::Read(RecordRead { key, query: Query::Lookup });
        let asked: Vec<WireOperation<'_>> = keys.iter().map(|key| read(key)).collect();
        let told = self.batch(&asked).await.into_iter().zip(names);
        told.map(|(told, name)| match told {
            Ok(reply) => known_of(&reply).map(|known| Some(BlobInfo::of(&known))),
            Err(error) if matches!(error.failure(), Some(Failure::NotFound)) => Ok(None),
            // By its name, not by the key of its header.
            Err(Error::Operation { reason, .. }) => Err(Error::about(name.as_ref(), *reason)),
            Err(error) => Err(error),
        })
        .collect()
    }
}

impl Blob<'_> {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &Bytes {
        &self.name
    }

    /// Makes it, empty, with chunks as large as the keyspace says. Ends with `ConditionFailed` if there is one of this name.
    pub async fn create(&self, attributes: &[u8]) -> Result<BlobInfo, Error> {
        self.create_with(self.keyspace.config().chunk_bytes.trailing_zeros() as u8, attributes).await
    }

    /// As [`Blob::create`], with chunks of another size: its power of two, from 12 (4 KiB) to 24 (16 MiB).
    pub async fn create_with(&self, chunk_bits: u8, attributes: &[u8]) -> Result<BlobInfo, Error> {
        let key = self.header_key()?;
        match self.change(&key, Condition::Always, BlobChange::Create { chunk_bits, attributes }).await? {
            Reply::Done { version, number } => {
                let known = KnownHeader {
                    version,
                    stamp: BlobStamp { id: number, generation: 0 },
                    size: 0,
                    uncut: 0,
                    filling: FillState::Not,
                    chunk_bits,
                    attributes: Bytes::copy_from_slice(attributes),
                };
                let info = BlobInfo::of(&known);
                self.remember(Some(known));
                Ok(info)
            }
            _ => Err(Error::Unexpected),
        }
    }

    /// What it is, if there is one.
    pub async fn stat(&self) -> Result<Option<BlobInfo>, Error> {
        Ok(self.header().await?.as_ref().map(BlobInfo::of))
    }

    /// Replaces its attributes. Ends with `NotFound` if there is no such blob.
    pub async fn set_attributes(&self, attributes: &[u8]) -> Result<(), Error> {
        let key = self.header_key()?;
        for _ in 0..BLOB_ATTEMPTS_MAX {
            let known = self.known().await?;
            let attributes = &known.marked(attributes);
            let change = BlobChange::Describe { stamp: known.stamp, attributes };
            match self.change(&key, Condition::Always, change).await {
                Ok(_) => return Ok(()),
                Err(error) => self.unless_stale(error)?,
            }
        }
        Err(self.trouble(BlobTrouble::Contended))
    }

    /// The header, if there is a blob, as it is now.
    async fn header(&self) -> Result<Option<KnownHeader>, Error> {
        let key = self.header_key()?;
        let reply = self.ask(&WireOperation::Read(RecordRead { key: &key, query: Query::Lookup })).await;
        let known = match reply {
            Ok(reply) => Some(known_of(&reply)?),
            Err(error) if matches!(error.failure(), Some(Failure::NotFound)) => None,
            Err(error) => return Err(error),
        };
        self.remember(known.clone());
        Ok(known)
    }

    /// The header of a blob that is there, as it is now.
    async fn known(&self) -> Result<KnownHeader, Error> {
        self.finished(self.header().await?.ok_or_else(|| self.not_found())?)
    }

    /// The header as this handle has seen it last, or as it is now.
    async fn recalled(&self) -> Result<KnownHeader, Error> {
        match self.recall() {
            Some(known) if self.has_unfinished || known.is_finished() => Ok(known),
            _ => self.known().await,
        }
    }

    /// The same, of a blob of which no cut is under way and which nobody fills: what is left of a cut is done, and what was
    /// filled is cut off.
    async fn settled(&self) -> Result<KnownHeader, Error> {
        let mut known = self.recalled().await?;
        for _ in 0..BLOB_ATTEMPTS_MAX {
            if known.uncut == 0 {
                return Ok(known);
            }
            self.finish_cut(&known).await?;
            known = self.known().await?;
        }
        Err(self.trouble(BlobTrouble::Contended))
    }

    fn recall(&self) -> Option<KnownHeader> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn remember(&self, known: Option<KnownHeader>) {
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = known;
    }

    /// An error, unless it says that the blob is another by now; then its header is to be read again.
    fn unless_stale(&self, error: Error) -> Result<(), Error> {
        match error.failure() {
            Some(Failure::StaleBlob { .. }) => {
                self.remember(None);
                Ok(())
            }
            _ => Err(error),
        }
    }

    async fn change(&self, key: &[u8], condition: Condition, change: BlobChange<'_>) -> Result<Reply, Error> {
        self.ask(&WireOperation::Write(RecordWrite { key, condition, change: WriteChange::Blob(change) }))
            .await
    }

    async fn ask(&self, operation: &WireOperation<'_>) -> Result<Reply, Error> {
        let answer = self.start(operation)?.await.unwrap_or(Err(Reason::Closed));
        answer.map_err(|reason| Error::about(&self.name, reason))
    }

    /// Sends an operation, without waiting for it.
    fn start(&self, operation: &WireOperation<'_>) -> Result<BlobAnswer, Error> {
        Ok(self.keyspace.client().submit(self.request(operation)?))
    }

    fn request(&self, operation: &WireOperation<'_>) -> Result<SessionRequest, Error> {
        let request =
            SessionRequest::record(self.keyspace.id(), operation, self.keyspace.client().limit_us());
        request.map_err(|failure| self.failed(failure))
    }

    fn header_key(&self) -> Result<Vec<u8>, Error> {
        header_key(&self.name).map_err(|failure| self.failed(failure))
    }

    /// The key of a chunk of the blob that has this header.
    fn chunk_key(&self, header: &KnownHeader, number: u64) -> Result<Vec<u8>, Error> {
        chunk_key(header.contents_name(&self.name), number).map_err(|failure| self.failed(failure))
    }

    /// One with such chunks may end there, or does.
    fn check_end(&self, header: &KnownHeader, end: u64) -> Result<(), Error> {
        let limit = bytes_max(header.chunk_bits);
        if end > header.size.max(limit) { Err(self.trouble(BlobTrouble::Beyond { limit })) } else { Ok(()) }
    }

    /// Beyond what a number holds, whatever its chunks are.
    fn beyond(&self) -> Error {
        self.trouble(BlobTrouble::Beyond { limit: bytes_max(CHUNK_BITS_MAX) })
    }

    fn failed(&self, failure: Failure<'static>) -> Error {
        Error::about(&self.name, Reason::Answer { failure })
    }

    fn not_found(&self) -> Error {
        self.trouble(BlobTrouble::Absent)
    }

    fn trouble(&self, why: BlobTrouble) -> Error {
        Error::blob(&self.name, why)
    }
}

impl BlobInfo {
    fn of(known: &KnownHeader) -> BlobInfo {
        BlobInfo {
            id: Timestamp(known.stamp.id),
            generation: known.stamp.generation,
            size: known.size,
            chunk_bytes: known.chunk_bytes(),
            attributes: known.own_attributes(),
            finished: known.is_finished(),
            version: known.version,
        }
    }
}

/// The header that a lookup of it has brought.
fn known_of(reply: &Reply) -> Result<KnownHeader, Error> {
    let Reply::Value { version, bytes, .. } = reply else { return Err(Error::Unexpected) };
    let header = BlobHeader::decode(bytes).ok_or(Error::Unexpected)?;
    Ok(KnownHeader {
        version: *version,
        stamp: header.stamp,
        size: header.size,
        uncut: header.uncut,
        filling: header.filling,
        chunk_bits: header.chunk_bits,
        attributes: bytes.slice_ref(header.attributes),
    })
}

/// What an operation that was sent comes to.
type BlobAnswer = oneshot::Receiver<Result<Reply, Reason>>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_falls_apart_at_the_borders_of_chunks() {
        let known = KnownHeader {
            version: Timestamp(1),
            stamp: BlobStamp::default(),
            size: 0,
            uncut: 0,
            filling: FillState::Not,
            chunk_bits: 12,
            attributes: Bytes::new(),
        };
        let parts = |offset, length| -> Vec<(u64, u32, u64, u32)> {
            known.parts(offset, length).map(|p| (p.number, p.within, p.at, p.length)).collect()
        };
        assert_eq!(parts(0, 0), []);
        assert_eq!(parts(4096, 4096), [(1, 0, 4096, 4096)]);
        assert_eq!(parts(4095, 4098), [(0, 4095, 4095, 1), (1, 0, 4096, 4096), (2, 0, 8192, 1)]);
    }
}
