//! Atomic batches: several reads and changes of records in one step. A program runs over a [`Unit`] and sees its own changes. All
//! of them are committed together, or none is.
//!
//! ```text
//!   change ──> staged ──a read of a changed record──> log, joined with the next ──┐
//!                 │                                                               ├──> committed together,
//!                 └──end of the program──> log ───────────────────────────────────┘    then answered
//! ```
//!
//! Changes are staged until the program ends, or reads a record that it has changed. In that case they go into the log and the
//! overlay, where the program sees them. An atomic batch of one change, the common case, is an ordinary log entry.

use std::borrow::Cow;
use std::ops::Range;

use zerohop_engine::Engine;
use zerohop_engine::disk::Disk;
use zerohop_record::operations::append_values;
use zerohop_record::state::Contents;
use zerohop_wire::blob::is_of_blob;
use zerohop_wire::ids::{MapEpoch, Timestamp};
use zerohop_wire::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use zerohop_wire::messages::{
    Condition, Expire, Expiry, Extend, Insert, OperationAnswer, Range as WireRange, RecordRead, RecordType,
    RecordWrite, Remove, Trim, WriteChange,
};
use zerohop_wire::{BadRequestReason, Failure};

use crate::clock::Clock;
use crate::failure::failure_of;
use crate::hash_range::HashRange;
use crate::intents::Intents;
use crate::last_record_read::RecordGlimpse;
use crate::limits::{BATCH_CHANGES_MAX, BUSY_RETRY_MS, STAGED_BYTES_MAX};
use crate::log_writer::LogWriter;
use crate::operations::{self, EngineResultExt, LogAction, PlanResult, RecordInput, WritePlan, WriteTarget};
use crate::outcome::WriteOutcome;
use crate::overlay::{Overlay, Shape};
use crate::state::PartitionState;
use crate::view::{RecordView, WholeBytes};
use crate::write_buffer::UnitWriteBuffer;

/// What a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordInfo {
    /// Bytes or a list.
    pub record: RecordType,
    /// Bytes, or values of the list.
    pub length: u64,
    /// When it was last written. A record that this atomic batch has written has the version that it will have.
    pub version: Timestamp,
    /// When it expires, in milliseconds since 1970.
    pub deadline_ms: Option<u64>,
}

/// The result of checking a key.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ExpiryCheck {
    /// There may be a record.
    Living,
    /// The record has expired.
    Expired,
}

/// The records of a partition as a program sees and changes them. All changes have one timestamp.
pub struct Unit<'u, D> {
    pub(crate) engine: &'u mut Engine<D>,
    pub(crate) log_writer: &'u mut LogWriter,
    pub(crate) overlay: &'u mut Overlay,
    pub(crate) state: &'u PartitionState,
    pub(crate) clock: &'u mut Clock,
    pub(crate) staged: &'u mut UnitWriteBuffer,
    /// The partition may have records outside this hash range.
    pub(crate) foreign: Option<HashRange>,
    /// The atomic batch must not read or change keys outside this hash range; `None`: any key.
    hash_range: Option<HashRange>,
    /// The newest uncommitted entry of the records that were read.
    pub(crate) newest: u64,
    /// Entries appended so far, all joined with the next.
    pub(crate) appended: usize,
    at: Option<Timestamp>,
    now_ms: u64,
    /// The intents that may block it; `None`: there are none.
    pub(crate) intents: Option<Intents<'u>>,
    /// It has met an intent: all changes are undone, and it will be run again.
    pub(crate) is_blocked: bool,
    /// It has named a key of another partition: all changes are undone, and it is routed again.
    pub(crate) is_misrouted: bool,
}

impl<'u, D: Disk> Unit<'u, D> {
    pub(crate) fn new(
        engine: &'u mut Engine<D>,
        (log_writer, overlay, state): (&'u mut LogWriter, &'u mut Overlay, &'u PartitionState),
        clock: &'u mut Clock,
        staged: &'u mut UnitWriteBuffer,
        foreign: Option<HashRange>,
    ) -> Unit<'u, D> {
        let now_ms = clock.now_ms();
        Unit {
            engine,
            log_writer,
            overlay,
            state,
            clock,
            staged,
            foreign,
            hash_range: None,
            newest: 0,
            appended: 0,
            at: None,
            now_ms,
            intents: None,
            is_blocked: false,
            is_misrouted: false,
        }
    }

