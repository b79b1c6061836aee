//! The versions of objects in the model, and checks of what clients see of them, also in listings.

use std::collections::BTreeMap;

use zerohop_objects::keys::{self, RecordKey};
use zerohop_objects::{
    ListEntry, ListPage, ListRequest, ObjectRecord, StoredVersion, VersionEntry, VersionLinks, VersionName,
    VersionPage, Versioning,
};

use crate::draws::NAMES;
use crate::world::World;

/// A version of an object.
#[derive(Clone, Debug)]
pub(crate) struct ModelVersion {
    pub(crate) links: VersionLinks,
    /// Tag and bytes; nothing of a delete marker.
    pub(crate) state: Option<(String, Vec<u8>)>,
    /// The moment at which it appeared.
    pub(crate) from: u64,
    /// The moment at which it was removed.
    pub(crate) until: Option<u64>,
}

impl ModelVersion {
    /// Whether it was there at a moment from `since` on.
    fn was(&self, since: u64) -> bool {
        self.until.is_none_or(|until| until > since)
    }

    fn was_always(&self, since: u64) -> bool {
        self.from <= since && self.until.is_none()
    }
}

/// All versions that an object has and had, in the order in which they were written.
#[derive(Default)]
pub(crate) struct VersionModel {
    pub(crate) versions: Vec<ModelVersion>,
}

impl VersionModel {
    /// The version of this name that is there.
    pub(crate) fn living(&self, name: VersionName) -> Option<&ModelVersion> {
        self.versions.iter().find(|version| version.until.is_none() && version.links.name() == name)
    }

    /// A removal of a version for good.
    pub(crate) fn remove(&mut self, moment: u64, name: VersionName) -> Result<(), String> {
        let mut versions = self.versions.iter_mut();
        let version = versions.find(|version| version.until.is_none() && version.links.name() == name);
        version.ok_or("a version is removed that is not there")?.until = Some(moment);
        Ok(())
    }

    /// A put or, without a version, a removal.
    pub(crate) fn write(
        &mut self,
        moment: u64,
        versioning: Versioning,
        written: Option<ModelVersion>,
    ) -> Result<(), String> {
        let replaced = self.versions.iter_mut().filter(|version| {
            version.until.is_none()
                && match versioning {
                    Versioning::Absent => true,
                    Versioning::Suspended => version.links.is_null,
                    Versioning::Enabled => false,
                }
        });
        replaced.for_each(|version| version.until = Some(moment));
        let Some(written) = written else { return Ok(()) };
        if written.links.is_null != (versioning != Versioning::Enabled) {
            return Err(format!("a write into a bucket with {versioning:?} is named {written:?}"));
        }
        let has_id = |version: &ModelVersion| version.links.id == written.links.id;
        if !written.links.is_null && self.versions.iter().any(has_id) {
            return Err("the id of a version was used before".to_owned());
        }
        self.versions.push(written);
        Ok(())
    }

    /// Compares the model with the current version and the older ones. Result: the current object.
    pub(crate) fn compare(&self, stored: &[StoredVersion]) -> Result<Option<(String, Vec<u8>)>, String> {
        let living: Vec<_> = self.versions.iter().rev().filter(|version| version.until.is_none()).collect();
        let shown = |version: &StoredVersion| {
            (version.links().name(), version.object().map(|object| object.etag.to_string()))
        };
        let stored_names: Vec<_> = stored.iter().map(shown).collect();
        let expected: Vec<_> = living
            .iter()
            .map(|version| (version.links.name(), version.state.as_ref().map(|(tag, _)| tag.clone())))
            .collect();
        if stored_names != expected {
            return Err(format!("stored are the versions {stored_names:?} in the place of {expected:?}"));
        }
        let links: Vec<VersionLinks> = stored.iter().map(StoredVersion::links).collect();
        for (place, link) in links.iter().enumerate() {
            let neighbours = (
                links.get(place + 1).map(|older| older.id),
                place.checked_sub(1).map(|newer| links[newer].id),
            );
            if (link.older, link.newer) != neighbours {
                return Err(format!("{link:?} links others than {neighbours:?}"));
            }
        }
        let null = links.iter().skip(1).find(|links| links.is_null).map(|links| links.id);
        if links.first().is_some_and(|current| current.null != null) {
            return Err(format!("the version null is {null:?}, not that of {:?}", links.first()));
        }
        Ok(living.first().and_then(|version| version.state.clone()))
    }
}

