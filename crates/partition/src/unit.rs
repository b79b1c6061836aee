//! Several reads and changes of records that are one step: a program runs over a [`Unit`], sees its own changes, and all
//! of them are committed together or none is.
//!
//! ```text
//!   change ──> staged ──next change──> log, joined with the next ──┐
//!                 │                                                ├──> committed as a whole, answered then
//!                 └──end of the program──> log, the last one ──────┘
//! ```
//!
//! The newest change waits until it is known whether another follows: a unit of one change, the common one, is an entry
//! like any other. What is in the log lies in the overlay, so that the program sees it there.

use std::ops::Range;

use zerohop_engine::disk::Disk;
use zerohop_engine::{Engine, FLAG_JOINED, FLAG_LIST, FLAG_TRAILER, Kind, Meta, split_trailer};
use zerohop_wire::ids::Timestamp;
use zerohop_wire::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use zerohop_wire::messages::{Change as Asked, Condition, Expiry, Range as AskedRange, RecordType, Write};
use zerohop_wire::{Failure, What};

use crate::clock::Clock;
use crate::failure::failure_of;
use crate::group::{Entry, Group};
use crate::limits::{BUFFER_KEPT_BYTES, UNIT_CHANGES_MAX};
use crate::note::Note;
use crate::operations::{self, Action, Cell, Contents, OrFail, Plan, Planned};
use crate::overlay::{Change, Overlay, Shape};
use crate::state::Deadlines;
use crate::view::View;

/// What runs over the records of one partition in one step.
pub trait Program {
    /// Reads and changes records, and appends what is to be answered to `reply`. After `Ok(false)` and after a failure
    /// none of its changes happens; the reply is handed on after `Ok` only.
    ///
    /// # Errors
    /// Why it could not go on, usually what the unit has said.
    fn run<D: Disk>(&mut self, unit: &mut Unit<'_, D>, reply: &mut Vec<u8>)
    -> Result<bool, Failure<'static>>;
}

/// What became of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ran {
    /// All that its reply rests on is committed, and the reply has been appended.
    Now,
    /// The reply comes as [`crate::Effects::reply`].
    Later,
}

/// What a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inspected {
    /// Bytes or a list.
    pub record: RecordType,
    /// Bytes, or values of the list.
    pub length: u64,
    /// When it was written last. What this unit has written has the version that it will have.
    pub version: Timestamp,
    /// When it ceases to be, in milliseconds since 1970.
    pub deadline_ms: Option<u64>,
}

/// What a look at a key has told.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Seen {
    /// There may be a record.
    Living,
    /// There is none any more.
    Expired,
}

/// The records of a partition as a program sees and changes them. All changes have one timestamp.
pub struct Unit<'u, D> {
    pub(crate) engine: &'u mut Engine<D>,
    pub(crate) group: &'u mut Group,
    pub(crate) overlay: &'u mut Overlay,
    pub(crate) deadlines: &'u Deadlines,
    pub(crate) clock: &'u mut Clock,
    pub(crate) staged: &'u mut Staged,
    /// The newest uncommitted entry of what was looked at.
    pub(crate) newest: u64,
    /// Entries appended so far, all joined with the next.
    pub(crate) appended: usize,
    at: Option<Timestamp>,
}

/// A change that is not yet in the log, in buffers that are used again and again.
#[derive(Debug, Default)]
pub(crate) struct Staged {
    pub(crate) is_some: bool,
    kind: Option<Kind>,
    flags: u8,
    at: Timestamp,
    pub(crate) key: Vec<u8>,
    pub(crate) payload: Vec<u8>,
    pub(crate) change: Option<(Change, Option<Shape>)>,
    /// For contents that are made by an operation.
    made: Vec<u8>,
    /// The record that was looked at last, if nothing was changed since.
    seen_key: Vec<u8>,
    seen: Option<Option<Shape>>,
    pub(crate) noted: Noted,
}

/// What the entries of a unit that is committed at once tell the partition's state: so that nothing is read again.
#[derive(Debug, Default)]
pub(crate) struct Noted {
    /// Where each one's key and note end in `bytes`.
    entries: Vec<(Meta, usize, usize)>,
    bytes: Vec<u8>,
}

impl Noted {
    pub(crate) fn push(&mut self, meta: &Meta, key: &[u8], payload: &[u8]) {
        self.bytes.extend_from_slice(key);
        let key_end = self.bytes.len();
        // Of a payload the state reads a mark, or the trailer, which alone is a payload without contents.
        let note = match meta.kind {
            Kind::Mark => payload,
            _ if meta.flags & FLAG_TRAILER != 0 => {
                let (contents, _) = split_trailer(meta.flags, payload);
                &payload[contents.len()..]
            }
            _ => &[],
        };
        self.bytes.extend_from_slice(note);
        self.entries.push((*meta, key_end, self.bytes.len()));
    }

