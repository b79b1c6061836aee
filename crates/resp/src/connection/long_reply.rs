//! Long replies of `LRANGE` and `MGET`, which are read page by page.
//!
//! ```text
//!   unit ──> long reply: a snapshot of the partition, opened in the step in which the unit ran, and which values there are
//!            page ──> its values go to the client ──> has the client room? and is it this command's turn? ──> next page
//!            all read, or the client is gone ──> the snapshot ends
//! ```
//!
//! So the reply is of one moment, and of that at which its unit ran, whatever is changed meanwhile: also by commands of the same client
//! that were under way already. None is taken up behind it before it is sent. It is never kept here: one page is under way at a time.
//! A page that cannot be read ends the connection, as the head of the array is sent.

use super::Connection;
use crate::execute::{LongReply, PastPage};
use crate::limits::{OUTPUT_BYTES_MAX, PAGE_KEY_BYTES};
use crate::parse::{ParseResult, Parser, push_command};
use crate::unit::UnitKind;
use crate::{Args, ConnectionWorld, PartitionPlace, Protocol, ReplyWriter, Ticket, Unit, UnitResult};

/// One such reply that is not sent yet.
#[derive(Debug)]
pub(super) struct PagedCommand {
    place: PartitionPlace,
    protocol: Protocol,
    /// The command, as an array of bulks.
    command: Vec<u8>,
    /// As the layout of a unit has it.
    id: [u8; 16],
    at: u64,
    /// The places of the values that are still to be read.
    next: u64,
    end: u64,
    /// Of the unit that is asked for next.
    part: u32,
    /// A page is on its way.
    is_asked: bool,
    /// The head of the array is sent.
    is_begun: bool,
}

impl PagedCommand {
    /// Bytes that it keeps.
    pub(super) fn bytes(&self) -> usize {
        self.command.len() + size_of::<PagedCommand>()
    }

    /// Where its next page is read, and the unit; that which ends its snapshot if nothing is left.
    fn next_unit(&self, into: &mut Vec<u8>) {
        let (mut commands, mut spans) = (Vec::new(), Vec::new());
        let mut parser = Parser::default();
        if self.next < self.end && matches!(parser.parse(&self.command), ParseResult::Command { .. }) {
            let args = Args::within(&self.command, &parser.spans);
            let (from, until) = (self.next.to_string(), self.end.to_string());
            let words: Vec<&[u8]> = if args.is(0, "LRANGE") {
                vec![args.at(0), args.at(1), from.as_bytes(), until.as_bytes()]
            } else {
                let mut bytes = 0;
                let keys = args.iter().skip(1 + self.next as usize).take_while(|key| {
                    let is_first = bytes == 0;
                    bytes += key.len();
                    is_first || bytes <= PAGE_KEY_BYTES
                });
                std::iter::once(args.at(0)).chain(keys).collect()
            };
            push_command(&mut commands, &mut spans, words.into_iter());
        }
        let (kind, protocol, wait_until_ms) = (UnitKind::Past, self.protocol, Some(self.at));
        Unit { kind, protocol, wait_until_ms, watched: &self.id, commands: &commands, parsed: None }
            .encode(into);
    }
}

impl Connection {
    /// The reply to a command is to be read in pages. `false`: it is no such reply.
    pub(super) fn begin_pages(&mut self, number: u64, reply: &[u8], world: &dyn ConnectionWorld) -> bool {
        let Some(long) = LongReply::decode(reply) else { return false };
        let mut parser = Parser::default();
        if !matches!(parser.parse(long.unit.commands), ParseResult::Command { .. }) {
            return false;
        }
        let key = Args::within(long.unit.commands, &parser.spans).at(1);
        let partition = world.partition_of(self.keyspace, key);
        let paged = PagedCommand {
            place: PartitionPlace { keyspace: self.keyspace, partition },
            protocol: long.unit.protocol,
            command: long.unit.commands.to_vec(),
            id: long.id.0.to_le_bytes(),
            at: long.at.0,
            next: long.first,
            end: long.first.saturating_add(long.count),
            part: 1,
            is_asked: false,
            is_begun: false,
        };
        self.paged.insert(number, Box::new(paged));
        true
    }

