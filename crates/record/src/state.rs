//! What an operation may see of its record, and what it answers: the change to write, and the outcome.
//!
//! The partition, its snapshots and the client's overlay of a transaction each implement [`ReadableRecord`] over their own form of a
//! record. They apply the same operations, so that one record means the same to all of them.

use std::ops::Range;

use crate::answer::Outcome;
use crate::blob::BlobStamp;
use crate::error::Failure;
use crate::ids::Timestamp;
use crate::limits::VALUE_BYTES_MAX;
use crate::record::{Expiry, RecordType};

/// The present record of a key, or its absence.
pub trait ReadableRecord {
    /// Its type; `None` if there is no record.
    fn record_type(&self) -> Option<RecordType>;

    /// Its version; [`Timestamp::ZERO`] if there is no record.
    fn version(&self) -> Timestamp;

    /// Its length in units: bytes, or values of a list; 0 if there is no record.
    fn length(&self) -> u64;

    /// When it expires, in milliseconds since 1970.
    fn deadline(&self) -> Option<u64>;

    /// Of a chunk, the blob stamp of its last write or truncation.
    fn stamp(&self) -> Option<BlobStamp> {
        None
    }

    /// Appends a range of the bytes of a bytes record or a chunk to `out`. The range lies within the record; that of a chunk may also be empty behind it.
    ///
    /// # Errors
    /// The record cannot be read.
    fn read_bytes(&mut self, bytes: Range<u64>, out: &mut Vec<u8>) -> Result<(), Failure<'static>>;

    /// Appends values of a list to `out`, each with its length before it (4 bytes): at most `count_max`, and until `bytes_max` bytes
    /// would be exceeded, but at least one. Returns their number.
    ///
    /// # Errors
    /// The record cannot be read.
    fn read_values(
        &mut self,
        values: Range<u64>,
        limits: (u32, usize),
        out: &mut Vec<u8>,
    ) -> Result<u32, Failure<'static>>;

    /// Appends a range of a bytes record to `out`, which `range` chooses by its length; nothing if there is no record.
    ///
    /// # Errors
    /// The record has another type, or cannot be read.
    fn only_bytes(
        &mut self,
        range: impl FnOnce(u64) -> Range<u64>,
        out: &mut Vec<u8>,
    ) -> Result<(), Failure<'static>> {
        match self.record_type() {
            None => Ok(()),
            Some(RecordType::Bytes) => self.read_bytes(range(self.length()), out),
            Some(found) => Err(Failure::WrongType { found }),
        }
    }

    /// The answer of a read that returns a number.
    fn done(&self, number: u64) -> Outcome<'static> {
        Outcome::Done { version: self.version(), number }
    }
}

/// The present record of a key, and the environment of one write.
pub trait RecordState {
    /// The form of the record.
    type Record: ReadableRecord;

    /// The record.
    fn record(&self) -> &Self::Record;

    /// The record, and a buffer for contents that the operation creates ([`Contents::Buffered`]); the buffer is empty at first.
    fn record_and_buffer(&mut self) -> (&mut Self::Record, &mut Vec<u8>);

    /// The version of the record after this write, if the write changes it.
    fn next_version(&self) -> Timestamp;

    /// The deadline that an expiry means now, in milliseconds since 1970.
    ///
    /// # Errors
    /// There is no memory for one more deadline.
    fn deadline_of(&self, expiry: Expiry) -> Result<Option<u64>, Failure<'static>>;

    /// The longest bytes record that an operation may make by adding to it.
    fn bytes_max(&self) -> u64 {
        VALUE_BYTES_MAX as u64
    }

    /// See [`RecordState::record_and_buffer`].
    #[inline]
    fn buffer(&mut self) -> &mut Vec<u8> {
        self.record_and_buffer().1
    }

