//! `read_chunk`: a part of a chunk of a blob, as far as it was written.

use super::{OperationBody, OperationFacts, ReadHead, ReadOperation};
use crate::answer::{OperationAnswer, Outcome};
use crate::blob_change::check_chunk;
use crate::error::{ErrorCode, Failure};
use crate::fields::layout;
use crate::kind::FrameKind;
use crate::state::ReadableRecord;

/// A part of a chunk of a blob. Answers `Chunk`, which may have fewer bytes: the rest are zeros; `NotFound` if the chunk is absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadChunk {
    /// Offset in the chunk.
    pub offset: u32,
    /// Number of bytes: the part ends within `CHUNK_BYTES_MAX`.
    pub length: u32,
}

impl<'a> ReadOperation<'a> for ReadChunk {
    const FACTS: OperationFacts = OperationFacts::read(
        FrameKind::ReadChunk,
        "offset in the chunk (4), length (4)",
        "chunk",
        &[ErrorCode::NotFound, ErrorCode::WrongType],
    );
    const IN_SNAPSHOT: bool = true;

    fn put(&self, head: &ReadHead<'a>, out: &mut Vec<u8>) -> Result<&'a [u8], Failure<'static>> {
        check_chunk(self.offset, self.length)?;
        let fields: [u8; 16] = layout(|to| to.bytes(head.fields(0)).u32(self.offset).u32(self.length));
        out.extend_from_slice(&fields);
        Ok(head.key)
    }

    fn decode(mut body: OperationBody<'a>) -> Result<(&'a [u8], Self), Failure<'static>> {
        body.no_detail()?;
        let mut fields = body.fields::<8>()?;
        let (offset, length) = (fields.u32(), fields.u32());
        check_chunk(offset, length)?;
        Ok((body.only_key()?, Self { offset, length }))
    }

    fn answer<'o>(
        &self,
        _: &[u8],
        record: &mut impl ReadableRecord,
        out: &'o mut Vec<u8>,
    ) -> OperationAnswer<'o> {
        let found = record.record_type().ok_or(Failure::NotFound)?;
        let stamp = record.stamp().ok_or(Failure::WrongType { found })?;
        let (begin, requested_end) =
            (u64::from(self.offset), u64::from(self.offset) + u64::from(self.length));
        let end = requested_end.min(record.length()).max(begin);
        record.read_bytes(begin..end, out)?;
        Ok(Outcome::Chunk { version: record.version(), stamp, bytes: out })
    }
}
