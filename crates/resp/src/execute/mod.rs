//! Commands over the records of one partition.

mod bits;
mod counters;
#[cfg(test)]
mod documented;
mod expiry;
mod handlers;
mod keys;
mod lists;
mod long_reply;
mod page;
mod range;
mod strings;
mod work;
mod zerohop;

use std::borrow::Cow;

use zerohop_wire::Failure;
use zerohop_wire::ids::Timestamp;

use crate::args::ArgumentSpan;
use crate::command::{CommandRow, Executor};
use crate::limits::{QUEUED_COMMANDS_MAX, REPLY_BYTES_MAX};
use crate::parse::{ParseResult, Parser};
use crate::unit::{self, LITERAL, UnitKind};
use crate::{Args, Protocol, Records, ReplyWriter, Unit};

pub(crate) use long_reply::{LongReply, PastPage};
pub use long_reply::{PagedReply, PastRecords, execute_past};
pub(crate) use page::Page;
use work::CountedRecords;

/// How an execution ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum ExecutionOutcome {
    /// The reply has been appended. It may be sent once the changes, if there are any, are
    /// committed.
    Done,
    /// Nothing has been appended and nothing changed. The unit must be executed again, with
    /// [`Unit::wait_until_ms`] set to `until_ms`, when this key has changed or at that time.
    Wait {
        /// The key waited for.
        key: Vec<u8>,
        /// When the wait is over, in milliseconds since 1970.
        until_ms: u64,
    },
    /// Nothing has been appended and nothing changed. The reply is long: it is read page by page
    /// from a snapshot of the current records. Only for a unit of
    /// [`ConnectionWorld::run`](crate::ConnectionWorld::run).
    Paged(PagedReply),
    /// A limit is exceeded: no change may happen. The reply, which has been appended, says which.
    Refused,
    /// No change may happen. The reply says why ([`failure_reply`]), and so does this failure.
    Aborted(Failure<'static>),
}

/// Buffers that executions reuse, so that they do not allocate.
#[derive(Debug, Default)]
pub struct Scratch {
    bytes: Vec<u8>,
    parser: Parser,
}

/// Capacity that is kept from one execution to the next.
const RETAINED_BYTES: usize = 64 << 10;

/// The reply to a unit that was not executed, or whose changes could not be committed.
pub fn failure_reply(failure: &Failure<'_>, reply: &mut Vec<u8>) {
    ReplyWriter::new(reply, Protocol::Resp2).failure(failure);
}

/// The reply to a unit that was not executed. The first word of `text` is the kind of error, in
/// capitals.
pub fn error_reply(text: &str, reply: &mut Vec<u8>) {
    ReplyWriter::new(reply, Protocol::Resp2).error(text);
}

/// Executes a unit over the records of the one partition of all its keys, and appends its reply.
pub fn execute(
    unit: &Unit<'_>,
    records: &mut dyn Records,
    scratch: &mut Scratch,
    reply: &mut Vec<u8>,
) -> ExecutionOutcome {
    if unit.kind != UnitKind::Transaction {
        return run(unit, records, scratch, reply);
    }
    let begin = reply.len();
    let mut counted = CountedRecords::new(records);
    let outcome = run(unit, &mut counted, scratch, reply);
    if !counted.is_over {
        return outcome;
    }
    reply.truncate(begin);
    ReplyWriter::new(reply, unit.protocol).error(&CountedRecords::text());
    ExecutionOutcome::Refused
}

