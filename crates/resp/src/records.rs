//! What a command sees of the records of one partition.

use std::ops::Range;

use zerohop_wire::Failure;
use zerohop_wire::ids::Timestamp;
pub use zerohop_wire::messages::RecordType;

use crate::Args;

/// What a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Info {
    /// Bytes or a list.
    pub record: RecordType,
    /// Bytes, or values of a list. Never 0 for a list.
    pub length: u64,
    /// The version: it differs after every change of the record, its deadline included. Within one execution it may stay
    /// what it was before.
    pub version: Timestamp,
    /// When it ceases to be, in milliseconds since 1970.
    pub deadline_ms: Option<u64>,
}

/// When a record that is written ceases to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deadline {
    /// Never, whatever it had before.
    Never,
    /// At this time in milliseconds since 1970; always later than [`Records::now_ms`].
    AtMs(u64),
    /// As it had before; never, if there was no record.
    Keep,
}

/// The records of one partition, during one execution.
///
/// All changes of one execution are one atomic unit: later calls of the same execution see them, nobody else does before
/// they are committed, and if the execution ends as [`ExecutionOutcome::Aborted`](crate::ExecutionOutcome::Aborted) none of them happens.
/// Records whose deadline is over ([`Records::now_ms`]) are absent. A method that fails has changed nothing, and the
/// execution ends with its failure.
///
/// Ranges are within the record: `execute` clips them to what [`Records::inspect`] says. Keys and values may be of any
/// length that fits a command: implementations refuse what is too long for them.
pub trait Records {
    /// Milliseconds since 1970, the same during the whole execution.
    fn now_ms(&self) -> u64;

    /// What the record of a key is; `None` if there is none.
    fn inspect(&mut self, key: &[u8]) -> Result<Option<Info>, Failure<'static>>;

    /// Makes sure that nothing that is under way stands in the way of reading a record. An implementation need not read it.
    fn check(&mut self, key: &[u8]) -> Result<(), Failure<'static>> {
        self.inspect(key).map(drop)
    }

    /// Hands the whole of a bytes record to `take`, in one piece and once, and says what the record is. A list, or none,
    /// is not handed over. This is the way of `GET`: an implementation may lend what it has in memory.
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

    /// Hands a range of the values of a list to `each`, in their order, for as long as that says true.
    fn values(
        &mut self,
        key: &[u8],
        range: Range<u64>,
        each: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<(), Failure<'static>>;

    /// Makes the record these bytes, whatever it was.
    fn put(&mut self, key: &[u8], contents: &[u8], deadline: Deadline) -> Result<(), Failure<'static>>;

    /// Adds bytes to the end of a bytes record; makes one, without a deadline, if there is none.
    fn extend(&mut self, key: &[u8], bytes: &[u8]) -> Result<(), Failure<'static>>;

    /// Adds values to the end of a list; makes one, without a deadline, if there is none. At least one value, at most
    /// [`zerohop_wire::limits::APPEND_VALUES_MAX`].
    fn append(&mut self, key: &[u8], values: Args<'_>) -> Result<(), Failure<'static>>;

    /// Keeps only a range of the values of a list. It is never empty: an emptied list is removed.
    fn trim(&mut self, key: &[u8], keep: Range<u64>) -> Result<(), Failure<'static>>;

    /// Removes a record of either type; false if there was none.
    fn remove(&mut self, key: &[u8]) -> Result<bool, Failure<'static>>;

    /// Sets or takes away the deadline of a record that is there. The deadline is later than [`Records::now_ms`].
    fn set_deadline(&mut self, key: &[u8], deadline_ms: Option<u64>) -> Result<(), Failure<'static>>;

    /// Hands one page of the keys of this partition to `each`, from a cursor on (0 is the beginning), and says where the
    /// next page begins; `None` at the end. Every key that is there from the first page to the last is handed over at
    /// least once. Changes of this execution may or may not be seen. A cursor comes from a client and may be any number:
    /// one that was never given out is as good as any other, or as the end.
    fn scan(&mut self, cursor: u32, each: &mut dyn FnMut(&[u8])) -> Result<Option<u32>, Failure<'static>>;

    /// How many partitions the keyspace has, as this one of them knows it; 0 if it does not know.
    fn partitions(&self) -> u32;

    /// How many records there are; those whose deadline is over may still count, as in Redis.
    fn count(&mut self) -> u64;
}
