//! Writes of a record.
//!
//! Every write begins with the same 16 bytes, so that conditions on presence and version work the same for all of them:
//!
//! | offset | size | field |
//! | --- | --- | --- |
//! | 0 | 4 | key length |
//! | 4 | 1 | condition |
//! | 5 | 1 | detail, per kind |
//! | 6 | 2 | zero |
//! | 8 | 8 | version of the condition |
//!
//! The fields of the kind, the key, and the payload follow.

use crate::error::{BadRequestReason, Failure};
use crate::fields::FieldReader;
use crate::kind::FrameKind;
use crate::operation_body::{OperationBody, WriteHead};
use crate::operations::WriteChange;
use crate::record::Condition;

/// One write of one record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordWrite<'a> {
    /// The key of the record.
    pub key: &'a [u8],
    /// The condition; if it does not hold, the answer is `ConditionFailed` and nothing changes.
    pub condition: Condition,
    /// The change.
    pub change: WriteChange<'a>,
}

impl<'a> RecordWrite<'a> {
    /// The kind of its frames.
    #[must_use]
    pub fn kind(&self) -> FrameKind {
        self.change.kind()
    }

    /// Writes all but the last piece of the payload to `out`, and returns that piece.
    ///
    /// # Errors
    /// A limit is exceeded.
    pub fn put(&self, out: &mut Vec<u8>) -> Result<&'a [u8], Failure<'static>> {
        self.change.put(&WriteHead::new(self.key, self.condition)?, out)
    }

    /// Decodes the write of this kind that fills `body`.
    ///
    /// # Errors
    /// The bytes are not such a write.
    pub fn decode_body(kind: FrameKind, body: &'a [u8]) -> Result<Self, Failure<'static>> {
        let (mut fields, rest) = FieldReader::<16>::split(body)?;
        let key_len = fields.u32() as usize;
        let condition = fields.u8();
        let detail = fields.u8();
        fields.zeros(2);
        let condition = Condition::from_numbers(condition, fields.u64())?;
        fields.done()?;
        if kind.number() >> 8 != 0x02 {
            return Err(BadRequestReason::ItemKind.into());
        }
        let (key, change) = WriteChange::decode(kind, OperationBody { key_len, detail, rest })?;
        Ok(Self { key, condition, change })
    }
}
