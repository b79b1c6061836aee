//! Puts of a blob: the blob becomes visible once it is complete.
//!
//! ```text
//!   short ──> one transaction: remove the old blob, create header and chunks
//!   long ───> a new blob: header with the mark of an unfinished blob ──> staged extension ──> one transaction: commit it, and set the attributes without the mark
//!        └──> a replacement ─> staged under a name of its own ──> staged extension ──> one transaction: bind to the name, remove the old blob
//! ```
//!
//! The mark is a prefix of the attributes. Readers and writers refuse a blob with the mark, and listings and backups leave it out. The next put of
//! the name removes it. Data that a killed writer leaves is therefore never mistaken for a complete blob.

use bytes::{Bytes, BytesMut};
use zerohop_wire::Failure;
use zerohop_wire::ids::Timestamp;
use zerohop_wire::limits::BLOB_ATTRIBUTES_BYTES_MAX;
use zerohop_wire::messages::{BlobChange, Condition};

use super::{Blob, BlobInfo, StagedContents, StagedExtension};
use crate::procedures::blob_knowledge::{CachedHeader, UNFINISHED};
use crate::procedures::error::{BlobError, Error};
use crate::procedures::limits::{
    BACKOFF_MAX, BLOB_ATTEMPTS_MAX, BLOB_BEATEN_CHECKS_MAX, BLOB_PUT_ATTEMPTS, BLOB_PUT_STAGED_BYTES_MIN,
};
use crate::procedures::transaction::Attempts;

/// Options of a put.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PutOptions {
    /// Attributes that are stored with the blob, at most 32 KiB.
    pub attributes: Bytes,
    /// Chunk size as a power of two, from 12 (4 KiB) to 24 (16 MiB); `None`: the keyspace's chunk size.
    pub chunk_bits: Option<u8>,
    /// Replace what is there when the put is published: a blob, or none. Without this option, the existence of a finished blob is an error.
    pub replaces: bool,
}

/// A put in progress: see [`Blob::put`].
#[derive(Debug)]
pub struct BlobPut<'a> {
    blob: Blob<'a>,
    options: PutOptions,
    /// The pushed bytes, while they are few.
    buffered: BytesMut,
    made: Option<LongPut<'a>>,
    bytes: u64,
}

/// The target of a long put.
#[derive(Debug)]
struct LongPut<'a> {
    /// The id of the unfinished blob.
    id: u64,
    staged_extension: StagedExtension<'a>,
    /// The staged contents, if the put replaces another blob.
    staged: Option<StagedContents>,
}

impl<'a> Blob<'a> {
    /// Starts a put of a blob of any length. The blob becomes visible when [`BlobPut::publish`] returns. Until then readers see the previous blob.
    /// If there was none, the put does not replace, and more than 16 MiB have been pushed, they get [`BlobError::Unfinished`]. A stream that
    /// has begun to read the previous blob finishes it. The put uses 64 MiB of memory plus the bytes in flight.
    ///
    /// Of several puts that replace the same blob at the same time, the last one to be published is the one that stays. A put that conflicts with
    /// another one, or with a removal, is repeated until the client's deadline.
    #[must_use]
    pub fn put(&self, options: PutOptions) -> BlobPut<'a> {
        let blob = self.beside(self.name.clone()).with_unfinished();
        BlobPut { blob, options, buffered: BytesMut::new(), made: None, bytes: 0 }
    }

    /// A handle for the writer of the blob, which also reads and changes the blob while it is unfinished.
    #[must_use]
    pub fn with_unfinished(mut self) -> Self {
        self.has_unfinished = true;
        self
    }

    /// Creates the blob, empty and unfinished. [`Blob::set_attributes`] or [`StagedExtension::publish_with`] on [`Blob::with_unfinished`] finishes it.
    ///
    /// # Errors
    /// Same as [`Blob::create_with`].
    pub async fn create_unfinished(
        &self,
        chunk_bits: Option<u8>,
        attributes: &[u8],
    ) -> Result<BlobInfo, Error> {
        let bits = chunk_bits.unwrap_or_else(|| self.chunk_bits());
        let marked = [UNFINISHED, attributes].concat();
        // Attributes that do not fit beside the mark are written at the end.
        let fits = marked.len() <= BLOB_ATTRIBUTES_BYTES_MAX || attributes.len() > BLOB_ATTRIBUTES_BYTES_MAX;
        self.create_with(bits, if fits { &marked } else { UNFINISHED }).await
    }

    pub(super) fn chunk_bits(&self) -> u8 {
        self.keyspace.config().chunk_bytes.trailing_zeros() as u8
    }

    /// Returns the header to a reader or writer, or the error for an unfinished blob.
    pub(super) fn finished(&self, known: CachedHeader) -> Result<CachedHeader, Error> {
        match self.has_unfinished || known.is_finished() {
            true => Ok(known),
            false => Err(self.error(BlobError::Unfinished)),
        }
    }
}

