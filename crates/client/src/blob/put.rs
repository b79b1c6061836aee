//! Putting a blob: it is there once it is complete.
//!
//! ```text
//!   short ──> one transaction: what was there goes, and header and chunks come
//!   long ───> none is there: header with the mark of an unfinished blob ──> fill ──> one transaction: publish, and attributes without the mark
//!        └──> one is there ─> staged under a name of its own ──> fill ──> one transaction: bound to the name, and the old one goes
//! ```
//!
//! The mark is a beginning of the attributes. Readers and writers refuse a blob that has it, listings and backups leave it out, and the
//! next put of the name removes it: so what a killed writer leaves is never taken for a blob.

use bytes::{Bytes, BytesMut};
use zerohop_wire::Failure;
use zerohop_wire::ids::Timestamp;
use zerohop_wire::limits::BLOB_ATTRIBUTES_BYTES_MAX;
use zerohop_wire::messages::{BlobChange, Condition};

use super::contents::UNFINISHED;
use super::{Blob, BlobFill, BlobInfo, KnownHeader, StagedContents};
use crate::error::{BlobTrouble, Error};
use crate::limits::{BLOB_ATTEMPTS_MAX, BLOB_CUT_CHUNKS_MAX, BLOB_PUT_BYTES, BLOB_WRITE_BYTES_MAX};

/// What a put is to make.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PutOptions {
    /// Kept with the blob, at most 32 KiB.
    pub attributes: Bytes,
    /// Bytes of a chunk as their power of two, from 12 (4 KiB) to 24 (16 MiB); `None`: as the keyspace says.
    pub chunk_bits: Option<u8>,
    /// A finished blob of the name is replaced; else it is an error.
    pub replaces: bool,
}

/// A blob that is being put: see [`Blob::put`].
#[derive(Debug)]
pub struct BlobPut<'a> {
    blob: Blob<'a>,
    options: PutOptions,
    /// What was given, while that is short.
    kept: BytesMut,
    made: Option<LongPut<'a>>,
    bytes: u64,
}

/// What a long put fills.
#[derive(Debug)]
struct LongPut<'a> {
    /// Of the unfinished blob.
    id: u64,
    fill: BlobFill<'a>,
    /// It is to replace another one.
    staged: Option<StagedContents>,
}

impl<'a> Blob<'a> {
    /// Begins to put a blob of any number of bytes. It is there once [`BlobPut::publish`] has returned: until then readers find what
    /// was there before, or, where there was none and more than 16 MiB have been pushed, [`BlobTrouble::Unfinished`]. A reader of what is replaced meanwhile
    /// ends with [`BlobTrouble::ChangedMeanwhile`]. Memory: 64 MiB and what is under way.
    #[must_use]
    pub fn put(&self, options: PutOptions) -> BlobPut<'a> {
        let blob = self.keyspace.blob(self.name.clone()).with_unfinished();
        BlobPut { blob, options, kept: BytesMut::new(), made: None, bytes: 0 }
    }

    /// The same blob for its writer, who reads and changes it also while it is not finished.
    #[must_use]
    pub fn with_unfinished(mut self) -> Self {
        self.has_unfinished = true;
        self
    }

    /// Makes it, empty and not finished: [`Blob::set_attributes`] or [`BlobFill::publish_with`] of [`Blob::with_unfinished`] finishes it.
    ///
    /// # Errors
    /// As [`Blob::create_with`].
    pub async fn create_unfinished(
        &self,
        chunk_bits: Option<u8>,
        attributes: &[u8],
    ) -> Result<BlobInfo, Error> {
        let bits = chunk_bits.unwrap_or_else(|| self.chunk_bits());
        let marked = [UNFINISHED, attributes].concat();
        // Those that do not fit beside the mark come with the end.
        let fits = marked.len() <= BLOB_ATTRIBUTES_BYTES_MAX || attributes.len() > BLOB_ATTRIBUTES_BYTES_MAX;
        self.create_with(bits, if fits { &marked } else { UNFINISHED }).await
    }

    fn chunk_bits(&self) -> u8 {
        self.keyspace.config().chunk_bytes.trailing_zeros() as u8
    }

    /// A header for whoever wants to read or write.
    pub(super) fn finished(&self, known: KnownHeader) -> Result<KnownHeader, Error> {
        match self.has_unfinished || known.is_finished() {
            true => Ok(known),
            false => Err(self.trouble(BlobTrouble::Unfinished)),
        }
    }
}

