//! One client: its received bytes, and the replies that it waits for.

mod client;
mod cluster;
mod describe;
mod errors;
mod gather;
mod greeting;
mod help;
mod information;
mod keyspace;
mod local;
mod long_reply;
mod pending;
mod run;
mod settings;
mod spread;
mod steps;
mod transaction;

use std::borrow::Cow;
use std::collections::BTreeMap;

use zerohop_wire::ids::KeyspaceId;

use crate::command::{CommandRow, ConnectionCommand, Executor, NO_AUTH};
use crate::limits::{
    OUTPUT_BYTES_MAX, PENDING_MAX, UNPROVED_COMMANDS_MAX, WAITING_REPLY_BYTES_CLOSE, WAITING_REPLY_BYTES_MAX,
};
use crate::parse::{ParseResult, Parser, ProtocolError};
use crate::unit::{MAY_PAGE, Unit, UnitKind};
use crate::{Args, ConnectionWorld, PartitionPlace, Protocol, ReplyWriter, Ticket};

use errors::{
    HTTP_ANSWER, MEMORY_FULL, NOT_YET, ends_or_stops_transactions, internal, is_http, is_http_line, repeated,
    unknown_command,
};
use gather::Gather;
use long_reply::PagedCommand;
use pending::PendingReplies;
use spread::Spread;
use steps::Steps;
use transaction::{Transaction, Watch};

pub(crate) use errors::{CROSS_SLOT, wrong_number};

/// The name of the last command of a connection that has sent none, in the reply of `CLIENT LIST`.
const NO_COMMAND: &str = "NULL";

/// The result of [`Connection::receive`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiveResult {
    /// Consumed bytes. The others must be passed again, together with the bytes that follow.
    pub used: usize,
    /// What to do next.
    pub then: NextStep,
}

/// What to do next with a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextStep {
    /// Call [`Connection::receive`] again when more bytes have come.
    More,
    /// Read no more. Call [`Connection::receive`] again with the rest once [`Connection::complete`]
    /// has returned true, or, if nothing is pending, once the replies in `out` are sent.
    PauseInput,
    /// Send what is in `out`, and close.
    Close,
}

/// Which replies a client wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Replies {
    On,
    Off,
    /// All, except the reply to the next command.
    SkipNext,
}

/// Why a connection accepts no more commands.
#[derive(Debug)]
enum BlockReason {
    AllPartitions(Box<Gather>),
    Steps(Box<Steps>),
    /// A `WATCH` whose versions are not known yet: its keys and their partition.
    Watch {
        keys: Vec<u8>,
        spread: Spread,
        /// The partition count of the keyspace at that time.
        partitions: u32,
    },
    /// A command that makes its client wait.
    Wait,
}

/// One client's connection.
#[derive(Debug)]
pub struct Connection {
    id: u64,
    address: String,
    local_address: String,
    since_us: u64,
    last_us: u64,
    /// The name of the last accepted command.
    last_command: &'static str,
    name: String,
    library: String,
    library_version: String,
    keyspace: KeyspaceId,
    protocol: Protocol,
    is_authenticated: bool,
    /// Commands accepted before the required authentication.
    unproved: u32,
    /// It has just failed to authenticate: nothing is accepted before [`Connection::end_delay`].
    is_delayed: bool,
    /// It has asked for the layout of the cluster, so it gets redirections.
    is_cluster_aware: bool,
    replies: Replies,
    /// The reply to the current command is not wanted.
    silent: bool,
    no_evict: bool,
    closing: bool,
    parser: Parser,
    transaction: Option<Transaction>,
    watch: Watch,
    pending: PendingReplies,
    blocked: Option<(u64, BlockReason)>,
    /// Long replies that are not sent yet, by the number of their command.
    paged: BTreeMap<u64, Box<PagedCommand>>,
    /// The next command waits for all earlier replies: it asks several partitions, or switches the
    /// keyspace.
    waits_for_replies: bool,
}