    /// Each entry with its key and its note.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Meta, &[u8], &[u8])> {
        let mut begin = 0;
        self.entries.iter().map(move |(meta, key_end, end)| {
            let (key, note) = (&self.bytes[begin..*key_end], &self.bytes[*key_end..*end]);
            begin = *end;
            (meta, key, note)
        })
    }

    fn clear(&mut self) {
        self.entries.clear();
        self.bytes.clear();
    }
}

impl Staged {
    /// As the log has it.
    pub(crate) fn entry(&self) -> Entry<'_> {
        let Staged { flags, at, key, payload, .. } = self;
        Entry { kind: self.kind.unwrap_or(Kind::Mark), flags: *flags, at: *at, key, payload }
    }

    /// A mark that says nothing: the end of a unit whose last change is in the log already.
    pub(crate) fn set_end(&mut self, at: Timestamp) {
        self.clear();
        Note::default().push_mark(at, &mut self.payload);
        (self.kind, self.flags, self.at, self.is_some) = (Some(Kind::Mark), 0, at, true);
    }

    pub(crate) fn clear(&mut self) {
        (self.is_some, self.change) = (false, None);
        self.key.clear();
        self.payload.clear();
    }

    /// Gives back what a large change has left.
    pub(crate) fn shrink(&mut self) {
        for buffer in [&mut self.payload, &mut self.made] {
            if buffer.capacity() > BUFFER_KEPT_BYTES {
                *buffer = Vec::new();
            }
        }
    }
}

impl<'u, D: Disk> Unit<'u, D> {
    pub(crate) fn new(
        engine: &'u mut Engine<D>,
        (group, overlay, deadlines): (&'u mut Group, &'u mut Overlay, &'u Deadlines),
        clock: &'u mut Clock,
        staged: &'u mut Staged,
    ) -> Unit<'u, D> {
        staged.clear();
        staged.noted.clear();
        staged.seen = None;
        Unit { engine, group, overlay, deadlines, clock, staged, newest: 0, appended: 0, at: None }
    }

