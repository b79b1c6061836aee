//! The versions of one object, as a list that each version links in both directions.
//!
//! The current version is at the key of the object, older ones at keys of their own. A name has a current version as long as it has
//! any: so a bucket without current versions is empty, and the version of that one record guards the others.

use std::collections::BTreeMap;

use crate::error::ObjectError;
use crate::ids::SetId;
use crate::keys::{self, RecordKey};
use crate::optimistic::{Pause, Reads, Writes};
use crate::planted::{Bug, is_planted};
use crate::records::{
    BucketRecord, ObjectRecord, StoredVersion, VersionId, VersionLinks, VersionName, Versioning,
};

/// The versions of an object, as far as a transaction reads and changes them.
pub(crate) struct VersionStack<'a> {
    bucket: &'a str,
    name: &'a [u8],
    current: Option<StoredVersion>,
    /// Older versions that are written or, without a record, removed.
    changed: BTreeMap<VersionId, Option<StoredVersion>>,
}

/// Whether a bucket keeps versions.
pub(crate) fn versioning_of(name: &str, bucket: &BucketRecord) -> Result<Versioning, Pause> {
    Ok(bucket.versioning().ok_or_else(|| ObjectError::Corrupt(keys::bucket(name)))?)
}

/// The key that a reader of a version needs beside that of the object.
pub(crate) fn key_of_named(
    bucket: &str,
    name: &[u8],
    version: Option<VersionName>,
) -> impl Iterator<Item = RecordKey> {
    match version {
        Some(VersionName::Id(id)) => Some(keys::version(bucket, name, id)),
        None | Some(VersionName::Null) => None,
    }
    .into_iter()
}

fn set_of(version: &StoredVersion) -> Option<SetId> {
    version.object().map(|object| object.set)
}

impl<'a> VersionStack<'a> {
    /// Reads the current version.
    pub(crate) fn read(reads: &mut Reads, bucket: &'a str, name: &'a [u8]) -> Result<Self, Pause> {
        let current = reads.get(&keys::object(bucket, name))?;
        Ok(Self { bucket, name, current, changed: BTreeMap::new() })
    }

    /// The current version, unless it is a delete marker.
    pub(crate) fn object(&self) -> Option<&ObjectRecord> {
        self.current.as_ref().and_then(StoredVersion::object)
    }

    /// The current version.
    pub(crate) const fn current(&self) -> Option<&StoredVersion> {
        self.current.as_ref()
    }

    /// The version that has this name.
    pub(crate) fn find(
        &self,
        reads: &mut Reads,
        version: VersionName,
    ) -> Result<Option<StoredVersion>, Pause> {
        let Some(current) = &self.current else { return Ok(None) };
        let links = current.links();
        if links.name() == version {
            return Ok(Some(current.clone()));
        }
        let id = match version {
            VersionName::Null => links.null,
            VersionName::Id(id) => Some(id),
        };
        let Some(id) = id else { return Ok(None) };
        let found: Option<StoredVersion> = reads.get(&keys::version(self.bucket, self.name, id))?;
        Ok(found.filter(|found| found.links().name() == version))
    }

    /// Makes `version` the current one, with its links. Result: the set of the version that it replaces for good.
    pub(crate) fn push(
        &mut self,
        now: u64,
        reads: &mut Reads,
        versioning: Versioning,
        draw: [u8; 8],
        mut version: StoredVersion,
    ) -> Result<Option<SetId>, Pause> {
        let below = self.current.as_ref().map(StoredVersion::links);
        let has_links = self
            .current
            .as_ref()
            .is_some_and(|current| current.object().is_none_or(|object| object.version.is_some()));
        if versioning == Versioning::Absent && !has_links {
            return Ok(self.current.replace(version).as_ref().and_then(set_of));
        }
        let is_null = versioning != Versioning::Enabled;
        let mut released = None;
        if let Some(below) = below.filter(|_| is_null && !is_planted(Bug::NullVersionStays)) {
            if below.is_null {
                // It takes the place of the version `null`, so that the links of its neighbours stay.
                version.set_links(below);
                return Ok(self.current.replace(version).as_ref().and_then(set_of));
            }
            if let Some(null) = below.null {
                released = set_of(&self.unlink(reads, null)?);
            }
        }
        let time = below.map_or(now, |below| now.max(below.id.time().saturating_add(1)));
        let mut links = VersionLinks { is_null, ..VersionLinks::alone(time, draw) };
        if let Some(mut replaced) = self.current.take() {
            let mut below = replaced.links();
            links.older = Some(below.id);
            links.null = if below.is_null { Some(below.id) } else { below.null };
            below.newer = Some(links.id);
            below.null = None;
            replaced.set_links(below);
            self.changed.insert(below.id, Some(replaced));
        }
        version.set_links(links);
        self.current = Some(version);
        Ok(released)
    }

