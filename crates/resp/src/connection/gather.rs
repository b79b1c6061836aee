//! Commands over all partitions.

use super::{BlockReason, Connection};
use crate::command::GatherCommand;
use crate::execute::{NOT_AN_INTEGER, Page, SYNTAX};
use crate::limits::{
    ALL_PARTITIONS_PAGE_KEYS, ALL_PARTITIONS_WINDOW, KEYS_BYTES_MAX, PATTERN_BYTES_MAX, SCAN_COUNT_MAX,
    SCAN_STALLS_MAX, SCAN_STEPS_MAX,
};
use crate::number::{Digits, integer};
use crate::parse::push_command;
use crate::unit::UnitKind;
use crate::{Args, ConnectionWorld, PartitionPlace, ReplyWriter, Ticket, UnitResult};
use zerohop_wire::ids::PartitionId;

impl Gather {
    /// Bytes that it keeps.
    pub(super) fn bytes(&self) -> usize {
        self.keys.len() + self.pattern.len() + self.type_filter.len()
    }
}

impl GatherCommand {
    /// The name of the question to a partition.
    fn name(self) -> &'static [u8] {
        match self {
            GatherCommand::DbSize => b"dbsize",
            GatherCommand::Flush => b"flush",
            GatherCommand::Keys | GatherCommand::CountSlot(_) => b"keys",
            GatherCommand::RandomKey => b"random",
            GatherCommand::Scan => b"scan",
        }
    }

    /// How many partitions are asked at the same time.
    fn window(self) -> usize {
        match self {
            // One after the other, until there is enough.
            GatherCommand::Scan | GatherCommand::RandomKey => 1,
            _ => ALL_PARTITIONS_WINDOW,
        }
    }
}

/// The next page to ask for.
#[derive(Clone, Copy, Debug)]
struct PageRequest {
    partition: u32,
    cursor: u32,
    /// The partition count by which `partition` is numbered.
    of: u32,
}

/// A command under way.
#[derive(Debug)]
pub(super) struct Gather {
    command: GatherCommand,
    partition: PartitionPlace,
    partitions: u32,
    /// The next partition to ask, and how many are left; the first follows the last.
    next: u32,
    left: u32,
    /// Further pages of partitions that have more.
    again: Vec<PageRequest>,
    /// Pages under way, with their units.
    pages_in_flight: Vec<(u32, PageRequest)>,
    /// A partition was split meanwhile.
    is_split: bool,
    units: u32,
    limit: usize,
    pattern: Vec<u8>,
    type_filter: Vec<u8>,
    /// Results so far.
    count: u64,
    keys_examined: usize,
    keys: Vec<u8>,
    found: usize,
    /// Where `SCAN` continues: see [`cursor_of`].
    cursor: u64,
    /// How many earlier calls of this `SCAN` have made no progress.
    stalls: u64,
    /// A page has arrived.
    has_page: bool,
    /// A random number for `RANDOMKEY`.
    chance: u64,
    /// The reply, if it is an error.
    error: Option<Vec<u8>>,
    /// Its reply has a slot among the pending ones.
    is_pending: bool,
}

impl Gather {
    fn new(gathering: GatherCommand, place: PartitionPlace, partitions: u32) -> Gather {
        Gather {
            command: gathering,
            partition: place,
            partitions,
            next: 0,
            left: partitions,
            again: Vec::new(),
            pages_in_flight: Vec::new(),
            is_split: false,
            units: 0,
            limit: ALL_PARTITIONS_PAGE_KEYS,
            pattern: Vec::new(),
            type_filter: Vec::new(),
            count: 0,
            keys_examined: 0,
            keys: Vec::new(),
            found: 0,
            cursor: 0,
            stalls: 0,
            has_page: false,
            chance: 0,
            error: None,
            is_pending: false,
        }
    }

    /// A command over one partition of `partitions`.
    pub(super) fn of_one(gathering: GatherCommand, place: PartitionPlace, partitions: u32) -> Gather {
        Gather { next: place.partition.0, left: 1, ..Gather::new(gathering, place, partitions) }
    }

    /// The next page to ask for: partition and cursor.
    fn next_page(&mut self) -> Option<PageRequest> {
        if self.pages_in_flight.len() >= self.command.window() || self.error.is_some() {
            return None;
        }
        if let Some(page) = self.again.pop() {
            return Some(page);
        }
        if self.left == 0 {
            return None;
        }
        let partition = self.next;
        self.next = (self.next + 1) % self.partitions;
        self.left -= 1;
        Some(PageRequest { partition, cursor: 0, of: self.partitions })
    }

