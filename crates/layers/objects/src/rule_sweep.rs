//! Carries lifecycle rules out.
//!
//! A page of a scan finds what may have expired. For each candidate a transaction reads the bucket with its rules and the
//! record again, and decides: an object that was replaced meanwhile stays, and rules that were changed count as they are. A
//! sweep that stops anywhere has done a part of its work, and several at once do no harm.

use std::collections::VecDeque;

use zerohop_layer_procedure::NO_BYTE_LIMIT;

use crate::bucket::SCAN_PAGE;
use crate::condition::Conditions;
use crate::error::ObjectError;
use crate::ids::SetId;
use crate::keys::{self, RecordKey};
use crate::object::{DeleteObject, remove_object};
use crate::optimistic::{OptimisticTransaction, Pause, Reads, Writes};
use crate::planted::{Bug, is_planted};
use crate::procedure::{BodyDeletion, Effect, Event, Procedure, Step};
use crate::records::{BucketRecord, LifecycleRules, Record, StoredVersion, UploadRecord, VersionId};
use crate::references::Lifetimes;
use crate::stack::VersionStack;
use crate::upload::remove_upload;

/// The buckets of a page of their scan.
const BUCKET_PAGE: usize = 100;
/// The most newer versions of a name that a sweep confirms.
const NEWER_MAX: usize = 100;

/// What a sweep did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RuleReport {
    /// Current versions that expired: they were removed, or hidden by a delete marker.
    pub expired: u64,
    /// Older versions that were removed.
    pub versions: u64,
    /// Uploads that were aborted.
    pub uploads: u64,
    /// Records that the sweep could not read or change, and buckets with rules of a later program.
    pub skipped: u64,
}

impl RuleReport {
    /// Adds what another sweep did.
    pub const fn add(&mut self, other: Self) {
        self.expired += other.expired;
        self.versions += other.versions;
        self.uploads += other.uploads;
        self.skipped += other.skipped;
    }
}

/// Where a sweep continues.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RulePlace {
    /// The key of the bucket, or below it.
    bucket: RecordKey,
    /// The key in the bucket; empty at its beginning.
    from: RecordKey,
    /// The name of the last older version, and the newest of its older versions that are before the place, at most [`NEWER_MAX`].
    newer: Option<(Vec<u8>, Vec<VersionId>)>,
}

/// The result of a sweep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RulePage {
    /// What it did.
    pub report: RuleReport,
    /// Where the next one continues; nothing behind the last bucket.
    pub next: Option<RulePlace>,
}

/// What may have expired.
enum Candidate {
    Current(Vec<u8>),
    /// An older version, and newer ones that are not current.
    Older(Vec<u8>, VersionId, Vec<VersionId>),
    Upload(Vec<u8>, SetId),
}

enum RuleSweepState {
    Idle,
    FindingBuckets,
    Scanning,
    /// Its transaction adds to this count.
    Committing(fn(&mut RuleReport) -> &mut u64, Box<dyn Procedure<Output = bool> + Send>),
}

/// A sweep over the buckets with rules.
pub struct RuleSweep {
    lifetimes: Lifetimes,
    /// Random bytes for the ids of delete markers; each takes the next number.
    draw: u64,
    /// Records that it may still look at.
    left: usize,
    place: RulePlace,
    /// The bucket at the place.
    open: Option<(String, LifecycleRules)>,
    /// What is left of it: first keys and ends, in order.
    ranges: VecDeque<(RecordKey, RecordKey)>,
    /// Buckets with rules behind it.
    buckets: VecDeque<(String, LifecycleRules)>,
    /// Where the scan of buckets continues.
    next_buckets: Option<RecordKey>,
    /// The next one last.
    candidates: Vec<Candidate>,
    state: RuleSweepState,
    report: RuleReport,
}

impl RuleSweep {
    /// Looks at about `limit` records from a place on. `draw` is random.
    #[must_use]
    pub fn new(lifetimes: Lifetimes, place: RulePlace, limit: usize, draw: [u8; 8]) -> Self {
        Self {
            lifetimes,
            draw: u64::from_le_bytes(draw),
            left: limit.max(1),
            place,
            open: None,
            ranges: VecDeque::new(),
            buckets: VecDeque::new(),
            next_buckets: None,
            candidates: Vec::new(),
            state: RuleSweepState::Idle,
            report: RuleReport::default(),
        }
    }

