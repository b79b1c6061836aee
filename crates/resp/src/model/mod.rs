//! Records and a cluster in memory, simple rather than fast, for tests and fuzzers.

mod world;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use zerohop_wire::Failure;
use zerohop_wire::ids::Timestamp;
use zerohop_wire::limits::{APPEND_VALUES_MAX, KEY_BYTES_MAX, VALUE_BYTES_MAX};

pub use crate::GatheredContents;
use crate::{Args, Deadline, Info, PastRecords, RecordType, Records};

pub use world::{AbsentKeyspaces, ModelWorld, TIME_OUT_MS};

/// A record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelRecord {
    /// Its contents.
    pub contents: GatheredContents,
    /// The number of its last change; it only rises.
    pub version: Timestamp,
    /// Its deadline.
    pub deadline_ms: Option<u64>,
}

/// The records of one partition. The caller undoes an aborted execution with
/// [`ModelRecords::snapshot`] and [`ModelRecords::restore`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelRecords {
    /// The current time.
    pub now_ms: u64,
    /// The disk is full: writes fail.
    pub is_full: bool,
    /// The partition count of the keyspace; 0: unknown.
    pub partitions: u32,
    changes: u64,
    /// Shared with copies of the state: a copy before each unit costs no contents.
    records: BTreeMap<Vec<u8>, Arc<ModelRecord>>,
}

/// Keys on one page of a scan: few, so that tests see many pages.
const PAGE_KEYS: usize = 3;

impl ModelRecords {
    /// The records with some keys.
    pub(crate) fn only(&self, is_wanted: impl Fn(&[u8]) -> bool) -> ModelRecords {
        let mut some = self.clone();
        some.records.retain(|key, _| is_wanted(key));
        some
    }

    /// No records, at this time.
    #[must_use]
    pub fn new(now_ms: u64) -> ModelRecords {
        ModelRecords { now_ms, ..ModelRecords::default() }
    }

    /// A copy of the whole state.
    #[must_use]
    pub fn snapshot(&self) -> ModelRecords {
        self.clone()
    }

    /// Restores a copy; only the count of changes continues.
    pub fn restore(&mut self, before: ModelRecords) {
        *self = ModelRecords { changes: self.changes, ..before };
    }

    /// A record, unless it is absent or expired.
    #[must_use]
    pub fn get(&self, key: &[u8]) -> Option<&ModelRecord> {
        let record = self.records.get(key).map(Arc::as_ref);
        record.filter(|record| record.deadline_ms.is_none_or(|at| at > self.now_ms))
    }

    /// Keys of the records that exist.
    pub fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.records.keys().map(Vec::as_slice).filter(|key| self.get(key).is_some())
    }

    fn list(&self, key: &[u8]) -> Result<&Vec<Vec<u8>>, Failure<'static>> {
        match self.get(key).map(|record| &record.contents) {
            Some(GatheredContents::List(values)) => Ok(values),
            Some(GatheredContents::Bytes(_)) => Err(Failure::WrongType { found: RecordType::Bytes }),
            None => Err(Failure::NotFound),
        }
    }

    fn bytes(&self, key: &[u8]) -> Result<&[u8], Failure<'static>> {
        match self.get(key).map(|record| &record.contents) {
            Some(GatheredContents::Bytes(bytes)) => Ok(bytes),
            Some(GatheredContents::List(_)) => Err(Failure::WrongType { found: RecordType::List }),
            None => Err(Failure::NotFound),
        }
    }

    fn change(
        &mut self,
        key: &[u8],
        contents: GatheredContents,
        deadline_ms: Option<u64>,
    ) -> Result<(), Failure<'static>> {
        if self.is_full {
            return Err(Failure::DiskFull);
        }
        if key.is_empty() || key.len() > KEY_BYTES_MAX {
            return Err(Failure::KeyTooLong { length: key.len() as u64, limit: KEY_BYTES_MAX as u32 });
        }
        let longest = match &contents {
            GatheredContents::Bytes(bytes) => bytes.len(),
            GatheredContents::List(values) => values.iter().map(Vec::len).max().unwrap_or(0),
        };
        if longest > VALUE_BYTES_MAX {
            return Err(Failure::ValueTooLong { length: longest as u64, limit: VALUE_BYTES_MAX as u32 });
        }
        assert!(contents != GatheredContents::List(Vec::new()), "a list that has become empty is removed");
        assert!(deadline_ms.is_none_or(|at| at > self.now_ms), "a deadline that is over is a removal");
        self.changes += 1;
        let version = Timestamp(self.changes);
        self.records.insert(key.to_vec(), Arc::new(ModelRecord { contents, version, deadline_ms }));
        Ok(())
    }

    fn deadline_of(&self, key: &[u8]) -> Option<u64> {
        self.get(key).and_then(|record| record.deadline_ms)
    }
}