impl Connection {
    /// A client that has just connected: a number that is unique in this process and never 0, the
    /// first keyspace, both ends' addresses, and the time in microseconds since 1970.
    #[must_use]
    pub fn new(id: u64, keyspace: KeyspaceId, address: &str, local_address: &str, now_us: u64) -> Connection {
        Connection {
            id,
            address: address.to_owned(),
            local_address: local_address.to_owned(),
            since_us: now_us,
            last_us: now_us,
            last_command: NO_COMMAND,
            name: String::new(),
            library: String::new(),
            library_version: String::new(),
            keyspace,
            protocol: Protocol::Resp2,
            is_authenticated: false,
            unproved: 0,
            is_delayed: false,
            is_cluster_aware: false,
            replies: Replies::On,
            silent: false,
            no_evict: false,
            closing: false,
            parser: Parser::default(),
            transaction: None,
            watch: Watch::default(),
            pending: PendingReplies::default(),
            blocked: None,
            paged: BTreeMap::new(),
            waits_for_replies: false,
        }
    }

    /// Its number.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The keyspace of its commands.
    #[must_use]
    pub fn keyspace(&self) -> KeyspaceId {
        self.keyspace
    }

    /// Whether replies are missing.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Whether no command has come after this unit's.
    #[must_use]
    pub fn is_newest(&self, ticket: Ticket) -> bool {
        self.pending.is_newest(ticket.number)
    }

    /// Bytes kept of its commands and replies, except input and output buffers.
    #[must_use]
    pub fn buffered_bytes(&self) -> usize {
        let blocked = match &self.blocked {
            Some((_, BlockReason::AllPartitions(gather))) => gather.bytes(),
            Some((_, BlockReason::Steps(steps))) => steps.bytes(),
            Some((_, BlockReason::Watch { keys, .. })) => keys.len(),
            Some((_, BlockReason::Wait)) | None => 0,
        };
        self.transaction.as_ref().map_or(0, Transaction::bytes)
            + self.watch.bytes()
            + self.pending.waiting_reply_bytes()
            + self.pending.pending_command_bytes()
            + self.paged.values().map(|paged| paged.bytes()).sum::<usize>()
            + blocked
    }

    /// Accepts all complete commands in `bytes`, until one makes it stop. `bytes` begins with what
    /// the last call left. Replies are appended to `out`.
    pub fn receive(
        &mut self,
        bytes: &[u8],
        world: &mut dyn ConnectionWorld,
        out: &mut Vec<u8>,
    ) -> ReceiveResult {
        let begin = out.len();
        self.last_us = world.now_us();
        if !self.closing {
            self.page_on(world, out);
            self.step_on(world, out);
        }
        self.waits_for_replies &= !self.pending.is_empty();
        let mut parser = std::mem::take(&mut self.parser);
        let mut used = 0;
        let then = loop {
            if self.closing {
                break if self.pending.is_empty() { NextStep::Close } else { NextStep::PauseInput };
            }
            if self.must_pause_input() || out.len() - begin >= OUTPUT_BYTES_MAX {
                break NextStep::PauseInput;
            }
            let rest = &bytes[used..];
            match parser.parse(rest) {
                ParseResult::Command { used: length } => {
                    let raw = &rest[..length];
                    if !self.command(raw, Args::within(raw, &parser.argument_ranges), world, out) {
                        break NextStep::PauseInput;
                    }
                    used += length;
                }
                ParseResult::Inline { used: length } => {
                    let raw = &parser.inline;
                    if !self.command(raw, Args::within(raw, &parser.argument_ranges), world, out) {
                        break NextStep::PauseInput;
                    }
                    used += length;
                }
                ParseResult::Nothing { used: length } => used += length,
                // An unauthenticated client may not even send so long a command for it to be
                // skipped.
                ParseResult::Skipped { .. } | ParseResult::Oversized { .. }
                    if !self.is_authenticated && world.needs_authentication() =>
                {
                    self.break_off(ProtocolError::Unauthenticated, out);
                    parser.restart();
                    used = bytes.len();
                }
                ParseResult::Skipped { used: length } => used += length,
                ParseResult::Oversized { used: length, what } => {
                    self.begin_reply();
                    self.refuse_at_limit(&what.text(), out);
                    used += length;
                }
                ParseResult::More => break NextStep::More,
                ParseResult::Broken(what) => {
                    self.break_off(what, out);
                    // The rest cannot be parsed.
                    used = bytes.len();
                }
            }
        };
        if used == bytes.len() {
            parser.shrink();
        }
        self.parser = parser;
        ReceiveResult { used, then }
    }

