//! The simulated store and the model that each of its changes is compared with.

use std::collections::{BTreeMap, BTreeSet};

use zerohop_objects::keys::RecordKey;
use zerohop_objects::{
    BodyId, BodyRecord, BucketRecord, Conditions, Effect, Event, Manifest, ObjectError, ObjectRecord,
    PartRecord, Record, SetId, SetRecord, UploadRecord, Version, VersionedRecord, WHOLE_OBJECT, Write,
};

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
    /// A copy of the object of this key.
    Copy(RecordKey),
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
            Effect::Scan { from, to, limit } => {
                let mut entries: Vec<_> = self
                    .records
                    .range(from.clone()..to.clone().max(from.clone()))
                    .take(limit + 1)
                    .map(|(key, (_, value))| (key.clone(), value.clone()))
                    .collect();
                let next = if entries.len() > *limit { entries.pop().map(|(key, _)| key) } else { None };
                Event::Page { entries, next }
            }
            Effect::Transact { conditions: versions, writes } => {
                let stands = |(key, version): &(RecordKey, Option<Version>)| {
                    self.read(key).map(|read| read.version) == *version
                };
                if !versions.iter().all(stands) {
                    return Ok(Event::Conflict);
                }
                self.commit(writes, intent, conditions)?;
                Event::Committed
            }
            Effect::DeleteBody(body) => {
                if self.reachable()?.contains(body) {
                    return Err(format!("{body:?} is deleted, but an object or an upload names it"));
                }
                self.blobs.remove(body);
                Event::BodyDeleted
            }
        })
    }

    fn read(&self, key: &[u8]) -> Option<VersionedRecord> {
        let (version, value) = self.records.get(key)?;
        Some(VersionedRecord { version: Version(*version), value: value.clone() })
    }

    fn commit(&mut self, writes: &[Write], intent: &Intent, conditions: &Conditions) -> Result<(), String> {
        for write in writes {
            self.version += 1;
            match (&write.value, write.key[0]) {
                (Some(value), b'o') => self.object_written(&write.key, value, intent, conditions)?,
                (None, b'o') => {
                    if !matches!(intent, Intent::Delete) {
                        return Err("an object is removed without a delete".to_owned());
                    }
                    self.change(&write.key, None);
                }
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
                    let objects = [&b"o"[..], &write.key[1..], &[0]].concat();
                    if self
                        .records
                        .range(objects.clone()..)
                        .next()
                        .is_some_and(|(key, _)| key.starts_with(&objects))
                    {
                        return Err("a bucket with an object is removed".to_owned());
                    }
                }
                _ => {}
            }
            match &write.value {
                Some(value) => self.records.insert(write.key.clone(), (self.version, value.clone())),
                None => self.records.remove(&write.key),
            };
        }
        Ok(())
    }

    fn object_written(
        &mut self,
        key: &RecordKey,
        value: &[u8],
        intent: &Intent,
        conditions: &Conditions,
    ) -> Result<(), String> {
        let object = ObjectRecord::decode(value).ok_or("an object has no record")?;
        let bucket = key[1..].split(|byte| *byte == 0).next().unwrap_or_default();
        if !self.records.contains_key(&[b"b", bucket].concat()) {
            return Err("an object is put into a bucket that is gone".to_owned());
        }
        let standing = self.records.get(key).and_then(|(_, value)| ObjectRecord::decode(value));
        if let Err(error) = conditions.check(standing.as_ref()) {
            return Err(format!("a write whose condition fails ({error}) commits"));
        }
        let bytes = match intent {
            Intent::Put(bytes) => bytes.clone(),
            Intent::Copy(source) => self.current(source).ok_or("a copy of nothing")?.1.clone(),
            Intent::Complete(id, numbers) => {
                let parts =
                    numbers.iter().map(|number| self.parts.get(&zerohop_objects::keys::part(*id, *number)));
                parts
                    .collect::<Option<Vec<_>>>()
                    .ok_or("a completion of a missing part")?
                    .into_iter()
                    .flatten()
                    .copied()
                    .collect()
            }
            _ => return Err("an object is written by another operation".to_owned()),
        };
        if object.size != bytes.len() as u64 {
            return Err(format!("an object of {} bytes is recorded with {}", bytes.len(), object.size));
        }
        self.change(key, Some((object.etag.to_string(), bytes)));
        Ok(())
    }

    fn change(&mut self, key: &RecordKey, state: Option<(String, Vec<u8>)>) {
        self.history.entry(key.clone()).or_default().push(Change { moment: self.moment, state });
    }

    fn decoded<R: Record>(&self, letter: u8) -> Result<Vec<(RecordKey, R)>, String> {
        let records = self.records.range(vec![letter]..vec![letter + 1]);
        records
            .map(|(key, (_, value))| Some((key.clone(), R::decode(value)?)))
            .collect::<Option<_>>()
            .ok_or_else(|| format!("a record of {} is corrupt", char::from(letter)))
    }

    /// The bodies that objects and uploads name, directly or over copied parts.
    pub(crate) fn reachable(&self) -> Result<BTreeSet<BodyId>, String> {
        let mut sets: Vec<SetId> =
            self.decoded::<ObjectRecord>(b'o')?.into_iter().map(|(_, object)| object.set).collect();
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
        let objects = self.decoded::<ObjectRecord>(b'o')?;
        objects.iter().for_each(|(_, object)| *expected.entry(object.set).or_default() += 1);
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
