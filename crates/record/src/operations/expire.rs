//! `expire`: sets when a record expires. It writes no contents, so the record's version stays.

use super::{LogKind, OperationBody, OperationFacts, WriteHead, WriteOperation};
use crate::error::{ErrorCode, Failure, Permission};
use crate::fields::layout;
use crate::kind::FrameKind;
use crate::record::Expiry;
use crate::state::{ApplyOutcome, ApplyResult, Change, EvaluatedWrite, RecordState};

/// Changes when the record expires. Answers `Done`, number 0, or `NotFound`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expire {
    /// The new expiry.
    pub expiry: Expiry,
}

impl<'a> WriteOperation<'a> for Expire {
    const FACTS: OperationFacts = OperationFacts {
        kind: FrameKind::Expire,
        detail: "expiry mode",
        fields: "expiry ms (8)",
        payload: "none",
        answer: "done, number 0",
        needs: &[Permission::Write],
        log: LogKind::Mark,
        errors: &[ErrorCode::NotFound],
        since: 1,
    };

    fn put(&self, head: &WriteHead<'a>, out: &mut Vec<u8>) -> Result<&'a [u8], Failure<'static>> {
        let (mode, ms) = self.expiry.check()?;
        let fields: [u8; 24] = layout(|to| to.bytes(head.fields(mode)).u64(ms));
        out.extend_from_slice(&fields);
        Ok(head.key)
    }

    fn decode(mut body: OperationBody<'a>) -> Result<(&'a [u8], Self), Failure<'static>> {
        let ms = body.fields::<8>()?.u64();
        let expiry = Expiry::from_numbers(body.detail(), ms)?;
        Ok((body.only_key()?, Self { expiry }))
    }

    fn apply(&self, record: &mut impl RecordState) -> ApplyResult<'a> {
        if !record.exists() {
            return Ok(EvaluatedWrite::nothing(ApplyOutcome::NotFound));
        }
        let deadline = record.deadline_of(self.expiry)?;
        let is_same = deadline == record.deadline();
        let change = if is_same { Change::Nothing } else { Change::Deadline(deadline) };
        Ok(EvaluatedWrite { change, outcome: record.unchanged(0) })
    }
}
