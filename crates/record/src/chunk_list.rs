//! A list of the chunks that exist of one blob in a partition, page by page.
//!
//! Fields: seen (8), first number (8), number behind the last (8), cursor length (4), numbers at most (4); then cursor, name.

use crate::error::{BadRequestReason, Failure};
use crate::fields::{FieldReader, layout, split};
use crate::ids::Timestamp;
use crate::limits::BLOB_NAME_BYTES_MAX;
use crate::scan::{check_cursor, check_keys_max};

/// Requests the numbers of the chunks of a blob in a partition, from [`CHUNKS_LISTED_FROM`](crate::limits::CHUNKS_LISTED_FROM) on, in an order that
/// the server chooses. A chunk that exists throughout is listed at least once; it may be one of an earlier blob of the name. Answers `Page`, whose
/// keys are the numbers (8, big-endian), with version 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChunkList<'a> {
    /// The highest timestamp that the session has seen.
    pub seen: Timestamp,
    /// The name in the keys of the chunks.
    pub name: &'a [u8],
    /// The first number.
    pub first: u64,
    /// The number behind the last.
    pub end: u64,
    /// The cursor of the previous page; empty for the first page. Only the server interprets it.
    pub cursor: &'a [u8],
    /// Maximum number of chunks; a page may have fewer although there are more.
    pub numbers_max: u32,
}

impl<'a> ChunkList<'a> {
    /// Writes all but the last piece of the payload to `out`, and returns that piece. Errors: a limit is exceeded.
    pub fn put(&self, out: &mut Vec<u8>) -> Result<&'a [u8], Failure<'static>> {
        self.check()?;
        let fields: [u8; 32] = layout(|to| {
            let to = to.u64(self.seen.0).u64(self.first).u64(self.end);
            to.u32(self.cursor.len() as u32).u32(self.numbers_max)
        });
        out.extend_from_slice(&fields);
        out.extend_from_slice(self.cursor);
        Ok(self.name)
    }

    /// Errors: the bytes are not such a request.
    pub fn decode_body(body: &'a [u8]) -> Result<Self, Failure<'static>> {
        let (mut fields, rest) = FieldReader::<32>::split(body)?;
        let (seen, first, end) = (Timestamp(fields.u64()), fields.u64(), fields.u64());
        let (cursor_len, numbers_max) = (fields.u32() as usize, fields.u32());
        fields.done()?;
        let (cursor, name) = split(rest, cursor_len)?;
        let list = Self { seen, name, first, end, cursor, numbers_max };
        list.check()?;
        Ok(list)
    }

    fn check(&self) -> Result<(), Failure<'static>> {
        check_cursor(self.cursor)?;
        check_keys_max(self.numbers_max)?;
        if self.first > self.end {
            return Err(BadRequestReason::Chunk.into());
        }
        match self.name.len() {
            1..=BLOB_NAME_BYTES_MAX => Ok(()),
            length => Err(Failure::KeyTooLong { length: length as u64, limit: BLOB_NAME_BYTES_MAX as u32 }),
        }
    }
}