impl PastRecords for ModelRecords {
    fn lookup(
        &mut self,
        key: &[u8],
        take: &mut dyn FnMut(&[u8]),
    ) -> Result<Option<RecordType>, Failure<'static>> {
        Records::lookup(self, key, take)
    }

    fn values(
        &mut self,
        key: &[u8],
        range: Range<u64>,
        each: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<(), Failure<'static>> {
        Records::values(self, key, range, each)
    }
}

impl Records for ModelRecords {
    fn now_ms(&self) -> u64 {
        self.now_ms
    }

    fn inspect(&mut self, key: &[u8]) -> Result<Option<Info>, Failure<'static>> {
        Ok(self.get(key).map(|record| {
            let (kind, length) = match &record.contents {
                GatheredContents::Bytes(bytes) => (RecordType::Bytes, bytes.len()),
                GatheredContents::List(values) => (RecordType::List, values.len()),
            };
            Info {
                record: kind,
                length: length as u64,
                version: record.version,
                deadline_ms: record.deadline_ms,
            }
        }))
    }

    fn read(&mut self, key: &[u8], range: Range<u64>, into: &mut Vec<u8>) -> Result<(), Failure<'static>> {
        // A range out of bounds panics: a command must not ask for it.
        into.extend_from_slice(&self.bytes(key)?[range.start as usize..range.end as usize]);
        Ok(())
    }

    fn values(
        &mut self,
        key: &[u8],
        range: Range<u64>,
        each: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<(), Failure<'static>> {
        let values = &self.list(key)?[range.start as usize..range.end as usize];
        let _ = values.iter().all(|value| each(value));
        Ok(())
    }

    fn put(&mut self, key: &[u8], contents: &[u8], deadline: Deadline) -> Result<(), Failure<'static>> {
        let deadline_ms = match deadline {
            Deadline::Never => None,
            Deadline::AtMs(at) => Some(at),
            Deadline::Unchanged => self.deadline_of(key),
        };
        self.change(key, GatheredContents::Bytes(contents.to_vec()), deadline_ms)
    }

    fn extend(&mut self, key: &[u8], bytes: &[u8]) -> Result<(), Failure<'static>> {
        let mut all = match self.bytes(key) {
            Err(Failure::NotFound) => Vec::new(),
            there => there?.to_vec(),
        };
        all.extend_from_slice(bytes);
        self.change(key, GatheredContents::Bytes(all), self.deadline_of(key))
    }

    fn append(&mut self, key: &[u8], values: Args<'_>) -> Result<(), Failure<'static>> {
        assert!(
            !values.is_empty() && values.len() <= APPEND_VALUES_MAX as usize,
            "an append of 1 to the limit"
        );
        let mut all = match self.list(key) {
            Err(Failure::NotFound) => Vec::new(),
            there => there?.clone(),
        };
        all.extend(values.iter().map(<[u8]>::to_vec));
        self.change(key, GatheredContents::List(all), self.deadline_of(key))
    }

    fn trim(&mut self, key: &[u8], keep: Range<u64>) -> Result<(), Failure<'static>> {
        let kept = self.list(key)?[keep.start as usize..keep.end as usize].to_vec();
        self.change(key, GatheredContents::List(kept), self.deadline_of(key))
    }

    fn remove(&mut self, key: &[u8]) -> Result<bool, Failure<'static>> {
        let was_there = self.get(key).is_some();
        self.records.remove(key);
        self.changes += u64::from(was_there);
        Ok(was_there)
    }

    fn set_deadline(&mut self, key: &[u8], deadline_ms: Option<u64>) -> Result<(), Failure<'static>> {
        let record = self.get(key).ok_or(Failure::NotFound)?;
        self.change(key, record.contents.clone(), deadline_ms)
    }

    fn scan(&mut self, cursor: u32, each: &mut dyn FnMut(&[u8])) -> Result<Option<u32>, Failure<'static>> {
        // Keys removed between two pages shift the later ones. From last to first, none is missed.
        let keys: Vec<&[u8]> = self.keys().collect();
        let end = if cursor == 0 { keys.len() } else { keys.len().min(cursor as usize) };
        let begin = end.saturating_sub(PAGE_KEYS);
        keys[begin..end].iter().for_each(|key| each(key));
        Ok((begin > 0).then_some(begin as u32))
    }

    fn partitions(&self) -> u32 {
        self.partitions
    }

    fn count(&mut self) -> u64 {
        self.keys().count() as u64
    }
}
