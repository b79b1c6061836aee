//! What an operation declares and implements: a row of the table.

use super::{OperationBody, ReadHead, WriteHead};
use crate::answer::OperationAnswer;
use crate::error::{ErrorCode, Failure, Permission};
use crate::kind::FrameKind;
use crate::state::{ApplyResult, ReadableRecord, RecordState};

/// The kind of log entry that an operation writes when it changes a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogKind {
    /// None: the operation reads.
    Nothing,
    /// The complete contents.
    Put,
    /// The contents that come behind the present ones.
    Append,
    /// No contents: the record is removed.
    Remove,
    /// The place from which a list is kept.
    Trim,
    /// A mark with the new deadline.
    Mark,
}

/// What an operation declares. `docs/protocols/wire.md` has the same rows.
#[derive(Clone, Copy, Debug)]
pub struct OperationFacts {
    /// The kind of its frames, of class 01xx for a read and 02xx for a write: its number and its name.
    pub kind: FrameKind,
    /// What the detail byte has.
    pub detail: &'static str,
    /// Its fields behind the first 8 bytes of a read or 16 of a write, with their sizes in bytes.
    pub fields: &'static str,
    /// What comes behind the key.
    pub payload: &'static str,
    /// The outcome of a success.
    pub answer: &'static str,
    /// The permissions that a token needs.
    pub needs: &'static [Permission],
    /// The entry that it writes.
    pub log: LogKind,
    /// The failures because of the record's state, beside those of a write's condition.
    pub errors: &'static [ErrorCode],
    /// The first version of the wire format that has it.
    pub since: u8,
}

impl OperationFacts {
    /// Those of a read that was there from the first version on, with nothing in the detail byte and behind the key.
    pub(super) const fn read(
        kind: FrameKind,
        fields: &'static str,
        answer: &'static str,
        errors: &'static [ErrorCode],
    ) -> OperationFacts {
        OperationFacts {
            kind,
            detail: "0",
            fields,
            payload: "none",
            answer,
            needs: &[Permission::Read],
            log: LogKind::Nothing,
            errors,
            since: 1,
        }
    }
}

/// An operation that may change a record.
pub trait WriteOperation<'a>: Copy {
    /// Its row in the table.
    const FACTS: OperationFacts;

    /// Writes all but the last piece of the payload to `out`, and returns that piece.
    ///
    /// # Errors
    /// A limit is exceeded.
    fn put(&self, head: &WriteHead<'a>, out: &mut Vec<u8>) -> Result<&'a [u8], Failure<'static>>;

    /// Decodes key and operation.
    ///
    /// # Errors
    /// The bytes are not such an operation.
    fn decode(body: OperationBody<'a>) -> Result<(&'a [u8], Self), Failure<'static>>;

    /// Bytes of the payload, about.
    fn payload_bytes(&self) -> usize {
        0
    }

    /// Whether what it does depends on the record at all, without a condition.
    fn depends_on_record(&self) -> bool {
        true
    }

    /// Operations of one class commute, and return nothing that depends on their order.
    fn commutes(&self) -> Option<u8> {
        None
    }

    /// What it does with a record.
    ///
    /// # Errors
    /// The record cannot be read, or memory is full: the write may be sent again.
    fn apply(&self, record: &mut impl RecordState) -> ApplyResult<'a>;
}

/// An operation that reads a record.
pub trait ReadOperation<'a>: Copy {
    /// Its row in the table.
    const FACTS: OperationFacts;

    /// Whether a snapshot answers it.
    const IN_SNAPSHOT: bool = false;

    /// Whether a transaction may have it.
    const IN_TRANSACTION: bool = true;

    /// Writes all but the last piece of the payload to `out`, and returns that piece.
    ///
    /// # Errors
    /// A limit is exceeded.
    fn put(&self, head: &ReadHead<'a>, out: &mut Vec<u8>) -> Result<&'a [u8], Failure<'static>>;

    /// Decodes key and operation.
    ///
    /// # Errors
    /// The bytes are not such an operation.
    fn decode(body: OperationBody<'a>) -> Result<(&'a [u8], Self), Failure<'static>>;

    /// Bytes of the payload, about.
    fn payload_bytes(&self) -> usize {
        0
    }

    /// What it answers, about the record of this key. `out` is empty, and stores the contents that the answer borrows.
    fn answer<'o>(
        &self,
        key: &[u8],
        record: &mut impl ReadableRecord,
        out: &'o mut Vec<u8>,
    ) -> OperationAnswer<'o>;
}
