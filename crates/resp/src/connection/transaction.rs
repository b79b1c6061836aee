//! `MULTI`, `EXEC`, `WATCH` and what belongs to them.

use super::{Blocked, CROSS_SLOT, Connection, Special, internal, local};
use crate::command::{Command, How, NO_MULTI};
use crate::execute::LITERAL;
use crate::limits::{QUEUED_BYTES_MAX, QUEUED_COMMANDS_MAX, WATCHED_KEYS_MAX};
use crate::parse::{Parsed, Parser, push_command};
use crate::unit::{self, Kind};
use crate::{Args, Place, Ran, ReplyWriter, Ticket, Unit, World};
use zerohop_wire::ids::Timestamp;

/// The commands since `MULTI`.
#[derive(Debug, Default)]
pub(super) struct Transaction {
    /// As arrays of bulks.
    commands: Vec<u8>,
    count: usize,
    /// Some of them are the connection's own.
    has_local: bool,
    /// The partition of their keys.
    place: Option<Place>,
    /// A command was refused: `EXEC` will refuse all.
    pub(super) is_broken: bool,
}

impl Transaction {
    pub(super) fn len(&self) -> usize {
        self.count
    }
}

/// The keys watched, with the versions that were seen.
#[derive(Debug, Default)]
pub(super) struct Watch {
    bytes: Vec<u8>,
    count: usize,
    place: Option<Place>,
}

impl Connection {
    pub(super) fn multi(&mut self, out: &mut Vec<u8>) {
        if self.transaction.is_some() {
            return self.reply(out, |reply| reply.error("ERR MULTI calls can not be nested"));
        }
        self.transaction = Some(Transaction::default());
        self.reply(out, |reply| reply.ok());
    }

    pub(super) fn discard(&mut self, out: &mut Vec<u8>) {
        if self.transaction.take().is_none() {
            return self.reply(out, |reply| reply.error("ERR DISCARD without MULTI"));
        }
        self.watch = Watch::default();
        self.reply(out, |reply| reply.ok());
    }

    /// A command between `MULTI` and `EXEC`.
    pub(super) fn queue(
        &mut self,
        command: &'static Command,
        raw: &[u8],
        args: Args<'_>,
        world: &mut dyn World,
        out: &mut Vec<u8>,
    ) {
        let place = match command.how {
            _ if command.has(NO_MULTI) => {
                return self.refuse("ERR Command not allowed inside a transaction", out);
            }
            How::Keyed(_) => match self.place_of(command, args, world) {
                Ok(place) => Some(place),
                Err(text) => return self.refuse(&text, out),
            },
            // It would ask all partitions.
            How::Gather(_) => return self.refuse(CROSS_SLOT, out),
            How::Special(Special::Asking | Special::Unwatch) | How::Local(_) => None,
            How::Special(Special::Client | Special::Cluster) if only_tells(args) => None,
            How::Special(_) => return self.refuse("ERR Command not allowed inside a transaction", out),
        };
        let watched = self.watch.place;
        let Some(transaction) = &mut self.transaction else { return };
        let bound = transaction.place.or(watched);
        if place.is_some() && bound.is_some() && place != bound {
            return self.refuse(CROSS_SLOT, out);
        }
        if transaction.count >= QUEUED_COMMANDS_MAX
            || transaction.commands.len() + raw.len() > QUEUED_BYTES_MAX
        {
            return self.refuse("ERR the transaction has too many commands or bytes", out);
        }
        transaction.place = transaction.place.or(place);
        transaction.has_local |= place.is_none();
        transaction.count += 1;
        transaction.commands.extend_from_slice(raw);
        self.reply(out, |reply| reply.simple("QUEUED"));
    }

    pub(super) fn exec(&mut self, world: &mut dyn World, out: &mut Vec<u8>) {
        let Some(transaction) = self.transaction.take() else {
            return self.reply(out, |reply| reply.error("ERR EXEC without MULTI"));
        };
        let watch = std::mem::take(&mut self.watch);
        if transaction.is_broken {
            let text = "EXECABORT Transaction discarded because of previous errors.";
            return self.reply(out, |reply| reply.error(text));
        }
        let Some(place) = transaction.place.or(watch.place) else {
            // Nothing in it needs a partition.
            return self.reply_without_partition(&transaction, world, out);
        };
        let commands = if transaction.has_local {
            self.with_replies(&transaction.commands, world)
        } else {
            transaction.commands
        };
        let unit = Unit { watched: &watch.bytes, ..self.unit(Kind::Transaction, &commands, None) };
        self.run(place, &unit, false, world, out);
    }

