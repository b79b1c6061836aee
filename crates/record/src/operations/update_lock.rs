//! `update_lock`: a lookup by a client that is going to update the record, in the order of arrival among such clients.
//!
//! Transactions are optimistic: two that read the same version and write it conflict, and one of them runs again. A transaction that takes
//! the update lock waits for those before it instead. The lock is advisory: no other request waits for it, and a commit checks
//! what was read with and without it.

use super::{Lookup, OperationBody, OperationFacts, ReadHead, ReadOperation};
use crate::answer::OperationAnswer;
use crate::error::{BadRequestReason, ErrorCode, Failure, Permission};
use crate::fields::layout;
use crate::kind::FrameKind;
use crate::state::ReadableRecord;

/// Takes the update lock of a record, or releases it. It ends with the next change of the record, at the request of its client, with the
/// client's connection, or after `UPDATE_LOCK_MS`. A request for it waits for at most `UPDATE_LOCK_WAIT_MS`, and is then answered without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdateLock {
    /// Answers like [`Lookup`] once no earlier client has the lock. The number is that of the lock among those of the connection.
    Take(u64),
    /// Releases the lock of this number, if the client has it, and answers like [`Lookup`]. It waits for nothing.
    Release(u64),
}

impl<'a> ReadOperation<'a> for UpdateLock {
    const FACTS: OperationFacts = OperationFacts {
        detail: "0: take, 1: release",
        // A client that may not update a record must not delay those that may.
        needs: &[Permission::Write, Permission::Read],
        ..OperationFacts::read(
            FrameKind::UpdateLock,
            "number of the lock (8)",
            "value or list",
            &[ErrorCode::NotFound, ErrorCode::WrongType],
        )
    };
    const IN_TRANSACTION: bool = false;

    fn put(&self, head: &ReadHead<'a>, out: &mut Vec<u8>) -> Result<&'a [u8], Failure<'static>> {
        let (detail, number) = match *self {
            Self::Take(number) => (0, number),
            Self::Release(number) => (1, number),
        };
        let fields: [u8; 16] = layout(|to| to.bytes(head.fields(detail)).u64(number));
        out.extend_from_slice(&fields);
        Ok(head.key)
    }

    fn decode(mut body: OperationBody<'a>) -> Result<(&'a [u8], Self), Failure<'static>> {
        let number = body.fields::<8>()?.u64();
        let lock = match body.detail() {
            0 => Self::Take(number),
            1 => Self::Release(number),
            _ => return Err(BadRequestReason::Detail.into()),
        };
        Ok((body.only_key()?, lock))
    }

    fn answer<'o>(
        &self,
        key: &[u8],
        record: &mut impl ReadableRecord,
        out: &'o mut Vec<u8>,
    ) -> OperationAnswer<'o> {
        Lookup.answer(key, record, out)
    }
}
