//! The work of a transaction in one partition: bytes of records that its commands read, copy and
//! write.

use std::ops::Range;

use zerohop_wire::{BadRequestReason, Failure};

use crate::limits::TRANSACTION_WORK_BYTES_MAX;
use crate::{Args, Deadline, Info, RecordType, Records};

/// Records that count the bytes of all operations.
pub(super) struct CountedRecords<'r> {
    records: &'r mut dyn Records,
    left: u64,
    /// The limit was exceeded; this is the cause of any failure.
    pub(super) is_over: bool,
}

impl<'r> CountedRecords<'r> {
    pub(super) fn new(records: &'r mut dyn Records) -> CountedRecords<'r> {
        CountedRecords { records, left: TRANSACTION_WORK_BYTES_MAX as u64, is_over: false }
    }

    /// The error of a transaction over the limit.
    pub(super) fn text() -> String {
        format!(
            "ERR the transaction goes through more than {TRANSACTION_WORK_BYTES_MAX} bytes of records, which is the limit: use several; \
             nothing was done"
        )
    }

    fn spend(&mut self, bytes: u64) -> Result<(), Failure<'static>> {
        match self.left.checked_sub(bytes) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => {
                (self.left, self.is_over) = (0, true);
                Err(BadRequestReason::Unexpected.into())
            }
        }
    }
}

impl Records for CountedRecords<'_> {
    fn now_ms(&self) -> u64 {
        self.records.now_ms()
    }

    fn inspect(&mut self, key: &[u8]) -> Result<Option<Info>, Failure<'static>> {
        self.records.inspect(key)
    }

    fn lookup(
        &mut self,
        key: &[u8],
        take: &mut dyn FnMut(&[u8]),
    ) -> Result<Option<RecordType>, Failure<'static>> {
        let mut length = 0;
        let found = self.records.lookup(key, &mut |bytes| {
            length = bytes.len() as u64;
            take(bytes);
        })?;
        self.spend(length)?;
        Ok(found)
    }

    fn read(&mut self, key: &[u8], range: Range<u64>, into: &mut Vec<u8>) -> Result<(), Failure<'static>> {
        self.spend(range.end.saturating_sub(range.start))?;
        self.records.read(key, range, into)
    }

    fn values(
        &mut self,
        key: &[u8],
        range: Range<u64>,
        each: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<(), Failure<'static>> {
        let mut length = 0;
        self.records.values(key, range, &mut |value| {
            length += value.len() as u64;
            each(value)
        })?;
        self.spend(length)
    }

    fn put(&mut self, key: &[u8], contents: &[u8], deadline: Deadline) -> Result<(), Failure<'static>> {
        self.spend(contents.len() as u64)?;
        self.records.put(key, contents, deadline)
    }

    fn extend(&mut self, key: &[u8], bytes: &[u8]) -> Result<(), Failure<'static>> {
        self.spend(bytes.len() as u64)?;
        self.records.extend(key, bytes)
    }

    fn append(&mut self, key: &[u8], values: Args<'_>) -> Result<(), Failure<'static>> {
        self.spend(values.iter().map(|value| value.len() as u64).sum())?;
        self.records.append(key, values)
    }

    fn trim(&mut self, key: &[u8], keep: Range<u64>) -> Result<(), Failure<'static>> {
        self.records.trim(key, keep)
    }

    fn remove(&mut self, key: &[u8]) -> Result<bool, Failure<'static>> {
        self.records.remove(key)
    }

    fn set_deadline(&mut self, key: &[u8], deadline_ms: Option<u64>) -> Result<(), Failure<'static>> {
        self.records.set_deadline(key, deadline_ms)
    }

    fn scan(&mut self, cursor: u32, each: &mut dyn FnMut(&[u8])) -> Result<Option<u32>, Failure<'static>> {
        self.records.scan(cursor, each)
    }

    fn partitions(&self) -> u32 {
        self.records.partitions()
    }

    fn count(&mut self) -> u64 {
        self.records.count()
    }
}
