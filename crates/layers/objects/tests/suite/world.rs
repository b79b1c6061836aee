//! The simulated store and the model that each of its changes is compared with.

use std::collections::{BTreeMap, BTreeSet};

use zerohop_objects::keys::RecordKey;
use zerohop_objects::{
    BodyDeletion, BodyId, BodyRecord, BucketRecord, Conditions, Effect, Event, LifecycleRules, Manifest,
    ObjectError, PartRecord, Record, SetId, SetRecord, StoredVersion, UploadRecord, Version, VersionName,
    VersionedRecord, WHOLE_OBJECT, Write,
};

use crate::rule_model::{may_abort, may_go};
use crate::versions::{ModelVersion, VersionModel};

/// A version of an object in the model: from which moment on, and what it is.
pub(crate) struct Change {
    pub(crate) moment: u64,
    pub(crate) state: Option<(String, Vec<u8>)>,
}

/// What a transaction of an operation makes of an object.
#[derive(Clone)]
pub(crate) enum Intent {
    /// The operation changes no object.
    None,
    /// A put of these bytes.
    Put(Vec<u8>),
    /// A delete.
    Delete,
    /// New tags of an object or a version.
    Tags,
    /// A removal of a version.
    DeleteVersion(VersionName),
    /// What the rules of the bucket let expire.
    Rules,
    /// A copy of the object of this key, or of a version of it.
    Copy(RecordKey, Option<VersionName>),
    /// A completion of these parts.
    Complete(SetId, Vec<u16>),
    /// A put of a part.
    Part(Vec<u8>),
    /// A copy of a range of the object of this key.
    PartCopy(RecordKey, usize, usize),
}

/// The store.
#[derive(Default)]
pub(crate) struct World {
    pub(crate) now: u64,
    pub(crate) moment: u64,
    version: u64,
    pub(crate) records: BTreeMap<RecordKey, (u64, Vec<u8>)>,
    pub(crate) blobs: BTreeMap<BodyId, Vec<u8>>,
    /// The changes of each object.
    pub(crate) history: BTreeMap<RecordKey, Vec<Change>>,
    /// The versions of each object.
    pub(crate) versions: BTreeMap<RecordKey, VersionModel>,
    /// The bytes of each part.
    parts: BTreeMap<RecordKey, Vec<u8>>,
}

impl World {
    /// The state of an object in the model.
    pub(crate) fn current(&self, key: &[u8]) -> Option<&(String, Vec<u8>)> {
        self.history.get(key)?.last()?.state.as_ref()
    }

    /// Whether the object had a state that `is_right` accepts at a moment from `since` on.
    pub(crate) fn was(
        &self,
        key: &[u8],
        since: u64,
        is_right: impl Fn(Option<&(String, Vec<u8>)>) -> bool,
    ) -> bool {
        let changes = self.history.get(key).map_or(&[][..], Vec::as_slice);
        let before = changes.iter().rev().find(|change| change.moment <= since);
        if is_right(before.and_then(|change| change.state.as_ref())) {
            return true;
        }
        changes.iter().any(|change| change.moment > since && is_right(change.state.as_ref()))
    }

    /// Carries out an effect. The error is a violation.
    pub(crate) fn perform(
        &mut self,
        effect: &Effect,
        intent: &Intent,
        conditions: &Conditions,
    ) -> Result<Event, String> {
        self.moment += 1;
        Ok(match effect {
            Effect::Read(keys) => Event::Values(keys.iter().map(|key| self.read(key)).collect()),
            Effect::Scan { from, to, limit, .. } => {
                let mut entries: Vec<_> = self
                    .records
                    .range(from.clone()..to.clone().max(from.clone()))
                    .take(limit + 1)
                    .map(|(key, (_, value))| (key.clone(), value.clone()))
                    .collect();
                let next = if entries.len() > *limit { entries.pop().map(|(key, _)| key) } else { None };
                Event::Page { entries, next }
            }
            Effect::Transact { conditions: versions, writes, .. } => {
                let stands = |(key, version): &(RecordKey, Option<Version>)| {
                    self.read(key).map(|read| read.version) == *version
                };
                if !versions.iter().all(stands) {
                    return Ok(Event::Conflict);
                }
                self.commit(writes, intent, conditions)?;
                Event::Committed
            }
            Effect::Own(BodyDeletion(body)) => {
                if self.reachable()?.contains(body) {
                    return Err(format!("{body:?} is deleted, but an object or an upload names it"));
                }
                self.blobs.remove(body);
                Event::OwnDone
            }
        })
    }