    fn find_buckets(&mut self, from: RecordKey) -> Step<RulePage> {
        self.state = RuleSweepState::FindingBuckets;
        let from = from.max(keys::bucket(""));
        let to = keys::end_of(&keys::bucket(""));
        Step::Effect(Effect::Scan { from, to, limit: BUCKET_PAGE, bytes: NO_BYTE_LIMIT })
    }

    fn bucket_page(&mut self, entries: Vec<(RecordKey, Vec<u8>)>, next: Option<RecordKey>) {
        let count = entries.len();
        for (key, value) in entries {
            let name = String::from_utf8(key.get(1..).unwrap_or_default().to_vec()).ok();
            let rules = BucketRecord::decode(&value).and_then(|bucket| LifecycleRules::of(&bucket));
            match name.zip(rules) {
                None => self.report.skipped += 1,
                Some((name, rules)) if rules.rules.iter().any(|rule| rule.is_enabled) => {
                    self.buckets.push_back((name, rules));
                }
                Some(_) => {}
            }
        }
        if self.buckets.is_empty() {
            self.left = self.left.saturating_sub(count);
        }
        self.next_buckets = next;
    }

    /// Opens the next bucket at its beginning, or at the place in it.
    fn open_bucket(&mut self, name: String, rules: LifecycleRules) {
        let key = keys::bucket(&name);
        if self.place.bucket != key {
            self.place = RulePlace { bucket: key, ..RulePlace::default() };
        }
        let range = |start: RecordKey| (start.clone(), keys::end_of(&start));
        let objects = rules.prefixes(|rule| rule.expiration.is_some()).into_iter();
        let objects = objects.map(|prefix| range(keys::object(&name, prefix)));
        let uploads = rules.prefixes(|rule| rule.abort_days.is_some()).into_iter();
        let uploads = uploads.map(|prefix| range(keys::uploads_from(&name, prefix)));
        let older = rules.prefixes(|rule| rule.noncurrent.is_some()).into_iter();
        let older = older.map(|prefix| range(keys::older_from(&name, prefix)));
        let from = &self.place.from;
        let ranges = objects.chain(uploads).chain(older).filter(|(_, end)| end > from);
        self.ranges = ranges.map(|(start, end)| (start.max(from.clone()), end)).collect();
        self.open = Some((name, rules));
    }

    fn end(&mut self, next: Option<RulePlace>) -> Step<RulePage> {
        Step::Done(Ok(RulePage { report: self.report, next }))
    }

    /// Decides about the next candidate, or finds others.
    fn advance(&mut self, now: u64) -> Step<RulePage> {
        loop {
            if let Some(candidate) = self.candidates.pop() {
                return self.decide(now, candidate);
            }
            if self.open.is_some() {
                if let Some((from, to)) = self.ranges.front().cloned() {
                    self.place.from.clone_from(&from);
                    if self.left == 0 {
                        let place = self.place.clone();
                        return self.end(Some(place));
                    }
                    self.state = RuleSweepState::Scanning;
                    let limit = self.left.min(SCAN_PAGE);
                    return Step::Effect(Effect::Scan { from, to, limit, bytes: NO_BYTE_LIMIT });
                }
                self.open = None;
                self.place = RulePlace { bucket: keys::after(&self.place.bucket), ..RulePlace::default() };
            }
            if let Some((name, rules)) = self.buckets.pop_front() {
                self.open_bucket(name, rules);
                continue;
            }
            let Some(next) = self.next_buckets.take() else { return self.end(None) };
            if self.left == 0 {
                return self.end(Some(RulePlace { bucket: next, ..RulePlace::default() }));
            }
            return self.find_buckets(next);
        }
    }

    fn record_page(&mut self, now: u64, entries: Vec<(RecordKey, Vec<u8>)>, next: Option<RecordKey>) {
        self.left = self.left.saturating_sub(entries.len().max(1));
        if let Some((_, end)) = self.ranges.pop_front()
            && let Some(next) = next
        {
            self.ranges.push_front((next, end));
        }
        let Some((bucket, rules)) = &self.open else { return };
        let newer = &mut self.place.newer;
        for (key, value) in entries {
            let found = match key.first() {
                Some(b'o') => current_candidate(now, bucket, rules, &key, &value),
                Some(b'u') => upload_candidate(now, bucket, rules, &key, &value),
                _ => older_candidate(now, bucket, rules, &key, &value, newer),
            };
            match found {
                None => self.report.skipped += 1,
                Some(candidate) => self.candidates.extend(candidate),
            }
        }
        self.candidates.reverse();
    }

