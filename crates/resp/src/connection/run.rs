//! Execution of a unit, in order with the earlier ones of its connection.

use super::{BlockReason, Connection, MEMORY_FULL, Spread};
use crate::command::{CommandRow, ConnectionCommand, Executor};
use crate::execute::INTERNAL;
use crate::limits::RESERVE_MEMORY_BYTES;
use crate::{Args, ConnectionWorld, Ticket, Unit, UnitResult};

impl Connection {
    /// Whether a command waits for the replies to all earlier ones. The others are in order with those of the same keys.
    pub(super) fn awaits_earlier(&self, args: Args<'_>, world: &dyn ConnectionWorld) -> bool {
        let Some(command) = CommandRow::find(args.at(0)).filter(|command| command.accepts_count(args.len()))
        else {
            return false;
        };
        match command.how {
            // It would change the keyspace of commands under way.
            Executor::Special(ConnectionCommand::Keyspace) => true,
            // Earlier writes are among all keys, and `FLUSHALL` removes what they have written.
            Executor::AllPartitions(_) => self.transaction.is_none(),
            Executor::Special(ConnectionCommand::Cluster) => args.is(1, "COUNTKEYSINSLOT"),
            _ => world.serves_cross_partition() && self.is_spread(command, args, world),
        }
    }

    /// Whether the keys of a command are in several partitions.
    fn is_spread(&self, command: &CommandRow, args: Args<'_>, world: &dyn ConnectionWorld) -> bool {
        match command.how {
            Executor::Special(ConnectionCommand::Exec) => self.exec_spread() == Some(Spread::Several),
            Executor::Keyed(_) if self.transaction.is_some() => false,
            Executor::Keyed(_) | Executor::Special(ConnectionCommand::Watch) => {
                let (places, step) = command.key_positions(args.len());
                places.step_by(step).len() > 1
                    && self.partitions_of(command, args, world) == Ok(Spread::Several)
            }
            _ => false,
        }
    }

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