    /// Whether [`Connection::receive`] is to be called, without more bytes too, once what was sent to the client is taken by it.
    #[must_use]
    pub fn wants_room(&self) -> bool {
        let Some(front) = self.pending.front() else { return false };
        match &self.blocked {
            Some((number, super::BlockReason::Steps(steps))) if *number == front => steps.wants_room(),
            _ => self.paged.get(&front).is_some_and(|paged| !paged.is_asked),
        }
    }

    /// The units that end what is open for replies that will not be sent: the client is gone.
    #[must_use]
    pub fn ends(&self) -> Vec<(PartitionPlace, Vec<u8>)> {
        let end = |paged: &PagedCommand| {
            let mut unit = Vec::new();
            let kind = UnitKind::Past;
            let (protocol, wait_until_ms) = (paged.protocol, Some(paged.at));
            Unit { kind, protocol, wait_until_ms, watched: &paged.id, commands: &[], parsed: None }
                .encode(&mut unit);
            (paged.place, unit)
        };
        self.paged.values().map(|paged| end(paged)).collect()
    }

    /// Asks for the next page of the reply whose turn it is, if the client has room.
    pub(super) fn page_on(&mut self, world: &mut dyn ConnectionWorld, out: &mut Vec<u8>) {
        while out.len() < OUTPUT_BYTES_MAX
            && let Some(number) = self.pending.front()
            && let Some(paged) = self.paged.get_mut(&number)
            && !paged.is_asked
        {
            if !self.pending.is_front_wanted() {
                paged.next = paged.end;
                self.end_pages(number, world, out);
                continue;
            }
            let mut bytes = Vec::new();
            paged.next_unit(&mut bytes);
            let (place, ticket) = (paged.place, Ticket { number, part: paged.part });
            (paged.part, paged.is_asked) = (paged.part + 1, true);
            // It was encoded here.
            let Ok(unit) = Unit::decode(&bytes) else { return self.break_reply() };
            let mut page = Vec::new();
            if world.run(place, ticket, &unit, &mut page) == UnitResult::Done {
                self.take_page(number, &page, world, out);
            }
        }
    }

    /// A page has come.
    pub(super) fn take_page(
        &mut self,
        number: u64,
        page: &[u8],
        world: &mut dyn ConnectionWorld,
        out: &mut Vec<u8>,
    ) {
        let Some(paged) = self.paged.get_mut(&number) else { return };
        paged.is_asked = false;
        let left = paged.end - paged.next;
        match PastPage::decode(page) {
            Some(page) if (1..=left).contains(&page.count) => {
                if !paged.is_begun {
                    ReplyWriter::new(out, paged.protocol).array(left as usize);
                }
                out.extend_from_slice(page.values);
                (paged.is_begun, paged.next) = (true, paged.next + page.count);
                if paged.next == paged.end {
                    self.end_pages(number, world, out);
                }
            }
            None if !paged.is_begun && page.first() == Some(&b'-') => {
                paged.next = paged.end;
                self.pending.fulfil(number, |slot| slot.extend_from_slice(page), out);
                self.end_pages(number, world, out);
            }
            _ => self.break_reply(),
        }
    }

    /// Nothing more is read for a reply: ends its snapshot, and hands on what is behind it.
    fn end_pages(&mut self, number: u64, world: &mut dyn ConnectionWorld, out: &mut Vec<u8>) {
        let Some(paged) = self.paged.remove(&number) else { return };
        let mut bytes = Vec::new();
        paged.next_unit(&mut bytes);
        if let Ok(unit) = Unit::decode(&bytes) {
            // Nobody waits for what comes of it: a lease ends it too.
            world.run(paged.place, Ticket { number, part: paged.part }, &unit, &mut Vec::new());
        }
        self.pending.fulfil(number, |_| {}, out);
    }

    /// The rest of an array of which a part is sent cannot be read: the connection ends, with all that it waits for.
    pub(super) fn break_reply(&mut self) {
        self.pending = super::PendingReplies::default();
        self.blocked = None;
        self.closing = true;
    }
}
