//! `inspect`: the properties of a record without its contents.

use super::{OperationBody, OperationFacts, ReadHead, ReadOperation};
use crate::answer::{OperationAnswer, Outcome};
use crate::error::{ErrorCode, Failure};
use crate::kind::FrameKind;
use crate::state::ReadableRecord;

/// The metadata of the record. Answers `Info`, or `NotFound`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inspect;

impl<'a> ReadOperation<'a> for Inspect {
    const FACTS: OperationFacts =
        OperationFacts::read(FrameKind::Inspect, "none", "info", &[ErrorCode::NotFound]);
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
        _: &'o mut Vec<u8>,
    ) -> OperationAnswer<'o> {
        Ok(Outcome::Info {
            record: record.record_type().ok_or(Failure::NotFound)?,
            version: record.version(),
            length: record.length(),
            expires_at_ms: record.deadline(),
        })
    }
}
