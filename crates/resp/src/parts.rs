//! Commands with more keys than one step may have: executed in parts, or refused.
//!
//! | command | beyond the limit |
//! | --- | --- |
//! | `MGET`, `EXISTS`, `TOUCH` | read in parts, each at a time of its own |
//! | `DEL`, `UNLINK` | executed in parts, each of them atomic |
//! | `MSET`, `MSETNX` | refused, because they must be atomic |
//!
//! In one partition each part is a step, and the instance serves others in between. Over several
//! partitions each part is a transaction of the gateway, and a few are under way at a time. The
//! connection requests them (`connection::steps`).

use crate::args::ArgumentSpan;
use crate::command::CommandRow;
use crate::limits::{
    CHECKED_KEYS_MAX, PAGE_BYTES, PART_KEYS_MAX, REPLY_BYTES_MAX, SET_KEYS_MAX, SPANNING_PART_KEYS_MAX,
};
use crate::number::integer;
use crate::parse::{ParseResult, Parser, push_command};
use crate::unit::UnitKind;
use crate::{Args, Protocol, ReplyWriter, Unit};

/// How a command of many keys is executed.
#[derive(Debug)]
pub enum Shares {
    /// In one step.
    SingleStep,
    /// As these units. [`JoinedReplies`] joins their replies, in their order.
    Parts(Vec<Vec<u8>>, JoinedReplies),
    /// Not at all; its reply is this error.
    Refused(String),
}

/// The joined replies to the parts of a command.
#[derive(Debug)]
pub struct JoinedReplies {
    name: &'static str,
    is_list: bool,
    keys: usize,
    sum: i64,
    items: Vec<u8>,
    parts: usize,
    /// Keys of the list that have their items; for others, those of parts behind one that failed.
    counted_keys: usize,
}

impl Unit<'_> {
    /// How this unit, with keys in several partitions, is executed.
    #[must_use]
    pub fn shares(&self) -> Shares {
        self.shared("in several partitions", CHECKED_KEYS_MAX, SPANNING_PART_KEYS_MAX)
    }

    /// How this unit, with keys in one partition, is executed.
    pub(crate) fn steps(&self) -> Shares {
        self.shared("in one partition", SET_KEYS_MAX, PART_KEYS_MAX)
    }

    /// This unit of one command with many keys, encoded, without its first `count` keys.
    pub(crate) fn without_keys(&self, count: usize) -> Vec<u8> {
        let mut parser = Parser::default();
        let mut unit = Vec::new();
        if matches!(parser.parse(self.commands), ParseResult::Command { .. }) {
            let args = Args::within(self.commands, &parser.argument_ranges);
            self.of_keys(args, 1 + count, args.len(), &mut unit);
        }
        unit
    }

    fn of_keys(&self, args: Args<'_>, begin: usize, end: usize, into: &mut Vec<u8>) {
        let part = args.part(begin, end);
        let words: Vec<&[u8]> = std::iter::once(args.at(0)).chain(part.iter()).collect();
        let (mut commands, mut spans) = (Vec::new(), Vec::<ArgumentSpan>::new());
        push_command(&mut commands, &mut spans, words.into_iter());
        Unit { commands: &commands, parsed: None, ..*self }.encode(into);
    }

    fn shared(&self, place: &str, checked_keys: usize, list_keys: usize) -> Shares {
        let mut parser = Parser::default();
        if self.kind != UnitKind::One || !matches!(parser.parse(self.commands), ParseResult::Command { .. }) {
            return Shares::SingleStep;
        }
        let args = Args::within(self.commands, &parser.argument_ranges);
        let Some(command) = CommandRow::find(args.at(0)) else { return Shares::SingleStep };
        let (keys, step) = (args.len().saturating_sub(1), usize::from(command.keys.step.unsigned_abs()));
        let keys = keys / step.max(1);
        let refused = |limit: usize| {
            let name = command.name.to_ascii_uppercase();
            Shares::Refused(format!(
                "ERR {name} of {keys} keys {place}, {limit} are allowed, as it is one step: send several of fewer keys; nothing was done"
            ))
        };
        match command.name {
            "mset" if keys > SET_KEYS_MAX => refused(SET_KEYS_MAX),
            "msetnx" if keys > checked_keys => refused(checked_keys),
            "mget" | "exists" | "touch" | "del" | "unlink" if keys > PART_KEYS_MAX => {
                let (name, is_list) = (command.name, command.name == "mget");
                let part_keys = if is_list { list_keys } else { PART_KEYS_MAX };
                let units = (1..args.len()).step_by(part_keys).map(|begin| {
                    let mut unit = Vec::new();
                    self.of_keys(args, begin, begin + part_keys, &mut unit);
                    unit
                });
                Shares::Parts(
                    units.collect(),
                    JoinedReplies {
                        name,
                        is_list,
                        keys,
                        sum: 0,
                        items: Vec::new(),
                        parts: 0,
                        counted_keys: 0,
                    },
                )
            }
            _ => Shares::SingleStep,
        }
    }
}