impl<'a> BlobPut<'a> {
    /// Adds bytes.
    ///
    /// # Errors
    /// [`Failure::ConditionFailed`]: there is a finished blob of this name, and the put does not replace it. [`BlobError::Contended`]: conflicts
    /// with other clients until the deadline, or another client has removed what was sent. Also the errors of [`StagedExtension::push`].
    pub async fn push(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.blob = self.blob.outside_calls().in_call();
        match self.push_on(bytes).await {
            Err(error) => Err(self.contended_error(error).await),
            Ok(()) => Ok(()),
        }
    }

    async fn push_on(&mut self, bytes: &[u8]) -> Result<(), Error> {
        if self.made.is_none() && self.buffered.len() + bytes.len() > self.buffered_max() {
            self.begin().await?;
        }
        match &mut self.made {
            Some(made) => {
                made.staged_extension.blob =
                    made.staged_extension.blob.outside_calls().within(self.blob.client());
                made.staged_extension.push(bytes).await?;
            }
            None => self.buffered.extend_from_slice(bytes),
        }
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    /// Makes the blob visible with all pushed bytes. Returns its size in bytes.
    ///
    /// # Errors
    /// Same as [`BlobPut::push`]. Unless [`Error::is_unknown`] is true, none of the put is visible.
    pub async fn publish(&mut self) -> Result<u64, Error> {
        self.blob = self.blob.outside_calls().in_call();
        if self.made.is_none() {
            if self.put_at_once().await? {
                return Ok(self.bytes);
            }
            self.begin().await?;
        }
        let Some(LongPut { id, staged_extension: mut extension, staged }) = self.made.take() else {
            return Err(Error::Unexpected);
        };
        // The rest of the bytes and the publication belong to this call.
        extension.blob = extension.blob.outside_calls().within(self.blob.client());
        let attributes = &self.options.attributes;
        let mut published = match &staged {
            None => extension.publish_with(attributes).await,
            Some(staged) => match extension.all_are_done().await {
                Ok(()) => {
                    self.blob.bind_bytes(staged, (extension.header.stamp, extension.end), attributes).await
                }
                Err(error) => Err(error),
            },
        };
        if let Err(error) = published {
            published = Err(self.contended_error(error).await);
        }
        if let Err(error) = &published
            && !error.is_unknown()
        {
            // A blob that cannot be removed stays unfinished. The caller gets the first error.
            drop(self.remove(id, staged.as_ref()).await);
        }
        published
    }

    /// Abandons the put and removes the bytes that were sent. A blob that another client has put is not changed.
    ///
    /// # Errors
    /// The cluster does not reply: the bytes that were sent stay, as an unfinished blob.
    pub async fn discard(mut self) -> Result<(), Error> {
        self.blob = self.blob.outside_calls().in_call();
        match &self.made {
            Some(made) => self.remove(made.id, made.staged.as_ref()).await,
            None => Ok(()),
        }
    }

    /// Removes the unfinished blob of this id.
    async fn remove(&self, id: u64, staged: Option<&StagedContents>) -> Result<(), Error> {
        if let Some(staged) = staged {
            return self.blob.unstage(staged).await;
        }
        self.blob.delete_if(|header| header.stamp.id == id && !header.is_finished()).await.map(drop)
    }

    /// Maximum number of bytes that are written in one transaction.
    fn buffered_max(&self) -> usize {
        let limits = self.blob.limits();
        let chunks =
            limits.transaction_chunks << self.options.chunk_bits.unwrap_or_else(|| self.blob.chunk_bits());
        let most = if self.options.replaces { limits.replaced_bytes } else { limits.put_bytes };
        most.min(usize::try_from(chunks).unwrap_or(most))
    }

    /// Puts the buffered bytes in one transaction. Returns whether this is done. `false`: the put must stage the bytes.
    async fn put_at_once(&self) -> Result<bool, Error> {
        let mut attempts = Attempts::new(self.blob.client());
        for attempt in 1.. {
            let error = match self.try_at_once().await {
                Ok(()) => return Ok(true),
                // The old blob has too many chunks to remove in one transaction.
                Err(Error::Blob { why: BlobError::TooLong { .. }, .. }) if self.may_stage() => {
                    return Ok(false);
                }
                Err(error) => error,
            };
            // The transaction that binds staged contents is short, and does not lose against shorter puts again and again.
            let is_long = self.buffered.len() > BLOB_PUT_STAGED_BYTES_MIN && self.may_stage();
            if is_long && attempt >= BLOB_PUT_ATTEMPTS && error.is_changed_read() {
                return Ok(false);
            }
            let pause = attempts.after(&error).ok_or_else(|| self.blob.contended(error))?;
            self.blob.client().sleep(pause).await;
        }
        Ok(false)
    }

    fn may_stage(&self) -> bool {
        self.options.replaces && self.options.attributes.len() <= self.blob.staged_attributes_max()
    }

    async fn try_at_once(&self) -> Result<(), Error> {
        let (blob, bytes) = (&self.blob, Bytes::copy_from_slice(&self.buffered));
        let PutOptions { attributes, chunk_bits, replaces } = &self.options;
        let transaction = blob.client().begin();
        let there = transaction.blob(blob.keyspace, blob.name.clone());
        if there.stat().await?.is_some_and(|found| *replaces || !found.finished) {
            there.remove().await?;
        }
        there.create_with(chunk_bits.unwrap_or_else(|| blob.chunk_bits()), attributes).await?;
        if !bytes.is_empty() {
            there.write(0, bytes).await?;
        }
        transaction.commit().await.map(drop)
    }

    /// The error of a put. If a put that does not replace has lost against another client, the blob of that client is the reason.
    async fn contended_error(&self, error: Error) -> Error {
        let is_beaten = matches!(error, Error::Blob { why: BlobError::Contended, .. });
        if self.options.replaces || !is_beaten {
            return error;
        }
        // A client that replaces an unfinished blob first stops its writer.
        for _ in 0..BLOB_BEATEN_CHECKS_MAX {
            match self.blob.header().await {
                Ok(Some(header)) if header.is_finished() => return self.exists(&header),
                Ok(Some(_)) if self.blob.client().has_time_for(BACKOFF_MAX) => {
                    self.blob.client().sleep(BACKOFF_MAX).await;
                }
                Ok(_) | Err(_) => return error,
            }
        }
        error
    }

    fn exists(&self, header: &CachedHeader) -> Error {
        self.blob.failed(Failure::ConditionFailed { version: header.version, found: None })
    }

    /// Creates the unfinished blob or the staged contents, and extends it by the buffered bytes.
    async fn begin(&mut self) -> Result<(), Error> {
        let PutOptions { attributes, chunk_bits, replaces } = self.options.clone();
        if replaces {
            let staged = self.blob.stage(chunk_bits, &attributes).await?;
            let now_ms = Timestamp(staged.id).millis();
            // These are contents of other writers: a failure here is no failure of this put.
            drop(self.blob.remove_old_staged(now_ms).await);
            let place = self.blob.staged_blob(&staged.name);
            let filled = self.extend_by_buffered(&place, staged.id, Some(staged.clone())).await;
            if filled.is_err() && self.made.is_none() {
                // Otherwise the caller discards the put. The first error is the one to return.
                drop(self.blob.unstage(&staged).await);
            }
            return filled;
        }
        for _ in 0..BLOB_ATTEMPTS_MAX {
            match self.blob.header().await? {
                Some(header) if header.is_finished() => return Err(self.exists(&header)),
                Some(CachedHeader { version, stamp, .. }) => {
                    let is_it = |now: &CachedHeader| now.stamp.id == stamp.id && now.version == version;
                    self.blob.delete_if(is_it).await?;
                }
                None => {}
            }
            match self.blob.create_unfinished(chunk_bits, &attributes).await {
                Ok(info) => return self.extend_by_buffered(&self.blob.clone(), info.id.0, None).await,
                // Another client created the blob first.
                Err(error) if matches!(error.failure(), Some(Failure::ConditionFailed { .. })) => {}
                Err(error) => return Err(error),
            }
        }
        Err(self.blob.error(BlobError::Contended))
    }

    /// Extends an unfinished blob by the buffered bytes.
    async fn extend_by_buffered(
        &mut self,
        blob: &Blob<'a>,
        id: u64,
        staged: Option<StagedContents>,
    ) -> Result<(), Error> {
        let mut extension = match blob.staged_extension().await {
            Ok(extension) if extension.id() == id => extension,
            // Another client has removed the blob, and perhaps put one of its own.
            Ok(_) | Err(Error::Blob { why: BlobError::Absent, .. }) => {
                return Err(self.blob.error(BlobError::Contended));
            }
            Err(error) => return Err(error),
        };
        // The call that begins the put bounds these bytes too.
        extension.blob = extension.blob.within(blob.client());
        let kept = std::mem::take(&mut self.buffered);
        self.made
            .insert(LongPut { id, staged_extension: extension, staged })
            .staged_extension
            .push(&kept)
            .await
    }
}

impl StagedExtension<'_> {
    /// Same as [`StagedExtension::publish`], and also sets the attributes at the same moment. An unfinished blob becomes finished.
    ///
    /// # Errors
    /// Same as [`StagedExtension::publish`].
    pub async fn publish_with(mut self, attributes: &[u8]) -> Result<u64, Error> {
        self.blob = self.blob.in_call();
        self.all_are_done().await?;
        let (stamp, size) = (self.header.stamp, self.end);
        let attributes = &self.header.attributes_with_contents(attributes);
        let mut attempts = Attempts::new(self.blob.client());
        loop {
            let mut transaction = self.blob.transaction();
            transaction.header(Condition::Always, BlobChange::Publish { stamp, size })?;
            transaction.header(Condition::Always, BlobChange::Describe { stamp, attributes })?;
            match transaction.commit().await {
                Ok(_) => {
                    self.blob.remember(None);
                    return Ok(size);
                }
                Err(error) if super::multi_chunk::is_refused(&error) => {
                    return Err(self.blob.error(BlobError::Contended));
                }
                Err(error) => {
                    let pause = attempts.after(&error).ok_or_else(|| self.blob.contended(error))?;
                    self.blob.client().sleep(pause).await;
                }
            }
        }
    }

