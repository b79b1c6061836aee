//! `MULTI`, `EXEC`, `WATCH` and related commands.

use super::{BlockReason, CROSS_SLOT, Connection, MEMORY_FULL, NOT_YET, Spread, internal, local};
use crate::command::{CommandRow, ConnectionCommand, Executor, NO_MULTI};
use crate::limits::{QUEUED_BYTES_MAX, QUEUED_COMMANDS_MAX, WATCHED_KEYS_MAX};
use crate::parse::{ParseResult, Parser, push_command};
use crate::unit::{self, LITERAL, UnitKind};
use crate::{Args, ConnectionWorld, PartitionPlace, ReplyWriter, Ticket, Unit, UnitResult};
use zerohop_wire::ids::Timestamp;

/// The commands since `MULTI`.
#[derive(Debug, Default)]
pub(super) struct Transaction {
    /// As arrays of bulks.
    commands: Vec<u8>,
    count: usize,
    /// Some of them are executed by the connection.
    has_local: bool,
    /// The partitions of their keys, at the partition count `partitions`.
    spread: Option<Spread>,
    partitions: u32,
    /// A command was refused: `EXEC` will refuse all, and nothing more is kept.
    is_broken: bool,
    /// The limit that the transaction reached first, in words; `EXEC` repeats it.
    beyond: Option<Box<str>>,
}

impl Transaction {
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// Bytes that are kept of its commands.
    pub(super) fn bytes(&self) -> usize {
        self.commands.len()
    }

    /// A command was refused.
    pub(super) fn breaks(&mut self) {
        (self.is_broken, self.commands, self.spread) = (true, Vec::new(), None);
    }

    /// A command was refused because of a limit.
    pub(super) fn breaks_at_limit(&mut self, limit: &str) {
        if !self.is_broken {
            self.beyond = Some(limit.into());
        }
        self.breaks();
    }

    /// In words that a command of so many bytes is beyond the limits of the queue, if it is.
    fn beyond_queue(&self, more: usize) -> Option<String> {
        let (count, bytes) = (self.count, self.commands.len());
        (count >= QUEUED_COMMANDS_MAX || bytes + more > QUEUED_BYTES_MAX).then(|| {
            format!(
                "the transaction has {count} commands of {bytes} bytes, and another one of {more} bytes is beyond its limit of \
                 {QUEUED_COMMANDS_MAX} commands and {QUEUED_BYTES_MAX} bytes: use several transactions, or a pipeline without MULTI"
            )
        })
    }
}

/// The watched keys, with the versions that were seen.
#[derive(Debug, Default)]
pub(super) struct Watch {
    bytes: Vec<u8>,
    count: usize,
    spread: Option<Spread>,
    partitions: u32,
}

