//! Listings of objects, uploads and parts.

use zerohop_layer_procedure::NO_BYTE_LIMIT;

use crate::bucket::SCAN_PAGE;
use crate::error::ObjectError;
use crate::ids::SetId;
use crate::keys::{self, RecordKey};
use crate::planted::{Bug, is_planted};
use crate::procedure::{BodyDeletion, Effect, Event, Step};
use crate::records::{BucketRecord, ObjectRecord, PartRecord, Record, StoredVersion, UploadRecord};

/// What a listing returns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListRequest {
    /// The bucket.
    pub bucket: String,
    /// The names begin with this.
    pub prefix: Vec<u8>,
    /// Names that have this behind the prefix are shown as one common prefix, which ends with it.
    pub delimiter: Option<Vec<u8>>,
    /// Names above this only, and no common prefix that is equal to it.
    pub after: Option<Vec<u8>>,
    /// Of the uploads of the name `after`, those above this id too.
    pub after_id: Option<SetId>,
    /// The most entries.
    pub max: usize,
}

impl ListRequest {
    /// The common prefix of a name.
    pub(crate) fn common_prefix<'a>(&self, name: &'a [u8]) -> Option<&'a [u8]> {
        let delimiter = self.delimiter.as_ref().filter(|delimiter| !delimiter.is_empty())?;
        let rest = name.strip_prefix(&self.prefix[..])?;
        let place = rest.windows(delimiter.len()).position(|window| window == delimiter)?;
        Some(&name[..self.prefix.len() + place + delimiter.len()])
    }
}

/// An entry of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListEntry<R> {
    /// A record, with its name and, of an upload, its id.
    Record(Vec<u8>, Option<SetId>, R),
    /// A common prefix.
    Prefix(Vec<u8>),
}

impl<R> ListEntry<R> {
    /// The name or the common prefix.
    #[must_use]
    pub fn name(&self) -> &[u8] {
        match self {
            Self::Record(name, ..) | Self::Prefix(name) => name,
        }
    }
}

/// A page of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListPage<R> {
    /// The entries, in the byte order of names and prefixes.
    pub entries: Vec<ListEntry<R>>,
    /// There are more: the next page is that behind the last entry.
    pub is_truncated: bool,
}

/// Lists objects.
#[must_use]
pub const fn list_objects(request: ListRequest) -> Listing<ObjectRecord> {
    Listing {
        request,
        entries: Vec::new(),
        state: ListingState::Idle,
        is_sparse: false,
        read: read_current,
        letter: b'o',
    }
}

/// Lists uploads in progress.
#[must_use]
pub const fn list_uploads(request: ListRequest) -> Listing<UploadRecord> {
    Listing {
        request,
        entries: Vec::new(),
        state: ListingState::Idle,
        is_sparse: false,
        read: |bytes| UploadRecord::decode(bytes).map(Some),
        letter: b'u',
    }
}

enum ListingState {
    Idle,
    FindingBucket,
    Scanning,
}

/// A listing of objects or uploads of a bucket.
///
/// Invariant: behind each common prefix the scan jumps over all names that begin with it.
pub struct Listing<R> {
    request: ListRequest,
    entries: Vec<ListEntry<R>>,
    state: ListingState,
    /// The last page of the scan showed nothing, as behind many delete markers.
    is_sparse: bool,
    /// The record of bytes; no record if the listing does not show it.
    read: fn(&[u8]) -> Option<Option<R>>,
    letter: u8,
}

/// The object that a current version is, unless it is a delete marker.
fn read_current(bytes: &[u8]) -> Option<Option<ObjectRecord>> {
    Some(match StoredVersion::decode(bytes)? {
        StoredVersion::Object(object) => Some(object),
        StoredVersion::Marker(_) => None,
    })
}

impl<R> Listing<R> {
    /// The key of the first record of a name.
    fn key(&self, name: &[u8]) -> RecordKey {
        [&[self.letter][..], self.request.bucket.as_bytes(), &[0], name].concat()
    }

    fn name_of(&self, key: &[u8]) -> Option<(Vec<u8>, Option<SetId>)> {
        if self.letter == b'u' {
            return keys::upload_of(&self.request.bucket, key).map(|(name, id)| (name, Some(id)));
        }
        key.get(self.request.bucket.len() + 2..).map(|name| (name.to_vec(), None))
    }

    /// The key where the listing begins.
    fn first(&self) -> RecordKey {
        let prefix = self.key(&self.request.prefix);
        let Some(after) = &self.request.after else { return prefix };
        let behind = if self.request.common_prefix(after) == Some(&after[..]) {
            keys::end_of(&self.key(after))
        } else {
            match (self.letter, self.request.after_id) {
                (b'u', Some(id)) => keys::after(&keys::upload(&self.request.bucket, after, id)),
                // The byte 01 is above the 00 behind the name and below each longer name.
                (b'u', None) => [&self.key(after)[..], &[1]].concat(),
                _ => keys::after(&self.key(after)),
            }
        };
        behind.max(prefix)
    }

    fn scan(&mut self, from: RecordKey) -> Step<ListPage<R>> {
        self.state = ListingState::Scanning;
        let to = keys::end_of(&self.key(&self.request.prefix));
        if from >= to {
            return self.end();
        }
        let limit = (self.request.max + 1 - self.entries.len()).clamp(2, SCAN_PAGE);
        let limit = if self.is_sparse { SCAN_PAGE } else { limit };
        Step::Effect(Effect::Scan { from, to, limit, bytes: NO_BYTE_LIMIT })
    }

