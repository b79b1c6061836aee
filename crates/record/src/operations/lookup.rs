//! `lookup`: a complete record. Bytes are answered as they are, lists page by page.

use super::{OperationBody, OperationFacts, ReadHead, ReadOperation};
use crate::answer::{OperationAnswer, Outcome};
use crate::elements::Elements;
use crate::error::{ErrorCode, Failure};
use crate::kind::FrameKind;
use crate::limits::{LIST_PAGE_VALUES_MAX, PAGE_BYTES_MAX};
use crate::record::{Range, RecordType};
use crate::state::ReadableRecord;

/// The complete record. Answers `Value` or, for a list, the first page as `List`; `NotFound` if the record is absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lookup;

impl<'a> ReadOperation<'a> for Lookup {
    const FACTS: OperationFacts = OperationFacts::read(
        FrameKind::Lookup,
        "none",
        "value or list",
        &[ErrorCode::NotFound, ErrorCode::WrongType],
    );
    const IN_SNAPSHOT: bool = true;

    fn put(&self, head: &ReadHead<'a>, out: &mut Vec<u8>) -> Result<&'a [u8], Failure<'static>> {
        out.extend_from_slice(&head.fields(0));
        Ok(head.key)
    }

    fn decode(body: OperationBody<'a>) -> Result<(&'a [u8], Self), Failure<'static>> {
        body.no_detail()?;
        Ok((body.only_key()?, Self))
    }

    fn answer<'o>(
        &self,
        _: &[u8],
        record: &mut impl ReadableRecord,
        out: &'o mut Vec<u8>,
    ) -> OperationAnswer<'o> {
        part(record, Range::ALL, out)
    }
}

/// Answers with a part of the record.
pub(super) fn part<'o>(
    record: &mut impl ReadableRecord,
    range: Range,
    out: &'o mut Vec<u8>,
) -> OperationAnswer<'o> {
    let record_type = record.record_type().ok_or(Failure::NotFound)?;
    let (version, length) = (record.version(), record.length());
    let part = range.clip(length);
    match record_type {
        RecordType::Bytes => {
            record.read_bytes(part, out)?;
            Ok(Outcome::Value { version, length, bytes: out })
        }
        RecordType::List => {
            let first = part.start;
            let count = record.read_values(part, (LIST_PAGE_VALUES_MAX, PAGE_BYTES_MAX), out)?;
            Ok(Outcome::List { version, length, first, values: Elements::packed(count, out)? })
        }
        RecordType::Chunk => Err(Failure::WrongType { found: RecordType::Chunk }),
    }
}