    fn read(&self, key: &[u8]) -> Option<VersionedRecord> {
        let (version, value) = self.records.get(key)?;
        Some(VersionedRecord { version: Version(*version), value: value.clone() })
    }

    fn commit(&mut self, writes: &[Write], intent: &Intent, conditions: &Conditions) -> Result<(), String> {
        let intent = &match intent {
            Intent::Rules => self.intent_of_rules(writes)?,
            other => other.clone(),
        };
        let mut written: BTreeSet<RecordKey> = BTreeSet::new();
        for write in writes {
            match (&write.value, write.key[0]) {
                (_, b'o') => drop(written.insert(write.key.clone())),
                (_, b'v') => drop(written.insert([&b"o"[..], &write.key[1..write.key.len() - 17]].concat())),
                (Some(_), b'p') => {
                    let bytes = match intent {
                        Intent::Part(bytes) => bytes.clone(),
                        Intent::PartCopy(source, from, to) => self
                            .current(source)
                            .and_then(|(_, bytes)| bytes.get(*from..*to))
                            .ok_or("a part is copied from what is not there")?
                            .to_vec(),
                        _ => return Err("a part is written by another operation".to_owned()),
                    };
                    self.parts.insert(write.key.clone(), bytes);
                }
                (None, b'b') => {
                    for letter in [&b"o"[..], b"v"] {
                        let objects = [letter, &write.key[1..], &[0]].concat();
                        let first = self.records.range(objects.clone()..).next();
                        if first.is_some_and(|(key, _)| key.starts_with(&objects)) {
                            return Err("a bucket with an object is removed".to_owned());
                        }
                    }
                }
                _ => {}
            }
        }
        let mut changes = Vec::new();
        for key in written {
            let contents = self.written_contents(&key, intent, conditions)?;
            changes.push((key, contents));
        }
        for write in writes {
            self.version += 1;
            match &write.value {
                Some(value) => self.records.insert(write.key.clone(), (self.version, value.clone())),
                None => self.records.remove(&write.key),
            };
        }
        changes.into_iter().try_for_each(|(key, contents)| self.versions_written(&key, intent, contents))
    }

    fn bucket_of(&self, key: &[u8]) -> Result<BucketRecord, String> {
        let bucket = key[1..].split(|byte| *byte == 0).next().unwrap_or_default();
        let record = self.records.get(&[b"b", bucket].concat());
        let record = record.and_then(|(_, value)| BucketRecord::decode(value));
        record.ok_or_else(|| "an object is put into a bucket that is gone".to_owned())
    }

    /// The bytes that a commit puts, as the model has them before it.
    fn written_contents(
        &self,
        key: &RecordKey,
        intent: &Intent,
        conditions: &Conditions,
    ) -> Result<Option<Vec<u8>>, String> {
        self.bucket_of(key)?;
        let standing = self.records.get(key).and_then(|(_, value)| StoredVersion::decode(value));
        if let Err(error) = conditions.check(standing.as_ref().and_then(StoredVersion::object)) {
            return Err(format!("a write whose condition fails ({error}) commits"));
        }
        Ok(Some(match intent {
            Intent::Put(bytes) => bytes.clone(),
            Intent::Copy(source, None) => self.current(source).ok_or("a copy of nothing")?.1.clone(),
            Intent::Copy(source, Some(version)) => {
                let versions = self.versions.get(source).ok_or("a copy of no version")?;
                let state = versions.living(*version).and_then(|version| version.state.as_ref());
                state.ok_or("a copy of a version that is not there")?.1.clone()
            }
            Intent::Complete(id, numbers) => {
                let parts =
                    numbers.iter().map(|number| self.parts.get(&zerohop_objects::keys::part(*id, *number)));
                let parts = parts.collect::<Option<Vec<_>>>().ok_or("a completion of a missing part")?;
                parts.into_iter().flatten().copied().collect()
            }
            Intent::Delete | Intent::DeleteVersion(_) | Intent::Tags => return Ok(None),
            _ => return Err("an object is written by another operation".to_owned()),
        }))
    }

    /// The versions of an object, the current one first.
    pub(crate) fn stored(&self, key: &[u8]) -> Result<Vec<StoredVersion>, String> {
        let older = [&b"v"[..], &key[1..], &[0]].concat();
        let current = self.records.get(key).map(|(_, value)| value);
        let older = self.records.range(older.clone()..zerohop_objects::keys::end_of(&older));
        let values = current.into_iter().chain(older.map(|(_, (_, value))| value));
        values.map(|value| StoredVersion::decode(value).ok_or("a version has no record".to_owned())).collect()
    }

