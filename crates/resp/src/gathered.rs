//! Records of several partitions, gathered for the execution of one unit.
//!
//! The unit is executed over the known records. It reports which others it needs; the caller
//! fetches them, and the unit is executed again. The result is a list of changes. The caller
//! applies them in a transaction, on condition that the fetched records have not changed.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use zerohop_wire::Failure;
use zerohop_wire::limits::{APPEND_VALUES_MAX, KEY_BYTES_MAX, VALUE_BYTES_MAX};

use crate::limits::FETCHED_BYTES_MAX;
use crate::{Args, Deadline, ExecutionOutcome, Info, RecordType, Records, Scratch, Unit, execute};

/// The contents of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GatheredContents {
    /// Bytes.
    Bytes(Vec<u8>),
    /// All values of a list.
    List(Vec<Vec<u8>>),
}

/// A fetched record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchedRecord {
    /// Its metadata; `None`: there is no record.
    pub info: Option<Info>,
    /// Its contents, if they were requested.
    pub contents: Option<GatheredContents>,
}

/// One change of a record, to be applied by its partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GatheredChange {
    /// The record becomes these bytes.
    Put(Vec<u8>, Deadline),
    /// These bytes are added to the end of the record.
    Extend(Vec<u8>),
    /// These values are appended.
    Append(Vec<Vec<u8>>),
    /// Only this range of its values is kept.
    Trim(Range<u64>),
    /// It is removed.
    Remove,
    /// Its deadline is set, or removed.
    Expire(Option<u64>),
}

/// The result of an execution.
#[derive(Debug)]
pub enum GatherStep {
    /// It needs the metadata of these records, or (`true`) their contents.
    NeedsRecords(BTreeMap<Vec<u8>, bool>),
    /// Its reply has been appended. It may be sent once these changes are applied, in this order,
    /// atomically, and while all fetched records are unchanged.
    Done(Vec<(Vec<u8>, GatheredChange)>),
    /// Its reply, an error, has been appended: there is nothing to apply.
    Failed,
}

#[derive(Clone, Debug)]
struct GatheredRecord {
    info: Option<Info>,
    contents: Option<GatheredContents>,
}

/// The records of a unit are too large to be gathered. Nothing of it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnitTooLarge {
    bytes: usize,
}

impl std::fmt::Display for UnitTooLarge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "the records of one command or MULTI over several partitions have a limit of {} MiB ({FETCHED_BYTES_MAX} bytes), and these \
             have {} or more: name fewer keys at once; nothing was done",
            FETCHED_BYTES_MAX >> 20,
            self.bytes
        )
    }
}

impl std::error::Error for UnitTooLarge {}

/// See the module.
#[derive(Debug, Default)]
pub struct GatheredRecords {
    found: BTreeMap<Vec<u8>, FetchedRecord>,
    bytes: usize,
}

impl GatheredRecords {
    /// Adds a fetched record.
    ///
    /// # Errors Together with the others it is too large: [`FETCHED_BYTES_MAX`].
    pub fn add_record(&mut self, key: Vec<u8>, found: FetchedRecord) -> Result<(), UnitTooLarge> {
        self.bytes += match &found.contents {
            None => 0,
            Some(GatheredContents::Bytes(bytes)) => bytes.len(),
            Some(GatheredContents::List(values)) => {
                values.iter().map(|value| value.len() + size_of::<Vec<u8>>()).sum()
            }
        };
        if self.bytes > FETCHED_BYTES_MAX {
            return Err(UnitTooLarge { bytes: self.bytes });
        }
        self.found.insert(key, found);
        Ok(())
    }

    /// Executes a unit over the known records.
    pub fn execute(
        &self,
        unit: &Unit<'_>,
        now_ms: u64,
        scratch: &mut Scratch,
        reply: &mut Vec<u8>,
    ) -> GatherStep {
        let begin = reply.len();
        let mut over = OverlaidRecords {
            now_ms,
            found: &self.found,
            records: BTreeMap::new(),
            changes: Vec::new(),
            missing: BTreeMap::new(),
        };
        let outcome = execute(unit, &mut over, scratch, reply);
        if !over.missing.is_empty() {
            reply.truncate(begin);
            // What one key needs, all keys of the unit need: everything is fetched in one round.
            let looks = unit.needs_contents() || over.missing.values().any(|looks| *looks);
            let unknown = |key: &&&[u8]| {
                self.found
                    .get(**key)
                    .is_none_or(|found| looks && found.contents.is_none() && found.info.is_some())
            };
            let keys: BTreeSet<&[u8]> = unit.keys();
            let mut wants: BTreeMap<Vec<u8>, bool> =
                keys.iter().filter(unknown).map(|key| (key.to_vec(), looks)).collect();
            wants.append(&mut over.missing);
            return GatherStep::NeedsRecords(wants);
        }
        match outcome {
            ExecutionOutcome::Done => GatherStep::Done(over.changes),
            ExecutionOutcome::Aborted(_) | ExecutionOutcome::Refused => GatherStep::Failed,
            ExecutionOutcome::Wait { .. } | ExecutionOutcome::Paged(_) => {
                crate::failure_reply(&zerohop_wire::BadRequestReason::Unexpected.into(), reply);
                GatherStep::Failed
            }
        }
    }
}

