//! Objects: stage a body, put, get, delete.

use zerohop_layer_procedure::Decide;

use crate::condition::Conditions;
use crate::error::ObjectError;
use crate::ids::{BodyId, BodyRange, SetId, WHOLE_OBJECT};
use crate::keys::{self, Timer};
use crate::optimistic::{OptimisticTransaction, Pause, Reads, Writes};
use crate::planted::{Bug, is_planted};
use crate::procedure::Procedure;
use crate::records::{
    BucketRecord, Checksum, ETag, LifecycleRules, Manifest, MarkerRecord, ObjectRecord, Pairs, SetRecord,
    StoredVersion, VersionLinks, VersionName, Versioning,
};
use crate::references::{Lifetimes, bucket_for_put, move_reference};
use crate::rules::ObjectExpiry;
use crate::stack::{VersionStack, key_of_named, versioning_of};

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

/// Makes the staged body an object, in one transaction. The object that it replaces is released, or kept as a version.
pub fn put_object(put: PutObject) -> impl Procedure<Output = WrittenObject> + Send {
    OptimisticTransaction::new(put_decision(put))
}

/// The decision of [`put_object`], for a transaction that has other parts too.
pub fn put_decision(put: PutObject) -> impl Decide<ObjectError, Output = WrittenObject> + Send {
    move |now: u64, reads: &mut Reads, writes: &mut Writes| {
        let key = keys::object(&put.bucket, &put.name);
        reads.require([keys::bucket(&put.bucket), keys::set(put.set), key])?;
        let bucket = bucket_for_put(reads, writes, &put.bucket)?;
        let mut stack = VersionStack::read(reads, &put.bucket, &put.name)?;
        put.conditions.check(stack.object())?;
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
            version: None,
        };
        let expiry = expiry_of(&bucket, &put.name, &object);
        let bucket = (put.bucket.clone(), bucket);
        let (object, released) = push_object(now, reads, &bucket, &mut stack, object, put.set.draw())?;
        stack.write(writes);
        writes.put(keys::set(put.set), &SetRecord::Live { references: 1, in_parts: false });
        writes.remove(Timer { due: put.lifetimes.due(until), set: put.set, number: 0 }.key());
        if !is_planted(Bug::ReplacedNotReleased) {
            move_reference(now, put.lifetimes.grace, reads, writes, None, released)?;
        }
        Ok(WrittenObject { object, expiry })
    }
}

/// An object with the places of its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectLocation {
    /// Its record.
    pub object: ObjectRecord,
    /// Its parts, if it was put in parts.
    pub manifest: Option<Manifest>,
    /// When it expires, if it is the current version and a rule of its bucket says so.
    pub expiry: Option<ObjectExpiry>,
}

/// An object that was put.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenObject {
    /// Its record.
    pub object: ObjectRecord,
    /// When it expires, if a rule of its bucket says so.
    pub expiry: Option<ObjectExpiry>,
}

/// When a version expires by the rules of its bucket.
fn expiry_of(bucket: &BucketRecord, name: &[u8], object: &ObjectRecord) -> Option<ObjectExpiry> {
    let is_current = object.version.is_none_or(|links| links.newer.is_none());
    LifecycleRules::of(bucket).filter(|_| is_current)?.expiry(name, object)
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

/// A version that was looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VersionLookup {
    /// An object, and the name of the version if its bucket keeps versions.
    Object(ObjectLocation, Option<VersionName>),
    /// A delete marker.
    Marker(MarkerRecord),
}

/// Makes `object` the current version. Result: the object with its place, and the set that is released.
pub(crate) fn push_object(
    now: u64,
    reads: &mut Reads,
    bucket: &(String, BucketRecord),
    stack: &mut VersionStack<'_>,
    object: ObjectRecord,
    draw: [u8; 8],
) -> Result<(ObjectRecord, Option<SetId>), Pause> {
    let versioning = versioning_of(&bucket.0, &bucket.1)?;
    let released = stack.push(now, reads, versioning, draw, StoredVersion::Object(object.clone()))?;
    let version = stack.object().and_then(|current| current.version);
    Ok((ObjectRecord { version, ..object }, released))
}

