//! Objects: stage a body, put, get, delete.

use crate::condition::Conditions;
use crate::error::ObjectError;
use crate::ids::{BodyId, BodyRange, SetId, WHOLE_OBJECT};
use crate::keys::{self, Timer};
use crate::optimistic::{OptimisticTransaction, Reads, Writes};
use crate::planted::{Bug, is_planted};
use crate::procedure::Procedure;
use crate::records::{BucketRecord, Checksum, ETag, Manifest, ObjectRecord, Pairs, SetRecord};
use crate::references::{Lifetimes, bucket_for_put, move_reference};

/// Makes a set pending for the body of a put. Result: the last moment at which the body may be written.
pub fn stage_body(bucket: String, set: SetId, lifetimes: Lifetimes) -> impl Procedure<Output = u64> + Send {
    OptimisticTransaction::new(move |now: u64, reads: &mut Reads, writes: &mut Writes| {
        reads.require([keys::bucket(&bucket), keys::set(set)])?;
        if reads.get::<BucketRecord>(&keys::bucket(&bucket))?.is_none() {
            return Err(ObjectError::NoSuchBucket.into());
        }
        if reads.get::<SetRecord>(&keys::set(set))?.is_some() {
            return Err(ObjectError::Busy.into());
        }
        let until = now.saturating_add(lifetimes.pending);
        writes.put(keys::set(set), &SetRecord::Pending { until });
        writes.put_empty(Timer { due: lifetimes.due(until), set, number: 0 }.key());
        Ok(until)
    })
}

/// A put whose body is written.
#[derive(Clone, Debug)]
pub struct PutObject {
    /// The bucket.
    pub bucket: String,
    /// The name of the object.
    pub name: Vec<u8>,
    /// The set of [`stage_body`].
    pub set: SetId,
    /// The number of bytes.
    pub size: u64,
    /// The entity tag.
    pub etag: ETag,
    /// The checksum.
    pub checksum: Option<Checksum>,
    /// Headers and user metadata.
    pub attributes: Pairs,
    /// Tags.
    pub tags: Pairs,
    /// Conditions on the object that stands.
    pub conditions: Conditions,
    /// The lifetimes of the driver.
    pub lifetimes: Lifetimes,
}

/// Makes the staged body an object, in one transaction, and releases the object that it replaces.
pub fn put_object(put: PutObject) -> impl Procedure<Output = ObjectRecord> + Send {
    OptimisticTransaction::new(move |now: u64, reads: &mut Reads, writes: &mut Writes| {
        let key = keys::object(&put.bucket, &put.name);
        reads.require([keys::bucket(&put.bucket), keys::set(put.set), key.clone()])?;
        bucket_for_put(reads, writes, &put.bucket)?;
        let replaced: Option<ObjectRecord> = reads.get(&key)?;
        put.conditions.check(replaced.as_ref())?;
        let Some(SetRecord::Pending { until }) = reads.get(&keys::set(put.set))? else {
            return Err(ObjectError::BodyExpired.into());
        };
        let object = ObjectRecord {
            set: put.set,
            in_parts: false,
            size: put.size,
            modified: now,
            etag: put.etag,
            checksum: put.checksum.clone(),
            attributes: put.attributes.clone(),
            tags: put.tags.clone(),
        };
        writes.put(key, &object);
        writes.put(keys::set(put.set), &SetRecord::Live { references: 1, in_parts: false });
        writes.remove(Timer { due: put.lifetimes.due(until), set: put.set, number: 0 }.key());
        let released = replaced.map(|replaced| replaced.set);
        if !is_planted(Bug::ReplacedNotReleased) {
            move_reference(now, put.lifetimes.grace, reads, writes, None, released)?;
        }
        Ok(object)
    })
}

/// An object with the places of its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectLocation {
    /// Its record.
    pub object: ObjectRecord,
    /// Its parts, if it was put in parts.
    pub manifest: Option<Manifest>,
}

impl ObjectLocation {
    /// The places of `length` bytes from `offset` on.
    #[must_use]
    pub fn ranges(&self, offset: u64, length: u64) -> Vec<BodyRange> {
        match &self.manifest {
            Some(manifest) => manifest.ranges(offset, length),
            None => crate::records::cut(
                [&BodyRange {
                    body: BodyId { set: self.object.set, number: WHOLE_OBJECT },
                    offset: 0,
                    length: self.object.size,
                }],
                offset,
                length,
            ),
        }
    }
}

/// Looks an object up. Its bytes stay readable for the time of grace, whatever happens to the object.
pub fn get_object(bucket: String, name: Vec<u8>) -> impl Procedure<Output = ObjectLocation> + Send {
    OptimisticTransaction::new(move |_, reads: &mut Reads, _: &mut Writes| {
        let key = keys::object(&bucket, &name);
        reads.require([keys::bucket(&bucket), key.clone()])?;
        if reads.get::<BucketRecord>(&keys::bucket(&bucket))?.is_none() {
            return Err(ObjectError::NoSuchBucket.into());
        }
        let object: ObjectRecord = reads.get(&key)?.ok_or(ObjectError::NoSuchObject)?;
        let manifest = find_manifest(reads, &object)?;
        Ok(ObjectLocation { object, manifest })
    })
}

/// The manifest of an object in parts.
pub(crate) fn find_manifest(
    reads: &mut Reads,
    object: &ObjectRecord,
) -> Result<Option<Manifest>, crate::optimistic::Pause> {
    if !object.in_parts {
        return Ok(None);
    }
    let key = keys::manifest(object.set);
    let manifest = reads.get::<Manifest>(&key)?;
    manifest.map(Some).ok_or_else(|| ObjectError::Corrupt(key).into())
}

/// Deletes an object. Result: whether there was one.
pub fn delete_object(
    bucket: String,
    name: Vec<u8>,
    conditions: Conditions,
    lifetimes: Lifetimes,
) -> impl Procedure<Output = bool> + Send {
    OptimisticTransaction::new(move |now: u64, reads: &mut Reads, writes: &mut Writes| {
        let key = keys::object(&bucket, &name);
        reads.require([keys::bucket(&bucket), key.clone()])?;
        if reads.get::<BucketRecord>(&keys::bucket(&bucket))?.is_none() {
            return Err(ObjectError::NoSuchBucket.into());
        }
        let object: Option<ObjectRecord> = reads.get(&key)?;
        conditions.check(object.as_ref())?;
        let Some(object) = object else { return Ok(false) };
        writes.remove(key);
        move_reference(now, lifetimes.grace, reads, writes, None, Some(object.set))?;
        Ok(true)
    })
}

/// Replaces the tags of an object.
pub fn change_tags(bucket: String, name: Vec<u8>, tags: Pairs) -> impl Procedure<Output = ()> + Send {
    OptimisticTransaction::new(move |_, reads: &mut Reads, writes: &mut Writes| {
        let key = keys::object(&bucket, &name);
        reads.require([keys::bucket(&bucket), key.clone()])?;
        if reads.get::<BucketRecord>(&keys::bucket(&bucket))?.is_none() {
            return Err(ObjectError::NoSuchBucket.into());
        }
        let mut object: ObjectRecord = reads.get(&key)?.ok_or(ObjectError::NoSuchObject)?;
        object.tags.clone_from(&tags);
        writes.put(key, &object);
        Ok(())
    })
}
