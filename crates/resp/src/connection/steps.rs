//! A command of many keys in one or several partitions, executed in parts. The instance serves
//! others in between.
//!
//! In one partition the next part is sent once the reply to the part before it has come, so that a
//! part is one step on any instance. Over several partitions a few parts are under way at a time:
//! each is a transaction of the gateway, which spends most of its time waiting. The replies are
//! joined in the order of the parts. Later commands wait until all parts are done.
//!
//! An array is sent in pieces: then the next part also waits until the client has room. No part is
//! sent after the time-out of a command, unless a piece of the array is sent already.

use std::collections::VecDeque;

use super::{BlockReason, Connection, MEMORY_FULL, Spread};
use crate::limits::{OUTPUT_BYTES_MAX, PAGE_BYTES, PART_KEYS_MAX, SPANNING_PARTS_WINDOW};
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
    /// A part to send before `units`: the keys that the reply to a part has left out, or a part
    /// that was refused while others were under way.
    next: Option<Vec<u8>>,
    units: std::vec::IntoIter<Vec<u8>>,
    bytes: usize,
    /// The number of the next part.
    part: u32,
    /// The sent parts whose replies are not joined yet.
    sent: VecDeque<SentPart>,
    joined: JoinedReplies,
    /// Bytes of the longest reply to a part.
    longest_reply: usize,
    time: CommandTime,
    /// Why no further part is sent.
    stopped: Option<StepsRefusal>,
    /// A piece of its array is sent, so it cannot become an error any more.
    is_begun: bool,
}

#[derive(Debug)]
struct SentPart {
    part: u32,
    unit: Vec<u8>,
    reply: Option<Vec<u8>>,
}

/// The time that a command has for all its parts.
#[derive(Debug)]
struct CommandTime {
    limit_ms: u64,
    ends_ms: u64,
}

#[derive(Debug)]
enum StepsRefusal {
    /// A part has failed, with this reply.
    Failed(Vec<u8>),
    TimedOut,
}

impl Steps {
    /// Bytes that it keeps.
    pub(super) fn bytes(&self) -> usize {
        let replies = self.sent.iter().filter_map(|sent| sent.reply.as_ref()).map(Vec::len);
        self.bytes + self.joined.bytes() + replies.sum::<usize>()
    }

    /// Whether it continues once its client has room.
    pub(super) fn awaits_output_space(&self) -> bool {
        self.joined.is_list() && self.joined.bytes() >= PAGE_BYTES
    }

    /// How many parts may be under way.
    fn window(&self) -> usize {
        match self.spread {
            Spread::One(_) => 1,
            Spread::Several if !self.joined.is_list() => SPANNING_PARTS_WINDOW,
            // Parts that are sent ahead fit in a page, if they are like those before them.
            Spread::Several => match self.longest_reply {
                0 => 1,
                longest => (PAGE_BYTES / longest).clamp(1, SPANNING_PARTS_WINDOW),
            },
        }
    }

    /// Joins the replies that have come, in the order of the parts, until a page is full.
    fn join(&mut self) {
        while self.stopped.is_none()
            && !self.awaits_output_space()
            && self.sent.front().is_some_and(|sent| sent.reply.is_some())
            && let Some(SentPart { unit, reply: Some(reply), .. }) = self.sent.pop_front()
        {
            if let Err(failed) = self.joined.add(&reply) {
                self.stopped = Some(StepsRefusal::Failed(failed));
            } else if let Spread::One(_) = self.spread
                && self.joined.is_list()
                && let Ok(unit) = Unit::decode(&unit)
            {
                // The reply may cover only the first of the keys.
                let line = reply.iter().position(|byte| *byte == b'\r').unwrap_or(0);
                let done = reply.get(1..line).and_then(integer).unwrap_or(0);
                let done = usize::try_from(done).unwrap_or(0).max(1);
                self.next = (done < unit.one_keys()).then(|| unit.without_keys(done));
            }
        }
    }