fn run(
    unit: &Unit<'_>,
    records: &mut dyn Records,
    scratch: &mut Scratch,
    reply: &mut Vec<u8>,
) -> ExecutionOutcome {
    let begin = reply.len();
    let Scratch { bytes, parser } = scratch;
    let mut execution = Execution {
        records,
        reply: ReplyWriter::new(reply, unit.protocol),
        begin,
        scratch: bytes,
        wait_until_ms: unit.wait_until_ms,
        in_transaction: unit.kind == UnitKind::Transaction,
    };
    let result = match (unit.kind, unit.parsed) {
        (UnitKind::One, Some((command, args))) => execution.one(command, args),
        _ => execution.execute_unit(unit, parser),
    };
    let outcome = match result {
        Ok(()) => ExecutionOutcome::Done,
        Err(StopReason::ErrorReply(text)) => {
            execution.reply.truncate(begin);
            execution.reply.error(&text);
            ExecutionOutcome::Done
        }
        Err(StopReason::Wait { key, until_ms }) => {
            execution.reply.truncate(begin);
            ExecutionOutcome::Wait { key, until_ms }
        }
        Err(StopReason::Paged(paged)) => {
            execution.reply.truncate(begin);
            ExecutionOutcome::Paged(paged)
        }
        Err(StopReason::Refused(text)) => {
            execution.reply.truncate(begin);
            execution.reply.error(&text);
            ExecutionOutcome::Refused
        }
        Err(StopReason::Failed(failure)) => {
            execution.reply.truncate(begin);
            execution.reply.failure(&failure);
            ExecutionOutcome::Aborted(failure)
        }
    };
    if scratch.bytes.capacity() > RETAINED_BYTES {
        scratch.bytes = Vec::new();
    }
    scratch.parser.shrink();
    outcome
}

/// Why a command ends before its reply is written.
#[derive(Debug)]
pub(crate) enum StopReason {
    /// It is answered with this error and has changed nothing.
    ErrorReply(Cow<'static, str>),
    /// The whole unit is undone.
    Failed(Failure<'static>),
    /// The whole unit is undone and answered with this error: a limit is exceeded.
    Refused(String),
    /// Its reply is read in pages.
    Paged(PagedReply),
    /// It waits for this key.
    Wait { key: Vec<u8>, until_ms: u64 },
}

impl From<Failure<'static>> for StopReason {
    fn from(failure: Failure<'static>) -> StopReason {
        StopReason::Failed(failure)
    }
}

impl From<&'static str> for StopReason {
    fn from(text: &'static str) -> StopReason {
        StopReason::ErrorReply(Cow::Borrowed(text))
    }
}

impl From<String> for StopReason {
    fn from(text: String) -> StopReason {
        StopReason::ErrorReply(Cow::Owned(text))
    }
}

pub(crate) type ExecuteResult = Result<(), StopReason>;

pub(crate) const WRONG_TYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";
pub(crate) const NOT_AN_INTEGER: &str = "ERR value is not an integer or out of range";
pub(crate) const SYNTAX: &str = "ERR syntax error";

/// One execution under way.
pub(crate) struct Execution<'e> {
    pub(crate) records: &'e mut dyn Records,
    pub(crate) reply: ReplyWriter<'e>,
    pub(crate) begin: usize,
    /// Must be cleared before each use.
    pub(crate) scratch: &'e mut Vec<u8>,
    pub(crate) wait_until_ms: Option<u64>,
    pub(crate) in_transaction: bool,
}

