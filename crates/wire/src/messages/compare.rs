//! Has the members of a partition compare what they hold, slice by slice.
//!
//! Fields of a request: first hash fragment (4), zero (4). What it brings, behind the fields of an answer whose detail is the
//! copies and whose number is the records: next (4), members that differ (4), bytes (8); then these, 4 bytes each.

use super::answer::Outcome;
use crate::elements::{Element, Elements};
use crate::error::{Failure, What};
use crate::fields::{FieldReader, layout, nothing_left};
use crate::ids::InstanceId;

/// Asks the primary to read a slice of the records, and to have every other member read it, as of one entry of the log.
/// Answers `Compared`; who holds something else than the others takes everything again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compare {
    /// The slice begins at this hash fragment: 0, then what the slice before has answered.
    pub from: u32,
}

/// What a comparison of one slice brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SliceComparison<'a> {
    /// Where the next slice begins; 0: this was the last.
    pub next: u32,
    /// Records in this one.
    pub records: u64,
    /// Bytes of their contents.
    pub bytes: u64,
    /// Members that have read it, the primary among them. The others were not there, or have a log that cannot be compared.
    pub copies: u32,
    /// Those of them that hold something else.
    pub differing: Elements<'a, InstanceId>,
}

impl Compare {
    pub(crate) fn encode(self) -> [u8; 8] {
        layout(|to| to.u32(self.from).zeros(4))
    }

    pub(crate) fn take(body: &[u8]) -> Result<Self, Failure<'static>> {
        let (mut fields, rest) = FieldReader::<8>::split(body)?;
        let from = fields.u32();
        fields.zeros(4);
        fields.done()?;
        nothing_left(rest)?;
        Ok(Self { from })
    }
}

impl<'a> SliceComparison<'a> {
    /// Appends what stands behind the answer's fields, but for its last bytes.
    pub(super) fn put(&self, out: &mut Vec<u8>) -> Result<&'a [u8], Failure<'static>> {
        let Self { next, bytes, differing, .. } = *self;
        let fields: [u8; 16] = layout(|to| to.u32(next).u32(differing.count()).u64(bytes));
        out.extend_from_slice(&fields);
        differing.put(out)
    }

    pub(super) fn take(
        copies: u32,
        records: u64,
        payload: &'a [u8],
    ) -> Result<Outcome<'a>, Failure<'static>> {
        let (mut fields, rest) = FieldReader::<16>::split(payload)?;
        let (next, differing, bytes) = (fields.u32(), fields.u32(), fields.u64());
        fields.done()?;
        if differing > copies {
            return Err(What::Lengths.into());
        }
        let differing = Elements::packed(differing, rest)?;
        Ok(Outcome::Compared(SliceComparison { next, records, bytes, copies, differing }))
    }
}

impl<'a> Element<'a> for InstanceId {
    /// More than a partition has copies.
    const COUNT_MAX: u32 = 256;

    fn put(&self, out: &mut Vec<u8>) -> Result<&[u8], Failure<'static>> {
        out.extend_from_slice(&self.0.to_le_bytes());
        Ok(&[])
    }

    fn take(bytes: &mut &'a [u8]) -> Result<Self, Failure<'static>> {
        let (id, rest) = bytes.split_first_chunk::<4>().ok_or(What::Lengths)?;
        *bytes = rest;
        Ok(Self(u32::from_le_bytes(*id)))
    }
}
