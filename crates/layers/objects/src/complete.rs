//! Completes a multipart upload.
//!
//! 1. A transaction *freezes* the upload. A put of a part afterwards resets this, and the completion begins again.
//! 2. The parts are scanned and compared with those that the caller names.
//! 3. A transaction writes the object and the manifest and removes the upload, if the upload is still frozen.
//!
//! No bytes move. Parts that the caller left out are dropped by the sweep.

use zerohop_layer_procedure::NO_BYTE_LIMIT;

use crate::bucket::SCAN_PAGE;
use crate::condition::Conditions;
use crate::error::ObjectError;
use crate::ids::SetId;
use crate::keys::{self, RecordKey, Timer};
use crate::object::push_object;
use crate::optimistic::{OptimisticTransaction, Reads, Writes};
use crate::planted::{Bug, is_planted};
use crate::procedure::{BodyDeletion, Effect, Event, Procedure, Step};
use crate::records::{Checksum, ETag, Manifest, ObjectRecord, PartRecord, Record, SetRecord, UploadRecord};
use crate::references::{Lifetimes, bucket_for_put, move_reference};
use crate::stack::VersionStack;

/// A part that the caller names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedPart {
    /// Its number.
    pub number: u16,
    /// Its entity tag, without quotes; any if there is none.
    pub etag: Option<String>,
    /// The bytes of its checksum; any if there are none.
    pub checksum: Option<Vec<u8>>,
}

/// Makes the entity tag and the checksum of the object from its parts, or refuses it.
pub type Assemble =
    Box<dyn FnMut(&UploadRecord, &[PartRecord]) -> Result<(ETag, Option<Checksum>), ObjectError> + Send>;

/// The completion of an upload.
pub struct CompleteUpload {
    /// Bucket and name of the object.
    pub target: (String, Vec<u8>),
    /// The upload.
    pub id: SetId,
    /// The parts of the object, in order.
    pub parts: Vec<NamedPart>,
    /// The least size of a part that is not the last.
    pub part_size_min: u64,
    /// Makes entity tag and checksum.
    pub assemble: Assemble,
    /// Conditions on the object that is replaced.
    pub conditions: Conditions,
    /// The lifetimes of the driver.
    pub lifetimes: Lifetimes,
}

impl CompleteUpload {
    /// The procedure.
    #[must_use]
    pub fn start(self) -> impl Procedure<Output = ObjectRecord> + Send {
        Completion { complete: self, state: CompletionState::Idle }
    }

    fn freeze(&self) -> impl Procedure<Output = FreezeOutcome> + Send + use<> {
        let (target, id, conditions) = (self.target.clone(), self.id, self.conditions.clone());
        OptimisticTransaction::new(move |_, reads: &mut Reads, writes: &mut Writes| {
            let key = keys::upload(&target.0, &target.1, id);
            let object_key = keys::object(&target.0, &target.1);
            reads.require([key.clone(), object_key])?;
            let stack = VersionStack::read(reads, &target.0, &target.1)?;
            let object = stack.object();
            let Some(mut upload) = reads.get::<UploadRecord>(&key)? else {
                // A repeated completion results in the object of the first one, as long as it stands.
                let completed = object.filter(|object| object.set == id && object.in_parts);
                return Ok(FreezeOutcome::Completed(completed.cloned().ok_or(ObjectError::NoSuchUpload)?));
            };
            conditions.check(object)?;
            if !upload.is_frozen {
                upload.is_frozen = true;
                upload.generation += 1;
                writes.put(key, &upload);
            }
            Ok(FreezeOutcome::Upload(upload))
        })
    }

    /// The parts of the object, out of those that were uploaded.
    fn choose(&self, uploaded: Vec<PartRecord>) -> Result<Vec<PartRecord>, ObjectError> {
        if self.parts.windows(2).any(|pair| pair[0].number >= pair[1].number) {
            return Err(ObjectError::InvalidPartOrder);
        }
        if self.parts.is_empty() {
            return Err(ObjectError::InvalidPart);
        }
        let mut uploaded = uploaded.into_iter();
        let mut chosen = Vec::with_capacity(self.parts.len());
        for named in &self.parts {
            let part = uploaded.find(|part| part.number >= named.number);
            let part = part.filter(|part| part.number == named.number).ok_or(ObjectError::InvalidPart)?;
            let stored = part.checksum.as_ref().map(|checksum| &checksum.value);
            if named.etag.as_ref().is_some_and(|etag| *etag != part.etag.to_string())
                || named.checksum.as_ref().is_some_and(|checksum| Some(checksum) != stored)
            {
                return Err(ObjectError::InvalidPart);
            }
            chosen.push(part);
        }
        if chosen.iter().rev().skip(1).any(|part| part.size < self.part_size_min) {
            return Err(ObjectError::PartTooSmall);
        }
        Ok(chosen)
    }