    /// Sets the intents. The atomic batch must not read a record that a transaction is about to change, nor change a record that
    /// one has locked.
    pub(crate) fn set_intents(&mut self, intents: Option<Intents<'u>>) {
        self.intents = intents;
    }

    /// Sets the hash range outside which the atomic batch must not read or change keys.
    pub(crate) fn set_hash_range(&mut self, hash_range: Option<HashRange>) {
        self.hash_range = hash_range;
    }

    /// The number of partitions of its keyspace, as this partition knows it; 0 if the caller that opened it did not set it. A
    /// program that walks through all partitions names no keys, and compares this with the number by which it was routed.
    #[must_use]
    pub fn partitions(&self) -> u32 {
        self.hash_range.as_ref().map_or(0, HashRange::count)
    }

    /// The caller may have routed it by another map, so each key is checked against the hash range when it is used.
    #[inline]
    fn check_own(&mut self, key: &[u8]) -> Result<(), Failure<'static>> {
        match &self.hash_range {
            Some(hash_range) if !hash_range.owns(key) => Err(self.misrouted()),
            _ => Ok(()),
        }
    }

    #[cold]
    fn misrouted(&mut self) -> Failure<'static> {
        self.is_misrouted = true;
        wrong_owner()
    }

    #[cold]
    pub(crate) fn blocked(&mut self) -> Failure<'static> {
        self.is_blocked = true;
        Failure::Busy { retry_after_ms: BUSY_RETRY_MS }
    }

    /// Sets the timestamp of its changes, and a fixed clock in milliseconds since 1970. They are those of a transaction that was
    /// evaluated at that time and is decided.
    pub(crate) fn set_time(&mut self, at: Timestamp, now_ms: u64) {
        (self.at, self.now_ms) = (Some(at), now_ms);
    }

    /// The partition's clock in milliseconds since 1970. It does not advance while the program runs.
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// The properties of a key's record.
    ///
    /// # Errors
    /// Failures of the disk or the log.
    pub fn inspect(&mut self, key: &[u8]) -> Result<Option<RecordInfo>, Failure<'static>> {
        self.see(key)?;
        Ok(self.seen_shape(key).map(|shape| RecordInfo {
            record: shape.record,
            length: shape.length(),
            version: shape.version,
            deadline_ms: shape.deadline,
        }))
    }

    /// Makes sure that nothing that is under way stands in the way of reading a record, without reading it.
    ///
    /// # Errors
    /// Something does, or what the disk or the log says.
    pub fn check(&mut self, key: &[u8]) -> Result<(), Failure<'static>> {
        self.prepare_read(key).map(drop)
    }

    /// Hands the whole of a bytes record to `take`, from where it lies if it is one entry, and says what the record is. A
    /// list is not handed over.
    ///
    /// # Errors
    /// Failures of the disk or the log.
    pub fn lookup(
        &mut self,
        key: &[u8],
        take: &mut dyn FnMut(&[u8]),
    ) -> Result<Option<RecordType>, Failure<'static>> {
        if self.prepare_read(key)? == ExpiryCheck::Expired {
            return Ok(None);
        }
        let deadlines = &self.state.deadlines;
        let mut view = RecordView {
            engine: self.engine,
            handle: self.log_writer.handle(),
            overlay: Some(&*self.overlay).filter(|overlay| !overlay.is_empty()),
            deadlines,
        };
        if let Some(WholeBytes { version, bytes, hint }) = view.whole(key).or_fail()? {
            take(bytes);
            let shape = Shape::of_base(RecordType::Bytes, version, bytes.len() as u64, deadlines.get(key));
            self.staged.see(key, RecordGlimpse { shape: Some(shape), hint });
            return Ok(Some(RecordType::Bytes));
        }
        let Some(shape) = self.view().shape(key).or_fail()? else { return Ok(None) };
        if shape.record == RecordType::Bytes {
            let mut bytes = Vec::new();
            self.view().bytes(key, &shape, 0..shape.length(), &mut bytes).or_fail()?;
            take(&bytes);
        }
        Ok(Some(shape.record))
    }

    /// Appends a range of the bytes of a bytes record to `into`, as far as it has them.
    ///
    /// # Errors
    /// Failures of the disk or the log.
    pub fn read(
        &mut self,
        key: &[u8],
        range: Range<u64>,
        into: &mut Vec<u8>,
    ) -> Result<(), Failure<'static>> {
        let Some(shape) = self.shape_of(key, RecordType::Bytes)? else { return Ok(()) };
        let range = clip(range, shape.length());
        self.view().bytes(key, &shape, range, into).or_fail()
    }

    /// Hands a range of the values of a list to `each`, in their order, as far as it has them and for as long as `each` says true.
    ///
    /// # Errors
    /// Failures of the disk or the log.
    pub fn values(
        &mut self,
        key: &[u8],
        range: Range<u64>,
        each: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<(), Failure<'static>> {
        let Some(shape) = self.shape_of(key, RecordType::List)? else { return Ok(()) };
        let range = clip(range, shape.length());
        self.view().each_value(key, &shape, range, each).or_fail()
    }

    /// Sets the record to these bytes, whatever it was.
    ///
    /// # Errors
    /// A limit is exceeded; failures of the disk or the log.
    pub fn put(&mut self, key: &[u8], value: &[u8], expiry: Expiry) -> Result<(), Failure<'static>> {
        if value.len() > VALUE_BYTES_MAX {
            let (length, limit) = (value.len() as u64, VALUE_BYTES_MAX as u32);
            return Err(Failure::ValueTooLong { length, limit });
        }
        check_key(key)?;
        if is_of_blob(key) {
            return Err(BadRequestReason::ReservedKey.into());
        }
        let keeps_deadline = match expiry {
            Expiry::Never => false,
            Expiry::Unchanged => {
                self.see(key)?;
                self.seen_shape(key).is_some_and(|shape| shape.deadline.is_some())
            }
            Expiry::AfterMs(_) | Expiry::AtMs(_) => true,
        };
        if keeps_deadline {
            return self.change(key, WriteChange::Insert(Insert { value, expiry }));
        }
        self.check_own(key)?;
        let seen = self.staged.take_seen(key).unwrap_or_default();
        let (record, units) = (RecordType::Bytes, value.len() as u64);
        let action = LogAction::Put { record, units, contents: Contents::AsReceived(value), deadline: None };
        self.stage(key, &action, seen, &[])
    }

    /// Creates an internal record of the partition: a staged piece.
    ///
    /// # Errors
    /// Failures of the disk or the log.
    pub(crate) fn put_internal(&mut self, key: &[u8], bytes: &[u8]) -> Result<(), Failure<'static>> {
        let (record, units) = (RecordType::Bytes, bytes.len() as u64);
        let action = LogAction::Put { record, units, contents: Contents::AsReceived(bytes), deadline: None };
        self.stage(key, &action, RecordGlimpse::default(), &[])
    }

    /// Removes such a record.
    ///
    /// # Errors
    /// Failures of the disk or the log.
    pub(crate) fn remove_internal(&mut self, key: &[u8]) -> Result<(), Failure<'static>> {
        self.stage(key, &LogAction::Remove, RecordGlimpse::default(), &[])
    }

    /// Adds bytes to the end of a bytes record; creates the record if there is none.
    ///
    /// # Errors
    /// The record is a list, or becomes too long; failures of the disk or the log.
    pub fn extend(&mut self, key: &[u8], bytes: &[u8]) -> Result<(), Failure<'static>> {
        self.change(key, WriteChange::Extend(Extend { bytes }))
    }

    /// Appends values to a list; creates the list if there is none.
    ///
    /// # Errors
    /// The record is not a list, or the values are too long for one entry; failures of the disk or the log.
    pub fn append<'v>(
        &mut self,
        key: &[u8],
        values: impl ExactSizeIterator<Item = &'v [u8]>,
    ) -> Result<(), Failure<'static>> {
        self.plan(key, true, |target| {
            let applied = append_values(target, values.len(), values)?;
            WritePlan::of(target, applied)
        })
    }

    /// Keeps a range of the values of a list. If the range is empty the list is removed.
    ///
    /// # Errors
    /// The record is not a list, or the kept values are too long to be written again; failures of the disk or the log.
    pub fn trim(&mut self, key: &[u8], keep: Range<u64>) -> Result<(), Failure<'static>> {
        if keep.is_empty() {
            return self.remove(key).map(drop);
        }
        let place = |at: u64| i64::try_from(at).unwrap_or(i64::MAX);
        let keep = WireRange { start: place(keep.start), stop: place(keep.end) };
        self.change(key, WriteChange::Trim(Trim { keep }))
    }

    /// Removes a record. Returns whether there was one.
    ///
    /// # Errors
    /// Failures of the disk or the log.
    pub fn remove(&mut self, key: &[u8]) -> Result<bool, Failure<'static>> {
        self.see(key)?;
        let is_there = self.seen_shape(key).is_some();
        if is_there {
            self.change(key, WriteChange::Remove(Remove))?;
        }
        Ok(is_there)
    }

    /// Sets or clears the deadline of a record, in milliseconds since 1970. Does nothing if there is no record.
    ///
    /// # Errors
    /// There is no room for more deadlines; failures of the disk or the log.
    pub fn set_deadline(&mut self, key: &[u8], deadline_ms: Option<u64>) -> Result<(), Failure<'static>> {
        self.see(key)?;
        if self.seen_shape(key).is_none() {
            return Ok(());
        }
        self.change(
            key,
            WriteChange::Expire(Expire { expiry: deadline_ms.map_or(Expiry::Never, Expiry::AtMs) }),
        )
    }

    fn view(&mut self) -> RecordView<'_, D> {
        RecordView {
            engine: self.engine,
            handle: self.log_writer.handle(),
            overlay: Some(&*self.overlay).filter(|overlay| !overlay.is_empty()),
            deadlines: &self.state.deadlines,
        }
    }

    /// Prepares a read of a record. Its staged changes go into the log, where they can be read. If its deadline has come, its
    /// removal is staged.
    #[inline]
    fn prepare_read(&mut self, key: &[u8]) -> Result<ExpiryCheck, Failure<'static>> {
        self.check_own(key)?;
        if self.intents.as_ref().is_some_and(|intents| intents.has_intent(key)) {
            return Err(self.blocked());
        }
        if self.staged.may_have(key) {
            self.append_joined()?;
        }
        let known = self.overlay.record(key);
        if let Some(known) = known {
            self.newest = self.newest.max(known.newest());
        }
        let deadline = match known {
            Some(known) => known.shape().and_then(|shape| shape.deadline),
            None => self.state.deadlines.get(key),
        };
        if deadline.is_none_or(|deadline| deadline > self.now_ms) {
            return Ok(ExpiryCheck::Living);
        }
        self.stage(key, &LogAction::Remove, RecordGlimpse::default(), &[])?;
        Ok(ExpiryCheck::Expired)
    }

    /// Reads a record, unless it was the last record read.
    #[inline]
    fn see(&mut self, key: &[u8]) -> Result<(), Failure<'static>> {
        if self.staged.seen(key).is_some() {
            return Ok(());
        }
        let seen = match self.prepare_read(key)? {
            ExpiryCheck::Living => self.view().find(key).or_fail()?,
            ExpiryCheck::Expired => RecordGlimpse::default(),
        };
        self.staged.see(key, seen);
        Ok(())
    }

    /// The shape of the record that was read last.
    fn seen_shape(&self, key: &[u8]) -> Option<&Shape> {
        self.staged.seen(key)?.shape.as_ref()
    }

    fn shape(&mut self, key: &[u8]) -> Result<Option<Shape>, Failure<'static>> {
        self.see(key)?;
        Ok(self.seen_shape(key).cloned())
    }

    fn shape_of(&mut self, key: &[u8], requested: RecordType) -> Result<Option<Shape>, Failure<'static>> {
        match self.shape(key)? {
            Some(shape) if shape.record != requested => Err(Failure::WrongType { found: shape.record }),
            shape => Ok(shape),
        }
    }

    fn change(&mut self, key: &[u8], change: WriteChange<'_>) -> Result<(), Failure<'static>> {
        let write = RecordWrite { key, condition: Condition::Always, change };
        self.plan(key, operations::depends_on_record(&write), |target| operations::plan(target, &write))
    }

    /// Answers a read over the changes of the atomic batch. `out` is empty, and stores the contents that the answer borrows.
    pub(crate) fn answer<'o>(&mut self, read: &RecordRead<'_>, out: &'o mut Vec<u8>) -> OperationAnswer<'o> {
        check_key(read.key)?;
        let shape = self.shape(read.key)?;
        read.answer(&mut RecordInput { view: self.view(), key: read.key, shape }, out)
    }

    /// Executes a write under its condition.
    ///
    /// # Errors
    /// Failures of the disk or the log. A refusal because of the record's state is an outcome, not an error.
    pub(crate) fn write(&mut self, write: &RecordWrite<'_>) -> Result<WriteOutcome, Failure<'static>> {
        let depends_on_record = operations::depends_on_record(write);
        self.outcome_of(write.key, depends_on_record, |target| operations::plan(target, write))
    }

    fn plan<'a>(
        &mut self,
        key: &[u8],
        depends_on_record: bool,
        plan: impl FnOnce(&mut WriteTarget<'_, '_, D>) -> PlanResult<'a>,
    ) -> Result<(), Failure<'static>> {
        let outcome = self.outcome_of(key, depends_on_record, plan)?;
        outcome.answer().map(drop).map_err(Failure::into_owned)
    }

    fn outcome_of<'a>(
        &mut self,
        key: &[u8],
        depends_on_record: bool,
        plan: impl FnOnce(&mut WriteTarget<'_, '_, D>) -> PlanResult<'a>,
    ) -> Result<WriteOutcome, Failure<'static>> {
        check_key(key)?;
        let RecordGlimpse { shape, hint } = if depends_on_record {
            self.see(key)?;
            self.staged.take_seen(key).unwrap_or_default()
        } else {
            self.check_own(key)?;
            RecordGlimpse::default()
        };
        let (at, now_ms) = (self.at(), self.now_ms());
        let mut buffer = std::mem::take(&mut self.staged.made);
        buffer.clear();
        let bytes_max = VALUE_BYTES_MAX as u64;
        let mut target = WriteTarget {
            found: RecordInput { view: self.view(), key, shape },
            at,
            now_ms,
            bytes_max,
            buffer: &mut buffer,
        };
        let planned = plan(&mut target);
        let shape = target.found.shape.take();
        let result = planned.and_then(|WritePlan { action, outcome }| {
            if !matches!(action, LogAction::Nothing) {
                self.stage(key, &action, RecordGlimpse { shape, hint }, &buffer)?;
            }
            Ok(outcome)
        });
        self.staged.made = buffer;
        result
    }

    /// Adds a change behind the staged ones.
    fn stage(
        &mut self,
        key: &[u8],
        action: &LogAction<'_>,
        seen: RecordGlimpse,
        made: &[u8],
    ) -> Result<(), Failure<'static>> {
        if self.intents.as_ref().is_some_and(|intents| intents.are_in_the_way(key)) {
            return Err(self.blocked());
        }
        let before = self.appended + self.staged.len();
        if before > BATCH_CHANGES_MAX {
            return Err(Failure::TooMany { count: before as u64, limit: BATCH_CHANGES_MAX as u32 });
        }
        if self.staged.bytes() >= STAGED_BYTES_MAX {
            self.append_joined()?;
        }
        let at = self.at();
        self.staged.push((at, key), action, seen, made);
        Ok(())
    }

    /// Appends the staged changes, with more of the atomic batch to follow.
    #[cold]
    fn append_joined(&mut self) -> Result<(), Failure<'static>> {
        let Unit { engine, log_writer, overlay, staged, .. } = self;
        let count = staged.len();
        staged.append(engine, (log_writer, overlay), true).map_err(|error| failure_of(&error))?;
        self.appended += count;
        Ok(())
    }

    /// The timestamp of its changes.
    pub(crate) fn at(&mut self) -> Timestamp {
        let clock = &mut *self.clock;
        *self.at.get_or_insert_with(|| clock.next())
    }
}

impl<D> std::fmt::Debug for Unit<'_, D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Unit").field("at", &self.at).field("appended", &self.appended).finish_non_exhaustive()
    }
}

/// The answer for a key of another partition, by the map that this partition follows. The map changes are not known here.
pub(crate) fn wrong_owner() -> Failure<'static> {
    Failure::WrongOwner { epoch: MapEpoch(0), delta: Cow::Borrowed(&[]) }
}

fn check_key(key: &[u8]) -> Result<(), Failure<'static>> {
    if key.is_empty() || key.len() > KEY_BYTES_MAX {
        return Err(Failure::KeyTooLong { length: key.len() as u64, limit: KEY_BYTES_MAX as u32 });
    }
    Ok(())
}

fn clip(range: Range<u64>, length: u64) -> Range<u64> {
    let end = range.end.min(length);
    range.start.min(end)..end
}
