//! `compare` without other members: the only copy reads a slice of its own contents.

use zerohop_engine::Engine;
use zerohop_engine::disk::Disk;
use zerohop_wire::messages::{Compare, OperationAnswer, Outcome, RangeComparison};
use zerohop_wire::{Elements, Failure, Message};

use super::Partition;
use crate::digest::{self, DigestError, RecordDigest};
use crate::event::{PartitionEffects, Token};
use crate::failure::failure_of;
use crate::limits::{BUSY_RETRY_MS, COMPARED_BYTES, COMPARED_RECORDS};

impl Partition {
    pub(super) fn compare<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        compare: &Compare,
        token: Token,
        effects: &mut dyn PartitionEffects,
    ) {
        effects.answer(token, &Message::Answer(self.compare_records(engine, compare.from)));
    }

    fn compare_records<D: Disk>(&mut self, engine: &mut Engine<D>, from: u32) -> OperationAnswer<'static> {
        let mut records = COMPARED_RECORDS;
        loop {
            let end = engine.range_end(self.handle(), from, records, COMPARED_BYTES);
            let through = end.map_err(|error| failure_of(&error))?;
            match self.digest(engine, (from, through), (4 * COMPARED_RECORDS, true)) {
                Ok(digested) if digested.is_incomplete && records > 1 => records /= 2,
                Ok(RecordDigest { records, bytes, .. }) => {
                    let (next, differing) = (through.wrapping_add(1), Elements::from_slice(&[]));
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

    /// The digest of the records of a slice of hash fragments ([`RecordDigest`]).
    pub fn digest<D: Disk>(
        &self,
        engine: &mut Engine<D>,
        hash_range: (u32, u32),
        bounds: (usize, bool),
    ) -> Result<RecordDigest, DigestError> {
        digest::of_slice(engine, (self.handle(), &self.state.deadlines), hash_range, bounds)
    }
}
