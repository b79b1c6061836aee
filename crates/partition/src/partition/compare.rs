//! `compare` where there is nobody to compare with: the only copy reads a slice of what it holds.

use zerohop_engine::Engine;
use zerohop_engine::disk::Disk;
use zerohop_wire::messages::{Answer, Compare, Compared, Outcome};
use zerohop_wire::{Failure, Many, Message};

use super::Partition;
use crate::digest::{self, Digested, Undigested};
use crate::event::{Effects, Token};
use crate::failure::failure_of;
use crate::limits::{BUSY_RETRY_MS, COMPARED_BYTES, COMPARED_RECORDS};

impl Partition {
    pub(super) fn compare<D: Disk>(
        &mut self,
        engine: &mut Engine<D>,
        compare: &Compare,
        token: Token,
        effects: &mut dyn Effects,
    ) {
        effects.answer(token, &Message::Answer(self.look_through(engine, compare.from)));
    }

    fn look_through<D: Disk>(&mut self, engine: &mut Engine<D>, from: u32) -> Answer<'static> {
        let mut records = COMPARED_RECORDS;
        loop {
            let end = engine.slice_end(self.handle(), from, records, COMPARED_BYTES);
            let through = end.map_err(|error| failure_of(&error))?;
            match self.digest(engine, (from, through), (4 * COMPARED_RECORDS, true)) {
                Ok(digested) if digested.is_cut && records > 1 => records /= 2,
                Ok(Digested { records, bytes, .. }) => {
                    let (next, differing) = (through.wrapping_add(1), Many::given(&[]));
                    return Ok(Outcome::Compared(Compared { next, records, bytes, copies: 1, differing }));
                }
                Err(Undigested::TooMany) => return Err(Failure::Busy { retry_after_ms: BUSY_RETRY_MS }),
                Err(Undigested::Rotten(_)) => return Err(Failure::Rotten),
                Err(Undigested::Engine(error)) => return Err(failure_of(&error)),
            }
        }
    }

    /// See [`digest::of_slice`].
    pub(crate) fn digest<D: Disk>(
        &self,
        engine: &mut Engine<D>,
        slice: (u32, u32),
        bounds: (usize, bool),
    ) -> Result<Digested, Undigested> {
        digest::of_slice(engine, (self.handle(), &self.state.deadlines), slice, bounds)
    }
}
