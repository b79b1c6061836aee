//! New contents for a blob: the writer stages them under another name, and one transaction then binds them to the blob's name.
//!
//! ```text
//!   stage ──> one transaction: header of a free staging name, not finished, unless the blob's header has changed ──> fill
//!         ──> one transaction: remove the staging name's header and the old one, create a header that says where the new contents are
//! ```
//!
//! Each writer has a staging name of its own, so that several can stage for the same blob. Each bind replaces what the blob is at that moment.
//!
//! The same transaction removes up to 4,096 old chunks. If there are more, it leaves a header under a staging name that says what to remove, and
//! the chunks are removed afterwards. The leftovers of a killed writer have such a header too. A writer renews the header of what it has staged.
//! The next stage of the same blob, its removal, and after a day every long put in the keyspace find and remove what is not renewed.

use std::sync::Arc;

use crate::SessionError as Reason;
use bytes::Bytes;
use zerohop_wire::Failure;
use zerohop_wire::blob::BlobStamp;
use zerohop_wire::contents::{Contents, STAGED_PREFIX, Slot, staged_name};
use zerohop_wire::ids::Timestamp;
use zerohop_wire::limits::{BLOB_ATTRIBUTES_BYTES_MAX, SCAN_PAGE_KEYS_MAX};
use zerohop_wire::messages::{BlobChange, Condition};

use super::{Blob, BlobInfo, TransactionBlob};
use crate::planted::{Bug, is_planted};
use crate::procedures::blob_knowledge::{CachedHeader, UNFINISHED};
use crate::procedures::error::{BlobError, Error};
use crate::procedures::keyspace::Keyspace;
use crate::procedures::limits::{BLOB_RENEWAL, BLOB_RENEWED_MS_MAX, BLOB_STAGED_MS_MAX};
use crate::procedures::shell::BackgroundTask;
use crate::procedures::transaction::Attempts;

/// Staged contents that are to become those of a blob: see [`Blob::stage`].
#[derive(Clone, Debug)]
pub struct StagedContents {
    /// The name of the blob that has the contents until they are bound. It is not finished: see [`Blob::with_unfinished`].
    pub name: Bytes,
    /// Distinguishes these contents from later ones under the same name.
    pub id: u64,
    /// Shared by clones.
    _renewal: Option<Arc<BackgroundTask>>,
}

impl StagedContents {
    /// Names contents that another value stages, which must exist until they are bound.
    #[must_use]
    pub fn named(name: Bytes, id: u64) -> Self {
        Self { name, id, _renewal: None }
    }
}

impl<'a> Blob<'a> {
    /// Creates new contents for this blob under a name of their own, for [`Blob::bind`], whether or not there is a blob. Up to 15 writers can stage
    /// for one blob at the same time. While the result or a clone of it exists, and the runtime of the caller runs, the client renews the contents.
    /// Others remove contents that were not renewed for 20 seconds when they stage for the same blob or remove it.
    ///
    /// # Errors
    /// [`BlobError::Attributes`]: these do not fit beside the name; [`BlobError::Contended`]; those of [`Blob::create_with`].
    pub async fn stage(&self, chunk_bits: Option<u8>, attributes: &[u8]) -> Result<StagedContents, Error> {
        let blob = &self.in_call();
        blob.check_attributes(attributes)?;
        let bits = chunk_bits.unwrap_or_else(|| blob.chunk_bits());
        let names = Slot::FOR_CONTENTS.map(|slot| (slot, Bytes::from(staged_name(&blob.name, slot))));
        let client = blob.client();
        let staged = client.transaction_with_outcome(|transaction| {
            let names = &names;
            async move {
                let there = TransactionBlob::of(&transaction, blob.beside(blob.name.clone()));
                let bound = there.header_as_dependency().await?.map(|header| header.slot(&blob.name));
                let found = blob.stat_beside(&names.each_ref().map(|(_, name)| name)).await?;
                let is_free = |(at, (slot, _)): &(usize, &(Slot, Bytes))| {
                    bound != Some(*slot) && found.get(*at).is_some_and(Option::is_none)
                };
                let Some((_, (_, name))) = names.iter().enumerate().find(is_free) else {
                    drop(blob.remove_staged().await);
                    return Err(blob.changed());
                };
                let place = TransactionBlob::of(&transaction, blob.staged_blob(name));
                match place.create_with(bits, UNFINISHED).await {
                    // Another client created the contents first.
                    Err(error) if matches!(error.failure(), Some(Failure::ConditionFailed { .. })) => {
                        Err(blob.changed())
                    }
                    made => made.map(|()| name.clone()),
                }
            }
        });
        let (name, committed) = staged.await.map_err(|error| blob.contended(error))?;
        let id = committed.ok_or(Error::Unexpected)?.version();
        let renewal = begin_renewal(blob.keyspace, &name, id);
        // These are contents of other writers: a failure here is no failure of this one.
        if let Ok(Some(found)) = blob.staged_now().await {
            drop(blob.remove_staged_of(found, id.millis()).await);
        }
        Ok(StagedContents { name, id: id.0, _renewal: Some(Arc::new(renewal)) })
    }