    /// Receives the reply of a unit that was answered [`crate::UnitResult::Later`], and appends to
    /// `out` what can be sent now. True if [`Connection::receive`], which returned
    /// [`NextStep::PauseInput`], must be called again.
    pub fn complete(
        &mut self,
        ticket: Ticket,
        reply: &[u8],
        world: &mut dyn ConnectionWorld,
        out: &mut Vec<u8>,
    ) -> bool {
        let was_paused = self.must_pause_input() || self.closing;
        match self.blocked.take_if(|(number, _)| *number == ticket.number) {
            Some((_, blocked)) => self.unblock(ticket, blocked, reply, world, out),
            None if self.paged.contains_key(&ticket.number) => {
                self.handle_page(ticket.number, reply, world, out);
            }
            None if ticket.part == 0 && self.begin_pages(ticket.number, reply, world) => {}
            None => self.pending.fulfil(ticket.number, |slot| slot.extend_from_slice(reply), out),
        }
        let gathers =
            matches!(self.blocked, Some((_, BlockReason::AllPartitions(_) | BlockReason::Steps(_))));
        let is_kept = self.pending.waiting_reply_bytes() > 0 || gathers;
        let has_room = !is_kept || world.may_buffer(self.buffered_bytes());
        if self.pending.waiting_reply_bytes() > WAITING_REPLY_BYTES_CLOSE || !has_room {
            // A client that has so much pending at once is disconnected.
            self.break_reply();
        }
        if self.closing && self.pending.is_empty() {
            return true;
        }
        self.awaits_output_space()
            || was_paused && !self.must_pause_input() && (!self.closing || self.pending.is_empty())
    }

    fn must_pause_input(&self) -> bool {
        self.blocked.is_some()
            || !self.paged.is_empty()
            || self.is_delayed
            || self.waits_for_replies && !self.pending.is_empty()
            || self.pending.len() >= PENDING_MAX
            || self.pending.waiting_reply_bytes() >= WAITING_REPLY_BYTES_MAX
    }

    fn unblock(
        &mut self,
        ticket: Ticket,
        blocked: BlockReason,
        part: &[u8],
        world: &mut dyn ConnectionWorld,
        out: &mut Vec<u8>,
    ) {
        let number = ticket.number;
        match blocked {
            BlockReason::Wait => self.pending.fulfil(number, |slot| slot.extend_from_slice(part), out),
            BlockReason::Watch { keys, spread, partitions } => {
                let text = self.watched(&keys, (spread, partitions), part);
                self.pending.fulfil(number, |slot| slot.extend_from_slice(&text), out);
            }
            BlockReason::Steps(steps) => self.step_done(ticket, steps, part, world, out),
            BlockReason::AllPartitions(mut gather) => {
                gather.fold(ticket.part, part, world);
                self.request_pages(number, gather, world, out);
            }
        }
    }

    /// One command: its bytes as an array of bulks, and its arguments. `false`: it is not accepted
    /// before all others are replied to.
    fn command(
        &mut self,
        raw: &[u8],
        args: Args<'_>,
        world: &mut dyn ConnectionWorld,
        out: &mut Vec<u8>,
    ) -> bool {
        if self.transaction.is_some() {
            self.follow_splits(world);
        }
        if !self.pending.is_empty() && self.awaits_earlier(args, world) {
            self.waits_for_replies = true;
            return false;
        }
        let had_to_prove = !self.is_authenticated && world.needs_authentication();
        self.execute_command(raw, args, world, out);
        if had_to_prove && !self.is_authenticated {
            self.unproved += 1;
            self.closing |= self.unproved >= UNPROVED_COMMANDS_MAX;
        }
        true
    }