    fn reply_without_partition(
        &mut self,
        transaction: &Transaction,
        world: &mut dyn World,
        out: &mut Vec<u8>,
    ) {
        let mut bytes = Vec::new();
        ReplyWriter::new(&mut bytes, self.protocol).array(transaction.count);
        self.each_queued(&transaction.commands, |this, _, args| this.local_reply(args, world, &mut bytes));
        self.reply(out, |reply| reply.body().extend_from_slice(&bytes));
    }

    /// The commands, but finished replies in place of the connection's own.
    fn with_replies(&mut self, commands: &[u8], world: &mut dyn World) -> Vec<u8> {
        let mut all = Vec::with_capacity(commands.len());
        self.each_queued(commands, |this, raw, args| {
            if Command::find(args.at(0)).is_some_and(|command| matches!(command.how, How::Keyed(_))) {
                all.extend_from_slice(raw);
            } else {
                let mut reply = Vec::new();
                this.local_reply(args, world, &mut reply);
                push_command(&mut all, &mut Vec::new(), [LITERAL, &reply].into_iter());
            }
        });
        all
    }

    fn each_queued(&mut self, mut rest: &[u8], mut each: impl FnMut(&mut Connection, &[u8], Args<'_>)) {
        let mut parser = Parser::default();
        while let Parsed::Command { used } = parser.parse(rest) {
            let (raw, behind) = rest.split_at(used);
            each(self, raw, Args::within(raw, &parser.spans));
            rest = behind;
        }
    }

    fn local_reply(&mut self, args: Args<'_>, world: &mut dyn World, reply: &mut Vec<u8>) {
        let begin = reply.len();
        let mut writer = ReplyWriter::new(reply, self.protocol);
        let result = match Command::find(args.at(0)).map(|command| command.how) {
            Some(How::Local(local)) => local::reply(local, self.keyspace, args, world, &mut writer),
            Some(How::Special(Special::Client)) => self.client(args, world, &mut writer),
            Some(How::Special(Special::Cluster)) => self.cluster(args, world, &mut writer),
            _ => {
                writer.ok();
                Ok(())
            }
        };
        if let Err(text) = result {
            writer.truncate(begin);
            writer.error(&text);
        }
    }

    pub(super) fn watch(&mut self, args: Args<'_>, world: &mut dyn World, out: &mut Vec<u8>) {
        if self.transaction.is_some() {
            return self.reply(out, |reply| reply.error("ERR WATCH inside MULTI is not allowed"));
        }
        let Some(command) = Command::find(b"watch") else { return };
        let place = match self.place_of(command, args, world) {
            Ok(place) if self.watch.place.is_none_or(|watched| watched == place) => place,
            Ok(_) => return self.reply(out, |reply| reply.error(CROSS_SLOT)),
            Err(text) => return self.reply(out, |reply| reply.error(&text)),
        };
        if self.watch.count + args.len() - 1 > WATCHED_KEYS_MAX {
            return self.reply(out, |reply| reply.error("ERR too many keys are watched"));
        }
        let mut keys = Vec::new();
        push_command(&mut keys, &mut Vec::new(), args.iter());
        let number = self.pending.number();
        let unit = self.unit(Kind::Watch, &keys, None);
        let mut part = Vec::new();
        match world.run(place, Ticket { number, part: 0 }, &unit, &mut part) {
            Ran::Done => {
                let text = self.watched(&keys, place, &part);
                self.reply(out, |reply| reply.body().extend_from_slice(&text));
            }
            Ran::Later => {
                self.pending.push(number, self.silent);
                self.blocked = Some((number, Blocked::Watch { keys, place }));
            }
        }
    }

    /// The versions of watched keys have come, or an error. What the client is told.
    pub(super) fn watched(&mut self, keys: &[u8], place: Place, part: &[u8]) -> Vec<u8> {
        let Some(mut versions) = internal(part) else { return part.to_vec() };
        let mut parser = Parser::default();
        parser.parse(keys);
        for key in Args::within(keys, &parser.spans).iter().skip(1) {
            let Some((version, rest)) = versions.split_first_chunk::<8>() else { break };
            versions = rest;
            // A key watched twice is compared with what was seen first too.
            unit::push_watched(&mut self.watch.bytes, key, Timestamp(u64::from_le_bytes(*version)));
            self.watch.count += 1;
        }
        self.watch.place = Some(place);
        b"+OK\r\n".to_vec()
    }
}

/// Whether a command beneath `CLIENT` or `CLUSTER` only tells something, without asking a partition: it may be put off to
/// `EXEC`, which may come to nothing.
fn only_tells(args: Args<'_>) -> bool {
    let names = ["ID", "GETNAME", "INFO", "LIST", "MYID", "KEYSLOT", "SLOTS", "SHARDS", "NODES"];
    names.iter().any(|name| args.is(1, name))
}