    /// Atomically makes all the staged bytes the blob's contents, with these attributes: of the blob that is there at that moment, or of a new one.
    /// On a conflict with another change of the blob the client repeats this until its deadline. Returns the size in bytes.
    ///
    /// # Errors
    /// [`BlobError::Contended`]: conflicts until the deadline, or another client has removed the staged contents; those of [`Blob::delete`] for the
    /// old contents.
    pub async fn bind(&self, staged: &StagedContents, attributes: &[u8]) -> Result<u64, Error> {
        let blob = &self.in_call();
        let header = blob.staged_blob(&staged.name).header().await?;
        let header = header.ok_or_else(|| blob.error(BlobError::Contended))?;
        blob.bind_bytes(staged, (header.stamp, header.size), attributes).await
    }

    /// Removes the staged contents, if they still exist.
    ///
    /// # Errors
    /// Same as [`Blob::delete`].
    pub async fn unstage(&self, staged: &StagedContents) -> Result<(), Error> {
        let blob = &self.in_call();
        let is_it = |header: &CachedHeader| header.stamp.id == staged.id && !header.is_finished();
        blob.staged_blob(&staged.name).delete_if(is_it).await.map(drop)
    }

    /// Same as [`Blob::bind`], for a header with this fence and this number of bytes, which may have been written behind its end.
    pub(super) async fn bind_bytes(
        &self,
        staged: &StagedContents,
        (stamp, size): (BlobStamp, u64),
        attributes: &[u8],
    ) -> Result<u64, Error> {
        let client = self.client();
        let leaves_rest = client.transaction(|transaction| async move {
            let of = |blob: Blob<'a>| TransactionBlob::of(&transaction, blob);
            // Another generation means that another client truncates the contents in order to remove them.
            let is_it = |new: &CachedHeader| new.stamp == stamp && stamp.id == staged.id;
            let place = of(self.staged_blob(&staged.name));
            let new = match is_planted(Bug::BlobContentsBoundTwice) {
                true => place.header_now().await?.filter(is_it),
                false => place.buffer_header_removal(is_it).await?,
            };
            let Some(new) = new else { return Err(self.error(BlobError::Contended)) };
            let there = of(self.beside(self.name.clone()).with_unfinished());
            let old = there.remove_returning_header().await?;
            let place = Contents { name: &staged.name, stamp: new.stamp };
            there.create_with(new.chunk_bits, &at(&place, attributes)).await?;
            there.truncate(size).await?;
            let Some(old) = old else { return Ok(None) };
            // The old chunks stay where they are, and are removed under a name of their own.
            let rest = Bytes::from(staged_name(&self.name, old.slot(&self.name)));
            let place = Contents { name: old.contents_name(&self.name), stamp: old.chunk_stamp() };
            let left = of(self.staged_blob(&rest));
            if left.header_now().await?.is_some() {
                // The remains of still older contents come first.
                self.staged_blob(&rest).delete_if(CachedHeader::is_remains).await?;
                return Err(self.changed());
            }
            left.create_with(old.chunk_bits, &[UNFINISHED, &at(&place, b"")].concat()).await?;
            left.truncate(old.size.max(old.pending_truncation_end)).await?;
            Ok(Some(rest))
        });
        if let Some(rest) = leaves_rest.await.map_err(|error| self.contended(error))? {
            // The new contents are visible, whether or not this succeeds.
            drop(self.staged_blob(&rest).delete_if(CachedHeader::is_remains).await);
        }
        self.remember(None);
        Ok(size)
    }

    /// Removes contents that are staged for the blob and not renewed, and leftovers of its earlier contents. The contents of the bound blob are not
    /// affected.
    pub(super) async fn remove_staged(&self) -> Result<(), Error> {
        if let Some(found) = self.staged_now().await? {
            let now_ms = self.server_ms().await?;
            self.remove_staged_of(found, now_ms).await?;
        }
        Ok(())
    }

    /// The staging names of the blob that have a header; `None`: there is none.
    async fn staged_now(&self) -> Result<Option<Vec<Bytes>>, Error> {
        let slots = Slot::FOR_CONTENTS.into_iter().chain([Slot::DIRECT]);
        let names: Vec<Bytes> = slots.map(|slot| staged_name(&self.name, slot).into()).collect();
        let found = self.stat_beside(&names).await?.into_iter();
        let there: Vec<Bytes> =
            names.into_iter().zip(found).filter_map(|(name, found)| found.map(|_| name)).collect();
        Ok((!there.is_empty()).then_some(there))
    }

    /// The time of a server in milliseconds since 1970: that of a transaction which reads a header. A full disk permits it.
    async fn server_ms(&self) -> Result<u64, Error> {
        let mut attempts = Attempts::new(self.client());
        loop {
            let mut transaction = self.transaction();
            transaction.add_header_read()?;
            match transaction.commit().await {
                Ok((version, _)) => return Ok(version.millis()),
                Err(error) => self.retry_after(error, &mut attempts).await?,
            }
        }
    }

