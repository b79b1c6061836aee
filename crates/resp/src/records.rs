//! A partition's records as a command sees them.

use std::ops::Range;

use zerohop_wire::Failure;
use zerohop_wire::ids::Timestamp;
pub use zerohop_wire::messages::RecordType;

use crate::Args;

/// The metadata of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Info {
    /// Bytes or a list.
    pub record: RecordType,
    /// Bytes, or values of a list. Never 0 for a list.
    pub length: u64,
    /// The version. It differs after every change of the record, its deadline included. Within one
    /// execution it may stay the same.
    pub version: Timestamp,
    /// When it expires, in milliseconds since 1970.
    pub deadline_ms: Option<u64>,
}

/// When a written record expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deadline {
    /// Never, whatever its deadline was.
    Never,
    /// At this time in milliseconds since 1970; always later than [`Records::now_ms`].
    AtMs(u64),
    /// Unchanged; never, if there was no record.
    Unchanged,
}

/// The records of one partition, during one execution.
///
/// All changes of one execution are one atomic batch. Later calls of the same execution see them;
/// others see them only once they are committed. If the execution ends as
/// [`ExecutionOutcome::Aborted`](crate::ExecutionOutcome::Aborted), none of them happens. Records
/// whose deadline is over ([`Records::now_ms`]) are absent. A method that fails has changed
/// nothing, and the execution ends with its failure.
///
/// Ranges are within the record: `execute` clips them by [`Records::inspect`]. Keys and values may
/// have any length that fits a command; implementations refuse what is too long for them.
pub trait Records {
    /// Milliseconds since 1970, the same during the whole execution.
    fn now_ms(&self) -> u64;

    /// The metadata of a key's record; `None` if there is none.
    fn inspect(&mut self, key: &[u8]) -> Result<Option<Info>, Failure<'static>>;

    /// Checks that no operation under way prevents a read of a record. It need not read the record.
    fn check(&mut self, key: &[u8]) -> Result<(), Failure<'static>> {
        self.inspect(key).map(drop)
    }

    /// Passes a whole bytes record to `take`, in one piece and once, and returns its metadata. A
    /// list or an absent record is not passed. `GET` uses this: an implementation may lend its
    /// buffer.
    fn lookup(
        &mut self,
        key: &[u8],
        take: &mut dyn FnMut(&[u8]),
    ) -> Result<Option<RecordType>, Failure<'static>> {
        let Some(info) = self.inspect(key)? else { return Ok(None) };
        if info.record == RecordType::Bytes {
            let mut bytes = Vec::new();
            self.read(key, 0..info.length, &mut bytes)?;
            take(&bytes);
        }
        Ok(Some(info.record))
    }

    /// Appends a range of the bytes of a bytes record to `into`.
    fn read(&mut self, key: &[u8], range: Range<u64>, into: &mut Vec<u8>) -> Result<(), Failure<'static>>;

    /// Passes a range of a list's values to `each`, in order, until it returns false.
    fn values(
        &mut self,
        key: &[u8],
        range: Range<u64>,
        each: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<(), Failure<'static>>;

    /// Sets the record to these bytes, whatever it was.
    fn put(&mut self, key: &[u8], contents: &[u8], deadline: Deadline) -> Result<(), Failure<'static>>;

    /// Adds bytes to the end of a bytes record; creates one without a deadline if there is none.
    fn extend(&mut self, key: &[u8], bytes: &[u8]) -> Result<(), Failure<'static>>;

    /// Appends values to a list; creates one without a deadline if there is none. At least one
    /// value, at most [`zerohop_wire::limits::APPEND_VALUES_MAX`].
    fn append(&mut self, key: &[u8], values: Args<'_>) -> Result<(), Failure<'static>>;

    /// Keeps only a range of the values of a list. It is never empty: an emptied list is removed.
    fn trim(&mut self, key: &[u8], keep: Range<u64>) -> Result<(), Failure<'static>>;

    /// Removes a record of either type; false if there was none.
    fn remove(&mut self, key: &[u8]) -> Result<bool, Failure<'static>>;

    /// Sets or removes the deadline of an existing record. The deadline is later than
    /// [`Records::now_ms`].
    fn set_deadline(&mut self, key: &[u8], deadline_ms: Option<u64>) -> Result<(), Failure<'static>>;

    /// Passes one page of this partition's keys to `each`, from a cursor on (0: the beginning).
    /// Returns the next page's cursor; `None` at the end. Every key that exists from the first page
    /// to the last is passed at least once. Changes of this execution may or may not be visible. A
    /// client may send any cursor: one that was never returned behaves like any other, or like the
    /// end.
    fn scan(&mut self, cursor: u32, each: &mut dyn FnMut(&[u8])) -> Result<Option<u32>, Failure<'static>>;

    /// The partition count of the keyspace as this partition knows it; 0 if unknown.
    fn partitions(&self) -> u32;

    /// The number of records; expired ones may still count, as in Redis.
    fn count(&mut self) -> u64;
}