    fn is_done(&self) -> bool {
        self.pages_in_flight.is_empty() && (self.error.is_some() || (self.left == 0 && self.again.is_empty()))
    }

    /// Adds the answer of the unit with this ticket.
    pub(super) fn fold(&mut self, part: u32, bytes: &[u8], world: &dyn ConnectionWorld) {
        let Some(at) = self.pages_in_flight.iter().position(|&(unit, _)| unit == part) else { return };
        let (_, turn) = self.pages_in_flight.swap_remove(at);
        let PageRequest { partition, of, .. } = turn;
        let Some(page) = Page::decode(bytes) else {
            if self.command == GatherCommand::Scan && bytes.starts_with(b"-TRYAGAIN") && self.stall(turn) {
                return;
            }
            // An error, which is the reply to the whole command.
            self.error.get_or_insert_with(|| bytes.to_vec());
            return;
        };
        if let Some(partitions) = page.split {
            return self.split(turn, partitions, world.partitions(self.partition.keyspace));
        }
        self.has_page = true;
        self.count += page.count;
        self.keys_examined += page.keys_examined as usize;
        match self.command {
            GatherCommand::RandomKey => self.choose(&page),
            GatherCommand::CountSlot(slot) => {
                self.count += page.keys.filter(|key| world.slot_of(key) == slot).count() as u64;
            }
            _ => {
                for key in page.keys {
                    self.found += 1;
                    ReplyWriter::new(&mut self.keys, crate::Protocol::Resp2).bulk(key);
                }
            }
        }
        if self.keys.len() > KEYS_BYTES_MAX {
            self.fail(&format!(
                "ERR the reply of KEYS has a limit of {} MiB, and these keys have more: use SCAN, which returns them page by page",
                KEYS_BYTES_MAX >> 20
            ));
        }
        let Some(next) = page.next else {
            if self.command == GatherCommand::Scan {
                self.stop_scan_at(partition + 1, 0);
            }
            return;
        };
        if self.command == GatherCommand::Scan {
            self.again.push(PageRequest { partition, cursor: next, of });
            self.stop_scan_at(partition, next);
        } else if self.left > 0 || self.command != GatherCommand::RandomKey || self.found == 0 {
            self.again.push(PageRequest { partition, cursor: next, of });
        }
    }

    /// A partition was split. Its children keep the order of its keys and are asked in its place.
    fn split(&mut self, PageRequest { partition, cursor, of }: PageRequest, partitions: u32, known: u32) {
        let further = partitions.checked_div(of).filter(|further| *further > 1);
        let Some((further, first)) =
            further.and_then(|further| Some((further, partition.checked_mul(further)?)))
        else {
            return self.fail("TRYAGAIN the keyspace is being split: nothing was done");
        };
        self.is_split = true;
        let turn = |partition| PageRequest { partition, cursor, of: partitions };
        if self.command == GatherCommand::Scan && known < partitions {
            // The next page may be routed by a map without the split. So the scan ends here, with
            // a cursor of that map.
            if !self.stall(PageRequest { partition, cursor, of }) {
                self.fail("TRYAGAIN the keyspace is being split: nothing was done");
            }
            return;
        }
        if self.command == GatherCommand::Scan {
            // `SCAN` reads the children one after the other; its cursor uses the new numbers.
            self.partitions = partitions;
            self.next = (first + 1) % partitions;
            self.left = partitions.saturating_sub(first + 1);
            // The other children start at their first key: nothing of this page was returned.
            return self.again.push(turn(first));
        }
        self.again.extend((first..first + further).map(turn));
    }

    /// A page may repeat keys of the page before; after a split it may be a page of another
    /// partition.
    fn each_once(&mut self) {
        let mut bulks = Vec::with_capacity(self.found);
        let mut rest = &self.keys[..];
        while let Some((bulk, behind)) = bulk(rest) {
            bulks.push(bulk);
            rest = behind;
        }
        bulks.sort_unstable();
        bulks.dedup();
        (self.found, self.keys) = (bulks.len(), bulks.concat());
    }

    /// `SCAN` has come this far: ends it if that is enough.
    fn stop_scan_at(&mut self, partition: u32, cursor: u32) {
        if partition >= self.partitions {
            self.cursor = 0;
        } else if self.keys_examined >= self.limit || self.units >= SCAN_STEPS_MAX {
            self.cursor = cursor_of(partition, cursor, 0);
            self.left = 0;
            self.again.clear();
        }
    }