impl JoinedReplies {
    /// Adds the reply to the next part.
    ///
    /// # Errors The reply to the whole command: a part has failed, or the whole is too long. No
    /// more parts follow.
    pub fn add_reply(&mut self, reply: &[u8]) -> Result<(), Vec<u8>> {
        self.add(reply).map_err(|failed| self.failed(&failed))
    }

    /// Same as [`Self::add_reply`], but the error is what [`Self::failed`] makes the reply of.
    pub(crate) fn add(&mut self, reply: &[u8]) -> Result<(), Vec<u8>> {
        let line = reply.iter().position(|byte| *byte == b'\n').map_or(reply.len(), |end| end + 1);
        let number = reply.get(1..line.saturating_sub(2)).and_then(integer).unwrap_or(0);
        match reply.first() {
            Some(b'*') if self.is_list => {
                self.items.extend_from_slice(&reply[line..]);
                self.counted_keys += usize::try_from(number).unwrap_or(0);
            }
            Some(b':') => self.sum = self.sum.saturating_add(number),
            _ => return Err(reply.to_vec()),
        }
        self.parts += 1;
        // A connection has sent all but a page of what came before.
        if self.items.len() > REPLY_BYTES_MAX + PAGE_BYTES {
            return Err(error(&format!(
                "ERR the reply of one command over several partitions has a limit of {} MiB ({REPLY_BYTES_MAX} bytes), and this one would be \
                 longer: name fewer keys at once; nothing was changed",
                REPLY_BYTES_MAX >> 20
            )));
        }
        Ok(())
    }

    /// Counts what a part has done that was under way when one before it failed.
    pub(crate) fn add_behind_failure(&mut self, reply: &[u8], keys: usize) {
        if !self.is_list
            && let Some(number) = reply.strip_prefix(b":").and_then(|rest| rest.strip_suffix(b"\r\n"))
        {
            self.sum = self.sum.saturating_add(integer(number).unwrap_or(0));
            self.counted_keys += keys;
        }
    }

    /// Whether its reply is an array, which may be sent in pieces.
    pub(crate) fn is_list(&self) -> bool {
        self.is_list
    }

    /// Moves the collected part of an array to `into`, after its head if this `is_first`.
    pub(crate) fn piece(&mut self, is_first: bool, protocol: Protocol, into: &mut Vec<u8>) {
        if is_first {
            ReplyWriter::new(into, protocol).array(self.keys);
        }
        into.append(&mut self.items);
    }

    /// Bytes that it keeps.
    pub(crate) fn bytes(&self) -> usize {
        self.items.len()
    }

    /// The reply to the whole command, once all parts are executed.
    pub fn reply(self, protocol: Protocol, into: &mut Vec<u8>) {
        let mut writer = ReplyWriter::new(into, protocol);
        if self.is_list {
            writer.array(self.keys);
            into.extend_from_slice(&self.items);
        } else {
            writer.integer(self.sum);
        }
    }

    /// The keys whose parts are executed.
    fn done_keys(&self) -> usize {
        self.counted_keys + if self.is_list { 0 } else { (self.parts * PART_KEYS_MAX).min(self.keys) }
    }

    /// The error after a failed part. If a command removes, it says that other parts have been
    /// executed.
    pub(crate) fn failed(&self, reply: &[u8]) -> Vec<u8> {
        let done = self.done_keys();
        if done == 0 || !matches!(self.name, "del" | "unlink") {
            return reply.to_vec();
        }
        let text = String::from_utf8_lossy(reply.strip_prefix(b"-").unwrap_or(reply));
        let name = self.name.to_ascii_uppercase();
        let first = if self.counted_keys == 0 { "the first " } else { "" };
        error(&format!(
            "ERR {name} is done for {first}{done} of its {} keys, and not for all others, of which {} were removed: repeat it ({})",
            self.keys,
            self.sum,
            text.trim_end()
        ))
    }