    /// The partition's clock in milliseconds since 1970; it stands still while the program runs.
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        self.clock.now_ms()
    }

    /// What a key's record is.
    ///
    /// # Errors
    /// What the disk or the log says.
    pub fn inspect(&mut self, key: &[u8]) -> Result<Option<Inspected>, Failure<'static>> {
        let shape = self.shape(key)?;
        Ok(shape.map(|shape| Inspected {
            record: shape.record,
            length: shape.length(),
            version: shape.version,
            deadline_ms: shape.deadline,
        }))
    }

    /// Hands the whole of a bytes record to `take`, from where it lies if it is one entry, and says what the record is. A
    /// list is not handed over.
    ///
    /// # Errors
    /// What the disk or the log says.
    pub fn lookup(
        &mut self,
        key: &[u8],
        take: &mut dyn FnMut(&[u8]),
    ) -> Result<Option<RecordType>, Failure<'static>> {
        if self.look_at(key)? == Seen::Expired {
            return Ok(None);
        }
        if let Some((_, whole)) = self.view().whole(key).or_fail()? {
            take(whole);
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
    /// What the disk or the log says.
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

    /// Hands a range of the values of a list to `each`, in their order, as far as it has them.
    ///
    /// # Errors
    /// What the disk or the log says.
    pub fn values(
        &mut self,
        key: &[u8],
        range: Range<u64>,
        each: &mut dyn FnMut(&[u8]),
    ) -> Result<(), Failure<'static>> {
        let Some(shape) = self.shape_of(key, RecordType::List)? else { return Ok(()) };
        let range = clip(range, shape.length());
        self.view().each_value(key, &shape, range, each).or_fail()
    }

    /// Makes the record these bytes, whatever it was.
    ///
    /// # Errors
    /// A bound is passed; what the disk or the log says.
    pub fn put(&mut self, key: &[u8], value: &[u8], expiry: Expiry) -> Result<(), Failure<'static>> {
        if value.len() > VALUE_BYTES_MAX {
            let (length, limit) = (value.len() as u64, VALUE_BYTES_MAX as u32);
            return Err(Failure::ValueTooLong { length, limit });
        }
        self.change(key, Asked::Insert { value, expiry })
    }

    /// Adds bytes at the end of a bytes record; makes one if there is none.
    ///
    /// # Errors
    /// It is a list, or becomes too long; what the disk or the log says.
    pub fn extend(&mut self, key: &[u8], bytes: &[u8]) -> Result<(), Failure<'static>> {
        self.change(key, Asked::Extend { bytes })
    }

    /// Adds values at the end of a list; makes one if there is none.
    ///
    /// # Errors
    /// It is not a list, or the values are too long for one entry; what the disk or the log says.
    pub fn append<'v>(
        &mut self,
        key: &[u8],
        values: impl ExactSizeIterator<Item = &'v [u8]>,
    ) -> Result<(), Failure<'static>> {
        self.plan(key, true, |cell| operations::append::plan(cell, (values.len(), values)))
    }

    /// Keeps a range of the values of a list; none of them removes it.
    ///
    /// # Errors
    /// It is not a list, or what stays is too long to be written anew; what the disk or the log says.
    pub fn trim(&mut self, key: &[u8], keep: Range<u64>) -> Result<(), Failure<'static>> {
        if keep.is_empty() {
            return self.remove(key).map(drop);
        }
        let place = |at: u64| i64::try_from(at).unwrap_or(i64::MAX);
        let keep = AskedRange { start: place(keep.start), stop: place(keep.end) };
        self.change(key, Asked::Trim { keep })
    }

    /// Removes a record; whether there was one.
    ///
    /// # Errors
    /// What the disk or the log says.
    pub fn remove(&mut self, key: &[u8]) -> Result<bool, Failure<'static>> {
        let is_there = self.shape(key)?.is_some();
        if is_there {
            self.change(key, Asked::Remove)?;
        }
        Ok(is_there)
    }

    /// Sets the deadline of a record, in milliseconds since 1970, or takes it away. Nothing, if there is no record.
    ///
    /// # Errors
    /// There is no room for more deadlines; what the disk or the log says.
    pub fn set_deadline(&mut self, key: &[u8], deadline_ms: Option<u64>) -> Result<(), Failure<'static>> {
        if self.shape(key)?.is_none() {
            return Ok(());
        }
        self.change(key, Asked::Expire { expiry: deadline_ms.map_or(Expiry::Never, Expiry::AtMs) })
    }

    /// Hands the committed keys of one page of the index to `each`, from a cursor on (0 begins), and returns the next
    /// cursor. A key that is there throughout comes at least once.
    ///
    /// # Errors
    /// What the disk says.
    pub fn scan(
        &mut self,
        cursor: u32,
        each: &mut dyn FnMut(&[u8]),
    ) -> Result<Option<u32>, Failure<'static>> {
        let (keys, next) = self.engine.scan(self.group.handle(), cursor).or_fail()?;
        let now_ms = self.now_ms();
        for key in &keys {
            if self.deadlines.get(key).is_none_or(|deadline| deadline > now_ms) {
                each(key);
            }
        }
        Ok(next)
    }

    /// Committed records; those whose deadline has come and that were not yet removed count.
    ///
    /// # Errors
    /// None is known.
    pub fn count(&mut self) -> Result<u64, Failure<'static>> {
        self.engine.records(self.group.handle()).or_fail()
    }

    fn view(&mut self) -> View<'_, D> {
        View {
            engine: self.engine,
            handle: self.group.handle(),
            overlay: Some(&*self.overlay).filter(|overlay| !overlay.is_empty()),
            deadlines: self.deadlines,
        }
    }

    /// Before a record is looked at: what is staged of it goes into the log, where it can be read; and if its deadline
    /// has come its removal is staged.
    #[inline]
    fn look_at(&mut self, key: &[u8]) -> Result<Seen, Failure<'static>> {
        if self.staged.is_some && self.staged.key == key {
            self.append_joined()?;
        }
        let known = self.overlay.record(key);
        if let Some(known) = known {
            self.newest = self.newest.max(known.newest());
        }
        let deadline = match known {
            Some(known) => known.shape().and_then(|shape| shape.deadline),
            None => self.deadlines.get(key),
        };
        if deadline.is_none_or(|deadline| deadline > self.clock.now_ms()) {
            return Ok(Seen::Living);
        }
        self.stage(key, &Action::Remove, None, &mut Vec::new())?;
        Ok(Seen::Expired)
    }

    fn shape(&mut self, key: &[u8]) -> Result<Option<Shape>, Failure<'static>> {
        if let Some(seen) = &self.staged.seen
            && self.staged.seen_key == key
        {
            return Ok(seen.clone());
        }
        let shape = match self.look_at(key)? {
            Seen::Living => self.view().shape(key).or_fail()?,
            Seen::Expired => return Ok(None),
        };
        self.staged.seen_key.clear();
        self.staged.seen_key.extend_from_slice(key);
        self.staged.seen = Some(shape.clone());
        Ok(shape)
    }

    fn shape_of(&mut self, key: &[u8], wanted: RecordType) -> Result<Option<Shape>, Failure<'static>> {
        match self.shape(key)? {
            Some(shape) if shape.record != wanted => Err(Failure::WrongType { found: shape.record }),
            shape => Ok(shape),
        }
    }

    fn change(&mut self, key: &[u8], change: Asked<'_>) -> Result<(), Failure<'static>> {
        let write = Write { key, condition: Condition::Always, change };
        self.plan(key, operations::depends_on_record(&write), |cell| operations::plan(cell, &write))
    }

    fn plan<'a>(
        &mut self,
        key: &[u8],
        depends_on_record: bool,
        plan: impl FnOnce(&mut Cell<'_, '_, D>) -> Planned<'a>,
    ) -> Result<(), Failure<'static>> {
        if key.is_empty() {
            return Err(What::Lengths.into());
        }
        if key.len() > KEY_BYTES_MAX {
            return Err(Failure::KeyTooLong { length: key.len() as u64, limit: KEY_BYTES_MAX as u32 });
        }
        let shape = if depends_on_record { self.shape(key)? } else { None };
        let (at, now_ms) = (self.at(), self.now_ms());
        let mut buffer = std::mem::take(&mut self.staged.made);
        buffer.clear();
        let mut cell = Cell { view: self.view(), key, shape, at, now_ms, buffer: &mut buffer };
        let planned = plan(&mut cell);
        let before = cell.shape.take();
        let result = planned.and_then(|Plan { action, outcome }| match (outcome.answer(), action) {
            (Err(failure), _) => Err(failure.into_owned()),
            (Ok(_), Action::Nothing) => Ok(()),
            (Ok(_), action) => self.stage(key, &action, before, &mut buffer),
        });
        self.staged.made = buffer;
        result
    }

    /// Puts a change where the last one was, which goes into the log: another one follows it.
    fn stage(
        &mut self,
        key: &[u8],
        action: &Action<'_>,
        before: Option<Shape>,
        made: &mut Vec<u8>,
    ) -> Result<(), Failure<'static>> {
        self.append_joined()?;
        self.staged.seen = None;
        let at = self.at();
        let list = |record: &RecordType| if *record == RecordType::List { FLAG_LIST } else { 0 };
        let note = Note { deadline: action.noted_deadline(), session: None };
        let version = at;
        let (kind, mut flags, change) = match *action {
            Action::Put { ref record, units, deadline, .. } => {
                let change = Change::Put { record: *record, units, version, deadline };
                (Kind::Put, list(record), change)
            }
            Action::Append { ref record, units, .. } => {
                (Kind::Append, list(record), Change::Append { record: *record, units, version })
            }
            Action::Remove => (Kind::Remove, 0, Change::Remove),
            Action::Trim { units, .. } => (Kind::Trim, 0, Change::Trim { units, version }),
            Action::Deadline(deadline) => (Kind::Mark, 0, Change::Deadline(deadline)),
            Action::Nothing => return Ok(()),
        };
        let staged = &mut *self.staged;
        staged.clear();
        staged.key.extend_from_slice(key);
        match *action {
            Action::Put { contents, .. } | Action::Append { contents, .. } => match contents {
                Contents::Given(bytes) => staged.payload.extend_from_slice(bytes),
                Contents::Made => std::mem::swap(&mut staged.payload, made),
            },
            Action::Trim { to, .. } => staged.payload.extend_from_slice(&to.encode()),
            Action::Deadline(_) => note.push_mark(at, &mut staged.payload),
            Action::Remove | Action::Nothing => {}
        }
        if kind != Kind::Mark && !note.is_empty() {
            note.push_trailer(at, &mut staged.payload);
            flags |= FLAG_TRAILER;
        }
        (staged.kind, staged.flags, staged.at) = (Some(kind), flags, at);
        (staged.change, staged.is_some) = (Some((change, before)), true);
        Ok(())
    }

    /// Appends what is staged, as not the last of the unit.
    fn append_joined(&mut self) -> Result<(), Failure<'static>> {
        if !self.staged.is_some {
            return Ok(());
        }
        if self.appended >= UNIT_CHANGES_MAX {
            let (count, limit) = (self.appended as u64 + 1, UNIT_CHANGES_MAX as u32);
            return Err(Failure::TooMany { count, limit });
        }
        let entry = self.staged.entry();
        let entry = Entry { flags: entry.flags | FLAG_JOINED, ..entry };
        let meta = self.group.append_only(self.engine, &entry).map_err(|error| failure_of(&error))?;
        self.appended += 1;
        if self.group.commits_at_once() {
            self.staged.noted.push(&meta, &self.staged.key, &self.staged.payload);
        }
        if let Some((change, before)) = self.staged.change.take() {
            self.overlay.change(meta.index, &self.staged.key, change, before);
        }
        self.staged.clear();
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

fn clip(range: Range<u64>, length: u64) -> Range<u64> {
    let end = range.end.min(length);
    range.start.min(end)..end
}
