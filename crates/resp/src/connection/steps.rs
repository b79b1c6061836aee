//! A command of many keys in one or several partitions, executed in parts. The instance serves
//! others in between.
//!
//! The next part is sent once the reply to the part before it has come, so that a part is one step
//! on any instance. Later commands wait until all parts are done. An array is sent in pieces: then
//! the next part also waits until the client has room.

use super::{BlockReason, Connection, MEMORY_FULL, Spread};
use crate::limits::{OUTPUT_BYTES_MAX, PAGE_BYTES, PART_KEYS_MAX};
use crate::number::integer;
use crate::parts::{JoinedReplies, Shares};
use crate::unit::MAY_STOP;
use crate::{Args, ConnectionWorld, Ticket, Unit, UnitResult};
use zerohop_wire::ids::KeyspaceId;

/// A command under way.
#[derive(Debug)]
pub(super) struct Steps {
    spread: Spread,
    keyspace: KeyspaceId,
    /// The current or next part, and those after it.
    unit: Vec<u8>,
    units: std::vec::IntoIter<Vec<u8>>,
    bytes: usize,
    /// The part number of the current unit.
    part: u32,
    joined: JoinedReplies,
    /// A unit is under way.
    is_unit_in_flight: bool,
    /// A piece of its array is sent, so it cannot become an error any more.
    is_begun: bool,
}

impl Steps {
    /// Bytes that it keeps.
    pub(super) fn bytes(&self) -> usize {
        self.bytes + self.joined.bytes()
    }

    /// Whether it continues once its client has room.
    pub(super) fn awaits_output_space(&self) -> bool {
        !self.is_unit_in_flight
    }
}

impl Connection {
    /// Executes a unit in parts, or refuses it. `false`: it is one step.
    pub(super) fn in_steps(
        &mut self,
        spread: Spread,
        unit: &Unit<'_>,
        args: Args<'_>,
        world: &mut dyn ConnectionWorld,
        out: &mut Vec<u8>,
    ) -> bool {
        if args.len() <= PART_KEYS_MAX {
            return false;
        }
        let shares = match spread {
            Spread::One(_) => {
                let may_stop = unit.wait_until_ms.map(|_| MAY_STOP);
                Unit { wait_until_ms: may_stop, ..*unit }.steps()
            }
            Spread::Several => unit.shares(),
        };
        let (units, joined) = match shares {
            Shares::SingleStep => return false,
            Shares::Refused(text) => {
                self.reply(out, |reply| reply.error(&text));
                return true;
            }
            Shares::Parts(units, joined) => (units, joined),
        };
        let bytes = units.iter().map(Vec::len).sum::<usize>();
        if !world.may_buffer(self.buffered_bytes() + bytes) {
            self.reply(out, |reply| reply.error(MEMORY_FULL));
            return true;
        }
        let number = self.pending.number();
        self.pending.push(number, self.silent, 0);
        let mut units = units.into_iter();
        let unit = units.next().unwrap_or_default();
        let (is_in_flight, is_begun) = (false, false);
        let steps = Box::new(Steps {
            spread,
            keyspace: self.keyspace,
            unit,
            units,
            bytes,
            part: 0,
            joined,
            is_unit_in_flight: is_in_flight,
            is_begun,
        });
        self.next_step(number, steps, world, out);
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
        if self.handle_step(ticket.number, &mut steps, reply, out) {
            self.next_step(ticket.number, steps, world, out);
        }
    }

    /// Continues a command that waits until its client has room.
    pub(super) fn step_on(&mut self, world: &mut dyn ConnectionWorld, out: &mut Vec<u8>) {
        let waits = |(number, blocked): &mut (u64, BlockReason)| {
            let is_first = self.pending.front() == Some(*number);
            is_first && matches!(blocked, BlockReason::Steps(steps) if steps.awaits_output_space())
        };
        if out.len() < OUTPUT_BYTES_MAX
            && let Some((number, BlockReason::Steps(mut steps))) = self.blocked.take_if(waits)
        {
            self.put_piece(&mut steps, out);
            self.next_step(number, steps, world, out);
        }
    }

    /// Sends the collected piece of an array.
    fn put_piece(&mut self, steps: &mut Steps, out: &mut Vec<u8>) {
        let begin = out.len();
        steps.joined.piece(!steps.is_begun, self.protocol, out);
        steps.is_begun = true;
        if !self.pending.is_front_expected() {
            out.truncate(begin);
        }
    }

    /// Adds the reply to a part. `false`: it ends the command.
    fn handle_step(&mut self, number: u64, steps: &mut Steps, reply: &[u8], out: &mut Vec<u8>) -> bool {
        steps.is_unit_in_flight = false;
        if let Err(text) = steps.joined.add_reply(reply) {
            if steps.is_begun {
                self.break_reply();
            } else {
                self.pending.fulfil(number, |slot| slot.extend_from_slice(&text), out);
            }
            return false;
        }
        let left = match Unit::decode(&steps.unit) {
            // The reply may cover only the first of the keys.
            Ok(unit) if steps.joined.is_list() => {
                let line = reply.iter().position(|byte| *byte == b'\r').unwrap_or(0);
                let done = reply.get(1..line).and_then(integer).unwrap_or(0);
                let done = usize::try_from(done).unwrap_or(0).max(1);
                (done < unit.one_keys()).then(|| unit.without_keys(done))
            }
            _ => None,
        };
        steps.unit = left.or_else(|| steps.units.next()).unwrap_or_default();
        true
    }

    /// Sends the next part, or replies.
    fn next_step(
        &mut self,
        number: u64,
        mut steps: Box<Steps>,
        world: &mut dyn ConnectionWorld,
        out: &mut Vec<u8>,
    ) {
        while !steps.unit.is_empty() {
            if steps.joined.is_list() && steps.joined.bytes() >= PAGE_BYTES {
                self.blocked = Some((number, BlockReason::Steps(steps)));
                return;
            }
            // It was encoded by this crate.
            let bytes = std::mem::take(&mut steps.unit);
            let Ok(unit) = Unit::decode(&bytes) else { continue };
            let ticket = Ticket { number, part: steps.part };
            steps.part += 1;
            let mut reply = Vec::new();
            let ran = match steps.spread {
                Spread::One(place) => world.run(place, ticket, &unit, &mut reply),
                Spread::Several => world.run_over(steps.keyspace, ticket, &unit, &mut reply),
            };
            steps.unit = bytes;
            if ran == UnitResult::Later {
                steps.is_unit_in_flight = true;
                self.blocked = Some((number, BlockReason::Steps(steps)));
                return;
            }
            if !self.handle_step(number, &mut steps, &reply, out) {
                return;
            }
        }
        if steps.is_begun {
            // It is the first pending reply.
            self.put_piece(&mut steps, out);
            return self.pending.fulfil(number, |_| {}, out);
        }
        let protocol = self.protocol;
        self.pending.fulfil(number, |slot| steps.joined.reply(protocol, slot), out);
    }
}
