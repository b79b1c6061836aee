//! Listings of versions.
//!
//! A scan finds the current versions of names; each of them links its next older one. Another scan finds the older versions of
//! these names. If a version was removed between the two, the links do not fit, and the listing begins the name again.

use std::collections::VecDeque;

use zerohop_layer_procedure::NO_BYTE_LIMIT;

use crate::bucket::SCAN_PAGE;
use crate::error::ObjectError;
use crate::keys::{self, RecordKey};
use crate::list::ListRequest;
use crate::planted::{Bug, is_planted};
use crate::procedure::{BodyDeletion, Effect, Event, Step};
use crate::records::{BucketRecord, Record, StoredVersion, VersionId, VersionName};

/// How often a listing begins a name again.
const RESTARTS_MAX: u32 = 64;

/// An entry of a listing of versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VersionEntry {
    /// A version.
    Version {
        /// The name of the object.
        name: Vec<u8>,
        /// It is the current version.
        is_latest: bool,
        /// The version.
        version: Box<StoredVersion>,
    },
    /// A common prefix.
    Prefix(Vec<u8>),
}

impl VersionEntry {
    /// The name or the common prefix.
    #[must_use]
    pub fn name(&self) -> &[u8] {
        match self {
            Self::Version { name, .. } | Self::Prefix(name) => name,
        }
    }
}

/// A page of a listing of versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionPage {
    /// The entries in the byte order of names and prefixes, those of a name from the newest on.
    pub entries: Vec<VersionEntry>,
    /// There are more: the next page is that behind the last entry.
    pub is_truncated: bool,
}

/// What the scan of current versions finds.
enum NameEntry {
    Prefix(Vec<u8>),
    Name(Vec<u8>, StoredVersion),
}

/// The older versions of one name.
struct OpenName {
    name: Vec<u8>,
    current: VersionId,
    /// The versions up to this place are on the page before.
    behind: Option<VersionId>,
    /// The entries before those of the name.
    entries_before: usize,
    expected: ExpectedVersion,
}

/// The older version that the scan finds next.
enum ExpectedVersion {
    /// The one with this place, or none.
    Link(Option<VersionId>),
    /// The first one behind the place where the page begins.
    Unknown,
}

enum VersionScan {
    Idle,
    FindingBucket,
    /// Current versions.
    Names,
    /// Older versions of the names up to this one.
    Older(Vec<u8>),
}

/// A listing of the versions of a bucket.
pub struct ListVersions {
    request: ListRequest,
    after_version: Option<VersionName>,
    entries: Vec<VersionEntry>,
    found: VecDeque<NameEntry>,
    open: Option<OpenName>,
    /// Where the scan of names continues.
    next: Option<RecordKey>,
    /// The scan of older versions begins at the first one of the name, not where the page begins.
    reads_from_first: bool,
    restarts: u32,
    state: VersionScan,
}

impl ListVersions {
    /// Lists versions. With `after_version`, those of the name `after` that are older than this version come first.
    #[must_use]
    pub const fn new(request: ListRequest, after_version: Option<VersionName>) -> Self {
        Self {
            request,
            after_version,
            entries: Vec::new(),
            found: VecDeque::new(),
            open: None,
            next: None,
            reads_from_first: false,
            restarts: 0,
            state: VersionScan::Idle,
        }
    }

    fn limit(&self) -> usize {
        (self.request.max + 1).saturating_sub(self.entries.len()).clamp(2, SCAN_PAGE)
    }

    fn is_full(&self) -> bool {
        self.entries.len() > self.request.max
    }

    fn end(&mut self) -> Step<VersionPage> {
        let is_truncated = self.is_full();
        self.entries.truncate(self.request.max);
        Step::Done(Ok(VersionPage { entries: std::mem::take(&mut self.entries), is_truncated }))
    }

    /// The key where the scan of names begins.
    fn first(&self) -> RecordKey {
        let key = |name: &[u8]| keys::object(&self.request.bucket, name);
        let prefix = key(&self.request.prefix);
        let Some(after) = &self.request.after else { return prefix };
        let behind = if self.request.common_prefix(after) == Some(&after[..]) {
            keys::end_of(&key(after))
        } else if self.after_version.is_some() {
            key(after)
        } else {
            keys::after(&key(after))
        };
        behind.max(prefix)
    }

