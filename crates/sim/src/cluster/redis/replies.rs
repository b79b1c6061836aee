//! Replies of the Redis protocol, version 2, and what they mean for a command.

use std::collections::VecDeque;

use crate::redis::{KeyspaceListing, REPEATS, RedisCommand, RedisEnd, RedisStep, StepReply};

/// A reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RespValue {
    Status(String),
    Error(String),
    Number(i64),
    Bulk(Option<Vec<u8>>),
    Array(Option<Vec<RespValue>>),
}

/// The first reply in these bytes, and its length. `Ok(None)`: it is not complete.
///
/// # Errors
/// The bytes are not a reply.
pub(super) fn parse(bytes: &[u8]) -> Result<Option<(RespValue, usize)>, String> {
    let Some(end) = bytes.windows(2).position(|two| two == b"\r\n") else { return Ok(None) };
    let line = String::from_utf8_lossy(&bytes[1..end.max(1)]).into_owned();
    let number = || line.parse::<i64>().map_err(|_| format!("{line:?} is not a number"));
    let after = end + 2;
    let value = match bytes[0] {
        b'+' => RespValue::Status(line),
        b'-' => RespValue::Error(line),
        b':' => RespValue::Number(number()?),
        b'$' => {
            let Ok(length) = usize::try_from(number()?) else {
                return Ok(Some((RespValue::Bulk(None), after)));
            };
            if bytes.len() < after + length + 2 {
                return Ok(None);
            }
            let value = RespValue::Bulk(Some(bytes[after..after + length].to_vec()));
            return Ok(Some((value, after + length + 2)));
        }
        b'*' => {
            let Ok(count) = usize::try_from(number()?) else {
                return Ok(Some((RespValue::Array(None), after)));
            };
            let (mut values, mut used) = (Vec::new(), after);
            for _ in 0..count {
                let Some((value, length)) = parse_rest(&bytes[used..])? else { return Ok(None) };
                values.push(value);
                used += length;
            }
            return Ok(Some((RespValue::Array(Some(values)), used)));
        }
        other => return Err(format!("a reply begins with {:?}", char::from(other))),
    };
    Ok(Some((value, after)))
}

fn parse_rest(bytes: &[u8]) -> Result<Option<(RespValue, usize)>, String> {
    if bytes.is_empty() { Ok(None) } else { parse(bytes) }
}

/// The commands that an instance has accepted over a connection and has not replied to.
#[derive(Debug, Default)]
pub(super) struct OpenCommands {
    /// The first words.
    names: VecDeque<String>,
    /// The bytes of a command that is not complete, and those of a reply.
    requests: Vec<u8>,
    replied: Vec<u8>,
}

impl OpenCommands {
    /// These bytes of the client were accepted.
    pub(super) fn query(&mut self, bytes: &[u8]) {
        self.requests.extend_from_slice(bytes);
        for command in complete(&mut self.requests) {
            let name = match command {
                RespValue::Array(Some(words)) => words.into_iter().next(),
                other => Some(other),
            };
            self.names.push_back(match name {
                Some(RespValue::Bulk(Some(name))) => String::from_utf8_lossy(&name).into_owned(),
                other => format!("{other:?}"),
            });
        }
    }

    /// These bytes were sent to the client.
    pub(super) fn reply(&mut self, bytes: &[u8]) {
        self.replied.extend_from_slice(bytes);
        for _ in complete(&mut self.replied) {
            self.names.pop_front();
        }
    }

    /// The first command without a reply, unless it waits for a record: what follows it was not executed.
    pub(super) fn unanswered(&self) -> Option<&str> {
        self.names.front().map(String::as_str).filter(|name| *name != "ZH.WAIT")
    }
}

/// Takes the complete values from the front of these bytes.
fn complete(bytes: &mut Vec<u8>) -> Vec<RespValue> {
    let mut values = Vec::new();
    while !bytes.is_empty()
        && let Ok(Some((value, used))) = parse(bytes)
    {
        bytes.drain(..used);
        values.push(value);
    }
    values
}

