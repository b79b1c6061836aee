//! The bytes of the commands that Redis clients send.

use crate::redis::{KeyspaceListing, REPEATS, RedisCommand, RedisKey, RedisStep, long_bytes, token_bytes};

pub(super) fn add_command(out: &mut Vec<u8>, words: &[&[u8]]) {
    out.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
    for word in words {
        out.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
}

fn add_step(out: &mut Vec<u8>, names: &[String; 3], step: RedisStep) {
    let key = names[step.key() as usize].as_bytes();
    match step {
        RedisStep::Set(token) => add_command(out, &[b"SET", key, &token_bytes(token)]),
        RedisStep::SetLong(token) => add_command(out, &[b"SET", key, &long_bytes(token)]),
        RedisStep::Append(token) => add_command(out, &[b"APPEND", key, &token_bytes(token)]),
        RedisStep::Get | RedisStep::GetCounter => add_command(out, &[b"GET", key]),
        RedisStep::GetDel => add_command(out, &[b"GETDEL", key]),
        RedisStep::SetCounter(number) => add_command(out, &[b"SET", key, number.to_string().as_bytes()]),
        RedisStep::Incr => add_command(out, &[b"INCR", key]),
        RedisStep::Push(token) => add_command(out, &[b"RPUSH", key, &token_bytes(token)]),
        RedisStep::PushMany(_) => {
            let values = step.values();
            let words: Vec<&[u8]> =
                [&b"RPUSH"[..], key].into_iter().chain(values.iter().map(Vec::as_slice)).collect();
            add_command(out, &words);
        }
        RedisStep::Range => add_command(out, &[b"LRANGE", key, b"0", b"-1"]),
        RedisStep::DelList => add_command(out, &[b"DEL", key]),
    }
}

/// `MULTI`, the commands and `EXEC`.
fn add_transaction(out: &mut Vec<u8>, names: &[String; 3], steps: &[RedisStep]) {
    add_command(out, &[b"MULTI"]);
    steps.iter().for_each(|step| add_step(out, names, *step));
    add_command(out, &[b"EXEC"]);
}

/// Adds a command. Returns what follows once its first reply has come, if it `rests` there.
pub(super) fn add_whole(
    out: &mut Vec<u8>,
    names: &[String; 3],
    command: &RedisCommand,
    rests: bool,
) -> Option<Vec<u8>> {
    match command {
        RedisCommand::Ping(token) => add_command(out, &[b"ECHO", token.to_string().as_bytes()]),
        RedisCommand::One(step) => add_step(out, names, *step),
        RedisCommand::Transaction(steps) => add_transaction(out, names, steps),
        RedisCommand::Watched(steps) => {
            add_command(out, &[b"WATCH", names[RedisKey::Text as usize].as_bytes()]);
            if rests {
                let mut rest = Vec::new();
                add_transaction(&mut rest, names, steps);
                return Some(rest);
            }
            add_transaction(out, names, steps);
        }
        RedisCommand::Many([RedisStep::Set(token), RedisStep::SetCounter(number)]) => {
            let (text, number) = (token_bytes(*token), number.to_string());
            add_command(out, &[b"MSET", names[0].as_bytes(), &text, names[1].as_bytes(), number.as_bytes()]);
        }
        RedisCommand::Many(_) => add_command(out, &[b"MGET", names[0].as_bytes(), names[1].as_bytes()]),
        RedisCommand::Repeated => {
            let text = names[RedisKey::Text as usize].as_bytes();
            let words: Vec<&[u8]> =
                std::iter::once(&b"MGET"[..]).chain(std::iter::repeat_n(text, REPEATS)).collect();
            add_command(out, &words);
        }
        RedisCommand::DelAll => {
            add_command(out, &[b"DEL", names[0].as_bytes(), names[1].as_bytes(), names[2].as_bytes()]);
        }
        RedisCommand::Wait { token, ms } => {
            let key = names[RedisKey::Text as usize].as_bytes();
            add_command(out, &[b"ZH.WAIT", key, &token_bytes(*token), ms.to_string().as_bytes()]);
        }
        RedisCommand::Listing(listing) => add_listing(out, *listing),
    }
    None
}

fn add_listing(out: &mut Vec<u8>, listing: KeyspaceListing) {
    match listing {
        KeyspaceListing::Keys(of) => add_command(out, &[b"KEYS", pattern_of(of)]),
        KeyspaceListing::Count => add_command(out, &[b"DBSIZE"]),
        KeyspaceListing::Page { cursor, count, of, .. } => {
            let (cursor, count) = (cursor.to_string(), count.to_string());
            let (cursor, count) = (cursor.as_bytes(), count.as_bytes());
            match of {
                Some(_) => {
                    add_command(out, &[b"SCAN", cursor, b"MATCH", pattern_of(of), b"COUNT", count]);
                }
                None => add_command(out, &[b"SCAN", cursor, b"COUNT", count]),
            }
        }
    }
}

/// The pattern for the names of these keys: see `clients.rs`.
fn pattern_of(of: Option<RedisKey>) -> &'static [u8] {
    match of {
        None => b"*",
        Some(RedisKey::Text) => b"t*",
        Some(RedisKey::Counter) => b"n*",
        Some(RedisKey::List) => b"l*",
    }
}