    fn scan_names(&mut self, from: RecordKey) -> Step<VersionPage> {
        let to = keys::end_of(&keys::object(&self.request.bucket, &self.request.prefix));
        if from >= to {
            return self.end();
        }
        self.state = VersionScan::Names;
        Step::Effect(Effect::Scan { from, to, limit: self.limit(), bytes: NO_BYTE_LIMIT })
    }

    fn names(&mut self, entries: Vec<(RecordKey, Vec<u8>)>, next: Option<RecordKey>) -> Step<VersionPage> {
        let mut jump: Option<RecordKey> = None;
        for (key, value) in entries {
            if jump.as_ref().is_some_and(|jump| key < *jump) {
                continue;
            }
            let name = key.get(self.request.bucket.len() + 2..).map(<[u8]>::to_vec);
            let (Some(name), Some(current)) = (name, StoredVersion::decode(&value)) else {
                return Step::fail(ObjectError::Corrupt(key));
            };
            if let Some(prefix) = self.request.common_prefix(&name) {
                jump = Some(keys::end_of(&keys::object(&self.request.bucket, prefix)));
                self.found.push_back(NameEntry::Prefix(prefix.to_vec()));
            } else {
                self.found.push_back(NameEntry::Name(name, current));
            }
        }
        self.next = next.map(|next| jump.map_or_else(|| next.clone(), |jump| jump.max(next.clone())));
        self.advance()
    }

    /// Shows what was found, up to names that have older versions.
    fn advance(&mut self) -> Step<VersionPage> {
        loop {
            if self.is_full() {
                return self.end();
            }
            match self.found.front() {
                None => {
                    return match self.next.take() {
                        None => self.end(),
                        Some(next) => self.scan_names(next),
                    };
                }
                Some(NameEntry::Prefix(prefix)) => {
                    self.entries.push(VersionEntry::Prefix(prefix.clone()));
                    self.found.pop_front();
                }
                Some(NameEntry::Name(_, current)) => {
                    if current.links().older.is_some() {
                        let from = self.open_next();
                        let names = self.found.iter().map_while(|found| match found {
                            NameEntry::Name(name, _) => Some(name),
                            NameEntry::Prefix(_) => None,
                        });
                        let own = self.open.as_ref().map(|open| &open.name);
                        let last = names.last().or(own).cloned().unwrap_or_default();
                        return self.scan_older(from, last);
                    }
                    self.open_next();
                    self.open = None;
                }
            }
        }
    }

    /// Shows the current version of the next name. Result: the key where its older versions begin.
    fn open_next(&mut self) -> RecordKey {
        let Some(NameEntry::Name(name, current)) = self.found.pop_front() else { return RecordKey::new() };
        let links = current.links();
        let behind = match self.after_version {
            Some(version) if self.request.after.as_ref() == Some(&name) => match version {
                VersionName::Id(id) => Some(id),
                VersionName::Null if links.is_null => Some(links.id),
                VersionName::Null => links.null,
            },
            _ => None,
        };
        let entries_before = self.entries.len();
        if behind.is_none_or(|behind| links.id > behind) {
            let (name, is_latest) = (name.clone(), true);
            self.entries.push(VersionEntry::Version { name, is_latest, version: Box::new(current) });
        }
        let mut from = keys::versions_of(&self.request.bucket, &name);
        let mut expected = ExpectedVersion::Link(links.older);
        if let Some(behind) = behind.filter(|behind| *behind > links.id && !self.reads_from_first) {
            from = keys::version(&self.request.bucket, &name, behind);
            expected = ExpectedVersion::Unknown;
        }
        self.open = Some(OpenName { name, current: links.id, behind, entries_before, expected });
        from
    }

    /// Scans the older versions from a key on, up to those of the name `last`.
    fn scan_older(&mut self, from: RecordKey, last: Vec<u8>) -> Step<VersionPage> {
        let to = keys::end_of(&keys::versions_of(&self.request.bucket, &last));
        self.state = VersionScan::Older(last);
        Step::Effect(Effect::Scan { from, to, limit: self.limit(), bytes: NO_BYTE_LIMIT })
    }

