//! A command of many keys in one partition, done in parts one after the other: the instance serves others between two of them.
//!
//! The next part is asked for once the reply to the one before has come, so that a part is a step wherever it is run. What comes behind
//! the command waits until all are done.

use super::{BlockReason, Connection, NO_ROOM};
use crate::limits::PART_KEYS_MAX;
use crate::parts::{JoinedReplies, Shares};
use crate::{Args, ConnectionWorld, PartitionPlace, Ticket, Unit, UnitResult};

/// One such command under way.
#[derive(Debug)]
pub(super) struct Steps {
    place: PartitionPlace,
    units: std::vec::IntoIter<Vec<u8>>,
    bytes: usize,
    /// Of the part that is asked for.
    part: u32,
    joined: JoinedReplies,
}

impl Steps {
    /// Bytes that it keeps.
    pub(super) fn bytes(&self) -> usize {
        self.bytes + self.joined.bytes()
    }
}

impl Connection {
    /// Has a unit with keys in one partition done in parts, or refuses it. `false`: it is one step.
    pub(super) fn in_steps(
        &mut self,
        place: PartitionPlace,
        unit: &Unit<'_>,
        args: Args<'_>,
        world: &mut dyn ConnectionWorld,
        out: &mut Vec<u8>,
    ) -> bool {
        if args.len() <= PART_KEYS_MAX {
            return false;
        }
        let (units, joined) = match unit.steps() {
            Shares::Whole => return false,
            Shares::Refused(text) => {
                self.reply(out, |reply| reply.error(&text));
                return true;
            }
            Shares::Parts(units, joined) => (units, joined),
        };
        let bytes = units.iter().map(Vec::len).sum::<usize>();
        if !world.hold(self.held_bytes() + bytes) {
            self.reply(out, |reply| reply.error(NO_ROOM));
            return true;
        }
        let number = self.pending.number();
        self.pending.push(number, self.silent, 0);
        let steps = Steps { place, units: units.into_iter(), bytes, part: 0, joined };
        self.next_step(number, Box::new(steps), world, out);
        true
    }

    /// The reply to a part has come.
    pub(super) fn step_done(
        &mut self,
        ticket: Ticket,
        mut steps: Box<Steps>,
        reply: &[u8],
        world: &mut dyn ConnectionWorld,
        out: &mut Vec<u8>,
    ) {
        match steps.joined.take(reply) {
            Ok(()) => self.next_step(ticket.number, steps, world, out),
            Err(text) => self.pending.fulfil(ticket.number, |slot| slot.extend_from_slice(&text), out),
        }
    }

    /// Asks for the next part, or replies.
    fn next_step(
        &mut self,
        number: u64,
        mut steps: Box<Steps>,
        world: &mut dyn ConnectionWorld,
        out: &mut Vec<u8>,
    ) {
        while let Some(bytes) = steps.units.next() {
            // It was encoded here.
            let Ok(unit) = Unit::decode(&bytes) else { continue };
            let ticket = Ticket { number, part: steps.part };
            steps.part += 1;
            let mut reply = Vec::new();
            if world.run(steps.place, ticket, &unit, &mut reply) == UnitResult::Later {
                self.blocked = Some((number, BlockReason::Steps(steps)));
                return;
            }
            if let Err(text) = steps.joined.take(&reply) {
                return self.pending.fulfil(number, |slot| slot.extend_from_slice(&text), out);
            }
        }
        let protocol = self.protocol;
        self.pending.fulfil(number, |slot| steps.joined.reply(protocol, slot), out);
    }
}
