//! `compare_swap`: replaces the record if it equals the expected one, and otherwise answers with the record.

use super::{LogKind, OperationBody, OperationFacts, WriteHead, WriteOperation};
use crate::error::{BadRequestReason, ErrorCode, Failure, Permission};
use crate::fields::{layout, split};
use crate::ids::Timestamp;
use crate::kind::FrameKind;
use crate::record::{RecordType, check_value};
use crate::state::{ApplyOutcome, ApplyResult, Change, Contents, EvaluatedWrite, RecordState};

/// Replaces the value if it equals the expected one; a record that existed keeps its expiry. Answers `Done`, number 0, or
/// `CompareFailed` with the present value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompareSwap<'a> {
    /// The expected value; `None`: the record is absent.
    pub expected: Option<&'a [u8]>,
    /// The new value; `None`: remove the record.
    pub new: Option<&'a [u8]>,
}

const EXPECTED_PRESENT: u8 = 1;
const NEW_PRESENT: u8 = 2;

impl<'a> WriteOperation<'a> for CompareSwap<'a> {
    const FACTS: OperationFacts = OperationFacts {
        kind: FrameKind::CompareSwap,
        detail: "bit 0: a value is expected, else no record; bit 1: there is a new value, else the record is removed",
        fields: "length of the expected value (4), zero (4)",
        payload: "expected value, new value",
        answer: "done, number 0",
        // If the comparison fails, the answer has the complete record.
        needs: &[Permission::Write, Permission::Read],
        log: LogKind::Put,
        errors: &[ErrorCode::WrongType, ErrorCode::CompareFailed],
        since: 1,
    };

    fn put(&self, head: &WriteHead<'a>, out: &mut Vec<u8>) -> Result<&'a [u8], Failure<'static>> {
        let (expected, new) = (self.expected.unwrap_or_default(), self.new.unwrap_or_default());
        let expected_len = check_value(expected)?;
        check_value(new)?;
        let detail =
            u8::from(self.expected.is_some()) * EXPECTED_PRESENT + u8::from(self.new.is_some()) * NEW_PRESENT;
        let fields: [u8; 24] = layout(|to| to.bytes(head.fields(detail)).u32(expected_len).zeros(4));
        out.extend_from_slice(&fields);
        out.extend_from_slice(head.key);
        out.extend_from_slice(expected);
        Ok(new)
    }

    fn decode(mut body: OperationBody<'a>) -> Result<(&'a [u8], Self), Failure<'static>> {
        let mut fields = body.fields::<8>()?;
        let expected_len = fields.u32() as usize;
        fields.zeros(4);
        fields.done()?;
        let (key, payload) = body.key_and_payload()?;
        let (expected, new) = split(payload, expected_len)?;
        check_value(expected)?;
        check_value(new)?;
        let detail = body.detail();
        let presence = |mark: u8, value: &'a [u8]| match (detail & mark != 0, value) {
            (true, value) => Ok(Some(value)),
            (false, []) => Ok(None),
            (false, _) => Err(Failure::from(BadRequestReason::Lengths)),
        };
        if detail & !(EXPECTED_PRESENT | NEW_PRESENT) != 0 {
            return Err(BadRequestReason::Detail.into());
        }
        let (expected, new) = (presence(EXPECTED_PRESENT, expected)?, presence(NEW_PRESENT, new)?);
        Ok((key, Self { expected, new }))
    }

    fn payload_bytes(&self) -> usize {
        self.expected.map_or(0, <[u8]>::len) + self.new.map_or(0, <[u8]>::len)
    }

    fn apply(&self, record: &mut impl RecordState) -> ApplyResult<'a> {
        if let Err(wrong) = record.check_type(RecordType::Bytes) {
            return Ok(EvaluatedWrite::nothing(wrong));
        }
        let exists = record.exists();
        record.load()?;
        let version = record.version();
        let seen = exists.then_some(&record.buffer()[..]);
        if seen != self.expected {
            let seen = seen.map(Into::into);
            return Ok(EvaluatedWrite::nothing(ApplyOutcome::CompareFailed { version, seen }));
        }
        Ok(match self.new {
            Some(value) => {
                let (units, contents) = (value.len() as u64, Contents::AsReceived(value));
                let (record_type, deadline) = (RecordType::Bytes, record.deadline());
                let change = Change::Put { record: record_type, units, contents, deadline };
                EvaluatedWrite { change, outcome: record.done(0) }
            }
            None => {
                let change = if exists { Change::Remove } else { Change::Nothing };
                EvaluatedWrite { change, outcome: ApplyOutcome::Done { version: Timestamp::ZERO, number: 0 } }
            }
        })
    }
}
