//! Comparison of the contents of a partition's members, one range of keys at a time.
//!
//! Fields of a request: cursor length (4), zero (4); then the cursor. In the answer, the detail is the number of copies and the number is the number
//! of records. After these fields: length of the next cursor (4), members that differ (4), bytes (8); then that cursor and these members, 4 bytes each.

use crate::elements::{Element, Elements};
use crate::error::{BadRequestReason, Failure};
use crate::fields::{FieldReader, layout, nothing_left, split};
use crate::ids::InstanceId;
use crate::scan::check_cursor;

/// Has the primary and every other member read a range of the records, as of one log entry. Answers `Compared`; a member whose contents differ
/// from the others' installs a new copy of everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compare<'a> {
    /// The cursor at which the range begins: empty, then the cursor in the answer for the range before. Only the server interprets it.
    pub from: &'a [u8],
}

/// The result of the comparison of one range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangeComparison<'a> {
    /// The cursor at which the next range begins; empty: this was the last.
    pub next: &'a [u8],
    /// Number of records in this one.
    pub records: u64,
    /// Size of their contents in bytes.
    pub bytes: u64,
    /// Number of members that have read it, including the primary. The others were unreachable, or have a log that cannot be compared.
    pub copies: u32,
    /// The members whose contents differ.
    pub differing: Elements<'a, InstanceId>,
}

impl<'a> Compare<'a> {
    /// Appends its fields, and returns the cursor, which follows them. Errors: the cursor is too long.
    pub fn put(&self, out: &mut Vec<u8>) -> Result<&'a [u8], Failure<'static>> {
        check_cursor(self.from)?;
        let fields: [u8; 8] = layout(|to| to.u32(self.from.len() as u32).zeros(4));
        out.extend_from_slice(&fields);
        Ok(self.from)
    }

    /// Errors: the bytes are not such a request.
    pub fn decode_body(body: &'a [u8]) -> Result<Self, Failure<'static>> {
        let (mut fields, rest) = FieldReader::<8>::split(body)?;
        let length = fields.u32() as usize;
        fields.zeros(4);
        fields.done()?;
        let (from, rest) = split(rest, length)?;
        nothing_left(rest)?;
        check_cursor(from)?;
        Ok(Self { from })
    }
}

impl<'a> RangeComparison<'a> {
    /// Appends what follows the answer's fields, except its last bytes.
    pub fn put(&self, out: &mut Vec<u8>) -> Result<&'a [u8], Failure<'static>> {
        let Self { next, bytes, differing, .. } = *self;
        check_cursor(next)?;
        let fields: [u8; 16] = layout(|to| to.u32(next.len() as u32).u32(differing.count()).u64(bytes));
        out.extend_from_slice(&fields);
        out.extend_from_slice(next);
        differing.put(out)
    }

    /// Decodes the answer with these fields and this payload. Errors: the bytes are not such an answer.
    pub fn decode_body(copies: u32, records: u64, payload: &'a [u8]) -> Result<Self, Failure<'static>> {
        let (mut fields, rest) = FieldReader::<16>::split(payload)?;
        let (length, differing, bytes) = (fields.u32() as usize, fields.u32(), fields.u64());
        fields.done()?;
        if differing > copies {
            return Err(BadRequestReason::Lengths.into());
        }
        let (next, rest) = split(rest, length)?;
        check_cursor(next)?;
        let differing = Elements::packed(differing, rest)?;
        Ok(Self { next, records, bytes, copies, differing })
    }
}

impl<'a> Element<'a> for InstanceId {
    /// More than the number of copies of a partition.
    const COUNT_MAX: u32 = 256;

    fn put(&self, out: &mut Vec<u8>) -> Result<&[u8], Failure<'static>> {
        out.extend_from_slice(&self.0.to_le_bytes());
        Ok(&[])
    }

    fn take(bytes: &mut &'a [u8]) -> Result<Self, Failure<'static>> {
        let (id, rest) = bytes.split_first_chunk::<4>().ok_or(BadRequestReason::Lengths)?;
        *bytes = rest;
        Ok(Self(u32::from_le_bytes(*id)))
    }
}
