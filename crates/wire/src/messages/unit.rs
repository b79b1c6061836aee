//! Units of Redis commands on their way to the instance that runs them, and what became of them: `docs/protocols/redis.md`.
//! A unit, and a reply, may be longer than a frame: both travel in pieces, one behind the other.

use crate::error::{Failure, What};
use crate::fields::{FieldReader, layout};

/// A piece of a unit to be run. 24 bytes: number (8), number of the unit behind which it is to be run (8), length of the
/// whole unit (4), where this piece begins in it (4); then the piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnitRequest<'a> {
    /// Ties what is told to it; higher than all that its sender has used before.
    pub number: u64,
    /// It is not run if this one, of the same sender, was told not to be; 0: it stands alone.
    pub behind: u64,
    /// Bytes of the whole unit.
    pub total: u32,
    /// Where this piece begins.
    pub at: u32,
    /// The piece.
    pub piece: &'a [u8],
}

/// What became of a unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnitVerdict {
    /// It was run, or refused for good: the reply of its client follows.
    #[default]
    Replied,
    /// It was not run, and nothing has changed: it may be asked for again, here or elsewhere.
    NotRun,
    /// It waits, until this time at most, in milliseconds since 1970.
    Waits(u64),
}

/// A piece of what is told about a unit. 32 bytes: number (8), until when it waits (8), length of the whole reply (4), where
/// this piece begins in it (4), verdict (1: replied, 2: not run, 3: waits), zero (7); then the piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnitReport<'a> {
    /// Of the unit.
    pub number: u64,
    /// What became of it.
    pub verdict: UnitVerdict,
    /// Bytes of the whole reply.
    pub total: u32,
    /// Where this piece begins.
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

    pub(crate) fn take(body: &'a [u8]) -> Result<Self, Failure<'static>> {
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

    pub(crate) fn take(body: &'a [u8]) -> Result<Self, Failure<'static>> {
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
            _ => return Err(What::Reserved.into()),
        };
        Ok(Self { number, verdict, total, at, piece })
    }
}

/// A piece lies within the whole.
fn check(total: u32, at: u32, piece: &[u8]) -> Result<(), Failure<'static>> {
    let end = (at as usize).checked_add(piece.len());
    if end.is_some_and(|end| end <= total as usize) { Ok(()) } else { Err(What::Lengths.into()) }
}
