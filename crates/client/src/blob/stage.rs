//! New contents for an existing blob: the writer stages them under another name, and one transaction then binds them to the blob's name.
//!
//! ```text
//!   stage ──> header of a staging name, not finished ──> fill ──> one transaction: remove the staging name's header and the old one,
//!                                                                 create a header that says where the new contents are
//! ```
//!
//! The same transaction removes up to 4,096 old chunks. If there are more, it leaves a header under a staging name that says what to remove, and
//! the chunks are removed afterwards. The leftovers of a killed writer have such a header too. The next stage of the same blob, its removal, and
//! after a day every long put in the keyspace find and remove them.

use bytes::Bytes;
use zerohop_wire::Failure;
use zerohop_wire::blob::BlobStamp;
use zerohop_wire::contents::{Contents, STAGED_PREFIX, Slot, staged_name};
use zerohop_wire::limits::{BLOB_ATTRIBUTES_BYTES_MAX, SCAN_PAGE_KEYS_MAX};

use super::contents::UNFINISHED;
use super::{Blob, KnownHeader, TransactionBlob};
use crate::error::{BlobTrouble, Error};
use crate::limits::{BLOB_ATTEMPTS_MAX, BLOB_CUT_CHUNKS_MAX, BLOB_STAGED_MS_MAX};

/// Staged contents that are to replace those of a blob: see [`Blob::stage`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StagedContents {
    /// The name of the blob that has the contents until they are bound. It is not finished: see [`Blob::with_unfinished`].
    pub name: Bytes,
    /// Distinguishes these contents from later ones under the same name.
    pub id: u64,
}

impl<'a> Blob<'a> {
    /// Creates new contents for this blob under a name of their own, for [`Blob::bind`]; `None`: there is no finished blob. A later stage of the
    /// same blob takes precedence and removes what an earlier writer has staged.
    ///
    /// # Errors
    /// `ValueTooLong`: the attributes do not fit beside the name; [`BlobTrouble::Contended`]; those of [`Blob::create_with`].
    pub async fn stage(
        &self,
        chunk_bits: Option<u8>,
        attributes: &[u8],
    ) -> Result<Option<StagedContents>, Error> {
        for _ in 0..BLOB_ATTEMPTS_MAX {
            let Some(header) = self.header().await?.filter(KnownHeader::is_finished) else { return Ok(None) };
            let slot = if header.slot(&self.name) == Slot::A { Slot::B } else { Slot::A };
            let name = Bytes::from(staged_name(&self.name, slot));
            self.check_attributes(&name, attributes)?;
            self.remove_staged().await?;
            match self.place(&name).create_unfinished(chunk_bits, b"").await {
                Ok(info) => return Ok(Some(StagedContents { name, id: info.id.0 })),
                // Another client created the contents first.
                Err(error) if matches!(error.failure(), Some(Failure::ConditionFailed { .. })) => {}
                Err(error) => return Err(error),
            }
        }
        Err(self.trouble(BlobTrouble::Contended))
    }

    /// Atomically replaces the blob's contents with all the staged bytes, and sets these attributes. Returns the size in bytes.
    ///
    /// # Errors
    /// [`BlobTrouble::Contended`]: another client has staged contents for this blob, or removed it; those of [`Blob::delete`] for the old contents.
    pub async fn bind(&self, staged: &StagedContents, attributes: &[u8]) -> Result<u64, Error> {
        let header = self.place(&staged.name).known().await?;
        self.bind_bytes(staged, (header.stamp, header.size), attributes).await
    }

    /// Removes the staged contents, if they still exist.
    ///
    /// # Errors
    /// Same as [`Blob::delete`].
    pub async fn unstage(&self, staged: &StagedContents) -> Result<(), Error> {
        let is_it = |header: &KnownHeader| header.stamp.id == staged.id && !header.is_finished();
        self.place(&staged.name).delete_if(is_it).await.map(drop)
    }