/// The records during one execution.
struct OverlaidRecords<'g> {
    now_ms: u64,
    found: &'g BTreeMap<Vec<u8>, FetchedRecord>,
    /// Changed records, in their current state.
    records: BTreeMap<Vec<u8>, GatheredRecord>,
    changes: Vec<(Vec<u8>, GatheredChange)>,
    missing: BTreeMap<Vec<u8>, bool>,
}

impl OverlaidRecords<'_> {
    /// Ends the execution, which is repeated once this record is known.
    fn require_record(&mut self, key: &[u8], looks: bool) -> Failure<'static> {
        self.missing.insert(key.to_vec(), looks);
        Failure::Busy { retry_after_ms: 0 }
    }

    fn record(&mut self, key: &[u8]) -> Result<&mut GatheredRecord, Failure<'static>> {
        if !self.records.contains_key(key) {
            let Some(found) = self.found.get(key) else { return Err(self.require_record(key, false)) };
            let living = |info: &Info| info.deadline_ms.is_none_or(|deadline| deadline > self.now_ms);
            let record = GatheredRecord { info: found.info.filter(living), contents: found.contents.clone() };
            self.records.insert(key.to_vec(), record);
        }
        self.records.get_mut(key).ok_or(Failure::NotFound)
    }

    fn contents(&mut self, key: &[u8]) -> Result<&GatheredContents, Failure<'static>> {
        if self.record(key)?.contents.is_none() {
            return Err(self.require_record(key, true));
        }
        self.record(key)?.contents.as_ref().ok_or(Failure::NotFound)
    }

    fn change(&mut self, key: &[u8], change: GatheredChange) -> Result<(), Failure<'static>> {
        if key.is_empty() || key.len() > KEY_BYTES_MAX {
            return Err(Failure::KeyTooLong { length: key.len() as u64, limit: KEY_BYTES_MAX as u32 });
        }
        self.changes.push((key.to_vec(), change));
        Ok(())
    }

    fn is(&mut self, key: &[u8], requested: RecordType) -> Result<Option<Info>, Failure<'static>> {
        match self.record(key)?.info {
            Some(info) if info.record != requested => Err(Failure::WrongType { found: info.record }),
            info => Ok(info),
        }
    }
}

fn check_length(length: u64) -> Result<(), Failure<'static>> {
    let limit = VALUE_BYTES_MAX as u32;
    if length > u64::from(limit) { Err(Failure::ValueTooLong { length, limit }) } else { Ok(()) }
}

fn within<T>(values: &[T], range: &Range<u64>) -> Range<usize> {
    let end = usize::try_from(range.end).unwrap_or(usize::MAX).min(values.len());
    usize::try_from(range.start).unwrap_or(usize::MAX).min(end)..end
}