    /// Appends the bytes of the record, if there is one, to the buffer.
    ///
    /// # Errors
    /// The record cannot be read.
    fn load(&mut self) -> Result<(), Failure<'static>> {
        let (record, buffer) = self.record_and_buffer();
        record.only_bytes(|length| 0..length, buffer)
    }

    /// See [`ReadableRecord::record_type`].
    #[inline]
    fn record_type(&self) -> Option<RecordType> {
        self.record().record_type()
    }

    /// See [`ReadableRecord::version`].
    #[inline]
    fn version(&self) -> Timestamp {
        self.record().version()
    }

    /// See [`ReadableRecord::length`].
    #[inline]
    fn length(&self) -> u64 {
        self.record().length()
    }

    /// See [`ReadableRecord::deadline`].
    #[inline]
    fn deadline(&self) -> Option<u64> {
        self.record().deadline()
    }

    /// Whether there is a record.
    fn exists(&self) -> bool {
        self.record_type().is_some()
    }

    /// Errors: the record has another type.
    fn check_type(&self, requested: RecordType) -> Result<(), ApplyOutcome> {
        match self.record_type() {
            Some(found) if found != requested => Err(ApplyOutcome::WrongType(found)),
            _ => Ok(()),
        }
    }

    /// The outcome of a write that changes the record.
    fn done(&self, number: u64) -> ApplyOutcome {
        ApplyOutcome::Done { version: self.next_version(), number }
    }

    /// The outcome of a write that found the record as wanted, or absent.
    fn unchanged(&self, number: u64) -> ApplyOutcome {
        ApplyOutcome::Done { version: self.version(), number }
    }
}

/// The contents of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contents<'a> {
    /// As they arrived in the request.
    AsReceived(&'a [u8]),
    /// In the buffer of the [`RecordState`].
    Buffered,
}

/// How a write changes its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<'a> {
    /// The record becomes these contents.
    Put {
        /// Its type.
        record: RecordType,
        /// Its length in units.
        units: u64,
        /// Its contents; of a list its number of values (4 bytes), then each value with its length before it (4 bytes).
        contents: Contents<'a>,
        /// When it expires, in milliseconds since 1970.
        deadline: Option<u64>,
    },
    /// The record is removed.
    Remove,
    /// The record is removed. Its contents are in the buffer and go into the log entry, for the answer of a repeated request.
    Take,
    /// These contents come behind the present ones.
    Append {
        /// Its type.
        record: RecordType,
        /// Their length in units.
        units: u64,
        /// As for [`Change::Put`].
        contents: Contents<'a>,
    },
    /// So many units, fewer than there are, are removed at the front.
    DropFront(u64),
    /// The record expires then, or never.
    Deadline(Option<u64>),
    /// The record stays as it is.
    Nothing,
}

/// The outcome of a write: done, or refused because of the record's state.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    missing_docs,
    reason = "each is the outcome, or the failure, of the same name that the client receives"
)]
pub enum ApplyOutcome {
    Done { version: Timestamp, number: u64 },
    Counter { version: Timestamp, value: i64 },
    RemovedRecord { version: Timestamp, record: RecordType, contents: Box<[u8]> },
    NotFound,
    WrongType(RecordType),
    CompareFailed { version: Timestamp, seen: Option<Box<[u8]>> },
    NotANumber,
    Overflow,
    ValueTooLong { length: u64, limit: u32 },
    TooMany { count: u64, limit: u32 },
}

/// A change, and the outcome to answer once the change is committed.
#[derive(Debug)]
pub struct EvaluatedWrite<'a> {
    /// The change.
    pub change: Change<'a>,
    /// The outcome.
    pub outcome: ApplyOutcome,
}

/// What an operation does, or the reason why that cannot be determined. Such a failure is not an outcome: the request may be sent
/// again.
pub type ApplyResult<'a> = Result<EvaluatedWrite<'a>, Failure<'static>>;

impl EvaluatedWrite<'_> {
    /// The record stays as it is: the write is refused, or there is nothing to do.
    #[must_use]
    pub fn nothing(outcome: ApplyOutcome) -> EvaluatedWrite<'static> {
        EvaluatedWrite { change: Change::Nothing, outcome }
    }
}

impl<'a> EvaluatedWrite<'a> {
    /// The record becomes the bytes in the buffer, and keeps its expiry.
    pub fn rewritten(record: &mut impl RecordState, outcome: ApplyOutcome) -> EvaluatedWrite<'a> {
        let (units, deadline) = (record.buffer().len() as u64, record.deadline());
        let contents = Contents::Buffered;
        EvaluatedWrite {
            change: Change::Put { record: RecordType::Bytes, units, contents, deadline },
            outcome,
        }
    }
}
