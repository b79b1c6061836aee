//! Reads of a record.
//!
//! Every read begins with the same 8 bytes: key length (4), detail (1), zero (3). The fields of the kind, the key, and the payload follow.

use crate::answer::OperationAnswer;
use crate::error::Failure;
use crate::fields::FieldReader;
use crate::kind::FrameKind;
use crate::operation_body::{OperationBody, ReadHead};
use crate::operations::Query;
use crate::state::ReadableRecord;

/// One read of one record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordRead<'a> {
    /// The key of the record.
    pub key: &'a [u8],
    /// What to read.
    pub query: Query<'a>,
}

impl<'a> RecordRead<'a> {
    /// The kind of its frames.
    #[must_use]
    pub fn kind(&self) -> FrameKind {
        self.query.kind()
    }

    /// Writes all but the last piece of the payload to `out`, and returns that piece.
    ///
    /// # Errors
    /// A limit is exceeded.
    pub fn put(&self, out: &mut Vec<u8>) -> Result<&'a [u8], Failure<'static>> {
        self.query.put(&ReadHead::new(self.key)?, out)
    }

    /// Decodes the read of this kind that fills `body`.
    ///
    /// # Errors
    /// The bytes are not such a read.
    pub fn decode_body(kind: FrameKind, body: &'a [u8]) -> Result<Self, Failure<'static>> {
        let (mut fields, rest) = FieldReader::<8>::split(body)?;
        let key_len = fields.u32() as usize;
        let detail = fields.u8();
        fields.zeros(3);
        fields.done()?;
        let (key, query) = Query::decode(kind, OperationBody { key_len, detail, rest })?;
        Ok(Self { key, query })
    }

    /// What the read answers about its record. `out` is empty, and stores the contents that the answer borrows.
    ///
    /// # Errors
    /// The record is absent, has another type, or cannot be read.
    pub fn answer<'o>(&self, record: &mut impl ReadableRecord, out: &'o mut Vec<u8>) -> OperationAnswer<'o> {
        self.query.answer(self.key, record, out)
    }
}
