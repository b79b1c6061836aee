//! Long replies of `LRANGE` and `MGET`, which are read page by page.
//!
//! ```text
//!   unit ──> long reply: a snapshot of the partition, opened when the unit ran; the values to read
//!            page ──> values go to the client ──> client has room, command's turn? ──> next page
//!            all read, or the client is gone ──> the snapshot ends
//! ```
//!
//! So the reply shows the moment at which its unit ran, even if later commands of the same client
//! were already under way. No later command is accepted before the reply is sent. The reply is
//! never buffered here: one page is under way at a time. If a page cannot be read, the connection
//! ends, because the head of the array is already sent.

use super::Connection;
use crate::execute::{LongReply, PastPage};
use crate::limits::{OUTPUT_BYTES_MAX, PAGE_KEY_BYTES};
use crate::parse::{ParseResult, Parser, push_command};
use crate::unit::UnitKind;
use crate::{Args, ConnectionWorld, PartitionPlace, Protocol, ReplyWriter, Ticket, Unit, UnitResult};

/// A long reply that is not completely sent.
#[derive(Debug)]
pub(super) struct PagedCommand {
    place: PartitionPlace,
    protocol: Protocol,
    /// The command, as an array of bulks.
    command: Vec<u8>,
    /// The snapshot, in the layout of a unit.
    id: [u8; 16],
    at: u64,
    /// The values that are not read yet.
    next: u64,
    end: u64,
    /// The part number of the next unit.
    part: u32,
    /// A page is under way.
    is_page_in_flight: bool,
    /// The head of the array is sent.
    is_begun: bool,
}

impl PagedCommand {
    /// Bytes that it keeps.
    pub(super) fn bytes(&self) -> usize {
        self.command.len() + size_of::<PagedCommand>()
    }

    /// The unit for the next page, and its partition; the unit that ends the snapshot if all is
    /// read.
    fn next_unit(&self, into: &mut Vec<u8>) {
        let (mut commands, mut spans) = (Vec::new(), Vec::new());
        let mut parser = Parser::default();
        if self.next < self.end && matches!(parser.parse(&self.command), ParseResult::Command { .. }) {
            let args = Args::within(&self.command, &parser.argument_ranges);
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
    /// Starts to read the reply to a command in pages. `false`: it is no such reply.
    pub(super) fn begin_pages(&mut self, number: u64, reply: &[u8], world: &dyn ConnectionWorld) -> bool {
        let Some(long) = LongReply::decode(reply) else { return false };
        let mut parser = Parser::default();
        if !matches!(parser.parse(long.unit.commands), ParseResult::Command { .. }) {
            return false;
        }
        let key = Args::within(long.unit.commands, &parser.argument_ranges).at(1);
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
            is_page_in_flight: false,
            is_begun: false,
        };
        self.paged.insert(number, Box::new(paged));
        true
    }

    /// Whether [`Connection::receive`], perhaps without more bytes, must be called once all output
    /// is sent.
    #[must_use]
    pub fn awaits_output_space(&self) -> bool {
        let Some(front) = self.pending.front() else { return false };
        match &self.blocked {
            Some((number, super::BlockReason::Steps(steps))) if *number == front => {
                steps.awaits_output_space()
            }
            _ => self.paged.get(&front).is_some_and(|paged| !paged.is_page_in_flight),
        }
    }

    /// For a client that is gone: the units that close the snapshots of its unsent replies.
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

    /// Asks for the next page of the first pending reply, if the client has room.
    pub(super) fn page_on(&mut self, world: &mut dyn ConnectionWorld, out: &mut Vec<u8>) {
        while out.len() < OUTPUT_BYTES_MAX
            && let Some(number) = self.pending.front()
            && let Some(paged) = self.paged.get_mut(&number)
            && !paged.is_page_in_flight
        {
            if !self.pending.is_front_expected() {
                paged.next = paged.end;
                self.end_pages(number, world, out);
                continue;
            }
            let mut bytes = Vec::new();
            paged.next_unit(&mut bytes);
            let (place, ticket) = (paged.place, Ticket { number, part: paged.part });
            (paged.part, paged.is_page_in_flight) = (paged.part + 1, true);
            // It was encoded by this crate.
            let Ok(unit) = Unit::decode(&bytes) else { return self.break_reply() };
            let mut page = Vec::new();
            if world.run(place, ticket, &unit, &mut page) == UnitResult::Done {
                self.handle_page(number, &page, world, out);
            }
        }
    }

    /// A page has arrived.
    pub(super) fn handle_page(
        &mut self,
        number: u64,
        page: &[u8],
        world: &mut dyn ConnectionWorld,
        out: &mut Vec<u8>,
    ) {
        let Some(paged) = self.paged.get_mut(&number) else { return };
        paged.is_page_in_flight = false;
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

    /// Ends the snapshot of a reply that is read no further, and passes on the replies after it.
    fn end_pages(&mut self, number: u64, world: &mut dyn ConnectionWorld, out: &mut Vec<u8>) {
        let Some(paged) = self.paged.remove(&number) else { return };
        let mut bytes = Vec::new();
        paged.next_unit(&mut bytes);
        if let Ok(unit) = Unit::decode(&bytes) {
            // The reply is ignored: the snapshot's lease ends it too.
            world.run(paged.place, Ticket { number, part: paged.part }, &unit, &mut Vec::new());
        }
        self.pending.fulfil(number, |_| {}, out);
    }

    /// The rest of a partly sent array cannot be read: the connection ends, with everything
    /// pending.
    pub(super) fn break_reply(&mut self) {
        self.pending = super::PendingReplies::default();
        self.blocked = None;
        self.closing = true;
    }
}