    /// The error after the time-out of the whole command.
    pub(crate) fn timed_out(&self, limit_ms: u64) -> Vec<u8> {
        let (name, done, keys) = (self.name.to_ascii_uppercase(), self.done_keys(), self.keys);
        let advice =
            format!("name fewer keys at once, or allow more than {limit_ms} ms with --redis-timeout");
        match self.name {
            "del" | "unlink" => {
                self.failed(error(&format!("TRYAGAIN its time is over: {advice}")).as_slice())
            }
            _ => error(&format!(
                "ERR {name} has read {done} of its {keys} keys, and its time is over: {advice}; nothing was changed"
            )),
        }
    }
}

fn error(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    ReplyWriter::new(&mut bytes, Protocol::Resp2).error(text);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(name: &str, args: usize) -> Shares {
        let words: Vec<Vec<u8>> = std::iter::once(name.as_bytes().to_vec())
            .chain((0..args).map(|n| n.to_string().into_bytes()))
            .collect();
        let mut commands = Vec::new();
        push_command(&mut commands, &mut Vec::new(), words.iter().map(Vec::as_slice));
        let (kind, protocol) = (UnitKind::One, Protocol::Resp2);
        Unit { kind, protocol, wait_until_ms: None, watched: &[], commands: &commands, parsed: None }.shares()
    }

    fn keys(unit: &[u8]) -> usize {
        Unit::decode(unit).unwrap().keys().len()
    }

    #[test]
    fn many_keys_are_shared_out_or_refused_by_name_and_limit() {
        for name in ["mget", "exists", "TOUCH", "del", "UNLINK"] {
            assert!(matches!(shares(name, PART_KEYS_MAX), Shares::SingleStep));
            if name == "mget" {
                let Shares::Parts(units, _) = shares(name, PART_KEYS_MAX + 1) else { panic!("{name}") };
                let keys = units.iter().map(|unit| Unit::decode(unit).unwrap().one_keys());
                assert_eq!(keys.collect::<Vec<_>>(), [256, 256, 256, 256, 1]);
                continue;
            }
            let Shares::Parts(units, _) = shares(name, 2 * PART_KEYS_MAX + 1) else { panic!("{name}") };
            assert_eq!(
                units.iter().map(|unit| keys(unit)).collect::<Vec<_>>(),
                [PART_KEYS_MAX, PART_KEYS_MAX, 1]
            );
        }
        assert!(matches!(shares("mset", 2 * 16_384), Shares::SingleStep));
        let Shares::Refused(text) = shares("MSET", 2 * 16_385) else { panic!("it is one step") };
        assert!(
            text.starts_with("ERR MSET of 16385 keys in several partitions, 16384 are allowed"),
            "{text}"
        );
        assert!(matches!(shares("msetnx", 2 * 8_193), Shares::Refused(_)));
        assert!(matches!(shares("rename", 2), Shares::SingleStep));
    }

    #[test]
    fn part_replies_are_joined_and_failure_reports_completed_keys() {
        let Shares::Parts(_, mut joined) = shares("mget", PART_KEYS_MAX + 1) else { panic!("it is long") };
        joined.add_reply(b"*2\r\n$1\r\na\r\n$-1\r\n").unwrap();
        joined.add_reply(b"*1\r\n$1\r\nb\r\n").unwrap();
        let mut reply = Vec::new();
        joined.reply(Protocol::Resp2, &mut reply);
        assert_eq!(reply, b"*1025\r\n$1\r\na\r\n$-1\r\n$1\r\nb\r\n");
        for name in ["del", "exists"] {
            let Shares::Parts(_, mut joined) = shares(name, PART_KEYS_MAX + 1) else { panic!("it is long") };
            joined.add_reply(b":1000\r\n").unwrap();
            let refusal =
                String::from_utf8(joined.add_reply(b"-TRYAGAIN it is busy\r\n").unwrap_err()).unwrap();
            if name == "del" {
                assert!(
                    refusal.starts_with("-ERR DEL is done for the first 1024 of its 1025 keys"),
                    "{refusal}"
                );
                assert!(refusal.ends_with("(TRYAGAIN it is busy)\r\n"), "{refusal}");
            } else {
                assert_eq!(refusal, "-TRYAGAIN it is busy\r\n");
            }
            joined.add_reply(b":1\r\n").unwrap();
            let mut reply = Vec::new();
            joined.reply(Protocol::Resp2, &mut reply);
            assert_eq!(reply, b":1001\r\n");
        }
    }
}
