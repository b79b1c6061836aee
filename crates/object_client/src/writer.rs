//! Puts one object: its body first, then the record that makes it appear.

use crc_fast::{CrcAlgorithm, Digest as Crc};
use md5::{Digest as _, Md5};
use zerohop_objects::{
    self as layer, BodyId, BodyWriter, Checksum, Conditions, ETag, Lifetimes, ObjectError, ObjectRecord,
    Pairs, PutObject, SetId, Store, WHOLE_OBJECT,
};

/// The bytes that are added to the body at once.
const PIECE_BYTES: usize = 1 << 20;

/// The number of CRC-64/NVME in records of objects, as the S3 gateway has it.
pub const CRC64_NVME: u8 = 3;

/// What an object has besides its bytes.
#[derive(Clone, Debug, Default)]
pub struct PutSettings {
    /// Headers and user metadata, by the names of headers of S3.
    pub attributes: Pairs,
    /// Tags.
    pub tags: Pairs,
    /// Conditions on the object of this name that is there.
    pub conditions: Conditions,
}

/// A body that is written, and that no object names yet. Several attempts of one transaction may use it; at most one of them
/// commits.
#[derive(Clone, Debug)]
pub struct WrittenBody {
    target: (String, Vec<u8>),
    set: SetId,
    size: u64,
    etag: ETag,
    checksum: Checksum,
}

impl WrittenBody {
    /// The number of bytes.
    #[must_use]
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// The put of the object.
    pub(crate) fn put(self, settings: PutSettings, lifetimes: Lifetimes) -> PutObject {
        let PutSettings { attributes, tags, conditions } = settings;
        let (bucket, name) = self.target;
        PutObject {
            bucket,
            name,
            set: self.set,
            size: self.size,
            etag: self.etag,
            checksum: Some(self.checksum),
            attributes,
            tags,
            conditions,
            lifetimes,
        }
    }
}

/// A put in progress. If it is dropped before [`publish`](Self::publish), nothing of it is visible, and the sweep of a gateway
/// removes its bytes.
pub struct ObjectWriter<S: Store> {
    store: S,
    lifetimes: Lifetimes,
    target: (String, Vec<u8>),
    set: SetId,
    /// The last moment at which the body may be written, in milliseconds since 1970.
    until: u64,
    writer: S::Writer,
    pending: Vec<u8>,
    size: u64,
    md5: Md5,
    crc: Crc,
}

impl<S: Store + Clone> ObjectWriter<S> {
    pub(crate) async fn begin(
        store: S,
        lifetimes: Lifetimes,
        target: (String, Vec<u8>),
    ) -> Result<Self, ObjectError> {
        let set = SetId(store.random());
        let until = layer::run(&store, layer::stage_body(target.0.clone(), set, lifetimes)).await?;
        let writer = store.write_body(BodyId { set, number: WHOLE_OBJECT });
        Ok(Self {
            store,
            lifetimes,
            target,
            set,
            until,
            writer,
            pending: Vec::new(),
            size: 0,
            md5: Md5::new(),
            crc: Crc::new(CrcAlgorithm::Crc64Nvme),
        })
    }

    /// Adds bytes.
    ///
    /// # Errors
    /// Those of the store; [`ObjectError::BodyExpired`] if the put has stopped for minutes.
    pub async fn write(&mut self, bytes: &[u8]) -> Result<(), ObjectError> {
        self.size += bytes.len() as u64;
        self.md5.update(bytes);
        self.crc.update(bytes);
        self.pending.extend_from_slice(bytes);
        if self.pending.len() >= PIECE_BYTES || self.must_renew() { self.extend().await } else { Ok(()) }
    }

    /// Makes the object visible with all of its bytes, in one transaction. Returns its record.
    ///
    /// # Errors
    /// [`ObjectError::PreconditionFailed`], [`ObjectError::NoSuchBucket`], and the same as [`write`](Self::write). Only after
    /// [`ObjectError::Unavailable`] the object may have appeared.
    pub async fn publish(self, settings: PutSettings) -> Result<ObjectRecord, ObjectError> {
        let (store, lifetimes) = (self.store.clone(), self.lifetimes);
        let body = self.finish().await?;
        let put = layer::put_object(body.put(settings, lifetimes));
        layer::run(&store, put).await.map(|written| written.object)
    }

    /// Ends the body, for a transaction that makes it an object. It waits a few minutes: without a commit until then, the sweep of
    /// a gateway removes it.
    ///
    /// # Errors
    /// The same as [`write`](Self::write).
    pub async fn finish(mut self) -> Result<WrittenBody, ObjectError> {
        if self.size > 0 {
            self.extend().await?;
            self.writer.finish().await?;
        }
        let value = self.crc.finalize().to_be_bytes().to_vec();
        Ok(WrittenBody {
            target: self.target,
            set: self.set,
            size: self.size,
            etag: ETag { md5: self.md5.finalize().into(), parts: 0 },
            checksum: Checksum { algorithm: CRC64_NVME, composite: false, value },
        })
    }

    /// Whether the second half of the body's time has begun. A body is never written behind its end.
    fn must_renew(&self) -> bool {
        self.store.now() + self.lifetimes.pending / 2 > self.until
    }

    async fn extend(&mut self) -> Result<(), ObjectError> {
        if self.must_renew() {
            let body = BodyId { set: self.set, number: WHOLE_OBJECT };
            self.until = layer::run(&self.store, layer::renew_body(body, self.lifetimes)).await?;
        }
        if !self.pending.is_empty() {
            self.writer.extend(std::mem::take(&mut self.pending)).await?;
        }
        Ok(())
    }
}