    fn execute_command(
        &mut self,
        raw: &[u8],
        args: Args<'_>,
        world: &mut dyn ConnectionWorld,
        out: &mut Vec<u8>,
    ) {
        self.begin_reply();
        let command = match self.find(args, world) {
            Ok(command) => command,
            Err(_) if is_http(args) => {
                // A connection that has sent a command before reads replies of Redis.
                if is_http_line(args) && self.last_command == NO_COMMAND {
                    out.extend_from_slice(HTTP_ANSWER.as_bytes());
                }
                self.closing = true;
                return;
            }
            Err(text) if args.is(0, "EXEC") => return self.refuse_exec(&text, out),
            Err(text) => return self.refuse(&text, out),
        };
        self.last_command = command.name;
        if self.transaction.is_some() && !ends_or_stops_transactions(command.how) {
            return self.queue(command, raw, args, world, out);
        }
        match command.how {
            Executor::Keyed(_) => match self.partitions_of(command, args, world) {
                Ok(spread) => {
                    let blocks = command.has(crate::command::BLOCKING);
                    let mut unit = self.build_unit(UnitKind::One, raw, Some((command, args)));
                    if matches!(command.name, "lrange" | "mget") && matches!(spread, Spread::One(_)) {
                        unit.wait_until_ms = Some(MAY_PAGE);
                    }
                    if !self.in_steps(spread, &unit, args, world, out) {
                        self.run(spread, &unit, blocks, world, out);
                    }
                }
                Err(text) => self.reply(out, |reply| reply.error(&text)),
            },
            Executor::Local(local) => {
                let mut wrong = None;
                let keyspace = self.keyspace;
                self.reply(out, |reply| wrong = local::reply(local, keyspace, args, world, reply).err());
                if let Some(text) = wrong {
                    self.reply(out, |reply| reply.error(&text));
                }
            }
            Executor::Special(special) => self.special(special, args, world, out),
            Executor::AllPartitions(gathering) => self.start_all_partitions(gathering, args, world, out),
        }
    }

    /// Starts a command: notes whether its reply is wanted.
    #[inline]
    fn begin_reply(&mut self) {
        self.silent = self.replies != Replies::On;
        self.replies = if self.replies == Replies::SkipNext { Replies::On } else { self.replies };
    }

    /// The input is no command: the connection ends.
    fn break_off(&mut self, what: ProtocolError, out: &mut Vec<u8>) {
        self.silent = false;
        self.reply(out, |reply| reply.error(&what.text()));
        self.closing = true;
    }

    /// The command of these arguments, if the connection may use it.
    #[inline]
    fn find(&self, args: Args<'_>, world: &dyn ConnectionWorld) -> Result<&'static CommandRow, String> {
        let command = CommandRow::find(args.at(0)).ok_or_else(|| unknown_command(args))?;
        if !command.accepts_count(args.len()) {
            return Err(wrong_number(command.name));
        }
        if !self.is_authenticated && !command.has(NO_AUTH) && world.needs_authentication() {
            return Err("NOAUTH Authentication required.".to_owned());
        }
        Ok(command)
    }

    /// The partitions of a command's keys.
    #[inline]
    fn partitions_of(
        &self,
        command: &CommandRow,
        args: Args<'_>,
        world: &dyn ConnectionWorld,
    ) -> Result<Spread, Cow<'static, str>> {
        let keyspace = self.keyspace;
        let (places, step) = command.key_positions(args.len());
        let first = args.at(places.start);
        let place = PartitionPlace { keyspace, partition: world.partition_of(keyspace, first) };
        for other in places.step_by(step).skip(1) {
            if world.partition_of(keyspace, args.at(other)) != place.partition {
                // A client that routes by itself expects the behaviour of Redis Cluster.
                let spans = world.serves_cross_partition() && !self.is_cluster_aware;
                return if spans { Ok(Spread::Several) } else { Err(self.cross_slot(world).into()) };
            }
        }
        if self.is_cluster_aware
            && let Some((host, port)) = world.moved(place)
        {
            return Err(format!("MOVED {} {host}:{port}", world.slot_of(first)).into());
        }
        Ok(Spread::One(place))
    }

