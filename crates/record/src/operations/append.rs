//! `append`: values at the end of a list, in a log entry of their own. The earlier values are not touched.

use super::{LogKind, OperationBody, OperationFacts, WriteHead, WriteOperation};
use crate::elements::Elements;
use crate::error::{ErrorCode, Failure, Permission};
use crate::fields::layout;
use crate::kind::FrameKind;
use crate::limits::LIST_ENTRY_BYTES_MAX;
use crate::record::RecordType;
use crate::state::{ApplyOutcome, ApplyResult, Change, Contents, EvaluatedWrite, RecordState};

/// Appends values to the end of a list, which is created if the record is absent. Answers `Done`, number: its new length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Append<'a> {
    /// The values, at most `APPEND_VALUES_MAX`.
    pub values: Elements<'a, &'a [u8]>,
}

impl<'a> WriteOperation<'a> for Append<'a> {
    const FACTS: OperationFacts = OperationFacts {
        kind: FrameKind::Append,
        detail: "0",
        fields: "count (4), zero (4)",
        payload: "list of values",
        answer: "done, number: values now",
        needs: &[Permission::Write],
        log: LogKind::Append,
        errors: &[ErrorCode::WrongType, ErrorCode::ValueTooLong],
        since: 1,
    };

    fn put(&self, head: &WriteHead<'a>, out: &mut Vec<u8>) -> Result<&'a [u8], Failure<'static>> {
        let fields: [u8; 24] = layout(|to| to.bytes(head.fields(0)).u32(self.values.count()).zeros(4));
        out.extend_from_slice(&fields);
        out.extend_from_slice(head.key);
        self.values.put(out)
    }

    fn decode(mut body: OperationBody<'a>) -> Result<(&'a [u8], Self), Failure<'static>> {
        let mut fields = body.fields::<8>()?;
        let count = fields.u32();
        fields.zeros(4);
        fields.done()?;
        let (key, payload) = body.key_and_payload()?;
        let values = Elements::packed(count, payload)?;
        body.no_detail()?;
        Ok((key, Self { values }))
    }

    fn payload_bytes(&self) -> usize {
        self.values.iter().map(|value| value.len() + 4).sum()
    }

    fn apply(&self, record: &mut impl RecordState) -> ApplyResult<'a> {
        append_values(record, self.values.len(), self.values.iter())
    }
}

/// Appends `count` values from any source, as [`Append`] does.
///
/// # Errors
/// None; the form is that of [`WriteOperation::apply`].
pub fn append_values<'a, 'v>(
    record: &mut impl RecordState,
    count: usize,
    values: impl Iterator<Item = &'v [u8]>,
) -> ApplyResult<'a> {
    if let Err(wrong) = record.check_type(RecordType::List) {
        return Ok(EvaluatedWrite::nothing(wrong));
    }
    let length = record.length();
    if count == 0 {
        // A list has at least one value, so an empty append creates none.
        return Ok(EvaluatedWrite::nothing(record.unchanged(length)));
    }
    let buffer = record.buffer();
    buffer.extend_from_slice(&(count as u32).to_le_bytes());
    for value in values {
        buffer.extend_from_slice(&(value.len() as u32).to_le_bytes());
        buffer.extend_from_slice(value);
    }
    if buffer.len() > LIST_ENTRY_BYTES_MAX + 8 {
        let (length, limit) = (buffer.len() as u64, LIST_ENTRY_BYTES_MAX as u32);
        return Ok(EvaluatedWrite::nothing(ApplyOutcome::ValueTooLong { length, limit }));
    }
    let units = count as u64;
    let change = Change::Append { record: RecordType::List, units, contents: Contents::Buffered };
    Ok(EvaluatedWrite { change, outcome: record.done(length + units) })
}
