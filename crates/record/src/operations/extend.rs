//! `extend`: bytes at the end of a bytes record, in a log entry of their own.

use super::{LogKind, OperationBody, OperationFacts, WriteHead, WriteOperation};
use crate::error::{ErrorCode, Failure, Permission};
use crate::kind::FrameKind;
use crate::record::{RecordType, check_value};
use crate::state::{ApplyOutcome, ApplyResult, Change, Contents, EvaluatedWrite, RecordState};

/// Adds bytes to the end of a bytes record, which is created if it is absent. Answers `Done`, number: its new length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extend<'a> {
    /// The bytes.
    pub bytes: &'a [u8],
}

impl<'a> WriteOperation<'a> for Extend<'a> {
    const FACTS: OperationFacts = OperationFacts {
        kind: FrameKind::Extend,
        detail: "0",
        fields: "none",
        payload: "bytes",
        answer: "done, number: bytes now",
        needs: &[Permission::Write],
        log: LogKind::Append,
        errors: &[ErrorCode::WrongType, ErrorCode::ValueTooLong],
        since: 1,
    };

    fn put(&self, head: &WriteHead<'a>, out: &mut Vec<u8>) -> Result<&'a [u8], Failure<'static>> {
        check_value(self.bytes)?;
        out.extend_from_slice(&head.fields(0));
        out.extend_from_slice(head.key);
        Ok(self.bytes)
    }

    fn decode(body: OperationBody<'a>) -> Result<(&'a [u8], Self), Failure<'static>> {
        let (key, bytes) = body.key_and_payload()?;
        check_value(bytes)?;
        body.no_detail()?;
        Ok((key, Self { bytes }))
    }

    fn payload_bytes(&self) -> usize {
        self.bytes.len()
    }

    fn apply(&self, record: &mut impl RecordState) -> ApplyResult<'a> {
        if let Err(wrong) = record.check_type(RecordType::Bytes) {
            return Ok(EvaluatedWrite::nothing(wrong));
        }
        let (before, units) = (record.length(), self.bytes.len() as u64);
        let length = before + units;
        let limit = record.bytes_max();
        if length > limit {
            let limit = u32::try_from(limit).unwrap_or(u32::MAX);
            return Ok(EvaluatedWrite::nothing(ApplyOutcome::ValueTooLong { length, limit }));
        }
        let contents = Contents::AsReceived(self.bytes);
        let change = match record.exists() {
            false => Change::Put { record: RecordType::Bytes, units, contents, deadline: None },
            true if self.bytes.is_empty() => return Ok(EvaluatedWrite::nothing(record.unchanged(before))),
            true => Change::Append { record: RecordType::Bytes, units, contents },
        };
        Ok(EvaluatedWrite { change, outcome: record.done(length) })
    }
}
