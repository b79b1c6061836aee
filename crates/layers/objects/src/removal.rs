//! Removes a bucket.
//!
//! 1. A transaction marks the bucket as under removal, with a new generation. A put resets the mark.
//! 2. A scan looks for an object. Uploads are aborted.
//! 3. A transaction removes the record of the bucket, if the mark of this generation still stands.

use zerohop_layer_procedure::NO_BYTE_LIMIT;

use crate::error::ObjectError;
use crate::ids::SetId;
use crate::keys;
use crate::optimistic::{OptimisticTransaction, Reads, Writes};
use crate::procedure::{BodyDeletion, Effect, Event, Procedure, Step};
use crate::records::BucketRecord;
use crate::upload::abort_upload;

/// Uploads that are aborted between two scans.
const ABORT_PAGE: usize = 100;

enum RemovalState {
    Idle,
    Marking(Box<dyn Procedure<Output = u64> + Send>),
    ScanningObjects(u64),
    ScanningUploads(u64),
    Aborting(u64, Box<dyn Procedure<Output = ()> + Send>, Vec<(Vec<u8>, SetId)>),
    Removing(Box<dyn Procedure<Output = bool> + Send>),
}

/// The removal of a bucket that has no objects.
pub struct DeleteBucket {
    name: String,
    state: RemovalState,
}

impl DeleteBucket {
    /// Removes the bucket `name`.
    #[must_use]
    pub const fn new(name: String) -> Self {
        Self { name, state: RemovalState::Idle }
    }

    fn mark(&self) -> impl Procedure<Output = u64> + Send + use<> {
        let key = keys::bucket(&self.name);
        OptimisticTransaction::new(move |_, reads: &mut Reads, writes: &mut Writes| {
            let mut bucket: BucketRecord = reads.get(&key)?.ok_or(ObjectError::NoSuchBucket)?;
            bucket.under_removal = true;
            bucket.generation += 1;
            writes.put(key.clone(), &bucket);
            Ok(bucket.generation)
        })
    }

    /// Removes the record, or resets the mark if there are objects. Result: whether the bucket is gone.
    fn remove(&self, generation: u64, is_empty: bool) -> impl Procedure<Output = bool> + Send + use<> {
        let key = keys::bucket(&self.name);
        OptimisticTransaction::new(move |_, reads: &mut Reads, writes: &mut Writes| {
            let mut bucket: BucketRecord = reads.get(&key)?.ok_or(ObjectError::NoSuchBucket)?;
            if !bucket.under_removal || bucket.generation != generation {
                return Ok(false);
            }
            if is_empty {
                writes.remove(key.clone());
            } else {
                bucket.under_removal = false;
                writes.put(key.clone(), &bucket);
            }
            Ok(is_empty)
        })
    }

    fn scan_uploads(&mut self, generation: u64) -> Step<()> {
        self.state = RemovalState::ScanningUploads(generation);
        let from = keys::uploads_from(&self.name, b"");
        Step::Effect(Effect::Scan { to: keys::end_of(&from), from, limit: ABORT_PAGE, bytes: NO_BYTE_LIMIT })
    }

    fn in_removal(
        &mut self,
        now: u64,
        mut remove: Box<dyn Procedure<Output = bool> + Send>,
        event: Event,
    ) -> Step<()> {
        match remove.step(now, event) {
            Step::Effect(effect) => {
                self.state = RemovalState::Removing(remove);
                Step::Effect(effect)
            }
            Step::Done(Ok(true)) => Step::Done(Ok(())),
            Step::Done(Ok(false)) => Step::fail(ObjectError::BucketNotEmpty),
            Step::Done(Err(error)) => Step::fail(error),
        }
    }

    fn abort_next(&mut self, now: u64, generation: u64, mut uploads: Vec<(Vec<u8>, SetId)>) -> Step<()> {
        match uploads.pop() {
            None => self.scan_uploads(generation),
            Some((name, id)) => {
                let abort = Box::new(abort_upload((self.name.clone(), name), id));
                self.in_abort(now, generation, abort, uploads, Event::Start)
            }
        }
    }

    fn in_abort(
        &mut self,
        now: u64,
        generation: u64,
        mut abort: Box<dyn Procedure<Output = ()> + Send>,
        rest: Vec<(Vec<u8>, SetId)>,
        event: Event,
    ) -> Step<()> {
        match abort.step(now, event) {
            Step::Effect(effect) => {
                self.state = RemovalState::Aborting(generation, abort, rest);
                Step::Effect(effect)
            }
            Step::Done(Ok(()) | Err(ObjectError::NoSuchUpload)) => self.abort_next(now, generation, rest),
            Step::Done(Err(error)) => Step::fail(error),
        }
    }

    fn in_mark(
        &mut self,
        now: u64,
        mut mark: Box<dyn Procedure<Output = u64> + Send>,
        event: Event,
    ) -> Step<()> {
        match mark.step(now, event) {
            Step::Effect(effect) => {
                self.state = RemovalState::Marking(mark);
                Step::Effect(effect)
            }
            Step::Done(Ok(generation)) => {
                self.state = RemovalState::ScanningObjects(generation);
                let from = keys::object(&self.name, b"");
                Step::Effect(Effect::Scan { to: keys::end_of(&from), from, limit: 1, bytes: NO_BYTE_LIMIT })
            }
            Step::Done(Err(error)) => Step::fail(error),
        }
    }
}

impl zerohop_layer_procedure::Procedure<ObjectError, BodyDeletion> for DeleteBucket {
    type Output = ();

    fn step(&mut self, now: u64, event: Event) -> Step<()> {
        match (std::mem::replace(&mut self.state, RemovalState::Idle), event) {
            (RemovalState::Idle, Event::Start) => {
                let mark = Box::new(self.mark());
                self.in_mark(now, mark, Event::Start)
            }
            (RemovalState::Marking(mark), event) => self.in_mark(now, mark, event),
            (RemovalState::ScanningObjects(generation), Event::Page { entries, .. }) => {
                if entries.is_empty() {
                    return self.scan_uploads(generation);
                }
                let remove = Box::new(self.remove(generation, false));
                self.in_removal(now, remove, Event::Start)
            }
            (RemovalState::ScanningUploads(generation), Event::Page { entries, .. }) => {
                if entries.is_empty() {
                    let remove = Box::new(self.remove(generation, true));
                    return self.in_removal(now, remove, Event::Start);
                }
                let uploads = entries.into_iter().filter_map(|(key, _)| keys::upload_of(&self.name, &key));
                let uploads = uploads.collect();
                self.abort_next(now, generation, uploads)
            }
            (RemovalState::Aborting(generation, abort, rest), event) => {
                self.in_abort(now, generation, abort, rest, event)
            }
            (RemovalState::Removing(remove), event) => self.in_removal(now, remove, event),
            (_, event) => Step::unexpected(&event),
        }
    }
}
