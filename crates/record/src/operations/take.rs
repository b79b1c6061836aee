//! `take`: removes the record and answers with it. Its contents go into the log entry, so that a repeated request gets them again.

use super::{LogKind, OperationBody, OperationFacts, WriteHead, WriteOperation};
use crate::error::{ErrorCode, Failure, Permission};
use crate::kind::FrameKind;
use crate::limits::{LIST_PAGE_VALUES_MAX, TAKE_BYTES_MAX};
use crate::record::RecordType;
use crate::state::{ApplyOutcome, ApplyResult, Change, EvaluatedWrite, ReadableRecord as _, RecordState};

/// Removes the record and returns it. Answers like a lookup of the record, or `NotFound`; `ValueTooLong` if it has more than
/// `TAKE_BYTES_MAX` bytes, and `TooMany` if it is a list of more than `LIST_PAGE_VALUES_MAX` values. The record stays then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Take;

impl<'a> WriteOperation<'a> for Take {
    const FACTS: OperationFacts = OperationFacts {
        kind: FrameKind::Take,
        detail: "0",
        fields: "none",
        payload: "none",
        answer: "value, or list",
        needs: &[Permission::Write, Permission::Read],
        log: LogKind::Remove,
        errors: &[ErrorCode::NotFound, ErrorCode::WrongType, ErrorCode::ValueTooLong, ErrorCode::TooMany],
        since: 1,
    };

    fn put(&self, head: &WriteHead<'a>, out: &mut Vec<u8>) -> Result<&'a [u8], Failure<'static>> {
        out.extend_from_slice(&head.fields(0));
        Ok(head.key)
    }

    fn decode(body: OperationBody<'a>) -> Result<(&'a [u8], Self), Failure<'static>> {
        body.no_detail()?;
        Ok((body.only_key()?, Self))
    }

    fn apply(&self, record: &mut impl RecordState) -> ApplyResult<'a> {
        let Some(record_type) = record.record_type() else {
            return Ok(EvaluatedWrite::nothing(ApplyOutcome::NotFound));
        };
        let length = record.length();
        match record_type {
            RecordType::Bytes if length > TAKE_BYTES_MAX as u64 => return Ok(too_long(length)),
            RecordType::Bytes => record.load()?,
            RecordType::List => {
                // An answer has no more values, so that all that is taken arrives.
                if length > u64::from(LIST_PAGE_VALUES_MAX) {
                    let refused = ApplyOutcome::TooMany { count: length, limit: LIST_PAGE_VALUES_MAX };
                    return Ok(EvaluatedWrite::nothing(refused));
                }
                let (list, buffer) = record.record_and_buffer();
                buffer.extend_from_slice(&(length as u32).to_le_bytes());
                let count = list.read_values(0..length, (LIST_PAGE_VALUES_MAX, TAKE_BYTES_MAX), buffer)?;
                // One value is always read, however long it is.
                if u64::from(count) < length || buffer.len() - 4 > TAKE_BYTES_MAX {
                    return Ok(too_long(TAKE_BYTES_MAX as u64 + 1));
                }
            }
            RecordType::Chunk => return Ok(EvaluatedWrite::nothing(ApplyOutcome::WrongType(record_type))),
        }
        let (version, contents) = (record.version(), record.buffer()[..].into());
        Ok(EvaluatedWrite {
            change: Change::Take,
            outcome: ApplyOutcome::RemovedRecord { version, record: record_type, contents },
        })
    }
}

fn too_long(length: u64) -> EvaluatedWrite<'static> {
    EvaluatedWrite::nothing(ApplyOutcome::ValueTooLong { length, limit: TAKE_BYTES_MAX as u32 })
}
