//! `count_bits`: the number of one bits in a bytes record.

use super::lookup_range::{decode_range, put_range};
use super::{OperationBody, OperationFacts, ReadHead, ReadOperation};
use crate::answer::OperationAnswer;
use crate::error::{ErrorCode, Failure};
use crate::kind::FrameKind;
use crate::record::Range;
use crate::state::ReadableRecord;

/// The number of one bits in these bytes. Answers `Done`, number: the count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CountBits {
    /// The range of bytes.
    pub range: Range,
}

impl<'a> ReadOperation<'a> for CountBits {
    const FACTS: OperationFacts = OperationFacts::read(
        FrameKind::CountBits,
        "range (16), in bytes",
        "done, number: the count",
        &[ErrorCode::WrongType],
    );

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
        record.only_bytes(|length| self.range.clip(length), out)?;
        Ok(record.done(out.iter().map(|byte| u64::from(byte.count_ones())).sum()))
    }
}
