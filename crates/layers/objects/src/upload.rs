//! Multipart uploads: create, look up, abort.

use crate::error::ObjectError;
use crate::ids::SetId;
use crate::keys::{self, Timer};
use crate::optimistic::{OptimisticTransaction, Pause, Reads, Writes};
use crate::procedure::Procedure;
use crate::records::{Pairs, SetRecord, UploadRecord};
use crate::references::bucket_for_put;

/// A new upload.
#[derive(Clone, Debug)]
pub struct CreateUpload {
    /// Bucket and name of the object.
    pub target: (String, Vec<u8>),
    /// The id of the upload.
    pub id: SetId,
    /// The checksum algorithm of the object; 0 for none.
    pub checksum_algorithm: u8,
    /// The checksum of the object is that of the checksums of its parts.
    pub is_composite: bool,
    /// Headers and user metadata of the object.
    pub attributes: Pairs,
    /// Tags of the object.
    pub tags: Pairs,
}

/// Creates an upload.
pub fn create_upload(create: CreateUpload) -> impl Procedure<Output = ()> + Send {
    OptimisticTransaction::new(move |now: u64, reads: &mut Reads, writes: &mut Writes| {
        let (bucket, name) = &create.target;
        reads.require([keys::bucket(bucket), keys::set(create.id)])?;
        bucket_for_put(reads, writes, bucket)?;
        if reads.get::<SetRecord>(&keys::set(create.id))?.is_some() {
            return Err(ObjectError::Busy.into());
        }
        let upload = UploadRecord {
            initiated: now,
            is_frozen: false,
            generation: 0,
            checksum_algorithm: create.checksum_algorithm,
            is_composite: create.is_composite,
            attributes: create.attributes.clone(),
            tags: create.tags.clone(),
        };
        writes.put(keys::upload(bucket, name, create.id), &upload);
        writes.put(keys::set(create.id), &SetRecord::Open);
        Ok(())
    })
}

/// Looks an upload up.
pub fn head_upload(target: (String, Vec<u8>), id: SetId) -> impl Procedure<Output = UploadRecord> + Send {
    OptimisticTransaction::new(move |_, reads: &mut Reads, _: &mut Writes| {
        Ok(reads.get(&keys::upload(&target.0, &target.1, id))?.ok_or(ObjectError::NoSuchUpload)?)
    })
}

/// Aborts an upload. The sweep deletes its parts.
pub fn abort_upload(target: (String, Vec<u8>), id: SetId) -> impl Procedure<Output = ()> + Send {
    OptimisticTransaction::new(move |now: u64, reads: &mut Reads, writes: &mut Writes| {
        remove_upload(now, reads, writes, &target, id)
    })
}

/// The writes of an abort.
pub(crate) fn remove_upload(
    now: u64,
    reads: &mut Reads,
    writes: &mut Writes,
    target: &(String, Vec<u8>),
    id: SetId,
) -> Result<(), Pause> {
    let key = keys::upload(&target.0, &target.1, id);
    reads.require([key.clone(), keys::set(id)])?;
    reads.get::<UploadRecord>(&key)?.ok_or(ObjectError::NoSuchUpload)?;
    if reads.get(&keys::set(id))? != Some(SetRecord::Open) {
        return Err(ObjectError::Corrupt(keys::set(id)).into());
    }
    writes.remove(key);
    writes.put(keys::set(id), &SetRecord::Dead { in_parts: true, until: now });
    writes.put_empty(Timer { due: now, set: id, number: 0 }.key());
    Ok(())
}
