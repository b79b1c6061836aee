//! `increment`: adds to the decimal number in a bytes record.

use std::io::Write as _;

use super::{LogKind, OperationBody, OperationFacts, WriteHead, WriteOperation};
use crate::error::{ErrorCode, Failure, Permission};
use crate::fields::layout;
use crate::kind::FrameKind;
use crate::record::RecordType;
use crate::state::{ApplyOutcome, ApplyResult, EvaluatedWrite, RecordState};

/// Adds to the decimal number in the record, or to 0 if the record is absent. Answers `Counter`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Increment {
    /// The number to add.
    pub delta: i64,
}

/// The longest number: a sign and nineteen digits.
const DIGITS_MAX: u64 = 20;

impl<'a> WriteOperation<'a> for Increment {
    const FACTS: OperationFacts = OperationFacts {
        kind: FrameKind::Increment,
        detail: "0",
        fields: "addend (8, signed)",
        payload: "none",
        answer: "counter",
        needs: &[Permission::Write],
        log: LogKind::Put,
        errors: &[ErrorCode::WrongType, ErrorCode::NotANumber, ErrorCode::Overflow],
        since: 1,
    };

    fn put(&self, head: &WriteHead<'a>, out: &mut Vec<u8>) -> Result<&'a [u8], Failure<'static>> {
        let fields: [u8; 24] = layout(|to| to.bytes(head.fields(0)).i64(self.delta));
        out.extend_from_slice(&fields);
        Ok(head.key)
    }

    fn decode(mut body: OperationBody<'a>) -> Result<(&'a [u8], Self), Failure<'static>> {
        let delta = body.fields::<8>()?.i64();
        let key = body.only_key()?;
        body.no_detail()?;
        Ok((key, Self { delta }))
    }

    fn apply(&self, record: &mut impl RecordState) -> ApplyResult<'a> {
        if let Err(wrong) = record.check_type(RecordType::Bytes) {
            return Ok(EvaluatedWrite::nothing(wrong));
        }
        let before = match record.exists() {
            false => Some(0),
            true if record.length() > DIGITS_MAX => None,
            true => {
                record.load()?;
                number(record.buffer())
            }
        };
        let Some(before) = before else { return Ok(EvaluatedWrite::nothing(ApplyOutcome::NotANumber)) };
        let Some(value) = before.checked_add(self.delta) else {
            return Ok(EvaluatedWrite::nothing(ApplyOutcome::Overflow));
        };
        let buffer = record.buffer();
        buffer.clear();
        let written = write!(buffer, "{value}");
        debug_assert!(written.is_ok(), "a vector takes what is written");
        let outcome = ApplyOutcome::Counter { version: record.next_version(), value };
        Ok(EvaluatedWrite::rewritten(record, outcome))
    }
}

/// The number that the bytes represent in canonical decimal form.
fn number(bytes: &[u8]) -> Option<i64> {
    let digits = bytes.strip_prefix(b"-").unwrap_or(bytes);
    let is_plain = match digits {
        [b'0'] => bytes.len() == 1,
        [b'1'..=b'9', rest @ ..] => rest.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    if is_plain { std::str::from_utf8(bytes).ok()?.parse().ok() } else { None }
}
