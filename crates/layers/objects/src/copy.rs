//! Copies of objects and of ranges of objects, which share the bodies of their sources.

use crate::condition::Conditions;
use crate::error::ObjectError;
use crate::ids::SetId;
use crate::keys;
use crate::object::{ObjectLocation, find_manifest};
use crate::optimistic::{OptimisticTransaction, Pause, Reads, Writes};
use crate::part::upload_for_part;
use crate::procedure::Procedure;
use crate::records::{BucketRecord, Checksum, ObjectRecord, Pairs, PartRecord};
use crate::references::{Lifetimes, bucket_for_put, drop_part_contents, move_reference};

/// Accepts or refuses the source of a copy.
pub type CheckSource = Box<dyn FnMut(&ObjectRecord) -> Result<(), ObjectError> + Send>;

/// A copy of an object.
pub struct CopyObject {
    /// Bucket and name of the source.
    pub source: (String, Vec<u8>),
    /// Bucket and name of the copy.
    pub target: (String, Vec<u8>),
    /// Checks the source.
    pub check_source: CheckSource,
    /// New headers and user metadata; those of the source if there are none.
    pub attributes: Option<Pairs>,
    /// New tags; those of the source if there are none.
    pub tags: Option<Pairs>,
    /// Conditions on the object that the copy replaces.
    pub conditions: Conditions,
    /// The lifetimes of the driver.
    pub lifetimes: Lifetimes,
}

/// Copies an object, in one transaction.
pub fn copy_object(mut copy: CopyObject) -> impl Procedure<Output = ObjectRecord> + Send {
    OptimisticTransaction::new(move |now: u64, reads: &mut Reads, writes: &mut Writes| {
        let (target_bucket, target_name) = &copy.target;
        let key = keys::object(target_bucket, target_name);
        let source_key = keys::object(&copy.source.0, &copy.source.1);
        reads.require([
            keys::bucket(target_bucket),
            keys::bucket(&copy.source.0),
            key.clone(),
            source_key.clone(),
        ])?;
        bucket_for_put(reads, writes, target_bucket)?;
        let source = source_object(reads, &copy.source.0, &source_key)?;
        (copy.check_source)(&source)?;
        let replaced: Option<ObjectRecord> = reads.get(&key)?;
        copy.conditions.check(replaced.as_ref())?;
        let object = ObjectRecord {
            modified: now,
            attributes: copy.attributes.clone().unwrap_or_else(|| source.attributes.clone()),
            tags: copy.tags.clone().unwrap_or_else(|| source.tags.clone()),
            ..source
        };
        writes.put(key, &object);
        let released = replaced.map(|replaced| replaced.set);
        move_reference(now, copy.lifetimes.grace, reads, writes, Some(object.set), released)?;
        Ok(object)
    })
}

fn source_object(reads: &mut Reads, bucket: &str, key: &[u8]) -> Result<ObjectRecord, Pause> {
    if reads.get::<BucketRecord>(&keys::bucket(bucket))?.is_none() {
        return Err(ObjectError::NoSuchBucket.into());
    }
    Ok(reads.get(key)?.ok_or(ObjectError::NoSuchObject)?)
}

/// A part that is a range of an object.
pub struct CopyPart {
    /// Bucket and name of the source.
    pub source: (String, Vec<u8>),
    /// The first byte and the number of bytes; the whole source if there are none.
    pub range: Option<(u64, u64)>,
    /// Checks the source.
    pub check_source: CheckSource,
    /// The entity tag and the checksum of a range of the source.
    pub describe: DescribeRange,
    /// Bucket and name of the object of the upload.
    pub target: (String, Vec<u8>),
    /// The upload.
    pub upload: SetId,
    /// The number of the part.
    pub number: u16,
    /// The lifetimes of the driver.
    pub lifetimes: Lifetimes,
}

/// The entity tag and the checksum of a range (first byte, number of bytes) of an object.
pub type DescribeRange =
    Box<dyn FnMut(&ObjectRecord, u64, u64) -> (crate::records::ETag, Option<Checksum>) + Send>;

/// Makes a range of an object a part of an upload, in one transaction.
pub fn copy_part(mut copy: CopyPart) -> impl Procedure<Output = PartRecord> + Send {
    OptimisticTransaction::new(move |now: u64, reads: &mut Reads, writes: &mut Writes| {
        let source_key = keys::object(&copy.source.0, &copy.source.1);
        let part_key = keys::part(copy.upload, copy.number);
        reads.require([
            keys::upload(&copy.target.0, &copy.target.1, copy.upload),
            keys::bucket(&copy.source.0),
            source_key.clone(),
            part_key.clone(),
        ])?;
        upload_for_part(reads, writes, &copy.target, copy.upload)?;
        let source = source_object(reads, &copy.source.0, &source_key)?;
        (copy.check_source)(&source)?;
        let (offset, length) = copy.range.unwrap_or((0, source.size));
        if offset.checked_add(length).is_none_or(|end| end > source.size) {
            return Err(ObjectError::InvalidRange.into());
        }
        let manifest = find_manifest(reads, &source)?;
        let (etag, checksum) = (copy.describe)(&source, offset, length);
        let found = ObjectLocation { object: source, manifest };
        let part = PartRecord {
            number: copy.number,
            size: length,
            modified: now,
            etag,
            checksum,
            body: None,
            source: Some(found.object.set),
            ranges: found.ranges(offset, length),
        };
        writes.put(part_key.clone(), &part);
        let replaced = reads.get::<PartRecord>(&part_key)?;
        // The references of both parts move in one call: they may be of the same set.
        let released = replaced.as_ref().and_then(|replaced| replaced.source);
        if let Some(replaced) = replaced {
            let own = PartRecord { source: None, ..replaced };
            drop_part_contents(now, copy.lifetimes.grace, reads, writes, copy.upload, &own)?;
        }
        move_reference(now, copy.lifetimes.grace, reads, writes, part.source, released)?;
        Ok(part)
    })
}
