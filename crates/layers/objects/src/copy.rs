//! Copies of objects and of ranges of objects, which share the bodies of their sources.

use zerohop_layer_procedure::Decide;

use crate::condition::Conditions;
use crate::error::ObjectError;
use crate::ids::SetId;
use crate::keys;
use crate::object::{ObjectLocation, bucket_for_read, find_manifest, push_object, read_object};
use crate::optimistic::{OptimisticTransaction, Reads, Writes};
use crate::part::upload_for_part;
use crate::procedure::Procedure;
use crate::records::{Checksum, ObjectRecord, Pairs, PartRecord, VersionName};
use crate::references::{Lifetimes, bucket_for_put, drop_part_contents, move_reference};
use crate::stack::{VersionStack, key_of_named};

/// Accepts or refuses the source of a copy.
pub type CheckSource = Box<dyn FnMut(&ObjectRecord) -> Result<(), ObjectError> + Send>;

/// A copy of an object.
pub struct CopyObject {
    /// Bucket and name of the source.
    pub source: (String, Vec<u8>),
    /// The version of the source; the current one if there is none.
    pub source_version: Option<VersionName>,
    /// Bucket and name of the copy.
    pub target: (String, Vec<u8>),
    /// Checks the source.
    pub check_source: CheckSource,
    /// New headers and user metadata; those of the source if there are none.
    pub attributes: Option<Pairs>,
    /// New tags; those of the source if there are none.
    pub tags: Option<Pairs>,
    /// Random bytes for the id of the copy's version.
    pub draw: [u8; 8],
    /// Conditions on the object that the copy replaces.
    pub conditions: Conditions,
    /// The lifetimes of the driver.
    pub lifetimes: Lifetimes,
}

/// Copies an object, in one transaction.
pub fn copy_object(copy: CopyObject) -> impl Procedure<Output = ObjectRecord> + Send {
    OptimisticTransaction::new(copy_decision(copy))
}

/// The decision of [`copy_object`], for a transaction that has other parts too.
pub fn copy_decision(mut copy: CopyObject) -> impl Decide<ObjectError, Output = ObjectRecord> + Send {
    move |now: u64, reads: &mut Reads, writes: &mut Writes| {
        let (target_bucket, target_name) = &copy.target;
        let key = keys::object(target_bucket, target_name);
        let (source_bucket, source_name) = &copy.source;
        let named = key_of_named(source_bucket, source_name, copy.source_version);
        let source_keys = [keys::bucket(source_bucket), keys::object(source_bucket, source_name)];
        reads.require([keys::bucket(target_bucket), key].into_iter().chain(source_keys).chain(named))?;
        let bucket = bucket_for_put(reads, writes, target_bucket)?;
        bucket_for_read(reads, source_bucket)?;
        let source = read_object(reads, source_bucket, source_name, copy.source_version)?;
        (copy.check_source)(&source)?;
        let mut stack = VersionStack::read(reads, target_bucket, target_name)?;
        copy.conditions.check(stack.object())?;
        let object = ObjectRecord {
            modified: now,
            attributes: copy.attributes.clone().unwrap_or_else(|| source.attributes.clone()),
            tags: copy.tags.clone().unwrap_or_else(|| source.tags.clone()),
            version: None,
            ..source
        };
        let bucket = (target_bucket.clone(), bucket);
        let (object, released) = push_object(now, reads, &bucket, &mut stack, object, copy.draw)?;
        stack.write(writes);
        move_reference(now, copy.lifetimes.grace, reads, writes, Some(object.set), released)?;
        Ok(object)
    }
}

/// A part that is a range of an object.
pub struct CopyPart {
    /// Bucket and name of the source.
    pub source: (String, Vec<u8>),
    /// The version of the source; the current one if there is none.
    pub source_version: Option<VersionName>,
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
        let (source_bucket, source_name) = &copy.source;
        let named = key_of_named(source_bucket, source_name, copy.source_version);
        let part_key = keys::part(copy.upload, copy.number);
        let all = [
            keys::upload(&copy.target.0, &copy.target.1, copy.upload),
            keys::bucket(source_bucket),
            keys::object(source_bucket, source_name),
            part_key.clone(),
        ];
        reads.require(all.into_iter().chain(named))?;
        upload_for_part(reads, writes, &copy.target, copy.upload)?;
        bucket_for_read(reads, source_bucket)?;
        let source = read_object(reads, source_bucket, source_name, copy.source_version)?;
        (copy.check_source)(&source)?;
        let (offset, length) = copy.range.unwrap_or((0, source.size));
        if offset.checked_add(length).is_none_or(|end| end > source.size) {
            return Err(ObjectError::InvalidRange.into());
        }
        let manifest = find_manifest(reads, &source)?;
        let (etag, checksum) = (copy.describe)(&source, offset, length);
        let found = ObjectLocation { object: source, manifest, expiry: None };
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