/// The number of replies to a command.
pub(super) fn replies_to(command: &RedisCommand) -> usize {
    match command {
        RedisCommand::Transaction(steps) => steps.len() + 2,
        RedisCommand::Watched(steps) => steps.len() + 3,
        _ => 1,
    }
}

/// What the replies to a command mean.
///
/// # Errors
/// They are not replies to this command.
pub(super) fn end_of(command: &RedisCommand, replies: &[RespValue]) -> Result<RedisEnd, String> {
    let wrong = || format!("{replies:?} replies to {command:?}");
    if let RedisCommand::Watched(steps) = command {
        let (watch, replies) = replies.split_first().ok_or_else(wrong)?;
        let is_watched = match watch {
            RespValue::Status(text) if text == "OK" => true,
            RespValue::Error(_) => false,
            _ => return Err(wrong()),
        };
        let is_aborted = matches!(replies.last(), Some(RespValue::Array(None)));
        let end = match is_aborted {
            true if is_watched => return Ok(RedisEnd::Aborted),
            true => return Err(wrong()),
            false => end_of(&RedisCommand::Transaction(steps.clone()), replies)?,
        };
        return Ok(match end {
            RedisEnd::Done(replies) if !is_watched => RedisEnd::Unwatched(replies),
            end => end,
        });
    }
    let Some((last, before)) = replies.split_last() else { return Err(wrong()) };
    if let RedisCommand::Transaction(_) = command {
        let is_as_due = |(at, reply): (usize, &RespValue)| match reply {
            RespValue::Status(text) => text == if at == 0 { "OK" } else { "QUEUED" },
            RespValue::Error(_) => at > 0,
            _ => false,
        };
        if !before.iter().enumerate().all(is_as_due) {
            return Err(wrong());
        }
    }
    if let RespValue::Error(text) = last {
        // The gateway's words for an unknown outcome, and those of a disk that has failed.
        let is_unknown = text.contains("outcome unknown") || text.starts_with("MISCONF");
        return match is_unknown {
            true => Ok(RedisEnd::Unknown),
            false if text.starts_with("ERR wrong") || text.starts_with("ERR unknown") => Err(wrong()),
            false => Ok(RedisEnd::NotDone(text.clone())),
        };
    }
    let done = match (command, last) {
        (RedisCommand::Ping(token), RespValue::Bulk(Some(bytes)))
            if *bytes == token.to_string().as_bytes() =>
        {
            Some(Vec::new())
        }
        (RedisCommand::One(step), value) => step_reply(*step, value).map(|reply| vec![reply]),
        (RedisCommand::Repeated, RespValue::Array(Some(values))) if values.len() == REPEATS => {
            let first = step_reply(RedisStep::Get, &values[0]);
            if let Some(differs) = values.iter().position(|value| *value != values[0]) {
                let shown = |value: &RespValue| format!("{value:.60?}");
                return Err(format!(
                    "one long reply shows two moments: {}, and {} at {differs}",
                    shown(&values[0]),
                    shown(&values[differs])
                ));
            }
            first.map(|reply| vec![reply])
        }
        (RedisCommand::Listing(listing), value) => listing_reply(*listing, value),
        (RedisCommand::DelAll, RespValue::Number(number)) => Some(vec![StepReply::Number(*number)]),
        (RedisCommand::Many(steps), RespValue::Status(text)) if steps[0].is_write() && text == "OK" => {
            Some(vec![StepReply::Ok; steps.len()])
        }
        (RedisCommand::Many(steps), RespValue::Array(Some(values)))
            if !steps[0].is_write() && steps.len() == values.len() =>
        {
            steps.iter().zip(values).map(|(step, value)| step_reply(*step, value)).collect()
        }
        (RedisCommand::Wait { .. }, RespValue::Number(number @ (0 | 1))) => {
            Some(vec![StepReply::Number(*number)])
        }
        (RedisCommand::Transaction(steps), RespValue::Array(Some(values))) if steps.len() == values.len() => {
            steps.iter().zip(values).map(|(step, value)| step_reply(*step, value)).collect()
        }
        _ => None,
    };
    done.map(RedisEnd::Done).ok_or_else(wrong)
}