    fn decide(&mut self, now: u64, candidate: Candidate) -> Step<RulePage> {
        let Some((bucket, _)) = &self.open else { return self.advance(now) };
        let (bucket, lifetimes) = (bucket.clone(), self.lifetimes);
        match candidate {
            Candidate::Current(name) => {
                self.draw = self.draw.wrapping_add(1);
                let expire = expire_current(bucket, name, self.draw.to_le_bytes(), lifetimes);
                self.commit(now, |report| &mut report.expired, Box::new(expire), Event::Start)
            }
            Candidate::Older(name, id, newer) => {
                let remove = remove_older(bucket, name, id, newer, lifetimes);
                self.commit(now, |report| &mut report.versions, Box::new(remove), Event::Start)
            }
            Candidate::Upload(name, id) => {
                let abort = abort_expired((bucket, name), id);
                self.commit(now, |report| &mut report.uploads, Box::new(abort), Event::Start)
            }
        }
    }

    fn commit(
        &mut self,
        now: u64,
        count: fn(&mut RuleReport) -> &mut u64,
        mut work: Box<dyn Procedure<Output = bool> + Send>,
        event: Event,
    ) -> Step<RulePage> {
        match work.step(now, event) {
            Step::Effect(effect) => {
                self.state = RuleSweepState::Committing(count, work);
                return Step::Effect(effect);
            }
            Step::Done(Ok(has_removed)) => *count(&mut self.report) += u64::from(has_removed),
            // The next pass tries it again. Others may free the room that this one needs.
            Step::Done(Err(ObjectError::Busy | ObjectError::Corrupt(_) | ObjectError::NoRoom)) => {
                self.report.skipped += 1;
            }
            Step::Done(Err(error)) => return Step::fail(error),
        }
        self.advance(now)
    }
}

fn current_candidate(
    now: u64,
    bucket: &str,
    rules: &LifecycleRules,
    key: &[u8],
    value: &[u8],
) -> Option<Option<Candidate>> {
    let (name, current) = (key.get(bucket.len() + 2..)?, StoredVersion::decode(value)?);
    Some(rules.has_expired(now, name, &current).then(|| Candidate::Current(name.to_vec())))
}

fn upload_candidate(
    now: u64,
    bucket: &str,
    rules: &LifecycleRules,
    key: &[u8],
    value: &[u8],
) -> Option<Option<Candidate>> {
    let ((name, id), upload) = (keys::upload_of(bucket, key)?, UploadRecord::decode(value)?);
    Some(rules.aborts(now, &name, &upload).then_some(Candidate::Upload(name, id)))
}

/// Looks at an older version. `newer` has the name of the one before it, and those of its older versions that were seen.
fn older_candidate(
    now: u64,
    bucket: &str,
    rules: &LifecycleRules,
    key: &[u8],
    value: &[u8],
    newer: &mut Option<(Vec<u8>, Vec<VersionId>)>,
) -> Option<Option<Candidate>> {
    let ((name, id), version) = (keys::version_of(bucket, key)?, StoredVersion::decode(value)?);
    let mut seen = match newer.take() {
        Some((before, seen)) if before == name => seen,
        _ => Vec::new(),
    };
    // The newest ones are confirmed: those between them and this one may be removed before it.
    let newest = rules.newer_needed(now, &name, &version).and_then(|needed| seen.get(..needed));
    let candidate = newest.map(|newest| Candidate::Older(name.clone(), id, newest.to_vec()));
    if seen.len() < NEWER_MAX {
        seen.push(id);
    }
    *newer = Some((name, seen));
    Some(candidate)
}

/// The bucket and its rules, if it still exists and they are of this code.
fn read_rules(reads: &mut Reads, bucket: &str) -> Result<Option<(BucketRecord, LifecycleRules)>, Pause> {
    let record: Option<BucketRecord> = reads.get(&keys::bucket(bucket))?;
    Ok(record.and_then(|record| LifecycleRules::of(&record).map(|rules| (record, rules))))
}