    /// Removes a version for good. If it was the current one, the next older one becomes current.
    pub(crate) fn remove(
        &mut self,
        reads: &mut Reads,
        version: VersionName,
    ) -> Result<Option<StoredVersion>, Pause> {
        let Some(found) = self.find(reads, version)? else { return Ok(None) };
        let Some(current) = self.current.as_ref().map(StoredVersion::links) else { return Ok(None) };
        if current.name() != version {
            return self.unlink(reads, found.links().id).map(Some);
        }
        self.current = None;
        if let Some(older) = current.older {
            let mut promoted = self.older(reads, older)?;
            let null = current.null.filter(|null| *null != older);
            promoted.set_links(VersionLinks { newer: None, null, ..promoted.links() });
            if !is_planted(Bug::PromotedVersionStays) {
                self.changed.insert(older, None);
            }
            self.current = Some(promoted);
        }
        Ok(Some(found))
    }

    /// Takes an older version out of the list.
    fn unlink(&mut self, reads: &mut Reads, id: VersionId) -> Result<StoredVersion, Pause> {
        let corrupt = ObjectError::Corrupt(keys::version(self.bucket, self.name, id));
        let removed = self.older(reads, id)?;
        let links = removed.links();
        let (Some(newer), Some(current)) = (links.newer, self.current.as_mut()) else {
            return Err(corrupt.into());
        };
        let mut top = current.links();
        if top.null == Some(id) {
            top.null = None;
        }
        let is_below_current = top.id == newer;
        if is_below_current {
            top.older = links.older;
        }
        current.set_links(top);
        if !is_below_current {
            let mut above = self.older(reads, newer)?;
            above.set_links(VersionLinks { older: links.older, ..above.links() });
            self.changed.insert(newer, Some(above));
        }
        if let Some(older) = links.older {
            let mut below = self.older(reads, older)?;
            below.set_links(VersionLinks { newer: links.newer, ..below.links() });
            self.changed.insert(older, Some(below));
        }
        self.changed.insert(id, None);
        Ok(removed)
    }

    /// An older version, which a link names.
    fn older(&self, reads: &mut Reads, id: VersionId) -> Result<StoredVersion, Pause> {
        let key = keys::version(self.bucket, self.name, id);
        match self.changed.get(&id) {
            Some(Some(version)) => Ok(version.clone()),
            Some(None) => Err(ObjectError::Corrupt(key).into()),
            None => reads.get(&key)?.ok_or_else(|| ObjectError::Corrupt(key).into()),
        }
    }

    /// Replaces a version by one with the same place.
    pub(crate) fn replace(&mut self, version: StoredVersion) {
        let id = version.links().id;
        if self.current.as_ref().is_some_and(|current| current.links().id == id) {
            self.current = Some(version);
        } else {
            self.changed.insert(id, Some(version));
        }
    }

    /// Adds the writes of all changes.
    pub(crate) fn write(self, writes: &mut Writes) {
        let key = keys::object(self.bucket, self.name);
        match &self.current {
            Some(current) => writes.put(key, current),
            None => writes.remove(key),
        }
        for (id, version) in self.changed {
            let key = keys::version(self.bucket, self.name, id);
            match version {
                Some(version) => writes.put(key, &version),
                None => writes.remove(key),
            }
        }
    }
}