    /// Same as [`Blob::bind`], for a header with this fence and this number of bytes, which may have been written behind its end.
    pub(super) async fn bind_bytes(
        &self,
        staged: &StagedContents,
        (stamp, size): (BlobStamp, u64),
        attributes: &[u8],
    ) -> Result<u64, Error> {
        let client = self.keyspace.client();
        let leaves_rest = client.transaction(|transaction| async move {
            let of = |blob: Blob<'a>| TransactionBlob::of(&transaction, blob);
            // Another generation means that another client truncates the contents in order to remove them.
            let is_it = |new: &KnownHeader| new.stamp == stamp && stamp.id == staged.id;
            let Some(new) = of(self.place(&staged.name)).take_header(is_it).await? else {
                return Err(self.trouble(BlobTrouble::Contended));
            };
            let there = of(self.keyspace.blob(self.name.clone()).with_unfinished());
            let old = there.take().await?;
            let place = Contents { name: &staged.name, stamp: new.stamp };
            there.create_with(new.chunk_bits, &at(&place, attributes)).await?;
            there.truncate(size).await?;
            let Some(old) = old else { return Ok(None) };
            // The old chunks stay where they are, and are removed under a name of their own.
            let rest = Bytes::from(staged_name(&self.name, old.slot(&self.name)));
            let place = Contents { name: old.contents_name(&self.name), stamp: old.chunk_stamp() };
            let left = of(self.place(&rest));
            left.create_with(old.chunk_bits, &[UNFINISHED, &at(&place, b"")].concat()).await?;
            left.truncate(old.size.max(old.uncut)).await?;
            Ok(Some(rest))
        });
        if let Some(rest) = leaves_rest.await? {
            // The new contents are visible, whether or not this succeeds.
            drop(self.place(&rest).delete_if(|header| !header.is_finished()).await);
        }
        self.remember(None);
        Ok(size)
    }

    /// Removes contents that are staged for the blob, and leftovers of its earlier contents. The contents of the bound blob are not affected.
    pub(super) async fn remove_staged(&self) -> Result<(), Error> {
        let names = [Slot::A, Slot::B, Slot::Direct].map(|slot| staged_name(&self.name, slot));
        let found = self.keyspace.stat_blobs(&names).await?;
        for (name, _) in names.into_iter().zip(found).filter(|(_, found)| found.is_some()) {
            self.place(&Bytes::from(name)).delete_if(|header| !header.is_finished()).await?;
        }
        Ok(())
    }

    /// Removes the leftovers of killed writers, for every blob of the keyspace, if the last change to them was more than a day before `now_ms`.
    pub(super) async fn remove_old_staged(&self, now_ms: u64) -> Result<(), Error> {
        let list = self.keyspace.list_blobs(STAGED_PREFIX).with_staged();
        let Some(names) = list.page_names(SCAN_PAGE_KEYS_MAX).next_page().await? else { return Ok(()) };
        let is_old = |version: zerohop_wire::ids::Timestamp| version.millis() + BLOB_STAGED_MS_MAX < now_ms;
        let found = self.keyspace.stat_blobs(&names).await?;
        for (name, info) in names.into_iter().zip(found) {
            if info.is_some_and(|info| is_old(info.version)) {
                let place = self.place(&name);
                place.delete_if(|header| !header.is_finished() && is_old(header.version)).await?;
            }
        }
        Ok(())
    }

    /// A handle to the contents staged under a name, for their writer.
    pub(super) fn place(&self, name: &Bytes) -> Blob<'a> {
        self.keyspace.blob(name.clone()).with_unfinished()
    }

    /// Refuses attributes that do not fit before anything is written.
    fn check_attributes(&self, place: &[u8], attributes: &[u8]) -> Result<(), Error> {
        let limit = Contents::attributes_max(place);
        // The server refuses attributes that are too long for any blob, with its own message.
        if attributes.len() > limit && attributes.len() <= BLOB_ATTRIBUTES_BYTES_MAX {
            return Err(self.trouble(BlobTrouble::Attributes { limit: limit as u64 }));
        }
        Ok(())
    }
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
    async fn take(&self) -> Result<Option<KnownHeader>, Error> {
        match self.header_now().await? {
            Some(header) if header.chunks() > BLOB_CUT_CHUNKS_MAX => self.take_header(|_| true).await,
            _ => self.remove().await.map(|_| None),
        }
    }
}