    /// The last transaction. Result: nothing if the upload was changed since it was frozen.
    fn finish(
        &mut self,
        upload: UploadRecord,
        uploaded: Vec<PartRecord>,
    ) -> Result<impl Procedure<Output = Option<ObjectRecord>> + Send + use<>, ObjectError> {
        let uploaded_count = uploaded.len();
        let parts = self.choose(uploaded)?;
        let (etag, checksum) = (self.assemble)(&upload, &parts)?;
        let drops_parts = parts.len() < uploaded_count;
        let manifest = Manifest { parts };
        let (target, id) = (self.target.clone(), self.id);
        let (conditions, lifetimes) = (self.conditions.clone(), self.lifetimes);
        Ok(OptimisticTransaction::new(move |now: u64, reads: &mut Reads, writes: &mut Writes| {
            let key = keys::object(&target.0, &target.1);
            let upload_key = keys::upload(&target.0, &target.1, id);
            reads.require([keys::bucket(&target.0), key, upload_key.clone(), keys::set(id)])?;
            let Some(current) = reads.get::<UploadRecord>(&upload_key)? else { return Ok(None) };
            if !current.is_frozen || current.generation != upload.generation {
                return Ok(None);
            }
            let bucket = (target.0.clone(), bucket_for_put(reads, writes, &target.0)?);
            let mut stack = VersionStack::read(reads, &target.0, &target.1)?;
            conditions.check(stack.object())?;
            if reads.get(&keys::set(id))? != Some(SetRecord::Open) {
                return Err(ObjectError::Corrupt(keys::set(id)).into());
            }
            let object = ObjectRecord {
                set: id,
                in_parts: true,
                size: manifest.parts.iter().map(|part| part.size).sum(),
                modified: now,
                etag,
                checksum: checksum.clone(),
                attributes: upload.attributes.clone(),
                tags: upload.tags.clone(),
                version: None,
            };
            let (object, released) = push_object(now, reads, &bucket, &mut stack, object, id.draw())?;
            stack.write(writes);
            writes.put(keys::manifest(id), &manifest);
            writes.put(keys::set(id), &SetRecord::Live { references: 1, in_parts: true });
            writes.remove(upload_key);
            if drops_parts && !is_planted(Bug::UnlistedPartsStay) {
                writes.put_empty(Timer { due: now, set: id, number: 0 }.key());
            }
            move_reference(now, lifetimes.grace, reads, writes, None, released)?;
            Ok(Some(object))
        }))
    }
}

enum FreezeOutcome {
    Upload(UploadRecord),
    Completed(ObjectRecord),
}

enum CompletionState {
    Idle,
    Freezing(Box<dyn Procedure<Output = FreezeOutcome> + Send>),
    Scanning(UploadRecord, Vec<PartRecord>),
    Finishing(Box<dyn Procedure<Output = Option<ObjectRecord>> + Send>),
}

struct Completion {
    complete: CompleteUpload,
    state: CompletionState,
}

impl Completion {
    fn begin(&mut self, now: u64) -> Step<ObjectRecord> {
        let freeze = Box::new(self.complete.freeze());
        self.in_freeze(now, freeze, Event::Start)
    }

    fn in_freeze(
        &mut self,
        now: u64,
        mut freeze: Box<dyn Procedure<Output = FreezeOutcome> + Send>,
        event: Event,
    ) -> Step<ObjectRecord> {
        match freeze.step(now, event) {
            Step::Effect(effect) => {
                self.state = CompletionState::Freezing(freeze);
                Step::Effect(effect)
            }
            Step::Done(Ok(FreezeOutcome::Completed(object))) => Step::Done(Ok(object)),
            Step::Done(Ok(FreezeOutcome::Upload(upload))) => {
                self.state = CompletionState::Scanning(upload, Vec::new());
                self.scan(keys::of_set(b'p', self.complete.id))
            }
            Step::Done(Err(error)) => Step::fail(error),
        }
    }

    fn scan(&self, from: RecordKey) -> Step<ObjectRecord> {
        let to = keys::end_of(&keys::of_set(b'p', self.complete.id));
        Step::Effect(Effect::Scan { from, to, limit: SCAN_PAGE, bytes: NO_BYTE_LIMIT })
    }

    fn in_finish(
        &mut self,
        now: u64,
        mut finish: Box<dyn Procedure<Output = Option<ObjectRecord>> + Send>,
        event: Event,
    ) -> Step<ObjectRecord> {
        match finish.step(now, event) {
            Step::Effect(effect) => {
                self.state = CompletionState::Finishing(finish);
                Step::Effect(effect)
            }
            Step::Done(Ok(Some(object))) => Step::Done(Ok(object)),
            Step::Done(Ok(None)) => self.begin(now),
            Step::Done(Err(error)) => Step::fail(error),
        }
    }
}

impl zerohop_layer_procedure::Procedure<ObjectError, BodyDeletion> for Completion {
    type Output = ObjectRecord;

    fn step(&mut self, now: u64, event: Event) -> Step<ObjectRecord> {
        match (std::mem::replace(&mut self.state, CompletionState::Idle), event) {
            (CompletionState::Idle, Event::Start) => self.begin(now),
            (CompletionState::Freezing(freeze), event) => self.in_freeze(now, freeze, event),
            (CompletionState::Scanning(upload, mut parts), Event::Page { entries, next }) => {
                for (key, value) in entries {
                    let Some(part) = PartRecord::decode(&value) else {
                        return Step::fail(ObjectError::Corrupt(key));
                    };
                    parts.push(part);
                }
                if let Some(next) = next {
                    self.state = CompletionState::Scanning(upload, parts);
                    return self.scan(next);
                }
                match self.complete.finish(upload, parts) {
                    Ok(finish) => self.in_finish(now, Box::new(finish), Event::Start),
                    Err(error) => Step::fail(error),
                }
            }
            (CompletionState::Finishing(finish), event) => self.in_finish(now, finish, event),
            (_, event) => Step::unexpected(&event),
        }
    }
}
