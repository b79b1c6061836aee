//! `set_bit`: one bit of a bytes record. It writes the complete record again; many bits belong into blobs.

use super::{LogKind, OperationBody, OperationFacts, WriteHead, WriteOperation};
use crate::error::{BadRequestReason, ErrorCode, Failure, Permission};
use crate::fields::layout;
use crate::kind::FrameKind;
use crate::limits::BIT_OFFSET_MAX;
use crate::record::RecordType;
use crate::state::{ApplyResult, EvaluatedWrite, RecordState};

/// Sets or clears one bit, most significant bit of byte 0 first, and extends the record with zeros as needed. Answers `Done`,
/// number: the old bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetBit {
    /// Offset of the bit, at most `BIT_OFFSET_MAX`.
    pub offset: u64,
    /// The new bit.
    pub on: bool,
}

impl<'a> WriteOperation<'a> for SetBit {
    const FACTS: OperationFacts = OperationFacts {
        kind: FrameKind::SetBit,
        detail: "the bit, 0 or 1",
        fields: "bit offset (8)",
        payload: "none",
        answer: "done, number: the old bit",
        needs: &[Permission::Write],
        log: LogKind::Put,
        errors: &[ErrorCode::WrongType],
        since: 1,
    };

    fn put(&self, head: &WriteHead<'a>, out: &mut Vec<u8>) -> Result<&'a [u8], Failure<'static>> {
        check_bit(self.offset)?;
        let fields: [u8; 24] = layout(|to| to.bytes(head.fields(u8::from(self.on))).u64(self.offset));
        out.extend_from_slice(&fields);
        Ok(head.key)
    }

    fn decode(mut body: OperationBody<'a>) -> Result<(&'a [u8], Self), Failure<'static>> {
        let offset = body.fields::<8>()?.u64();
        check_bit(offset)?;
        let key = body.only_key()?;
        let on = match body.detail() {
            0 => false,
            1 => true,
            _ => return Err(BadRequestReason::Detail.into()),
        };
        Ok((key, Self { offset, on }))
    }

    fn apply(&self, record: &mut impl RecordState) -> ApplyResult<'a> {
        if let Err(wrong) = record.check_type(RecordType::Bytes) {
            return Ok(EvaluatedWrite::nothing(wrong));
        }
        let exists = record.exists();
        record.load()?;
        // The wire bounds the offset by the longest value.
        let (byte, mask) = ((self.offset / 8) as usize, 0x80 >> (self.offset % 8));
        let buffer = record.buffer();
        let before = buffer.len();
        if byte >= before {
            buffer.resize(byte + 1, 0);
        }
        let was = buffer[byte] & mask != 0;
        if exists && was == self.on && byte < before {
            return Ok(EvaluatedWrite::nothing(record.unchanged(u64::from(was))));
        }
        buffer[byte] = if self.on { buffer[byte] | mask } else { buffer[byte] & !mask };
        let outcome = record.done(u64::from(was));
        Ok(EvaluatedWrite::rewritten(record, outcome))
    }
}

/// Errors: the bit lies beyond the longest value.
pub fn check_bit(offset: u64) -> Result<(), Failure<'static>> {
    if offset > BIT_OFFSET_MAX { Err(BadRequestReason::BitOffset.into()) } else { Ok(()) }
}
