//! Execution of a unit.

use super::{BlockReason, Connection, MEMORY_FULL, Spread};
use crate::execute::INTERNAL;
use crate::limits::RESERVE_MEMORY_BYTES;
use crate::{ConnectionWorld, Ticket, Unit, UnitResult};

impl Connection {
    /// Executes a unit whose reply is the command's.
    #[inline]
    pub(super) fn run(
        &mut self,
        spread: Spread,
        unit: &Unit<'_>,
        blocks: bool,
        world: &mut dyn ConnectionWorld,
        out: &mut Vec<u8>,
    ) {
        let bytes = unit.commands.len();
        if (blocks || bytes >= RESERVE_MEMORY_BYTES) && !world.may_buffer(self.buffered_bytes() + bytes) {
            return self.reply(out, |reply| reply.error(MEMORY_FULL));
        }
        let number = self.pending.number();
        let (silent, keyspace) = (self.silent, self.keyspace);
        let ticket = Ticket { number, part: 0 };
        let mut long = None;
        let ran = self.pending.write(out, silent, |slot| {
            let begin = slot.len();
            let mut ran = match spread {
                Spread::One(place) => world.run(place, ticket, unit, slot),
                Spread::Several => world.run_over(keyspace, ticket, unit, slot),
            };
            if slot.get(begin) == Some(&INTERNAL) {
                // The unit ran here, so its long reply is ready at once.
                (long, ran) = (Some(slot.split_off(begin)), UnitResult::Later);
            }
            (ran == UnitResult::Done, ran)
        });
        if ran == UnitResult::Later {
            self.pending.push(number, silent, bytes);
            if let Some(long) = long
                && !self.begin_pages(number, &long, world)
            {
                self.pending.fulfil(number, |slot| slot.extend_from_slice(&long), out);
            }
            // Later commands would not be executed after it.
            if blocks || spread == Spread::Several {
                self.blocked = Some((number, BlockReason::Wait));
            }
        }
    }
}