/// The bucket of a reader.
pub(crate) fn bucket_for_read(reads: &mut Reads, name: &str) -> Result<BucketRecord, Pause> {
    Ok(reads.get(&keys::bucket(name))?.ok_or(ObjectError::NoSuchBucket)?)
}

/// The current version, or that of the name.
pub(crate) fn read_version(
    reads: &mut Reads,
    bucket: &str,
    name: &[u8],
    version: Option<VersionName>,
) -> Result<StoredVersion, Pause> {
    let stack = VersionStack::read(reads, bucket, name)?;
    match version {
        None => Ok(stack.current().cloned().ok_or(ObjectError::NoSuchObject)?),
        Some(version) => Ok(stack.find(reads, version)?.ok_or(ObjectError::NoSuchVersion)?),
    }
}

/// The same, without delete markers.
pub(crate) fn read_object(
    reads: &mut Reads,
    bucket: &str,
    name: &[u8],
    version: Option<VersionName>,
) -> Result<ObjectRecord, Pause> {
    match (read_version(reads, bucket, name, version)?, version) {
        (StoredVersion::Object(object), _) => Ok(object),
        (StoredVersion::Marker(_), None) => Err(ObjectError::NoSuchObject.into()),
        (StoredVersion::Marker(_), Some(_)) => Err(ObjectError::DeleteMarker.into()),
    }
}

/// Looks an object up. Its bytes stay readable for the time of grace, whatever happens to the object.
pub fn get_object(bucket: String, name: Vec<u8>) -> impl Procedure<Output = ObjectLocation> + Send {
    OptimisticTransaction::new(get_decision(bucket, name))
}

/// The decision of [`get_object`], for a transaction that has other parts too.
pub fn get_decision(
    bucket: String,
    name: Vec<u8>,
) -> impl Decide<ObjectError, Output = ObjectLocation> + Send {
    move |_, reads: &mut Reads, _: &mut Writes| {
        reads.require([keys::bucket(&bucket), keys::object(&bucket, &name)])?;
        let record = bucket_for_read(reads, &bucket)?;
        let object = read_object(reads, &bucket, &name, None)?;
        let manifest = find_manifest(reads, &object)?;
        let expiry = expiry_of(&record, &name, &object);
        Ok(ObjectLocation { object, manifest, expiry })
    }
}

/// Looks the current version of an object up, or that of the name `version`.
pub fn get_version(
    bucket: String,
    name: Vec<u8>,
    version: Option<VersionName>,
) -> impl Procedure<Output = VersionLookup> + Send {
    OptimisticTransaction::new(move |_, reads: &mut Reads, _: &mut Writes| {
        let named = key_of_named(&bucket, &name, version);
        reads.require([keys::bucket(&bucket), keys::object(&bucket, &name)].into_iter().chain(named))?;
        let record = bucket_for_read(reads, &bucket)?;
        let found = read_version(reads, &bucket, &name, version)?;
        let shown = match versioning_of(&bucket, &record)? {
            Versioning::Absent => None,
            Versioning::Enabled | Versioning::Suspended => Some(found.links().name()),
        };
        Ok(match found {
            StoredVersion::Marker(marker) => VersionLookup::Marker(marker),
            StoredVersion::Object(object) => {
                let manifest = find_manifest(reads, &object)?;
                let expiry = expiry_of(&record, &name, &object);
                VersionLookup::Object(ObjectLocation { object, manifest, expiry }, shown)
            }
        })
    })
}

/// The manifest of an object in parts.
pub(crate) fn find_manifest(reads: &mut Reads, object: &ObjectRecord) -> Result<Option<Manifest>, Pause> {
    if !object.in_parts {
        return Ok(None);
    }
    let key = keys::manifest(object.set);
    let manifest = reads.get::<Manifest>(&key)?;
    manifest.map(Some).ok_or_else(|| ObjectError::Corrupt(key).into())
}

/// A removal of an object or of a version.
#[derive(Clone, Debug)]
pub struct DeleteObject {
    /// The bucket.
    pub bucket: String,
    /// The name of the object.
    pub name: Vec<u8>,
    /// The version that is removed for good. Without it, a bucket that keeps versions gets a delete marker.
    pub version: Option<VersionName>,
    /// Random bytes for the id of a delete marker.
    pub draw: [u8; 8],
    /// Conditions on the current object, or on the version.
    pub conditions: Conditions,
    /// The lifetimes of the driver.
    pub lifetimes: Lifetimes,
}

