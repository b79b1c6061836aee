//! Blobs: large mutable objects, striped over chunks of one size that lie where their hashes say.
//!
//! ```text
//!   write ──> chunk (one log entry at its primary) ──> header: larger, or looked at again ──> done
//!                  │ the blob was cut                        │ cut, or made anew
//!                  └──────────── read the header, finish the cut, and once more ───────────┘
//! ```
//!
//! What lies in one chunk is read, written and transformed as one. A write over several chunks would be a transaction, of
//! which blobs are no part yet, and is refused: [`Blob::write_at`] takes what lies within one chunk.

mod cut;
mod list;
mod read;

use bytes::Bytes;
use tokio::sync::oneshot;
use zerohop_session::{Error as Reason, Reply, Request};
use zerohop_wire::Failure;
use zerohop_wire::blob::{BlobHeader, BlobStamp, chunk_key, header_key};
use zerohop_wire::ids::Timestamp;
use zerohop_wire::messages::{
    BlobChange, Brings, Change, Condition, Number, Operation as WireOperation, Query, Read, Write,
};

pub use list::BlobList;
pub use read::BlobRead;
pub(crate) use read::whole;

use crate::error::{BlobTrouble, Error};
use crate::keyspace::Keyspace;
use crate::transform::Transform;

/// Bytes of a chunk, as a power of two, unless a blob is made with another: 1 MiB.
pub const CHUNK_BITS_DEFAULT: u8 = 20;

/// How often a write begins anew because the blob was cut meanwhile. Whoever cuts more often than that is at fault.
const ATTEMPTS_MAX: u32 = 16;

/// How often an append asks for a place that another takes first. Each time somebody has appended.
const PLACES_MAX: u32 = 1000;

/// A blob of a keyspace, by its name. Nothing is asked of the cluster before an operation is.
#[derive(Clone, Debug)]
pub struct Blob<'a> {
    keyspace: &'a Keyspace,
    name: Bytes,
}

/// What a blob is, without its contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlobInfo {
    /// Tells it from others of the same name, earlier and later: the time of its creation.
    pub id: Timestamp,
    /// How often bytes were cut off it.
    pub generation: u64,
    /// Bytes.
    pub size: u64,
    /// Bytes of a chunk: what lies within one is written as one.
    pub chunk_bytes: u64,
    /// Whatever its owner keeps with it.
    pub attributes: Bytes,
    /// When its header was written last: by a write that made it larger, a cut, or new attributes.
    pub version: Timestamp,
}

/// A header as it was read.
#[derive(Clone, Debug)]
struct Known {
    version: Timestamp,
    stamp: BlobStamp,
    size: u64,
    uncut: u64,
    chunk_bits: u8,
    attributes: Bytes,
}

impl Known {
    fn chunk_bytes(&self) -> u64 {
        1 << self.chunk_bits
    }

    /// Number of the chunk that holds so many bytes from an offset on, and the offset in it.
    fn place(&self, offset: u64, length: u64) -> Option<(u64, u32)> {
        let end = offset.checked_add(length.max(1))?;
        let number = offset >> self.chunk_bits;
        let within = offset - (number << self.chunk_bits);
        ((end - 1) >> self.chunk_bits == number).then_some((number, within as u32))
    }
}

impl Keyspace {
    /// A blob by its name, whether there is one or not.
    pub fn blob(&self, name: impl Into<Bytes>) -> Blob<'_> {
        Blob { keyspace: self, name: name.into() }
    }

    /// Goes through the names of the blobs that begin with `prefix`, in their order, page by page.
    pub fn list_blobs(&self, prefix: impl Into<Bytes>) -> BlobList<'_> {
        BlobList::new(self, prefix.into())
    }
}

impl<'a> Blob<'a> {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &Bytes {
        &self.name
    }

    /// Makes it, empty, with chunks of 1 MiB. Ends with `ConditionFailed` if there is one of this name.
    pub async fn create(&self, attributes: &[u8]) -> Result<BlobInfo, Error> {
        self.create_with(CHUNK_BITS_DEFAULT, attributes).await
    }

    /// As [`Blob::create`], with chunks of another size: its power of two, from 12 (4 KiB) to 24 (16 MiB).
    pub async fn create_with(&self, chunk_bits: u8, attributes: &[u8]) -> Result<BlobInfo, Error> {
        let key = self.header_key()?;
        match self.change(&key, Condition::Always, BlobChange::Create { chunk_bits, attributes }).await? {
            Reply::Done { version, number } => Ok(BlobInfo {
                id: Timestamp(number),
                generation: 0,
                size: 0,
                chunk_bytes: 1 << chunk_bits,
                attributes: Bytes::copy_from_slice(attributes),
                version,
            }),
            _ => Err(Error::Unexpected),
        }
    }