    fn end(&mut self) -> Step<ListPage<R>> {
        let is_truncated = self.entries.len() > self.request.max;
        self.entries.truncate(self.request.max);
        Step::Done(Ok(ListPage { entries: std::mem::take(&mut self.entries), is_truncated }))
    }

    fn page(&mut self, entries: Vec<(RecordKey, Vec<u8>)>, next: Option<RecordKey>) -> Step<ListPage<R>> {
        // The end of the last common prefix.
        let mut jump: Option<RecordKey> = None;
        let before = self.entries.len();
        for (key, value) in entries {
            if jump.as_ref().is_some_and(|jump| key < *jump) {
                continue;
            }
            let Some((name, id)) = self.name_of(&key) else { return Step::fail(ObjectError::Corrupt(key)) };
            let Some(record) = (self.read)(&value) else { return Step::fail(ObjectError::Corrupt(key)) };
            let Some(record) = record else { continue };
            if let Some(prefix) = self.request.common_prefix(&name) {
                jump = Some(keys::end_of(&self.key(prefix)));
                self.entries.push(ListEntry::Prefix(prefix.to_vec()));
            } else {
                self.entries.push(ListEntry::Record(name, id, record));
            }
            if self.entries.len() > self.request.max {
                return self.end();
            }
        }
        self.is_sparse = self.entries.len() == before;
        match next {
            None => self.end(),
            Some(next) if is_planted(Bug::ListingSkips) => self.scan(keys::after(&keys::after(&next))),
            Some(next) => self.scan(jump.map_or_else(|| next.clone(), |jump| jump.max(next.clone()))),
        }
    }
}

impl<R> zerohop_layer_procedure::Procedure<ObjectError, BodyDeletion> for Listing<R> {
    type Output = ListPage<R>;

    fn step(&mut self, _: u64, event: Event) -> Step<ListPage<R>> {
        match (std::mem::replace(&mut self.state, ListingState::Idle), event) {
            (ListingState::Idle, Event::Start) => {
                self.state = ListingState::FindingBucket;
                Step::Effect(Effect::Read(vec![keys::bucket(&self.request.bucket)]))
            }
            (ListingState::FindingBucket, Event::Values(values)) => match values.first() {
                Some(Some(bucket)) if BucketRecord::decode(&bucket.value).is_some() => {
                    if self.request.max == 0 {
                        return self.end();
                    }
                    self.scan(self.first())
                }
                Some(None) => Step::fail(ObjectError::NoSuchBucket),
                _ => Step::fail(ObjectError::Corrupt(keys::bucket(&self.request.bucket))),
            },
            (ListingState::Scanning, Event::Page { entries, next }) => self.page(entries, next),
            (_, event) => Step::unexpected(&event),
        }
    }
}

/// Lists the parts of an upload.
pub struct ListParts {
    upload_key: RecordKey,
    id: SetId,
    from: RecordKey,
    max: usize,
    upload: Option<UploadRecord>,
    parts: Vec<PartRecord>,
}

impl ListParts {
    /// The parts with numbers above `after`, at most `max`, of an upload for the object `target` (bucket, name).
    #[must_use]
    pub fn new(target: &(String, Vec<u8>), id: SetId, after: u16, max: usize) -> Self {
        let upload_key = keys::upload(&target.0, &target.1, id);
        let from = keys::after(&keys::part(id, after));
        Self { upload_key, id, from, max, upload: None, parts: Vec::new() }
    }

    fn scan(&self) -> Step<(UploadRecord, Vec<PartRecord>, bool)> {
        let to = keys::end_of(&keys::of_set(b'p', self.id));
        let limit = (self.max + 1 - self.parts.len()).min(SCAN_PAGE);
        Step::Effect(Effect::Scan { from: self.from.clone(), to, limit, bytes: NO_BYTE_LIMIT })
    }
}

impl zerohop_layer_procedure::Procedure<ObjectError, BodyDeletion> for ListParts {
    /// The upload, its parts, and whether there are more.
    type Output = (UploadRecord, Vec<PartRecord>, bool);

    fn step(&mut self, _: u64, event: Event) -> Step<Self::Output> {
        match event {
            Event::Start => Step::Effect(Effect::Read(vec![self.upload_key.clone()])),
            Event::Values(values) => match values.first() {
                Some(Some(record)) => {
                    self.upload = UploadRecord::decode(&record.value);
                    if self.upload.is_none() {
                        return Step::fail(ObjectError::Corrupt(self.upload_key.clone()));
                    }
                    self.scan()
                }
                _ => Step::fail(ObjectError::NoSuchUpload),
            },
            Event::Page { entries, next } => {
                for (key, value) in entries {
                    let Some(part) = PartRecord::decode(&value) else {
                        return Step::fail(ObjectError::Corrupt(key));
                    };
                    self.parts.push(part);
                }
                match (next, self.upload.take()) {
                    (Some(next), upload) if self.parts.len() <= self.max => {
                        self.upload = upload;
                        self.from = next;
                        self.scan()
                    }
                    (_, Some(upload)) => {
                        let has_more = self.parts.len() > self.max;
                        self.parts.truncate(self.max);
                        Step::Done(Ok((upload, std::mem::take(&mut self.parts), has_more)))
                    }
                    _ => Step::fail(ObjectError::NoSuchUpload),
                }
            }
            event => Step::unexpected(&event),
        }
    }
}