fn step_reply(step: RedisStep, value: &RespValue) -> Option<StepReply> {
    match (step, value) {
        (RedisStep::Set(_) | RedisStep::SetLong(_) | RedisStep::SetCounter(_), RespValue::Status(text))
            if text == "OK" =>
        {
            Some(StepReply::Ok)
        }
        (
            RedisStep::Append(_)
            | RedisStep::Incr
            | RedisStep::Push(_)
            | RedisStep::PushMany(_)
            | RedisStep::DelList,
            RespValue::Number(number),
        ) => Some(StepReply::Number(*number)),
        (RedisStep::Get | RedisStep::GetDel | RedisStep::GetCounter, RespValue::Bulk(bulk)) => {
            Some(bulk.clone().map_or(StepReply::Nil, StepReply::Bytes))
        }
        (RedisStep::Range, value) => list_reply(value),
        _ => None,
    }
}

fn list_reply(value: &RespValue) -> Option<StepReply> {
    let RespValue::Array(Some(values)) = value else { return None };
    let bytes = values.iter().map(|value| match value {
        RespValue::Bulk(Some(bytes)) => Some(bytes.clone()),
        _ => None,
    });
    bytes.collect::<Option<Vec<_>>>().map(StepReply::List)
}

fn listing_reply(listing: KeyspaceListing, value: &RespValue) -> Option<Vec<StepReply>> {
    match (listing, value) {
        (KeyspaceListing::Keys(_), value) => Some(vec![list_reply(value)?]),
        (KeyspaceListing::Count, RespValue::Number(number)) => Some(vec![StepReply::Number(*number)]),
        (KeyspaceListing::Page { .. }, RespValue::Array(Some(values))) => {
            let [RespValue::Bulk(Some(cursor)), keys] = &values[..] else { return None };
            let cursor = std::str::from_utf8(cursor).ok()?.parse().ok()?;
            Some(vec![StepReply::Number(cursor), list_reply(keys)?])
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepted_commands_are_open_until_their_replies() {
        let mut open = OpenCommands::default();
        open.query(b"*1\r\n$4\r\nINCR\r\n*1\r\n$7\r\nZH.W");
        assert_eq!(open.unanswered(), Some("INCR"));
        open.query(b"AIT\r\n*1\r\n$3\r\nGET\r\n");
        open.reply(b":5\r");
        assert_eq!(open.unanswered(), Some("INCR"));
        open.reply(b"\n");
        assert_eq!(open.unanswered(), None, "it waits");
        open.reply(b":1\r\n");
        assert_eq!(open.unanswered(), Some("GET"));
    }

    #[test]
    fn replies_are_parsed_and_matched_with_their_command() {
        let text = b"*2\r\n$3\r\n<1>\r\n$-1\r\n:5\r\n";
        let (value, used) = parse(text).unwrap().unwrap();
        let values = vec![RespValue::Bulk(Some(b"<1>".to_vec())), RespValue::Bulk(None)];
        assert_eq!((value, used), (RespValue::Array(Some(values)), 18));
        assert_eq!(parse(&text[18..]).unwrap(), Some((RespValue::Number(5), 4)));
        assert!((0..18).all(|cut| cut == 0 || parse(&text[..cut]).unwrap().is_none()));
        let incr = RedisCommand::One(RedisStep::Incr);
        assert_eq!(end_of(&incr, &[RespValue::Number(3)]), Ok(RedisEnd::Done(vec![StepReply::Number(3)])));
        assert!(end_of(&incr, &[RespValue::Status("OK".to_owned())]).is_err());
        assert!(end_of(&RedisCommand::Ping(7), &[RespValue::Bulk(Some(b"8".to_vec()))]).is_err());
    }
}
