//! Blobs: large mutable objects, striped over chunks of one size that are placed by their hashes.
//!
//! ```text
//!   write ──> within an existing chunk ──> that chunk alone: one log entry
//!        └──> anything else ──> one transaction: header (size, generation) and all chunks
//!   read ───> within a chunk ──> that chunk alone
//!        └──> of several chunks ──> all of them, then a confirming round without contents: one version
//!   staged extension ──> chunk by chunk behind the end, where no reader looks ──> committed by one write of the header
//! ```
//!
//! A handle remembers the last header that it has seen. A chunk refuses a request that uses an older one.

mod chunks;
mod consistent_read;
mod list;
mod multi_chunk;
mod pinned;
mod put;
mod read;
mod read_version;
mod replace;
mod stage;
mod staged_extension;
mod stat_many;
mod transaction_reads;
mod transactional;
mod truncate;
mod write;

use std::sync::{Arc, Mutex, PoisonError};

use crate::{Reply, SessionError as Reason, SessionRequest};
use bytes::Bytes;
use zerohop_wire::Failure;
use zerohop_wire::blob::{BlobHeader, BlobStamp, StagedExtensionState, bytes_max, chunk_key, header_key};
use zerohop_wire::ids::Timestamp;
use zerohop_wire::limits::CHUNK_BITS_MAX;
use zerohop_wire::messages::{
    BlobChange, Condition, Query, RecordOperation as WireOperation, RecordRead, RecordWrite, WriteChange,
};

use consistent_read::ChunkReadResult;

pub(crate) use chunks::ChunkLister;
pub use consistent_read::BlobReadVersion;
pub use list::BlobList;
pub(crate) use multi_chunk::with_trailing_zeros;
pub use pinned::PinnedBlobs;
pub use put::{BlobPut, PutOptions};
pub use read::BlobRead;
pub use stage::StagedContents;
pub use staged_extension::StagedExtension;
pub use transactional::TransactionBlob;

use crate::planted::{Bug, is_planted};
use crate::procedures::blob_knowledge::CachedHeader;
use crate::procedures::cluster_handle::ClusterHandle;
use crate::procedures::error::{BlobError, Error};
use crate::procedures::keyspace::Keyspace;
use crate::procedures::limits::{BLOB_ATTEMPTS_MAX, BlobLimits};
use crate::procedures::shell::PendingReply;

/// A blob of a keyspace, by its name. Creating the handle sends no request.
#[derive(Clone, Debug)]
pub struct Blob<'a> {
    keyspace: &'a Keyspace,
    /// The keyspace's handle; inside a call one that ends with the call.
    client: ClusterHandle,
    name: Bytes,
    /// Shared with clones. The lock is never held across an `await`.
    known: Arc<Mutex<Option<CachedHeader>>>,
    /// The handle also reads and changes the blob while it is unfinished.
    has_unfinished: bool,
}

/// The metadata of a blob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlobInfo {
    /// Identifies the blob among earlier and later ones of the same name: the time of its creation.
    pub id: Timestamp,
    /// How often bytes were truncated or added by a staged extension.
    pub generation: u64,
    /// Size of the blob in bytes.
    pub size: u64,
    /// Size of a chunk in bytes.
    pub chunk_bytes: u64,
    /// Bytes that the owner stores with the blob.
    pub attributes: Bytes,
    /// Whether the blob is complete. `false`: a put is in progress, or its writer ended before the end: see [`Blob::put`].
    pub finished: bool,
    /// When the header was last written: by a write that extended the blob, a truncation, or new attributes.
    pub version: Timestamp,
}

impl Keyspace {
    /// A handle to the blob of this name, which need not exist.
    pub fn blob(&self, name: impl Into<Bytes>) -> Blob<'_> {
        let client = self.client().clone();
        Blob { keyspace: self, client, name: name.into(), known: Arc::default(), has_unfinished: false }
    }

    /// Lists the names of the blobs that begin with `prefix`, in sorted order, page by page.
    pub fn list_blobs(&self, prefix: impl Into<Bytes>) -> BlobList<'_> {
        BlobList::new(self, prefix.into())
    }

    /// Reads the headers of several blobs together and returns them in the order of the names; `None` for an absent blob. This is not a
    /// transaction: each header is read separately.
    ///
    /// # Errors
    /// The error of the first blob whose header could not be read.
    pub async fn stat_blobs<N: AsRef<[u8]>>(&self, names: &[N]) -> Result<Vec<Option<BlobInfo>>, Error> {
        self.stat_blobs_within(self.client(), names).await
    }

    /// Same as [`Keyspace::stat_blobs`], inside the call of this handle.
    async fn stat_blobs_within<N: AsRef<[u8]>>(
        &self,
        client: &ClusterHandle,
        names: &[N],
    ) -> Result<Vec<Option<BlobInfo>>, Error> {
        let key = |name: &N| {
            let name = name.as_ref();
            header_key(name).map_err(|failure| Error::about(name, Reason::Answer { failure }))
        };
        let keys = names.iter().map(key).collect::<Result<Vec<_>, Error>>()?;
        let read = |key| WireOperation::Read(RecordRead { key, query: Query::Lookup });
        let operations: Vec<WireOperation<'_>> = keys.iter().map(|key| read(key)).collect();
        let replies = self.batch_within(client, &operations).await.into_iter().zip(names);
        replies
            .map(|(replies, name)| match replies {
                Ok(reply) => known_of(&reply).map(|known| Some(BlobInfo::of(&known))),
                Err(error) if matches!(error.failure(), Some(Failure::NotFound)) => Ok(None),
                // The error shows the blob's name, not the key of its header.
                Err(Error::Operation { reason, .. }) => Err(Error::about(name.as_ref(), *reason)),
                Err(error) => Err(error),
            })
            .collect()
    }
}

