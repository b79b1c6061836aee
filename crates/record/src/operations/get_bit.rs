//! `get_bit`: one bit of a bytes record. Bits behind the record's end are 0.

use super::{OperationBody, OperationFacts, ReadHead, ReadOperation, check_bit};
use crate::answer::OperationAnswer;
use crate::error::{ErrorCode, Failure};
use crate::fields::layout;
use crate::kind::FrameKind;
use crate::state::ReadableRecord;

/// One bit of a bytes record, most significant bit of byte 0 first. Answers `Done`, number 0 or 1; an absent bit is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GetBit {
    /// Offset of the bit, at most `BIT_OFFSET_MAX`.
    pub offset: u64,
}

impl<'a> ReadOperation<'a> for GetBit {
    const FACTS: OperationFacts = OperationFacts::read(
        FrameKind::GetBit,
        "bit offset (8); bit 0 is the most significant of byte 0",
        "done, number: the bit",
        &[ErrorCode::WrongType],
    );

    fn put(&self, head: &ReadHead<'a>, out: &mut Vec<u8>) -> Result<&'a [u8], Failure<'static>> {
        check_bit(self.offset)?;
        let fields: [u8; 16] = layout(|to| to.bytes(head.fields(0)).u64(self.offset));
        out.extend_from_slice(&fields);
        Ok(head.key)
    }

    fn decode(mut body: OperationBody<'a>) -> Result<(&'a [u8], Self), Failure<'static>> {
        body.no_detail()?;
        let offset = body.fields::<8>()?.u64();
        check_bit(offset)?;
        Ok((body.only_key()?, Self { offset }))
    }

    fn answer<'o>(
        &self,
        _: &[u8],
        record: &mut impl ReadableRecord,
        out: &'o mut Vec<u8>,
    ) -> OperationAnswer<'o> {
        let (byte, mask) = (self.offset / 8, 0x80 >> (self.offset % 8));
        record.only_bytes(|length| byte.min(length)..(byte + 1).min(length), out)?;
        let is_on = out.first().is_some_and(|byte| byte & mask != 0);
        Ok(record.done(u64::from(is_on)))
    }
}
