//! `transform`: arithmetic and logic on one number in a bytes record. Bytes behind the record's end are zeros. It writes the
//! complete record again; numbers of large records belong into blobs.

use super::{LogKind, OperationBody, OperationFacts, WriteHead, WriteOperation};
use crate::error::{ErrorCode, Failure, Permission};
use crate::kind::FrameKind;
use crate::record::RecordType;
use crate::state::{ApplyResult, EvaluatedWrite, RecordState};
use crate::transform::{ReturnedNumber, Transform};

impl<'a> WriteOperation<'a> for Transform {
    const FACTS: OperationFacts = OperationFacts {
        kind: FrameKind::Transform,
        detail: "operator",
        fields: "offset in bytes (8), operand's bits (8), type (1), result (1), zero (6)",
        payload: "none",
        answer: "done, number: the old or new bits, or 0",
        needs: &[Permission::Write],
        log: LogKind::Put,
        errors: &[ErrorCode::WrongType],
        since: 1,
    };

    fn put(&self, head: &WriteHead<'a>, out: &mut Vec<u8>) -> Result<&'a [u8], Failure<'static>> {
        self.check()?;
        out.extend_from_slice(&head.fields(self.operator.number()));
        out.extend_from_slice(&self.fields());
        Ok(head.key)
    }

    fn decode(mut body: OperationBody<'a>) -> Result<(&'a [u8], Self), Failure<'static>> {
        let (transform, rest) = Transform::split(body.detail(), body.rest)?;
        body.rest = rest;
        Ok((body.only_key()?, transform))
    }

    fn commutes(&self) -> Option<u8> {
        (self.returns == ReturnedNumber::Nothing).then(|| self.operator.number())
    }

    fn apply(&self, record: &mut impl RecordState) -> ApplyResult<'a> {
        if let Err(wrong) = record.check_type(RecordType::Bytes) {
            return Ok(EvaluatedWrite::nothing(wrong));
        }
        let exists = record.exists();
        record.load()?;
        // The wire bounds the end by the longest value.
        let start = self.offset as usize;
        let place = start..start + self.number.bytes();
        let buffer = record.buffer();
        let length = buffer.len();
        if place.end > length {
            buffer.resize(place.end, 0);
        }
        let bytes = &mut buffer[place.clone()];
        let mut old = [0; 8];
        old[..bytes.len()].copy_from_slice(bytes);
        let old = u64::from_le_bytes(old);
        let new = self.operator.applied(self.number, old, self.operand);
        bytes.copy_from_slice(&new.to_le_bytes()[..bytes.len()]);
        let number = match self.returns {
            ReturnedNumber::Nothing => 0,
            ReturnedNumber::Old => old,
            ReturnedNumber::New => new,
        };
        if exists && new == old && place.end <= length {
            return Ok(EvaluatedWrite::nothing(record.unchanged(number)));
        }
        let outcome = record.done(number);
        Ok(EvaluatedWrite::rewritten(record, outcome))
    }
}