    fn build_unit<'u>(
        &self,
        kind: UnitKind,
        commands: &'u [u8],
        parsed: Option<(&'static CommandRow, Args<'u>)>,
    ) -> Unit<'u> {
        Unit { kind, protocol: self.protocol, wait_until_ms: None, watched: &[], commands, parsed }
    }

    /// Replies at once.
    fn reply(&mut self, out: &mut Vec<u8>, write: impl FnOnce(&mut ReplyWriter<'_>)) {
        let protocol = self.protocol;
        let silent = self.silent;
        self.pending.write(out, silent, |slot| {
            write(&mut ReplyWriter::new(slot, protocol));
            (true, ())
        });
    }

    /// Replies with an error that breaks an open transaction.
    fn refuse(&mut self, text: &str, out: &mut Vec<u8>) {
        if let Some(transaction) = &mut self.transaction {
            transaction.breaks();
        }
        self.reply(out, |reply| reply.error(text));
    }

    /// The same, of a limit, which `EXEC` repeats.
    fn refuse_at_limit(&mut self, text: &str, out: &mut Vec<u8>) {
        if let Some(transaction) = &mut self.transaction {
            let (_code, limit) = text.split_once(' ').unwrap_or(("", text));
            transaction.breaks_at_limit(limit.strip_suffix("; nothing was done").unwrap_or(limit));
        }
        self.reply(out, |reply| reply.error(text));
    }

    /// An `EXEC` that is refused for itself ends the transaction.
    fn refuse_exec(&mut self, text: &str, out: &mut Vec<u8>) {
        self.transaction = None;
        self.watch = Watch::default();
        let why = text.strip_prefix("ERR ").unwrap_or(text);
        self.reply(out, |reply| reply.error(&format!("EXECABORT Transaction discarded because of: {why}")));
    }

    fn special(
        &mut self,
        special: ConnectionCommand,
        args: Args<'_>,
        world: &mut dyn ConnectionWorld,
        out: &mut Vec<u8>,
    ) {
        match special {
            ConnectionCommand::Multi => self.multi(out),
            ConnectionCommand::Exec => self.exec(world, out),
            ConnectionCommand::Discard => self.discard(out),
            ConnectionCommand::Watch => self.watch(args, world, out),
            ConnectionCommand::Unwatch => {
                self.watch = Watch::default();
                self.reply(out, |reply| reply.ok());
            }
            ConnectionCommand::AskingRedirect => self.reply(out, |reply| reply.ok()),
            ConnectionCommand::Quit => {
                self.reply(out, |reply| reply.ok());
                self.closing = true;
            }
            ConnectionCommand::Hello => {
                self.answer(out, world, |this, world, reply| this.hello(args, world, reply))
            }
            ConnectionCommand::Auth => {
                self.answer(out, world, |this, world, reply| this.auth(args, world, reply))
            }
            ConnectionCommand::Client => {
                self.answer(out, world, |this, world, reply| this.client(args, world, reply))
            }
            ConnectionCommand::Cluster if args.is(1, "COUNTKEYSINSLOT") => {
                self.count_keys_in_slot(args, world, out)
            }
            ConnectionCommand::Cluster => {
                self.answer(out, world, |this, world, reply| this.cluster(args, world, reply))
            }
            ConnectionCommand::Keyspace => {
                self.answer(out, world, |this, world, reply| this.switch(args, world, reply))
            }
        }
    }

    /// Replies with what a method writes, or with its error.
    fn answer(
        &mut self,
        out: &mut Vec<u8>,
        world: &mut dyn ConnectionWorld,
        write: impl FnOnce(&mut Connection, &mut dyn ConnectionWorld, &mut ReplyWriter<'_>) -> Result<(), String>,
    ) {
        // In its own buffer, because the method may change the protocol version or the request for
        // replies.
        let mut bytes = Vec::new();
        let mut reply = ReplyWriter::new(&mut bytes, self.protocol);
        let result = write(self, world, &mut reply);
        match result {
            Ok(()) => self.reply(out, |reply| reply.body().extend_from_slice(&bytes)),
            Err(text) => self.reply(out, |reply| reply.error(&text)),
        }
    }
}