/// Removes or hides the current version of a name if it has expired.
fn expire_current(
    bucket: String,
    name: Vec<u8>,
    draw: [u8; 8],
    lifetimes: Lifetimes,
) -> impl Procedure<Output = bool> + Send {
    OptimisticTransaction::new(move |now: u64, reads: &mut Reads, writes: &mut Writes| {
        reads.require([keys::bucket(&bucket), keys::object(&bucket, &name)])?;
        let Some((record, rules)) = read_rules(reads, &bucket)? else { return Ok(false) };
        let stack = VersionStack::read(reads, &bucket, &name)?;
        let Some(current) = stack.current() else { return Ok(false) };
        if !rules.has_expired(now, &name, current) && !is_planted(Bug::ReplacedObjectExpires) {
            return Ok(false);
        }
        let delete = DeleteObject {
            bucket: bucket.clone(),
            name: name.clone(),
            version: current.object().is_none().then(|| current.links().name()),
            draw,
            conditions: Conditions::default(),
            lifetimes,
        };
        Ok(remove_object(now, reads, writes, &record, &delete)?.existed)
    })
}

/// Removes an older version if its time is over and enough of the newer ones still are older ones.
fn remove_older(
    bucket: String,
    name: Vec<u8>,
    id: VersionId,
    newer: Vec<VersionId>,
    lifetimes: Lifetimes,
) -> impl Procedure<Output = bool> + Send {
    OptimisticTransaction::new(move |now: u64, reads: &mut Reads, writes: &mut Writes| {
        let key = keys::version(&bucket, &name, id);
        reads.require([keys::bucket(&bucket), keys::object(&bucket, &name), key.clone()])?;
        let Some((record, rules)) = read_rules(reads, &bucket)? else { return Ok(false) };
        let Some(version) = reads.get::<StoredVersion>(&key)? else { return Ok(false) };
        let needed = rules.newer_needed(now, &name, &version);
        let Some(newest) = needed.and_then(|needed| newer.get(..needed)) else { return Ok(false) };
        if !is_planted(Bug::NewerVersionsNotConfirmed) {
            let confirmed = newest.iter().map(|id| keys::version(&bucket, &name, *id));
            reads.require(confirmed.clone())?;
            for key in confirmed {
                if reads.get::<StoredVersion>(&key)?.is_none() {
                    return Ok(false);
                }
            }
        }
        let delete = DeleteObject {
            bucket: bucket.clone(),
            name: name.clone(),
            version: Some(version.links().name()),
            draw: [0; 8],
            conditions: Conditions::default(),
            lifetimes,
        };
        Ok(remove_object(now, reads, writes, &record, &delete)?.existed)
    })
}

/// Aborts an upload if its time is over.
fn abort_expired(target: (String, Vec<u8>), id: SetId) -> impl Procedure<Output = bool> + Send {
    OptimisticTransaction::new(move |now: u64, reads: &mut Reads, writes: &mut Writes| {
        let key = keys::upload(&target.0, &target.1, id);
        reads.require([keys::bucket(&target.0), key.clone(), keys::set(id)])?;
        let Some((_, rules)) = read_rules(reads, &target.0)? else { return Ok(false) };
        let Some(upload) = reads.get::<UploadRecord>(&key)? else { return Ok(false) };
        if !rules.aborts(now, &target.1, &upload) {
            return Ok(false);
        }
        remove_upload(now, reads, writes, &target, id)?;
        Ok(true)
    })
}

impl zerohop_layer_procedure::Procedure<ObjectError, BodyDeletion> for RuleSweep {
    type Output = RulePage;

    fn step(&mut self, now: u64, event: Event) -> Step<RulePage> {
        match (std::mem::replace(&mut self.state, RuleSweepState::Idle), event) {
            (RuleSweepState::Idle, Event::Start) => self.find_buckets(self.place.bucket.clone()),
            (RuleSweepState::FindingBuckets, Event::Page { entries, next }) => {
                self.bucket_page(entries, next);
                self.advance(now)
            }
            (RuleSweepState::Scanning, Event::Page { entries, next }) => {
                self.record_page(now, entries, next);
                self.advance(now)
            }
            (RuleSweepState::Committing(count, work), event) => self.commit(now, count, work, event),
            (_, event) => Step::unexpected(&event),
        }
    }
}
