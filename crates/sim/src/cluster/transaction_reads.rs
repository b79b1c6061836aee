//! The reads and writes of transactions, as the checker sees them.

use zerohop_session::Reply;
use zerohop_session::procedures::Record;
use zerohop_wire::Failure;
use zerohop_wire::ids::Timestamp;

use crate::cycles::CheckedAction;
use crate::workload::blobs::number_of;
use crate::workload::tokens::{FILLER, token};
use crate::workload::transactional::{ClassedKey, KeyClass, TransactionStep};

/// The result of a read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ReadResult {
    Absent,
    List(Timestamp, Vec<u64>),
    Value(Timestamp, u64),
    Number(Timestamp, i64),
}

impl ReadResult {
    pub(super) fn version(&self) -> Timestamp {
        match self {
            ReadResult::Absent => Timestamp::ZERO,
            ReadResult::List(version, _) | ReadResult::Value(version, _) | ReadResult::Number(version, _) => {
                *version
            }
        }
    }
}

/// A write as the checker sees it, before its version is known.
pub(super) fn intended(step: TransactionStep) -> Option<CheckedAction> {
    match step {
        TransactionStep::Append(key, value) => Some(CheckedAction::Append { key: key.id(), value }),
        TransactionStep::Put { key, value, .. } => {
            Some(CheckedAction::Write { key: key.id(), value, version: None })
        }
        TransactionStep::Make { key, value } if key.class == KeyClass::Register => {
            Some(CheckedAction::Write { key: key.id(), value, version: None })
        }
        _ => None,
    }
}

/// A read as the checker sees it. An absent register is one that was never written.
pub(super) fn read_of(key: ClassedKey, got: &ReadResult) -> Option<CheckedAction> {
    let key_id = key.id();
    match (key.class, got) {
        (KeyClass::List, ReadResult::List(_, values)) => {
            Some(CheckedAction::Read { key: key_id, values: values.clone() })
        }
        (KeyClass::List, _) => Some(CheckedAction::Read { key: key_id, values: Vec::new() }),
        (KeyClass::Register, ReadResult::Value(version, value)) => {
            Some(CheckedAction::Look { key: key_id, value: *value, version: version.0 })
        }
        (KeyClass::Register, _) => Some(CheckedAction::Look { key: key_id, value: 0, version: 0 }),
        _ => None,
    }
}

/// The result of a read by the answer; `None` if no such result can exist.
pub(super) fn read_result(key: ClassedKey, answer: &Result<Reply, Failure<'static>>) -> Option<ReadResult> {
    match (key.class, answer) {
        (_, Err(Failure::NotFound)) => Some(ReadResult::Absent),
        (KeyClass::List, Ok(Reply::List { version, length, values, .. })) => {
            let numbers: Option<Vec<u64>> = values.iter().map(|value| number_of(value)).collect();
            Some(ReadResult::List(*version, numbers.filter(|values| values.len() as u64 == *length)?))
        }
        (KeyClass::Register, Ok(Reply::Value { version, bytes, .. })) => {
            let (first, rest) = bytes.split_at_checked(token(0).len())?;
            let is_whole = rest.iter().all(|byte| *byte == FILLER);
            Some(ReadResult::Value(*version, number_of(first).filter(|_| is_whole)?))
        }
        (KeyClass::Account, Ok(Reply::Value { version, bytes, .. })) => {
            let number = std::str::from_utf8(bytes).ok()?.parse().ok()?;
            Some(ReadResult::Number(*version, number))
        }
        (KeyClass::Counter, Ok(Reply::Value { version, bytes, .. })) => {
            let number = i64::from_le_bytes(bytes.as_ref().try_into().ok()?);
            Some(ReadResult::Number(*version, number))
        }
        _ => None,
    }
}

/// The reply that has this record.
pub(super) fn reply_of(record: Option<&Record>) -> Result<Reply, Failure<'static>> {
    match record.cloned() {
        Some(Record::Bytes { version, length, bytes }) => Ok(Reply::Value { version, length, bytes }),
        Some(Record::List { version, length, first, values }) => {
            Ok(Reply::List { version, length, first, values })
        }
        None => Err(Failure::NotFound),
    }
}
