//! `trim`: keeps a part of a list.
//!
//! Dropping a list's front is a small entry. Dropping its end writes the kept values again, and is refused if they do not fit into
//! one entry.

use super::{LogKind, OperationBody, OperationFacts, WriteHead, WriteOperation};
use crate::error::{ErrorCode, Failure, Permission};
use crate::fields::layout;
use crate::ids::Timestamp;
use crate::kind::FrameKind;
use crate::limits::LIST_ENTRY_BYTES_MAX;
use crate::record::{Range, RecordType};
use crate::state::{
    ApplyOutcome, ApplyResult, Change, Contents, EvaluatedWrite, ReadableRecord as _, RecordState,
};

/// Keeps this part of a list and drops the rest; an empty part removes the record. Answers `Done`, number: the remaining length;
/// `NotFound` if the record is absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trim {
    /// The part to keep.
    pub keep: Range,
}

impl<'a> WriteOperation<'a> for Trim {
    const FACTS: OperationFacts = OperationFacts {
        kind: FrameKind::Trim,
        detail: "0",
        fields: "range to keep (16)",
        payload: "none",
        answer: "done, number: values left",
        needs: &[Permission::Write],
        log: LogKind::Trim,
        errors: &[ErrorCode::NotFound, ErrorCode::WrongType, ErrorCode::ValueTooLong],
        since: 1,
    };

    fn put(&self, head: &WriteHead<'a>, out: &mut Vec<u8>) -> Result<&'a [u8], Failure<'static>> {
        let Range { start, stop } = self.keep;
        let fields: [u8; 32] = layout(|to| to.bytes(head.fields(0)).i64(start).i64(stop));
        out.extend_from_slice(&fields);
        Ok(head.key)
    }

    fn decode(mut body: OperationBody<'a>) -> Result<(&'a [u8], Self), Failure<'static>> {
        let mut fields = body.fields::<16>()?;
        let keep = Range { start: fields.i64(), stop: fields.i64() };
        let key = body.only_key()?;
        body.no_detail()?;
        Ok((key, Self { keep }))
    }

    fn apply(&self, record: &mut impl RecordState) -> ApplyResult<'a> {
        if let Err(wrong) = record.check_type(RecordType::List) {
            return Ok(EvaluatedWrite::nothing(wrong));
        }
        if !record.exists() {
            return Ok(EvaluatedWrite::nothing(ApplyOutcome::NotFound));
        }
        let length = record.length();
        let kept = self.keep.clip(length);
        let units = kept.end - kept.start;
        if units == length {
            return Ok(EvaluatedWrite::nothing(record.unchanged(length)));
        }
        if units == 0 {
            let outcome = ApplyOutcome::Done { version: Timestamp::ZERO, number: 0 };
            return Ok(EvaluatedWrite { change: Change::Remove, outcome });
        }
        if kept.end == length {
            return Ok(EvaluatedWrite { change: Change::DropFront(kept.start), outcome: record.done(units) });
        }
        let Ok(count) = u32::try_from(units) else { return Ok(EvaluatedWrite::nothing(too_long(u64::MAX))) };
        let (list, buffer) = record.record_and_buffer();
        buffer.extend_from_slice(&count.to_le_bytes());
        if list.read_values(kept, (count, LIST_ENTRY_BYTES_MAX), buffer)? < count {
            return Ok(EvaluatedWrite::nothing(too_long(LIST_ENTRY_BYTES_MAX as u64 + 1)));
        }
        let (record_type, deadline) = (RecordType::List, record.deadline());
        let change = Change::Put { record: record_type, units, contents: Contents::Buffered, deadline };
        Ok(EvaluatedWrite { change, outcome: record.done(units) })
    }
}

fn too_long(length: u64) -> ApplyOutcome {
    ApplyOutcome::ValueTooLong { length, limit: LIST_ENTRY_BYTES_MAX as u32 }
}
