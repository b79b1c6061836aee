//! `confirm`: whether a record is still as it was read.
//!
//! An absence has no version. A record that was created and removed between the two reads leaves none behind, so an absent record
//! is never confirmed. A client that has read an absence uses a transaction, whose intents protect it. An absent chunk of a blob
//! is confirmed. Chunks are removed only with a truncation, which changes the blob stamp in the header. A client that confirms
//! chunks reads the header again.

use super::{OperationBody, OperationFacts, ReadHead, ReadOperation};
use crate::answer::OperationAnswer;
use crate::blob::is_of_blob;
use crate::error::Failure;
use crate::fields::layout;
use crate::ids::Timestamp;
use crate::kind::FrameKind;
use crate::state::ReadableRecord;

/// Whether the record still has this version, and no transaction is about to change it: the second round of a read of several
/// records. It never waits. Answers `Done`, number 1 if so, else 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Confirm {
    /// The version from an earlier read. Zero, meaning no record, can be confirmed only for chunks of blobs: another record may have
    /// existed in between.
    pub version: Timestamp,
}

impl<'a> ReadOperation<'a> for Confirm {
    const FACTS: OperationFacts = OperationFacts::read(
        FrameKind::Confirm,
        "version (8) that an earlier read returned; 0, absent, can be confirmed only for chunks of blobs",
        "done, number 1 if confirmed, else 0",
        &[],
    );
    const IN_TRANSACTION: bool = false;

    fn put(&self, head: &ReadHead<'a>, out: &mut Vec<u8>) -> Result<&'a [u8], Failure<'static>> {
        let fields: [u8; 16] = layout(|to| to.bytes(head.fields(0)).u64(self.version.0));
        out.extend_from_slice(&fields);
        Ok(head.key)
    }

    fn decode(mut body: OperationBody<'a>) -> Result<(&'a [u8], Self), Failure<'static>> {
        body.no_detail()?;
        let version = Timestamp(body.fields::<8>()?.u64());
        Ok((body.only_key()?, Self { version }))
    }

    fn answer<'o>(
        &self,
        key: &[u8],
        record: &mut impl ReadableRecord,
        _: &'o mut Vec<u8>,
    ) -> OperationAnswer<'o> {
        let is_lasting = self.version != Timestamp::ZERO || is_of_blob(key);
        Ok(record.done(u64::from(record.version() == self.version && is_lasting)))
    }
}