    /// What it is, if there is one.
    pub async fn stat(&self) -> Result<Option<BlobInfo>, Error> {
        Ok(self.header().await?.map(|known| BlobInfo {
            id: Timestamp(known.stamp.id),
            generation: known.stamp.generation,
            size: known.size,
            chunk_bytes: known.chunk_bytes(),
            attributes: known.attributes,
            version: known.version,
        }))
    }

    /// Replaces its attributes. Ends with `NotFound` if there is no such blob.
    pub async fn set_attributes(&self, attributes: &[u8]) -> Result<(), Error> {
        let key = self.header_key()?;
        for _ in 0..ATTEMPTS_MAX {
            let stamp = self.known().await?.stamp;
            let change = BlobChange::Describe { stamp, attributes };
            match self.change(&key, Condition::Always, change).await {
                Ok(_) => return Ok(()),
                Err(error) => self.unless_stale(error)?,
            }
        }
        Err(self.trouble(BlobTrouble::Contended))
    }

    /// Streams so many bytes from an offset on, as far as the blob has them, in pieces and within a few MiB of memory. Each
    /// piece is as it was at one moment; all of them together need not be.
    pub async fn read_at(&self, offset: u64, length: u64) -> Result<BlobRead<'a>, Error> {
        let known = self.known().await?;
        Ok(BlobRead::new(self.clone(), known, offset, length))
    }

    /// Writes bytes at an offset, which may lie behind the end: what is between are zeros. They must lie within one chunk;
    /// all of them are there then, or none.
    pub async fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        if bytes.is_empty() {
            return self.known().await.map(drop);
        }
        for _ in 0..ATTEMPTS_MAX {
            let header = self.settled().await?;
            if self.write_once(&header, offset, bytes).await? {
                return Ok(());
            }
        }
        Err(self.trouble(BlobTrouble::Contended))
    }

    /// Adds bytes at the end, and brings where they stand. Nobody else's are between them. Until it is done readers may find
    /// zeros in the place of the bytes, or of some of them.
    pub async fn append(&self, bytes: &[u8]) -> Result<u64, Error> {
        let key = self.header_key()?;
        for _ in 0..PLACES_MAX {
            let header = self.settled().await?;
            let (stamp, offset) = (header.stamp, header.size);
            if bytes.is_empty() {
                return Ok(offset);
            }
            // The place is taken first, by whoever finds the size as it was: nobody else writes there.
            let size = offset + bytes.len() as u64;
            let taken = self
                .change(&key, Condition::IfVersion(header.version), BlobChange::Grow { stamp, size })
                .await;
            match taken {
                Ok(_) => {
                    self.write_pieces(offset, bytes, header.chunk_bytes()).await?;
                    return Ok(offset);
                }
                Err(error) if matches!(error.failure(), Some(Failure::ConditionFailed { .. })) => {}
                Err(error) => self.unless_stale(error)?,
            }
        }
        Err(self.trouble(BlobTrouble::Contended))
    }

    /// Changes a number in it, which lies within one chunk, where that is; bytes that are not there are zeros. Brings what it
    /// is now.
    pub async fn transform<N: Number>(&self, transform: Transform<N>) -> Result<N, Error> {
        let (offset, wire) = transform.parts(Brings::New);
        let width = N::TYPE.bytes();
        for _ in 0..ATTEMPTS_MAX {
            let header = self.settled().await?;
            let (number, within) = self.place(&header, offset, width)?;
            let (key, stamp) = (self.chunk_key(number)?, header.stamp);
            let transform = zerohop_wire::messages::Transform { offset: u64::from(within), ..wire };
            let change = BlobChange::TransformChunk { stamp, transform, makes: true };
            let bits = match self.change(&key, Condition::Always, change).await {
                Ok(Reply::Done { number, .. }) => number,
                Ok(_) => return Err(Error::Unexpected),
                Err(error) => {
                    self.unless_stale(error)?;
                    continue;
                }
            };
            // It is done: doing it once more would change the number twice.
            return match self.confirm(&header, offset + width as u64).await? {
                true => Ok(N::from_bits(bits)),
                false => Err(self.trouble(BlobTrouble::CutMeanwhile)),
            };
        }
        Err(self.trouble(BlobTrouble::Contended))
    }

    /// Writes chunk by chunk.
    async fn write_pieces(&self, offset: u64, bytes: &[u8], chunk_bytes: u64) -> Result<(), Error> {
        let (mut at, mut left) = (offset, bytes);
        while !left.is_empty() {
            let room = (chunk_bytes - at % chunk_bytes).min(left.len() as u64) as usize;
            let (piece, rest) = left.split_at(room);
            self.write_at(at, piece).await?;
            (at, left) = (at + room as u64, rest);
        }
        Ok(())
    }

    /// One attempt; `false`: the blob was cut meanwhile, and it may have to be done again.
    async fn write_once(&self, header: &Known, offset: u64, bytes: &[u8]) -> Result<bool, Error> {
        let (number, within) = self.place(header, offset, bytes.len())?;
        let key = self.chunk_key(number)?;
        let (stamp, length) = (header.stamp, bytes.len() as u32);
        let change = BlobChange::WriteChunk { stamp, offset: within, length, bytes, makes: true };
        match self.change(&key, Condition::Always, change).await {
            Ok(_) => self.confirm(header, offset + bytes.len() as u64).await,
            Err(error) => self.unless_stale(error).map(|()| false),
        }
    }

    /// Behind a write: whether the blob is the same still, and not cut. It is made as large as the write's end.
    async fn confirm(&self, header: &Known, end: u64) -> Result<bool, Error> {
        if end > header.size {
            let (key, change) = (self.header_key()?, BlobChange::Grow { stamp: header.stamp, size: end });
            return match self.change(&key, Condition::Always, change).await {
                Ok(_) => Ok(true),
                Err(error) => self.unless_stale(error).map(|()| false),
            };
        }
        let now = self.known().await?;
        Ok(now.stamp == header.stamp && now.uncut == 0)
    }

    fn place(&self, header: &Known, offset: u64, length: usize) -> Result<(u64, u32), Error> {
        let spans = || self.trouble(BlobTrouble::SpansChunks { chunk_bytes: header.chunk_bytes() });
        header.place(offset, length as u64).ok_or_else(spans)
    }

    /// The header, if there is a blob.
    async fn header(&self) -> Result<Option<Known>, Error> {
        let key = self.header_key()?;
        match self.ask(&WireOperation::Read(Read { key: &key, query: Query::Lookup })).await {
            Ok(Reply::Value { version, bytes, .. }) => {
                let header = BlobHeader::decode(&bytes).ok_or(Error::Unexpected)?;
                Ok(Some(Known {
                    version,
                    stamp: header.stamp,
                    size: header.size,
                    uncut: header.uncut,
                    chunk_bits: header.chunk_bits,
                    attributes: bytes.slice_ref(header.attributes),
                }))
            }
            Ok(_) => Err(Error::Unexpected),
            Err(error) if matches!(error.failure(), Some(Failure::NotFound)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The header of a blob that is there.
    async fn known(&self) -> Result<Known, Error> {
        self.header()
            .await?
            .ok_or_else(|| Error::about(&self.name, Reason::Answer { failure: Failure::NotFound }))
    }

    /// The same, of which no cut is under way: what is left of one is done.
    async fn settled(&self) -> Result<Known, Error> {
        for _ in 0..ATTEMPTS_MAX {
            let known = self.known().await?;
            if known.uncut == 0 {
                return Ok(known);
            }
            self.finish_cut(&known).await?;
        }
        Err(self.trouble(BlobTrouble::Contended))
    }

    /// An error, unless it says that the blob is another by now.
    fn unless_stale(&self, error: Error) -> Result<(), Error> {
        match error.failure() {
            Some(Failure::StaleBlob { .. }) => Ok(()),
            _ => Err(error),
        }
    }

    async fn change(&self, key: &[u8], condition: Condition, change: BlobChange<'_>) -> Result<Reply, Error> {
        self.ask(&WireOperation::Write(Write { key, condition, change: Change::Blob(change) })).await
    }

    async fn ask(&self, operation: &WireOperation<'_>) -> Result<Reply, Error> {
        let answer = self.start(operation)?.await.unwrap_or(Err(Reason::Closed));
        answer.map_err(|reason| Error::about(&self.name, reason))
    }

    /// Sends an operation, without waiting for it.
    fn start(&self, operation: &WireOperation<'_>) -> Result<Answer, Error> {
        let client = self.keyspace.client();
        let request = Request::record(self.keyspace.id(), operation, client.limit_us());
        let request = request.map_err(|failure| Error::about(&self.name, Reason::Answer { failure }))?;
        Ok(client.submit(request))
    }

    fn header_key(&self) -> Result<Vec<u8>, Error> {
        header_key(&self.name).map_err(|failure| Error::about(&self.name, Reason::Answer { failure }))
    }

    fn chunk_key(&self, number: u64) -> Result<Vec<u8>, Error> {
        chunk_key(&self.name, number).map_err(|failure| Error::about(&self.name, Reason::Answer { failure }))
    }

    fn trouble(&self, why: BlobTrouble) -> Error {
        Error::blob(&self.name, why)
    }
}

/// What an operation that was sent comes to.
type Answer = oneshot::Receiver<Result<Reply, Reason>>;
