//! Buckets: create, look up, change, list.

use zerohop_layer_procedure::NO_BYTE_LIMIT;

use crate::error::ObjectError;
use crate::keys::{self, RecordKey};
use crate::optimistic::{OptimisticTransaction, Reads, Writes};
use crate::procedure::{BodyDeletion, Effect, Event, Procedure, Step};
use crate::records::{BucketRecord, Record, Versioning};

/// The records of a page of a scan.
pub(crate) const SCAN_PAGE: usize = 1000;

/// Creates a bucket.
pub fn create_bucket(
    name: String,
    settings: Vec<(String, Vec<u8>)>,
) -> impl Procedure<Output = BucketRecord> + Send {
    OptimisticTransaction::new(move |now: u64, reads: &mut Reads, writes: &mut Writes| {
        let key = keys::bucket(&name);
        if reads.get::<BucketRecord>(&key)?.is_some() {
            return Err(ObjectError::BucketExists.into());
        }
        let bucket = BucketRecord { created: now, settings: settings.clone(), ..BucketRecord::default() };
        writes.put(key, &bucket);
        Ok(bucket)
    })
}

/// Looks a bucket up.
pub fn head_bucket(name: String) -> impl Procedure<Output = BucketRecord> + Send {
    OptimisticTransaction::new(move |_, reads: &mut Reads, _: &mut Writes| {
        Ok(reads.get::<BucketRecord>(&keys::bucket(&name))?.ok_or(ObjectError::NoSuchBucket)?)
    })
}

/// Sets or removes one setting of a bucket.
pub fn change_bucket(
    name: String,
    setting: String,
    value: Option<Vec<u8>>,
) -> impl Procedure<Output = ()> + Send {
    edit_bucket(name, move |bucket| {
        bucket.set(&setting, value.clone());
        Ok(())
    })
}

/// Changes the settings of a bucket by what they are. `edit` may run several times, and refuses by its error.
pub fn edit_bucket(
    name: String,
    mut edit: impl FnMut(&mut BucketRecord) -> Result<(), ObjectError> + Send,
) -> impl Procedure<Output = ()> + Send {
    OptimisticTransaction::new(move |_, reads: &mut Reads, writes: &mut Writes| {
        let key = keys::bucket(&name);
        let mut bucket: BucketRecord = reads.get(&key)?.ok_or(ObjectError::NoSuchBucket)?;
        edit(&mut bucket)?;
        writes.put(key, &bucket);
        Ok(())
    })
}

/// Sets whether a bucket keeps the versions of its objects.
pub fn set_versioning(name: String, versioning: Versioning) -> impl Procedure<Output = ()> + Send {
    change_bucket(name, Versioning::SETTING.to_owned(), versioning.bytes())
}

/// Lists buckets in the order of their names.
pub struct ListBuckets {
    prefix: String,
    from: RecordKey,
    max: usize,
    found: Vec<(String, BucketRecord)>,
}

impl ListBuckets {
    /// The buckets whose names begin with `prefix` and are above `after`, at most `max`.
    #[must_use]
    pub fn new(prefix: String, after: Option<&str>, max: usize) -> Self {
        let from = after.map_or_else(RecordKey::new, |after| keys::after(&keys::bucket(after)));
        Self { from: from.max(keys::bucket(&prefix)), prefix, max, found: Vec::new() }
    }

    fn scan(&self) -> Step<(Vec<(String, BucketRecord)>, bool)> {
        let to = keys::end_of(&keys::bucket(&self.prefix));
        let limit = (self.max + 1 - self.found.len()).min(SCAN_PAGE);
        Step::Effect(Effect::Scan { from: self.from.clone(), to, limit, bytes: NO_BYTE_LIMIT })
    }
}

impl zerohop_layer_procedure::Procedure<ObjectError, BodyDeletion> for ListBuckets {
    /// The buckets, and whether there are more.
    type Output = (Vec<(String, BucketRecord)>, bool);

    fn step(&mut self, _: u64, event: Event) -> Step<Self::Output> {
        match event {
            Event::Start if self.max == 0 => Step::Done(Ok((Vec::new(), false))),
            Event::Start => self.scan(),
            Event::Page { entries, next } => {
                for (key, value) in entries {
                    let name = String::from_utf8(key.get(1..).unwrap_or_default().to_vec());
                    let (Ok(name), Some(bucket)) = (name, BucketRecord::decode(&value)) else {
                        return Step::fail(ObjectError::Corrupt(key));
                    };
                    self.found.push((name, bucket));
                }
                match next {
                    Some(next) if self.found.len() <= self.max => {
                        self.from = next;
                        self.scan()
                    }
                    _ => {
                        let has_more = self.found.len() > self.max;
                        self.found.truncate(self.max);
                        Step::Done(Ok((std::mem::take(&mut self.found), has_more)))
                    }
                }
            }
            event => Step::unexpected(&event),
        }
    }
}