/// What a removal did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemovalOutcome {
    /// There was such an object or version.
    pub existed: bool,
    /// The delete marker that was written, or the version that was named.
    pub version: Option<VersionName>,
    /// The version is a delete marker.
    pub is_marker: bool,
}

/// Removes an object or a version of it, in one transaction.
pub fn delete_object(delete: DeleteObject) -> impl Procedure<Output = RemovalOutcome> + Send {
    OptimisticTransaction::new(delete_decision(delete))
}

/// The decision of [`delete_object`], for a transaction that has other parts too.
pub fn delete_decision(delete: DeleteObject) -> impl Decide<ObjectError, Output = RemovalOutcome> + Send {
    move |now: u64, reads: &mut Reads, writes: &mut Writes| {
        let named = key_of_named(&delete.bucket, &delete.name, delete.version);
        let keys = [keys::bucket(&delete.bucket), keys::object(&delete.bucket, &delete.name)];
        reads.require(keys.into_iter().chain(named))?;
        let bucket = bucket_for_read(reads, &delete.bucket)?;
        remove_object(now, reads, writes, &bucket, &delete)
    }
}

/// The writes of a removal.
pub(crate) fn remove_object(
    now: u64,
    reads: &mut Reads,
    writes: &mut Writes,
    bucket: &BucketRecord,
    delete: &DeleteObject,
) -> Result<RemovalOutcome, Pause> {
    let (name, grace) = (&delete.name, delete.lifetimes.grace);
    let versioning = versioning_of(&delete.bucket, bucket)?;
    let mut stack = VersionStack::read(reads, &delete.bucket, name)?;
    if delete.version.is_none() && versioning != Versioning::Absent {
        bucket_for_put(reads, writes, &delete.bucket)?;
        delete.conditions.check(stack.object())?;
        let existed = stack.object().is_some();
        let links = VersionLinks::alone(now, delete.draw);
        let marker = StoredVersion::Marker(MarkerRecord { modified: now, links });
        let released = stack.push(now, reads, versioning, delete.draw, marker)?;
        let version = stack.current().map(|marker| marker.links().name());
        stack.write(writes);
        move_reference(now, grace, reads, writes, None, released)?;
        return Ok(RemovalOutcome { existed, version, is_marker: true });
    }
    let current = stack.current().map(|current| current.links().name());
    let removed = match delete.version.or(current) {
        Some(version) => stack.find(reads, version)?.map(|found| (version, found)),
        None => None,
    };
    delete.conditions.check(removed.as_ref().and_then(|(_, found)| found.object()))?;
    let Some((version, removed)) = removed else {
        return Ok(RemovalOutcome { existed: false, version: delete.version, is_marker: false });
    };
    stack.remove(reads, version)?;
    stack.write(writes);
    if !(is_planted(Bug::RemovedVersionNotReleased) && delete.version.is_some()) {
        let released = removed.object().map(|object| object.set);
        move_reference(now, grace, reads, writes, None, released)?;
    }
    let is_marker = removed.object().is_none();
    Ok(RemovalOutcome { existed: true, version: delete.version, is_marker })
}

/// Replaces the tags of an object, or of a version. Result: the name of the version if the bucket keeps versions.
pub fn change_tags(
    bucket: String,
    name: Vec<u8>,
    version: Option<VersionName>,
    tags: Pairs,
) -> impl Procedure<Output = Option<VersionName>> + Send {
    OptimisticTransaction::new(move |_, reads: &mut Reads, writes: &mut Writes| {
        let named = key_of_named(&bucket, &name, version);
        reads.require([keys::bucket(&bucket), keys::object(&bucket, &name)].into_iter().chain(named))?;
        let record = bucket_for_read(reads, &bucket)?;
        let mut object = read_object(reads, &bucket, &name, version)?;
        object.tags.clone_from(&tags);
        let mut stack = VersionStack::read(reads, &bucket, &name)?;
        let changed = StoredVersion::Object(object);
        let shown = changed.links().name();
        stack.replace(changed);
        stack.write(writes);
        Ok((versioning_of(&bucket, &record)? != Versioning::Absent).then_some(shown))
    })
}