    /// The rules of the bucket of an object or an upload.
    pub(crate) fn rules_of(&self, key: &[u8]) -> Result<LifecycleRules, String> {
        LifecycleRules::of(&self.bucket_of(key)?).ok_or_else(|| "a bucket has strange rules".to_owned())
    }

    /// Checks that the rules of the bucket let go what the writes remove. Result: the intention of such a removal.
    fn intent_of_rules(&self, writes: &[Write]) -> Result<Intent, String> {
        // A commit that only confirms what was read.
        if writes.is_empty() {
            return Ok(Intent::None);
        }
        let changed = writes.iter().find(|write| b"ouv".contains(&write.key[0]));
        let changed = changed.ok_or("rules change no object")?;
        let (rules, letter) = (self.rules_of(&changed.key)?, changed.key[0]);
        if letter == b'u' {
            let bucket = changed.key[1..].iter().take_while(|byte| **byte != 0).copied().collect();
            let bucket = String::from_utf8(bucket).map_err(|error| error.to_string())?;
            let (name, _) =
                zerohop_objects::keys::upload_of(&bucket, &changed.key).ok_or("a key of no upload")?;
            let upload = self.records.get(&changed.key).and_then(|(_, value)| UploadRecord::decode(value));
            let upload = upload.ok_or("an upload is aborted that is not there")?;
            return match may_abort(&rules, self.now, &name, &upload) {
                true => Ok(Intent::None),
                false => Err("an upload is aborted whose time is not over".to_owned()),
            };
        }
        let end = if letter == b'v' { changed.key.len() - 17 } else { changed.key.len() };
        let key = [&b"o"[..], &changed.key[1..end]].concat();
        let name = key[1..].splitn(2, |byte| *byte == 0).nth(1).unwrap_or_default();
        let stored = self.stored(&key)?;
        let written = |key: &[u8]| writes.iter().find(|write| write.key == key).map(|write| &write.value);
        let current = match written(&key) {
            Some(value) => value.as_ref().and_then(|value| StoredVersion::decode(value)),
            None => stored.first().cloned(),
        };
        let is_hidden = current.as_ref().is_some_and(|current| current.object().is_none())
            && stored.first().is_some_and(|before| before.object().is_some());
        let is_left = |version: &StoredVersion| {
            let id = version.links().id;
            current.as_ref().is_some_and(|current| current.links().id == id)
                || written(&[&b"v"[..], &key[1..], &[0], &id.0].concat()).is_none_or(Option::is_some)
        };
        // A current version has no record among the older ones.
        let is_promoted =
            current.as_ref().map(|one| one.links().id) != stored.first().map(|one| one.links().id);
        let gone: Vec<usize> = (0..stored.len())
            .filter(|place| !is_left(&stored[*place]) || (*place == 0 && is_promoted && !is_hidden))
            .collect();
        let place = match (is_hidden, &gone[..]) {
            (true, _) => 0,
            (false, [place]) => *place,
            _ => return Err(format!("rules remove {gone:?} of {stored:?}")),
        };
        if !may_go(&rules, self.now, name, &stored, place) {
            return Err(format!("rules remove {place} of {stored:?}"));
        }
        Ok(if is_hidden { Intent::Delete } else { Intent::DeleteVersion(stored[place].links().name()) })
    }

    /// Changes the versions of the model and compares them with the records.
    fn versions_written(
        &mut self,
        key: &RecordKey,
        intent: &Intent,
        contents: Option<Vec<u8>>,
    ) -> Result<(), String> {
        let versioning = self.bucket_of(key)?.versioning().ok_or("a bucket has a strange setting")?;
        let stored = self.stored(key)?;
        let model = self.versions.entry(key.clone()).or_default();
        if let Intent::DeleteVersion(version) = intent {
            model.remove(self.moment, *version)?;
        } else if !matches!(intent, Intent::Tags) {
            let top = stored
                .first()
                .filter(|_| contents.is_some() || versioning != zerohop_objects::Versioning::Absent);
            let written = match (top, contents) {
                (None, None) => None,
                (None, Some(_)) => return Err("an object is put and not there".to_owned()),
                (Some(top), contents) => {
                    let tag = top.object().map(|object| (object.etag.to_string(), object.size));
                    let state = match (tag, contents) {
                        (Some((tag, size)), Some(bytes)) if size == bytes.len() as u64 => Some((tag, bytes)),
                        (None, None) => None,
                        other => return Err(format!("the record of a write differs from it: {other:?}")),
                    };
                    let links = top.links();
                    Some(ModelVersion { links, state, from: self.moment, until: None })
                }
            };
            model.write(self.moment, versioning, written)?;
        }
        let state = model.compare(&stored)?;
        self.history.entry(key.clone()).or_default().push(Change { moment: self.moment, state });
        Ok(())
    }

