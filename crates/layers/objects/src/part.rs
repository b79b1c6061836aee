//! Parts of uploads whose bytes the caller writes.

use crate::error::ObjectError;
use crate::ids::{BodyId, BodyRange, SetId, WHOLE_OBJECT};
use crate::keys::{self, Timer};
use crate::optimistic::{OptimisticTransaction, Pause, Reads, Writes};
use crate::planted::{Bug, is_planted};
use crate::procedure::Procedure;
use crate::records::{BodyRecord, Checksum, ETag, PartRecord, SetRecord, UploadRecord};
use crate::references::{Lifetimes, drop_part_contents};

/// The upload of a part. A completion that has begun starts again.
pub(crate) fn upload_for_part(
    reads: &mut Reads,
    writes: &mut Writes,
    (bucket, name): &(String, Vec<u8>),
    id: SetId,
) -> Result<UploadRecord, Pause> {
    let key = keys::upload(bucket, name, id);
    let mut upload: UploadRecord = reads.get(&key)?.ok_or(ObjectError::NoSuchUpload)?;
    if upload.is_frozen && !is_planted(Bug::PartsNotFrozen) {
        upload.is_frozen = false;
        upload.generation += 1;
        writes.put(key, &upload);
    }
    Ok(upload)
}

/// Makes a body of an upload pending. Result: the upload, and the last moment at which the body may be written.
pub fn stage_part(
    target: (String, Vec<u8>),
    body: BodyId,
    lifetimes: Lifetimes,
) -> impl Procedure<Output = (UploadRecord, u64)> + Send {
    OptimisticTransaction::new(move |now: u64, reads: &mut Reads, writes: &mut Writes| {
        let upload_key = keys::upload(&target.0, &target.1, body.set);
        reads.require([upload_key.clone(), keys::body(body)])?;
        let upload: UploadRecord = reads.get(&upload_key)?.ok_or(ObjectError::NoSuchUpload)?;
        if reads.get::<BodyRecord>(&keys::body(body))?.is_some() {
            return Err(ObjectError::Busy.into());
        }
        let until = now.saturating_add(lifetimes.pending);
        writes.put(keys::body(body), &BodyRecord::Pending { until });
        writes.put_empty(Timer { due: lifetimes.due(until), set: body.set, number: body.number }.key());
        Ok((upload, until))
    })
}

/// Gives a pending body more time. Result: the last moment at which it may be written.
pub fn renew_body(body: BodyId, lifetimes: Lifetimes) -> impl Procedure<Output = u64> + Send {
    OptimisticTransaction::new(move |now: u64, reads: &mut Reads, writes: &mut Writes| {
        let renewed = now.saturating_add(lifetimes.pending);
        let (until, number) = if body.number == WHOLE_OBJECT {
            match reads.get(&keys::set(body.set))? {
                Some(SetRecord::Pending { until }) if until < renewed => {
                    writes.put(keys::set(body.set), &SetRecord::Pending { until: renewed });
                    (until, 0)
                }
                Some(SetRecord::Pending { until }) => return Ok(until),
                _ => return Err(ObjectError::BodyExpired.into()),
            }
        } else {
            match reads.get(&keys::body(body))? {
                Some(BodyRecord::Pending { until }) if until < renewed => {
                    writes.put(keys::body(body), &BodyRecord::Pending { until: renewed });
                    (until, body.number)
                }
                Some(BodyRecord::Pending { until }) => return Ok(until),
                _ => return Err(ObjectError::BodyExpired.into()),
            }
        };
        writes.remove(Timer { due: lifetimes.due(until), set: body.set, number }.key());
        writes.put_empty(Timer { due: lifetimes.due(renewed), set: body.set, number }.key());
        Ok(renewed)
    })
}

/// A part whose body is written.
#[derive(Clone, Debug)]
pub struct PutPart {
    /// Bucket and name of the object of the upload.
    pub target: (String, Vec<u8>),
    /// The body of [`stage_part`].
    pub body: BodyId,
    /// The number of the part.
    pub number: u16,
    /// The number of bytes.
    pub size: u64,
    /// The entity tag.
    pub etag: ETag,
    /// The checksum.
    pub checksum: Option<Checksum>,
    /// The lifetimes of the driver.
    pub lifetimes: Lifetimes,
}

/// Makes the staged body a part, in one transaction, and drops the part that it replaces.
pub fn put_part(put: PutPart) -> impl Procedure<Output = PartRecord> + Send {
    OptimisticTransaction::new(move |now: u64, reads: &mut Reads, writes: &mut Writes| {
        let id = put.body.set;
        let (part_key, body_key) = (keys::part(id, put.number), keys::body(put.body));
        let upload_key = keys::upload(&put.target.0, &put.target.1, id);
        reads.require([upload_key, part_key.clone(), body_key.clone()])?;
        upload_for_part(reads, writes, &put.target, id)?;
        let Some(BodyRecord::Pending { until }) = reads.get(&body_key)? else {
            return Err(ObjectError::BodyExpired.into());
        };
        let part = PartRecord {
            number: put.number,
            size: put.size,
            modified: now,
            etag: put.etag,
            checksum: put.checksum.clone(),
            body: Some(put.body.number),
            source: None,
            ranges: vec![BodyRange { body: put.body, offset: 0, length: put.size }],
        };
        let replaced = reads.get::<PartRecord>(&part_key)?;
        writes.put(part_key, &part);
        writes.put(body_key, &BodyRecord::Live { part: put.number });
        writes.remove(Timer { due: put.lifetimes.due(until), set: id, number: put.body.number }.key());
        if let Some(replaced) = replaced {
            drop_part_contents(now, put.lifetimes.grace, reads, writes, id, &replaced)?;
        }
        Ok(part)
    })
}