impl<'a> Blob<'a> {
    /// The same handle for one call, which ends at its deadline with everything that it requests.
    fn in_call(&self) -> Self {
        Self { client: self.client.in_call(), ..self.clone() }
    }

    /// The same handle inside the call of a handle to the cluster.
    fn within(self, client: &ClusterHandle) -> Self {
        Self { client: client.clone(), ..self }
    }

    /// The same handle for what outlives the call.
    fn outside_calls(&self) -> Self {
        Self { client: self.client.outside_calls(), ..self.clone() }
    }

    /// A handle to another blob, or without this one's header, in the same call.
    fn beside(&self, name: Bytes) -> Self {
        Self { client: self.client.clone(), ..self.keyspace.blob(name) }
    }

    fn client(&self) -> &ClusterHandle {
        &self.client
    }

    fn limits(&self) -> &BlobLimits {
        self.client.blob_limits()
    }
}

impl Blob<'_> {
    /// The blob's name.
    #[must_use]
    pub fn name(&self) -> &Bytes {
        &self.name
    }

    /// Creates the blob, empty, with the keyspace's chunk size. Ends with `ConditionFailed` if there is a blob of this name.
    pub async fn create(&self, attributes: &[u8]) -> Result<BlobInfo, Error> {
        self.create_with(self.keyspace.config().chunk_bytes.trailing_zeros() as u8, attributes).await
    }

    /// Same as [`Blob::create`], with another chunk size, given as a power of two: from 12 (4 KiB) to 24 (16 MiB).
    pub async fn create_with(&self, chunk_bits: u8, attributes: &[u8]) -> Result<BlobInfo, Error> {
        let key = self.header_key()?;
        let made = self.change(&key, Condition::Always, BlobChange::Create { chunk_bits, attributes }).await;
        if let Err(error) = &made
            && matches!(error.failure(), Some(Failure::ConditionFailed { .. }))
            && is_planted(Bug::BlobCreationOverlooked)
        {
            return self.stat().await?.ok_or(Error::Unexpected);
        }
        match made? {
            Reply::Done { version, number } => {
                let known = CachedHeader {
                    version,
                    stamp: BlobStamp { id: number, generation: 0 },
                    size: 0,
                    pending_truncation_end: 0,
                    staged_extension: StagedExtensionState::Not,
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

    /// The metadata that this handle has seen last, without a request; `None` if it has seen none, or knows that the blob has changed since. After a
    /// write, a transform or an extension that was done it is that of the blob that was changed.
    #[must_use]
    pub fn last_seen(&self) -> Option<BlobInfo> {
        self.recall().as_ref().map(BlobInfo::of)
    }

    /// Reads the blob's metadata; `None` if the blob is absent.
    pub async fn stat(&self) -> Result<Option<BlobInfo>, Error> {
        Ok(self.header().await?.as_ref().map(BlobInfo::of))
    }

    /// Replaces the blob's attributes. Ends with `NotFound` if the blob is absent.
    pub async fn set_attributes(&self, attributes: &[u8]) -> Result<(), Error> {
        let blob = &self.in_call();
        let key = blob.header_key()?;
        for _ in 0..BLOB_ATTEMPTS_MAX {
            let known = match blob.known().await {
                Err(Error::Blob { why: BlobError::Absent, .. })
                    if is_planted(Bug::BlobAttributesOfNothing) =>
                {
                    return Ok(());
                }
                known => known?,
            };
            let attributes = &known.attributes_with_contents(attributes);
            let change = BlobChange::Describe { stamp: known.stamp, attributes };
            match blob.change(&key, Condition::Always, change).await {
                Ok(_) => return Ok(()),
                Err(error) => blob.unless_stale(error)?,
            }
        }
        Err(blob.error(BlobError::Contended))
    }

    /// Reads the current header; `None` if the blob is absent.
    async fn header(&self) -> Result<Option<CachedHeader>, Error> {
        let key = self.header_key()?;
        let reply = self.call(&WireOperation::Read(RecordRead { key: &key, query: Query::Lookup })).await;
        let known = match reply {
            Ok(reply) => Some(known_of(&reply)?),
            Err(error) if matches!(error.failure(), Some(Failure::NotFound)) => None,
            Err(error) => return Err(error),
        };
        self.remember(known.clone());
        Ok(known)
    }

    /// Reads the current header of an existing blob.
    async fn known(&self) -> Result<CachedHeader, Error> {
        self.finished(self.header().await?.ok_or_else(|| self.not_found())?)
    }

    /// The header that this handle has seen last; if there is none, the current header.
    async fn recalled(&self) -> Result<CachedHeader, Error> {
        match self.recall() {
            Some(known) if self.has_unfinished || known.is_finished() => Ok(known),
            _ => self.known().await,
        }
    }

    /// Same as [`Self::recalled`], but without a pending truncation or staged extension: the client first completes a pending truncation, and cuts off
    /// the bytes of a staged extension.
    async fn completed_header(&self) -> Result<CachedHeader, Error> {
        let mut known = self.recalled().await?;
        for _ in 0..BLOB_ATTEMPTS_MAX {
            if known.pending_truncation_end == 0 || is_planted(Bug::BlobCutNotCompleted) {
                return Ok(known);
            }
            self.complete_truncation(&known).await?;
            known = self.known().await?;
        }
        Err(self.error(BlobError::Contended))
    }

    fn recall(&self) -> Option<CachedHeader> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn remember(&self, known: Option<CachedHeader>) {
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = known;
    }

    /// Returns the error, unless it says that the blob has changed; then the handle must read the header again.
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
        self.call(&WireOperation::Write(RecordWrite { key, condition, change: WriteChange::Blob(change) }))
            .await
    }

    async fn call(&self, operation: &WireOperation<'_>) -> Result<Reply, Error> {
        let answer = self.start(operation)?.await.unwrap_or(Err(Reason::Closed));
        answer.map_err(|reason| Error::about(&self.name, reason))
    }

    /// Sends an operation without waiting for the reply.
    fn start(&self, operation: &WireOperation<'_>) -> Result<PendingReply, Error> {
        Ok(self.client().submit(self.request(operation)?))
    }

    fn request(&self, operation: &WireOperation<'_>) -> Result<SessionRequest, Error> {
        let request = SessionRequest::record(self.keyspace.id(), operation, self.client().limit_us());
        request.map_err(|failure| self.failed(failure))
    }

    fn header_key(&self) -> Result<Vec<u8>, Error> {
        header_key(&self.name).map_err(|failure| self.failed(failure))
    }

    /// The key of a chunk of the blob with this header.
    fn chunk_key(&self, header: &CachedHeader, number: u64) -> Result<Vec<u8>, Error> {
        chunk_key(header.contents_name(&self.name), number).map_err(|failure| self.failed(failure))
    }

    /// Checks that a blob with chunks of this size may end at `end`, or already does.
    fn check_end(&self, header: &CachedHeader, end: u64) -> Result<(), Error> {
        let limit = bytes_max(header.chunk_bits);
        if end > header.size.max(limit) {
            Err(self.error(BlobError::ExceedsMaximumSize { limit }))
        } else {
            Ok(())
        }
    }

    /// The error for an end beyond 64 bits, which exceeds the limit for every chunk size.
    fn beyond(&self) -> Error {
        self.error(BlobError::ExceedsMaximumSize { limit: bytes_max(CHUNK_BITS_MAX) })
    }

    fn failed(&self, failure: Failure<'static>) -> Error {
        Error::about(&self.name, Reason::Answer { failure })
    }

    fn not_found(&self) -> Error {
        self.error(BlobError::Absent)
    }

    fn error(&self, why: BlobError) -> Error {
        Error::blob(&self.name, why)
    }
}

impl BlobInfo {
    fn of(known: &CachedHeader) -> BlobInfo {
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

/// The header in the reply to a lookup.
fn known_of(reply: &Reply) -> Result<CachedHeader, Error> {
    let Reply::Value { version, bytes, .. } = reply else { return Err(Error::Unexpected) };
    let header = BlobHeader::decode(bytes).ok_or(Error::Unexpected)?;
    Ok(CachedHeader {
        version: *version,
        stamp: header.stamp,
        size: header.size,
        pending_truncation_end: header.pending_truncation_end,
        staged_extension: header.staged_extension,
        chunk_bits: header.chunk_bits,
        attributes: bytes.slice_ref(header.attributes),
    })
}
