//! New contents of a blob that is there: written where nobody looks, and then bound to its name by one transaction.
//!
//! ```text
//!   stage ──> header of a staging name, not finished ──> fill ──> one transaction: the staging name's header and the old one go,
//!                                                                 a header comes that says where the new contents lie
//! ```
//!
//! Up to 4,096 old chunks go by the same transaction. Where they are more, it leaves a header of a staging name that says what is to be
//! removed, and they go behind it. What a writer leaves that is killed has such a header too: the next stage of the same blob, its
//! removal, and after a day every long put of the keyspace find and remove it.

use bytes::Bytes;
use zerohop_wire::Failure;
use zerohop_wire::blob::BlobStamp;
use zerohop_wire::contents::{Contents, STAGED_PREFIX, Slot, staged_name};
use zerohop_wire::limits::{BLOB_ATTRIBUTES_BYTES_MAX, SCAN_PAGE_KEYS_MAX};

use super::contents::UNFINISHED;
use super::{Blob, KnownHeader, TransactionBlob};
use crate::error::{BlobTrouble, Error};
use crate::limits::{BLOB_ATTEMPTS_MAX, BLOB_CUT_CHUNKS_MAX, BLOB_STAGED_MS_MAX};

/// Contents that are to replace those of a blob: see [`Blob::stage`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StagedContents {
    /// A blob of this name has them until then. It is not finished: see [`Blob::with_unfinished`].
    pub name: Bytes,
    /// Tells it from later ones under the same name.
    pub id: u64,
}

impl<'a> Blob<'a> {
    /// Begins new contents for this blob, under a name of their own, for [`Blob::bind`]; `None`: there is no finished blob. Who stages later for
    /// the same blob goes before, and what an earlier writer has staged is removed.
    ///
    /// # Errors
    /// `ValueTooLong`: the attributes do not fit beside the name; [`BlobTrouble::Contended`]; as [`Blob::create_with`].
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
                // Somebody else was faster.
                Err(error) if matches!(error.failure(), Some(Failure::ConditionFailed { .. })) => {}
                Err(error) => return Err(error),
            }
        }
        Err(self.trouble(BlobTrouble::Contended))
    }

    /// Has the blob consist of what is staged, of all of its bytes, with these attributes: from one moment on, at which the old contents go.
    /// Brings the size in bytes.
    ///
    /// # Errors
    /// [`BlobTrouble::Contended`]: somebody else has staged for this blob, or removed it; as [`Blob::delete`] of the old contents.
    pub async fn bind(&self, staged: &StagedContents, attributes: &[u8]) -> Result<u64, Error> {
        let header = self.place(&staged.name).known().await?;
        self.bind_bytes(staged, (header.stamp, header.size), attributes).await
    }

    /// Removes what is staged, if it is there still.
    ///
    /// # Errors
    /// As [`Blob::delete`].
    pub async fn unstage(&self, staged: &StagedContents) -> Result<(), Error> {
        let is_it = |header: &KnownHeader| header.stamp.id == staged.id && !header.is_finished();
        self.place(&staged.name).delete_if(is_it).await.map(drop)
    }

    /// As [`Blob::bind`], of a header with this stamp, and of so many bytes, which may have been written behind its end.
    pub(super) async fn bind_bytes(
        &self,
        staged: &StagedContents,
        (stamp, size): (BlobStamp, u64),
        attributes: &[u8],
    ) -> Result<u64, Error> {
        let client = self.keyspace.client();
        let leaves_rest = client.transaction(|transaction| async move {
            let of = |blob: Blob<'a>| TransactionBlob::of(&transaction, blob);
            // Of another generation, somebody cuts it to remove it.
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
            // What is left lies where it lay, and is removed under a name of its own.
            let rest = Bytes::from(staged_name(&self.name, old.slot(&self.name)));
            let place = Contents { name: old.contents_name(&self.name), stamp: old.chunk_stamp() };
            let left = of(self.place(&rest));
            left.create_with(old.chunk_bits, &[UNFINISHED, &at(&place, b"")].concat()).await?;
            left.truncate(old.size.max(old.uncut)).await?;
            Ok(Some(rest))
        });
        if let Some(rest) = leaves_rest.await? {
            // The new contents are there, whatever comes of this.
            drop(self.place(&rest).delete_if(|header| !header.is_finished()).await);
        }
        self.remember(None);
        Ok(size)
    }

    /// Removes what is staged for the blob, or left of what was there before it. The blob that is bound has none of it.
    pub(super) async fn remove_staged(&self) -> Result<(), Error> {
        let names = [Slot::A, Slot::B, Slot::Direct].map(|slot| staged_name(&self.name, slot));
        let found = self.keyspace.stat_blobs(&names).await?;
        for (name, _) in names.into_iter().zip(found).filter(|(_, found)| found.is_some()) {
            self.place(&Bytes::from(name)).delete_if(|header| !header.is_finished()).await?;
        }
        Ok(())
    }

    /// Removes what writers have left that were killed: of any blob of the keyspace, if nothing was done to it for a day before `now_ms`.
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

    /// What is staged under a name, for its writer.
    pub(super) fn place(&self, name: &Bytes) -> Blob<'a> {
        self.keyspace.blob(name.clone()).with_unfinished()
    }

    /// Attributes that do not fit are refused before anything is written.
    fn check_attributes(&self, place: &[u8], attributes: &[u8]) -> Result<(), Error> {
        let limit = Contents::attributes_max(place);
        // More than any blob has is refused by the server, in its words.
        if attributes.len() > limit && attributes.len() <= BLOB_ATTRIBUTES_BYTES_MAX {
            return Err(self.trouble(BlobTrouble::Attributes { limit: limit as u64 }));
        }
        Ok(())
    }
}

/// The attributes of a blob whose contents lie there.
fn at(place: &Contents<'_>, own: &[u8]) -> Vec<u8> {
    let mut attributes = Vec::new();
    place.encode(&mut attributes);
    attributes.extend_from_slice(own);
    attributes
}

impl TransactionBlob<'_> {
    /// Removes the header of a blob, and of up to 4,096 chunks also these. Brings the header, if chunks are left.
    async fn take(&self) -> Result<Option<KnownHeader>, Error> {
        match self.header_now().await? {
            Some(header) if header.chunks() > BLOB_CUT_CHUNKS_MAX => self.take_header(|_| true).await,
            _ => self.remove().await.map(|_| None),
        }
    }
}