impl<'a> BlobPut<'a> {
    /// Adds bytes.
    ///
    /// # Errors
    /// [`Failure::ConditionFailed`]: there is a finished blob of the name, and this one does not replace it; [`BlobTrouble::Contended`]: somebody
    /// else has put the blob or removed it meanwhile; as [`BlobFill::push`].
    pub async fn push(&mut self, bytes: &[u8]) -> Result<(), Error> {
        if self.made.is_none() && self.kept.len() + bytes.len() > self.kept_max() {
            self.begin().await?;
        }
        match &mut self.made {
            Some(made) => made.fill.push(bytes).await?,
            None => self.kept.extend_from_slice(bytes),
        }
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    /// Makes the blob of all that was pushed. Brings its size in bytes.
    ///
    /// # Errors
    /// As [`BlobPut::push`]. Unless [`Error::is_unknown`], nothing of it is there.
    pub async fn publish(&mut self) -> Result<u64, Error> {
        if self.made.is_none() {
            match self.put_at_once().await {
                // The old one has too many chunks to go at once.
                Err(Error::Blob { why: BlobTrouble::TooLong { .. }, .. }) => self.begin().await?,
                result => return result.map(|()| self.bytes),
            }
        }
        let Some(LongPut { id, mut fill, staged }) = self.made.take() else { return Err(Error::Unexpected) };
        let attributes = &self.options.attributes;
        let published = match &staged {
            None => fill.publish_with(attributes).await,
            Some(staged) => match fill.all_are_done().await {
                Ok(()) => self.blob.bind_bytes(staged, (fill.header.stamp, fill.end), attributes).await,
                Err(error) => Err(error),
            },
        };
        if let Err(error) = &published
            && !error.is_unknown()
        {
            // What cannot be removed stays unfinished; the first error is the one to be told.
            drop(self.remove(id, staged.as_ref()).await);
        }
        published
    }

    /// Gives it up: what was sent is removed. A blob that somebody else has put is left alone.
    ///
    /// # Errors
    /// The cluster does not answer: what was sent stays, and is no finished blob.
    pub async fn discard(self) -> Result<(), Error> {
        match &self.made {
            Some(made) => self.remove(made.id, made.staged.as_ref()).await,
            None => Ok(()),
        }
    }

    /// The unfinished blob of this id.
    async fn remove(&self, id: u64, staged: Option<&StagedContents>) -> Result<(), Error> {
        if let Some(staged) = staged {
            return self.blob.unstage(staged).await;
        }
        self.blob.delete_if(|header| header.stamp.id == id && !header.is_finished()).await.map(drop)
    }

    /// Most bytes that go as one.
    fn kept_max(&self) -> usize {
        let chunks = BLOB_CUT_CHUNKS_MAX << self.options.chunk_bits.unwrap_or_else(|| self.blob.chunk_bits());
        let most = if self.options.replaces { BLOB_WRITE_BYTES_MAX } else { BLOB_PUT_BYTES };
        most.min(usize::try_from(chunks).unwrap_or(most))
    }

    async fn put_at_once(&self) -> Result<(), Error> {
        let (blob, bytes) = (&self.blob, Bytes::copy_from_slice(&self.kept));
        let PutOptions { attributes, chunk_bits, replaces } = &self.options;
        let bits = chunk_bits.unwrap_or_else(|| blob.chunk_bits());
        let client = blob.keyspace.client();
        client
            .transaction(|transaction| {
                let (there, bytes) = (transaction.blob(blob.keyspace, blob.name.clone()), bytes.clone());
                async move {
                    if there.stat().await?.is_some_and(|found| *replaces || !found.finished) {
                        there.remove().await?;
                    }
                    there.create_with(bits, attributes).await?;
                    if bytes.is_empty() { Ok(()) } else { there.write(0, bytes).await }
                }
            })
            .await
    }

    /// Makes the unfinished blob, or that which is to replace the one that is there, and fills in what was kept.
    async fn begin(&mut self) -> Result<(), Error> {
        let PutOptions { attributes, chunk_bits, replaces } = self.options.clone();
        for _ in 0..BLOB_ATTEMPTS_MAX {
            let found = self.blob.header().await?;
            let is_refused = !replaces && found.as_ref().is_some_and(KnownHeader::is_finished);
            match found {
                Some(KnownHeader { version, .. }) if is_refused => {
                    return Err(self.blob.failed(Failure::ConditionFailed { version, found: None }));
                }
                Some(header) if header.is_finished() => {
                    let Some(staged) = self.blob.stage(chunk_bits, &attributes).await? else { continue };
                    let now_ms = Timestamp(staged.id).millis();
                    // Of others: it is no matter of this put if that fails.
                    drop(self.blob.remove_old_staged(now_ms).await);
                    let place = self.blob.place(&staged.name);
                    return self.fill(&place, staged.id, Some(staged)).await;
                }
                Some(KnownHeader { version, stamp, .. }) => {
                    let is_it = |now: &KnownHeader| now.stamp.id == stamp.id && now.version == version;
                    self.blob.delete_if(is_it).await?;
                }
                None => {}
            }
            match self.blob.create_unfinished(chunk_bits, &attributes).await {
                Ok(info) => return self.fill(&self.blob.clone(), info.id.0, None).await,
                // Somebody else was faster.
                Err(error) if matches!(error.failure(), Some(Failure::ConditionFailed { .. })) => {}
                Err(error) => return Err(error),
            }
        }
        Err(self.blob.trouble(BlobTrouble::Contended))
    }

    /// Fills what was kept into a blob that is not finished.
    async fn fill(&mut self, blob: &Blob<'a>, id: u64, staged: Option<StagedContents>) -> Result<(), Error> {
        let fill = blob.fill().await?;
        if fill.id() != id {
            return Err(self.blob.trouble(BlobTrouble::Contended));
        }
        let kept = std::mem::take(&mut self.kept);
        self.made.insert(LongPut { id, fill, staged }).fill.push(&kept).await
    }
}

impl BlobFill<'_> {
    /// As [`BlobFill::publish`], and the blob has these attributes from the same moment on; one that was not finished is.
    ///
    /// # Errors
    /// As there.
    pub async fn publish_with(mut self, attributes: &[u8]) -> Result<u64, Error> {
        self.all_are_done().await?;
        let (stamp, size) = (self.header.stamp, self.end);
        let attributes = &self.header.marked(attributes);
        let mut attempts = crate::transaction::Attempts::new(self.blob.keyspace.client());
        loop {
            let mut together = self.blob.together();
            together.header(Condition::Always, BlobChange::Publish { stamp, size })?;
            together.header(Condition::Always, BlobChange::Describe { stamp, attributes })?;
            match together.commit().await {
                Ok(_) => {
                    self.blob.remember(None);
                    return Ok(size);
                }
                Err(error) if super::multi_chunk::is_refused(&error) => {
                    return Err(self.blob.trouble(BlobTrouble::Contended));
                }
                Err(error) => {
                    let pause = attempts.after(&error).ok_or(error)?;
                    tokio::time::sleep(pause).await;
                }
            }
        }
    }

    /// Of the blob.
    fn id(&self) -> u64 {
        self.header.stamp.id
    }
}
