//! Units of Redis commands on the way to the instance that executes them, and their results: `docs/protocols/redis.md`. A unit, and a reply, may be
//! longer than a frame: both are sent as consecutive pieces.

use crate::error::{BadRequestReason, Failure};
use crate::fields::{FieldReader, layout};

/// A piece of a unit to execute. 24 bytes: number (8), number of the preceding unit (8), length of the complete unit (4), offset of this piece (4);
/// then the piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnitRequest<'a> {
    /// Matches the report to the unit; higher than all earlier numbers of its sender.
    pub number: u64,
    /// The preceding unit of the same sender: if that was reported as not run, this one is not run either; 0: none.
    pub behind: u64,
    /// Length of the complete unit in bytes.
    pub total: u32,
    /// Offset of this piece.
    pub at: u32,
    /// The piece.
    pub piece: &'a [u8],
}

/// The result of a unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnitVerdict {
    /// It was executed, or refused permanently: the reply to its client follows.
    #[default]
    Replied,
    /// It was not executed, and nothing has changed: its sender may send it again, here or elsewhere.
    NotRun,
    /// It waits, until this time at most, in milliseconds since 1970.
    Waits(u64),
}

/// A piece of the report about a unit. 32 bytes: number (8), end of its wait (8), length of the complete reply (4), offset of this piece (4),
/// verdict (1: replied, 2: not run, 3: waits), zero (7); then the piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnitReport<'a> {
    /// The number of the unit.
    pub number: u64,
    /// Its result.
    pub verdict: UnitVerdict,
    /// Length of the complete reply in bytes.
    pub total: u32,
    /// Offset of this piece.
    pub at: u32,
    /// The piece.
    pub piece: &'a [u8],
}

impl<'a> UnitRequest<'a> {
    pub(crate) fn put(&self, out: &mut Vec<u8>) -> Result<&'a [u8], Failure<'static>> {
        let Self { number, behind, total, at, piece } = *self;
        check(total, at, piece)?;
        let fields: [u8; 24] = layout(|to| to.u64(number).u64(behind).u32(total).u32(at));
        out.extend_from_slice(&fields);
        Ok(piece)
    }

    pub(crate) fn decode_body(body: &'a [u8]) -> Result<Self, Failure<'static>> {
        let (mut fields, piece) = FieldReader::<24>::split(body)?;
        let (number, behind) = (fields.u64(), fields.u64());
        let (total, at) = (fields.u32(), fields.u32());
        fields.done()?;
        check(total, at, piece)?;
        Ok(Self { number, behind, total, at, piece })
    }
}

impl<'a> UnitReport<'a> {
    pub(crate) fn put(&self, out: &mut Vec<u8>) -> Result<&'a [u8], Failure<'static>> {
        let Self { number, verdict, total, at, piece } = *self;
        check(total, at, piece)?;
        let (verdict, until_ms) = match verdict {
            UnitVerdict::Replied => (1, 0),
            UnitVerdict::NotRun => (2, 0),
            UnitVerdict::Waits(until_ms) => (3, until_ms),
        };
        let fields: [u8; 32] =
            layout(|to| to.u64(number).u64(until_ms).u32(total).u32(at).u8(verdict).zeros(7));
        out.extend_from_slice(&fields);
        Ok(piece)
    }

    pub(crate) fn decode_body(body: &'a [u8]) -> Result<Self, Failure<'static>> {
        let (mut fields, piece) = FieldReader::<32>::split(body)?;
        let (number, until_ms) = (fields.u64(), fields.u64());
        let (total, at, verdict) = (fields.u32(), fields.u32(), fields.u8());
        fields.zeros(7);
        fields.done()?;
        check(total, at, piece)?;
        let verdict = match (verdict, until_ms) {
            (1, 0) => UnitVerdict::Replied,
            (2, 0) => UnitVerdict::NotRun,
            (3, _) => UnitVerdict::Waits(until_ms),
            _ => return Err(BadRequestReason::Reserved.into()),
        };
        Ok(Self { number, verdict, total, at, piece })
    }
}

/// Checks that a piece is inside the unit or reply.
fn check(total: u32, at: u32, piece: &[u8]) -> Result<(), Failure<'static>> {
    let end = (at as usize).checked_add(piece.len());
    if end.is_some_and(|end| end <= total as usize) { Ok(()) } else { Err(BadRequestReason::Lengths.into()) }
}
