//! Comparison of the contents of a partition's members, one hash range at a time.
//!
//! Fields of a request: first hash fragment (4), zero (4). In the answer, the detail is the number of copies and the number is the number of
//! records. After these fields: next (4), members that differ (4), bytes (8); then these members, 4 bytes each.

use crate::elements::{Element, Elements};
use crate::error::{BadRequestReason, Failure};
use crate::fields::{FieldReader, layout, nothing_left};
use crate::ids::InstanceId;

/// Has the primary and every other member read a hash range of the records, as of one log entry. Answers `Compared`; a member whose contents differ
/// from the others' installs a new copy of everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compare {
    /// The hash fragment at which the range begins: 0, then the value in the answer for the range before.
    pub from: u32,
}

/// The result of the comparison of one hash range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangeComparison<'a> {
    /// Where the next slice begins; 0: this was the last.
    pub next: u32,
    /// Number of records in this one.
    pub records: u64,
    /// Size of their contents in bytes.
    pub bytes: u64,
    /// Number of members that have read it, including the primary. The others were unreachable, or have a log that cannot be compared.
    pub copies: u32,
    /// The members whose contents differ.
    pub differing: Elements<'a, InstanceId>,
}

impl Compare {
    /// Its body.
    #[must_use]
    pub fn encode(self) -> [u8; 8] {
        layout(|to| to.u32(self.from).zeros(4))
    }

    /// Errors: the bytes are not such a request.
    pub fn decode_body(body: &[u8]) -> Result<Self, Failure<'static>> {
        let (mut fields, rest) = FieldReader::<8>::split(body)?;
        let from = fields.u32();
        fields.zeros(4);
        fields.done()?;
        nothing_left(rest)?;
        Ok(Self { from })
    }
}

impl<'a> RangeComparison<'a> {
    /// Appends what follows the answer's fields, except its last bytes.
    pub fn put(&self, out: &mut Vec<u8>) -> Result<&'a [u8], Failure<'static>> {
        let Self { next, bytes, differing, .. } = *self;
        let fields: [u8; 16] = layout(|to| to.u32(next).u32(differing.count()).u64(bytes));
        out.extend_from_slice(&fields);
        differing.put(out)
    }

    /// Decodes the answer with these fields and this payload. Errors: the bytes are not such an answer.
    pub fn decode_body(copies: u32, records: u64, payload: &'a [u8]) -> Result<Self, Failure<'static>> {
        let (mut fields, rest) = FieldReader::<16>::split(payload)?;
        let (next, differing, bytes) = (fields.u32(), fields.u32(), fields.u64());
        fields.done()?;
        if differing > copies {
            return Err(BadRequestReason::Lengths.into());
        }
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