    /// A partition cannot answer `SCAN` now: the call ends with what it has found, and the next
    /// call continues there. `false`: too many calls have made no progress.
    fn stall(&mut self, PageRequest { partition, cursor, .. }: PageRequest) -> bool {
        // A cursor of 0 would mean the end of the scan.
        let is_at_begin = (partition, cursor) == (0, 0);
        let stalls = if self.has_page { u64::from(is_at_begin) } else { self.stalls + 1 };
        if stalls > SCAN_STALLS_MAX {
            return false;
        }
        self.cursor = cursor_of(partition, cursor, stalls);
        self.left = 0;
        self.again.clear();
        true
    }

    /// Picks one of a page's keys; then the command is complete.
    fn choose(&mut self, page: &Page<'_>) {
        let count = page.keys.count() as u64;
        let mut keys = page.keys;
        if let Some(key) = self.chance.checked_rem(count).and_then(|at| keys.nth(at as usize)) {
            ReplyWriter::new(&mut self.keys, crate::Protocol::Resp2).bulk(key);
            self.found = 1;
            self.left = 0;
            self.again.clear();
        }
    }

    fn fail(&mut self, text: &str) {
        let mut bytes = Vec::new();
        ReplyWriter::new(&mut bytes, crate::Protocol::Resp2).error(text);
        self.error.get_or_insert(bytes);
    }

    fn reply(&self, reply: &mut ReplyWriter<'_>) {
        if let Some(error) = &self.error {
            reply.body().extend_from_slice(error);
            return;
        }
        match self.command {
            GatherCommand::DbSize | GatherCommand::CountSlot(_) => reply.count(self.count),
            GatherCommand::Flush => reply.ok(),
            GatherCommand::RandomKey if self.found == 0 => reply.null(),
            GatherCommand::RandomKey => {}
            GatherCommand::Keys => reply.array(self.found),
            GatherCommand::Scan => {
                reply.array(2);
                reply.bulk(self.cursor.to_string().as_bytes());
                reply.array(self.found);
            }
        }
        reply.body().extend_from_slice(&self.keys);
    }
}

impl Connection {
    pub(super) fn start_all_partitions(
        &mut self,
        gathering: GatherCommand,
        args: Args<'_>,
        world: &mut dyn ConnectionWorld,
        out: &mut Vec<u8>,
    ) {
        let partitions = self.existing_partitions(world);
        let place = PartitionPlace { keyspace: self.keyspace, partition: PartitionId(0) };
        let mut gather = Gather::new(gathering, place, partitions.unwrap_or(0));
        let may_start = gather.read(args, world).and_then(|()| partitions.map_err(str::to_owned));
        if let Err(text) = may_start {
            return self.reply(out, |reply| reply.error(&text));
        }
        let number = self.pending.number();
        self.request_pages(number, Box::new(gather), world, out);
    }

    /// Asks for all pages that may be asked for now, and replies if none is left.
    pub(super) fn request_pages(
        &mut self,
        number: u64,
        mut gather: Box<Gather>,
        world: &mut dyn ConnectionWorld,
        out: &mut Vec<u8>,
    ) {
        while let Some(turn) = gather.next_page() {
            let part = gather.units;
            gather.units += 1;
            gather.pages_in_flight.push((part, turn));
            let partition = world.partition_at(gather.partition.keyspace, turn.partition);
            let place = PartitionPlace { partition, ..gather.partition };
            let question = gather.question(turn);
            let mut bytes = Vec::new();
            let unit = self.build_unit(UnitKind::Page, &question, None);
            if world.run(place, Ticket { number, part }, &unit, &mut bytes) == UnitResult::Done {
                gather.fold(part, &bytes, world);
            }
        }
        if gather.is_done() && gather.is_split && gather.command == GatherCommand::Keys {
            gather.each_once();
        }
        match (gather.is_done(), gather.is_pending) {
            (true, false) => self.reply(out, |reply| gather.reply(reply)),
            (true, true) => {
                let protocol = self.protocol;
                let write = |slot: &mut Vec<u8>| gather.reply(&mut ReplyWriter::new(slot, protocol));
                self.pending.fulfil(number, write, out);
            }
            (false, is_pending) => {
                if !is_pending {
                    self.pending.push(number, self.silent, 0);
                    gather.is_pending = true;
                }
                self.blocked = Some((number, BlockReason::AllPartitions(gather)));
            }
        }
    }
}