    /// The blob's id.
    fn id(&self) -> u64 {
        self.header.stamp.id
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use zerohop_wire::AbortReason;

    use super::*;
    use crate::SessionError as Reason;
    use crate::procedures::limits::BlobLimits;
    use crate::procedures::scripted_shell::{Script, handle_with, keyspace, run};

    #[test]
    fn put_that_finds_no_room_names_the_blob() {
        let no_room = || Err(Reason::Aborted { reason: AbortReason::NoRoom, item: None });
        let absent = || Err(Reason::Answer { failure: Failure::NotFound });
        for (replaces, is_long) in [(false, false), (true, false), (true, true)] {
            let script = Arc::new(Script::default());
            // A long put also reads the header of a staging name.
            let headers = (0..1 + usize::from(is_long)).map(|_| absent());
            script.single.lock().unwrap().extend(headers.chain([no_room()]));
            // There is nothing under any staging name.
            script.batches.lock().unwrap().push_back((0..15).map(|_| absent()).collect());
            let limits = BlobLimits { replaced_bytes: 9, ..BlobLimits::default() };
            let keyspace = keyspace(&handle_with(&script, limits));
            let blob = keyspace.blob("film");
            let mut put = blob.put(PutOptions { replaces, ..PutOptions::default() });
            let pushed = run(put.push(if is_long { &b"a long blob"[..] } else { b"a blob" }));
            assert_eq!(pushed.is_err(), is_long, "{pushed:?}");
            let error = if is_long { pushed.unwrap_err() } else { run(put.publish()).unwrap_err() };
            let text = error.to_string();
            assert!(
                text.starts_with("key \"film\": ") && text.contains("disk or memory of a partition is full"),
                "{text}"
            );
        }
    }
}