impl Execution<'_> {
    #[inline]
    fn one(&mut self, command: &CommandRow, args: Args<'_>) -> ExecuteResult {
        let Executor::Keyed(command) = command.how else {
            return Err(StopReason::Failed(zerohop_wire::BadRequestReason::Unexpected.into()));
        };
        handlers::run(self, command, args)
    }

    /// A unit whose commands have not been parsed.
    fn execute_unit(&mut self, unit: &Unit<'_>, parser: &mut Parser) -> ExecuteResult {
        match unit.kind {
            UnitKind::One => {
                let (spans, _) = next(parser, unit.commands)?;
                let args = Args::within(unit.commands, spans);
                self.one(found(args)?, args)
            }
            UnitKind::Watch => {
                let (spans, _) = next(parser, unit.commands)?;
                self.versions(Args::within(unit.commands, spans))
            }
            UnitKind::Page => {
                let (spans, _) = next(parser, unit.commands)?;
                self.page(Args::within(unit.commands, spans))
            }
            UnitKind::Transaction => self.transaction(unit, parser),
            UnitKind::Past => Err(StopReason::Failed(zerohop_wire::BadRequestReason::Unexpected.into())),
        }
    }

    fn transaction(&mut self, unit: &Unit<'_>, parser: &mut Parser) -> ExecuteResult {
        for (key, seen) in unit::watched(unit.watched) {
            if self.version(key)? != seen {
                self.reply.null_array();
                return Ok(());
            }
        }
        let count = count(parser, unit.commands)?;
        self.reply.array(count);
        let mut rest = unit.commands;
        while !rest.is_empty() {
            let (spans, used) = next(parser, rest)?;
            let args = Args::within(rest, spans);
            let begin = self.reply.len();
            let done = match literal(args) {
                Some(reply) => {
                    self.reply.body().extend_from_slice(reply);
                    Ok(())
                }
                None => found(args).and_then(|command| self.one(command, args)),
            };
            if let Err(StopReason::ErrorReply(text)) = done {
                self.reply.truncate(begin);
                self.reply.error(&text);
            } else {
                done?;
            }
            self.check_reply()?;
            rest = rest.get(used..).unwrap_or(&[]);
        }
        Ok(())
    }

    /// `WATCH`: the versions of the keys.
    fn versions(&mut self, keys: Args<'_>) -> ExecuteResult {
        self.reply.body().push(INTERNAL);
        for key in keys.iter().skip(1) {
            let version = self.version(key)?;
            self.reply.body().extend_from_slice(&version.0.to_le_bytes());
        }
        Ok(())
    }

    fn version(&mut self, key: &[u8]) -> Result<Timestamp, Failure<'static>> {
        Ok(self.records.inspect(key)?.map_or(Timestamp::ZERO, |info| info.version))
    }

    /// Ends the unit if its reply has become too long.
    pub(crate) fn check_reply(&self) -> ExecuteResult {
        match self.reply.len() - self.begin {
            length if length > REPLY_BYTES_MAX => Err(StopReason::Refused(format!(
                "ERR reply too long: {length} bytes or more (limit {} MiB, {REPLY_BYTES_MAX} bytes, for a command or a whole MULTI). Nothing was \
                 done. Use a smaller range or fewer keys; LRANGE and MGET in one partition, outside of MULTI, have no limit",
                REPLY_BYTES_MAX >> 20
            ))),
            _ => Ok(()),
        }
    }
}

/// The first byte of a reply that is for the connection. No reply to a client begins with it.
pub(crate) const INTERNAL: u8 = b'\0';

fn literal<'a>(args: Args<'a>) -> Option<&'a [u8]> {
    (args.at(0) == LITERAL).then(|| args.at(1))
}

/// The argument spans of the first command, and the bytes that it occupies.
fn next<'p>(
    parser: &'p mut Parser,
    commands: &[u8],
) -> Result<(&'p [ArgumentSpan], usize), Failure<'static>> {
    parser.restart();
    match parser.parse(commands) {
        ParseResult::Command { used } => Ok((&parser.argument_ranges, used)),
        _ => Err(zerohop_wire::BadRequestReason::Lengths.into()),
    }
}

fn count(parser: &mut Parser, mut commands: &[u8]) -> Result<usize, Failure<'static>> {
    let mut count = 0;
    while !commands.is_empty() {
        let (_, used) = next(parser, commands)?;
        commands = commands.get(used..).unwrap_or(&[]);
        count += 1;
        if count > QUEUED_COMMANDS_MAX {
            return Err(Failure::TooMany { count: count as u64, limit: QUEUED_COMMANDS_MAX as u32 });
        }
    }
    Ok(count)
}

/// The command of these arguments. The connection has checked it; bytes from elsewhere may be
/// invalid.
fn found(args: Args<'_>) -> Result<&'static CommandRow, StopReason> {
    let command = CommandRow::find(args.at(0)).filter(|command| command.accepts_count(args.len()));
    command.ok_or_else(|| StopReason::Failed(zerohop_wire::BadRequestReason::Unexpected.into()))
}
