//! `insert`: sets the record to these bytes, whatever it was.

use super::{LogKind, OperationBody, OperationFacts, WriteHead, WriteOperation};
use crate::error::{Failure, Permission};
use crate::fields::layout;
use crate::kind::FrameKind;
use crate::record::{Expiry, RecordType, check_value};
use crate::state::{ApplyResult, Change, Contents, EvaluatedWrite, RecordState};

/// Sets the record to these bytes, whatever it was before. Answers `Done`, number 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Insert<'a> {
    /// The bytes.
    pub value: &'a [u8],
    /// When the record expires.
    pub expiry: Expiry,
}

impl<'a> WriteOperation<'a> for Insert<'a> {
    const FACTS: OperationFacts = OperationFacts {
        kind: FrameKind::Insert,
        detail: "expiry mode",
        fields: "expiry ms (8)",
        payload: "value",
        answer: "done, number 0",
        needs: &[Permission::Write],
        log: LogKind::Put,
        errors: &[],
        since: 1,
    };

    #[inline]
    fn put(&self, head: &WriteHead<'a>, out: &mut Vec<u8>) -> Result<&'a [u8], Failure<'static>> {
        check_value(self.value)?;
        let (mode, ms) = self.expiry.check()?;
        let fields: [u8; 24] = layout(|to| to.bytes(head.fields(mode)).u64(ms));
        out.extend_from_slice(&fields);
        out.extend_from_slice(head.key);
        Ok(self.value)
    }

    #[inline]
    fn decode(mut body: OperationBody<'a>) -> Result<(&'a [u8], Self), Failure<'static>> {
        let ms = body.fields::<8>()?.u64();
        let expiry = Expiry::from_numbers(body.detail(), ms)?;
        let (key, value) = body.key_and_payload()?;
        check_value(value)?;
        Ok((key, Self { value, expiry }))
    }

    fn payload_bytes(&self) -> usize {
        self.value.len()
    }

    #[inline]
    fn depends_on_record(&self) -> bool {
        self.expiry == Expiry::Unchanged
    }

    #[inline]
    fn apply(&self, record: &mut impl RecordState) -> ApplyResult<'a> {
        let deadline = record.deadline_of(self.expiry)?;
        let (units, contents) = (self.value.len() as u64, Contents::AsReceived(self.value));
        let change = Change::Put { record: RecordType::Bytes, units, contents, deadline };
        Ok(EvaluatedWrite { change, outcome: record.done(0) })
    }
}