impl Records for OverlaidRecords<'_> {
    fn now_ms(&self) -> u64 {
        self.now_ms
    }

    fn inspect(&mut self, key: &[u8]) -> Result<Option<Info>, Failure<'static>> {
        Ok(self.record(key)?.info)
    }

    fn read(&mut self, key: &[u8], range: Range<u64>, into: &mut Vec<u8>) -> Result<(), Failure<'static>> {
        self.is(key, RecordType::Bytes)?.ok_or(Failure::NotFound)?;
        match self.contents(key)? {
            GatheredContents::Bytes(bytes) => into.extend_from_slice(&bytes[within(bytes, &range)]),
            GatheredContents::List(_) => return Err(Failure::WrongType { found: RecordType::List }),
        }
        Ok(())
    }

    fn values(
        &mut self,
        key: &[u8],
        range: Range<u64>,
        each: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<(), Failure<'static>> {
        self.is(key, RecordType::List)?.ok_or(Failure::NotFound)?;
        match self.contents(key)? {
            GatheredContents::List(values) => {
                let _ = values[within(values, &range)].iter().all(|value| each(value));
            }
            GatheredContents::Bytes(_) => return Err(Failure::WrongType { found: RecordType::Bytes }),
        }
        Ok(())
    }

    fn put(&mut self, key: &[u8], contents: &[u8], deadline: Deadline) -> Result<(), Failure<'static>> {
        check_length(contents.len() as u64)?;
        let deadline_ms = match deadline {
            Deadline::Never => None,
            Deadline::AtMs(at) => Some(at),
            Deadline::Unchanged => self.record(key)?.info.and_then(|info| info.deadline_ms),
        };
        self.change(key, GatheredChange::Put(contents.to_vec(), deadline))?;
        let version = self.found.get(key).and_then(|found| found.info).map(|info| info.version);
        let info = Info {
            record: RecordType::Bytes,
            length: contents.len() as u64,
            version: version.unwrap_or_default(),
            deadline_ms,
        };
        let contents = Some(GatheredContents::Bytes(contents.to_vec()));
        self.records.insert(key.to_vec(), GatheredRecord { info: Some(info), contents });
        Ok(())
    }

    fn extend(&mut self, key: &[u8], bytes: &[u8]) -> Result<(), Failure<'static>> {
        let before = self.is(key, RecordType::Bytes)?;
        let length = before.map_or(0, |info| info.length) + bytes.len() as u64;
        check_length(length)?;
        self.change(key, GatheredChange::Extend(bytes.to_vec()))?;
        let record = self.record(key)?;
        match (&mut record.info, &mut record.contents) {
            (Some(info), contents) => {
                info.length = length;
                if let Some(GatheredContents::Bytes(all)) = contents {
                    all.extend_from_slice(bytes);
                }
            }
            (info, contents) => {
                *info = Some(info_of(RecordType::Bytes, length));
                *contents = Some(GatheredContents::Bytes(bytes.to_vec()));
            }
        }
        Ok(())
    }

    fn append(&mut self, key: &[u8], values: Args<'_>) -> Result<(), Failure<'static>> {
        let before = self.is(key, RecordType::List)?;
        values.iter().try_for_each(|value| check_length(value.len() as u64))?;
        if values.len() > APPEND_VALUES_MAX as usize {
            let limit = APPEND_VALUES_MAX;
            return Err(Failure::TooMany { count: values.len() as u64, limit });
        }
        let values: Vec<Vec<u8>> = values.iter().map(<[u8]>::to_vec).collect();
        let length = before.map_or(0, |info| info.length) + values.len() as u64;
        self.change(key, GatheredChange::Append(values.clone()))?;
        let record = self.record(key)?;
        match (&mut record.info, &mut record.contents) {
            (Some(info), contents) => {
                info.length = length;
                if let Some(GatheredContents::List(all)) = contents {
                    all.extend(values);
                }
            }
            (info, contents) => {
                *info = Some(info_of(RecordType::List, length));
                *contents = Some(GatheredContents::List(values));
            }
        }
        Ok(())
    }

    fn trim(&mut self, key: &[u8], keep: Range<u64>) -> Result<(), Failure<'static>> {
        self.is(key, RecordType::List)?.ok_or(Failure::NotFound)?;
        self.change(key, GatheredChange::Trim(keep.clone()))?;
        let record = self.record(key)?;
        if keep.is_empty() {
            *record = GatheredRecord { info: None, contents: None };
            return Ok(());
        }
        if let Some(info) = &mut record.info {
            info.length = keep.end - keep.start;
        }
        if let Some(GatheredContents::List(all)) = &mut record.contents {
            *all = all[within(all, &keep)].to_vec();
        }
        Ok(())
    }

    fn remove(&mut self, key: &[u8]) -> Result<bool, Failure<'static>> {
        if self.record(key)?.info.is_none() {
            return Ok(false);
        }
        self.change(key, GatheredChange::Remove)?;
        *self.record(key)? = GatheredRecord { info: None, contents: None };
        Ok(true)
    }

    fn set_deadline(&mut self, key: &[u8], deadline_ms: Option<u64>) -> Result<(), Failure<'static>> {
        self.record(key)?.info.ok_or(Failure::NotFound)?;
        self.change(key, GatheredChange::Expire(deadline_ms))?;
        if let Some(info) = &mut self.record(key)?.info {
            info.deadline_ms = deadline_ms;
        }
        Ok(())
    }

    fn scan(&mut self, _cursor: u32, _each: &mut dyn FnMut(&[u8])) -> Result<Option<u32>, Failure<'static>> {
        Err(zerohop_wire::BadRequestReason::Unexpected.into())
    }

    fn partitions(&self) -> u32 {
        0
    }

    fn count(&mut self) -> u64 {
        self.records.len() as u64
    }
}

fn info_of(record: RecordType, length: u64) -> Info {
    Info { record, length, version: Default::default(), deadline_ms: None }
}