    /// Removes what of these names is not renewed at this time in milliseconds since 1970.
    async fn remove_staged_of(&self, names: Vec<Bytes>, now_ms: u64) -> Result<(), Error> {
        let is_left = |header: &CachedHeader| {
            header.is_remains()
                || !header.is_finished() && is_older(header.version, now_ms, BLOB_RENEWED_MS_MAX)
        };
        for name in names {
            self.staged_blob(&name).delete_if(is_left).await?;
        }
        Ok(())
    }

    /// Removes the leftovers of killed writers, for every blob of the keyspace, if the last change to them was more than a day before `now_ms`.
    pub(super) async fn remove_old_staged(&self, now_ms: u64) -> Result<(), Error> {
        let list = self.keyspace.list_blobs(STAGED_PREFIX).with_staged().within(self.client());
        let Some(names) = list.page_names(SCAN_PAGE_KEYS_MAX).next_page().await? else { return Ok(()) };
        let is_old = |version| is_older(version, now_ms, BLOB_STAGED_MS_MAX);
        let found = self.stat_beside(&names).await?;
        for (name, info) in names.into_iter().zip(found) {
            if info.is_some_and(|info: BlobInfo| is_old(info.version)) {
                let place = self.staged_blob(&name);
                place.delete_if(|header| !header.is_finished() && is_old(header.version)).await?;
            }
        }
        Ok(())
    }

    /// The metadata of other blobs of the keyspace, in the same call.
    async fn stat_beside<N: AsRef<[u8]>>(&self, names: &[N]) -> Result<Vec<Option<BlobInfo>>, Error> {
        self.keyspace.stat_blobs_within(self.client(), names).await
    }

    /// The error for the end of an operation that repeats itself on conflicts. That of a commit names no key: it gets the blob's name.
    pub(super) fn contended(&self, error: Error) -> Error {
        if error.is_changed_read() { self.error(BlobError::Contended) } else { error.naming(&self.name) }
    }

    /// A handle to the contents staged under a name, for their writer.
    pub(super) fn staged_blob(&self, name: &Bytes) -> Blob<'a> {
        self.beside(name.clone()).with_unfinished()
    }

    /// Refuses attributes that do not fit before anything is written.
    fn check_attributes(&self, attributes: &[u8]) -> Result<(), Error> {
        let limit = self.staged_attributes_max();
        // The server refuses attributes that are too long for any blob, with its own message.
        if attributes.len() > limit && attributes.len() <= BLOB_ATTRIBUTES_BYTES_MAX {
            return Err(self.error(BlobError::Attributes { limit: limit as u64 }));
        }
        Ok(())
    }

    /// Maximum number of bytes of the attributes of a blob whose contents were staged.
    pub(super) fn staged_attributes_max(&self) -> usize {
        Contents::attributes_max(&staged_name(&self.name, Slot::DIRECT))
    }
}

/// Starts the task that renews the header of staged contents.
fn begin_renewal(keyspace: &Keyspace, name: &Bytes, id: Timestamp) -> BackgroundTask {
    let (own, name) = (keyspace.clone(), name.clone());
    keyspace.client().spawn(async move {
        let place = own.blob(name);
        let Ok(key) = place.header_key() else { return };
        let stamp = BlobStamp { id: id.0, generation: 0 };
        for number in 0_u64.. {
            own.client().sleep(BLOB_RENEWAL).await;
            // Attributes that differ give the header a new version.
            let attributes = &[UNFINISHED, &number.to_le_bytes()].concat();
            let change = BlobChange::Describe { stamp, attributes };
            if let Err(error) = place.change(&key, Condition::Always, change).await
                && (matches!(error.failure(), Some(Failure::NotFound | Failure::StaleBlob { .. }))
                    || error.reason() == Some(&Reason::Closed))
            {
                return;
            }
        }
    })
}

/// Whether a version is from more than `ms` milliseconds before `now_ms`.
fn is_older(version: Timestamp, now_ms: u64, ms: u64) -> bool {
    version.millis().saturating_add(ms) < now_ms
}

/// The attributes of a blob whose contents are at `place`.
fn at(place: &Contents<'_>, own: &[u8]) -> Vec<u8> {
    let mut attributes = Vec::new();
    place.encode(&mut attributes);
    attributes.extend_from_slice(own);
    attributes
}

impl TransactionBlob<'_> {
    /// Removes the header of a blob, and its chunks if there are at most 4,096. Returns the header if chunks are left.
    async fn remove_returning_header(&self) -> Result<Option<CachedHeader>, Error> {
        match self.header_now().await? {
            Some(header) if header.chunks() > self.blob.limits().transaction_chunks => {
                self.buffer_header_removal(|_| true).await
            }
            _ => self.remove().await.map(|_| None),
        }
    }
}