impl Gather {
    /// Parses the command's arguments.
    fn read(&mut self, args: Args<'_>, world: &dyn ConnectionWorld) -> Result<(), String> {
        match self.command {
            GatherCommand::DbSize | GatherCommand::CountSlot(_) => {}
            GatherCommand::Flush => {
                if args.len() > 2 || (args.len() == 2 && !args.is(1, "ASYNC") && !args.is(1, "SYNC")) {
                    return Err(SYNTAX.to_owned());
                }
            }
            GatherCommand::Keys => self.pattern = pattern(args.at(1))?,
            GatherCommand::RandomKey => {
                // Mixed, because the lowest bits of a clock are hardly random.
                self.chance = world.now_us().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16;
                self.next = self.chance.checked_rem(u64::from(self.partitions)).unwrap_or(0) as u32;
            }
            GatherCommand::Scan => self.read_scan(args)?,
        }
        Ok(())
    }

    fn read_scan(&mut self, args: Args<'_>) -> Result<(), String> {
        const DEFAULT_COUNT: usize = 10;
        let cursor = std::str::from_utf8(args.at(1)).ok().and_then(|text| text.parse::<u64>().ok());
        let cursor = cursor.ok_or("ERR invalid cursor")?;
        self.limit = DEFAULT_COUNT;
        let mut at = 2;
        while at < args.len() {
            let Some(value) = args.get(at + 1) else { return Err(SYNTAX.to_owned()) };
            if args.is(at, "COUNT") {
                let count = integer(value).ok_or(NOT_AN_INTEGER)?;
                if count < 1 {
                    return Err(SYNTAX.to_owned());
                }
                self.limit = usize::try_from(count).unwrap_or(usize::MAX).min(SCAN_COUNT_MAX);
            } else if args.is(at, "MATCH") {
                self.pattern = pattern(value)?;
            } else if args.is(at, "TYPE") {
                self.type_filter = value.to_vec();
            } else {
                return Err(SYNTAX.to_owned());
            }
            at += 2;
        }
        let (stalls, partition, cursor) = (cursor >> 48, (cursor >> 32) as u32 & 0xFFFF, cursor as u32);
        // Larger than any cursor that was given out: past the end.
        let partition = if stalls > SCAN_STALLS_MAX { u32::MAX } else { partition };
        self.stalls = stalls;
        self.left = self.partitions.saturating_sub(partition);
        self.next = partition;
        if cursor > 0 && self.left > 0 {
            self.left -= 1;
            self.next = (partition + 1) % self.partitions;
            self.again.push(PageRequest { partition, cursor, of: self.partitions });
        }
        Ok(())
    }

    /// The question to a partition.
    fn question(&self, PageRequest { cursor, of, .. }: PageRequest) -> Vec<u8> {
        let mut bytes = Vec::new();
        let (cursor, limit) = (Digits::of(cursor.into()), Digits::of(self.page_limit() as i64));
        let (name, of) = (self.command.name(), Digits::of(of.into()));
        let args =
            [name, cursor.as_bytes(), limit.as_bytes(), &self.pattern, &self.type_filter, of.as_bytes()];
        push_command(&mut bytes, &mut Vec::new(), args.into_iter());
        bytes
    }

    /// Keys to look at on the next page.
    fn page_limit(&self) -> usize {
        self.limit
            .saturating_sub(self.keys_examined * usize::from(self.command == GatherCommand::Scan))
            .max(1)
    }
}

/// A cursor of `SCAN`, from the lowest bit: position in the partition (32 bits), partition (16),
/// number of calls without progress.
fn cursor_of(partition: u32, cursor: u32, stalls: u64) -> u64 {
    stalls << 48 | u64::from(partition) << 32 | u64::from(cursor)
}

/// Splits encoded bulks into the first and the rest.
fn bulk(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let line = bytes.iter().position(|byte| *byte == b'\n')? + 1;
    let digits = bytes.get(1..line.checked_sub(2)?)?;
    let length = std::str::from_utf8(digits).ok()?.parse::<usize>().ok()?;
    bytes.split_at_checked(line.checked_add(length)?.checked_add(2)?)
}

fn pattern(text: &[u8]) -> Result<Vec<u8>, String> {
    match text.len() {
        length if length > PATTERN_BYTES_MAX => Err(format!(
            "ERR the pattern has {length} bytes, {PATTERN_BYTES_MAX} are allowed: use a shorter one"
        )),
        // An empty field means any key; an empty pattern matches the empty key only.
        0 => Ok(b"[]".to_vec()),
        _ => Ok(text.to_vec()),
    }
}