    /// Ends the open name. Result: whether all of its versions were found.
    fn close(&mut self) -> bool {
        match &self.open {
            Some(OpenName {
                expected: ExpectedVersion::Link(Some(_)) | ExpectedVersion::Unknown, ..
            }) if !is_planted(Bug::BrokenListOfVersionsShown) => false,
            _ => {
                self.open = None;
                true
            }
        }
    }

    fn restart(&mut self) -> Step<VersionPage> {
        let Some(open) = self.open.take() else { return self.end() };
        self.restarts += 1;
        if self.restarts > RESTARTS_MAX {
            return Step::fail(ObjectError::Busy);
        }
        self.entries.truncate(open.entries_before);
        self.found.clear();
        self.reads_from_first = true;
        self.scan_names(keys::object(&self.request.bucket, &open.name))
    }

    fn older(
        &mut self,
        last: Vec<u8>,
        entries: Vec<(RecordKey, Vec<u8>)>,
        next: Option<RecordKey>,
    ) -> Step<VersionPage> {
        for (key, value) in entries {
            let place = keys::version_of(&self.request.bucket, &key);
            let (Some((name, id)), Some(version)) = (place, StoredVersion::decode(&value)) else {
                return Step::fail(ObjectError::Corrupt(key));
            };
            // The names before that of the version have no more of them.
            while self.open.as_ref().is_none_or(|open| open.name < name) {
                if !self.close() {
                    return self.restart();
                }
                match self.found.front() {
                    Some(NameEntry::Name(found, _)) if *found <= name => drop(self.open_next()),
                    _ => break,
                }
                if self.is_full() {
                    return self.end();
                }
            }
            // A name that is not open, and a version above the current one, are younger than the scan of names.
            let Some(open) = self.open.as_mut().filter(|open| open.name == name && id > open.current) else {
                continue;
            };
            let links = version.links();
            let is_next = match open.expected {
                ExpectedVersion::Link(expected) => expected == Some(id),
                ExpectedVersion::Unknown => {
                    open.behind == Some(id) || links.newer.is_some_and(|newer| open.behind >= Some(newer))
                }
            };
            if !is_next && !is_planted(Bug::BrokenListOfVersionsShown) {
                return self.restart();
            }
            open.expected = ExpectedVersion::Link(links.older);
            if open.behind.is_none_or(|behind| id > behind) {
                self.entries.push(VersionEntry::Version {
                    name,
                    is_latest: false,
                    version: Box::new(version),
                });
            }
            if self.is_full() {
                return self.end();
            }
        }
        if let Some(next) = next {
            return self.scan_older(next, last);
        }
        loop {
            if !self.close() {
                return self.restart();
            }
            match self.found.front() {
                Some(NameEntry::Name(name, _)) if *name <= last => drop(self.open_next()),
                _ => return self.advance(),
            }
            if self.is_full() {
                return self.end();
            }
        }
    }
}

impl zerohop_layer_procedure::Procedure<ObjectError, BodyDeletion> for ListVersions {
    type Output = VersionPage;

    fn step(&mut self, _: u64, event: Event) -> Step<VersionPage> {
        match (std::mem::replace(&mut self.state, VersionScan::Idle), event) {
            (VersionScan::Idle, Event::Start) => {
                self.state = VersionScan::FindingBucket;
                Step::Effect(Effect::Read(vec![keys::bucket(&self.request.bucket)]))
            }
            (VersionScan::FindingBucket, Event::Values(values)) => match values.first() {
                Some(Some(bucket)) if BucketRecord::decode(&bucket.value).is_some() => {
                    if self.request.max == 0 {
                        return self.end();
                    }
                    self.scan_names(self.first())
                }
                Some(None) => Step::fail(ObjectError::NoSuchBucket),
                _ => Step::fail(ObjectError::Corrupt(keys::bucket(&self.request.bucket))),
            },
            (VersionScan::Names, Event::Page { entries, next }) => self.names(entries, next),
            (VersionScan::Older(last), Event::Page { entries, next }) => self.older(last, entries, next),
            (_, event) => Step::unexpected(&event),
        }
    }
}
