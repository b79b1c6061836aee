//! `remove`: removes the record.

use super::{LogKind, OperationBody, OperationFacts, WriteHead, WriteOperation};
use crate::error::{Failure, Permission};
use crate::ids::Timestamp;
use crate::kind::FrameKind;
use crate::state::{ApplyOutcome, ApplyResult, Change, EvaluatedWrite, RecordState};

/// Removes the record, of any type. Answers `Done`, number 1 if it existed, 0 if not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remove;

impl<'a> WriteOperation<'a> for Remove {
    const FACTS: OperationFacts = OperationFacts {
        kind: FrameKind::Remove,
        detail: "0",
        fields: "none",
        payload: "none",
        answer: "done, number 1 if there was a record, else 0",
        needs: &[Permission::Write],
        log: LogKind::Remove,
        errors: &[],
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
        let done = |number| ApplyOutcome::Done { version: Timestamp::ZERO, number };
        Ok(match record.exists() {
            true => EvaluatedWrite { change: Change::Remove, outcome: done(1) },
            false => EvaluatedWrite::nothing(done(0)),
        })
    }
}