    /// The reply to a command that was stopped, once no part is under way.
    fn refusal(&mut self, reason: &StepsRefusal) -> Vec<u8> {
        for SentPart { unit, reply, .. } in self.sent.drain(..) {
            let keys = Unit::decode(&unit).map_or(0, |unit| unit.one_keys());
            self.joined.add_behind_failure(&reply.unwrap_or_default(), keys);
        }
        match reason {
            StepsRefusal::Failed(reply) => self.joined.failed(reply),
            StepsRefusal::TimedOut => self.joined.timed_out(self.time.limit_ms),
        }
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
        let limit_ms = world.time_out_ms();
        let steps = Box::new(Steps {
            spread,
            keyspace: self.keyspace,
            next: None,
            units: units.into_iter(),
            bytes,
            part: 0,
            sent: VecDeque::new(),
            joined,
            longest_reply: 0,
            time: CommandTime { limit_ms, ends_ms: world.elapsed_ms().saturating_add(limit_ms) },
            stopped: None,
            is_begun: false,
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
        if let Some(sent) = steps.sent.iter_mut().find(|sent| sent.part == ticket.part) {
            sent.reply = Some(reply.to_vec());
            steps.longest_reply = steps.longest_reply.max(reply.len());
        }
        self.next_step(ticket.number, steps, world, out);
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

    /// Sends the next parts, or replies.
    fn next_step(
        &mut self,
        number: u64,
        mut steps: Box<Steps>,
        world: &mut dyn ConnectionWorld,
        out: &mut Vec<u8>,
    ) {
        loop {
            steps.join();
            if let Some(reason) =
                steps.stopped.take_if(|_| steps.sent.iter().all(|sent| sent.reply.is_some()))
            {
                if steps.is_begun {
                    return self.break_reply();
                }
                let text = steps.refusal(&reason);
                return self.pending.fulfil(number, |slot| slot.extend_from_slice(&text), out);
            }
            if steps.stopped.is_some() || steps.awaits_output_space() || steps.sent.len() >= steps.window() {
                break;
            }
            let Some(bytes) = steps.next.take().or_else(|| steps.units.next()) else {
                if steps.sent.is_empty() {
                    return self.finish_steps(number, steps, out);
                }
                break;
            };
            if !steps.is_begun && world.elapsed_ms() >= steps.time.ends_ms {
                steps.stopped = Some(StepsRefusal::TimedOut);
                continue;
            }
            if !self.send_part(number, &mut steps, bytes, world) {
                break;
            }
        }
        self.blocked = Some((number, BlockReason::Steps(steps)));
    }

    /// Sends a part. `false`: it is sent again after a reply to one that is under way.
    fn send_part(
        &mut self,
        number: u64,
        steps: &mut Steps,
        bytes: Vec<u8>,
        world: &mut dyn ConnectionWorld,
    ) -> bool {
        // It was encoded by this crate.
        let Ok(unit) = Unit::decode(&bytes) else { return true };
        let ticket = Ticket { number, part: steps.part };
        let mut reply = Vec::new();
        let ran = match steps.spread {
            Spread::One(place) => world.run(place, ticket, &unit, &mut reply),
            Spread::Several => world.run_over(steps.keyspace, ticket, &unit, &mut reply),
        };
        if ran == UnitResult::Done && reply.first() == Some(&b'-') && !steps.sent.is_empty() {
            steps.next = Some(bytes);
            return false;
        }
        steps.part += 1;
        let reply = (ran == UnitResult::Done).then_some(reply);
        steps.longest_reply = steps.longest_reply.max(reply.as_ref().map_or(0, Vec::len));
        steps.sent.push_back(SentPart { part: ticket.part, unit: bytes, reply });
        true
    }

    fn finish_steps(&mut self, number: u64, mut steps: Box<Steps>, out: &mut Vec<u8>) {
        if steps.is_begun {
            // It is the first pending reply.
            self.put_piece(&mut steps, out);
            return self.pending.fulfil(number, |_| {}, out);
        }
        let protocol = self.protocol;
        self.pending.fulfil(number, |slot| steps.joined.reply(protocol, slot), out);
    }
}
