//! `lookup_range`: a part of a record.

use super::{OperationBody, OperationFacts, ReadHead, ReadOperation, lookup};
use crate::answer::OperationAnswer;
use crate::error::{ErrorCode, Failure};
use crate::fields::layout;
use crate::kind::FrameKind;
use crate::record::Range;
use crate::state::ReadableRecord;

/// A part of the record. Answers like [`Lookup`](super::Lookup); a list's page may end before the range does, and the client then
/// continues after the last value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LookupRange {
    /// The part.
    pub range: Range,
}

impl<'a> ReadOperation<'a> for LookupRange {
    const FACTS: OperationFacts = OperationFacts::read(
        FrameKind::LookupRange,
        "range (16); of bytes in bytes, of a list in values",
        "value or list",
        &[ErrorCode::NotFound, ErrorCode::WrongType],
    );
    const IN_SNAPSHOT: bool = true;

    fn put(&self, head: &ReadHead<'a>, out: &mut Vec<u8>) -> Result<&'a [u8], Failure<'static>> {
        put_range(self.range, head, out)
    }

    fn decode(body: OperationBody<'a>) -> Result<(&'a [u8], Self), Failure<'static>> {
        let (key, range) = decode_range(body)?;
        Ok((key, Self { range }))
    }

    fn answer<'o>(
        &self,
        _: &[u8],
        record: &mut impl ReadableRecord,
        out: &'o mut Vec<u8>,
    ) -> OperationAnswer<'o> {
        lookup::part(record, self.range, out)
    }
}

/// Writes an operation whose field is a range.
pub(super) fn put_range<'a>(
    range: Range,
    head: &ReadHead<'a>,
    out: &mut Vec<u8>,
) -> Result<&'a [u8], Failure<'static>> {
    let fields: [u8; 24] = layout(|to| to.bytes(head.fields(0)).i64(range.start).i64(range.stop));
    out.extend_from_slice(&fields);
    Ok(head.key)
}

/// Reads an operation whose field is a range.
pub(super) fn decode_range(mut body: OperationBody<'_>) -> Result<(&[u8], Range), Failure<'static>> {
    body.no_detail()?;
    let mut fields = body.fields::<16>()?;
    let range = Range { start: fields.i64(), stop: fields.i64() };
    fields.done()?;
    Ok((body.only_key()?, range))
}
