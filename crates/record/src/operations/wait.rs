//! `wait`: a lookup, once the record is in the state that a client waits for.

use super::{Lookup, OperationBody, OperationFacts, ReadHead, ReadOperation};
use crate::answer::OperationAnswer;
use crate::error::{BadRequestReason, ErrorCode, Failure};
use crate::fields::layout;
use crate::ids::Timestamp;
use crate::kind::FrameKind;
use crate::record::{RecordType, check_value};
use crate::state::ReadableRecord;

/// Waits until the record fulfils the condition, then answers like [`Lookup`]; `TimedOut` after the time-out in the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait<'a> {
    /// The condition.
    pub until: WaitUntil<'a>,
}

/// The condition of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitUntil<'a> {
    /// The record has these bytes.
    Equals(&'a [u8]),
    /// The record does not have these bytes: it has others, is a list, or is absent.
    Differs(&'a [u8]),
    /// The record is absent.
    Absent,
    /// The record exists.
    Present,
    /// The record has another version; zero means "no record".
    Changed(Timestamp),
}

impl<'a> WaitUntil<'a> {
    fn numbers(self) -> (u8, u64, &'a [u8]) {
        match self {
            Self::Equals(value) => (0, 0, value),
            Self::Differs(value) => (1, 0, value),
            Self::Absent => (2, 0, &[]),
            Self::Present => (3, 0, &[]),
            Self::Changed(version) => (4, version.0, &[]),
        }
    }

    fn from_numbers(until: u8, version: u64, value: &'a [u8]) -> Result<Self, Failure<'static>> {
        match (until, version, value) {
            (0, 0, value) => Ok(Self::Equals(value)),
            (1, 0, value) => Ok(Self::Differs(value)),
            (2, 0, []) => Ok(Self::Absent),
            (3, 0, []) => Ok(Self::Present),
            (4, version, []) => Ok(Self::Changed(Timestamp(version))),
            _ => Err(BadRequestReason::Until.into()),
        }
    }

    /// Whether the record is in that state. `out` is empty, before and after, and is used as a buffer.
    ///
    /// # Errors
    /// The record cannot be read.
    pub fn is_satisfied(
        &self,
        record: &mut impl ReadableRecord,
        out: &mut Vec<u8>,
    ) -> Result<bool, Failure<'static>> {
        Ok(match self {
            Self::Absent => record.record_type().is_none(),
            Self::Present => record.record_type().is_some(),
            Self::Changed(version) => record.version() != *version,
            Self::Equals(value) => is(record, value, out)?,
            Self::Differs(value) => !is(record, value, out)?,
        })
    }
}

fn is(record: &mut impl ReadableRecord, value: &[u8], out: &mut Vec<u8>) -> Result<bool, Failure<'static>> {
    let length = value.len() as u64;
    if record.record_type() != Some(RecordType::Bytes) || record.length() != length {
        return Ok(false);
    }
    record.read_bytes(0..length, out)?;
    let is_same = out == value;
    out.clear();
    Ok(is_same)
}

impl<'a> ReadOperation<'a> for Wait<'a> {
    const FACTS: OperationFacts = OperationFacts {
        detail: "until",
        payload: "expected value if the detail is 0 or 1",
        ..OperationFacts::read(
            FrameKind::Wait,
            "version (8), 0 unless the detail is 4",
            "value or list; `NotFound` if the wait was for absence",
            &[ErrorCode::NotFound, ErrorCode::WrongType, ErrorCode::TimedOut],
        )
    };
    const IN_TRANSACTION: bool = false;

    fn put(&self, head: &ReadHead<'a>, out: &mut Vec<u8>) -> Result<&'a [u8], Failure<'static>> {
        let (detail, version, value) = self.until.numbers();
        check_value(value)?;
        let fields: [u8; 16] = layout(|to| to.bytes(head.fields(detail)).u64(version));
        out.extend_from_slice(&fields);
        out.extend_from_slice(head.key);
        Ok(value)
    }

    fn decode(mut body: OperationBody<'a>) -> Result<(&'a [u8], Self), Failure<'static>> {
        let version = body.fields::<8>()?.u64();
        let (key, value) = body.key_and_payload()?;
        check_value(value)?;
        Ok((key, Self { until: WaitUntil::from_numbers(body.detail(), version, value)? }))
    }

    fn payload_bytes(&self) -> usize {
        match self.until {
            WaitUntil::Equals(value) | WaitUntil::Differs(value) => value.len(),
            WaitUntil::Absent | WaitUntil::Present | WaitUntil::Changed(_) => 0,
        }
    }

    fn answer<'o>(
        &self,
        key: &[u8],
        record: &mut impl ReadableRecord,
        out: &'o mut Vec<u8>,
    ) -> OperationAnswer<'o> {
        Lookup.answer(key, record, out)
    }
}
