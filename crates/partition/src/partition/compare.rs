//! `compare` without other members: the only copy reads a slice of its own contents.

use zerohop_engine::disk::Disk;
use zerohop_engine::{Cursor, Engine};
use zerohop_wire::messages::{Compare, OperationAnswer, Outcome, RangeComparison};
use zerohop_wire::{BadRequestReason, Elements, Failure, Message};

use super::Partition;
use crate::digest::{self, DigestError, RecordDigest};
use crate::event::{PartitionEffects, Token};
use crate::failure::failure_of;
use crate::limits::{BUSY_RETRY_MS, COMPARED_BYTES, COMPARED_RECORDS};
use crate::operations::EngineResultExt;

impl Partition {
    pub(super) fn compare<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        compare: &Compare<'_>,
        token: Token,
        effects: &mut dyn PartitionEffects,
    ) {
        let mut next = Vec::new();
        effects.answer(token, &Message::Answer(self.compare_records(engine, compare.from, &mut next)));
    }

    fn compare_records<'o, D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        from: &[u8],
        next: &'o mut Vec<u8>,
    ) -> OperationAnswer<'o> {
        let begin = Cursor::from_bytes(from).map_err(|_| BadRequestReason::Cursor)?;
        let mut records = COMPARED_RECORDS;
        loop {
            let end = engine.range_end(self.handle(), &begin, records, COMPARED_BYTES).or_fail()?;
            match self.digest(engine, (&begin, end.as_ref()), (4 * COMPARED_RECORDS, true)) {
                Ok(digested) if digested.is_incomplete && records > 1 => records /= 2,
                Ok(RecordDigest { records, bytes, .. }) => {
                    next.extend_from_slice(end.as_ref().map_or(&[], Cursor::as_bytes));
                    let differing = Elements::from_slice(&[]);
                    return Ok(Outcome::Compared(RangeComparison {
                        next,
                        records,
                        bytes,
                        copies: 1,
                        differing,
                    }));
                }
                Err(DigestError::TooMany) => return Err(Failure::Busy { retry_after_ms: BUSY_RETRY_MS }),
                Err(DigestError::Corrupt(_)) => return Err(Failure::DataCorrupt),
                Err(DigestError::Engine(error)) => return Err(failure_of(&error)),
            }
        }
    }

    /// The digest of the records of a slice of the keys ([`RecordDigest`]).
    pub fn digest<D: Disk>(
        &self,
        engine: &mut Engine<D>,
        range: (&Cursor, Option<&Cursor>),
        bounds: (usize, bool),
    ) -> Result<RecordDigest, DigestError> {
        digest::of_slice(engine, (self.handle(), &self.state.deadlines), range, bounds)
    }
}