impl Watch {
    /// Bytes of the keys watched.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.len()
    }
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

    /// After a split, keys of one partition may be in several, or in another one.
    pub(super) fn follow_splits(&mut self, world: &dyn ConnectionWorld) {
        let (watch, transaction) = (&self.watch, self.transaction.as_ref());
        let has_any = watch.spread.is_some() || transaction.is_some_and(|one| one.spread.is_some());
        if !has_any {
            return;
        }
        let partitions = world.partitions(self.keyspace);
        if watch.spread.is_some() && watch.partitions != partitions {
            let unit = Unit { watched: &watch.bytes, ..self.build_unit(UnitKind::Transaction, &[], None) };
            let spread = self.spread_of(&unit, world);
            (self.watch.spread, self.watch.partitions) = (spread, partitions);
        }
        let Some(transaction) = &self.transaction else { return };
        if transaction.spread.is_some() && transaction.partitions != partitions {
            let unit = self.build_unit(UnitKind::Transaction, &transaction.commands, None);
            let spread = self.spread_of(&unit, world);
            if let Some(transaction) = &mut self.transaction {
                (transaction.spread, transaction.partitions) = (spread, partitions);
            }
        }
    }

    /// The partitions of a unit's keys.
    fn spread_of(&self, unit: &Unit<'_>, world: &dyn ConnectionWorld) -> Option<Spread> {
        let keyspace = self.keyspace;
        let place = |key| PartitionPlace { keyspace, partition: world.partition_of(keyspace, key) };
        let spreads = unit.keys().into_iter().map(|key| Some(Spread::One(place(key))));
        spreads.fold(None, Spread::join)
    }

    /// A command between `MULTI` and `EXEC`.
    pub(super) fn queue(
        &mut self,
        command: &'static CommandRow,
        raw: &[u8],
        args: Args<'_>,
        world: &mut dyn ConnectionWorld,
        out: &mut Vec<u8>,
    ) {
        let spread = match command.how {
            _ if command.has(NO_MULTI) => {
                return self.refuse("ERR Command not allowed inside a transaction", out);
            }
            Executor::Keyed(_) => match self.partitions_of(command, args, world) {
                Ok(spread) => Some(spread),
                Err(text) => return self.refuse(&text, out),
            },
            // It would ask all partitions.
            Executor::AllPartitions(_) => return self.refuse(CROSS_SLOT, out),
            Executor::Special(ConnectionCommand::AskingRedirect | ConnectionCommand::Unwatch)
            | Executor::Local(_) => None,
            Executor::Special(ConnectionCommand::Client | ConnectionCommand::Cluster)
                if is_informational(args) =>
            {
                None
            }
            Executor::Special(_) => return self.refuse("ERR Command not allowed inside a transaction", out),
        };
        if spread.is_some()
            && let Err(failure) = world.permits(self.keyspace, command.is_write())
        {
            // `EXEC` would refuse it, so it is refused now.
            let protocol = self.protocol;
            let mut error = Vec::new();
            ReplyWriter::new(&mut error, protocol).failure(&failure);
            self.transaction.iter_mut().for_each(Transaction::breaks);
            return self.reply(out, |reply| reply.body().extend_from_slice(&error));
        }
        self.follow_splits(world);
        let is_local = spread.is_none();
        let joined = Spread::join(spread, self.exec_spread());
        if joined == Some(Spread::Several) && !self.may_be_cross_partition(world) {
            return self.refuse(self.cross_slot(world), out);
        }
        let buffered = self.buffered_bytes() + raw.len();
        let Some(transaction) = &mut self.transaction else { return };
        if transaction.is_broken {
            transaction.count += 1;
            return self.reply(out, |reply| reply.simple("QUEUED"));
        }
        if let Some(limit) = transaction.beyond_queue(raw.len()) {
            return self.refuse_at_limit(&format!("ERR {limit}"), out);
        }
        if !world.may_buffer(buffered) {
            return self.refuse_at_limit(MEMORY_FULL, out);
        }
        transaction.spread = Spread::join(transaction.spread, spread);
        transaction.partitions = world.partitions(self.keyspace);
        transaction.has_local |= is_local;
        transaction.count += 1;
        transaction.commands.extend_from_slice(raw);
        self.reply(out, |reply| reply.simple("QUEUED"));
    }

    /// The partitions of the queued commands' keys and of the watched keys.
    pub(super) fn exec_spread(&self) -> Option<Spread> {
        let queued = self.transaction.as_ref().and_then(|transaction| transaction.spread);
        Spread::join(queued, self.watch.spread)
    }

    /// Whether a unit of this connection may have keys in several partitions.
    fn may_be_cross_partition(&self, world: &dyn ConnectionWorld) -> bool {
        world.serves_cross_partition() && !self.is_cluster_aware
    }

    /// The error for keys in several partitions where these are not allowed.
    pub(super) fn cross_slot(&self, world: &dyn ConnectionWorld) -> &'static str {
        if world.serves_cross_partition_soon() && !self.is_cluster_aware { NOT_YET } else { CROSS_SLOT }
    }

    pub(super) fn exec(&mut self, world: &mut dyn ConnectionWorld, out: &mut Vec<u8>) {
        self.follow_splits(world);
        let Some(transaction) = self.transaction.take() else {
            return self.reply(out, |reply| reply.error("ERR EXEC without MULTI"));
        };
        let watch = std::mem::take(&mut self.watch);
        if transaction.is_broken {
            let text = "EXECABORT Transaction discarded because of previous errors.";
            let Some(limit) = transaction.beyond else { return self.reply(out, |reply| reply.error(text)) };
            return self.reply(out, |reply| reply.error(&format!("{text} Nothing was done: {limit}")));
        }
        let Some(spread) = Spread::join(transaction.spread, watch.spread) else {
            // Nothing in it needs a partition.
            return self.reply_without_partition(&transaction, world, out);
        };
        if spread == Spread::Several && !self.may_be_cross_partition(world) {
            return self.reply_cross_slot(world, out);
        }
        let commands = if transaction.has_local {
            self.with_replies(&transaction.commands, world)
        } else {
            transaction.commands
        };
        let unit = Unit { watched: &watch.bytes, ..self.build_unit(UnitKind::Transaction, &commands, None) };
        self.run(spread, &unit, false, world, out);
    }

    fn reply_cross_slot(&mut self, world: &dyn ConnectionWorld, out: &mut Vec<u8>) {
        let text = self.cross_slot(world);
        self.reply(out, |reply| reply.error(text));
    }

    fn reply_without_partition(
        &mut self,
        transaction: &Transaction,
        world: &mut dyn ConnectionWorld,
        out: &mut Vec<u8>,
    ) {
        let mut bytes = Vec::new();
        ReplyWriter::new(&mut bytes, self.protocol).array(transaction.count);
        self.each_queued(&transaction.commands, |this, _, args| this.local_reply(args, world, &mut bytes));
        self.reply(out, |reply| reply.body().extend_from_slice(&bytes));
    }

    /// The commands, with finished replies in place of the connection's own commands.
    fn with_replies(&mut self, commands: &[u8], world: &mut dyn ConnectionWorld) -> Vec<u8> {
        let mut all = Vec::with_capacity(commands.len());
        self.each_queued(commands, |this, raw, args| {
            if CommandRow::find(args.at(0)).is_some_and(|command| matches!(command.how, Executor::Keyed(_))) {
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
        while let ParseResult::Command { used } = parser.parse(rest) {
            let (raw, behind) = rest.split_at(used);
            each(self, raw, Args::within(raw, &parser.argument_ranges));
            rest = behind;
        }
    }

    fn local_reply(&mut self, args: Args<'_>, world: &mut dyn ConnectionWorld, reply: &mut Vec<u8>) {
        let begin = reply.len();
        let mut writer = ReplyWriter::new(reply, self.protocol);
        let result = match CommandRow::find(args.at(0)).map(|command| command.how) {
            Some(Executor::Local(local)) => local::reply(local, self.keyspace, args, world, &mut writer),
            Some(Executor::Special(ConnectionCommand::Client)) => self.client(args, world, &mut writer),
            Some(Executor::Special(ConnectionCommand::Cluster)) => self.cluster(args, world, &mut writer),
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

    pub(super) fn watch(&mut self, args: Args<'_>, world: &mut dyn ConnectionWorld, out: &mut Vec<u8>) {
        if self.transaction.is_some() {
            return self.reply(out, |reply| reply.error("ERR WATCH inside MULTI is not allowed"));
        }
        let Some(command) = CommandRow::find(b"watch") else { return };
        let spread = match self.partitions_of(command, args, world) {
            Ok(spread) => spread,
            Err(text) => return self.reply(out, |reply| reply.error(&text)),
        };
        self.follow_splits(world);
        let joined = Spread::join(Some(spread), self.watch.spread);
        if joined == Some(Spread::Several) && !self.may_be_cross_partition(world) {
            return self.reply_cross_slot(world, out);
        }
        if self.watch.count + args.len() - 1 > WATCHED_KEYS_MAX {
            let count = self.watch.count + args.len() - 1;
            let text =
                format!("ERR {count} keys would be watched, {WATCHED_KEYS_MAX} are allowed: watch fewer");
            return self.reply(out, |reply| reply.error(&text));
        }
        let mut keys = Vec::new();
        push_command(&mut keys, &mut Vec::new(), args.iter());
        if !world.may_buffer(self.buffered_bytes() + keys.len()) {
            return self.reply(out, |reply| reply.error(MEMORY_FULL));
        }
        let number = self.pending.number();
        let unit = self.build_unit(UnitKind::Watch, &keys, None);
        let mut part = Vec::new();
        let (ticket, keyspace) = (Ticket { number, part: 0 }, self.keyspace);
        let ran = match spread {
            Spread::One(place) => world.run(place, ticket, &unit, &mut part),
            Spread::Several => world.run_over(keyspace, ticket, &unit, &mut part),
        };
        let partitions = world.partitions(keyspace);
        match ran {
            UnitResult::Done => {
                let text = self.watched(&keys, (spread, partitions), &part);
                self.reply(out, |reply| reply.body().extend_from_slice(&text));
            }
            UnitResult::Later => {
                self.pending.push(number, self.silent, 0);
                self.blocked = Some((number, BlockReason::Watch { keys, spread, partitions }));
            }
        }
    }

    /// The versions of watched keys have arrived, or an error. Returns the client's reply.
    pub(super) fn watched(
        &mut self,
        keys: &[u8],
        (spread, partitions): (Spread, u32),
        part: &[u8],
    ) -> Vec<u8> {
        let Some(mut versions) = internal(part) else { return part.to_vec() };
        let mut parser = Parser::default();
        parser.parse(keys);
        for key in Args::within(keys, &parser.argument_ranges).iter().skip(1) {
            let Some((version, rest)) = versions.split_first_chunk::<8>() else { break };
            versions = rest;
            // A key that is watched twice is also compared with the version seen first.
            unit::push_watched(&mut self.watch.bytes, key, Timestamp(u64::from_le_bytes(*version)));
            self.watch.count += 1;
        }
        // No command came meanwhile; a split of the keyspace is noticed when the watch is used.
        let is_of_one_map = self.watch.spread.is_none() || self.watch.partitions == partitions;
        self.watch.spread = Spread::join(self.watch.spread, Some(spread));
        self.watch.partitions = if is_of_one_map { partitions } else { 0 };
        b"+OK\r\n".to_vec()
    }
}

/// Whether a subcommand of `CLIENT` or `CLUSTER` only returns information, without asking a
/// partition. It may then wait until `EXEC`, which may fail.
fn is_informational(args: Args<'_>) -> bool {
    let names = ["ID", "GETNAME", "INFO", "LIST", "MYID", "KEYSLOT", "SLOTS", "SHARDS", "NODES"];
    names.iter().any(|name| args.is(1, name))
}