/// Each name of the page had its state at a moment of the listing, and so had each name that is not there.
pub(crate) fn check_page(
    request: &ListRequest,
    page: &ListPage<ObjectRecord>,
    world: &World,
    since: u64,
) -> Result<(), String> {
    let last = page.entries.last().map(|entry| entry.name().to_vec());
    for name in NAMES.map(str::as_bytes) {
        let key = keys::object(&request.bucket, name);
        let entry = page.entries.iter().find_map(|entry| match entry {
            ListEntry::Record(one, _, object) if one == name => Some(object.etag.to_string()),
            _ => None,
        });
        let in_page = name.starts_with(&request.prefix)
            && request.after.as_ref().is_none_or(|after| name > &after[..])
            && (!page.is_truncated || last.as_ref().is_some_and(|last| name <= &last[..]));
        if entry.is_some() && !in_page {
            return Err("a listing has a name that it should not".to_owned());
        }
        let as_prefix =
            |entry: &ListEntry<_>| matches!(entry, ListEntry::Prefix(one) if name.starts_with(one));
        if !in_page || page.entries.iter().any(as_prefix) {
            continue;
        }
        if !world.was(&key, since, |state| state.map(|(tag, _)| tag) == entry.as_ref()) {
            return Err(format!("a listing shows {:?} as {entry:?}", String::from_utf8_lossy(name)));
        }
    }
    Ok(())
}

/// What a get of a version found: no version, a marker or bytes.
pub(crate) fn check_version(
    model: Option<&VersionModel>,
    name: VersionName,
    since: u64,
    found: Option<Option<&Vec<u8>>>,
) -> Result<(), String> {
    let versions = model.map_or(&[][..], |model| &model.versions[..]);
    let mut named = versions.iter().filter(|version| version.links.name() == name && version.was(since));
    let is_right = match found {
        Some(found) => named.any(|version| version.state.as_ref().map(|(_, bytes)| bytes) == found),
        None => !named.any(|version| version.was_always(since)),
    };
    if is_right { Ok(()) } else { Err(format!("a get of the version {name} finds {found:?}")) }
}

/// Each version of the page was there at a moment of the listing, and each one that was there all the time is on the page.
pub(crate) fn check_versions(
    request: &ListRequest,
    after_version: Option<VersionName>,
    page: &VersionPage,
    models: &BTreeMap<RecordKey, VersionModel>,
    since: u64,
) -> Result<(), String> {
    let last = page.entries.last().filter(|_| page.is_truncated);
    for name in NAMES.map(str::as_bytes) {
        let key = keys::object(&request.bucket, name);
        let empty = VersionModel::default();
        let model = models.get(&key).unwrap_or(&empty);
        let shown: Vec<&StoredVersion> = page
            .entries
            .iter()
            .filter_map(|entry| match entry {
                VersionEntry::Version { name: one, version, .. } if one == name => Some(&**version),
                _ => None,
            })
            .collect();
        for version in &shown {
            let tag = version.object().map(|object| object.etag.to_string());
            let is_same = |one: &ModelVersion| {
                one.was(since)
                    && one.links.name() == version.links().name()
                    && one.state.as_ref().map(|(tag, _)| tag) == tag.as_ref()
            };
            if !model.versions.iter().any(is_same) {
                return Err(format!("a listing shows {version:?}, which is no version"));
            }
        }
        if shown.windows(2).any(|pair| pair[0].links().id >= pair[1].links().id) {
            return Err("a listing shows versions in a wrong order".to_owned());
        }
        let is_begun = request.after.as_ref().is_none_or(|after| name > &after[..]);
        let resumed = (request.after.as_deref() == Some(name)).then_some(after_version).flatten();
        let is_over = last.is_some_and(|last| last.name() < name);
        let in_prefix =
            |entry: &VersionEntry| matches!(entry, VersionEntry::Prefix(one) if name.starts_with(one));
        if !name.starts_with(&request.prefix) || is_over || !(is_begun || resumed.is_some()) {
            if shown.is_empty() {
                continue;
            }
            return Err("a listing has versions of a name that it should not".to_owned());
        }
        // The common prefix may be what the page begins behind.
        if page.entries.iter().any(in_prefix) || is_prefixed(request, name) {
            continue;
        }
        let missed = model.versions.iter().filter(|version| version.was_always(since));
        for version in missed {
            let behind = match resumed {
                Some(VersionName::Id(id)) => version.links.id > id,
                // Which place the name had during the listing is not known.
                Some(VersionName::Null) => false,
                None => true,
            };
            let on_next_page = last.is_some_and(|last| last.name() == name)
                && shown.last().is_none_or(|last| last.links().id < version.links.id);
            if behind && !on_next_page && !shown.iter().any(|one| one.links().id == version.links.id) {
                return Err(format!("a listing misses {version:?} of {:?}", String::from_utf8_lossy(name)));
            }
        }
    }
    Ok(())
}

fn is_prefixed(request: &ListRequest, name: &[u8]) -> bool {
    let rest = name.strip_prefix(&request.prefix[..]).unwrap_or_default();
    request.delimiter.as_ref().is_some_and(|one| rest.windows(one.len()).any(|window| window == one))
}