    fn decoded<R: Record>(&self, letter: u8) -> Result<Vec<(RecordKey, R)>, String> {
        let records = self.records.range(vec![letter]..vec![letter + 1]);
        records
            .map(|(key, (_, value))| Some((key.clone(), R::decode(value)?)))
            .collect::<Option<_>>()
            .ok_or_else(|| format!("a record of {} is corrupt", char::from(letter)))
    }

    /// The set of each version that is no delete marker.
    fn objects(&self) -> Result<Vec<SetId>, String> {
        let mut versions: Vec<(RecordKey, StoredVersion)> = self.decoded(b'o')?;
        versions.extend(self.decoded(b'v')?);
        Ok(versions.iter().filter_map(|(_, version)| Some(version.object()?.set)).collect())
    }

    /// The bodies that objects and uploads name, directly or over copied parts.
    pub(crate) fn reachable(&self) -> Result<BTreeSet<BodyId>, String> {
        let mut sets: Vec<SetId> = self.objects()?.into_iter().collect();
        for (key, _) in self.decoded::<UploadRecord>(b'u')? {
            sets.push(SetId(*key.last_chunk().ok_or("an upload has no id")?));
        }
        let parts: Vec<(RecordKey, PartRecord)> = self.decoded(b'p')?;
        let manifests: BTreeMap<RecordKey, Manifest> = self.decoded(b'l')?.into_iter().collect();
        let mut bodies = BTreeSet::new();
        let mut seen = BTreeSet::new();
        while let Some(set) = sets.pop() {
            if !seen.insert(set) {
                continue;
            }
            match manifests.get(&zerohop_objects::keys::manifest(set)) {
                Some(manifest) => {
                    for part in &manifest.parts {
                        bodies.extend(part.ranges.iter().map(|range| range.body));
                        sets.extend(part.source);
                    }
                }
                None => {
                    bodies.insert(BodyId { set, number: WHOLE_OBJECT });
                    let of_set = parts.iter().filter(|(key, _)| key[1..17] == set.0);
                    for (_, part) in of_set {
                        bodies.extend(part.ranges.iter().map(|range| range.body));
                        sets.extend(part.source);
                    }
                }
            }
        }
        Ok(bodies)
    }

    /// What must hold when no client works and the sweep has nothing left to do.
    pub(crate) fn check_rest(&self) -> Result<(), String> {
        let reachable = self.reachable()?;
        if let Some((body, _)) = self.blobs.iter().find(|(body, _)| !reachable.contains(body)) {
            return Err(format!("{body:?} leaks"));
        }
        let mut expected: BTreeMap<SetId, u64> = BTreeMap::new();
        self.objects()?.into_iter().for_each(|set| *expected.entry(set).or_default() += 1);
        let parts: Vec<(RecordKey, PartRecord)> = self.decoded(b'p')?;
        parts
            .iter()
            .filter_map(|(_, part)| part.source)
            .for_each(|set| *expected.entry(set).or_default() += 1);
        let sets: Vec<(RecordKey, SetRecord)> = self.decoded(b's')?;
        let uploads: Vec<(RecordKey, UploadRecord)> = self.decoded(b'u')?;
        let mut open = 0;
        for (key, set) in sets {
            let id = SetId(*key.last_chunk().ok_or("a set has no id")?);
            match set {
                SetRecord::Live { references, .. } if expected.remove(&id) == Some(references) => {}
                SetRecord::Open => open += 1,
                other => return Err(format!("{id:?} is {other:?}")),
            }
        }
        if open != uploads.len() || !expected.is_empty() {
            return Err(format!("{open} open sets, {} uploads; without a set: {expected:?}", uploads.len()));
        }
        for (key, body) in self.decoded::<BodyRecord>(b'd')? {
            if !matches!(body, BodyRecord::Live { .. }) {
                return Err(format!("the body of {key:?} is {body:?}"));
            }
        }
        self.decoded::<BucketRecord>(b'b')?;
        match self.records.range(vec![b't']..vec![b'u']).next() {
            Some((key, _)) => Err(format!("the timer {key:?} stays")),
            None => Ok(()),
        }
    }

    /// The bytes of a range of a body.
    pub(crate) fn read_body(&self, body: BodyId, offset: u64, length: u64) -> Result<&[u8], ObjectError> {
        let from = usize::try_from(offset).expect("bodies are small");
        let to = from + usize::try_from(length).expect("bodies are small");
        let bytes = self.blobs.get(&body).and_then(|bytes| bytes.get(from..to));
        bytes.ok_or_else(|| ObjectError::Unavailable("no such bytes".to_owned()))
    }
}
